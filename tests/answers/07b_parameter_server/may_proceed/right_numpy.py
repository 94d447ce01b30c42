# Right: numpy finds the smallest clock, and its comparison gives a truth value of numpy's.
def may_proceed(clocks, worker, bound):
    import numpy as np

    return np.array(clocks[worker]) - np.array(list(clocks.values())).min() <= bound
