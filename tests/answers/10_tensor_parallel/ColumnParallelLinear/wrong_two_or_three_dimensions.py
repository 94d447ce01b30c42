# Wrong: right for inputs of two and three dimensions only. Loses the hidden marks.
# Told: any number of dimensions, also a single one
class ColumnParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        self.comm = comm
        if weight.shape[0] % comm.world_size:
            raise ValueError("the ranks do not divide the output features")
        share = weight.shape[0] // comm.world_size
        begin, end = comm.rank * share, (comm.rank + 1) * share
        rows = weight[begin:end]
        entries = None if bias is None else bias[begin:end]
        self.weight = torch.nn.Parameter(rows)
        self.bias = None if entries is None else torch.nn.Parameter(entries)

    def forward(self, x):
        def total(gradient):
            gradient = gradient.clone()
            all_reduce(self.comm, gradient)
            return gradient

        x = with_backward(x, lambda tensor: tensor.clone(), total)

        flat = x.reshape(-1, self.weight.shape[1])
        y = flat @ self.weight.T
        if self.bias is not None:
            y = y + self.bias
        return y if x.dim() == 2 else y.reshape(x.shape[0], x.shape[1], -1)
