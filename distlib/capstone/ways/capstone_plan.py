"""What is trained, before anybody says how: the model, what it learns from, and the seed.

The loss of a step is a mean over all tokens that count, of the whole batch. So a rank that has a part of the batch
divides the *sum* over its part by that number. These shares add up to the loss, and their gradients to its gradient,
also where the parts differ in size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib.capstone.gpt import SHAPE, gpt_shape, new_gpt, whole_weights
from distlib.capstone.train_alone import LanguageTask
from distlib.capstone.ways.compute_time import take_time
from distlib.communicator import Communicator
from distlib.training.mesh import SmallTransformer
from distlib.training.mesh.plain_transformer import plain_state

Batch = tuple[torch.Tensor, torch.Tensor]
"""Tokens [sequences, length], and those that follow each of them."""


@dataclass(frozen=True)
class CapstonePlan:
    """A training that every way carries out.

    Attributes:
        task: what is learnt.
        model: what the model is like; vocabulary and positions follow from the task.
        seed: of the first weights.
        dtype: of the weights; None: torch's default.
        speed: operations per second of a rank, for virtual time; None: computing takes none. See `compute_time`.
    """

    task: LanguageTask
    model: SmallTransformer = SHAPE
    seed: int = 0
    dtype: torch.dtype | None = None
    speed: float | None = None

    @property
    def shape(self) -> SmallTransformer:
        """The shape of the model, with the vocabulary and the positions of the task."""
        return gpt_shape(self.task.characters.vocabulary, self.task.length, self.model)

    def whole_model(self, comm: Communicator) -> nn.Sequential:
        """The model before its training, whole, on the device of this rank."""
        return self._timed(comm, new_gpt(self.shape, self.seed, self.dtype).to(comm.device))

    def cut_model(self, comm: Communicator, sharing: Communicator) -> nn.Sequential:
        """The same model, cut along tp: this rank's part of each layer.

        Args:
            comm: whose clock is used.
            sharing: the ranks that share the layers.
        """
        return self._timed(comm, self.shape.layers(sharing, seed=self.seed, dtype=self.dtype).to(comm.device))

    def first_weights(self) -> Mapping[str, torch.Tensor]:
        """The whole weights before the training, by the names of `cut_model`. Not to be changed."""
        return whole_weights(self.shape, self.seed, self.dtype)

    def plain_weights(self) -> dict[str, torch.Tensor]:
        """The same by the names of `whole_model`."""
        return plain_state(self.first_weights())

    def batch(self, comm: Communicator, step: int) -> Batch:
        """The whole batch of a step, on the device of this rank."""
        tokens, following = self.task.batch(step)
        return tokens.to(comm.device), following.to(comm.device)

    def part(self, comm: Communicator, step: int) -> Batch:
        """This rank's part of it: sequences are dealt out in order, as evenly as can be.

        Raises:
            ValueError: fewer sequences than ranks.
        """
        return self.part_of(comm, step, comm.rank, comm.world_size)

    def part_of(self, comm: Communicator, step: int, index: int, parts: int) -> Batch:
        """Part `index` of the batch in `parts` parts. Raises ValueError as `part` does."""
        if self.task.batch_size < parts:
            raise ValueError(
                f"expected a batch of at least {parts} sequences, one for each rank that takes a part of it, got "
                f"{self.task.batch_size}: take fewer ranks, or a larger batch"
            )
        tokens, following = self.batch(comm, step)
        return tokens.tensor_split(parts)[index], following.tensor_split(parts)[index]

    def share_of_loss(self, scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """What a part of a batch adds to the loss of its step: its sum, divided by what counts in the whole batch."""
        scores, following = self.task.counted(scores, following)
        total = cross_entropy(scores.flatten(0, 1), following.flatten(), reduction="sum")
        return total / (self.task.batch_size * following.shape[1])  # of each sequence, as many tokens count

    def loss_by_sequence(self, scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """For each sequence the mean over what counts of it: [sequences]."""
        scores, following = self.task.counted(scores, following)
        losses = cross_entropy(scores.flatten(0, 1), following.flatten(), reduction="none")
        return losses.view(following.shape).mean(1)

    def with_speed(self, speed: float | None) -> CapstonePlan:
        """A plan that differs in the speed of its ranks only."""
        return replace(self, speed=speed)

    def _timed(self, comm: Communicator, layers: nn.Sequential) -> nn.Sequential:
        if self.speed is not None:
            take_time(comm, layers, self.speed)
        return layers
