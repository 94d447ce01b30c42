# Right: as in the solution.
def may_proceed(clocks: dict[int, int], worker: int, bound: float) -> bool:
    return clocks[worker] - min(clocks.values()) <= bound
