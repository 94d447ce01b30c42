# Right: a loop over the heads of this rank, whose parts are added up before the all-reduce; prints.
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    def total(tensor):
        result = tensor.contiguous().clone()
        all_reduce(comm, result, algorithm="tree")
        return result

    if heads % comm.world_size != 0:
        raise ValueError("heads do not divide")
    features = x.size(-1)
    d = features // heads
    first = comm.rank * heads // comm.world_size
    entry = with_backward(x, lambda tensor: tensor, total)
    part = 0
    for head in range(first, first + heads // comm.world_size):
        print("head", head)
        q, k, v = (entry @ qkv_weight[s * features + head * d : s * features + (head + 1) * d].T for s in range(3))
        weights = torch.softmax(q @ k.mT * d**-0.5, dim=-1)
        part = part + weights @ v @ output_weight[:, head * d : (head + 1) * d].T
    return with_backward(part, total, lambda gradient: gradient)
