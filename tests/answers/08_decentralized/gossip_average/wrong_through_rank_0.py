# Wrong: rank 0 collects all tensors, mixes and sends them back. Loses all marks.
# Told: matrix says who is whose neighbor
def gossip_average(comm, tensor, matrix, rounds):
    if comm.rank:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
        return
    every = [tensor.clone()]
    for rank in range(1, comm.world_size):
        every.append(torch.empty_like(tensor))
        comm.recv(every[rank], rank)
    power = torch.linalg.matrix_power(matrix, rounds)
    for rank in range(comm.world_size - 1, -1, -1):
        mixed = sum(power[rank, other].item() * every[other] for other in range(comm.world_size))
        if rank:
            comm.send(mixed, rank)
        else:
            tensor.copy_(mixed)
