# Wrong: pads all chunks to the same length, so more bytes travel. Loses all marks.
# Told: chunks are padded to the same length
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    longest = max(len(chunk) for chunk in chunks)
    in_hand = torch.zeros(longest, dtype=tensor.dtype)
    in_hand[: len(chunks[rank])] = chunks[rank]
    for step in range(1, size):
        incoming = torch.empty_like(in_hand)
        comm.exchange(in_hand, (rank + 1) % size, incoming, (rank - 1) % size)
        chunk = chunks[(rank - step) % size]
        chunk.copy_(incoming[: len(chunk)])
        in_hand = incoming
    tensor.copy_(flat.view(tensor.shape))
