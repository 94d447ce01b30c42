# Wrong: makes a matrix of the caller's own input. Loses all marks.
# Told: the input has another shape afterwards: [4, 5], and before [2, 2, 5]
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
        shape = x.shape
        x.data = x.data.reshape(-1, shape[-1])

        def total(gradient):
            gradient = gradient.clone()
            all_reduce(self.comm, gradient)
            return gradient

        x = with_backward(x, lambda tensor: tensor.clone(), total)
        return linear(x, self.weight, self.bias).reshape(*shape[:-1], -1)
