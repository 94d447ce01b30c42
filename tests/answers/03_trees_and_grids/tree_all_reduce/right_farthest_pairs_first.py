# Right: the upper half hands its sums to the lower half, and so on; another tree of the same depth.
def tree_all_reduce(comm, tensor):
    size = comm.world_size
    halves = []
    while size > 1:
        halves.append((size, (size + 1) // 2))
        size = (size + 1) // 2
    buffer = tensor.clone()
    for size, half in halves:
        if half <= comm.rank < size:
            comm.send(tensor, comm.rank - half)
        elif comm.rank + half < size:
            comm.recv(buffer, comm.rank + half)
            tensor.add_(buffer)
    for size, half in reversed(halves):
        if half <= comm.rank < size:
            comm.recv(tensor, comm.rank - half)
        elif comm.rank + half < size:
            comm.send(tensor, comm.rank + half)
