# Wrong: talks to the ranks before and after it, whatever the matrix says. Loses all marks.
# Told: who the neighbors are is in the matrix
def gossip_average(comm, tensor, matrix, rounds):
    me = comm.rank
    for _ in range(rounds):
        total = matrix[me, me].item() * tensor
        for other in (me - 1, me + 1):
            buffer = torch.empty_like(tensor)
            comm.exchange(tensor, other, buffer, other)
            total += matrix[me, other].item() * buffer
        tensor.copy_(total)
