"""A loader that shuffles, two epochs. Is the order a new one in the second? Accelerate."""

from accelerate import Accelerator
from torch.utils.data import DataLoader

from distlib.trainers.same_task import numbers, say

accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(numbers(), 4, shuffle=True))
for epoch in range(2):
    first, *_ = [batch.tolist() for batch in loader]
    say(f"rank {accelerator.process_index}, epoch {epoch}: {first} …")
accelerator.end_training()
