# Right: puts a wrapper in the place of each unit in the module that has it
class _Wrapper(torch.nn.Module):
    def __init__(self, comm, unit):
        super().__init__()
        self.comm, self.unit = comm, unit
        self.flat = FlatParameters(unit, comm.world_size)
        self.shard = torch.nn.Parameter(self.own(self.flat.flat).clone())
        self.flat.free()
        for p in self.flat.parameters:
            p.register_post_accumulate_grad_hook(self.arrived)

    def own(self, flat):
        return flat.chunk(self.comm.world_size)[self.comm.rank]

    def gather(self, *_):
        self.flat.refill()
        self.own(self.flat.flat).copy_(self.shard.detach())
        all_gather(self.comm, self.flat.flat)

    def forward(self, *inputs):
        self.gather()
        output = self.unit(*inputs)
        self.flat.free()
        if torch.is_grad_enabled() and output.requires_grad:
            output.register_hook(self.gather)
        return output

    def arrived(self, _):
        parameters = self.flat.parameters
        if all(p.grad is not None for p in parameters):
            flat = torch.zeros(len(self.flat.flat), dtype=self.shard.dtype)
            torch.cat([p.grad.flatten() for p in parameters], out=flat[: sum(p.numel() for p in parameters)])
            for p in parameters:
                p.grad = None
            self.flat.free()
            reduce_scatter(self.comm, flat, ReduceOp.AVG)
            mine = self.own(flat).clone()
            self.shard.grad = mine if self.shard.grad is None else self.shard.grad + mine


class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm, module, units):
        super().__init__()
        self.comm, self.module = comm, module
        wrappers = {id(unit): _Wrapper(comm, unit) for unit in units}
        for part in list(module.modules()):
            for name, child in list(part.named_children()):
                if id(child) in wrappers:
                    setattr(part, name, wrappers[id(child)])
        self.shards = [wrapper.shard for wrapper in wrappers.values()]

    def forward(self, *inputs):
        return self.module(*inputs)
