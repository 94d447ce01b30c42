"""Exercise 07: a parameter server."""
