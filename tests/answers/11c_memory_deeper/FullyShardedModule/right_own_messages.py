# Right: a class for each unit, its own messages around a ring, its own flat buffer without FlatParameters.
class ShardedUnit:
    def __init__(self, comm: Communicator, unit: torch.nn.Module) -> None:
        self.comm, self.parameters = comm, list(unit.parameters())
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.share = -(-sum(shape.numel() for shape in self.shapes) // comm.world_size)
        flat = self.flat([parameter.data for parameter in self.parameters])
        self.shard = torch.nn.Parameter(self.part(flat, comm.rank).clone())
        self.whole = None
        self.waiting = len(self.parameters)
        self.free()

    def flat(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        flat = torch.zeros(self.share * self.comm.world_size, dtype=tensors[0].dtype)
        values = torch.cat([tensor.flatten() for tensor in tensors])
        flat[: len(values)] = values
        return flat

    def part(self, flat: torch.Tensor, number: int) -> torch.Tensor:
        number %= self.comm.world_size
        return flat[number * self.share : (number + 1) * self.share]

    def free(self) -> None:
        if self.whole is not None:
            self.whole.untyped_storage().resize_(0)
        for parameter in self.parameters:
            parameter.data = torch.empty(0, dtype=self.shard.dtype)

    def gather(self) -> None:
        if self.whole is None:
            self.whole = torch.zeros(self.share * self.comm.world_size, dtype=self.shard.dtype)
        self.whole.untyped_storage().resize_(self.whole.nbytes)
        self.part(self.whole, self.comm.rank).copy_(self.shard.data)
        right, left = (self.comm.rank + 1) % self.comm.world_size, (self.comm.rank - 1) % self.comm.world_size
        for k in range(self.comm.world_size - 1):
            outgoing, incoming = (
                self.part(self.whole, self.comm.rank - k),
                self.part(self.whole, self.comm.rank - k - 1),
            )
            self.comm.exchange(outgoing, right, incoming, left)
        self.attach()

    def attach(self) -> None:
        start = 0
        for parameter, shape in zip(self.parameters, self.shapes, strict=True):
            parameter.data = self.whole[start : start + shape.numel()].view(shape)
            start += shape.numel()

    def have_gradient(self) -> None:
        self.waiting -= 1
        if self.waiting == 0:
            self.waiting = len(self.parameters)
            self.scatter()
            self.free()

    def scatter(self) -> None:
        flat = self.flat([parameter.grad for parameter in self.parameters])
        for parameter in self.parameters:
            parameter.grad = None
        size, rank = self.comm.world_size, self.comm.rank
        for k in range(size - 1):
            incoming = torch.zeros(self.share, dtype=flat.dtype)
            self.comm.exchange(self.part(flat, rank - k - 1), (rank + 1) % size, incoming, (rank - 1) % size)
            self.part(flat, rank - k - 2).add_(incoming)
        own = self.part(flat, rank) / size
        self.shard.grad = own if self.shard.grad is None else self.shard.grad + own


class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm: Communicator, module: torch.nn.Module, units: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        self.comm, self.module = comm, module
        self.sharded = [ShardedUnit(comm, unit) for unit in units]
        self.shards = [each.shard for each in self.sharded]
        for unit, each in zip(units, self.sharded, strict=True):
            self.hook(unit, each)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.module(*inputs)

    def hook(self, unit: torch.nn.Module, sharded: ShardedUnit) -> None:
        def after(unit: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
            sharded.free()
            if output.requires_grad:
                output.register_hook(lambda gradient: sharded.gather())

        unit.register_forward_pre_hook(lambda unit, inputs: sharded.gather())
        unit.register_forward_hook(after)
        for parameter in unit.parameters():
            parameter.register_post_accumulate_grad_hook(lambda parameter: sharded.have_gradient())
