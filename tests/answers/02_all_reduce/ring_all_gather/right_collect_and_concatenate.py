# Right: collects the chunks in a list and writes them all at the end.
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    chunks = list(torch.tensor_split(tensor.reshape(-1).clone(), size))
    in_hand = chunks[rank]
    for step in range(1, size):
        source = (rank - step) % size
        received = torch.empty_like(chunks[source])
        comm.exchange(in_hand, (rank + 1) % size, received, (rank - 1) % size)
        chunks[source] = in_hand = received
    tensor.copy_(torch.cat(chunks).view(tensor.shape))
