# Right: an autograd function for each unit that computes it again in the backward pass, and keeps only its input
class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, owner, number, inner, x, shard):
        ctx.owner, ctx.number, ctx.inner = owner, number, inner
        ctx.save_for_backward(x)
        owner.gather(number)
        output = inner(x)
        owner.memories[number].free()
        return output

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_(ctx.needs_input_grad[3])
        memory = ctx.owner.memories[ctx.number]
        ctx.owner.gather(ctx.number)
        wanted = [*memory.parameters, x] if x.requires_grad else memory.parameters
        with torch.enable_grad():
            gradients = list(torch.autograd.grad(ctx.inner(x), wanted, gradient))
        to_input = gradients.pop() if x.requires_grad else None
        memory.free()
        return None, None, None, to_input, ctx.owner.average(gradients)


class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm, module, units):
        super().__init__()
        self.comm, self.module = comm, module
        self.memories = [FlatParameters(unit, comm.world_size) for unit in units]
        self.shards = [torch.nn.Parameter(self.own(m.flat).clone()) for m in self.memories]
        for number, unit in enumerate(units):
            self.memories[number].free()
            self.wrap(number, unit)

    def wrap(self, number, unit):
        inner = unit.forward
        unit.forward = lambda x: _Recompute.apply(self, number, inner, x, self.shards[number])

    def own(self, flat):
        return flat.chunk(self.comm.world_size)[self.comm.rank]

    def gather(self, number):
        memory = self.memories[number]
        memory.refill()
        self.own(memory.flat).copy_(self.shards[number].detach())
        all_gather(self.comm, memory.flat)

    def average(self, gradients):
        flat = torch.cat([g.reshape(-1) for g in gradients])
        gradients.clear()
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % self.comm.world_size)])
        reduce_scatter(self.comm, flat, ReduceOp.AVG)
        return self.own(flat).clone()

    def forward(self, *inputs):
        return self.module(*inputs)
