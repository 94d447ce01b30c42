# Wrong: rank ^ distance does not exist with 3 ranks. Loses all marks.
# Told: rank ^ distance is a rank only where the number of ranks is a power of two
def halving_doubling_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    steps, part = [], flat
    for k in reversed(range((size - 1).bit_length())):
        partner = rank ^ (1 << k)
        lower, upper = torch.tensor_split(part, 2)
        mine, theirs = (lower, upper) if rank < partner else (upper, lower)
        incoming = torch.empty_like(mine)
        comm.exchange(theirs, partner, incoming, partner)
        mine += incoming
        steps.append((partner, mine, theirs))
        part = mine
    for partner, mine, theirs in reversed(steps):
        comm.exchange(mine, partner, theirs, partner)
    tensor.copy_(flat.view(tensor.shape))
