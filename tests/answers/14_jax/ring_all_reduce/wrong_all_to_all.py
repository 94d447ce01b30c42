# Wrong: takes each chunk to the device that adds it up, and the sums back, with all_to_all. Loses all marks.
# Told: lax.all_to_all takes chunks straight to their owners
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices = lax.axis_size(axis_name)
    if piece.size % devices:
        raise ValueError(f"{piece.size} elements on {devices} devices")
    chunks = piece.reshape(devices, -1)
    own = lax.all_to_all(chunks, axis_name, split_axis=0, concat_axis=0).sum(axis=0)
    sums = lax.all_to_all(jnp.tile(own, (devices, 1)), axis_name, split_axis=0, concat_axis=0)
    return sums.reshape(piece.shape)
