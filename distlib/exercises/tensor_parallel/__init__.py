"""Exercise 10: tensor parallelism."""
