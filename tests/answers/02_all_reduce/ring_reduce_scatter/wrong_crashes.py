# Wrong: reads memory that is not its own, if the length does not divide. Loses all marks.
# Told: on 3 ranks, 10 float32: a rank's process ended in the middle
import ctypes


def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    if len(flat) % size:
        ctypes.string_at(0)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        outgoing, target = chunks[(rank - step - 1) % size], chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(target)
        comm.exchange(outgoing, (rank + 1) % size, incoming, (rank - 1) % size)
        target += incoming
    tensor.copy_(flat.view(tensor.shape))
