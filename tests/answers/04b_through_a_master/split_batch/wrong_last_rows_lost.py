# Wrong: B // N rows for everybody: the rest is lost. Loses all marks.
# Told: leave some over
def split_batch(comm, batch):
    rows = len(batch) // comm.world_size
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(batch[dst * rows : (dst + 1) * rows], dst)
        return batch[:rows]
    part = torch.empty_like(batch[:rows])
    comm.recv(part, 0)
    return part
