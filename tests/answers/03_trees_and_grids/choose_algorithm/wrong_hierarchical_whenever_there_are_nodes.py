# Wrong: several nodes, so hierarchical. Loses all marks.
# Told: it chose 'hierarchical', which takes
def choose_algorithm(nbytes, cluster, algorithms):
    if cluster.nodes > 1 and "hierarchical" in algorithms:
        return "hierarchical"
    return min(algorithms, key=lambda algorithm: predict_time(algorithm, nbytes, cluster))
