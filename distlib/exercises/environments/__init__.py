"""Exercise 16: environments, jobs and checkpoints."""
