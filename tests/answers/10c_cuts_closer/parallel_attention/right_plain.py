# Right: as the text says it, step by step.
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    N, rank, F = comm.world_size, comm.rank, x.shape[-1]
    if heads % N != 0:
        raise ValueError(f"{N} ranks can't have equal shares of {heads} heads")
    own = heads // N
    d = F // heads
    start, end = rank * own * d, (rank + 1) * own * d
    rows = list(range(start, end)) + list(range(F + start, F + end)) + list(range(2 * F + start, 2 * F + end))

    def summed(tensor):
        total = tensor.clone()
        all_reduce(comm, total)
        return total

    def same(tensor):
        return tensor

    copied = with_backward(x, same, summed)
    packed = linear(copied, qkv_weight[rows])
    batch, length = x.shape[:2]
    packed = packed.reshape(batch, length, 3, own, d)
    q, k, v = packed[:, :, 0], packed[:, :, 1], packed[:, :, 2]
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    scores = q @ k.transpose(2, 3)
    scores = scores / math.sqrt(d)
    weights = scores.softmax(dim=-1)
    mixed = weights @ v
    mixed = mixed.transpose(1, 2)
    mixed = mixed.reshape(batch, length, own * d)
    part = linear(mixed, output_weight[:, start:end])
    return with_backward(part, summed, same)
