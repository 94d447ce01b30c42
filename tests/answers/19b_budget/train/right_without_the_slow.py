# Right: a slow rank only passes messages on; batches of 56, and steps alone where messages are slow.
def train(comm, job):
    p, slow = comm.world_size, set(job.cluster.stragglers)
    if job.cluster.link(0, 1).latency > 100 * job.seconds_per_sample:  # ten steps alone, then an average
        alone, lonely = job.start(), job.optimizer(job.numbers)
        drawn = random.Random(7 * comm.rank)
        while job.loss(alone) > job.target:
            for _ in range(10):
                lonely.step(alone, job.gradient(alone, drawn.sample(job.samples, 20)) / 20, 0.03)
            all_reduce(comm, alone)
            alone /= comm.world_size
        return alone
    workers = [rank for rank in range(p) if rank not in slow]
    size = 56
    each = size // len(workers)
    part = part_of(job.numbers, p, comm.rank)
    w, adam, order = job.start(), job.optimizer(part.stop - part.start), []
    for step in range(1, 300):
        g = torch.zeros(job.numbers, dtype=torch.float64)
        if comm.rank in workers:
            if len(order) < each:
                order = list(job.samples)
                random.Random(step).shuffle(order)
            g, order = job.gradient(w, order[:each]), order[each:]
        ring_reduce_scatter(comm, g)
        adam.step(w[part], g[part] / (each * len(workers)), 0.035)
        del g
        ring_all_gather(comm, w)
        if step >= 20 and step % 3 == 0:
            flag = torch.zeros(1)
            if comm.rank == workers[0] and job.loss(w) <= job.target:
                flag += 1
            broadcast(comm, flag, workers[0])
            if flag:
                break
    return w
