# Wrong: copies what comes in, and does not add it. Loses all marks.
# Told: rank 0's own gradient is missing in the sum
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
            parameter.grad.copy_(incoming)
