"""The data that the lessons train on: offline, small, real.

Source: "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998
(https://doi.org/10.24432/C50P49), licensed under CC BY 4.0. The 1,797 images of its test part are in `digits.csv.gz`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

_DIGITS = Path(__file__).with_name("digits.csv.gz")
_TRAINING = 1_536  # images; divides by every number of ranks from 1 to 4, by 6, 8, 12, 16 …


class Digits(NamedTuple):
    """Images of handwritten digits and what they show.

    Attributes:
        images: float32 [n, 1, 8, 8], from 0 (white) to 1 (black).
        labels: int64 [n], from 0 to 9.
    """

    images: torch.Tensor
    labels: torch.Tensor


def digits() -> tuple[Digits, Digits]:
    """The images to train on (1,536) and those to test with (261).

    They are shuffled once, in an order that is always the same, since the images come sorted by writer.
    The tensors are new with each call, so a caller may change them.
    """
    table = torch.tensor(np.loadtxt(_DIGITS, delimiter=","))  # a row: 64 pixels from 0 to 16, and what they show
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))
    images = table[order, :64].float().reshape(-1, 1, 8, 8) / 16
    labels = table[order, 64].long()
    return Digits(images[:_TRAINING], labels[:_TRAINING]), Digits(images[_TRAINING:], labels[_TRAINING:])
