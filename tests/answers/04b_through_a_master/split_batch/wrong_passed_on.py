# Wrong: rank 0 sends everything to rank 1, which keeps its part and passes the rest on. Loses all marks.
# Told: it should send nothing
def split_batch(comm, batch):
    parts = list(batch.clone().tensor_split(comm.world_size))
    for part in parts[max(comm.rank, 1) :]:
        if comm.rank > 0:
            comm.recv(part, comm.rank - 1)
    for part in parts[comm.rank + 1 :]:
        comm.send(part, comm.rank + 1)
    return parts[comm.rank]
