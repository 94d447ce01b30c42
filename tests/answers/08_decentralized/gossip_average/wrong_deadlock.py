# Wrong: every rank sends to its neighbors first, and waits. Loses all marks.
# Told: no order of the ranks matters
def gossip_average(comm, tensor, matrix, rounds):
    me = comm.rank
    for _ in range(rounds):
        for other in range(comm.world_size):
            if other != me and matrix[other, me]:
                comm.send(tensor, other)
        total = matrix[me, me].item() * tensor
        for other in range(comm.world_size):
            if other != me and matrix[me, other]:
                buffer = torch.empty_like(tensor)
                comm.recv(buffer, other)
                total += matrix[me, other].item() * buffer
        tensor.copy_(total)
