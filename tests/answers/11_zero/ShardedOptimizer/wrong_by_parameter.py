# Wrong: gives whole parameters to ranks, in turn. Loses all marks.
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, list(parameters)
        self.mine = self.parameters[comm.rank :: comm.world_size]
        self.optimizer = make_optimizer(self.mine) if self.mine else None

    def step(self, gradient):
        at = 0
        for p in self.mine:
            p.grad = gradient[at : at + p.numel()].view_as(p)
            at += p.numel()
        if self.mine:
            self.optimizer.step()
        for i, p in enumerate(self.parameters):
            owner = i % self.comm.world_size
            for r in range(self.comm.world_size):
                if r != owner and self.comm.rank == owner:
                    self.comm.send(p.data, r)
                if r != owner and self.comm.rank == r:
                    self.comm.recv(p.data, owner)
