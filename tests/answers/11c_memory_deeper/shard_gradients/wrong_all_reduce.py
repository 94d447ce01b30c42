# Wrong: averages everything by an all-reduce, and keeps its part. Loses all marks.
# Told: this is what an all_reduce of the gradients sends
def shard_gradients(
    comm: Communicator, parameters: Sequence[torch.nn.Parameter], max_norm: float
) -> tuple[torch.Tensor, float]:
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in parameters])
    flat = torch.cat([flat, flat.new_zeros(-len(flat) % comm.world_size)])
    for parameter in parameters:
        parameter.grad = None
    all_reduce(comm, flat, ReduceOp.AVG)
    norm = flat.norm().item()
    shard = flat.chunk(comm.world_size)[comm.rank].clone()
    return shard * min(1, max_norm / (norm + 1e-6)), norm
