"""DeepSpeed is pure Python, as pip sees it. Does it start where no compiler is?"""

import deepspeed
import torch.distributed as dist

from distlib.trainers.same_task import BATCH, WideClassifier, sgd

deepspeed.init_distributed("gloo")
model = WideClassifier()
config = {"train_micro_batch_size_per_gpu": BATCH}
engine, *_ = deepspeed.initialize(model=model, optimizer=sgd(model), config=config)
print("started")
dist.destroy_process_group()
