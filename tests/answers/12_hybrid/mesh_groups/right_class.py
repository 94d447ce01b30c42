# Right: a class that knows the coordinates.
class Coordinates:
    def __init__(self, sizes):
        self.sizes = dict(sizes)

    def count(self):
        n = 1
        for s in self.sizes.values():
            n *= s
        return n

    def of(self, rank):
        where = {}
        for name in reversed(list(self.sizes)):
            rank, where[name] = divmod(rank, self.sizes[name])
        return where

    def alike(self, a, b, axis):
        a, b = self.of(a), self.of(b)
        return all(a[n] == b[n] for n in self.sizes if n != axis)


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    c = Coordinates(sizes)
    groups = []
    for rank in range(c.count()):
        for group in groups:
            if c.alike(group[0], rank, axis):
                group.append(rank)
                break
        else:
            groups.append([rank])
    return groups
