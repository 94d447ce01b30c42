# Right: steps on one's own and averages on a slow network, synchronous steps elsewhere; states whole where they fit.
def train(comm, job):
    ranks, draw = comm.world_size, random.Random(comm.rank)
    slow = job.cluster.stragglers
    latency = max(job.cluster.intra.latency, job.cluster.inter.latency if job.cluster.nodes > 1 else 0)
    weights = job.start()

    def next_samples(number):
        return draw.sample(job.samples, number)

    if latency > 0.02:
        optimizer = job.optimizer(job.numbers)
        while True:
            for _ in range(8):
                optimizer.step(weights, job.gradient(weights, next_samples(16)) / 16, 0.03)
            all_reduce(comm, weights)
            weights /= ranks
            if job.loss(weights) <= job.target:
                return weights
    is_tight = job.memory < 40 * job.numbers
    own = part_of(job.numbers, ranks, comm.rank) if is_tight else slice(0, job.numbers)
    optimizer = job.optimizer(own.stop - own.start)
    share = max(1, round(64 / (ranks - len(slow) + sum(1 / each for each in slow.values())) / slow.get(comm.rank, 1)))
    total = torch.tensor([float(share)])
    all_reduce(comm, total)
    for step in range(400):
        gradient = job.gradient(weights, next_samples(share))
        if is_tight:
            ring_reduce_scatter(comm, gradient)
        else:
            all_reduce(comm, gradient)
        optimizer.step(weights[own], gradient[own] / total.item(), 0.04)
        if is_tight:
            ring_all_gather(comm, weights)
        if step >= 20 and step % 4 == 0 and job.loss(weights) <= job.target:
            return weights
    return weights
