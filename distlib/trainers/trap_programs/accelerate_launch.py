"""The command asks for two processes. How many are there?"""

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader

from distlib.trainers.same_task import BATCH, RANKS, WideClassifier, finish, loss_of, sgd, training_set

accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(0)
model = WideClassifier()
loader = DataLoader(training_set(), BATCH * RANKS)  # the global batch, which Accelerate splits
ddp, optimizer, loader = accelerator.prepare(model, sgd(model), loader)

for batch in loader:
    optimizer.zero_grad()
    loss = loss_of(ddp, batch)
    accelerator.backward(loss)
    optimizer.step()

print(f"processes: {accelerator.num_processes}, {accelerator.distributed_type}, {type(ddp).__name__}")
finish(model)
