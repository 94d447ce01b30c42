# Right: a function that adds up a range of places; prints.
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size

    def add_up(first, last):
        if last - first < 2:
            return
        middle = (first + last + 1) // 2
        if place < middle:
            add_up(first, middle)
        else:
            add_up(middle, last)
        if place == middle:
            comm.send(tensor, (first + root) % size)
        elif place == first:
            incoming = torch.zeros_like(tensor)
            comm.recv(incoming, (middle + root) % size)
            tensor.add_(incoming)

    add_up(0, size)
    print("rank", comm.rank, "is done")
