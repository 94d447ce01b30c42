# Right: adds up by messages of its own, and divides what is replicated by the ranks of tp.
def add_up(group, number):
    total = number
    for shift in range(1, group.world_size):
        theirs = torch.empty(1, dtype=torch.float64)
        mine = torch.tensor([number], dtype=torch.float64)
        group.exchange(mine, (group.rank + shift) % group.world_size, theirs, (group.rank - shift) % group.world_size)
        total += theirs.item()
    return total


def clip_gradients(mesh, sharded, replicated, max_norm):
    own = sum(each.square().sum().item() for each in sharded)
    own += sum(each.square().sum().item() for each in replicated) / mesh["tp"].world_size
    norm = add_up(mesh["pp"], add_up(mesh["tp"], own)) ** 0.5
    for each in (*sharded, *replicated) if norm > max_norm else ():
        each.copy_(each * (max_norm / norm))
    return norm
