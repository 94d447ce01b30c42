# Wrong: the loop of the master begins at rank 0. Loses all marks.
# Told: rank 0 talks to the ranks 1 to comm.world_size - 1
def split_batch(comm, batch):
    parts = batch.tensor_split(comm.world_size)
    if comm.rank == 0:
        for dst in range(comm.world_size):
            comm.send(parts[dst], dst)
        return parts[0]
    part = torch.empty_like(parts[comm.rank])
    comm.recv(part, 0)
    return part
