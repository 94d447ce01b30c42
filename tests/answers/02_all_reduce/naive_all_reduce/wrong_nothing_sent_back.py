# Wrong: only the master has the sum. Loses all marks.
# Told: the way back is missing
def naive_all_reduce(comm, tensor):
    if comm.rank == 0:
        buffer = torch.empty_like(tensor)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            tensor += buffer
    else:
        comm.send(tensor, 0)
