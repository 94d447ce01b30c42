# Right: the master sends the parts one after the other.
def split_batch(comm, batch):
    parts = batch.tensor_split(comm.world_size)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
        return parts[0]
    part = torch.empty_like(parts[comm.rank])
    comm.recv(part, 0)
    return part
