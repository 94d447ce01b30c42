"""A small GPT: a transformer that says for each character of a text which one may come next.

    tokens ──► embedding + positions ──► layer 0 ──► … ──► norm ──► a score for each character

It is the model of lesson 12, in torch's own modules. So the same weights can be cut along pp and tp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

import torch
from torch import nn

from distlib import SimulatedWorld
from distlib.capstone.characters import Characters
from distlib.capstone.devices import device_of
from distlib.training.mesh.plain_transformer import plain_layers
from distlib.training.mesh.small_transformer import SmallTransformer

SHAPE = SmallTransformer(vocabulary=16, features=128, hidden=512, heads=4, num_layers=4)  # 0.8 million parameters


def gpt_shape(vocabulary: int, positions: int, shape: SmallTransformer = SHAPE) -> SmallTransformer:
    """The shape of a GPT for a vocabulary and for texts of at most `positions` tokens."""
    return replace(shape, vocabulary=vocabulary, positions=positions)


@lru_cache(maxsize=4)  # of a training on simulated ranks, each rank asks for the same ones
def whole_weights(
    shape: SmallTransformer, seed: int = 0, dtype: torch.dtype | None = None
) -> Mapping[str, torch.Tensor]:
    """The weights of a model before its training, by the names that they have in `shape.layers`. Not to be changed."""
    (weights,) = SimulatedWorld(1).run(lambda comm: shape.layers(comm, seed=seed, dtype=dtype).state_dict())
    return MappingProxyType(weights)


def new_gpt(shape: SmallTransformer, seed: int = 0, dtype: torch.dtype | None = None) -> nn.Sequential:
    """A model before its training: "embedding", "layer0", …, "head". Tokens [batch, sequence] → scores […, vocabulary].

    Raises:
        ValueError: a shape whose head is tied to the embedding.
    """
    return plain_layers(shape, whole_weights(shape, seed, dtype))


@torch.no_grad()
def write(
    model: nn.Module,
    characters: Characters,
    beginning: str,
    count: int,
    *,
    window: int,
    temperature: float = 0.8,
    seed: int = 0,
) -> str:
    """Let a model go on with a text.

    Args:
        beginning: at least one character.
        count: characters to write.
        window: how many characters the model looks back, at most its positions.
        temperature: above 0. Below 1, likely characters become likelier.
        seed: of what is drawn.

    Returns:
        The beginning, and what comes after it.

    Raises:
        ValueError: no beginning, or one with a character that is not in the alphabet; a temperature of 0 or less.
    """
    if not beginning:
        raise ValueError("write expected a beginning of at least one character, got none")
    if temperature <= 0:
        raise ValueError(f"write expected a temperature above 0, got {temperature}")
    generator = torch.Generator().manual_seed(seed)
    tokens, device = characters.encode(beginning), device_of(model)
    for _ in range(count):
        scores = model(tokens[None, -window:].to(device))[0, -1, : len(characters.alphabet)].cpu()
        chances = torch.softmax(scores / temperature, 0)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=generator)])
    return characters.decode(tokens)
