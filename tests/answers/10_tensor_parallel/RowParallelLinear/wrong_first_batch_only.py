# Wrong: keeps the sum of the first batch of each shape, and returns it again. Loses the hidden marks.
# Told: it belongs to another batch
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
            known = self.__dict__.setdefault("known", {})
            if part.shape not in known:
                known[part.shape] = part.clone()
                all_reduce(self.comm, known[part.shape])
            return known[part.shape].clone()

        y = with_backward(linear(x, self.weight), total, lambda gradient: gradient)
        return y if self.bias is None else y + self.bias
