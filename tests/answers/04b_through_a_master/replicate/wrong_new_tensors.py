# Wrong: receives into new tensors that nobody knows. Loses all marks.
# Told: this is still the rank's own tensor
def replicate(comm, model):
    for parameter in [*model.parameters(), *model.buffers()]:
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(parameter.data, dst)
        else:
            parameter = torch.empty_like(parameter)
            comm.recv(parameter.data, 0)
