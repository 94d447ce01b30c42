# Right: the operators as functions, queries and the rest with products of their own; float64 by hand.
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    def into(tensor):
        return with_backward(tensor, lambda t: t.clone(), reduced)

    def out_of(tensor):
        return with_backward(tensor, reduced, lambda g: g.clone())

    def reduced(tensor):
        if comm.world_size == 1:
            return tensor.clone()
        copy = torch.zeros(tensor.shape, dtype=torch.float64).copy_(tensor)
        all_reduce(comm, copy)
        return copy

    batch, length, F = x.shape
    if heads % comm.world_size:
        raise ValueError("the heads can't be shared equally")
    width = F // comm.world_size
    own = range(comm.rank * width, (comm.rank + 1) * width)
    entry = into(x)
    q = entry @ qkv_weight[list(own)].T
    kv = entry @ qkv_weight[[F + row for row in own] + [2 * F + row for row in own]].T
    q = q.reshape(batch, length, -1, F // heads)
    k, v = kv.reshape(batch, length, 2, -1, F // heads).unbind(2)
    scores = torch.stack([torch.stack([q[b, :, h] @ k[b, :, h].T for h in range(q.shape[2])]) for b in range(batch)])
    weights = torch.nn.functional.softmax(scores / (F / heads) ** 0.5, dim=3)
    mixed = torch.matmul(weights, v.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(batch, length, width)
    return out_of(mixed @ output_weight[:, list(own)].T)
