"""Exercise 13: training steps in TensorFlow."""
