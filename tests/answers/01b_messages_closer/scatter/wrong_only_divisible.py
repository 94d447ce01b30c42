# Wrong: all chunks have the length N // world_size. Loses all marks.
# Told: torch.tensor_split cuts 4, 3, 3
def scatter(comm, tensor, root=0):
    flat = tensor.reshape(-1)
    length = len(flat) // comm.world_size
    mine = flat.new_empty(length)
    if comm.rank == root:
        for dst in range(comm.world_size):
            if dst != root:
                comm.send(flat[dst * length : (dst + 1) * length], dst)
        return flat[root * length : (root + 1) * length]
    comm.recv(mine, root)
    return mine
