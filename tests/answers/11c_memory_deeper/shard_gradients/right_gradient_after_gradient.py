# Right: never has the whole flat buffer of gradients alive next to them: pops each gradient into it
class _Flat:
    def __init__(self, size, world_size, like):
        self.values = like.new_empty(size + -size % world_size)
        self.values[size:] = 0
        self.at = 0

    def take(self, gradient):
        self.values[self.at : self.at + gradient.numel()] = gradient.contiguous().view(-1)
        self.at += gradient.numel()


@torch.no_grad()
def shard_gradients(comm, parameters, max_norm):
    buffer = _Flat(sum(p.numel() for p in parameters), comm.world_size, parameters[0].data)
    for p in parameters:
        gradient, p.grad = p.grad, None
        buffer.take(gradient)
    reduce_scatter(comm, buffer.values, ReduceOp.AVG)
    shard = torch.tensor_split(buffer.values, comm.world_size)[comm.rank].detach().clone()
    total = torch.tensor([float(shard @ shard)], dtype=shard.dtype)
    all_reduce(comm, total)
    norm = total.item() ** 0.5
    return (shard.mul(max_norm).div(norm + 1e-6) if norm > max_norm else shard), norm
