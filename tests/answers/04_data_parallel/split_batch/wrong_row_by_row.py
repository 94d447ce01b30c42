# Wrong: sends every row in a message of its own. Loses all marks.
# Told: every message pays for its latency
def split_batch(comm, batch):
    parts = batch.tensor_split(comm.world_size)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            for row in parts[dst]:
                comm.send(row, dst)
        return parts[0]
    part = torch.empty_like(parts[comm.rank])
    for row in part:
        comm.recv(row, 0)
    return part
