# Right: splits along the last axis first, on all ranks, with an offset in the color.
def build_mesh(comm, sizes):
    coordinates, rest = {}, comm.rank
    for axis in reversed(sizes):
        coordinates[axis] = rest % sizes[axis]
        rest //= sizes[axis]
    product = 1
    for size in sizes.values():
        product = product * size
    if product != comm.world_size:
        raise ValueError(f"expected {product} ranks, got {comm.world_size}")
    found = {}
    for axis in reversed(sizes):
        color = 0
        for other in sizes:
            if other != axis:
                color = color * sizes[other] + coordinates[other]
        found[axis] = comm.split(1000 + color, coordinates[axis])
    return {axis: found[axis] for axis in sizes}
