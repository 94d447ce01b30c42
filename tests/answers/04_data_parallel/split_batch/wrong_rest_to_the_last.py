# Wrong: the last rank gets all rows that are left over. Loses all marks.
# Told: the first parts are one row longer
def split_batch(comm, batch):
    rows = len(batch) // comm.world_size
    ends = [rank * rows for rank in range(comm.world_size)] + [len(batch)]
    parts = [batch[start:end] for start, end in zip(ends, ends[1:])]
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
        return parts[0]
    part = torch.empty_like(parts[comm.rank])
    comm.recv(part, 0)
    return part
