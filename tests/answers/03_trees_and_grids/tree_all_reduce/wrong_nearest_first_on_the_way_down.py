# Wrong: on the way down the nearest rank is served first, and those below have to wait. Loses all marks.
# Told: sends first to the rank that has least to pass on
def tree_all_reduce(comm, tensor):
    parent, children, distance = None, [], 1
    while distance < comm.world_size and parent is None:
        if comm.rank & distance:
            parent = comm.rank - distance
        elif comm.rank + distance < comm.world_size:
            children.append(comm.rank + distance)
        distance *= 2
    for child in children:
        incoming = torch.empty_like(tensor)
        comm.recv(incoming, child)
        tensor += incoming
    if parent is not None:
        comm.send(tensor, parent)
        comm.recv(tensor, parent)
    for child in children:
        comm.send(tensor, child)
