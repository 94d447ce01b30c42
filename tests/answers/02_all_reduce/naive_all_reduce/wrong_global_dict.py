# Wrong: the values go through a global dict, the messages carry nothing of use. Loses all marks.
# Told: raised KeyError
BOARD = {}


def naive_all_reduce(comm, tensor):
    BOARD[comm.rank] = tensor.clone()
    if comm.rank == 0:
        for src in range(1, comm.world_size):
            comm.recv(torch.empty_like(tensor), src)
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.send(tensor, 0)
        comm.recv(torch.empty_like(tensor), 0)
    tensor.copy_(sum(BOARD[rank] for rank in range(comm.world_size)))
