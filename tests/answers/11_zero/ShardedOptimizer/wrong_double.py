# Wrong: gathers float64, whatever the parameters are. Loses the hidden marks.
# Told: the numbers that travel are float64, and those of the parameters are float32
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, list(parameters)
        flat = torch.cat([p.detach().flatten() for p in self.parameters])
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % comm.world_size))
        self.shard = flat.chunk(comm.world_size)[comm.rank].clone()
        self.optimizer = make_optimizer([self.shard])

    def step(self, gradient):
        self.shard.grad = gradient
        self.optimizer.step()
        self.shard.grad = None
        flat = torch.zeros(len(self.shard) * self.comm.world_size, dtype=torch.float64)
        flat.chunk(self.comm.world_size)[self.comm.rank].copy_(self.shard)
        all_gather(self.comm, flat)
        start = 0
        for p in self.parameters:
            p.data.copy_(flat[start : start + p.numel()].view_as(p))
            start += p.numel()
