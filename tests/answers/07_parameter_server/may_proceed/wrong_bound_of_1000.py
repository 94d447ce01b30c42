# Wrong: takes 1000 for infinity. Loses the hidden marks.
# Told: without a bound nobody waits.
def may_proceed(clocks, worker, bound):
    return clocks[worker] - min(clocks.values()) <= min(bound, 1000)
