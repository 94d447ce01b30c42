# Wrong: no case for a single rank. Loses all marks.
# Told: with one rank there is nobody to talk to
def shift(comm, tensor):
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, next_rank, incoming, previous_rank)
    tensor.copy_(incoming)
