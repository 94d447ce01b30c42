# Wrong: knows matrices and vectors only: a single number is left out. Loses the hidden marks.
# Told: is not the sum over the ranks
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None or parameter.ndim == 0:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad, 0)
            continue
        incoming = torch.empty_like(parameter.grad)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.grad += incoming
