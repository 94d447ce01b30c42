# Wrong: in step s a chunk goes to the device that owns it, s places away. Loses all marks.
# Told: which is no neighbor of it in the ring
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if piece.size % devices:
        raise ValueError(f"{devices} devices, {piece.size} elements")
    chunks = piece.reshape(devices, -1)
    own = chunks[me]
    for far in range(1, devices):
        pairs = [(device, (device + far) % devices) for device in range(devices)]
        own = own + lax.ppermute(chunks[(me + far) % devices], axis_name, pairs)
    chunks = chunks.at[me].set(own)
    for far in range(1, devices):
        pairs = [(device, (device + far) % devices) for device in range(devices)]
        chunks = chunks.at[(me - far) % devices].set(lax.ppermute(own, axis_name, pairs))
    return chunks.reshape(piece.shape)
