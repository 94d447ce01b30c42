"""Two small batches make one step. Plain torch: is the loss to be divided by two, by whom?"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from distlib.trainers.accumulation import micro_batches, tell, wanted_gradient
from distlib.trainers.same_task import WideClassifier, loss_of

dist.init_process_group("gloo")
torch.manual_seed(0)
model = WideClassifier()
wanted = wanted_gradient(model)
ddp = DistributedDataParallel(model)

first, second = micro_batches(dist.get_rank())
with ddp.no_sync():
    loss_of(ddp, first).backward()
loss_of(ddp, second).backward()

tell(model, wanted)
dist.destroy_process_group()
