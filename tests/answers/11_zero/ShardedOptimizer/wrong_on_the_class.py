# Wrong: keeps what belongs to one optimizer on the class; a second one takes its place. Loses the hidden marks.
# Told: What belongs to one of them is kept in self
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, list(parameters)
        flat = torch.cat([p.detach().flatten() for p in self.parameters])
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % comm.world_size))
        ShardedOptimizer.shard = flat.chunk(comm.world_size)[comm.rank].clone()
        ShardedOptimizer.optimizer = make_optimizer([ShardedOptimizer.shard])

    def step(self, gradient):
        self.shard.grad = gradient
        self.optimizer.step()
        self.shard.grad = None
        flat = self.shard.new_zeros(len(self.shard) * self.comm.world_size)
        flat.chunk(self.comm.world_size)[self.comm.rank].copy_(self.shard)
        all_gather(self.comm, flat)
        start = 0
        for p in self.parameters:
            p.data.copy_(flat[start : start + p.numel()].view_as(p))
            start += p.numel()
