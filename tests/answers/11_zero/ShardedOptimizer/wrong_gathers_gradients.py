# Wrong: gathers the gradients too. Loses all marks.
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, list(parameters)
        flat = self._flat()
        self.n = flat.numel() // comm.world_size
        self.shard = flat[comm.rank * self.n : (comm.rank + 1) * self.n].clone()
        self.optimizer = make_optimizer([self.shard])

    def _flat(self):
        flat = torch.cat([p.detach().flatten() for p in self.parameters])
        return torch.nn.functional.pad(flat, (0, -flat.numel() % self.comm.world_size))

    def step(self, gradient):
        whole = gradient.repeat(self.comm.world_size)
        all_gather(self.comm, whole)
        self.shard.grad = whole.chunk(self.comm.world_size)[self.comm.rank].clone()
        self.optimizer.step()
        self.shard.grad = None
        flat = self._flat()
        flat[self.comm.rank * self.n : (self.comm.rank + 1) * self.n] = self.shard
        all_gather(self.comm, flat)
        start = 0
        for p in self.parameters:
            p.data.copy_(flat[start : start + p.numel()].view_as(p))
            start += p.numel()
