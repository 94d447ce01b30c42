# Wrong: every rank has its rows, and returns nothing. Loses all marks.
# Told: no rank returned anything; expected its part from each
def split_batch(comm, batch):
    parts = torch.tensor_split(batch, comm.world_size)
    if comm.rank:
        part = torch.empty_like(parts[comm.rank])
        comm.recv(part, 0)
    else:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
