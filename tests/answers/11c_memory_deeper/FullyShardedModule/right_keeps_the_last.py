# Right: a unit is freed when the next one is gathered, so that the last one stays for the backward pass.
class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm: Communicator, module: torch.nn.Module, units: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        self.comm, self.module, self.there = comm, module, None
        self.flats = [FlatParameters(unit, comm.world_size) for unit in units]
        self.shards = torch.nn.ParameterList(self.own(flat.flat) for flat in self.flats)
        for unit, flat, shard in zip(units, self.flats, self.shards, strict=True):
            flat.free()
            self.hook(unit, flat, shard)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        self.leave()
        output = self.module(*inputs)
        if not output.requires_grad:
            self.leave()
        return output

    def own(self, flat: torch.Tensor) -> torch.Tensor:
        return torch.tensor_split(flat, self.comm.world_size)[self.comm.rank].clone()

    def hook(self, unit: torch.nn.Module, flat: FlatParameters, shard: torch.nn.Parameter) -> None:
        arrived = []

        def before_backward(unit: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
            if torch.is_grad_enabled():
                output.register_hook(lambda gradient: self.enter(flat, shard))

        def gradient_came(parameter: torch.nn.Parameter) -> None:
            arrived.append(parameter)
            if len(arrived) == len(flat.parameters):
                arrived.clear()
                self.average(flat, shard)
                self.leave()

        unit.register_forward_pre_hook(lambda unit, inputs: self.enter(flat, shard))
        unit.register_forward_hook(before_backward)
        for parameter in flat.parameters:
            parameter.register_post_accumulate_grad_hook(gradient_came)

    def enter(self, flat: FlatParameters, shard: torch.nn.Parameter) -> None:
        if self.there is flat:
            return
        self.leave()
        flat.refill()
        torch.tensor_split(flat.flat, self.comm.world_size)[self.comm.rank][:] = shard.detach()
        all_gather(self.comm, flat.flat)
        self.there = flat

    def leave(self) -> None:
        if self.there is not None:
            self.there.free()
            self.there = None

    def average(self, flat: FlatParameters, shard: torch.nn.Parameter) -> None:
        padding = len(flat.flat) - sum(parameter.numel() for parameter in flat.parameters)
        whole = torch.cat([*(parameter.grad.flatten() for parameter in flat.parameters), shard.new_zeros(padding)])
        for parameter in flat.parameters:
            parameter.grad = None
        reduce_scatter(self.comm, whole)
        own = self.own(whole) / self.comm.world_size
        shard.grad = own if shard.grad is None else own.add_(shard.grad)
