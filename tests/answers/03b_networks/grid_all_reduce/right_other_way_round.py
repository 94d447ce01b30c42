# Right: own rings that go the other way round, on communicators of split; it prints.
def pass_on(ring, chunks, first, combine):
    for step in range(ring.world_size - 1):
        outgoing = chunks[(first + step) % ring.world_size]
        target = chunks[(first + step + 1) % ring.world_size]
        incoming = torch.empty_like(target)
        ring.exchange(outgoing, (ring.rank - 1) % ring.world_size, incoming, (ring.rank + 1) % ring.world_size)
        combine(target, incoming)


def grid_all_reduce(comm, tensor, columns):
    print("rank", comm.rank, "of a grid with", columns, "columns")
    along = comm.split(color=comm.rank // columns)
    across = comm.split(color=comm.rank % columns)
    flat = tensor.flatten()
    chunks = flat.tensor_split(columns)
    pieces = chunks[along.rank].tensor_split(across.world_size)
    pass_on(along, chunks, along.rank + 1, torch.Tensor.add_)
    pass_on(across, pieces, across.rank + 1, torch.Tensor.add_)
    pass_on(across, pieces, across.rank, torch.Tensor.copy_)
    pass_on(along, chunks, along.rank, torch.Tensor.copy_)
    tensor.copy_(flat.reshape(tensor.shape))
