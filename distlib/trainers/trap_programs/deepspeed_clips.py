"""The configuration says nothing of clipping. Are gradients clipped?"""

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, sgd, training_set

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
model = WideClassifier()
samples = training_set()
loader = DataLoader(samples, BATCH, sampler=DistributedSampler(samples, shuffle=False))
config = {"train_micro_batch_size_per_gpu": BATCH}
engine, *_ = deepspeed.initialize(model=model, optimizer=sgd(model), config=config)

for batch in loader:
    loss = loss_of(engine, batch)
    engine.backward(loss)
    engine.step()

print(f"gradient_clipping: {engine.gradient_clipping()}")
finish(model)
dist.destroy_process_group()
