# Wrong: a round of gossip for the gradient as well as for the parameters. Loses all marks.
# Told: or the gradient was mixed, too
def mix(comm, tensor, matrix):
    me, n = comm.rank, comm.world_size
    boxes = {j: torch.empty_like(tensor) for j in range(n) if j != me and matrix[me, j]}
    works = [comm.irecv(box, j) for j, box in boxes.items()]
    works += [comm.isend(tensor, j) for j in range(n) if j != me and matrix[j, me]]
    for work in works:
        work.wait()
    tensor.copy_(matrix[me, me].item() * tensor + sum(matrix[me, j].item() * box for j, box in boxes.items()))


def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    g = gradient(parameters)
    mix(comm, parameters, matrix)
    mix(comm, g, matrix)
    parameters -= learning_rate * g
