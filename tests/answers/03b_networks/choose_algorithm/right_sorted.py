# Right: sorts pairs of time and name.
def choose_algorithm(nbytes, cluster, algorithms):
    return sorted((predict_time(name, nbytes, cluster), name) for name in algorithms)[0][1]
