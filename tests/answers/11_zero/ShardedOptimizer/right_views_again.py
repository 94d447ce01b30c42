# Right: the parameters become views of one flat buffer for good, and the shard is a view of it too
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm = comm
        total = sum(p.numel() for p in parameters)
        padded = -(-total // comm.world_size) * comm.world_size
        self.flat = torch.zeros(padded, dtype=parameters[0].dtype)
        start = 0
        for p in parameters:
            piece = self.flat[start : start + p.numel()].view(p.shape)
            piece.copy_(p.data)
            p.data = piece
            start += p.numel()
        self.shard = self.flat.chunk(comm.world_size)[comm.rank]
        self.optimizer = make_optimizer([self.shard])

    def step(self, gradient):
        self.shard.grad = gradient
        self.optimizer.step()
        self.shard.grad = None
        all_gather(self.comm, self.flat)
