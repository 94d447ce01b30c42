# Right: isend, recv, wait; empty chunks are not sent.
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.contiguous().view(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        outgoing, incoming = chunks[(rank - step) % size], chunks[(rank - 1 - step) % size]
        work = comm.isend(outgoing, (rank + 1) % size) if outgoing.numel() else None
        if incoming.numel():
            comm.recv(incoming, (rank - 1) % size)
        if work is not None:
            work.wait()
    tensor.copy_(flat.view_as(tensor))
