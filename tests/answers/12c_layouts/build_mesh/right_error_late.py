# Right: strides from the last axis, the ValueError only after the splits (nothing forbids it).
def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    mesh, stride = {}, 1
    for axis, size in reversed(list(sizes.items())):
        number = comm.rank // stride % size
        mesh[axis] = comm.split(comm.rank - number * stride, number)
        stride *= size
    if stride != comm.world_size:
        raise ValueError(f"product {stride}, world size {comm.world_size}")
    return {axis: mesh[axis] for axis in sizes}
