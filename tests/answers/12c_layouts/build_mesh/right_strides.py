# Right: the color is the lowest rank of the group.
def build_mesh(comm, sizes):
    product = 1
    for size in sizes.values():
        product *= size
    if product != comm.world_size:
        raise ValueError(f"{product} ranks in the mesh, {comm.world_size} in the world")
    mesh, stride = {}, product
    for axis, size in sizes.items():
        stride //= size
        coordinate = comm.rank // stride % size
        color = comm.rank - coordinate * stride
        mesh[axis] = comm.split(color, coordinate)
    return mesh
