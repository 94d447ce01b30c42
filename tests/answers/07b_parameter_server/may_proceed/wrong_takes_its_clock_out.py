# Wrong: takes the worker's own clock out of the dict, to look at the others. Loses all marks.
# Told: it has changed its argument clocks
def may_proceed(clocks, worker, bound):
    own = clocks.pop(worker)
    return all(own - other <= bound for other in clocks.values())
