# Right: without padding, and each rank sends its shard to every other one, by itself.
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        self.comm, self.parameters = comm, parameters
        self.lengths = [parameter.numel() for parameter in parameters]
        share = -(-sum(self.lengths) // comm.world_size)
        self.shares = [slice(rank * share, (rank + 1) * share) for rank in range(comm.world_size)]
        self.shard = self.flat()[self.shares[comm.rank]].clone()
        self.optimizer = make_optimizer([self.shard])

    def flat(self) -> torch.Tensor:
        return torch.cat([parameter.data.reshape(-1) for parameter in self.parameters])

    def step(self, gradient: torch.Tensor) -> None:
        self.shard.grad = gradient[: len(self.shard)].clone()
        self.optimizer.step()
        flat, rank, size = self.flat(), self.comm.rank, self.comm.world_size
        flat[self.shares[rank]] = self.shard
        sending = [self.comm.isend(self.shard, (rank + k) % size) for k in range(1, size)]
        for k in range(1, size):
            self.comm.recv(flat[self.shares[(rank - k) % size]], (rank - k) % size)
        for work in sending:
            work.wait()
        for parameter, piece in zip(self.parameters, flat.split(self.lengths), strict=True):
            parameter.data.view(-1).copy_(piece)
