# Wrong: sends every tensor to every rank, and computes all rounds there. Loses all marks.
# Told: matrix says who is whose neighbor
def gossip_average(comm, tensor, matrix, rounds):
    every = {comm.rank: tensor.clone()}
    for distance in range(1, comm.world_size):
        dst, src = (comm.rank + distance) % comm.world_size, (comm.rank - distance) % comm.world_size
        every[src] = torch.empty_like(tensor)
        comm.exchange(every[comm.rank], dst, every[src], src)
    row = torch.linalg.matrix_power(matrix, rounds)[comm.rank]
    tensor.copy_(sum(row[rank].item() * every[rank] for rank in every))
