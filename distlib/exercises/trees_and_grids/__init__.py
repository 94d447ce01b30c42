"""Exercise 03: trees, and halving and doubling. Exercise 03b: grids, and the time that an all-reduce takes."""
