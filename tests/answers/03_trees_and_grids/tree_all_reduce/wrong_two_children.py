# Wrong: a tree in which every rank has two ranks below it: too deep with 8 ranks. Loses the hidden marks.
# Told: a tree, but one in which ranks have to wait for one another
def tree_all_reduce(comm, tensor):
    children = [child for child in (2 * comm.rank + 1, 2 * comm.rank + 2) if child < comm.world_size]
    incoming = torch.empty_like(tensor)
    for child in children:
        comm.recv(incoming, child)
        tensor += incoming
    if comm.rank:
        comm.send(tensor, (comm.rank - 1) // 2)
        comm.recv(tensor, (comm.rank - 1) // 2)
    for child in children:
        comm.send(tensor, child)
