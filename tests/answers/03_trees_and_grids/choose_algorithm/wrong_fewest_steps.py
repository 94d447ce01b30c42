# Wrong: looks at the latency only. Loses all marks.
# Told: it chose 'tree', which takes
def choose_algorithm(nbytes, cluster, algorithms):
    return min(algorithms, key=lambda algorithm: predict_time(algorithm, 0, cluster))
