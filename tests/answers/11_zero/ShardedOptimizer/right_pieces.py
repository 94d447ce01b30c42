# Right: the optimizer is made for pieces of the parameters themselves, those that lie in this rank's shard.
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        self.comm, self.parameters = comm, parameters
        length = sum(parameter.numel() for parameter in parameters)
        self.share = -(-length // comm.world_size)
        first, last = comm.rank * self.share, (comm.rank + 1) * self.share
        self.own, start = [], 0
        for parameter in parameters:
            self.own.append(parameter.data.view(-1)[max(0, first - start) : max(0, last - start)])
            start += parameter.numel()
        self.optimizer = make_optimizer(self.own)

    def step(self, gradient: torch.Tensor) -> None:
        lengths = [len(piece) for piece in self.own]
        for piece, its_gradient in zip(self.own, gradient[: sum(lengths)].split(lengths), strict=True):
            piece.grad = its_gradient
        self.optimizer.step()
        flat = gradient.new_zeros(self.share * self.comm.world_size)
        mine = torch.cat(self.own)
        flat.chunk(self.comm.world_size)[self.comm.rank][: len(mine)] = mine
        all_gather(self.comm, flat)
        start = 0
        for parameter in self.parameters:
            parameter.data.view(-1).copy_(flat[start : start + parameter.numel()])
            start += parameter.numel()
