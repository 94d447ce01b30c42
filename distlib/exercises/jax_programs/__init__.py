"""Exercise 14: programs on many devices in JAX."""
