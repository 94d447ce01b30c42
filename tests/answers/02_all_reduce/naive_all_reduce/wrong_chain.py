# Wrong: the sum walks along a chain of ranks and back, not through a master. Loses all marks.
# Told: the others talk to the master, rank 0, and to nobody else
def naive_all_reduce(comm, tensor):
    last = comm.world_size - 1
    if comm.rank > 0:
        buffer = torch.empty_like(tensor)
        comm.recv(buffer, comm.rank - 1)
        tensor += buffer
    if comm.rank < last:
        comm.send(tensor, comm.rank + 1)
        comm.recv(tensor, comm.rank + 1)
    if comm.rank > 0:
        comm.send(tensor, comm.rank - 1)
