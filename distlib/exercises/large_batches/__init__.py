"""Exercise 06: accumulated gradients, learning rates, local SGD."""
