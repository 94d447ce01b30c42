"""Exercise 01: point-to-point messages."""
