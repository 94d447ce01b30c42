"""A number, a choice or an order that a reader commits to before the run."""
