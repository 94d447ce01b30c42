"""Exercise 16b: environments, jobs and checkpoints."""
