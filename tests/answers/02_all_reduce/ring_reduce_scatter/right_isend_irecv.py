# Right: exchange written out as irecv, isend, wait; empty chunks are not sent.
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.contiguous().view(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        outgoing = chunks[(rank - 1 - step) % size]
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        works = []
        if len(mine):
            works.append(comm.irecv(incoming, (rank - 1) % size))
        if len(outgoing):
            works.append(comm.isend(outgoing, (rank + 1) % size))
        for work in works:
            work.wait()
        mine += incoming
    tensor.copy_(flat.view_as(tensor))
