"""Saved by Fabric. Does plain torch load it?"""

from lightning.fabric import Fabric

from distlib.trainers.same_task import WideClassifier, sgd
from distlib.trainers.saved_files import load_in_torch, show_files

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
model = WideClassifier()
ddp, optimizer = fabric.setup(model, sgd(model))
fabric.save("saved/state.ckpt", {"model": ddp, "optimizer": optimizer, "step": 0})  # by all ranks; rank 0 writes
if fabric.global_rank == 0:
    show_files("saved")
    load_in_torch("saved/state.ckpt", "model")
