"""Exercise 08: mixing matrices, gossip, a decentralized step."""
