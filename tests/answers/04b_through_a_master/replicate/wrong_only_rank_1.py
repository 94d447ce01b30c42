# Wrong: the master forgets all ranks but one. Loses all marks.
# Told: ranks wait for each other
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        if comm.rank == 0 and comm.world_size > 1:
            comm.send(tensor.data, 1)
        if comm.rank > 0:
            comm.recv(tensor.data, 0)
