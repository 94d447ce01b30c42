# Wrong: every rank adds its own and passes the sum on. Loses all marks.
# Told: it should send nothing
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank + 1 < comm.world_size:
            incoming = torch.empty_like(parameter.grad)
            comm.recv(incoming, comm.rank + 1)
            parameter.grad += incoming
        if comm.rank > 0:
            comm.send(parameter.grad, comm.rank - 1)
