# Wrong: swaps in pairs (rank ^ 1) instead of shifting round the ring. Loses all marks.
# Told: these are the values that rank 1 had at the start. Rank r
def shift(comm: Communicator, tensor: torch.Tensor) -> None:
    partner = comm.rank ^ 1
    if partner >= comm.world_size:
        return
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, partner, incoming, partner)
    tensor.copy_(incoming)
