"""A loader that shuffles, two epochs. Is the order a new one in the second? Lightning's Trainer."""

import logging

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from distlib.trainers.same_task import numbers, say


class Looking(LightningModule):
    """A model of one number."""

    def __init__(self):
        super().__init__()
        self.number = torch.nn.Parameter(torch.ones(1))

    def training_step(self, batch, index):
        if index == 0:
            say(f"rank {self.global_rank}, epoch {self.current_epoch}: {batch.tolist()} …")
        return self.number.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, **quiet)
trainer.fit(Looking(), DataLoader(numbers(), 4, shuffle=True))
