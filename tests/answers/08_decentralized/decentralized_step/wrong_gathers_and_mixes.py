# Wrong: right values, but every rank gets the parameters of all. Loses all marks.
# Told: matrix says who is whose neighbor
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    me, n = comm.rank, comm.world_size
    every = {me: parameters.clone()}
    for distance in range(1, n):
        dst, src = (me + distance) % n, (me - distance) % n
        every[src] = torch.empty_like(every[me])
        comm.exchange(every[me], dst, every[src], src)
    g = gradient(parameters)
    parameters.copy_(sum(matrix[me, j].item() * every[j] for j in range(n)) - learning_rate * g)
