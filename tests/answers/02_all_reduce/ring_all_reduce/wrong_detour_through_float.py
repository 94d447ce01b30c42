# Wrong: computes in float32 whatever the dtype is, and casts back. Loses the hidden marks.
# Told: the values took a detour through another dtype. Keep float64 throughout
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1).to(torch.float32)
    sent = tensor.reshape(-1).clone()
    chunks, sending = torch.tensor_split(flat, size), torch.tensor_split(sent, size)
    for step in range(2 * (size - 1)):
        number, target = (rank - step) % size, chunks[(rank - step - 1) % size]
        sending[number].copy_(chunks[number])
        incoming = torch.empty_like(sending[(rank - step - 1) % size])
        comm.exchange(sending[number], (rank + 1) % size, incoming, (rank - 1) % size)
        if step < size - 1:
            target += incoming.to(torch.float32)
        else:
            target.copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
