# Wrong: copies the parameters only. Loses all marks.
# Told: A model has model.buffers()
def replicate(comm, model):
    for tensor in model.parameters():
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(tensor.data, dst)
        else:
            comm.recv(tensor.data, 0)
