# Wrong: the master divides by the number of ranks. Loses all marks.
# Told: this is the average
def naive_all_reduce(comm, tensor):
    if comm.rank == 0:
        buffer = torch.empty_like(tensor)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            tensor += buffer
        tensor.copy_(tensor / comm.world_size)
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
