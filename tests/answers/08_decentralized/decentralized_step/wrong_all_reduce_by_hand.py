# Wrong: every rank sends to every other, and takes the mean of all. Loses all marks.
# Told: an average over all ranks
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    me, n = comm.rank, comm.world_size
    g = gradient(parameters)
    mine, total = parameters.clone(), parameters.clone()
    for distance in range(1, n):
        box = torch.empty_like(mine)
        comm.exchange(mine, (me + distance) % n, box, (me - distance) % n)
        total += box
    parameters.copy_(total / n - learning_rate * g)
