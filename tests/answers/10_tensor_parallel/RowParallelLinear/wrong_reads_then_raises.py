# Wrong: reads its share, and looks then whether the ranks divide. Loses all marks.
# Told: rank 0 raises a ValueError, but reads a part of weight before it
class RowParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        self.comm = comm
        share = weight.shape[1] // comm.world_size
        columns = weight[:, comm.rank * share : (comm.rank + 1) * share]
        entries = None if bias is None else bias[:]
        if weight.shape[1] % comm.world_size:
            raise ValueError("the ranks do not divide the input features")
        self.weight = torch.nn.Parameter(columns)
        self.bias = None if entries is None else torch.nn.Parameter(entries)

    def forward(self, x):
        def total(part):
            part = part.clone()
            all_reduce(self.comm, part)
            return part

        y = with_backward(linear(x, self.weight), total, lambda gradient: gradient)
        return y if self.bias is None else y + self.bias
