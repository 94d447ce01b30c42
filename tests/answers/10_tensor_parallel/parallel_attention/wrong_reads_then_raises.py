# Wrong: reads its share, and looks then whether the ranks divide. Loses all marks.
# Told: rank 0 raises a ValueError, but reads a part of qkv_weight before it
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    features = x.shape[-1]
    mine, d = heads // comm.world_size, features // heads
    begin, end = comm.rank * mine * d, (comm.rank + 1) * mine * d
    sections = [qkv_weight[s * features + begin : s * features + end] for s in range(3)]
    columns = output_weight[:, begin:end]
    if heads % comm.world_size:
        raise ValueError("the ranks do not divide the heads")

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
