# Right: the gather is an autograd function whose backward is the reduce-scatter; units compute by functional_call
class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, comm, memory):
        ctx.comm, ctx.memory = comm, memory
        return memory.gather(shard)

    @staticmethod
    def backward(ctx, gradient):
        ctx.memory.free()
        gradient = gradient.clone()
        reduce_scatter(ctx.comm, gradient, ReduceOp.AVG)
        return gradient.chunk(ctx.comm.world_size)[ctx.comm.rank].clone(), None, None


class _Memory:
    def __init__(self, comm):
        self.comm, self.flat = comm, None

    def gather(self, shard):
        self.flat = shard.detach().repeat(self.comm.world_size)
        all_gather(self.comm, self.flat)
        return self.flat

    def free(self):
        self.flat.untyped_storage().resize_(0)

    def again(self, shard):
        flat = shard.detach().repeat(self.comm.world_size)
        all_gather(self.comm, flat)
        self.flat.untyped_storage().resize_(flat.numel() * flat.itemsize)
        self.flat.data.copy_(flat)


class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm, module, units):
        super().__init__()
        self.comm, self.module = comm, module
        self.shards = [self.cut(unit) for unit in units]

    def cut(self, unit):
        named = dict(unit.named_parameters())
        shapes = {name: p.shape for name, p in named.items()}
        flat = torch.cat([p.detach().flatten() for p in named.values()])
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % self.comm.world_size))
        shard = torch.nn.Parameter(flat.chunk(self.comm.world_size)[self.comm.rank].clone())
        for p in named.values():
            p.data = p.data.new_empty(0)
        inner, busy = unit.forward, []

        def forward(*inputs):
            if busy:
                return inner(*inputs)
            memory = _Memory(self.comm)
            whole = _Gather.apply(shard, self.comm, memory)
            memory.flat = whole.detach()
            pieces = whole[: sum(s.numel() for s in shapes.values())].split([s.numel() for s in shapes.values()])
            values = {name: piece.view(s) for (name, s), piece in zip(shapes.items(), pieces)}
            busy.append(1)
            output = torch.func.functional_call(unit, values, inputs)
            busy.pop()
            memory.free()
            if output.requires_grad:
                output.register_hook(lambda gradient: memory.again(shard))
            return output

        unit.forward = forward
        return shard

    def forward(self, *inputs):
        return self.module(*inputs)
