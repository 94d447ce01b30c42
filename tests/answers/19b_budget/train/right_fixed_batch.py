# Right: batches of 64, and steps alone where messages are slow; the fastest rank looks and tells the others.
def train(comm, job):
    ranks = range(comm.world_size)
    if job.cluster.link(0, 1).latency > 100 * job.seconds_per_sample:  # ten steps alone, then an average
        alone, lonely = job.start(), job.optimizer(job.numbers)
        drawn = random.Random(7 * comm.rank)
        while job.loss(alone) > job.target:
            for _ in range(10):
                lonely.step(alone, job.gradient(alone, drawn.sample(job.samples, 20)) / 20, 0.03)
            all_reduce(comm, alone)
            alone /= comm.world_size
        return alone
    speed = [1 / job.cluster.stragglers.get(rank, 1.0) for rank in ranks]
    size = 64
    shares = [max(1, round(size * each / sum(speed))) for each in speed]
    fastest = speed.index(max(speed))
    own = part_of(job.numbers, comm.world_size, comm.rank)
    weights, optimizer = job.start(), job.optimizer(own.stop - own.start)
    draw = random.Random(100 + comm.rank)
    is_done = torch.zeros(1)
    step = 0
    while not is_done.item():
        step += 1
        gradient = job.gradient(weights, draw.sample(job.samples, shares[comm.rank]))
        ring_reduce_scatter(comm, gradient)
        optimizer.step(weights[own], gradient[own] / sum(shares), 0.04)
        ring_all_gather(comm, weights)
        if step >= 18 and step % 4 == 0:
            if comm.rank == fastest:
                is_done.fill_(job.loss(weights) <= job.target)
            broadcast(comm, is_done, fastest)
    return weights
