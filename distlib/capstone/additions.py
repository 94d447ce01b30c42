"""Sums of two numbers with two digits: what a model has learnt of them can be judged exactly.

    12+34=640.      the sum with its last digit first, as one adds on paper: 12 + 34 = 046, read backwards

There are 10,000 sums. One in ten is held out: no training sees it, so a model that gets it right has not learnt it by
heart. The loss counts the answer alone; nobody can know the numbers that are to be added.
"""

from __future__ import annotations

import torch

from distlib.arguments import check_integer
from distlib.capstone.batch_draws import generator_of_step
from distlib.capstone.characters import Characters
from distlib.capstone.devices import device_of

_NUMBERS = 100  # 0 to 99
_HELD_OUT = 1_000
_SEED_OF_THE_SPLIT = 2024  # of what is held out: the same in every training
_QUESTION = len("12+34=")
LENGTH = len("12+34=640.")


class Additions:
    """Sums to learn from, as batches that are the same for everybody, and sums to be judged by.

    Args:
        batch_size: sums in a batch, of all ranks together.
        seed: of the batches.

    Attributes:
        characters: the alphabet.
        length: tokens of a sum that a model is given: all but the last character.
        held_out: [1000, 10], the sums that are in no batch.

    Raises:
        ValueError: a batch of less than one sum.
    """

    def __init__(self, batch_size: int = 256, seed: int = 0) -> None:
        check_integer("Additions", "batch_size", batch_size, 1)
        self.batch_size, self.seed = batch_size, seed
        self.characters = Characters("0123456789+=.")
        self.length = LENGTH - 1
        order = torch.randperm(_NUMBERS**2, generator=torch.Generator().manual_seed(_SEED_OF_THE_SPLIT))
        self._to_learn = order[_HELD_OUT:]
        self.held_out = self._written(order[:_HELD_OUT])

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch of a step: tokens [batch_size, 9], and those that follow each of them, of the same shape."""
        generator = generator_of_step(self.seed, step)
        drawn = torch.randint(len(self._to_learn), (self.batch_size,), generator=generator)
        sums = self._written(self._to_learn[drawn])
        return sums[:, :-1], sums[:, 1:]

    def counted(self, scores: torch.Tensor, following: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the loss counts of scores [batch, 9, vocabulary] and of what follows [batch, 9]: the answers."""
        return scores[:, _QUESTION - 1 :], following[:, _QUESTION - 1 :]

    def accuracy(self, model: torch.nn.Module, sums: torch.Tensor | None = None) -> float:
        """The share of sums that a model gets right to the last digit, when it takes its best guess each time.

        Args:
            model: tokens [batch, sequence] → scores [batch, sequence, vocabulary].
            sums: [count, 10]. None: all that are held out.
        """
        sums = self.held_out if sums is None else sums
        return float((_answered(model, sums) == sums).all(1).double().mean())

    def sample(self, model: torch.nn.Module) -> str:
        """One held out sum as the model completes it."""
        return self.characters.decode(_answered(model, self.held_out[:1])[0])

    def _written(self, pairs: torch.Tensor) -> torch.Tensor:
        """Sums as tokens, [count, 10]. A pair is 100 times the first number plus the second."""
        first, second = pairs // _NUMBERS, pairs % _NUMBERS
        total = first + second
        plus, equals, end = self.characters.encode("+=.")
        columns = [first // 10, first % 10, plus, second // 10, second % 10, equals]
        columns += [total % 10, total // 10 % 10, total // 100, end]
        return torch.stack([column.expand(len(pairs)) for column in columns], 1)


@torch.no_grad()
def _answered(model: torch.nn.Module, sums: torch.Tensor) -> torch.Tensor:
    """The same questions with the model's answers: its best guess, a character at a time."""
    written = sums[:, :_QUESTION].to(device_of(model))
    while written.shape[1] < LENGTH:
        best = model(written)[:, -1].argmax(-1, keepdim=True)
        written = torch.cat([written, best], 1)
    return written.cpu()
