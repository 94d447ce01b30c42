# Right: the parameters become views of one flat buffer, of which the shard is a part: no copy at all.
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        self.comm = comm
        length = sum(parameter.numel() for parameter in parameters)
        share = -(-length // comm.world_size)
        self.flat = torch.zeros(share * comm.world_size, dtype=parameters[0].dtype)
        start = 0
        for parameter in parameters:
            piece = self.flat[start : start + parameter.numel()].view(parameter.shape)
            piece.copy_(parameter.detach())
            parameter.data = piece
            start += parameter.numel()
        self.shard = self.flat[comm.rank * share : (comm.rank + 1) * share]
        self.optimizer = make_optimizer([self.shard])

    def step(self, gradient: torch.Tensor) -> None:
        self.shard.grad = gradient.clone()
        self.optimizer.step()
        self.optimizer.zero_grad()
        all_gather(self.comm, self.flat)
