"""Two small batches make one step. Accelerate: is the loss to be divided by two, by whom?"""

import torch
from accelerate import Accelerator

from distlib.trainers.accumulation import micro_batches, tell, wanted_gradient
from distlib.trainers.same_task import WideClassifier, loss_of

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
model = WideClassifier()
wanted = wanted_gradient(model)
ddp = accelerator.prepare(model)

for batch in micro_batches(accelerator.process_index):
    with accelerator.accumulate(ddp):
        accelerator.backward(loss_of(ddp, batch))

tell(model, wanted)
accelerator.end_training()
