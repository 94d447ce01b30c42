# Right: no collective, every rank sends its shard to each other one
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm, self.parameters, self.make = comm, parameters, make_optimizer
        numbers = [p.numel() for p in parameters]
        self.numbers = numbers
        self.length = (sum(numbers) + comm.world_size - 1) // comm.world_size
        self.mine = torch.nn.Parameter(self._cut())
        self.optimizer = make_optimizer([self.mine])

    def _cut(self):
        flat = torch.nn.utils.parameters_to_vector(self.parameters).detach()
        piece = flat[self.comm.rank * self.length :][: self.length]
        return torch.cat([piece, flat.new_zeros(self.length - len(piece))])

    def step(self, gradient):
        self.mine.grad = gradient.clone()
        self.optimizer.step()
        comm = self.comm
        rows = [torch.zeros_like(self.mine.data) for _ in range(comm.world_size)]
        rows[comm.rank] = self.mine.data.clone()
        others = [r for r in range(comm.world_size) if r != comm.rank]
        works = [comm.irecv(rows[r], r) for r in others] + [comm.isend(rows[comm.rank], r) for r in others]
        for work in works:
            work.wait()
        flat = torch.cat(rows)[: sum(self.numbers)]
        torch.nn.utils.vector_to_parameters(flat.clone(), self.parameters)
