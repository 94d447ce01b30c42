# Right: an own all-reduce: everyone to rank 0, and back.
def together(comm, number):
    value = torch.tensor([number], dtype=torch.float64)
    if comm.rank == 0:
        for other in range(1, comm.world_size):
            theirs = torch.zeros(1, dtype=torch.float64)
            comm.recv(theirs, other)
            value += theirs
        for other in range(1, comm.world_size):
            comm.send(value, other)
    else:
        comm.send(value, 0)
        comm.recv(value, 0)
    return value.item()


def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    s = together(mesh["tp"], sum(torch.sum(g**2).item() for g in sharded))
    s = together(mesh["pp"], s + sum(torch.sum(g**2).item() for g in replicated))
    norm = s**0.5
    if norm > max_norm:
        with torch.no_grad():
            for g in list(sharded) + list(replicated):
                g[...] = g * (max_norm / norm)
    return norm
