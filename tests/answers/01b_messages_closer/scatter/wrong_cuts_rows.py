# Wrong: cuts the tensor along its first dimension without making it flat. Loses the hidden marks.
# Told: the tensor is cut along its first dimension
def scatter(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> torch.Tensor:
    chunks = torch.tensor_split(tensor, comm.world_size)
    if comm.rank == root:
        for r in range(comm.world_size):
            if r != root:
                comm.send(chunks[r], r)
        return chunks[root]
    mine = torch.empty_like(chunks[comm.rank])
    comm.recv(mine, root)
    return mine
