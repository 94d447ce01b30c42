"""The classifier of the earlier lessons, in Keras: what it learns from, how it begins, and how two trainings compare.

    64 pixels ──► 32 hidden, ReLU ──► 10 digits            2,410 parameters, the same first weights in every framework

An object of `Classifier` holds its numbers itself, so a process of a demonstration gets them with the function that
uses them, and does not read the data set again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from distlib.training.datasets import digits

Weights = Sequence[np.ndarray]  # of a model, in the order of Keras: [64, 32], [32], [32, 10], [10]
PIXELS, HIDDEN, DIGITS = 64, 32, 10
_USED = 1440  # images: six batches of 240


@dataclass(frozen=True)
class Classifier:
    """Images of digits, the weights that every training begins with, and batches.

    Attributes:
        images: [1536, 64], float32, from 0 to 1.
        labels: [1536], int64.
        first: the first weights, in the order of Keras. They come from torch, with seed 0.
        batch_size: images of a global batch.
    """

    images: np.ndarray
    labels: np.ndarray
    first: tuple[np.ndarray, ...]
    batch_size: int = 240

    @classmethod
    def of_digits(cls) -> Classifier:
        """The classifier, and the images of digits to train it with."""
        train_set, _ = digits()
        torch.manual_seed(0)
        layers = (torch.nn.Linear(PIXELS, HIDDEN), torch.nn.Linear(HIDDEN, DIGITS))
        arrays = [parameter.detach().numpy() for layer in layers for parameter in layer.parameters()]
        first = tuple(array.T.copy() for array in arrays)  # torch keeps [outputs, inputs], Keras [inputs, outputs]
        return cls(train_set.images.flatten(1).numpy(), train_set.labels.numpy(), first)

    @property
    def nbytes(self) -> int:
        """The bytes of the parameters."""
        return sum(array.nbytes for array in self.first)

    def model(self) -> Any:
        """A model of Keras 3 with the first weights. Its variables belong to the strategy in whose scope it is made."""
        import tensorflow as tf

        layers = tf.keras.layers
        model = tf.keras.Sequential([layers.Dense(HIDDEN, activation="relu"), layers.Dense(DIGITS)])
        model.build((None, PIXELS))
        model.set_weights(list(self.first))
        return model

    def batch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The images [240, 64] and labels [240] of step `number`."""
        start = number * self.batch_size % _USED
        return self.images[start : start + self.batch_size], self.labels[start : start + self.batch_size]

    def dataset(self, count: int, steps: int) -> Any:
        """A tf.data.Dataset: batches of the first `count` images, from the beginning again where they end."""
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensor_slices((self.images[:count], self.labels[:count]))
        return dataset.batch(self.batch_size).repeat().take(steps)


def furthest(one: Weights, other: Weights) -> float:
    """The largest difference of any weight."""
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def flat(weights: Weights) -> np.ndarray:
    """All of them one after the other, shape [2410]."""
    return np.concatenate([array.flatten() for array in weights])


def times_too_large(gradient: Weights, true: Weights) -> float:
    """How many times a gradient goes as far as the true one in its direction. 1: as far."""
    return float(flat(gradient) @ flat(true) / (flat(true) @ flat(true)))
