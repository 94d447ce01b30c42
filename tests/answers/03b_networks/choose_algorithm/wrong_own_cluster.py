# Wrong: asks for a cluster of its own with default links instead of the one given. Loses all marks.
# Told: Is that for the cluster that is given
def choose_algorithm(nbytes: int, cluster: Cluster, algorithms: Sequence[str]) -> str:
    flat = Cluster.flat(cluster.world_size, Link(5e-6, 12.5e9))
    return min(algorithms, key=lambda name: predict_time(name, nbytes, flat))
