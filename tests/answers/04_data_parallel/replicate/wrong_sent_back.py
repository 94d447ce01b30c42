# Wrong: the others send the model back to show that they have it. Loses all marks.
# Told: and should send nothing
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        if comm.rank == 0:
            for other in range(1, comm.world_size):
                comm.send(tensor.data, other)
                comm.recv(torch.empty_like(tensor.data), other)
        else:
            comm.recv(tensor.data, 0)
            comm.send(tensor.data, 0)
