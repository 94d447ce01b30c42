# Wrong: exchanges with the neighbor after it first: in a ring everybody waits for the next one. Loses all marks.
# Told: no order of the ranks matters
def gossip_average(comm, tensor, matrix, rounds):
    me, n = comm.rank, comm.world_size
    for _ in range(rounds):
        total = matrix[me, me].item() * tensor
        for distance in range(1, n):
            other = (me + distance) % n
            if matrix[me, other]:
                buffer = torch.empty_like(tensor)
                comm.exchange(tensor, other, buffer, other)
                total += matrix[me, other].item() * buffer
        tensor.copy_(total)
