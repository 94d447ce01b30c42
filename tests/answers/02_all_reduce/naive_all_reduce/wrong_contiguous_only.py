# Wrong: view(-1) does not work on a tensor that is not contiguous. Loses the hidden marks.
# Told: this tensor's memory is not contiguous, and view(-1) needs one that is
def naive_all_reduce(comm, tensor):
    flat = tensor.view(-1)
    if comm.rank == 0:
        buffer = torch.empty_like(flat)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            flat += buffer
        for dst in range(1, comm.world_size):
            comm.send(flat, dst)
    else:
        comm.send(flat, 0)
        comm.recv(flat, 0)
