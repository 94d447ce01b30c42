# Wrong: thinks that a row is a row of a matrix. Loses the hidden marks.
# Told: a message does not fit
def split_batch(comm, batch):
    parts = batch.tensor_split(comm.world_size)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
        return parts[0]
    part = torch.empty(len(parts[comm.rank]), batch.shape[1], dtype=batch.dtype)
    comm.recv(part, 0)
    return part
