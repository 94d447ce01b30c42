# Right: a function for a range of ranks that calls itself for both halves; it prints.
def up(comm, tensor, first, last):
    if last - first < 2:
        return
    middle = (first + last + 1) // 2
    if comm.rank < middle:
        up(comm, tensor, first, middle)
    else:
        up(comm, tensor, middle, last)
    if comm.rank == first:
        incoming = torch.empty_like(tensor)
        comm.recv(incoming, middle)
        tensor += incoming
    elif comm.rank == middle:
        comm.send(tensor, first)


def down(comm, tensor, first, last):
    if last - first < 2:
        return
    middle = (first + last + 1) // 2
    if comm.rank == first:
        comm.send(tensor, middle)
    elif comm.rank == middle:
        comm.recv(tensor, first)
    if comm.rank < middle:
        down(comm, tensor, first, middle)
    else:
        down(comm, tensor, middle, last)


def tree_all_reduce(comm, tensor):
    print("up and down", comm.rank)
    up(comm, tensor, 0, comm.world_size)
    down(comm, tensor, 0, comm.world_size)
