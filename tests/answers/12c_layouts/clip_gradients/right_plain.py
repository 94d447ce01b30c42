# Right: squares in one number, along tp, then along pp.
def clip_gradients(mesh, sharded, replicated, max_norm):
    squares = torch.zeros(1, dtype=torch.float64)
    for gradient in sharded:
        squares += (gradient**2).sum()
    all_reduce(mesh["tp"], squares)
    for gradient in replicated:
        squares += (gradient**2).sum()
    all_reduce(mesh["pp"], squares)
    norm = squares.item() ** 0.5
    if norm > max_norm:
        for gradient in list(sharded) + list(replicated):
            gradient.mul_(max_norm / norm)
    return norm
