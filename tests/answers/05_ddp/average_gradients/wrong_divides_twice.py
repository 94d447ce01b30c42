# Wrong: divides before and after the sum. Loses all marks.
# Told: divided by the number of ranks twice
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    trained = [p for p in module.parameters() if p.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    flat /= comm.world_size
    all_reduce(comm, flat)
    flat /= comm.world_size
    for p, piece in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
        p.grad = piece.view_as(p)
