# Wrong: the chunks go through a global dict, the messages carry nothing of use. Loses all marks.
# Told: KeyError
BOARD = {}


def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.flatten(), comm.world_size)
    if comm.rank == root:
        for dst in range(comm.world_size):
            BOARD[dst] = chunks[dst]
            if dst != root:
                comm.send(torch.empty_like(chunks[dst]), dst)
    else:
        comm.recv(torch.empty_like(chunks[comm.rank]), root)
    return BOARD[comm.rank]
