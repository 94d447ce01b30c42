"""Exercise 01: point-to-point messages. Exercise 01b: scatter and gather."""
