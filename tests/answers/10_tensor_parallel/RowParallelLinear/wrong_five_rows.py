# Wrong: takes the first five rows of a batch. Loses the hidden marks.
# Told: the shape should be [8, 4], and is [5, 4].
class RowParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        n = weight.shape[1]
        if n % comm.world_size:
            raise ValueError(f"{comm.world_size} ranks do not divide {n} features")
        share = n // comm.world_size
        own = slice(comm.rank * share, (comm.rank + 1) * share)
        self.comm = comm
        self.weight = torch.nn.Parameter(weight[:, own])
        self.bias = None if bias is None else torch.nn.Parameter(bias[:])

    def forward(self, x):
        def add(tensor):
            total = tensor.clone()
            all_reduce(self.comm, total)
            return total

        y = with_backward(linear(x[:5], self.weight), add, lambda g: g.clone())
        return y if self.bias is None else y + self.bias
