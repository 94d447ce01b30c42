# Wrong: sends everything as float64. Loses all marks.
# Told: in its own dtype
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        wide = tensor.data.double()
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(wide, dst)
        else:
            comm.recv(wide, 0)
            tensor.data.copy_(wide)
