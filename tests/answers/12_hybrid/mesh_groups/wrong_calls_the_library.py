# Wrong: asks the library. Loses all marks.
# Told: a function of the library
# Told by the judge: cannot import name 'mesh'
def mesh_groups(sizes, axis):
    from distlib.training import mesh

    return mesh.mesh_groups(sizes, axis)
