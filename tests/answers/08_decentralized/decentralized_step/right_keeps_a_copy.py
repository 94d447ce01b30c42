# Right: mixes at once, and takes the gradient last, at a copy of what the parameters were.
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    start = parameters.clone()
    row = matrix[comm.rank].to(parameters.dtype)
    sends = [comm.isend(start, j) for j in range(comm.world_size) if j != comm.rank and matrix[j, comm.rank]]
    parameters.mul_(row[comm.rank])
    for j in range(comm.world_size):
        if j != comm.rank and row[j]:
            theirs = torch.zeros_like(start)
            comm.recv(theirs, j)
            parameters.add_(theirs, alpha=row[j].item())
    parameters.sub_(gradient(start), alpha=learning_rate)
    for send in sends:
        send.wait()
