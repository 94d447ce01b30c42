# Wrong: starts the all-reduce and goes on at once. Loses all marks.
# Told: wait for it, work.wait()
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    trained = [p for p in module.parameters() if p.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    all_reduce(comm, flat, async_op=True)
    flat /= comm.world_size
    for p, piece in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
        p.grad = piece.view_as(p)
