# Right: sorts, and compares with the first.
def may_proceed(clocks: dict[int, int], worker: int, bound: float) -> bool:
    slowest, *_ = sorted(clocks.values())
    return not (clocks[worker] > slowest + bound)
