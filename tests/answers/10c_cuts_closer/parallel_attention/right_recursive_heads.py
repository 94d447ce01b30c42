# Right: one head after the other, by recursion; scales within the product.
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    if any((heads - n) % comm.world_size for n in (0,)):
        raise ValueError("heads")
    F = x.size(-1)
    d, width = F // heads, F // comm.world_size
    start = comm.rank * width

    def everyone(t):
        t = t.clone()
        all_reduce(comm, t)
        return t

    weight = torch.cat([qkv_weight[start + s : start + s + width] for s in (0, F, 2 * F)])
    q, k, v = torch.tensor_split(linear(with_backward(x, torch.clone, everyone), weight), 3, dim=-1)

    def attend(q, k, v):
        if q.shape[-1] == 0:
            return q
        here = torch.baddbmm(q.new_zeros(1), q[..., :d], k[..., :d].mT, beta=0, alpha=1 / math.sqrt(d)).softmax(2)
        return torch.cat([here @ v[..., :d], attend(q[..., d:], k[..., d:], v[..., d:])], dim=-1)

    output = attend(q, k, v) @ output_weight[:, start : start + width].t()
    return with_backward(output, everyone, torch.clone)
