# Right: zero_grad of a ParameterList
def shard_gradients(comm, parameters, max_norm):
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.world_size))
    torch.nn.ParameterList(parameters).zero_grad()
    reduce_scatter(comm, flat, ReduceOp.AVG)
    shard = flat.chunk(comm.world_size)[comm.rank].clone()
    squares = (shard * shard).sum().reshape(1)
    all_reduce(comm, squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        shard *= max_norm / (norm + 1e-6)
    return shard, norm
