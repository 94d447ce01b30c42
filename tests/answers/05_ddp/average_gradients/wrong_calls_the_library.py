# Wrong: lets the library average. Loses all marks.
# Told: distlib.training.ddp.plain.average_per_parameter
# Told by the judge: the library's average_per_parameter is not there
from distlib.training.ddp import average_per_parameter


def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    for p in module.parameters():
        if p.requires_grad and p.grad is None:
            p.grad = torch.zeros_like(p)
    average_per_parameter(comm, module)
