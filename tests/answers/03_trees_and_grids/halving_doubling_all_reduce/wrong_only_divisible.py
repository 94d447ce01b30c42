# Wrong: chunks of length // power, so the rest is left out. Loses all marks.
# Told: 10 does not divide by 4. Do you cut chunks of 10 // 4 = 2
def halving_doubling_all_reduce(comm, tensor):
    rank, power = comm.rank, 2 ** (comm.world_size.bit_length() - 1)
    if rank >= power:
        comm.send(tensor, rank - power)
        comm.recv(tensor, rank - power)
        return
    whole = tensor.reshape(-1)
    flat = whole[: len(whole) // power * power]
    if rank + power < comm.world_size:
        incoming = torch.empty_like(whole)
        comm.recv(incoming, rank + power)
        whole += incoming
    steps, part, distance = [], flat, power // 2
    while distance > 0:
        partner = rank ^ distance
        lower, upper = torch.tensor_split(part, 2)
        mine, theirs = (lower, upper) if rank < partner else (upper, lower)
        incoming = torch.empty_like(mine)
        comm.exchange(theirs, partner, incoming, partner)
        mine += incoming
        steps.append((partner, mine, theirs))
        part, distance = mine, distance // 2
    for partner, mine, theirs in reversed(steps):
        comm.exchange(mine, partner, theirs, partner)
    if rank + power < comm.world_size:
        comm.send(whole, rank + power)
    tensor.copy_(whole.view(tensor.shape))
