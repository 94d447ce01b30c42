# Right: a shard of its own, a flat buffer in each step.
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        self.comm, self.parameters = comm, parameters
        flat = self.flattened()
        self.shard = flat.chunk(comm.world_size)[comm.rank].clone()
        self.optimizer = make_optimizer([self.shard])

    def flattened(self) -> torch.Tensor:
        pieces = [parameter.detach().flatten() for parameter in self.parameters]
        length = sum(map(len, pieces))
        return torch.cat([*pieces, pieces[0].new_zeros(-length % self.comm.world_size)])

    @torch.no_grad()
    def step(self, gradient: torch.Tensor) -> None:
        self.shard.grad = gradient
        self.optimizer.step()
        flat = self.flattened()
        flat.chunk(self.comm.world_size)[self.comm.rank].copy_(self.shard)
        all_gather(self.comm, flat)
        start = 0
        for parameter in self.parameters:
            parameter.copy_(flat[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()
