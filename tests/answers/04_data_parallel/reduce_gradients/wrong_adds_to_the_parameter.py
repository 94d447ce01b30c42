# Wrong: adds the gradients to the weights. Loses all marks.
# Told: this is still rank 0's own gradient
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad, 0)
            continue
        incoming = torch.empty_like(parameter.grad)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.data += incoming
