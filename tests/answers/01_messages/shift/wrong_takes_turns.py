# Wrong: even ranks send first, odd ones receive first: too many rounds. Loses all marks.
# Told: Let every rank send and receive at the same time
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.empty_like(tensor)
    if comm.rank % 2 == 0:
        comm.send(tensor, next_rank)
        comm.recv(incoming, previous_rank)
    else:
        comm.recv(incoming, previous_rank)
        comm.send(tensor, next_rank)
    tensor.copy_(incoming)
