# Wrong: gathers the gradients, and each rank has an optimizer for everything. Loses all marks.
# Told: this optimizer is not sharded
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        self.comm, self.parameters = comm, [parameter.data for parameter in parameters]
        self.optimizer = make_optimizer(self.parameters)

    def step(self, gradient: torch.Tensor) -> None:
        flat = gradient.new_zeros(self.comm.world_size * len(gradient))
        flat.chunk(self.comm.world_size)[self.comm.rank].copy_(gradient)
        all_gather(self.comm, flat)
        start = 0
        for parameter in self.parameters:
            parameter.grad = flat[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
        self.optimizer.step()
