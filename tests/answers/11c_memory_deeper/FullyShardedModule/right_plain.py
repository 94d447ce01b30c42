# Right: the four hooks, one method for each, a counter of gradients
class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm, module, units):
        super().__init__()
        self.comm, self.module = comm, module
        self.flats, self.shards, self.left = [], [], []
        for i, unit in enumerate(units):
            flat = FlatParameters(unit, comm.world_size)
            self.flats.append(flat)
            self.shards.append(torch.nn.Parameter(flat.flat.chunk(comm.world_size)[comm.rank].clone()))
            self.left.append(len(flat.parameters))
            flat.free()
            unit.register_forward_pre_hook(lambda unit, inputs, i=i: self.gather(i))
            unit.register_forward_hook(lambda unit, inputs, output, i=i: self.after(i, output))
            for p in flat.parameters:
                p.register_post_accumulate_grad_hook(lambda p, i=i: self.arrived(i))

    def gather(self, i):
        flat = self.flats[i]
        flat.refill()
        flat.flat.chunk(self.comm.world_size)[self.comm.rank].copy_(self.shards[i].detach())
        all_gather(self.comm, flat.flat)

    def after(self, i, output):
        self.flats[i].free()
        if output.requires_grad:
            output.register_hook(lambda gradient: self.gather(i))

    def arrived(self, i):
        self.left[i] -= 1
        if self.left[i] == 0:
            self.left[i] = len(self.flats[i].parameters)
            self.reduce(i)

    def reduce(self, i):
        parameters = self.flats[i].parameters
        flat = torch.cat([p.grad.reshape(-1) for p in parameters])
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % self.comm.world_size))
        for p in parameters:
            p.grad = None
        self.flats[i].free()
        reduce_scatter(self.comm, flat, ReduceOp.AVG)
        mine = flat.chunk(self.comm.world_size)[self.comm.rank].clone()
        shard = self.shards[i]
        shard.grad = mine if shard.grad is None else shard.grad + mine

    def forward(self, *inputs):
        return self.module(*inputs)
