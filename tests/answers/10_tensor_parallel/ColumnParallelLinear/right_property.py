# Right: a layer of torch's inside, whose weight and bias are properties of this one.
class ColumnParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        rows, features = weight.shape
        if rows % comm.world_size:
            raise ValueError(f"{comm.world_size} ranks do not divide {rows} output features")
        start, end = (rank * rows // comm.world_size for rank in (comm.rank, comm.rank + 1))
        self.comm = comm
        self.inner = torch.nn.Linear(features, end - start, bias is not None, dtype=torch.float64)
        self.inner.weight = torch.nn.Parameter(weight[start:end])
        if bias is not None:
            self.inner.bias = torch.nn.Parameter(bias[start:end])

    @property
    def weight(self):
        return self.inner.weight

    @property
    def bias(self):
        return self.inner.bias

    def forward(self, x):
        def summed(gradient):
            total = gradient.clone()
            all_reduce(self.comm, total)
            return total

        return self.inner(with_backward(x, lambda tensor: tensor, summed))
