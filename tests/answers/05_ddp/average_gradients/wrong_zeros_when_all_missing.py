# Wrong: returns at once where no gradient is there on this rank. Loses the hidden marks.
# Told: ranks disagree about what is reduced
def average_gradients(comm, module):
    parameters = [p for p in module.parameters() if p.requires_grad]
    if all(p.grad is None for p in parameters):
        return
    flat = torch.cat([torch.zeros_like(p).reshape(-1) if p.grad is None else p.grad.reshape(-1) for p in parameters])
    all_reduce(comm, flat)
    flat /= comm.world_size
    for p, piece in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad = piece.view(p.shape)
