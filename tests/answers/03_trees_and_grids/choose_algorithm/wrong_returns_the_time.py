# Wrong: returns the least time instead of the name. Loses all marks.
# Told: return the name of the algorithm, not its time
def choose_algorithm(nbytes, cluster, algorithms):
    return min(predict_time(algorithm, nbytes, cluster) for algorithm in algorithms)
