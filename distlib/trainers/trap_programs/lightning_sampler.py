"""A loader that does not shuffle. Which samples does each rank see first, and what is the result?"""

import logging

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, say, sgd, training_set


class Shuffled(LightningModule):
    """The model, and what a step is."""

    def __init__(self):
        super().__init__()
        self.model = WideClassifier()

    def on_train_start(self):
        sampler = self.trainer.train_dataloader.sampler
        say(f"rank {self.global_rank}: {type(sampler).__name__}, first samples {list(sampler)[:4]}")

    def training_step(self, batch, index):
        return loss_of(self.model, batch)

    def configure_optimizers(self):
        return sgd(self.model)


torch.manual_seed(0)
lit = Shuffled()
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, **quiet)
trainer.fit(lit, DataLoader(training_set(), BATCH))
finish(lit.model)
