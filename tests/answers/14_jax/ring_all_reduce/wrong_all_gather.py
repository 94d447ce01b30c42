# Wrong: every device gets every piece, and adds them up. Loses all marks.
# Told: lax.all_gather takes every piece to every device
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices = lax.axis_size(axis_name)
    if piece.size % devices:
        raise ValueError(f"{devices} devices, {piece.size} elements")
    return lax.all_gather(piece, axis_name).sum(axis=0)
