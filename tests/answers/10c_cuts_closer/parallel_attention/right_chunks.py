# Right: three reads, chunks, torch's attention; an autograd function for each direction.
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    class AttentionInput(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor):
            return tensor

        @staticmethod
        def backward(ctx, gradient):
            total = gradient.clone()
            all_reduce(comm, total)
            return total

    class AttentionOutput(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor):
            total = tensor.clone()
            all_reduce(comm, total)
            return total

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    N, F = comm.world_size, x.shape[2]
    if heads % N:
        raise ValueError(f"{heads} heads on {N} ranks")
    d, own = F // heads, heads // N
    start, end = comm.rank * own * d, (comm.rank + 1) * own * d
    qkv = torch.cat([qkv_weight[start:end], qkv_weight[F + start : F + end], qkv_weight[2 * F + start : 2 * F + end]])
    y = linear(AttentionInput.apply(x), qkv)
    q, k, v = [part.view(*x.shape[:2], own, d).transpose(1, 2) for part in y.chunk(3, dim=-1)]
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    mixed = mixed.transpose(1, 2).reshape(*x.shape[:2], own * d)
    return AttentionOutput.apply(mixed @ output_weight[:, start:end].T)
