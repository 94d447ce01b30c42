# Wrong: returns time and name. Loses all marks.
# Told: it returned a value of type tuple
def choose_algorithm(nbytes, cluster, algorithms):
    return min((predict_time(algorithm, nbytes, cluster), algorithm) for algorithm in algorithms)
