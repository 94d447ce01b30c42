# Right: reads one column after the other.
class RowParallelLinear(torch.nn.Module):
    def __init__(self, comm, weight, bias):
        super().__init__()
        outputs, inputs = weight.shape
        each, rest = divmod(inputs, comm.world_size)
        if rest:
            raise ValueError("expected a number of input features that the ranks divide")
        columns = [weight[:, comm.rank * each + k] for k in range(each)]
        self.comm, self.weight = comm, torch.nn.Parameter(torch.stack(columns, dim=1))
        self.bias = bias if bias is None else torch.nn.Parameter(torch.stack([bias[k] for k in range(outputs)]))

    def forward(self, x):
        def reduce(tensor):
            total = torch.zeros_like(tensor) + tensor
            all_reduce(self.comm, total)
            return total

        y = with_backward(linear(x, self.weight), reduce, lambda gradient: gradient.clone())
        return y if self.bias is None else torch.add(y, self.bias)
