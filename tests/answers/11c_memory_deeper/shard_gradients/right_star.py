# Right: rank 0 adds the squares up and sends the sum to the others
def shard_gradients(comm, parameters, max_norm):
    n = comm.world_size
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % n))
    for p in parameters:
        p.grad = None
    reduce_scatter(comm, flat, ReduceOp.AVG)
    shard = flat.chunk(n)[comm.rank].clone()
    squares = shard.pow(2).sum().view(1)
    if comm.rank == 0:
        for r in range(1, n):
            other = torch.zeros_like(squares)
            comm.recv(other, r)
            squares = squares + other
        for r in range(1, n):
            comm.send(squares, r)
    else:
        comm.send(squares, 0)
        comm.recv(squares, 0)
    norm = squares.item() ** 0.5
    return (shard * (max_norm / (norm + 1e-6)) if norm > max_norm else shard), norm
