# Right: uses FlatParameters of the set-up cell on a ParameterList
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm = comm
        self.flat = FlatParameters(torch.nn.ParameterList(parameters), comm.world_size).flat
        n = len(self.flat) // comm.world_size
        self.mine = torch.nn.Parameter(self.flat[n * comm.rank : n * (comm.rank + 1)])
        self.optimizer = make_optimizer([self.mine])

    def step(self, gradient):
        self.mine.grad = gradient
        self.optimizer.step()
        all_gather(self.comm, self.flat)
