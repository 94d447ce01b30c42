"""Exercise 06: accumulated gradients. Exercise 06b: learning rates that are warmed up, local SGD."""
