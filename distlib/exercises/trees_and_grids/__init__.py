"""Exercise 03: trees, grids, and the time that an all-reduce takes."""
