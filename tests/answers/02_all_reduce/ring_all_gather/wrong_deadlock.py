# Wrong: every rank receives first, and nobody has sent. Loses all marks.
# Told: No rank on this cycle has sent
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        comm.recv(chunks[(rank - 1 - step) % size], (rank - 1) % size)
        comm.send(chunks[(rank - step) % size], (rank + 1) % size)
    tensor.copy_(flat.view(tensor.shape))
