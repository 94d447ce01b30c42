# Wrong: positions of all sequences of a batch attend to each other. Loses all marks.
# Told: the sequences of a batch attend to one another
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    if heads % comm.world_size:
        raise ValueError("the ranks do not divide the heads")
    features = x.shape[-1]
    mine, d = heads // comm.world_size, features // heads
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
    query, key, value = (linear(x, w).reshape(-1, mine, d).transpose(0, 1) for w in sections)
    scores = (query @ key.transpose(-1, -2) / math.sqrt(d)).softmax(-1)
    result = (scores @ value).transpose(0, 1).reshape(*x.shape[:2], -1)
    return with_backward(linear(result, columns), total, same)
