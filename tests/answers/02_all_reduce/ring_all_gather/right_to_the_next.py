# Right: chunks travel to the next rank and are received where they belong.
def ring_all_gather(comm, tensor):
    n = comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, n)
    for step in range(n - 1):
        going, coming = (comm.rank - step) % n, (comm.rank - step - 1) % n
        comm.exchange(chunks[going], (comm.rank + 1) % n, chunks[coming], (comm.rank - 1) % n)
    tensor.copy_(flat.view(tensor.shape))
