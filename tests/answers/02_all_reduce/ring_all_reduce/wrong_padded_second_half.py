# Wrong: in the second half it sends chunks that are padded to the same length. Loses all marks.
# Told: some messages are longer than the chunk that they carry
def ring_all_reduce(comm, tensor):
    ring_reduce_scatter(comm, tensor)
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    in_hand = torch.zeros(max(len(chunk) for chunk in chunks), dtype=tensor.dtype)
    in_hand[: len(chunks[rank])] = chunks[rank]
    for step in range(1, size):
        incoming = torch.empty_like(in_hand)
        comm.exchange(in_hand, (rank + 1) % size, incoming, (rank - 1) % size)
        chunk = chunks[(rank - step) % size]
        chunk.copy_(incoming[: len(chunk)])
        in_hand = incoming
    tensor.copy_(flat.view(tensor.shape))
