# Wrong: adds what comes in. Loses all marks.
# Told: values were added
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, next_rank, incoming, previous_rank)
    tensor += incoming
