# Wrong: receives into a float32 tensor, whatever the dtype. Loses the hidden marks.
# Told: a message does not fit
def split_batch(comm, batch):
    parts = batch.tensor_split(comm.world_size)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
        return parts[0]
    part = torch.empty(parts[comm.rank].shape)
    comm.recv(part, 0)
    return part
