# Wrong: forgets one of the names. Loses all marks.
# Told: 'hierarchical' takes
def choose_algorithm(nbytes, cluster, algorithms):
    known = [name for name in algorithms if name in ("ring", "tree", "halving_doubling")]
    return min(known, key=lambda algorithm: predict_time(algorithm, nbytes, cluster))
