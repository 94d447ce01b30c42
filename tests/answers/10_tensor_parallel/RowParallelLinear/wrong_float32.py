# Wrong: sends half of the bytes, as float32. Loses all marks.
# Told: this is almost right. Is it rounded on its way
class RowParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        self.comm = comm
        if weight.shape[1] % comm.world_size:
            raise ValueError("the ranks do not divide the input features")
        share = weight.shape[1] // comm.world_size
        columns = weight[:, comm.rank * share : (comm.rank + 1) * share]
        entries = None if bias is None else bias[:]
        self.weight = torch.nn.Parameter(columns)
        self.bias = None if entries is None else torch.nn.Parameter(entries)

    def forward(self, x):
        def total(part):
            part = part.float()
            all_reduce(self.comm, part)
            return part.double()

        y = with_backward(linear(x, self.weight), total, lambda gradient: gradient)
        return y if self.bias is None else y + self.bias
