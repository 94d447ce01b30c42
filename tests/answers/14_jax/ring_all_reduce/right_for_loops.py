# Right: Python loops, all steps one after the other in the program.
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    devices = lax.axis_size(axis_name)
    me = lax.axis_index(axis_name)
    if piece.size % devices != 0:
        raise ValueError(f"{piece.size} elements do not divide by {devices} devices")
    to_next = [(device, (device + 1) % devices) for device in range(devices)]
    chunks = piece.reshape(devices, -1)
    for step in range(devices - 1):
        outgoing = chunks[(me - step) % devices]
        incoming = lax.ppermute(outgoing, axis_name, to_next)
        chunks = chunks.at[(me - step - 1) % devices].add(incoming)
    for step in range(devices - 1):
        outgoing = chunks[(me + 1 - step) % devices]
        incoming = lax.ppermute(outgoing, axis_name, to_next)
        chunks = chunks.at[(me - step) % devices].set(incoming)
    return chunks.reshape(piece.shape)
