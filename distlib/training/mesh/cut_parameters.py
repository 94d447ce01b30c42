"""Which part of a whole parameter a rank has, where a model is cut along tp.

    parameter                                of the whole one
    weight, bias of ColumnParallelLinear     its rows
    weight of RowParallelLinear              its columns
    weight of VocabularyParallelEmbedding    its tokens
    all others: norms, row-parallel biases   everything: each rank of the group has a copy, with the same gradient

So a sum over all parameters of a model takes those that are cut from every rank, and the copies from one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from distlib.training.tensor_parallel import (
    ColumnParallelLinear,
    GroupedQueryAttention,
    RowParallelLinear,
    VocabularyParallelEmbedding,
)


def cuts_of(module: nn.Module) -> dict[str, Any]:
    """By name, where in the whole parameter this rank's part stands: an index. Copies are left out."""
    found: dict[str, Any] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, index in _cuts_of_one(part).items():
            found[f"{prefix}.{name}" if prefix else name] = index
    return found


def _cuts_of_one(part: nn.Module) -> dict[str, Any]:
    if isinstance(part, ColumnParallelLinear):
        return {"weight": part.rows} | ({"bias": part.rows} if part.bias is not None else {})
    if isinstance(part, RowParallelLinear):
        return {"weight": (slice(None), part.columns)}
    if isinstance(part, VocabularyParallelEmbedding):
        return {"weight": part.tokens}
    return {}


def check_layers(module: nn.Module) -> None:
    """Check that this module has no layers whose copies find different gradients on the ranks of a tp group.

    Raises:
        ValueError: a layer whose input is cut along the sequence, or a head of keys and values that ranks share.
    """
    for name, part in module.named_modules():
        if getattr(part, "sequence", False):
            raise ValueError(
                f"expected layers whose input is whole on every rank of tp, got {name} with sequence=True: each rank "
                "would find another gradient for the norms"
            )
        if isinstance(part, GroupedQueryAttention):
            raise ValueError(
                f"expected layers whose copies find equal gradients on every rank of tp, got {name}, a "
                "GroupedQueryAttention: call its sum_shared_gradients in a loop of your own"
            )


def cut_parameters(module: nn.Module) -> set[nn.Parameter]:
    """The parameters of which this rank has a part only."""
    return {module.get_parameter(name) for name in cuts_of(module)}


def own_parts(module: nn.Module, whole: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of a whole model's tensors, by name, the parts that this module's parameters are: views of them.

    Args:
        module: a model that is cut along tp, or a stage of it.
        whole: `state_dict()` of the same model on one rank; may have more names.

    Raises:
        ValueError: a parameter that `whole` does not have.
    """
    cuts, found = cuts_of(module), {}
    for name, _ in module.named_parameters(remove_duplicate=False):
        if name not in whole:
            raise ValueError(f"own_parts expected {name} among the tensors of the whole model, got {', '.join(whole)}")
        found[name] = whole[name][cuts[name]] if name in cuts else whole[name]
    return found
