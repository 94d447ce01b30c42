# Right: divides before it sends, and takes the norm of the norms
def shard_gradients(comm, parameters, max_norm):
    flat = torch.zeros(
        -(-sum(p.numel() for p in parameters) // comm.world_size) * comm.world_size, dtype=parameters[0].dtype
    )
    pieces = flat.split([p.numel() for p in parameters] + [len(flat) - sum(p.numel() for p in parameters)])
    for p, piece in zip(parameters, pieces):
        torch.div(p.grad.reshape(-1), comm.world_size, out=piece)
        p.grad = None
    reduce_scatter(comm, flat, op=ReduceOp.SUM)
    mine = flat.view(comm.world_size, -1)[comm.rank]
    norms = torch.zeros(comm.world_size, dtype=flat.dtype)
    norms[comm.rank] = torch.linalg.vector_norm(mine)
    all_gather(comm, norms)
    norm = float(torch.linalg.vector_norm(norms))
    factor = max_norm / (norm + 1e-6) if norm > max_norm else 1
    return factor * mine, norm
