# Right: the weight lies in a layer of torch's without a bias, and is a property of this one.
class RowParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        out_features, in_features = weight.shape
        if in_features % comm.world_size != 0:
            raise ValueError("the ranks do not divide the input features")
        width = in_features // comm.world_size
        own = slice(comm.rank * width, (comm.rank + 1) * width)
        self.comm, self.product = comm, torch.nn.Linear(width, out_features, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.product.weight.copy_(weight[:, own])
        self.bias = torch.nn.Parameter(bias[:]) if bias is not None else None

    @property
    def weight(self):
        return self.product.weight

    def forward(self, x):
        def summed(part):
            total = part.clone()
            all_reduce(self.comm, total)
            return total

        total = with_backward(self.product(x), summed, lambda gradient: gradient)
        return total if self.bias is None else total + self.bias
