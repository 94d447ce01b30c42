"""Saved by Accelerate. Does plain torch load it?"""

from accelerate import Accelerator
from safetensors.torch import load_file

from distlib.trainers.same_task import WideClassifier, sgd
from distlib.trainers.saved_files import load_in_torch, load_state, show_files

accelerator = Accelerator(cpu=True)
model = WideClassifier()
ddp, optimizer = accelerator.prepare(model, sgd(model))
accelerator.save_state("saved")
accelerator.wait_for_everyone()
if accelerator.is_main_process:
    show_files("saved")
    load_in_torch("saved/model.safetensors")
    load_state(load_file("saved/model.safetensors"), "after safetensors.torch.load_file")
accelerator.end_training()
