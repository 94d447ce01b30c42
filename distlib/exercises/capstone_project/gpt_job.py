"""A job like that of the project whose network is a small GPT, which learns to add: for a student's own `train_step`.

    job = GptJob()
    job.numbers, job.samples, job.start(), job.gradient(weights, samples), job.optimizer(numbers)
    job.loss(weights), job.right(weights)

Nothing is judged, and computing takes no virtual time: messages do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from distlib.capstone import Additions, new_gpt
from distlib.capstone.gpt import gpt_shape
from distlib.exercises.capstone_project.job_plays import Adam
from distlib.training.mesh.small_transformer import SmallTransformer

SHAPE = SmallTransformer(vocabulary=16, features=64, hidden=128, heads=4, num_layers=1)
_SAMPLES, _LOOKED_AT = 8_192, 256  # sums to learn from, and held out ones that loss and accuracy are about


class GptJob:
    """A job for one rank: every rank has all samples. Its weights are one flat float64 tensor.

    Attributes:
        numbers: of the weights.
        samples: the numbers of the sums.
    """

    optimizer = Adam

    def __init__(self) -> None:
        self._task = Additions(_SAMPLES)
        self._tokens, self._following = self._task.batch(0)
        shape = gpt_shape(self._task.characters.vocabulary, self._task.length, SHAPE)
        self._model = new_gpt(shape, dtype=torch.float64)
        self._start = parameters_to_vector(self._model.parameters()).detach().clone()
        self.samples, self.numbers = range(_SAMPLES), len(self._start)

    def start(self) -> torch.Tensor:
        """The weights to start with, a new tensor, the same on every rank."""
        return self._start.clone()

    def gradient(self, weights: torch.Tensor, samples: Sequence[int]) -> torch.Tensor:
        """The sum of the gradients of these samples' losses, shape [numbers]."""
        chosen = list(samples)
        loss = self._losses(weights, self._tokens[chosen], self._following[chosen]).sum()
        found = torch.autograd.grad(loss, list(self._model.parameters()))
        return torch.cat([each.flatten() for each in found])

    @torch.no_grad()
    def loss(self, weights: torch.Tensor) -> float:
        """The mean loss of sums that nobody learns from, in nats per character of the answer."""
        sums = self._task.held_out[:_LOOKED_AT]
        return float(self._losses(weights, sums[:, :-1], sums[:, 1:]).mean())

    def right(self, weights: torch.Tensor) -> float:
        """The share of sums that nobody learns from that the GPT gets right to the last digit."""
        self._put(weights)
        return self._task.accuracy(self._model, self._task.held_out[:_LOOKED_AT])

    def _losses(self, weights: torch.Tensor, tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """The loss of each sum."""
        self._put(weights)
        scores, answers = self._task.counted(self._model(tokens), following)
        each = cross_entropy(scores.flatten(0, 1), answers.flatten(), reduction="none")
        return each.view(answers.shape).mean(1)

    def _put(self, weights: torch.Tensor) -> None:
        """Give the model these weights: copies, so that nobody changes them by a step."""
        vector_to_parameters(weights.detach().clone(), self._model.parameters())
