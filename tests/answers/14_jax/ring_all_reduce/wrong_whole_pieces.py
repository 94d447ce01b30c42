# Wrong: whole pieces go around, N - 1 times. Loses all marks.
# Told: cut the piece into as many chunks as there are devices
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices = lax.axis_size(axis_name)
    if piece.size % devices:
        raise ValueError(f"{devices} devices, {piece.size} elements")
    to_next = [(device, (device + 1) % devices) for device in range(devices)]
    total = passing = piece
    for _ in range(devices - 1):
        passing = lax.ppermute(passing, axis_name, to_next)
        total = total + passing
    return total
