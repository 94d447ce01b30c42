# Wrong: zeros of the default dtype for a missing gradient. Loses the hidden marks.
# Told: zeros of the parameter's dtype
def average_gradients(comm, module):
    parameters = [p for p in module.parameters() if p.requires_grad]
    flat = torch.cat([torch.zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) for p in parameters])
    all_reduce(comm, flat)
    flat /= comm.world_size
    for p, piece in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad = piece.view(p.shape)
