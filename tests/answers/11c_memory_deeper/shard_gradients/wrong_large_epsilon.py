# Wrong: an epsilon of 1e-3. Loses all marks.
# Told: another number is in its place
def shard_gradients(comm, parameters, max_norm):
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.world_size))
    for p in parameters:
        p.grad = None
    reduce_scatter(comm, flat, ReduceOp.AVG)
    shard = flat.chunk(comm.world_size)[comm.rank].clone()
    squares = (shard * shard).sum().reshape(1)
    all_reduce(comm, squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        shard *= max_norm / (norm + 1e-3)
    return shard, norm
