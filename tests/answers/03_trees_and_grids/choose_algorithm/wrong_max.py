# Wrong: the slowest instead of the fastest. Loses all marks.
# Told: it chose 'ring', which takes
def choose_algorithm(nbytes, cluster, algorithms):
    return max(algorithms, key=lambda algorithm: predict_time(algorithm, nbytes, cluster))
