# Wrong: sorts `algorithms` in place: a tuple has no sort. Loses all marks.
# Told: `algorithms` is a tuple
def choose_algorithm(nbytes: int, cluster: Cluster, algorithms: Sequence[str]) -> str:
    algorithms.sort(key=lambda name: predict_time(name, nbytes, cluster))
    return algorithms[0]
