# Wrong: everybody ends with the average of all models. Loses all marks.
# Told: rank 0 has the model that counts
def replicate(comm, model):
    for parameter in model.parameters():
        tensor = parameter.data
        incoming = torch.empty_like(tensor)
        if comm.rank == 0:
            for src in range(1, comm.world_size):
                comm.recv(incoming, src)
                tensor += incoming
            tensor /= comm.world_size
            for dst in range(1, comm.world_size):
                comm.send(tensor, dst)
        else:
            comm.send(tensor, 0)
            comm.recv(tensor, 0)
