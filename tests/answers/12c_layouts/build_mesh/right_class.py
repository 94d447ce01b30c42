# Right: a class that lays out the mesh.
class _Grid:
    def __init__(self, sizes):
        self.axes = list(sizes.items())

    @property
    def ranks(self):
        total = 1
        for _, size in self.axes:
            total = total * size
        return total

    def coordinates(self, rank):
        out = {}
        for name, size in self.axes[::-1]:
            out[name] = rank % size
            rank //= size
        return out

    def color(self, rank, axis):
        value = 0
        for name, size in self.axes:
            if name != axis:
                value = value * size + self.coordinates(rank)[name]
        return value


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    grid = _Grid(sizes)
    if not grid.ranks == comm.world_size:
        raise ValueError(f"A mesh of {grid.ranks} ranks does not fit {comm.world_size} ranks.")
    mine = grid.coordinates(comm.rank)
    groups = {}
    for axis, number in mine.items():  # from the last axis to the first, on every rank
        groups[axis] = comm.split(grid.color(comm.rank, axis), number)
    return {axis: groups[axis] for axis in sizes}
