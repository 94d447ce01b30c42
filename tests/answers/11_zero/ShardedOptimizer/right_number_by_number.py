# Right: a small all-gather for each number of a shard
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters = comm, parameters
        n = comm.world_size
        flat = torch.nn.utils.parameters_to_vector([p.detach() for p in parameters])
        self.pad = -len(flat) % n
        flat = torch.cat((flat, flat.new_zeros(self.pad)))
        self.shard = flat.tensor_split(n)[comm.rank].clone()
        self.optimizer = make_optimizer([self.shard])

    def step(self, gradient):
        self.shard.grad = gradient
        self.optimizer.step()
        columns = []
        for number in self.shard:
            column = number.detach().repeat(self.comm.world_size)
            all_gather(self.comm, column)
            columns.append(column)
        flat = torch.stack(columns, 1).flatten()
        with torch.no_grad():
            for p in self.parameters:
                p.flatten()  # a copy, or not: it does not matter
                p.copy_(flat[: p.numel()].view(p.shape))
                flat = flat[p.numel() :]
