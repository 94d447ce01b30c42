"""Saved by plain torch's DDP. Does it load into the model without DDP?"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from distlib.trainers.same_task import WideClassifier
from distlib.trainers.saved_files import load_in_torch

dist.init_process_group("gloo")
ddp = DistributedDataParallel(WideClassifier())
if dist.get_rank() == 0:
    torch.save(ddp.state_dict(), "of_ddp.pt")
    torch.save(ddp.module.state_dict(), "of_module.pt")
    load_in_torch("of_ddp.pt")
    load_in_torch("of_module.pt")
dist.destroy_process_group()
