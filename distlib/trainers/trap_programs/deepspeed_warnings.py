"""Stage 3, ten steps, warnings as Python shows them. How many lines are printed?"""

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from distlib.trainers.same_task import BATCH, WideClassifier, loss_of, sgd, training_set

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
model = WideClassifier()
samples = training_set(steps=10)
loader = DataLoader(samples, BATCH, sampler=DistributedSampler(samples, shuffle=False))
config = {
    "train_micro_batch_size_per_gpu": BATCH,
    "zero_optimization": {"stage": 3},
    "zero_allow_untested_optimizer": True,
}
engine, *_ = deepspeed.initialize(model=model, optimizer=sgd(model), config=config)

for batch in loader:
    loss = loss_of(engine, batch)
    engine.backward(loss)
    engine.step()

print(f"rank {dist.get_rank()}: ten steps are over")
dist.destroy_process_group()
