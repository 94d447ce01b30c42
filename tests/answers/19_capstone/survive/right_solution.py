# Right: the course's own.
def survive(comm: Communicator, job: Any) -> torch.Tensor:
    """Train until the target is reached, with the ranks that live. Returns the weights, the same on all of them.

    Args:
        comm: the communicator of this rank. Rank 0 lives; others may die at any moment.
        job: see above.
    """
    size, draw = 32, random.Random(0)
    weights, optimizer, workers = job.start(), job.optimizer(job.numbers), list(range(1, comm.world_size))
    order: list[int] = []
    for step in range(1, 500):
        if len(order) < size:
            order = draw.sample(range(job.samples), job.samples)
        batch, order = order[:size], order[size:]
        mine = batch[comm.rank :: comm.world_size]
        told = torch.cat([job.gradient(weights, mine), torch.tensor([len(mine)]).double()])  # the sum, and of how many
        if comm.rank > 0:
            comm.send(told, 0)
            comm.recv(told, 0)
            weights = told[:-1]
        else:
            arrived = torch.empty_like(told)
            for worker in list(workers):
                try:
                    comm.recv(arrived, worker)
                    told += arrived
                except PeerLost:
                    workers.remove(worker)
            optimizer.step(weights, told[:-1] / told[-1], 0.04)
            is_done = step > 14 and step % 2 == 0 and job.loss(weights) <= job.target
            told = torch.cat([weights, torch.tensor([is_done]).double()])
            for worker in list(workers):
                try:
                    comm.send(told, worker)
                except PeerLost:
                    workers.remove(worker)
        if told[-1]:
            break
    return weights
