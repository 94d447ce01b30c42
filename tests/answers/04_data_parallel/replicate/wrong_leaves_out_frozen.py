# Wrong: copies only what is trained. Loses the hidden marks.
# Told: a frozen parameter counts
def replicate(comm, model):
    for tensor in [*filter(lambda p: p.requires_grad, model.parameters()), *model.buffers()]:
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(tensor.data, dst)
        else:
            comm.recv(tensor.data, 0)
