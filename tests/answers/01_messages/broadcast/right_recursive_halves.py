# Right: a rank hands half of its range to the first rank of the other half; prints.
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    first, last = 0, size
    while last - first > 1:
        middle = (first + last + 1) // 2
        if place == first:
            comm.send(tensor, (middle + root) % size)
        elif place == middle:
            comm.recv(tensor, (first + root) % size)
            print("rank", comm.rank, "has it")
        first, last = (first, middle) if place < middle else (middle, last)
