"""A small GPT, and two things that it can learn on two cores: to add, which can be judged exactly, and to write.

    python -m distlib.capstone additions          a progress line every few seconds, then some sums
    python -m distlib.capstone text               the same with Python's own manual, then a page of its own
    python -m distlib.capstone additions --way zero --ranks 4         on ranks; also by torchrun and srun

train            read this first: one way to train, in one file of plain torch that runs by itself: take it home

characters       an alphabet: text to numbers and back
gpt              the model, in torch's own modules
additions        sums of two-digit numbers, some of which no training sees
pieces_of_text   a text to learn from, in pieces
batch_draws      what batches are drawn with
train_alone      a training by one process: what every other way of training is held against
ways             nine ways of the same training, on any ranks
command_on_ranks what the command does on each rank, with checkpoints
"""

from distlib.capstone.additions import Additions
from distlib.capstone.characters import Characters
from distlib.capstone.command_on_ranks import CommandOptions, train_on_rank
from distlib.capstone.gpt import gpt_shape, new_gpt, write
from distlib.capstone.pieces_of_text import Texts, manual, read_text
from distlib.capstone.train_alone import (
    MAX_NORM,
    LanguageTask,
    TrainingProgress,
    loss_of_scores,
    new_optimizer,
    set_rate,
    train_alone,
)
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.step_costs import StepCosts, step_costs
from distlib.capstone.ways.train_by import WAYS, TrainedModel, train_by
from distlib.capstone.ways.with_ddp import with_ddp
from distlib.capstone.ways.with_zero import with_zero

__all__ = [
    "MAX_NORM",
    "WAYS",
    "Additions",
    "CapstonePlan",
    "Characters",
    "CommandOptions",
    "LanguageTask",
    "StepCosts",
    "Texts",
    "TrainedModel",
    "TrainingProgress",
    "gpt_shape",
    "loss_of_scores",
    "manual",
    "new_gpt",
    "new_optimizer",
    "read_text",
    "set_rate",
    "step_costs",
    "train_alone",
    "train_by",
    "train_on_rank",
    "with_ddp",
    "with_zero",
    "write",
]
