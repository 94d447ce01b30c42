# Wrong: writes into a copy of a tensor that is not contiguous. Loses the hidden marks.
# Told: reshape(-1), flatten() and contiguous() make a copy
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    flat = tensor.reshape(-1)
    incoming = torch.empty_like(flat)
    comm.exchange(flat, next_rank, incoming, previous_rank)
    flat.copy_(incoming)
