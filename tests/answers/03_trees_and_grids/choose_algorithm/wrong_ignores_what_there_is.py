# Wrong: chooses among all algorithms, whatever there is. Loses all marks.
# Told: choose among the names in `algorithms`
def choose_algorithm(nbytes, cluster, algorithms):
    everything = ("ring", "tree", "halving_doubling", "hierarchical")
    return min(everything, key=lambda algorithm: predict_time(algorithm, nbytes, cluster))
