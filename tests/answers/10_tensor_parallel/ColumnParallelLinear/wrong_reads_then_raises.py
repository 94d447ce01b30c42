# Wrong: reads its share, and looks then whether the ranks divide. Loses all marks.
# Told: rank 0 raises a ValueError, but reads a part of weight before it
class ColumnParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        self.comm = comm
        share = weight.shape[0] // comm.world_size
        begin, end = comm.rank * share, (comm.rank + 1) * share
        rows = weight[begin:end]
        entries = None if bias is None else bias[begin:end]
        if weight.shape[0] % comm.world_size:
            raise ValueError("the ranks do not divide the output features")
        self.weight = torch.nn.Parameter(rows)
        self.bias = None if entries is None else torch.nn.Parameter(entries)

    def forward(self, x):
        def total(gradient):
            gradient = gradient.clone()
            all_reduce(self.comm, gradient)
            return gradient

        x = with_backward(x, lambda tensor: tensor.clone(), total)
        return linear(x, self.weight, self.bias)
