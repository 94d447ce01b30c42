# Right: hooks that count gradients, a method for each moment, lists by unit.
class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm: Communicator, module: torch.nn.Module, units: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        self.comm, self.module = comm, module
        self.flats, self.shards, self.counts = [], [], []
        for number, unit in enumerate(units):
            self.cut(number, unit)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.module(*inputs)

    def cut(self, number: int, unit: torch.nn.Module) -> None:
        flat = FlatParameters(unit, self.comm.world_size)
        shard = flat.flat.chunk(self.comm.world_size)[self.comm.rank].clone()
        flat.free()
        self.flats.append(flat)
        self.shards.append(torch.nn.Parameter(shard))
        self.counts.append(0)

        def before(unit: torch.nn.Module, inputs: Any) -> None:
            self.gather(number)

        def after(unit: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
            self.flats[number].free()
            if output.requires_grad:
                output.register_hook(lambda gradient: self.gather(number))

        def have_gradient(parameter: torch.nn.Parameter) -> None:
            self.count(number)

        unit.register_forward_pre_hook(before)
        unit.register_forward_hook(after)
        for parameter in unit.parameters():
            parameter.register_post_accumulate_grad_hook(have_gradient)

    def gather(self, number: int) -> None:
        flat = self.flats[number]
        flat.refill()
        flat.flat.chunk(self.comm.world_size)[self.comm.rank].copy_(self.shards[number].data)
        all_gather(self.comm, flat.flat)

    def count(self, number: int) -> None:
        flat = self.flats[number]
        self.counts[number] += 1
        if self.counts[number] == len(flat.parameters):
            self.counts[number] = 0
            self.average(number)
            flat.free()

    def average(self, number: int) -> None:
        flat, shard = self.flats[number], self.shards[number]
        whole = torch.zeros_like(flat.flat)
        start = 0
        for parameter in flat.parameters:
            gradient = parameter.grad.flatten()
            whole[start : start + len(gradient)] = gradient
            start += len(gradient)
            parameter.grad = None
        reduce_scatter(self.comm, whole, op=ReduceOp.AVG)
        own = whole.chunk(self.comm.world_size)[self.comm.rank].clone()
        if shard.grad is None:
            shard.grad = own
        else:
            shard.grad += own
