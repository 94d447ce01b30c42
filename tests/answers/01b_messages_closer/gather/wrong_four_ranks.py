# Wrong: written for 4 ranks only. Loses all marks.
# Told: Is another number written into your code
def gather(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> list[torch.Tensor] | None:
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    result = [tensor.clone() for _ in range(4)]
    for r in range(4):
        if r != root:
            comm.recv(result[r], r)
    return result
