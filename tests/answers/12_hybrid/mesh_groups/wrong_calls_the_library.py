# Wrong: asks the library. Loses all marks.
# Told: a function of the library
# Told by the judge: it returned a value of type Nothing
def mesh_groups(sizes, axis):
    from distlib.exercises.hybrid.axes import groups_of

    return groups_of(sizes, axis)
