# Wrong: lets JAX do it. Loses all marks.
# Told: lax.psum (or pmean, pmax) does the work
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices = lax.axis_size(axis_name)
    if piece.size % devices:
        raise ValueError(f"{devices} devices, {piece.size} elements")
    return lax.psum(piece, axis_name)
