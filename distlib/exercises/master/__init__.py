"""Exercise 04: a data parallel step through a master. Exercise 04b: the stages that bring the work to the ranks."""
