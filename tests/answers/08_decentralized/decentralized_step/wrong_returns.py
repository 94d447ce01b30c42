# Wrong: returns the new parameters, and leaves the tensor as it was. Loses all marks.
# Told: in place
def mix(comm, tensor, matrix):
    me, n = comm.rank, comm.world_size
    boxes = {j: torch.empty_like(tensor) for j in range(n) if j != me and matrix[me, j]}
    works = [comm.irecv(box, j) for j, box in boxes.items()]
    works += [comm.isend(tensor, j) for j in range(n) if j != me and matrix[j, me]]
    for work in works:
        work.wait()
    tensor.copy_(matrix[me, me].item() * tensor + sum(matrix[me, j].item() * box for j, box in boxes.items()))


def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    mixed = parameters.clone()
    mix(comm, mixed, matrix)
    return mixed - learning_rate * gradient(parameters)
