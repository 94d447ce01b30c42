"""Accelerate: the loop stays yours. `prepare` wraps model, optimizer and loader; torchrun starts the processes."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, sgd, training_set

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = WideClassifier()
optimizer = sgd(model)
samples = training_set()
loader = DataLoader(samples, BATCH)
ddp, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for batch in loader:
    optimizer.zero_grad()
    loss = loss_of(ddp, batch)
    accelerator.backward(loss)
    optimizer.step()

finish(model)
accelerator.end_training()
