# Wrong: right values, but every rank sends its gradient along, in a second message. Loses all marks.
# Told: its parameters in
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    me, n = comm.rank, comm.world_size
    g, start = gradient(parameters), parameters.clone()
    heard = {j: (torch.empty_like(start), torch.empty_like(start)) for j in range(n) if j != me and matrix[me, j]}
    works = [comm.irecv(box, j) for j in heard for box in heard[j]]
    works += [comm.isend(each, j) for j in range(n) if j != me and matrix[j, me] for each in (start, g)]
    [work.wait() for work in works]
    total = matrix[me, me].item() * start - learning_rate * g
    for j in heard:
        total += matrix[me, j].item() * heard[j][0]
    parameters.copy_(total)
