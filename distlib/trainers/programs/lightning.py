"""Lightning's Trainer: the loop is the Trainer's. You hand over what a step is, and it starts the second process."""

import logging

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, DistributedSampler

from distlib.trainers.same_task import BATCH, RANKS, WideClassifier, finish, loss_of, sgd, training_set

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # else it advertises a service


class Lit(LightningModule):
    """The model, and what a step is."""

    def __init__(self) -> None:
        super().__init__()
        self.model = WideClassifier()

    def training_step(self, batch, index):
        """The loss of a batch. The Trainer calls backward and step."""
        return loss_of(self.model, batch)

    def configure_optimizers(self):
        """Which optimizer."""
        return sgd(self.model)


torch.manual_seed(0)
lit = Lit()
trainer = Trainer(
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    max_epochs=1,
    logger=False,
    use_distributed_sampler=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
samples = training_set()
sampler = DistributedSampler(samples, RANKS, trainer.global_rank, shuffle=False)
trainer.fit(lit, DataLoader(samples, BATCH, sampler=sampler))
finish(lit.model)
