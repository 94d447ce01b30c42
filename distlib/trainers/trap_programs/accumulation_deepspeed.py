"""Two small batches make one step. DeepSpeed: is the loss to be divided by two, by whom?"""

import deepspeed
import torch
import torch.distributed as dist

from distlib.trainers.accumulation import micro_batches, tell_of_step, wanted_gradient
from distlib.trainers.same_task import BATCH, WideClassifier, loss_of

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
model = WideClassifier()
wanted = wanted_gradient(model)
before = [parameter.detach().clone() for parameter in model.parameters()]
config = {
    "train_micro_batch_size_per_gpu": BATCH,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.0,
}
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)  # a step of the gradient's own length
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

for batch in micro_batches(dist.get_rank()):
    engine.backward(loss_of(engine, batch))
    engine.step()

tell_of_step(before, model, wanted)
dist.destroy_process_group()
