# Wrong: divides by the number of ranks that have the gradient. Loses all marks.
# Told: all gradients go into one flat tensor, once, and nothing else does
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    trained = [p for p in module.parameters() if p.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    users = torch.tensor([float(p.grad is not None) for p in trained], dtype=trained[0].dtype)
    flat = torch.cat([*(gradient.flatten() for gradient in gradients), users])
    all_reduce(comm, flat)
    *pieces, users = flat.split([*(p.numel() for p in trained), len(trained)])
    for p, piece, number in zip(trained, pieces, users, strict=True):
        p.grad = piece.view_as(p) / max(1.0, float(number))
