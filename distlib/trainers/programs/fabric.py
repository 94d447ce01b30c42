"""Lightning Fabric: the loop stays yours. Fabric starts the second process and deals out the samples."""

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader

from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, sgd, training_set

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
torch.manual_seed(0)
model = WideClassifier()
optimizer = sgd(model)
samples = training_set()
loader = DataLoader(samples, BATCH)
ddp, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(loader)

for batch in loader:
    optimizer.zero_grad()
    loss = loss_of(ddp, batch)
    fabric.backward(loss)
    optimizer.step()

finish(model)
