# Right: a helper for one step, with isend and irecv; empty chunks are not sent; it prints and warns.
import sys
import warnings


def pass_on(comm, outgoing, target, combine):
    incoming = torch.empty_like(target)
    works = []
    if len(outgoing) > 0:
        works.append(comm.isend(outgoing, (comm.rank + 1) % comm.world_size))
    if len(target) > 0:
        works.append(comm.irecv(incoming, (comm.rank - 1) % comm.world_size))
    for work in works:
        work.wait()
    combine(target, incoming)


def ring_all_reduce(comm, tensor):
    print("begin", file=sys.stderr)
    warnings.warn("a warning")
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        pass_on(comm, chunks[(rank - step) % size], chunks[(rank - 1 - step) % size], torch.Tensor.add_)
    for step in range(size - 1):
        pass_on(comm, chunks[(rank + 1 - step) % size], chunks[(rank - step) % size], torch.Tensor.copy_)
    tensor.copy_(flat.view(tensor.shape))
