# Right: a loop that remembers the best. It prints.
def choose_algorithm(nbytes, cluster, algorithms):
    best, least = None, float("inf")
    for algorithm in algorithms:
        seconds = predict_time(algorithm, nbytes, cluster)
        if seconds < least:
            best, least = algorithm, seconds
    print("best:", best)
    return best
