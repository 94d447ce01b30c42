"""Exercise 12b: long sequences and experts."""
