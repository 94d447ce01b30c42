# Right: both rings by hand, with exchange.
def train_step(comm, job, weights, optimizer, batch, shares, rate):
    p, r = comm.world_size, comm.rank
    starts = [sum(shares[:rank]) for rank in range(p + 1)]
    mine = list(batch)[starts[r] : starts[r + 1]]
    total = torch.zeros(job.numbers, dtype=torch.float64)
    if mine:
        total += job.gradient(weights, mine)
    parts = [part_of(job.numbers, p, rank) for rank in range(p)]
    to, frm = (r + 1) % p, (r - 1) % p
    for step in range(p - 1):
        out, into = parts[(r - 1 - step) % p], parts[(r - 2 - step) % p]
        arrived = torch.empty_like(total[into])
        comm.exchange(total[out].clone(), to, arrived, frm)
        total[into] += arrived
    optimizer.step(weights[parts[r]], total[parts[r]] / sum(shares), rate)
    for step in range(p - 1):
        out, into = parts[(r - step) % p], parts[(r - 1 - step) % p]
        arrived = torch.empty_like(weights[into])
        comm.exchange(weights[out].clone(), to, arrived, frm)
        weights[into] = arrived
