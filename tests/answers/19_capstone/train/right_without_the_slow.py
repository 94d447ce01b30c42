# Right: a slow rank only passes messages on; batches of 48, or of 160 where messages cost more.
def train(comm, job):
    p, slow = comm.world_size, set(job.cluster.stragglers)
    workers = [rank for rank in range(p) if rank not in slow]
    link = max((job.cluster.link(r, (r + 1) % p) for r in range(p)), key=lambda each: each.latency)
    size = 160 if link.latency > 100 * job.seconds_per_sample / 8 else 56
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
