"""A small language model that can be cut along pp and tp: a list of layers, each of which is tensor parallel.

    tokens ──► embedding ──► layer 0 ──► layer 1 ──► … ──► head ──► scores of this rank's tokens
               cut by tokens   heads and hidden features cut    cut by tokens

`stages_of` cuts the list into stages; the loss is `vocabulary_parallel_cross_entropy`. Where the head has the weight of
the embedding ("tied"), the first and the last stage have a copy each, and add up their gradients.

Without a table of positions, causal attention alone tells a model the order of its tokens (A. Haviv et al.,
"Transformer Language Models without Positional Encodings Still Learn Positional Information", arXiv:2203.16634). With
one it learns sooner what depends on places, such as to add numbers. Each rank of a tp group has a copy of the table.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import nn

from distlib.arguments import check_integer
from distlib.communicator import Communicator
from distlib.training.tensor_parallel import ParallelTransformerLayer, VocabularyParallelEmbedding
from distlib.training.tensor_parallel.drawing import draw_linear

_SEEDS_PER_LAYER = 4


@dataclass(frozen=True)
class SmallTransformer:
    """What a language model is like, before any rank has a part of it.

    Attributes:
        vocabulary: the number of tokens.
        features: of each token.
        hidden: features inside an MLP.
        heads: of attention.
        num_layers: transformer layers, between the embedding and the head.
        tied: whether the head has the weight of the embedding.
        positions: the most tokens in a sequence, each of whose places has an embedding of its own; 0: there are none.

    Raises:
        ValueError: less than 1 of something, or of positions less than 0.
    """

    vocabulary: int
    features: int
    hidden: int
    heads: int
    num_layers: int
    tied: bool = False
    positions: int = 0

    def __post_init__(self) -> None:
        for name in ("vocabulary", "features", "hidden", "heads", "num_layers"):
            check_integer("SmallTransformer", name, getattr(self, name), 1)
        check_integer("SmallTransformer", "positions", self.positions, 0)

    def layers(self, comm: Communicator, *, seed: int = 0, dtype: torch.dtype | None = None) -> nn.Sequential:
        """The model, of which each rank has a part. The same seed gives the same model on any number of ranks.

        Args:
            comm: the ranks along tp.
            dtype: of the weights.

        Returns:
            "embedding", "layer0", "layer1", …, "head": token numbers [batch, sequence] → scores [batch, sequence,
            vocabulary / ranks].

        Raises:
            ValueError: the ranks do not divide the vocabulary, the heads or the hidden features.
        """
        vocabulary, features = self.vocabulary, self.features
        tokens = VocabularyParallelEmbedding(comm, vocabulary, features, seed=seed, dtype=dtype)
        first: nn.Module = tokens
        if self.positions:
            table_seed = seed + 2 + _SEEDS_PER_LAYER * self.num_layers  # that of no other layer
            first = PositionedEmbedding(tokens, self.positions, features, seed=table_seed, dtype=dtype)
        found: OrderedDict[str, nn.Module] = OrderedDict(embedding=first)
        seed += 1
        for number in range(self.num_layers):
            found[f"layer{number}"] = ParallelTransformerLayer(
                comm, features, self.hidden, self.heads, causal=True, seed=seed, dtype=dtype
            )
            seed += _SEEDS_PER_LAYER
        if not self.tied:
            tokens = VocabularyParallelEmbedding(comm, vocabulary, features, seed=seed, dtype=dtype)
        found["head"] = VocabularyHead(tokens, features, dtype)
        return nn.Sequential(found)

    @property
    def numbers_of_tokens(self) -> int:
        """The numbers of the embedding. A head that is not tied has as many."""
        return self.vocabulary * self.features

    @property
    def numbers_cut(self) -> int:
        """How many numbers of the model are cut along tp: each is on one rank of a tp group."""
        in_a_layer = (4 * self.features + 2 * self.hidden) * self.features + 3 * self.features + self.hidden
        return self.num_layers * in_a_layer + (1 if self.tied else 2) * self.numbers_of_tokens

    @property
    def numbers_copied(self) -> int:
        """How many are on every rank of a tp group: norms, the biases of row-parallel layers, and positions."""
        return (6 * self.num_layers + 2 + self.positions) * self.features


class PositionedEmbedding(nn.Module):
    """The first layer of a model with positions: the embedding of each token, and that of its place added to it.

    Args:
        tokens: the embedding of tokens.
        length: how many places there are.
        features: of each.
        seed: of the table; the same on every rank.
        dtype: of the table.

    Attributes:
        positions: [length, features], the table. Every rank that shares `tokens` has it whole.
    """

    def __init__(
        self,
        tokens: VocabularyParallelEmbedding,
        length: int,
        features: int,
        *,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = nn.Parameter(draw_linear(features, length, range(length), slice(None), seed, dtype)[0])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token numbers [batch, sequence] → [batch, sequence, features].

        Raises:
            ValueError: a sequence that is longer than the table.
        """
        length = tokens.shape[-1]
        if length > len(self.positions):
            raise ValueError(f"expected at most {len(self.positions)} tokens, one for each position, got {length}")
        embedded: torch.Tensor = self.tokens(tokens) + self.positions[:length]
        return embedded


class VocabularyHead(nn.Module):
    """The last layer: a norm, and the similarity of the result with each token of this rank.

    Args:
        embedding: whose weight it compares with; that of the first layer, or one of its own.
        features: of each token.
        dtype: of the norm.
    """

    def __init__(self, embedding: VocabularyParallelEmbedding, features: int, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.norm, self.tokens = nn.LayerNorm(features, dtype=dtype), embedding

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, features] → [batch, sequence, vocabulary / ranks]."""
        return self.tokens.scores(self.norm(hidden))
