# Wrong: exchanges with every rank that it hears from; where only one sends, the other waits. Loses all marks.
# Told: One may be true without the other
def gossip_average(comm, tensor, matrix, rounds):
    me = comm.rank
    for _ in range(rounds):
        total = matrix[me, me].item() * tensor
        for other in range(comm.world_size):
            if other != me and matrix[me, other]:
                buffer = torch.empty_like(tensor)
                comm.exchange(tensor, other, buffer, other)
                total += matrix[me, other].item() * buffer
        tensor.copy_(total)
