# Right: a hook on a view of the input, and a sum that is added as a constant; softmax by hand.
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    if heads % comm.world_size:
        raise ValueError("the ranks do not divide the heads")
    features = x.shape[-1]
    mine, d = heads // comm.world_size, features // heads
    begin, end = comm.rank * mine * d, (comm.rank + 1) * mine * d
    sections = [qkv_weight[s * features + begin : s * features + end] for s in range(3)]
    columns = output_weight[:, begin:end]

    def total(tensor):
        tensor = tensor.detach().clone()
        all_reduce(comm, tensor, algorithm="auto")
        return tensor

    x = x.view_as(x)
    if x.requires_grad:
        x.register_hook(total)
    query, key, value = (linear(x, w).unflatten(-1, (mine, d)).transpose(1, 2) for w in sections)
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / d**0.5
    scores = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    result = torch.einsum("bhij,bhjd->bihd", scores, value).flatten(-2)
    part = result @ columns.T
    return part + (total(part) - part).detach()
