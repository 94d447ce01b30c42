# Wrong: the shard of each gradient by itself. Loses all marks.
def shard_gradients(comm, parameters, max_norm):
    n = comm.world_size
    rows = [torch.nn.functional.pad(p.grad.reshape(-1), (0, -p.numel() % n)).view(n, -1) for p in parameters]
    flat = torch.cat(rows, 1).reshape(-1)
    for p in parameters:
        p.grad = None
    reduce_scatter(comm, flat, ReduceOp.AVG)
    shard = flat.chunk(comm.world_size)[comm.rank].clone()
    squares = (shard * shard).sum().reshape(1)
    all_reduce(comm, squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        shard *= max_norm / (norm + 1e-6)
    return shard, norm
