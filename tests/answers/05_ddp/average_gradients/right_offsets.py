# Right: a buffer made beforehand, filled and read by offsets.
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    trained = [p for p in module.parameters() if p.requires_grad]
    flat = torch.zeros(sum(p.numel() for p in trained), dtype=trained[0].dtype)
    places, start = [], 0
    for p in trained:
        places.append(slice(start, start + p.numel()))
        start += p.numel()
    for p, place in zip(trained, places, strict=True):
        if p.grad is not None:
            flat[place] = p.grad.reshape(-1)
    all_reduce(comm, flat)
    for p, place in zip(trained, places, strict=True):
        if p.grad is None:
            p.grad = torch.empty_like(p)
        p.grad.copy_(flat[place].reshape(p.shape) / comm.world_size)
