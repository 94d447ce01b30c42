# Wrong: sends the gradients as float64. Loses all marks.
# Told: in its own dtype
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad.double(), 0)
            continue
        incoming = torch.empty(parameter.shape, dtype=torch.float64)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.grad += incoming
