# Right: a flat buffer, a reduce-scatter that averages, an all-reduce of a sum of squares.
def shard_gradients(
    comm: Communicator, parameters: Sequence[torch.nn.Parameter], max_norm: float
) -> tuple[torch.Tensor, float]:
    gradients = [parameter.grad.flatten() for parameter in parameters]
    length = sum(map(len, gradients))
    padding = gradients[0].new_zeros(-length % comm.world_size)
    flat = torch.cat([*gradients, padding])
    for parameter in parameters:
        parameter.grad = None
    reduce_scatter(comm, flat, op=ReduceOp.AVG)
    shard = flat.chunk(comm.world_size)[comm.rank].clone()
    squares = shard.square().sum()
    all_reduce(comm, squares)
    norm = float(squares.sqrt())
    if norm > max_norm:
        shard *= max_norm / (norm + 1e-6)
    return shard, norm
