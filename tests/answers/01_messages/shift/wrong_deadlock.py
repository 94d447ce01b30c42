# Wrong: everybody sends first. Loses all marks.
# Told: ranks wait for each other
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.empty_like(tensor)
    comm.send(tensor, next_rank)
    comm.recv(incoming, previous_rank)
    tensor.copy_(incoming)
