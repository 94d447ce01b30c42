"""Exercise 15: a training loop, ported to Fabric and to Accelerate, on small ones of ours."""
