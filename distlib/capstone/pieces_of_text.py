"""A text to learn to write from. Each batch is made of pieces of it that begin anywhere.

The text that every Python has with it is its own manual, as `help("for")` shows it: 465,000 characters in Python 3.11,
under Python's licence. Nothing is downloaded.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from distlib.arguments import check_integer
from distlib.capstone.batch_draws import generator_of_step
from distlib.capstone.characters import Characters
from distlib.capstone.gpt import write


def manual() -> str:
    """The pages of Python's manual that come with it, one after the other, by name."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def read_text(path: str | Path) -> str:
    """A text of one's own.

    Raises:
        ValueError: the file is not UTF-8, or there is nothing in it.
        OSError: it can't be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"read_text expected {path} to be UTF-8, but byte {error.start} is none: save it as UTF-8, or convert it "
            "with iconv"
        ) from error
    if not text.strip():
        raise ValueError(f"read_text expected a text in {path}, but there is nothing in it")
    return text


class Texts:
    """Pieces of a text, as batches that are the same for everybody.

    Args:
        text: to learn from.
        length: tokens of a piece.
        batch_size: pieces in a batch, of all ranks together.
        seed: of the batches, and of samples.

    Attributes:
        characters: the alphabet, those of the text.
        beginning: the first word of the text, with which samples begin.

    Raises:
        ValueError: a text of one character, or one that is too short for a piece.
    """

    def __init__(self, text: str, length: int = 64, batch_size: int = 32, seed: int = 0) -> None:
        check_integer("Texts", "length", length, 1)
        check_integer("Texts", "batch_size", batch_size, 1)
        self.characters = Characters(sorted(set(text)))
        if len(text) <= length:
            raise ValueError(f"Texts expected a text of more than {length} characters, got one of {len(text)}")
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.beginning = re.match(r"\s*\S*", text).group()  # type: ignore[union-attr]  # it matches every text
        self._numbers = self.characters.encode(text)

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch of a step: tokens [batch_size, length], and those that follow each of them, of the same shape."""
        generator = generator_of_step(self.seed, step)
        starts = torch.randint(len(self._numbers) - self.length, (self.batch_size, 1), generator=generator)
        pieces = self._numbers[starts + torch.arange(self.length + 1)]
        return pieces[:, :-1], pieces[:, 1:]

    def counted(self, scores: torch.Tensor, following: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the loss counts: everything."""
        return scores, following

    def sample(self, model: torch.nn.Module) -> str:
        """Some words that the model writes."""
        return write(model, self.characters, self.beginning, self.length, window=self.length, seed=self.seed)
