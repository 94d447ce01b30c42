# Right: forward and backward of the whole layer in one autograd function; an all-reduce through a tree.
class ColumnParallelLinear(torch.nn.Module):
    class Multiply(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias, comm):
            ctx.save_for_backward(x, weight)
            ctx.comm, ctx.has_bias = comm, bias is not None
            y = x.matmul(weight.t())
            return y if bias is None else y + bias

        @staticmethod
        def backward(ctx, g):
            x, weight = ctx.saved_tensors
            input_gradient = (g @ weight).contiguous()
            all_reduce(ctx.comm, input_gradient, algorithm="tree")
            rows = g.reshape(-1, g.shape[-1])
            bias_gradient = rows.sum(0) if ctx.has_bias else None
            return input_gradient, rows.t() @ x.reshape(-1, x.shape[-1]), bias_gradient, None

    def __init__(self, comm, weight, bias):
        super().__init__()
        self.comm = comm
        each, rest = divmod(weight.shape[0], comm.world_size)
        if rest:
            raise ValueError(f"{comm.world_size} does not divide {weight.shape[0]}")
        own = [comm.rank * each + row for row in range(each)]
        self.weight = torch.nn.Parameter(torch.stack([weight[row] for row in own]))
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias[own]))

    def forward(self, x):
        return self.Multiply.apply(x, self.weight, self.bias, self.comm)
