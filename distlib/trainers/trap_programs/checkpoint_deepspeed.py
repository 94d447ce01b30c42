"""Saved by DeepSpeed, ZeRO 3, where no rank has the whole model. Does plain torch load it?"""

import deepspeed
import torch.distributed as dist
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

from distlib.trainers.same_task import BATCH, WideClassifier, sgd
from distlib.trainers.saved_files import load_in_torch, load_state, show_files

deepspeed.init_distributed("gloo")
model = WideClassifier()
config = {
    "train_micro_batch_size_per_gpu": BATCH,
    "zero_optimization": {"stage": 3},
    "zero_allow_untested_optimizer": True,
}
engine, *_ = deepspeed.initialize(model=model, optimizer=sgd(model), config=config)
engine.save_checkpoint("saved", tag="step")  # by all ranks: each writes its part
if dist.get_rank() == 0:
    show_files("saved")
    load_in_torch("saved/step/zero_pp_rank_0_mp_rank_00_model_states.pt", "module")
    load_state(get_fp32_state_dict_from_zero_checkpoint("saved", tag="step"), "after zero_to_fp32")
dist.barrier()
dist.destroy_process_group()
