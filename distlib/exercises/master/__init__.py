"""Exercise 04: data parallelism with a master."""
