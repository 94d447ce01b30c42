# Wrong: torch's clip_grad_norm_ clips each rank's own gradient, before the average. Loses all marks.
# Told: this rank's own gradient
def shard_gradients(
    comm: Communicator, parameters: Sequence[torch.nn.Parameter], max_norm: float
) -> tuple[torch.Tensor, float]:
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm).item()
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in parameters])
    flat = torch.cat([flat, flat.new_zeros(-len(flat) % comm.world_size)])
    for parameter in parameters:
        parameter.grad = None
    reduce_scatter(comm, flat, ReduceOp.AVG)
    return flat.chunk(comm.world_size)[comm.rank].clone(), norm
