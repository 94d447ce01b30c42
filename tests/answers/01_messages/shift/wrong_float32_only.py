# Wrong: the buffer is always float32. Loses the hidden marks.
# Told: need
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    incoming = torch.empty(tensor.shape)
    comm.exchange(tensor, (comm.rank + 1) % comm.world_size, incoming, (comm.rank - 1) % comm.world_size)
    tensor.copy_(incoming)
