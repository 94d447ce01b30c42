# Right: the course's own.
def train_step(
    comm: Communicator,
    job: Any,
    weights: torch.Tensor,
    optimizer: Any,
    batch: Sequence[int],
    shares: Sequence[int],
    rate: float,
) -> None:
    """Take one step with a batch, in place.

    Args:
        comm: the communicator of this rank.
        job: see above.
        weights: float64 [job.numbers], the same on every rank. Changed in place.
        optimizer: of this rank's part of the weights.
        batch: sample numbers, the same on every rank.
        shares: by rank, how many of them it takes. They sum to len(batch).
        rate: of the optimizer.

    Cost for p ranks and S bytes of weights: each rank computes for its share, and sends 2 (p - 1) messages of S / p.
    """
    first = sum(shares[: comm.rank])
    mine = batch[first : first + shares[comm.rank]]
    gradient = job.gradient(weights, mine) if mine else torch.zeros_like(weights)
    ring_reduce_scatter(comm, gradient)
    own = part_of(job.numbers, comm.world_size, comm.rank)
    optimizer.step(weights[own], gradient[own] / len(batch), rate)
    ring_all_gather(comm, weights)
