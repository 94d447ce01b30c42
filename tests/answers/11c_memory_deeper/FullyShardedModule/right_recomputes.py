# Right: an autograd function for each unit that computes it again in the backward pass, and keeps only its inputs
class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, owner, number, inner, shard, *xs):
        ctx.owner, ctx.number, ctx.inner = owner, number, inner
        ctx.save_for_backward(*xs)
        owner.gather(number)
        output = inner(*xs)
        owner.memories[number].free()
        return output

    @staticmethod
    def backward(ctx, gradient):
        pairs = zip(ctx.saved_tensors, ctx.needs_input_grad[4:])
        xs = [x.detach().requires_grad_(is_needed) for x, is_needed in pairs]
        memory = ctx.owner.memories[ctx.number]
        ctx.owner.gather(ctx.number)
        wanted = [*memory.parameters, *(x for x in xs if x.requires_grad)]
        with torch.enable_grad():
            gradients = list(torch.autograd.grad(ctx.inner(*xs), wanted, gradient))
        to_inputs = [gradients.pop() if x.requires_grad else None for x in reversed(xs)][::-1]
        memory.free()
        return None, None, None, ctx.owner.average(gradients), *to_inputs


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
        unit.forward = lambda *xs: _Recompute.apply(self, number, inner, self.shards[number], *xs)

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
