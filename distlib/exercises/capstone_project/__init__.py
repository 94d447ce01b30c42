"""Exercise 19: a training that is planned, run within a budget, and survives."""
