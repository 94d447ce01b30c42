"""One training, as a student writes it for each framework."""
