# Right: helper functions, and the whole sum in one expression.
def neighbors_of(matrix, rank):
    others = [j for j in range(len(matrix)) if j != rank]
    return [j for j in others if matrix[rank, j] != 0], [j for j in others if matrix[j, rank] != 0]


def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    hears, tells = neighbors_of(matrix, comm.rank)
    mail = {j: torch.empty(parameters.shape, dtype=parameters.dtype) for j in hears}
    handles = [comm.irecv(mail[j], src=j) for j in hears] + [comm.isend(parameters, dst=j) for j in tells]
    for handle in handles:
        handle.wait()
    weights = matrix[comm.rank].tolist()
    mixed = sum((weights[j] * mail[j] for j in hears), weights[comm.rank] * parameters)
    new = mixed - learning_rate * gradient(parameters)
    with torch.no_grad():
        parameters.data.copy_(new)
