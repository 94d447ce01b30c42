# Wrong: runs both halves once for every rank: sums are added up several times. Loses all marks.
# Told: this is 3 times the sum
def ring_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    for _ in range(comm.world_size - 1):
        ring_reduce_scatter(comm, tensor)
        ring_all_gather(comm, tensor)
