# Wrong: chunk by chunk through rank 0, so each message is a chunk, yet there is a master. Loses all marks.
# Told: they took 4 rounds; 2 were expected
def ring_all_reduce(comm, tensor):
    flat = tensor.reshape(-1)
    for chunk in torch.tensor_split(flat, comm.world_size):
        if comm.rank == 0:
            incoming = torch.empty_like(chunk)
            for src in range(1, comm.world_size):
                comm.recv(incoming, src)
                chunk += incoming
            for dst in range(1, comm.world_size):
                comm.send(chunk, dst)
        else:
            comm.send(chunk, 0)
            comm.recv(chunk, 0)
    tensor.copy_(flat.view(tensor.shape))
