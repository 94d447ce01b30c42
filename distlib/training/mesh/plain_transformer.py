"""The language model of `SmallTransformer` in torch's own modules, whole: for one process, and for torch to cut.

ours                                          torch's
layer0.attention.queries_keys_values.weight   layer0.queries.weight, layer0.keys.weight, layer0.values.weight
layer0.attention.output, layer0.mlp.up, …     layer0.output, layer0.up, layer0.down
layer0.attention_norm, layer0.mlp_norm        the same names
head.tokens.weight                            head.scores.weight
embedding                                     the same names, also with positions

Queries, keys and values are three layers here, since torch's `ColwiseParallel` cuts a layer into consecutive rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from distlib.training.mesh.small_transformer import SmallTransformer

_SECTIONS = ("queries", "keys", "values")


class PlainLayer(nn.Module):
    """A transformer layer, norms first, with causal attention. The heads follow from the size of what it is given."""

    def __init__(self, model: SmallTransformer, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        features, hidden = model.features, model.hidden
        self.head_features = features // model.heads
        for name in (*_SECTIONS, "output"):
            self.add_module(name, nn.Linear(features, features, dtype=dtype))
        self.up, self.down = nn.Linear(features, hidden, dtype=dtype), nn.Linear(hidden, features, dtype=dtype)
        self.attention_norm, self.mlp_norm = (nn.LayerNorm(features, dtype=dtype) for _ in range(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, features] → the same shape."""
        normed = self.attention_norm(inputs)
        queries, keys, values = (
            self.get_submodule(name)(normed).unflatten(-1, (-1, self.head_features)).transpose(1, 2)
            for name in _SECTIONS
        )
        mixed = scaled_dot_product_attention(queries, keys, values, is_causal=True).transpose(1, 2).flatten(2)
        inputs = inputs + self.get_submodule("output")(mixed)
        outputs: torch.Tensor = inputs + self.down(gelu(self.up(self.mlp_norm(inputs))))
        return outputs


class PlainEmbedding(nn.Module):
    """An embedding for each token, and one for its place, added."""

    def __init__(self, model: SmallTransformer, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.tokens = nn.Embedding(model.vocabulary, model.features, dtype=dtype)
        self.positions = nn.Parameter(torch.zeros(model.positions, model.features, dtype=dtype))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[batch, sequence] → [batch, sequence, features]."""
        embedded: torch.Tensor = self.tokens(tokens) + self.positions[: tokens.shape[-1]]
        return embedded


class PlainHead(nn.Module):
    """A norm, and a score for each token."""

    def __init__(self, model: SmallTransformer, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(model.features, dtype=dtype)
        self.scores = nn.Linear(model.features, model.vocabulary, bias=False, dtype=dtype)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, features] → [batch, sequence, vocabulary]."""
        scores: torch.Tensor = self.scores(self.norm(hidden))
        return scores


def plain_layers(model: SmallTransformer, whole: Mapping[str, torch.Tensor]) -> nn.Sequential:
    """The model in torch's modules, with these weights: "embedding", "layer0", …, "head".

    Args:
        whole: `state_dict()` of `model.layers(…)` on one rank.

    Raises:
        ValueError: a model whose head is tied to the embedding.
    """
    if model.tied:
        raise ValueError("plain_layers expected a model whose head has a weight of its own, got a tied one")
    dtype = whole["head.tokens.weight"].dtype
    found: OrderedDict[str, nn.Module] = OrderedDict()
    if model.positions:
        found["embedding"] = PlainEmbedding(model, dtype)
    else:
        found["embedding"] = nn.Embedding(model.vocabulary, model.features, dtype=dtype)
    for number in range(model.num_layers):
        found[f"layer{number}"] = PlainLayer(model, dtype)
    found["head"] = PlainHead(model, dtype)
    layers = nn.Sequential(found)
    layers.load_state_dict(plain_state(whole))
    return layers


def plain_state(whole: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same tensors by the names that they have in `plain_layers`: views."""
    found: dict[str, torch.Tensor] = {}
    for name, tensor in whole.items():
        module, _, kind = name.rpartition(".")
        if module.endswith("queries_keys_values"):
            layer = module.partition(".")[0]
            found |= {f"{layer}.{part}.{kind}": each for part, each in zip(_SECTIONS, tensor.chunk(3), strict=True)}
        else:
            short = name.replace(".attention.", ".").replace(".mlp.", ".").replace("head.tokens", "head.scores")
            found[short] = tensor
    return found
