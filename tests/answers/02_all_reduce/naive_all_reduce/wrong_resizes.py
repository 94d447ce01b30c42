# Wrong: the sum is right, but the tensor is longer than before. Loses all marks.
# Told: , and is [99].
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
    tensor.resize_(99)
