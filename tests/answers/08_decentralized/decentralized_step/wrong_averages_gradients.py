# Wrong: data parallel: every rank takes the mean of all gradients. Loses all marks.
# Told: an average over all ranks
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    me, n = comm.rank, comm.world_size
    g = gradient(parameters)
    total = g.clone()
    for distance in range(1, n):
        box = torch.empty_like(g)
        comm.exchange(g, (me + distance) % n, box, (me - distance) % n)
        total += box
    parameters -= learning_rate * total / n
