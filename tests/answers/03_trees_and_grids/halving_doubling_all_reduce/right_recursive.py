# Right: one step, and what is inside it by recursion; empty halves are not sent.
def swap(comm, outgoing, incoming, partner):
    works = []
    if incoming.numel():
        works.append(comm.irecv(incoming, partner))
    if outgoing.numel():
        works.append(comm.isend(outgoing, partner))
    for work in works:
        work.wait()


def among(comm, part, distance):
    if distance == 0:
        return
    partner = comm.rank ^ distance
    middle = (part.numel() + 1) // 2
    mine, theirs = (part[:middle], part[middle:]) if comm.rank < partner else (part[middle:], part[:middle])
    incoming = torch.empty_like(mine)
    swap(comm, theirs, incoming, partner)
    mine += incoming
    among(comm, mine, distance // 2)
    swap(comm, mine, theirs, partner)


def halving_doubling_all_reduce(comm, tensor):
    power = 1 << (comm.world_size.bit_length() - 1)
    host, guest = comm.rank - power, comm.rank + power
    flat = tensor.reshape(-1).clone()
    if host >= 0:
        comm.send(flat, host)
        comm.recv(flat, host)
    else:
        if guest < comm.world_size:
            theirs = flat.clone()
            comm.recv(theirs, guest)
            flat += theirs
        among(comm, flat, power // 2)
        if guest < comm.world_size:
            comm.send(flat, guest)
    tensor.copy_(flat.view_as(tensor))
