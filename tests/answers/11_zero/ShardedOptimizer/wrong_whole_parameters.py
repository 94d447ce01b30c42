# Wrong: whole parameters are dealt out, by their number, and gathered gradients with them. Loses all marks.
# Told: whole parameters were dealt out
class ShardedOptimizer:
    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        self.comm, self.parameters = comm, parameters
        self.own = [parameter.detach() for parameter in parameters[comm.rank :: comm.world_size]]
        self.optimizer = make_optimizer(self.own)

    def step(self, gradient: torch.Tensor) -> None:
        rank, size = self.comm.rank, self.comm.world_size
        flat = torch.zeros(size * len(gradient), dtype=gradient.dtype)
        flat.chunk(size)[rank].copy_(gradient)
        all_gather(self.comm, flat)
        lengths = [parameter.numel() for parameter in self.parameters]
        gradients = flat[: sum(lengths)].split(lengths)[rank::size]
        for tensor, own in zip(self.own, gradients, strict=True):
            tensor.grad = own.view(tensor.shape).clone()
        self.optimizer.step()
        for number, parameter in enumerate(self.parameters):
            owner = number % size
            if rank == owner:
                for other in range(size):
                    if other != rank:
                        self.comm.send(parameter.data, other)
            else:
                self.comm.recv(parameter.data, owner)
