# Right: looks for a worker that is too far behind.
def may_proceed(clocks, worker, bound):
    for other, clock in clocks.items():
        if clocks[worker] - clock > bound:
            return False
    return True
