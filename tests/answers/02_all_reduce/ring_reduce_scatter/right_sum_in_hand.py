# Right: a buffer travels; each rank adds its own chunk to what it has just received.
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1).clone()
    own = torch.tensor_split(flat, size)
    in_hand = own[(rank - 1) % size].clone()
    for step in range(size - 1):
        wanted = own[(rank - 2 - step) % size]
        received = torch.empty_like(wanted)
        comm.exchange(in_hand, (rank + 1) % size, received, (rank - 1) % size)
        in_hand = received + wanted
    own[rank].copy_(in_hand)
    tensor.copy_(flat.view(tensor.shape))
