# Wrong: keeps one shard and one optimizer for each communicator, in a default argument. Loses the hidden marks.
# Told: these are steps of the other optimizer's parameters
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
        kept: dict[int, Any] = {},
    ) -> None:
        self.comm, self.parameters, self.kept = comm, parameters, kept
        flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % comm.world_size)])
        shard = flat.chunk(comm.world_size)[comm.rank].clone()
        kept[id(comm)] = shard, make_optimizer([shard])

    def step(self, gradient: torch.Tensor) -> None:
        shard, optimizer = self.kept[id(self.comm)]
        shard.grad = gradient
        optimizer.step()
        flat = gradient.new_zeros(self.comm.world_size * len(gradient))
        flat.chunk(self.comm.world_size)[self.comm.rank].copy_(shard)
        all_gather(self.comm, flat)
        start = 0
        for parameter in self.parameters:
            parameter.data.copy_(flat[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()
