"""The shape of a transformer: how many parameters it has, and how many operations a token takes.

    a layer     attention       queries and output: 2·f·a     keys and values: 2·f·k     a = heads · head, k = key heads
                MLP             2·f·h, or 3·f·h where it is gated                        f features, h hidden
                norms, biases   2·f of each norm; the biases of all products
    the ends    an embedding of V·f, and an output layer of V·f, unless the two are tied

A product of matrices takes two operations per parameter and token, forward, and the scores of the attention 4·s·a per
layer for a sequence of s tokens, as if none were masked. Backward takes twice as many.

Sources: J. Kaplan et al., "Scaling Laws for Neural Language Models", arXiv:2001.08361 (2020), table 1; D. Narayanan et
al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021, equations 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from distlib.arguments import check_integer


@dataclass(frozen=True)
class TransformerShape:
    """What a transformer's costs depend on.

    Attributes:
        layers: how many.
        features, hidden: of a token between the layers, and inside an MLP.
        heads: of queries.
        vocabulary: the number of tokens that there are.
        sequence: tokens of a training sample.
        key_heads: heads of keys and of values; None for as many as of queries.
        head_features: of a head; None for features / heads.
        gated: whether the MLP has a third matrix, as SwiGLU has.
        tied: whether the output layer is the embedding.
        biases: whether norms and products have biases; and whether positions have an embedding.

    Raises:
        ValueError: a size that is not an integer of at least 1, or heads that do not fit.
    """

    layers: int
    features: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    key_heads: int | None = None
    head_features: int | None = None
    gated: bool = False
    tied: bool = True
    biases: bool = True

    def __post_init__(self) -> None:
        for name in ("layers", "features", "hidden", "heads", "vocabulary", "sequence"):
            check_integer("TransformerShape", name, getattr(self, name), 1)
        for name in ("key_heads", "head_features"):
            if getattr(self, name) is not None:
                check_integer("TransformerShape", name, getattr(self, name), 1)
        if self.head_features is None and self.features % self.heads:
            raise ValueError(f"expected heads that divide {self.features} features, got {self.heads} heads")
        if self.heads % self.keys:
            raise ValueError(f"expected key heads that divide {self.heads} heads, got {self.keys} key heads")

    @property
    def keys(self) -> int:
        """The heads of keys, and of values."""
        return self.heads if self.key_heads is None else self.key_heads

    @cached_property
    def head(self) -> int:
        """The features of a head."""
        return self.features // self.heads if self.head_features is None else self.head_features

    @cached_property
    def attention_features(self) -> int:
        """The features of all heads of queries together."""
        return self.heads * self.head

    @cached_property
    def layer_matrices(self) -> int:
        """The parameters of a layer's products of matrices, without biases."""
        return self.matrices_of_rank(1)

    def matrices_of_rank(self, ranks: int) -> int:
        """As `layer_matrices`, of one of `ranks` ranks that share the layer. Each has at least one head of keys."""
        queries, keys = self.heads // ranks * self.head, -(-self.keys // ranks) * self.head
        return self.features * (2 * queries + 2 * keys + (3 if self.gated else 2) * self.hidden // ranks)

    def layer_parameters(self, ranks: int = 1) -> int:
        """The parameters of a layer on one of `ranks` ranks that share it. Each has the norms and the output biases."""
        norms = (4 if self.biases else 2) * self.features
        if not self.biases:
            return self.matrices_of_rank(ranks) + norms
        cut = (self.heads + 2 * self.keys) * self.head + self.hidden
        return self.matrices_of_rank(ranks) + norms + 2 * self.features + cut // ranks

    def embedding_parameters(self, ranks: int = 1) -> int:
        """The parameters of the embedding on one of `ranks` ranks; the vocabulary is padded until they divide it."""
        positions = self.sequence * self.features if self.biases else 0
        return -(-self.vocabulary // ranks) * self.features + positions

    def head_parameters(self, ranks: int = 1, shared: bool = False) -> int:
        """The parameters of the output layer, on one of `ranks` ranks, and of the norm before it.

        Args:
            shared: whether the rank has the embedding, too; where the two are tied, only the norm is left then.
        """
        rows = 0 if shared and self.tied else -(-self.vocabulary // ranks)
        return (rows + (2 if self.biases else 1)) * self.features

    @cached_property
    def parameters(self) -> int:
        """Of the whole model, Ψ. Tied weights count once."""
        ends = self.embedding_parameters() + self.head_parameters(shared=True)
        return self.layers * self.layer_parameters() + ends

    @property
    def score_operations(self) -> int:
        """Operations per token of a layer's attention, forward: what is not a product with a parameter."""
        return 4 * self.sequence * self.attention_features

    @property
    def model_operations(self) -> int:
        """Operations per token that training needs, forward and backward: 6·Ψ + 12·layers·a·s.

        Nothing that is computed twice counts twice. Source: A. Chowdhery et al., "PaLM: Scaling Language Modeling with
        Pathways", JMLR 24 (2023), appendix B.
        """
        return 6 * self.parameters + 3 * self.layers * self.score_operations

    def __str__(self) -> str:
        return (
            f"{self.parameters / 1e9:.4g} billion parameters: {self.layers} layers of {self.features:,} features, "
            f"{self.heads} heads, sequences of {self.sequence:,} tokens"
        )
