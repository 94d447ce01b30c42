# Wrong: a loop that runs until a counter on the devices says so: nobody knows how often. Loses all marks.
# Told: lax.fori_loop or lax.scan, and not lax.while_loop
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if piece.size % devices:
        raise ValueError(f"{devices} devices, {piece.size} elements")
    to_next = [(device, (device + 1) % devices) for device in range(devices)]

    def more(state: tuple) -> jax.Array:
        seen, _, _ = state
        return seen.sum() < devices

    def step(state: tuple) -> tuple:
        seen, passing, total = state
        passing, seen = lax.ppermute((passing, seen), axis_name, to_next)
        return seen + 1, passing, total + passing

    return lax.while_loop(more, step, (jnp.int32(1), piece, piece))[2]
