# Wrong: one all-reduce for each parameter. Loses all marks.
# Told: each parameter has an all-reduce of its own
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    for p in module.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            all_reduce(comm, p.grad)
            p.grad /= comm.world_size
