# Wrong: moves towards each neighbor in turn, and sends to the next one what it has by then. Loses all marks.
# Told: the tensor is changed while others still wait for it
def gossip_average(comm, tensor, matrix, rounds):
    buffer = torch.empty_like(tensor)
    for _ in range(rounds):
        for other in range(comm.world_size):
            if other != comm.rank and matrix[comm.rank, other]:
                comm.exchange(tensor, other, buffer, other)
                tensor += matrix[comm.rank, other].item() * (buffer - tensor)
