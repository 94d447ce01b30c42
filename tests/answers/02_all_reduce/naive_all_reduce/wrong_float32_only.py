# Wrong: the buffer is always float32. Loses the hidden marks.
# Told: torch.empty(n) and torch.zeros(n) make float32
def naive_all_reduce(comm, tensor):
    if comm.rank == 0:
        buffer = torch.zeros(tensor.shape)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            tensor += buffer
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
