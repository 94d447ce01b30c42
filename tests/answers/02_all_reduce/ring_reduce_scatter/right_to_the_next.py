# Right: chunks travel to the next rank.
def ring_reduce_scatter(comm, tensor):
    n = comm.world_size
    flat = tensor.reshape(-1)
    chunks = list(torch.tensor_split(flat, n))
    for step in range(1, n):
        going, coming = (comm.rank - step) % n, (comm.rank - step - 1) % n
        buffer = torch.zeros_like(chunks[coming])
        comm.exchange(chunks[going], (comm.rank + 1) % n, buffer, (comm.rank - 1) % n)
        chunks[coming] += buffer
    tensor.copy_(flat.view(tensor.shape))
