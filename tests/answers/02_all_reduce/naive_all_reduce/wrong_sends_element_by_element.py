# Wrong: right sums, but one message for each element. Loses all marks.
# Told: each should carry the whole buffer
def naive_all_reduce(comm, tensor):
    buffer = torch.empty(1, dtype=tensor.dtype)
    flat = tensor.reshape(-1)
    for k in range(flat.numel()):
        if comm.rank == 0:
            for src in range(1, comm.world_size):
                comm.recv(buffer, src)
                flat[k : k + 1] += buffer
            for dst in range(1, comm.world_size):
                comm.send(flat[k : k + 1], dst)
        else:
            comm.send(flat[k : k + 1], 0)
            comm.recv(flat[k : k + 1], 0)
    tensor.copy_(flat.view(tensor.shape))
