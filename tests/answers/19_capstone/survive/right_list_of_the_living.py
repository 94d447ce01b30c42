# Right: rank 0 asks for gradients with the weights, and the others wait to be asked.
def survive(comm, job):
    n = job.numbers
    asked = torch.zeros(n + 1, dtype=torch.float64)  # the weights, and whether to go on
    draw = random.Random(7 + comm.rank)
    if comm.rank:
        while True:
            comm.recv(asked, 0)
            if asked[n] == 0:
                return asked[:n].clone()
            comm.send(job.gradient(asked[:n].clone(), draw.sample(job.samples, 8)), 0)
    weights, adam = job.start(), job.optimizer(n)
    living = set(range(1, comm.world_size))

    def tell(rank, goes_on):
        try:
            comm.send(torch.cat([weights, torch.full((1,), goes_on).double()]), rank)
        except PeerLost:
            living.discard(rank)

    for step in range(1, 300):
        for rank in sorted(living):
            tell(rank, 1.0)
        total, samples = job.gradient(weights, draw.sample(job.samples, 8)), 8
        for rank in sorted(living):
            theirs = torch.zeros(n, dtype=torch.float64)
            try:
                comm.recv(theirs, rank)
            except PeerLost:
                living.discard(rank)
                continue
            total, samples = total + theirs, samples + 8
        adam.step(weights, total / samples, 0.03)
        if step > 20 and step % 4 == 0 and job.loss(weights) <= job.target:
            break
    for rank in sorted(living):
        tell(rank, 0.0)
    return weights
