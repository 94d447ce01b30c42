# Wrong: goes through the state_dict, which leaves out buffers that are not persistent. Loses the hidden marks.
# Told: besides model.parameters()
def replicate(comm, model):
    tensors = model.state_dict().values()
    if comm.rank > 0:
        for tensor in tensors:
            comm.recv(tensor, src=0)
    for dst in range(1, comm.world_size if comm.rank == 0 else 0):
        for tensor in tensors:
            comm.send(tensor, dst)
