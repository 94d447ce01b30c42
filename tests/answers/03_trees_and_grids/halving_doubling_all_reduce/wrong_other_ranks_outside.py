# Wrong: the first ranks stay outside, in pairs with their neighbors. Loses all marks.
# Told: you leave out different ranks than the exercise does
def halving_doubling_all_reduce(comm, tensor):
    power = 2 ** (comm.world_size.bit_length() - 1)
    extra = comm.world_size - power
    in_pair = comm.rank < 2 * extra
    if in_pair and comm.rank % 2 == 0:
        comm.send(tensor, comm.rank + 1)
        comm.recv(tensor, comm.rank + 1)
        return
    flat = tensor.reshape(-1)
    if in_pair:
        incoming = torch.empty_like(flat)
        comm.recv(incoming, comm.rank - 1)
        flat += incoming
    place = comm.rank // 2 if in_pair else comm.rank - extra
    steps, part, distance = [], flat, power // 2
    while distance > 0:
        other = place ^ distance
        partner = 2 * other + 1 if other < extra else other + extra
        lower, upper = torch.tensor_split(part, 2)
        mine, theirs = (lower, upper) if place < other else (upper, lower)
        incoming = torch.empty_like(mine)
        comm.exchange(theirs, partner, incoming, partner)
        mine += incoming
        steps.append((partner, mine, theirs))
        part, distance = mine, distance // 2
    for partner, mine, theirs in reversed(steps):
        comm.exchange(mine, partner, theirs, partner)
    if in_pair:
        comm.send(flat, comm.rank - 1)
    tensor.copy_(flat.view(tensor.shape))
