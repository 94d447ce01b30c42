# Wrong: the last rank adds up. Loses all marks.
# Told: this is still rank 0's own gradient
def reduce_gradients(comm, model):
    master = comm.world_size - 1
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank != master:
            comm.send(parameter.grad, master)
            continue
        incoming = torch.empty_like(parameter.grad)
        for src in range(master):
            comm.recv(incoming, src)
            parameter.grad += incoming
