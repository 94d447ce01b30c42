# Wrong: every rank sends to its neighbors first, and waits. Loses all marks.
# Told: no order of the ranks matters
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    me, n = comm.rank, comm.world_size
    g = gradient(parameters)
    for j in range(n):
        if j != me and matrix[j, me]:
            comm.send(parameters, j)
    total = matrix[me, me].item() * parameters
    for j in range(n):
        if j != me and matrix[me, j]:
            box = torch.empty_like(parameters)
            comm.recv(box, j)
            total += matrix[me, j].item() * box
    parameters.copy_(total - learning_rate * g)
