# Wrong: adds up the weights instead of the gradients. Loses all marks.
# Told: this is still rank 0's own gradient
def reduce_gradients(comm, model):
    for parameter in model.parameters():
        if comm.rank != 0:
            comm.send(parameter.data, 0)
            continue
        incoming = torch.empty_like(parameter.data)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.data += incoming
