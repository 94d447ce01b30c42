# Wrong: the master sends first, and so does everybody else: nobody receives. Loses all marks.
# Told: ranks wait for each other
def naive_all_reduce(comm, tensor):
    buffer = torch.empty_like(tensor)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            tensor += buffer
    elif comm.rank > 0:
        comm.send(tensor, 0)
        comm.recv(buffer, 0)
        tensor += buffer
