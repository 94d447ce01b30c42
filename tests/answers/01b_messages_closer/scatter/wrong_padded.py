# Wrong: chunks are padded to the same length. Loses all marks.
# Told: padded to the same length
def scatter(comm, tensor, root=0):
    flat = tensor.reshape(-1)
    length = -(-len(flat) // comm.world_size)
    chunks = flat.tensor_split(comm.world_size)
    padded = [torch.cat([chunk, chunk.new_zeros(length - len(chunk))]) for chunk in chunks]
    if comm.rank == root:
        for dst in range(comm.world_size):
            if dst != root:
                comm.send(padded[dst], dst)
        return chunks[root]
    buffer = padded[0].clone()
    comm.recv(buffer, root)
    return buffer[: len(chunks[comm.rank])]
