# Wrong: does not call gradient where the rate is 0; the text says once in a step. Loses the hidden marks.
# Told: gradient was not called
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    change = learning_rate * gradient(parameters.clone()) if learning_rate else torch.zeros_like(parameters)
    others = [rank for rank in range(comm.world_size) if rank != comm.rank]
    buffers = {rank: torch.empty_like(parameters) for rank in others if matrix[comm.rank, rank]}
    works = [comm.irecv(buffer, rank) for rank, buffer in buffers.items()]
    works += [comm.isend(parameters, rank) for rank in others if matrix[rank, comm.rank]]
    for work in works:
        work.wait()
    parameters *= matrix[comm.rank, comm.rank].item()
    for rank, buffer in buffers.items():
        parameters += matrix[comm.rank, rank].item() * buffer
    parameters -= change
