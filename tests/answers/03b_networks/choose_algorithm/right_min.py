# Right: the least predicted time.
def choose_algorithm(nbytes, cluster, algorithms):
    return min(algorithms, key=lambda algorithm: predict_time(algorithm, nbytes, cluster))
