# Wrong: changes the batch of rank 0 after it was cut. Loses all marks.
# Told: the batch on rank 0 has changed
def split_batch(comm, batch):
    parts = batch.tensor_split(comm.world_size)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
        mine = parts[0].clone()
        batch.zero_()
        return mine
    part = torch.empty_like(parts[comm.rank])
    comm.recv(part, 0)
    return part
