# Wrong: leaves out what has no gradient on this rank, so ranks send different things. Loses all marks.
# Told: ranks disagree about what is reduced
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    trained = [p for p in module.parameters() if p.grad is not None]
    gradients = [p.grad for p in trained]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    all_reduce(comm, flat)
    flat /= comm.world_size
    for p, piece in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
        p.grad = piece.view_as(p)
