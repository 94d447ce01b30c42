"""Exercise 12d: long sequences and experts."""
