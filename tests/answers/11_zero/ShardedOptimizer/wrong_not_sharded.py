# Wrong: an optimizer for everything, whose gradient is zero outside of the shard. Loses all marks.
# Told: this optimizer is not sharded
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        self.comm, self.parameters = comm, parameters
        flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.flat = torch.cat([flat, flat.new_zeros(-len(flat) % comm.world_size)])
        self.optimizer = make_optimizer([self.flat])

    def step(self, gradient: torch.Tensor) -> None:
        self.flat.grad = torch.zeros_like(self.flat)
        self.flat.grad.chunk(self.comm.world_size)[self.comm.rank].copy_(gradient)
        self.optimizer.step()
        all_gather(self.comm, self.flat)
        start = 0
        for parameter in self.parameters:
            parameter.data.view(-1).copy_(self.flat[start : start + parameter.numel()])
            start += parameter.numel()
