# Wrong: treats only length // world_size * world_size elements. Loses all marks.
# Told: nothing is cut
def naive_all_reduce(comm, tensor):
    flat = tensor.reshape(-1)
    whole = flat[: flat.numel() // comm.world_size * comm.world_size]
    if comm.rank == 0:
        buffer = torch.empty_like(whole)
        for src in range(1, comm.world_size):
            comm.recv(buffer, src)
            whole += buffer
        for dst in range(1, comm.world_size):
            comm.send(whole, dst)
    else:
        comm.send(whole, 0)
        comm.recv(whole, 0)
    tensor.copy_(flat.view(tensor.shape))
