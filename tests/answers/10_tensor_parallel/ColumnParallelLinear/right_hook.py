# Right: a hook on the input instead of an operator; a layer of torch's inside.
class ColumnParallelLinear(torch.nn.Linear):
    def __init__(self, comm, weight, bias):
        out_features, in_features = weight.shape
        if out_features % comm.world_size:
            raise ValueError(f"{out_features} features, {comm.world_size} ranks")
        each = out_features // comm.world_size
        super().__init__(in_features, each, bias is not None, dtype=torch.float64)
        start = each * comm.rank
        with torch.no_grad():
            self.weight.copy_(weight[start : start + each])
            if bias is not None:
                self.bias.copy_(bias[start : start + each])
        self.comm = comm

    def forward(self, x):
        x = x.view_as(x)
        if x.requires_grad:
            x.register_hook(self.reduce)
        return super().forward(x)

    def reduce(self, gradient):
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        all_reduce(self.comm, gradient)
        return gradient
