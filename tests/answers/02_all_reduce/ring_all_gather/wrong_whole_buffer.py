# Wrong: the whole buffer goes round in every step. Right values, wrong bytes. Loses all marks.
# Told: the whole buffer goes round the ring in every step
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1).clone()
    for step in range(1, size):
        incoming = torch.empty_like(flat)
        comm.exchange(flat, (rank + 1) % size, incoming, (rank - 1) % size)
        source = (rank - step) % size
        torch.tensor_split(flat, size)[source].copy_(torch.tensor_split(incoming, size)[source])
    tensor.copy_(flat.view(tensor.shape))
