# Right: two reduce-scatters, each of a half of every shard
def shard_gradients(comm, parameters, max_norm):
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.world_size))
    for p in parameters:
        p.grad = None
    halves = [half.reshape(-1).clone() for half in flat.view(comm.world_size, -1).tensor_split(2, dim=1)]
    for half in halves:
        if half.numel():
            reduce_scatter(comm, half, ReduceOp.AVG)
    shard = torch.cat([half.view(comm.world_size, -1)[comm.rank] for half in halves])
    squares = (shard * shard).sum().reshape(1)
    all_reduce(comm, squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        shard *= max_norm / (norm + 1e-6)
    return shard, norm
