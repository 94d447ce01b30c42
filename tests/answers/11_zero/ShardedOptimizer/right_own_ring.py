# Right: its own ring by exchange, and writes piece by piece with no_grad
class ShardedOptimizer:
    def __init__(self, comm, parameters, make_optimizer):
        self.comm = comm
        self.parameters = tuple(parameters)
        self.size = -(-sum(p.numel() for p in self.parameters) // comm.world_size)
        shard = self.read(comm.rank)
        shard.requires_grad_(True)
        self.optimizer, self.shard = make_optimizer([shard]), shard

    def places(self, rank):
        """(parameter, from, to, where in the shard), for what of it is in a rank's shard."""
        begin, end, at = rank * self.size, (rank + 1) * self.size, 0
        for p in self.parameters:
            low, high = max(begin, at), min(end, at + p.numel())
            if low < high:
                yield p.data.view(-1)[low - at : high - at], slice(low - begin, high - begin)
            at += p.numel()

    def read(self, rank):
        out = self.parameters[0].new_zeros(self.size).detach()
        for piece, where in self.places(rank):
            out[where] = piece
        return out

    def write(self, rank, values):
        for piece, where in self.places(rank):
            piece.copy_(values[where])

    def step(self, gradient):
        self.shard.grad = gradient
        self.optimizer.step()
        self.shard.grad = None
        n, r = self.comm.world_size, self.comm.rank
        current = self.shard.detach().clone()
        self.write(r, current)
        for hop in range(n - 1):
            incoming = torch.zeros_like(current)
            self.comm.exchange(current, (r + 1) % n, incoming, (r - 1) % n)
            current = incoming
            self.write((r - 1 - hop) % n, current)
