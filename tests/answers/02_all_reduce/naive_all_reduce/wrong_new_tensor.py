# Wrong: returns the sum in a new tensor instead of writing it in place. Loses all marks.
# Told: it is in a new tensor that your function returns
def naive_all_reduce(comm, tensor):
    total = tensor.clone()
    buffer = torch.empty_like(tensor)
    if comm.rank == 0:
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            total += buffer
        for dst in range(1, comm.world_size):
            comm.send(total, dst)
    else:
        comm.send(tensor, 0)
        comm.recv(total, 0)
    return total
