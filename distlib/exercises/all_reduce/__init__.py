"""Exercise 02: the naive all-reduce and the ring."""
