# Wrong: asks the library. Loses all marks.
# Told: a function of the library
# Told by the judge: the library's mesh_groups is not there
def mesh_groups(sizes, axis):
    from distlib.training import mesh

    return mesh.mesh_groups(sizes, axis)
