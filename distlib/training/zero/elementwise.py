"""Does an optimizer work element by element? Only then may its tensors be cut into shards.

    whole        a a a a b b b b   ──two steps──►   c c c c d d d d
    two halves   a a a a           ──two steps──►   c c c c             the same numbers: SGD, Adam, AdamW, …
                         b b b b   ──two steps──►           d d d d     others: LAMB's norms, Muon's matrices, …

It is tried out, on twelve numbers, so that an optimizer that nobody has heard of is judged as well.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from distlib.training.zero.shard_unit import COPY, SHARD, role_of

_ROWS, _COLUMNS, _STEPS = 4, 3, 2


def check_elementwise(optimizer_class: type[torch.optim.Optimizer], **defaults: Any) -> None:
    """Check that cutting a tensor does not change what an optimizer does with it.

    Args:
        defaults: what the optimizer is made with, such as lr=1e-3.

    Raises:
        TypeError: not a class of optimizers.
        ValueError: it can't work on shards, or only gives other results there.
    """
    if not (isinstance(optimizer_class, type) and hasattr(optimizer_class, "step")):
        raise TypeError(
            "expected a class of optimizers, such as torch.optim.AdamW, and its options after it, lr=1e-3; "
            f"got {type(optimizer_class).__name__}"
        )
    name = optimizer_class.__name__
    optimizer_class([nn.Parameter(torch.zeros(1, 1))], **defaults)  # an option that does not exist is torch's to refuse
    try:
        whole = _after_steps(optimizer_class, defaults, [(_ROWS, _COLUMNS)])
        cut = _after_steps(optimizer_class, defaults, [(_ROWS * _COLUMNS // 2,)] * 2)
    except Exception as error:
        said = str(error).rstrip(".")
        raise ValueError(
            f"{name} can't be sharded: it does not work on flat pieces of tensors ({said}). {_HINT}"
        ) from error
    if not torch.allclose(whole, cut, rtol=1e-9, atol=1e-12):
        raise ValueError(
            f"{name} can't be sharded: it does not work element by element, so a tensor that is cut gets another "
            f"update. {_HINT}"
        )


_HINT = "Take SGD, Adam, AdamW or another optimizer that has a state for each element."


def _after_steps(
    optimizer_class: type[torch.optim.Optimizer], defaults: dict[str, Any], shapes: list[tuple[int, ...]]
) -> torch.Tensor:
    numbers = torch.linspace(-1, 2, _ROWS * _COLUMNS, dtype=torch.float64)
    lengths = [torch.Size(shape).numel() for shape in shapes]
    parameters = [
        nn.Parameter(piece.clone().view(shape)) for piece, shape in zip(numbers.split(lengths), shapes, strict=True)
    ]
    optimizer = optimizer_class(parameters, **defaults)
    for step in range(_STEPS):
        gradients = (numbers * 7 + step).sin()
        for parameter, piece in zip(parameters, gradients.split(lengths), strict=True):
            parameter.grad = piece.clone().view(parameter.shape)
        optimizer.step()
    return torch.cat([parameter.detach().view(-1) for parameter in parameters])


@cache
def watch_optimizers() -> None:
    """From now on look at every optimizer of torch in this process when it makes a step with shards of stage 3.

    There the caller makes the optimizer, so that this is the first chance to see it.
    """
    register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    roles = {role_of(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if COPY in roles:
        raise RuntimeError(
            f"{type(optimizer).__name__} was given parameters of the model inside, which are sharded, so it would "
            "train nothing: give it the shards, FullyShardedModule(…).parameters()"
        )
    if SHARD in roles and not getattr(optimizer, "works_on_shards", False):
        check_elementwise(type(optimizer), **_options_of(optimizer))
        optimizer.works_on_shards = True  # type: ignore[attr-defined]


def _options_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What it was made with, as far as it matters to the numbers."""
    known = inspect.signature(type(optimizer)).parameters
    return {key: value for key, value in optimizer.defaults.items() if key in known and key not in ("fused", "foreach")}
