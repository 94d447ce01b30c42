# Right: the last rank first, empty chunks not at all.
def scatter(comm, tensor, root=0):
    flat = tensor.flatten()
    lengths = [len(chunk) for chunk in flat.tensor_split(comm.world_size)]
    start = sum(lengths[: comm.rank])
    if comm.rank == root:
        for dst in reversed(range(comm.world_size)):
            first = sum(lengths[:dst])
            if dst != root and lengths[dst]:
                comm.send(flat[first : first + lengths[dst]], dst)
        return flat[start : start + lengths[root]]
    mine = flat.new_zeros(lengths[comm.rank])
    if lengths[comm.rank]:
        comm.recv(mine, root)
    print("rank", comm.rank, "has", len(mine))
    return mine
