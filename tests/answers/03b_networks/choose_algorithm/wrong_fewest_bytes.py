# Wrong: looks at the bytes only. Loses all marks.
# Told: it chose 'ring', which takes
def choose_algorithm(nbytes, cluster, algorithms):
    def bytes_only(algorithm):
        return predict_time(algorithm, nbytes, cluster) - predict_time(algorithm, 0, cluster)

    return min(algorithms, key=bytes_only)
