# Wrong: averages with one neighbor after the other, half and half. Loses all marks.
# Told: all as they were when the round began
def gossip_average(comm, tensor, matrix, rounds):
    me, n = comm.rank, comm.world_size
    for _ in range(rounds):
        for j in range(n):
            if j != me and matrix[me, j] and matrix[j, me]:
                box = torch.empty_like(tensor)
                comm.exchange(tensor, j, box, j)
                tensor.copy_((tensor + box) / 2)
