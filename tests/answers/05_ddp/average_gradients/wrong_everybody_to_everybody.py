# Wrong: every rank sends its gradients to every other rank. Loses all marks.
# Told: some things are sent more than once
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    trained = [p for p in module.parameters() if p.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    mine = flat.clone()
    for distance in range(1, comm.world_size):
        incoming = torch.empty_like(mine)
        comm.exchange(
            mine, (comm.rank + distance) % comm.world_size, incoming, (comm.rank - distance) % comm.world_size
        )
        flat += incoming
    flat /= comm.world_size
    for p, piece in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
        p.grad = piece.view_as(p)
