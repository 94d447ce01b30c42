# Right: no if, the factor is at most 1
def shard_gradients(comm, parameters, max_norm):
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.world_size))
    for p in parameters:
        p.grad = None
    reduce_scatter(comm, flat, ReduceOp.AVG)
    shard = flat.chunk(comm.world_size)[comm.rank].clone()
    squares = (shard * shard).sum().reshape(1)
    all_reduce(comm, squares)
    norm = squares.sqrt().item()
    shard *= min(1.0, max_norm / (norm + 1e-6))
    return shard, norm
