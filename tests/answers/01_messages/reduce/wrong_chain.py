# Wrong: the sum goes from rank to rank. Loses all marks.
# Told: in a chain
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    if place < size - 1:
        comm.recv(incoming, (comm.rank + 1) % size)
        tensor += incoming
    if place > 0:
        comm.send(tensor, (comm.rank - 1) % size)
