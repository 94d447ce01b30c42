"""Exercise 09: pipeline parallelism."""
