# Wrong: the master adds up the gradients of the others only. Loses all marks.
# Told: rank 0's own gradient is missing
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if parameter.grad is None or comm.world_size == 1:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad, 0)
            continue
        incoming = torch.empty_like(parameter.grad)
        total = torch.zeros_like(parameter.grad)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            total += incoming
        parameter.grad = total
