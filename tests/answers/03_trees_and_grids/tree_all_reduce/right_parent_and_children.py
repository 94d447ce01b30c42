# Right: first finds out who is above and below, then talks to them.
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
    for child in reversed(children):
        comm.send(tensor, child)
