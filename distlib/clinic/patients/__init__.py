"""Broken programs of torch.distributed, one fault each. Run one with torchrun: see the first line of each."""
