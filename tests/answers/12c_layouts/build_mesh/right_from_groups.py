# Right: finds its group in the list of all, and takes the group's number as color.
def build_mesh(comm, sizes):
    shape = list(sizes.values())
    if torch.Size(shape).numel() != comm.world_size:
        raise ValueError(f"the world has {comm.world_size} ranks, the mesh {torch.Size(shape).numel()}")
    ranks = torch.arange(comm.world_size).reshape(shape)
    mesh = {}
    for number, axis in enumerate(sizes):
        groups = ranks.movedim(number, -1).reshape(-1, sizes[axis]).tolist()
        (color,) = [k for k, group in enumerate(groups) if comm.rank in group]
        mesh[axis] = comm.split(color)
    return mesh
