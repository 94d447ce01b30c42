# Right: the parameters' elements as rows of a table, one product with the row of weights; the update by addcmul.
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    rank, size = comm.rank, comm.world_size
    table = torch.zeros(size, *parameters.shape, dtype=parameters.dtype)
    table[rank] = parameters
    pending = []
    for distance in range(1, size):
        before, after = (rank - distance) % size, (rank + distance) % size
        if matrix[rank, before] > 0:
            pending.append(comm.irecv(table[before], before))
        if matrix[after, rank] > 0:
            pending.append(comm.isend(table[rank], after))
    step = -learning_rate * gradient(table[rank].clone())
    [work.wait() for work in pending]
    parameters[...] = torch.tensordot(matrix[rank].to(parameters.dtype), table, dims=1) + step
