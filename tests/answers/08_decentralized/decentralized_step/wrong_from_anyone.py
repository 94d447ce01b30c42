# Wrong: receives from anyone without a tag, so a neighbor that is a step ahead is taken for another. Loses all marks.
# Told: name the rank that you receive from
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    me, n = comm.rank, comm.world_size
    start = parameters.clone()
    sends = [comm.isend(start, j) for j in range(n) if j != me and matrix[j, me]]
    total = matrix[me, me].item() * start - learning_rate * gradient(start)
    for _ in range(sum(bool(matrix[me, j]) for j in range(n) if j != me)):
        box = torch.empty_like(start)
        source = comm.recv(box)
        total += matrix[me, source].item() * box
    parameters.copy_(total)
    [send.wait() for send in sends]
