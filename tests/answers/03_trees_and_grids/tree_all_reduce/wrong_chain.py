# Wrong: from rank to rank down to 0, and back again. Loses all marks.
# Told: the tensor goes from rank to rank in a chain
def tree_all_reduce(comm, tensor):
    below, above = comm.rank + 1, comm.rank - 1
    if below < comm.world_size:
        incoming = torch.empty_like(tensor)
        comm.recv(incoming, below)
        tensor += incoming
    if above >= 0:
        comm.send(tensor, above)
        comm.recv(tensor, above)
    if below < comm.world_size:
        comm.send(tensor, below)
