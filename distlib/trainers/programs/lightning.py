"""Lightning's Trainer: the loop is the Trainer's. You hand over what a step is, and it starts the second process."""

import logging

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, DistributedSampler

from distlib.trainers.same_task import BATCH, RANKS, WideClassifier, finish, loss_of, sgd, training_set


class Lit(LightningModule):
    """The model, and what a step is. The Trainer calls backward and the optimizer."""

    def __init__(self):
        super().__init__()
        self.model = WideClassifier()

    def training_step(self, batch, index):
        return loss_of(self.model, batch)

    def configure_optimizers(self):
        return sgd(self.model)


logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # else it advertises a service
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
torch.manual_seed(0)
lit = Lit()
own = {"max_epochs": 1, "use_distributed_sampler": False}
trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", **own, **quiet)
samples = training_set()
sampler = DistributedSampler(samples, RANKS, trainer.global_rank, shuffle=False)
trainer.fit(lit, DataLoader(samples, BATCH, sampler=sampler))
finish(lit.model)
