# Wrong: looks at the first three clocks. Loses the hidden marks.
# Told: ahead of the slowest worker.
def may_proceed(clocks, worker, bound):
    return clocks[worker] - min(list(clocks.values())[:3]) <= bound
