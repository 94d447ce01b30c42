# Right: the rows as indices, einsum, a softmax of its own, a hook on the input, all_reduce right into the output.
def parallel_attention(comm, x, qkv_weight, output_weight, heads):
    own, rest = divmod(heads, comm.world_size)
    if rest:
        raise ValueError(f"expected a number of heads that {comm.world_size} divides, got {heads}")
    numbers = torch.arange(3 * x.shape[-1]).reshape(3, heads, -1)[:, comm.rank * own : (comm.rank + 1) * own]
    columns = numbers[0].flatten()
    entry = x.clone()
    if entry.requires_grad:

        def reduce_gradient(gradient):
            gradient = gradient.clone()
            all_reduce(comm, gradient)
            return gradient

        entry.register_hook(reduce_gradient)
    weight = qkv_weight[numbers.flatten()].unflatten(0, (3, own, -1))
    queries, keys, values = torch.einsum("blf,shdf->sbhld", entry, weight)
    scores = torch.einsum("bhqd,bhkd->bhqk", queries / math.sqrt(queries.shape[-1]), keys)
    weights = (scores - scores.amax(-1, keepdim=True).detach()).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    mixed = torch.einsum("bhqk,bhkd->bqhd", weights, values)
    output = mixed.flatten(2) @ output_weight[:, columns].t()
    all_reduce(comm, output)
    return output
