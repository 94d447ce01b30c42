# Wrong: JAX's own halves. Loses all marks.
# Told: lax.psum_scatter does the work of the first half
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices = lax.axis_size(axis_name)
    if piece.size % devices:
        raise ValueError(f"{devices} devices, {piece.size} elements")
    if devices == 1:
        return piece
    chunk = lax.psum_scatter(piece.reshape(-1), axis_name, tiled=True)
    return lax.all_gather(chunk, axis_name, tiled=True).reshape(piece.shape)
