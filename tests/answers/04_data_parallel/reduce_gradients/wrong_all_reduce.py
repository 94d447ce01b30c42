# Wrong: sends the sums back to everybody. Loses all marks.
# Told: nothing comes back
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad, 0)
            comm.recv(parameter.grad, 0)
            continue
        incoming = torch.empty_like(parameter.grad)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.grad += incoming
        for dst in range(1, comm.world_size):
            comm.send(parameter.grad, dst)
