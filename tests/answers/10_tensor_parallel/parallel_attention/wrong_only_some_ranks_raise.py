# Wrong: raises on the ranks that have fewer heads; the others wait for them. Loses all marks.
# Told: raise a ValueError where the ranks do not divide
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    features = x.shape[-1]
    d, mine = features // heads, -(-heads // comm.world_size)
    if (comm.rank + 1) * mine > heads:
        raise ValueError("not enough heads for this rank")
    begin, end = comm.rank * mine * d, (comm.rank + 1) * mine * d
    sections = [qkv_weight[s * features + begin : s * features + end] for s in range(3)]
    columns = output_weight[:, begin:end]

    def total(tensor):
        tensor = tensor.clone()
        all_reduce(comm, tensor)
        return tensor

    def same(tensor):
        return tensor.clone()

    x = with_backward(x, same, total)
    query, key, value = (linear(x, w).unflatten(-1, (mine, d)).transpose(1, 2) for w in sections)
    scores = (query @ key.transpose(-1, -2) / math.sqrt(d)).softmax(-1)
    result = (scores @ value).transpose(1, 2).flatten(2)
    return with_backward(linear(result, columns), total, same)
