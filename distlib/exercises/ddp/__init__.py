"""Exercise 05: distributed data parallelism. Exercise 05b: buckets, and the sampler."""
