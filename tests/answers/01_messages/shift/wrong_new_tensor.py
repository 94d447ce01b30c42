# Wrong: returns a new tensor. Loses all marks.
# Told: it is in a new tensor that your function returns
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, next_rank, incoming, previous_rank)
    return incoming
