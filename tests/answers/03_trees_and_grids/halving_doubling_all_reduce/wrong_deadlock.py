# Wrong: both ranks of a pair send first. Loses all marks.
# Told: Every rank on this cycle sends, and none receives
def halving_doubling_all_reduce(comm, tensor):
    rank, power = comm.rank, 2 ** (comm.world_size.bit_length() - 1)
    if rank >= power:
        comm.send(tensor, rank - power)
        comm.recv(tensor, rank - power)
        return
    flat = tensor.reshape(-1)
    if rank + power < comm.world_size:
        incoming = torch.empty_like(flat)
        comm.recv(incoming, rank + power)
        flat += incoming
    steps, part, distance = [], flat, power // 2
    while distance > 0:
        partner = rank ^ distance
        lower, upper = torch.tensor_split(part, 2)
        mine, theirs = (lower, upper) if rank < partner else (upper, lower)
        incoming = torch.empty_like(mine)
        comm.send(theirs, partner)
        comm.recv(incoming, partner)
        mine += incoming
        steps.append((partner, mine, theirs))
        part, distance = mine, distance // 2
    for partner, mine, theirs in reversed(steps):
        comm.exchange(mine, partner, theirs, partner)
    if rank + power < comm.world_size:
        comm.send(flat, rank + power)
    tensor.copy_(flat.view(tensor.shape))
