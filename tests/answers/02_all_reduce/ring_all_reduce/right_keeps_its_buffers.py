# Right: keeps its buffer in an attribute of a class: each real rank has its own.
class Buffers:
    incoming = None


def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    Buffers.incoming = torch.empty_like(chunks[0])
    for step in range(2 * (size - 1)):
        outgoing, target = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        comm.exchange(outgoing, (rank + 1) % size, Buffers.incoming[: len(target)], (rank - 1) % size)
        incoming = Buffers.incoming[: len(target)]
        target.copy_(target + incoming if step < size - 1 else incoming)
    tensor.copy_(flat.view(tensor.shape))
