# Wrong: sends each rank all that begins with its chunk; the rank keeps what it needs. Loses all marks.
# Told: Cut it first, and send each rank only its chunk
def scatter(comm, tensor, root=0):
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, comm.world_size)
    starts = [sum(len(chunk) for chunk in chunks[:rank]) for rank in range(comm.world_size)]
    if comm.rank == root:
        for dst in range(comm.world_size):
            if dst != root:
                comm.send(flat[starts[dst] :], dst)
        return chunks[root]
    rest = torch.empty_like(flat[starts[comm.rank] :])
    comm.recv(rest, root)
    return rest[: len(chunks[comm.rank])]
