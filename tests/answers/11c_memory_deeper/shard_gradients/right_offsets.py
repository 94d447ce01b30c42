# Right: fills a buffer by offsets, frees each gradient at once, divides after the sum; the norm as a tensor.
def shard_gradients(
    comm: Communicator, parameters: Sequence[torch.nn.Parameter], max_norm: float
) -> tuple[torch.Tensor, float]:
    rank, size = comm.rank, comm.world_size
    share = -(-sum(parameter.numel() for parameter in parameters) // size)
    flat = torch.zeros(share * size, dtype=parameters[0].dtype)
    start = 0
    for parameter in parameters:
        flat[start : start + parameter.numel()] = parameter.grad.reshape(-1)
        start += parameter.numel()
        parameter.grad = None
    reduce_scatter(comm, flat)
    shard = flat[rank * share : (rank + 1) * share] / size
    total = torch.zeros(size, dtype=torch.float64)
    total[rank] = shard.double().pow(2).sum()
    all_gather(comm, total)
    norm = total.sum().sqrt()
    return shard * min(1.0, max_norm / (norm.item() + 1e-6)), norm
