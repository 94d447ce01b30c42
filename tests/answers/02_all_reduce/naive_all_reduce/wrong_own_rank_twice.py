# Wrong: the master adds its own values once too often. Loses all marks.
# Told: the sum counts rank 0 more than once
def naive_all_reduce(comm, tensor):
    if comm.rank == 0:
        total = tensor.clone()
        buffer = torch.empty_like(tensor)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            total += buffer
        tensor += total
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
