# Wrong: calls itself without end. Loses all marks.
# Told: a function calls itself
def ring_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    ring_all_reduce(comm, tensor)
