# Right: all tensors as the rows of one matrix; a round is a product with one row of weights.
def gossip_average(comm, tensor, matrix, rounds):
    me, n = comm.rank, comm.world_size
    weights = matrix.to(tensor.dtype)
    for _ in range(rounds):
        table = torch.zeros(n, tensor.numel(), dtype=tensor.dtype)
        table[me] = tensor.reshape(-1)
        handles = []
        for j in range(n):
            if j == me:
                continue
            if weights[me, j] != 0:
                handles.append(comm.irecv(table[j], j))
            if weights[j, me] != 0:
                handles.append(comm.isend(table[me], j))
        for handle in handles:
            handle.wait()
        tensor.copy_((weights[me] @ table).view(tensor.shape))
