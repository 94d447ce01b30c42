# Wrong: comm.rank is a number, not a method: comm.rank(). Loses all marks.
# Told: write them without parentheses
def shift(comm: Communicator, tensor: torch.Tensor) -> None:
    n = comm.world_size
    if n == 1:
        return
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, (comm.rank() + 1) % n, incoming, (comm.rank() - 1) % n)
    tensor.copy_(incoming)
