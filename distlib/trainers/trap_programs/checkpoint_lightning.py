"""Saved by Lightning's Trainer. Does plain torch load it?"""

import logging

from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from distlib.trainers.same_task import BATCH, WideClassifier, loss_of, sgd, training_set
from distlib.trainers.saved_files import load_in_torch, show_files


class Saved(LightningModule):
    """The model, and what a step is."""

    def __init__(self):
        super().__init__()
        self.model = WideClassifier()

    def training_step(self, batch, index):
        return loss_of(self.model, batch)

    def configure_optimizers(self):
        return sgd(self.model)


logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, **quiet)
trainer.fit(Saved(), DataLoader(training_set(steps=2), BATCH))
trainer.save_checkpoint("saved/state.ckpt")
if trainer.global_rank == 0:
    show_files("saved")
    load_in_torch("saved/state.ckpt", "state_dict")
