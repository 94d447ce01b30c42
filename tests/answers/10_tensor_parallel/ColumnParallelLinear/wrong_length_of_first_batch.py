# Wrong: sums as many numbers as the first batch has. Loses the hidden marks.
# Told: the gradient of the input of batch 2 is wrong
class ColumnParallelLinear(torch.nn.Module):
    """A linear layer of which each rank computes some of the output features."""

    def __init__(self, comm: Communicator, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        share, rest = divmod(weight.shape[0], comm.world_size)
        if rest:
            raise ValueError(f"{comm.world_size} ranks do not divide {weight.shape[0]} features")
        own = slice(comm.rank * share, (comm.rank + 1) * share)
        self.comm, self.numbers = comm, None
        self.weight = torch.nn.Parameter(weight[own])
        self.bias = None if bias is None else torch.nn.Parameter(bias[own])

    def _sum(self, gradient: torch.Tensor) -> torch.Tensor:
        total = gradient.clone(memory_format=torch.contiguous_format)
        all_reduce(self.comm, total.view(-1)[: self.numbers])
        return total

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.numbers is None:
            self.numbers = x.numel()
        x = with_backward(x, lambda tensor: tensor.clone(), self._sum)
        return linear(x, self.weight, self.bias)
