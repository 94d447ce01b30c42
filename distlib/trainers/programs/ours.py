"""The course's own: a World starts the ranks, and the DDP of lesson 05 averages the gradients."""

import torch
from torch.utils.data import DataLoader

from distlib import Communicator, World
from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, sgd, training_set
from distlib.training.ddp import DistributedDataParallel
from distlib.training.sampler import DistributedSampler


def train(comm: Communicator) -> None:
    """What each rank does."""
    torch.manual_seed(0)
    model = WideClassifier()
    optimizer = sgd(model)
    samples = training_set()
    loader = DataLoader(samples, BATCH, sampler=DistributedSampler(comm, samples, shuffle=False))
    ddp = DistributedDataParallel(comm, model)

    for batch in loader:
        optimizer.zero_grad()
        loss = loss_of(ddp, batch)
        loss.backward()
        optimizer.step()

    finish(model)


with World(2) as world:
    world.run(train)
