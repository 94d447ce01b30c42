# Wrong: cuts each parameter by itself, with its own padding. Loses all marks.
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, list(parameters)
        self.shards = []
        for p in self.parameters:
            flat = p.detach().flatten()
            flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.world_size))
            self.shards.append(flat.chunk(comm.world_size)[comm.rank].clone())
        self.optimizer = make_optimizer(self.shards)

    def step(self, gradient):
        at = 0
        for shard in self.shards:
            shard.grad = gradient[at : at + len(shard)]
            at += len(shard)
        self.optimizer.step()
        for p, shard in zip(self.parameters, self.shards):
            flat = shard.repeat(self.comm.world_size)
            all_gather(self.comm, flat)
            p.data.copy_(flat[: p.numel()].view_as(p))
