# Right: the edges of the graph one after the other, in an order that all ranks share.
def gossip_average(comm, tensor, matrix, rounds):
    me, n = comm.rank, comm.world_size
    for _ in range(rounds):
        sent, total = tensor.clone(), matrix[me, me].item() * tensor
        for i in range(n):
            for j in range(n):
                if i != j and matrix[j, i] > 0:  # from i to j
                    if me == i:
                        comm.send(sent, j)
                    elif me == j:
                        arrived = torch.empty_like(sent)
                        comm.recv(arrived, i)
                        total = total + matrix[j, i].item() * arrived
        tensor.copy_(total)
