# Right: the course's own.
def survive(comm: Communicator, job: Any) -> torch.Tensor:
    """Train until the target is reached, with the ranks that live. Returns the weights, the same on all of them.

    Args:
        comm: the communicator of this rank. Rank 0 lives; others may die at any moment.
        job: see above.
    """
    size, mine, draw = 32 // comm.world_size, list[int](), random.Random(comm.rank)
    weights, optimizer, workers = job.start(), job.optimizer(job.numbers), list(range(1, comm.world_size))
    for step in range(1, 500):
        if len(mine) < size:
            mine = draw.sample(job.samples, len(job.samples))
        gradient, mine = job.gradient(weights, mine[:size]), mine[size:]
        told = torch.cat([gradient, torch.tensor([size]).double()])  # the sum, and of how many samples
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
            optimizer.step(weights, told[:-1] / told[-1], 0.03)
            is_done = step > 14 and step % 3 == 0 and job.loss(weights) <= job.target
            told = torch.cat([weights, torch.tensor([is_done]).double()])
            for worker in list(workers):
                try:
                    comm.send(told, worker)
                except PeerLost:
                    workers.remove(worker)
        if told[-1]:
            break
    return weights
