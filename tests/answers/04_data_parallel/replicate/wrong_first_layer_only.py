# Wrong: copies only the first two parameters. Loses all marks.
# Told: do not forget any
def replicate(comm, model):
    for tensor in [*model.parameters()][:2]:
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(tensor.data, dst)
        else:
            comm.recv(tensor.data, 0)
