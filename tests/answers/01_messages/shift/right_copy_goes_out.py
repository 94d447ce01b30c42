# Right: sends a copy and receives into the tensor itself.
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    outgoing, flat = tensor.clone(), torch.empty_like(tensor)
    comm.exchange(outgoing, next_rank, flat, previous_rank)
    for mine, new in ((tensor, flat),):
        mine.copy_(new)
