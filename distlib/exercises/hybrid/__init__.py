"""Exercise 12: meshes, and a step along their axes."""
