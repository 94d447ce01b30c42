# Wrong: rank r gets rows r, r + N, r + 2N, … Loses all marks.
# Told: every N-th row was taken
def split_batch(comm, batch):
    parts = [batch[rank :: comm.world_size] for rank in range(comm.world_size)]
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
        return parts[0]
    part = torch.empty_like(parts[comm.rank])
    comm.recv(part, 0)
    return part
