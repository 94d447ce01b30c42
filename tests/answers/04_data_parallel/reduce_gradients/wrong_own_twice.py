# Wrong: the master's own gradient is in the sum twice. Loses all marks.
# Told: counted twice
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None or comm.world_size == 1:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad, 0)
            continue
        incoming = torch.empty_like(parameter.grad)
        total = parameter.grad.clone()
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            total += incoming
        parameter.grad += total
