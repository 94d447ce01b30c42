"""What can be wrong with an argument, and how an error says it. The same words in all of distlib.

A check comes first, before anything is computed or sent. Its error says what was expected, what came, and what to do:

    all_reduce expected a torch.Tensor, got a list of 3 floats: make a tensor first, with torch.tensor(…)
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

_cut = reprlib.Repr()
_cut.maxstring = _cut.maxother = 80


def short(value: object) -> str:
    """`repr(value)`, cut where it is long."""
    return _cut.repr(value)


def described(value: object) -> str:
    """What a value is, for an error: "a list of 3 floats", "None", "the int 5", "a tensor of 2×3 float32"."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, torch.Tensor):
        return f"a tensor of {describe_tensor(tuple(value.shape), dtype_name(value))}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, int | float | complex | str):
        return f"the {'text' if isinstance(value, str) else type(value).__name__} {short(value)}"
    if isinstance(value, list | tuple | set | frozenset | dict):
        return _described_group(value)
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return f"a numpy array of {describe_tensor(tuple(value.shape), str(value.dtype))}"  # type: ignore[attr-defined]
    return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """ "a World", "an Engine"."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _described_group(values: Any) -> str:
    kind, kinds = type(values).__name__, {_kind(value) for value in values}
    if not values:
        return f"an empty {kind}"
    noun = kinds.pop() if len(kinds) == 1 else "element"
    return f"{with_article(kind)} of {len(values)} {noun}{'s' * (len(values) != 1)}"


def _kind(value: object) -> str:
    return "tensor" if isinstance(value, torch.Tensor) else type(value).__name__


# ── tensors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_DTYPE_NAMES = {d: str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}


def dtype_name(tensor: torch.Tensor) -> str:
    """ "float32" for torch.float32."""
    return _DTYPE_NAMES.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.")


@lru_cache(maxsize=1024)  # a rank that waits says each time for what
def describe_tensor(shape: tuple[int, ...], dtype: str) -> str:
    """ "4 float32" for one dimension, "2×3 float32" for more."""
    return f"{'×'.join(str(length) for length in shape) or '1'} {dtype}"


def check_tensor(who: str, value: object, place: str = "", *, written: bool = False) -> None:
    """Check that `value` is a dense tensor.

    Args:
        who: the function that was called, "all_reduce".
        place: which of its arguments it is, " as inputs[2]", where that is not clear.
        written: whether the function writes into it.

    Raises:
        TypeError: it is not a tensor.
        ValueError: it is sparse, or it is written and some of its elements share memory.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{who} expected a torch.Tensor{place}, got {described(value)}{_remedy(value)}")
    if value.layout is not torch.strided:
        raise ValueError(
            f"{who} expected a dense tensor{place}, got a sparse one ({value.layout}) of shape {tuple(value.shape)}: "
            f"make a dense copy first, with tensor.to_dense()"
        )
    if written and not value.is_contiguous() and overlaps_itself(value):
        raise ValueError(
            f"{who} can't write into a tensor whose elements share memory, as those of tensor.expand(…) do; got shape "
            f"{tuple(value.shape)} with strides {value.stride()}: make a copy first, with tensor.clone()"
        )


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether some elements of a dense tensor share memory: there are more than fit between the first and the last."""
    room = 1 + sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.numel() > room


def _remedy(value: object) -> str:
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return ": torch.from_numpy(array) makes a tensor that shares its memory"
    if isinstance(value, torch.nn.Module):
        return ": a model has many tensors; make one call for each of model.parameters()"
    if isinstance(value, Sequence) and any(isinstance(each, torch.Tensor) for each in value):
        return ": make one call for each of them, or put them into one tensor, with torch.cat(…)"
    if isinstance(value, list | tuple | int | float | complex):
        return ": make a tensor first, with torch.tensor(…)"
    return ""


# ── numbers, names and functions ─────────────────────────────────────────────────────────────────────────────────────


def check_integer(who: str, name: str, value: object, at_least: int = 0, at_most: int | None = None) -> None:
    """Check that `value`, the argument `name`, is an integer in a range. A truth value is none.

    Raises:
        ValueError: with what was expected and what came.
    """
    if type(value) is int and at_least <= value and (at_most is None or value <= at_most):
        return  # the usual case, quickly
    try:
        fits = not isinstance(value, bool) and at_least <= operator.index(value)  # type: ignore[arg-type]
        if fits and (at_most is None or operator.index(value) <= at_most):  # type: ignore[arg-type]
            return
    except TypeError:
        pass
    range_ = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    raise ValueError(f"{who} expected an integer {range_} as {name}, got {name}={short(value)}")


def check_number(who: str, name: str, value: object, *, at_least: float = -math.inf, above: float = -math.inf) -> None:
    """Check that `value`, the argument `name`, is a number in a range; not NaN. Infinity is in the range if `above` is.

    Raises:
        ValueError: with what was expected and what came.
    """
    try:
        fits = not isinstance(value, bool | str) and float(value) >= at_least and float(value) > above  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        fits = False
    if not fits:
        limits = [f" of at least {at_least:g}"] * (at_least > -math.inf) + [f" above {above:g}"] * (above > -math.inf)
        raise ValueError(f"{who} expected a number{''.join(limits)} as {name}, got {name}={short(value)}")


def check_choice(who: str, name: str, value: object, choices: Sequence[str] | Mapping[str, object]) -> None:
    """Check that `value`, the argument `name`, is one of some texts.

    Raises:
        ValueError: with the choices and what came.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{who} expected one of {', '.join(choices)} as {name}, got {name}={short(value)}")


def check_callable(who: str, value: object, example: str) -> None:
    """Check that `value` can be called, such as a loss function.

    Raises:
        TypeError: with what came, and the example.
    """
    if not callable(value):
        raise TypeError(f"{who} expected a function, such as {example}, got {described(value)}")


def check_type(who: str, name: str, value: object, kind: type, example: str) -> None:
    """Check that `value`, the argument `name`, is of a class.

    Args:
        example: how to make one.

    Raises:
        TypeError: with what was expected and what came.
    """
    if not isinstance(value, kind):
        raise TypeError(
            f"{who} expected {with_article(kind.__name__)} as {name}, such as {example}, got {described(value)}"
        )
