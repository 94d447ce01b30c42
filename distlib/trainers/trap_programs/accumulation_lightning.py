"""Two small batches make one step. Lightning's Trainer: is the loss to be divided by two, by whom?"""

import logging

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from distlib.trainers.accumulation import micro_batches, tell, wanted_gradient
from distlib.trainers.same_task import WideClassifier, loss_of, sgd


class Accumulating(LightningModule):
    """The model, and what a step is."""

    def __init__(self):
        super().__init__()
        self.model = WideClassifier()
        self.wanted = wanted_gradient(self.model)

    def training_step(self, batch, index):
        return loss_of(self.model, batch)

    def on_before_optimizer_step(self, optimizer):
        tell(self.model, self.wanted)

    def configure_optimizers(self):
        return sgd(self.model)


torch.manual_seed(0)
own = {"use_distributed_sampler": False}
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, accumulate_grad_batches=2, **own, **quiet)
trainer.fit(Accumulating(), DataLoader(micro_batches(trainer.global_rank), batch_size=None))
