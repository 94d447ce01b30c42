# Wrong: clips the own whole gradients by torch before the average. Loses all marks.
def shard_gradients(comm, parameters, max_norm):
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm).item()
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.world_size))
    for p in parameters:
        p.grad = None
    reduce_scatter(comm, flat, ReduceOp.AVG)
    return flat.chunk(comm.world_size)[comm.rank].clone(), norm
