# Right: takes what comes first, from anyone, with a tag for each round.
def gossip_average(comm, tensor, matrix, rounds):
    me = comm.rank
    others = [j for j in range(comm.world_size) if j != me]
    for turn in range(rounds):
        handles = [comm.isend(tensor, j, tag=turn) for j in others if matrix[j, me]]
        new = matrix[me, me] * tensor
        for _ in range(sum(bool(matrix[me, j]) for j in others)):
            box = torch.empty_like(tensor)
            source = comm.recv(box, tag=turn)
            new += matrix[me, source] * box
        [handle.wait() for handle in handles]
        tensor.copy_(new)
