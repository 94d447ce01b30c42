"""An alphabet: each of its characters has a number, and a text is a row of these."""

from __future__ import annotations

from collections.abc import Iterable

import torch

_MULTIPLE_OF = 8  # how many ranks of tp can share the vocabulary


class Characters:
    """The characters of a language, and their numbers.

    Args:
        alphabet: the characters, in the order of their numbers; what stands in it twice counts once.

    Attributes:
        alphabet: each character once.
        vocabulary: how many numbers a model has scores for: as many as there are characters, rounded up to a multiple
            of 8, so that 2, 4 or 8 ranks of tp can share them.

    Raises:
        ValueError: fewer than two characters: then there is nothing to learn.
    """

    def __init__(self, alphabet: Iterable[str]) -> None:
        self.alphabet = "".join(dict.fromkeys(alphabet))
        if len(self.alphabet) < 2:
            raise ValueError(
                f"Characters expected at least two different characters, got {self.alphabet!r}: with fewer, what "
                "comes next is known before"
            )
        self.vocabulary = -(-len(self.alphabet) // _MULTIPLE_OF) * _MULTIPLE_OF
        self._numbers = {character: number for number, character in enumerate(self.alphabet)}

    def encode(self, text: str) -> torch.Tensor:
        """The numbers of a text: [len(text)], int64.

        Raises:
            ValueError: a character that is not in the alphabet.
        """
        unknown = sorted(set(text) - self._numbers.keys())
        if unknown:
            raise ValueError(f"encode expected characters of {self.alphabet!r}, got {''.join(unknown)!r} as well")
        return torch.tensor([self._numbers[character] for character in text], dtype=torch.int64)

    def decode(self, numbers: torch.Tensor) -> str:
        """The text of a row of numbers. A number that no character has is shown as �."""
        known = len(self.alphabet)
        return "".join(self.alphabet[number] if number < known else "�" for number in numbers.tolist())
