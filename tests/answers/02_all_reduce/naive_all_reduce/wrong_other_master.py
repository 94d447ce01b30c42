# Wrong: the last rank is the master, not rank 0. Loses all marks.
# Told: everything passes through rank 2. The master of this exercise is rank 0
def naive_all_reduce(comm, tensor):
    master = comm.world_size - 1
    if comm.rank == master:
        buffer = torch.empty_like(tensor)
        for src in range(master):
            comm.recv(buffer, src)
            tensor += buffer
        for dst in range(master):
            comm.send(tensor, dst)
    else:
        comm.send(tensor, master)
        comm.recv(tensor, master)
