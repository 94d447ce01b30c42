# Wrong: the others receive the parameters in the opposite order. Loses all marks.
# Told: in the order in which they are sent
def replicate(comm, model):
    tensors = [*model.parameters(), *model.buffers()]
    if comm.rank == 0:
        for tensor in tensors:
            for dst in range(1, comm.world_size):
                comm.send(tensor.data, dst)
    else:
        for tensor in reversed(tensors):
            comm.recv(tensor.data, 0)
