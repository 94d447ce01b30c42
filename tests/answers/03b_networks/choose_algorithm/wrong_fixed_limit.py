# Wrong: a fixed number of bytes decides. Loses all marks.
# Told: No fixed number of bytes is right on every cluster
def choose_algorithm(nbytes, cluster, algorithms):
    small, large = ("halving_doubling", "hierarchical") if len(algorithms) > 2 else ("tree", "ring")
    return small if nbytes <= 65_536 else large
