# Wrong: receives into the tensor that goes out. Loses all marks.
# Told: in one step a chunk leaves and another one comes in
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    comm.exchange(tensor, next_rank, tensor, previous_rank)
