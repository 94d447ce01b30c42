# Right: the course's own.
def train(comm: Communicator, job: Any) -> torch.Tensor:
    """Train until the target is reached, on all ranks. Returns the weights, the same on all of them.

    Args:
        comm: the communicator of this rank.
        job: see above.
    """

    def shares_of(size: int) -> list[int]:
        """Shares such that ranks compute about equally long: each next sample goes to who is done first with it."""
        slowness = [job.cluster.stragglers.get(rank, 1.0) for rank in range(comm.world_size)]
        shares = [0] * comm.world_size
        for _ in range(size):
            first_done = min(range(comm.world_size), key=lambda rank: (shares[rank] + 1) * slowness[rank])
            shares[first_done] += 1
        return shares

    def ring_seconds() -> float:
        """What the messages of a step take."""
        links = [job.cluster.link(rank, (rank + 1) % comm.world_size) for rank in range(comm.world_size)]
        return 2 * (comm.world_size - 1) * max(link.seconds(8 * job.numbers / comm.world_size) for link in links)

    def seconds_with(size: int) -> float:
        """What a training with batches of this size takes, if it takes 20 (1 + 70 / size) steps."""
        shares = shares_of(size)
        computing = max(
            share * job.seconds_per_sample * job.cluster.stragglers.get(rank, 1.0) for rank, share in enumerate(shares)
        )
        return 20 * (1 + 70 / size) * (computing + ring_seconds())

    def samples_in_order() -> Iterator[int]:
        draw = random.Random(comm.rank)
        while True:
            yield from draw.sample(job.samples, len(job.samples))

    def with_steps_alone() -> torch.Tensor:
        """Eight steps on one's own, then the average of all ranks' weights."""
        weights, optimizer, samples = job.start(), job.optimizer(job.numbers), samples_in_order()
        while True:
            for _ in range(8):
                mine = [next(samples) for _ in range(16)]
                optimizer.step(weights, job.gradient(weights, mine) / 16, 0.03)
            all_reduce(comm, weights)
            weights /= comm.world_size
            if job.loss(weights) <= job.target:
                return weights

    if ring_seconds() > 200 * job.seconds_per_sample:
        return with_steps_alone()
    size = min((32, 40, 48, 64, 96, 128, 192, 256), key=seconds_with)
    shares, samples = shares_of(size), samples_in_order()
    own = part_of(job.numbers, comm.world_size, comm.rank)
    weights, optimizer = job.start(), job.optimizer(own.stop - own.start)
    for step in range(1, 500):
        mine = [next(samples) for _ in range(shares[comm.rank])]
        gradient = job.gradient(weights, mine)
        ring_reduce_scatter(comm, gradient)
        optimizer.step(weights[own], gradient[own] / size, 0.03 if size < 64 else 0.04)
        ring_all_gather(comm, weights)
        if step > 14 and step % 4 == 0 and job.loss(weights) <= job.target:
            break
    return weights
