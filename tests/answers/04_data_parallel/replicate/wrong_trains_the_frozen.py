# Wrong: afterwards every parameter needs a gradient. Loses the hidden marks.
# Told: require a gradient
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(tensor.data, dst)
        else:
            comm.recv(tensor.data, 0)
    for parameter in model.parameters():
        parameter.requires_grad_()
