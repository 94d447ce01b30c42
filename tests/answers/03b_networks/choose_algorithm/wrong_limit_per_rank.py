# Wrong: a fixed number of bytes for each rank decides. Loses all marks.
# Told: No fixed number of bytes is right on every cluster
def choose_algorithm(nbytes, cluster, algorithms):
    if cluster.nodes > 1 and "hierarchical" in algorithms:
        return "hierarchical"
    if nbytes / cluster.world_size < 15_000:
        return "halving_doubling" if "halving_doubling" in algorithms else "tree"
    return "ring"
