# Right: strides only, no mesh_groups.
def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    n = 1
    for s in sizes.values():
        n *= s
    if n != comm.world_size:
        raise ValueError(f"mesh of {n} ranks on a world of {comm.world_size}")
    result, block = {}, n
    for name, s in sizes.items():
        stride = block // s
        coordinate = comm.rank // stride % s
        result[name] = comm.split(color=comm.rank - coordinate * stride, key=coordinate)
        block = stride
    return result
