# Right: the parameters are views of a flat buffer that is gathered in place
class FlatParameters:
    def __init__(self, parameters, world_size):
        values = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.flat = torch.cat([values, values.new_zeros(-len(values) % world_size)])
        start = 0
        for parameter in parameters:
            parameter.data = self.flat[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()


class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm = comm
        self.flat = FlatParameters(list(parameters), comm.world_size).flat
        n = len(self.flat) // comm.world_size
        self.mine = torch.nn.Parameter(self.flat[n * comm.rank : n * (comm.rank + 1)])
        self.optimizer = make_optimizer([self.mine])

    def step(self, gradient):
        self.mine.grad = gradient
        self.optimizer.step()
        all_gather(self.comm, self.flat)
