"""Exercise 12: meshes."""
