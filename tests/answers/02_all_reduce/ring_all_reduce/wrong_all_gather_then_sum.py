# Wrong: an all-gather of whole buffers, then a local sum. Right sums, wrong bytes. Loses all marks.
# Told: every rank gets the whole buffer of every other rank
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    buffers = [tensor.clone()]
    for _ in range(size - 1):
        incoming = torch.empty_like(tensor)
        comm.exchange(buffers[-1], (rank + 1) % size, incoming, (rank - 1) % size)
        buffers.append(incoming)
    tensor.copy_(sum(buffers))
