# Right: every part goes straight to its owner, and from it to all; the samples backwards.
def train_step(comm, job, weights, optimizer, batch, shares, rate):
    first = sum(shares[: comm.rank])
    gradient = job.gradient(weights, list(batch[first : first + shares[comm.rank]])[::-1])
    own = part_of(job.numbers, comm.world_size, comm.rank)
    total = gradient[own].clone()
    for distance in range(1, comm.world_size):
        dst, src = (comm.rank + distance) % comm.world_size, (comm.rank - distance) % comm.world_size
        arrived = torch.empty_like(total)
        comm.exchange(gradient[part_of(job.numbers, comm.world_size, dst)].clone(), dst, arrived, src)
        total += arrived
    mine = weights[own].clone()
    optimizer.step(mine, total / len(batch), rate)
    weights[own] = mine
    for distance in range(1, comm.world_size):
        dst, src = (comm.rank + distance) % comm.world_size, (comm.rank - distance) % comm.world_size
        theirs = part_of(job.numbers, comm.world_size, src)
        arrived = torch.empty(theirs.stop - theirs.start, dtype=torch.float64)
        comm.exchange(mine, dst, arrived, src)
        weights[theirs] = arrived
