"""A loader that shuffles, two epochs. Is the order a new one in the second? Fabric."""

from lightning.fabric import Fabric
from torch.utils.data import DataLoader

from distlib.trainers.same_task import numbers, say

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
loader = fabric.setup_dataloaders(DataLoader(numbers(), 4, shuffle=True))
for epoch in range(2):
    first, *_ = [batch.tolist() for batch in loader]
    say(f"rank {fabric.global_rank}, epoch {epoch}: {first} …")
