"""Exercise 07b: a parameter server."""
