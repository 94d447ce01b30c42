# Wrong: does not expect that a gradient is missing. Loses all marks.
# Told: a parameter may have no gradient
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    trained = [p for p in module.parameters() if p.requires_grad]
    gradients = [p.grad for p in trained]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    all_reduce(comm, flat)
    flat /= comm.world_size
    for p, piece in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
        p.grad = piece.view_as(p)
