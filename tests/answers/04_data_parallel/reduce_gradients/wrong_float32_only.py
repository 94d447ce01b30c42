# Wrong: receives into a float32 tensor. Loses the hidden marks.
# Told: a message does not fit
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad, 0)
            continue
        incoming = torch.empty(parameter.shape)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.grad += incoming
