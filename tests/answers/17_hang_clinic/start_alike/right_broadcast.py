# Right: rank 0's weights go to all.
def start_alike(comm, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(4, 3, generator=generator)
    broadcast(comm, weights)
    noise = torch.rand(6, generator=generator)
    return weights, noise
