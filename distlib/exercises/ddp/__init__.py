"""Exercise 05: distributed data parallelism."""
