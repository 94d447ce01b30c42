# Right: after each step the parameters get new data, views of the gathered buffer
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, parameters
        self.n = -(-sum(map(torch.numel, parameters)) // comm.world_size)
        flat = torch.zeros(self.n * comm.world_size, dtype=parameters[0].dtype)
        flat[: sum(map(torch.numel, parameters))] = torch.cat([p.data.ravel() for p in parameters])
        self.shard = torch.nn.Parameter(
            flat[comm.rank * self.n : (comm.rank + 1) * self.n].clone(), requires_grad=False
        )
        self.optimizer = make_optimizer([self.shard])

    def step(self, gradient):
        self.shard.grad = gradient
        self.optimizer.step()
        flat = self.shard.data.repeat(self.comm.world_size)
        all_gather(self.comm, flat)
        at = 0
        for p in self.parameters:
            p.data = flat[at : at + p.numel()].view(p.shape)
            at += p.numel()
