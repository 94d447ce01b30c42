# Wrong: the optimizer has the whole buffer, with zeros for the gradients of others. Loses all marks.
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, parameters
        flat = torch.cat([p.detach().flatten() for p in parameters])
        self.flat = torch.nn.functional.pad(flat, (0, -flat.numel() % comm.world_size))
        self.optimizer = make_optimizer([self.flat])

    def step(self, gradient):
        self.flat.grad = torch.zeros_like(self.flat)
        self.flat.grad.chunk(self.comm.world_size)[self.comm.rank].copy_(gradient)
        self.optimizer.step()
        all_gather(self.comm, self.flat)
        at = 0
        for p in self.parameters:
            p.data.copy_(self.flat[at : at + p.numel()].view_as(p))
            at += p.numel()
