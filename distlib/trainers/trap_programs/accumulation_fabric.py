"""Two small batches make one step. Fabric: is the loss to be divided by two, by whom?"""

import torch
from lightning.fabric import Fabric

from distlib.trainers.accumulation import micro_batches, tell, wanted_gradient
from distlib.trainers.same_task import WideClassifier, loss_of, sgd

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
torch.manual_seed(0)
model = WideClassifier()
wanted = wanted_gradient(model)
ddp, _ = fabric.setup(model, sgd(model))

for number, batch in enumerate(micro_batches(fabric.global_rank)):
    with fabric.no_backward_sync(ddp, enabled=number == 0):
        fabric.backward(loss_of(ddp, batch))

tell(model, wanted)
