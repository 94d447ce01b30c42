# Wrong: from rank to rank. Loses all marks.
# Told: the tensor goes from rank to rank in a chain
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    if place > 0:
        comm.recv(tensor, (comm.rank - 1) % size)
    if place < size - 1:
        comm.send(tensor, (comm.rank + 1) % size)
