# Right: receives and sends at once, then the gradient, then waits; many wrong answers are a change to it.
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    me, n = comm.rank, comm.world_size
    buffers = {j: torch.empty_like(parameters) for j in range(n) if j != me and matrix[me, j] != 0}
    works = [comm.irecv(buffers[j], j) for j in buffers]
    works += [comm.isend(parameters, j) for j in range(n) if j != me and matrix[j, me] != 0]
    slope = gradient(parameters)
    for work in works:
        work.wait()
    total = matrix[me, me].item() * parameters
    for j in buffers:
        total += matrix[me, j].item() * buffers[j]
    parameters.copy_(total - learning_rate * slope)
