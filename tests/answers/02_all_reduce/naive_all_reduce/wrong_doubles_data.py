# Wrong: the sum is right, but the tensor has been pointed to a copy in float64. Loses all marks.
# Told: the result is right, but in other memory: you have pointed the tensor there
def naive_all_reduce(comm, tensor):
    if comm.rank == 0:
        buffer = torch.empty_like(tensor)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            tensor += buffer
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
    tensor.data = tensor.data.double()
