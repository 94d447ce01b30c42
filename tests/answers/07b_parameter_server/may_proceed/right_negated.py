# Right: nobody is left behind by more than the bound; clocks are read through values and get.
def may_proceed(clocks, worker, bound):
    return not [clock for clock in clocks.values() if clocks.get(worker) > clock + bound]
