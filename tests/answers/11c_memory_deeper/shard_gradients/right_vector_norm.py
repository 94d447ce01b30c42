# Right: torch's norm, a dictionary of slices, no chunk.
@torch.no_grad()
def shard_gradients(
    comm: Communicator, parameters: Sequence[torch.nn.Parameter], max_norm: float
) -> tuple[torch.Tensor, float]:
    flat = torch.nn.utils.parameters_to_vector([parameter.grad for parameter in parameters])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.world_size))
    flat /= comm.world_size
    for parameter in parameters:
        parameter.grad = None
    reduce_scatter(comm, flat)
    share = len(flat) // comm.world_size
    own = {rank: slice(rank * share, (rank + 1) * share) for rank in range(comm.world_size)}[comm.rank]
    shard = flat[own].clone()
    square = torch.linalg.vector_norm(shard) ** 2
    all_reduce(comm, square)
    norm = square.sqrt().item()
    shard.mul_(torch.clamp(torch.tensor(max_norm / (norm + 1e-6)), max=1.0))
    return shard, norm
