# Wrong: does not leave out frozen parameters. Loses all marks.
# Told: a parameter that needs no gradient has none
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if comm.rank != 0:
            comm.send(parameter.grad, 0)
            continue
        incoming = torch.empty_like(parameter)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.grad += incoming
