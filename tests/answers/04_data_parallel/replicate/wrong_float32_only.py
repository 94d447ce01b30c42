# Wrong: puts everything into a float32 tensor. Loses all marks.
# Told: a message does not fit
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        incoming = torch.empty(tensor.shape)
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(tensor.data, dst)
        else:
            comm.recv(incoming, 0)
            tensor.data.copy_(incoming)
