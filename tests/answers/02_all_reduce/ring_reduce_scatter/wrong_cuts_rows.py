# Wrong: cuts the tensor along its first dimension without making it flat. Loses the hidden marks.
# Told: the tensor is cut along its first dimension
def ring_reduce_scatter(comm: Communicator, tensor: torch.Tensor) -> None:
    n = comm.world_size
    chunks = torch.tensor_split(tensor, n)
    for step in range(n - 1):
        out = chunks[(comm.rank - step - 1) % n]
        mine = chunks[(comm.rank - step - 2) % n]
        incoming = torch.empty_like(mine)
        comm.exchange(out, (comm.rank + 1) % n, incoming, (comm.rank - 1) % n)
        mine += incoming
