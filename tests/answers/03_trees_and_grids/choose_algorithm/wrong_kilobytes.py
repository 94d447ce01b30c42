# Wrong: hands over kilobytes. Loses all marks.
# Told: it chose 'tree', which takes
def choose_algorithm(nbytes, cluster, algorithms):
    return min(algorithms, key=lambda algorithm: predict_time(algorithm, nbytes / 1000, cluster))
