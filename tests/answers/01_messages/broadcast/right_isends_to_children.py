# Right: a rank receives from its parent, then begins the messages to all its children, the largest subtree first.
from contextlib import suppress


def broadcast(comm, tensor, root=0):
    n = comm.world_size
    place = (comm.rank - root) % n
    lowest = place & -place or 1 << (n - 1).bit_length()
    with suppress(StopIteration):
        comm.recv(tensor, next((place - bit + root) % n for bit in [lowest] if place))
    children = [place + (1 << k) for k in reversed(range((lowest - 1).bit_length()))]
    for work in [comm.isend(tensor, (child + root) % n) for child in children if child < n]:
        work.wait()
