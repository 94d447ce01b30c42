# Wrong: every rank passes the model on to the next one. Loses all marks.
# Told: it should send nothing
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        if comm.rank > 0:
            comm.recv(tensor.data, comm.rank - 1)
        if comm.rank + 1 < comm.world_size:
            comm.send(tensor.data, comm.rank + 1)
