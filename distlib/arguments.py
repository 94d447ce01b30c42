"""What can be wrong with an argument, and how an error says it. The same words in all of distlib.

A check comes first, before anything is computed or sent. Its error says what was expected, what came, and what to do:

    all_reduce expected a torch.Tensor, got a list of 3 floats: make a tensor first, with torch.tensor(…)

One word means one thing in the whole package, so most checks follow from the names of the arguments:

    @checked
    def replicate(comm, model, algorithm="flat"):      # a communicator, a torch.nn.Module; `algorithm` has no rule here
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

import torch

__decorated__ = "function"  # so that a call site names the function, and not the wrapper around it

_Function = TypeVar("_Function", bound=Callable[..., Any])
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
        return f"a tensor of {describe_tensor(tuple(value.shape), dtype_name_of(value))}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
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


def dtype_name_of(tensor: torch.Tensor) -> str:
    """ "float32" for a tensor of torch.float32."""
    return _DTYPE_NAMES.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.")


@lru_cache(maxsize=1024)  # a rank that waits says each time for what
def describe_tensor(shape: tuple[int, ...], dtype: str) -> str:
    """ "4 float32" for one dimension, "2×3 float32" for more."""
    return f"{'×'.join(str(length) for length in shape) or '1'} {dtype}"


def check_tensor(who: str, value: object, argument: str = "", *, written: bool = False) -> None:
    """Check that `value` is a dense tensor.

    Args:
        who: the function that was called, "all_reduce".
        argument: which of its arguments it is, " as inputs[2]", where that is not clear.
        written: whether the function writes into it.

    Raises:
        TypeError: it is not a tensor.
        ValueError: it is sparse, or it is written and some of its elements share memory.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{who} expected a torch.Tensor{argument}, got {described(value)}{_after_colon(remedy(value))}")
    if value.layout is not torch.strided:
        raise ValueError(
            f"{who} expected a dense tensor{argument}, got a sparse one ({value.layout}) of shape "
            f"{tuple(value.shape)}: make a dense copy first, with tensor.to_dense()"
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


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""


def remedy(value: object) -> str:
    """What to do where a tensor was expected and `value` came; "" if nothing is known."""
    if value is None:
        return "what works in place returns None; hand over the tensor itself"
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return "torch.from_numpy(array) makes a tensor that shares its memory"
    if type(value).__name__ == "ReduceOp":
        return "the first argument is comm, the second the tensor"
    if isinstance(value, torch.nn.Module):
        return "a model has many tensors; make one call for each of model.parameters()"
    if isinstance(value, Sequence) and any(isinstance(each, torch.Tensor) for each in value):
        return "make one call for each of them, or put them into one tensor, with torch.cat(…)"
    if isinstance(value, list | tuple | int | float | complex):
        return "make a tensor first, with torch.tensor(…)"
    return ""


# ── numbers, names and functions ─────────────────────────────────────────────────────────────────────────────────────


def as_integer(value: object) -> int | None:
    """The integer that a value is, of Python, numpy or torch; None if it is none. A truth value is none."""
    try:
        return operator.index(None if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except TypeError:
        return None


def check_integer(who: str, name: str, value: object, at_least: int | None = 0, at_most: int | None = None) -> int:
    """Check that `value`, the argument `name`, is an integer in a range, and return it as Python's.

    Raises:
        ValueError: with what was expected and what came.
    """
    number = as_integer(value)
    if number is not None and (at_least is None or at_least <= number) and (at_most is None or number <= at_most):
        return number
    limits = (
        "" if at_least is None else f" of at least {at_least}" if at_most is None else f" from {at_least} to {at_most}"
    )
    raise ValueError(f"{who} expected an integer{limits} as {name}, got {name}={short(value)}")


def is_real(value: object) -> bool:
    """Whether it is a number, of Python or of numpy, and not a truth value, a text or a tensor."""
    return type(value) in (int, float) or (isinstance(value, numbers.Real) and not isinstance(value, bool))


def check_number(who: str, name: str, value: object, *, at_least: float = -math.inf, above: float = -math.inf) -> None:
    """Check that `value`, the argument `name`, is a number in a range; not NaN.

    Raises:
        ValueError: with what was expected and what came.
    """
    one = isinstance(value, torch.Tensor) and value.numel() == 1
    if not (one or is_real(value)) or not (at_least <= float(value) and above < float(value)):  # type: ignore[arg-type]
        limits = [f" of at least {at_least:g}"] * (at_least > -math.inf) + [f" above {above:g}"] * (above > -math.inf)
        raise ValueError(f"{who} expected a number{''.join(limits)} as {name}, got {name}={short(value)}")


def check_timeout(timeout: object) -> None:
    """Check the time limit of a run: None, or seconds above 0. Raises ValueError."""
    if timeout is not None:
        check_number("run", "timeout", timeout, above=0)


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


# ── by the names of arguments ────────────────────────────────────────────────────────────────────────────────────────


def checked(function: _Function) -> _Function:
    """Decorate a function or an `__init__`: first its arguments are checked, as their names say. See `_RULES`.

    An argument whose default is None, or whose annotation allows it, may be None.

    Raises:
        TypeError, ValueError: from the decorated function, with its name.
    """
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    rules = [(name, _RULES[name], _may_be_none(parameters[name])) for name in names if name in _RULES]
    assert rules, f"{function.__qualname__}: no argument has a rule"
    who = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name, rule, may_be_none in rules:
            if name in given and not (given[name] is None and may_be_none):
                rule(who, name, given[name], given)
        return function(*args, **kwargs)

    return cast(_Function, call)


def _may_be_none(parameter: inspect.Parameter) -> bool:
    return parameter.default is None or "None" in str(parameter.annotation).split(" | ")


def check_by_name(who: str, **given: object) -> None:
    """Check arguments as their names say, for a function that has something else to check before."""
    for name, value in given.items():
        _RULES[name](who, name, value, given)


def _communicator(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    if not (hasattr(value, "rank") and hasattr(value, "world_size")):
        hint = ": call it on the ranks, in the function that world.run(…) is given" * hasattr(value, "run")
        raise TypeError(f"{who} expected the communicator of its rank as {name}, got {described(value)}{hint}")


def _model(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    if not isinstance(value, torch.nn.Module):
        example = "torch.nn.Linear(64, 10)"
        raise TypeError(f"{who} expected a torch.nn.Module as {name}, such as {example}, got {described(value)}")


def _optimizer(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    if isinstance(value, type) or not (hasattr(value, "step") and hasattr(value, "zero_grad")):
        example = "torch.optim.SGD(model.parameters(), lr=0.1)"
        raise TypeError(f"{who} expected an optimizer, such as {example}, got {described(value)}")


def _cluster(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    if not hasattr(value, "slowest_link") or isinstance(value, type):
        example = "Cluster(nodes=2, ranks_per_node=4)"
        raise TypeError(f"{who} expected a Cluster as {name}, such as {example}, got {described(value)}")


def _tensor(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    check_tensor(who, value, f" as {name}")


def _matrix(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    check_tensor(who, value, f" as {name}")
    if isinstance(value, torch.Tensor) and (value.dim() != 2 or value.shape[0] != value.shape[1]):
        raise ValueError(f"{who} expected a square matrix as {name}, got {described(value)}")


def _tensors(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    if not isinstance(value, Sequence | torch.Tensor) or isinstance(value, str):
        raise TypeError(f"{who} expected a list of tensors as {name}, got {described(value)}")
    for index, tensor in enumerate(value):
        check_tensor(who, tensor, f" as {name}[{index}]")


def _function(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    check_callable(who, value, "torch.nn.functional.cross_entropy")


def _batches(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    if not isinstance(value, Iterable) or isinstance(value, torch.Tensor | str):
        raise TypeError(f"{who} expected pairs of inputs and targets as {name}, got {described(value)}")


def _batch(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    """A tensor, or a pair of inputs and targets."""
    if not isinstance(value, tuple | list):
        check_tensor(who, value, f" as {name}")
    elif len(value) != 2:
        raise TypeError(f"{who} expected a pair of inputs and targets as {name}, got {described(value)}")
    else:
        for part, tensor in zip(("inputs", "targets"), value, strict=True):
            check_tensor(who, tensor, f" as the {part} of {name}")


def _sized(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    if not hasattr(value, "__len__"):
        raise TypeError(
            f"{who} expected a {name} with a length, such as a list or a TensorDataset, got {described(value)}"
        )


def _count(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    check_integer(who, name, value, 1)


def _whole(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    check_integer(who, name, value, None)


def _length(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    """How many elements: exact counts take an integer, 1e6 too; predicted seconds also a fraction."""
    is_whole = isinstance(value, float) and value.is_integer()
    if "world_size" in given and not is_whole:
        check_integer(who, name, value, 0)
    check_number(who, name, value, at_least=0)


def _number(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    check_number(who, name, value)


def _root(who: str, name: str, value: object, given: Mapping[str, Any]) -> None:
    ranks = given.get("world_size", getattr(given.get("cluster") or given.get("comm"), "world_size", None))
    check_integer(who, name, value, 0, None if ranks is None else ranks - 1)


def _divisor(who: str, name: str, value: Any, given: Mapping[str, Any]) -> None:
    check_integer(who, name, value, 1)
    ranks = given.get("world_size", getattr(given.get("cluster"), "world_size", 0))
    if ranks % value:
        raise ValueError(f"{who} expected {name} to divide the {ranks} ranks, got {name}={value}")


_RULES: dict[str, Callable[[str, str, Any, Mapping[str, Any]], None]] = {
    "comm": _communicator,
    **dict.fromkeys(["model", "module"], _model),
    "optimizer": _optimizer,
    "cluster": _cluster,
    **dict.fromkeys(["tensor", "weight", "images", "labels", "output", "outputs", "gradient"], _tensor),
    **dict.fromkeys(["scores", "targets", "inputs"], _tensor),
    "matrix": _matrix,
    "tensors": _tensors,
    "batch": _batch,
    **dict.fromkeys(["batches", "microbatches"], _batches),
    "dataset": _sized,
    "loss_function": _function,
    **dict.fromkeys(["world_size", "itemsize", "blocks", "repeats"], _count),
    "length": _length,
    **dict.fromkeys(["ranks", "rows", "num_rows"], _whole),  # these, too
    **dict.fromkeys(["rounds", "first_round", "step", "epoch", "seed", "num_servers", "largest_bytes"], _whole),
    **dict.fromkeys(["bucket_bytes", "first_bucket_bytes"], _whole),  # these say themselves from where on
    **dict.fromkeys(["base_learning_rate", "base_batch_size", "batch_size", "warmup_steps"], _number),
    "global_batch_size": _number,
    "root": _root,
    **dict.fromkeys(["columns", "ranks_per_node"], _divisor),
}
