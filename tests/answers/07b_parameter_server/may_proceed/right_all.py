# Right: compares with every worker, its own clock on the right side.
def may_proceed(clocks, worker, bound):
    print("asked about", worker)
    return all(clocks[worker] <= clock + bound for clock in clocks.values())
