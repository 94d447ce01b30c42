# Wrong: shifts to the previous rank. Loses all marks.
# Told: the shift goes the wrong way
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, previous_rank, incoming, next_rank)
    tensor.copy_(incoming)
