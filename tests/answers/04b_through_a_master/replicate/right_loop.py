# Right: one tensor after the other, rank by rank.
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(tensor.data, dst)
        else:
            comm.recv(tensor.data, 0)
