"""DeepSpeed: an engine takes backward and step, and a dictionary says which stage of ZeRO."""

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, sgd, training_set

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
model = WideClassifier()
optimizer = sgd(model)
samples = training_set()
loader = DataLoader(samples, BATCH, sampler=DistributedSampler(samples, shuffle=False))
config = {
    "train_micro_batch_size_per_gpu": BATCH,
    "zero_optimization": {"stage": 0},
    "zero_allow_untested_optimizer": True,
    "gradient_clipping": 0.0,
}
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

for batch in loader:
    loss = loss_of(engine, batch)
    engine.backward(loss)
    engine.step()

with deepspeed.zero.GatheredParameters(list(model.parameters())):
    finish(model)
dist.destroy_process_group()
