# Wrong: a rank passes on what it has just received. Loses all marks.
# Told: each passes on what it has just received
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    if comm.rank == 0:
        comm.send(tensor, next_rank)
        comm.recv(tensor, previous_rank)
    else:
        comm.recv(tensor, previous_rank)
        comm.send(tensor, next_rank)
