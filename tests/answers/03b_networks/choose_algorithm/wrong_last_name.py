# Wrong: best is not updated: the last name that beats infinity wins. Loses all marks.
# Told: is the least time so far kept?
def choose_algorithm(nbytes: int, cluster: Cluster, algorithms: Sequence[str]) -> str:
    best = float("inf")
    for name in algorithms:
        if predict_time(name, nbytes, cluster) < best:
            answer = name
    return answer
