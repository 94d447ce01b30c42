"""Plain torch: the script joins the group, deals out the samples and wraps the model."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, sgd, training_set

dist.init_process_group("gloo")
torch.manual_seed(0)
model = WideClassifier()
optimizer = sgd(model)
samples = training_set()
loader = DataLoader(samples, BATCH, sampler=DistributedSampler(samples, shuffle=False))
ddp = DistributedDataParallel(model)

for batch in loader:
    optimizer.zero_grad()
    loss = loss_of(ddp, batch)
    loss.backward()
    optimizer.step()

finish(model)
dist.destroy_process_group()
