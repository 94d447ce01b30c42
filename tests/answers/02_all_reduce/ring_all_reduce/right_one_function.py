# Right: both phases in one function; in between, chunk r + 1 is full on rank r.
def ring_all_reduce(comm, tensor):
    n, r = comm.world_size, comm.rank
    flat = tensor.reshape(-1)
    chunks = list(torch.tensor_split(flat, n))
    for step in range(n - 1):
        target = chunks[(r - step - 1) % n]
        buffer = torch.empty_like(target)
        comm.exchange(chunks[(r - step) % n], (r + 1) % n, buffer, (r - 1) % n)
        target += buffer
    for step in range(n - 1):
        comm.exchange(chunks[(r + 1 - step) % n], (r + 1) % n, chunks[(r - step) % n], (r - 1) % n)
    tensor.copy_(flat.view(tensor.shape))
