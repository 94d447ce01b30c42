# Wrong: limits that were tried out until the visible test passed. Loses the hidden marks.
# Told: No fixed number of bytes is right on every cluster
def choose_algorithm(nbytes, cluster, algorithms):
    if "halving_doubling" not in algorithms:
        limit = 50_000 if cluster.world_size == 6 else 500_000
        return "tree" if nbytes < limit and "tree" in algorithms else algorithms[0]
    if cluster.nodes > 1:
        return "halving_doubling" if nbytes < 50_000 else "hierarchical"
    return "ring" if nbytes > 1_000_000 and cluster.world_size == 6 else "halving_doubling"
