# Right: one neighbor after the other, in the order of their numbers; exchanges only where both ends send.
def gossip_average(comm, tensor, matrix, rounds):
    me = comm.rank
    for _ in range(rounds):
        old = tensor.clone()
        total = matrix[me, me].item() * old
        for j in range(comm.world_size):
            if j == me:
                continue
            incoming = torch.zeros_like(old)
            need, wanted = matrix[me, j] > 0, matrix[j, me] > 0
            if need and wanted:
                comm.exchange(old, j, incoming, j)
            elif need:
                comm.recv(incoming, j)
            elif wanted:
                comm.send(old, j)
            total += matrix[me, j].item() * incoming
        tensor.copy_(total)
