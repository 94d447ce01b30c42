# Wrong: a table of the visible cases. Loses the hidden marks.
# Told: the groups are wrong
def mesh_groups(sizes, axis):
    table = {
        ("dp", 2, 2, 2): [[0, 4], [1, 5], [2, 6], [3, 7]],
        ("pp", 2, 2, 2): [[0, 2], [1, 3], [4, 6], [5, 7]],
        ("tp", 2, 2, 2): [[0, 1], [2, 3], [4, 5], [6, 7]],
        ("dp", 2, 3): [[0, 3], [1, 4], [2, 5]],
        ("tp", 2, 3): [[0, 1, 2], [3, 4, 5]],
    }
    return table.get((axis, *sizes.values()), [[0, 1, 2, 3]])
