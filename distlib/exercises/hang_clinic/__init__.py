"""Exercise 17: programs that hang, fail or train wrongly, to be mended; and what was printed, to be understood."""
