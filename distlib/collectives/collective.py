"""What all collectives on one tensor have in common, so that the file of each holds only its own algorithm.

@collective("reduce_scatter", algorithm="ring")
def ring_reduce_scatter(comm, tensor, op=ReduceOp.SUM):
    …                                                      # who sends what to whom

before     the arguments are checked, the call is announced (see `arguments`), the tensor is flattened
inside     `tensor` has one dimension, autograd records nothing, an average is a sum
after      an average is divided; where flattening had to make a copy, it is written back into the caller's tensor
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

import torch

from distlib.arguments import check_integer
from distlib.collectives.arguments import announced, check_communicator
from distlib.collectives.history import watch_backward
from distlib.collectives.reduction import check_op
from distlib.communicator import Communicator, ReduceOp
from distlib.partition import chunks_of, flat_view, write_back
from distlib.tensor_kinds import check_sendable

__decorated__ = "function"  # so that a call site names the algorithm, and not the wrapper around it

Function = TypeVar("Function", bound=Callable[..., None])
ALGORITHMS: dict[str, dict[str, Callable[..., None]]] = {}  # ALGORITHMS["all_reduce"]["ring"] is ring_all_reduce
_COLLECTING = ("reduce", "gather")  # the root gets the result; of others that have a root, all ranks but the root


def collective(name: str, algorithm: str | None = None) -> Callable[[Function], Function]:
    """Decorate the function of an algorithm: (comm, tensor), then `root` and `op` if it has them, then its own options.

    Args:
        name: of the collective, such as "all_reduce".
        algorithm: what `all_reduce(…, algorithm=…)` knows it by; None where there is only one.
    """

    def decorate(function: Function) -> Function:
        parameters = list(inspect.signature(function).parameters.values())[2:]
        positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        defaults = {each.name: each.default for each in parameters}
        in_order = {"root": None, "op": None, "algorithm": algorithm}  # of the announced text

        @functools.wraps(function)
        def call(comm: Communicator, tensor: torch.Tensor, *args: Any, **options: Any) -> None:
            given = defaults
            if args or options:
                given = defaults | dict(**dict(zip(positional, args, strict=False)), **options)
            if getattr(comm, "call", None) is None:  # not a part of another collective, which has been checked
                check_call(name, comm, tensor, given)
                if "root" in given:
                    given = {**given, "root": operator.index(given["root"])}  # it may be numpy's
                comm = announced(comm, name, tensor, **in_order | given)
            is_average = given.get("op") is ReduceOp.AVG
            inside = given | {"op": ReduceOp.SUM} if is_average else given
            with unseen_by_autograd(tensor):
                flat = flat_view(tensor)
                function(comm, flat, *args[len(positional) :], **inside)  # Python complains if there are more
                if "root" not in given or (comm.rank == given["root"]) == (name in _COLLECTING):
                    if is_average:
                        _result(name, comm, flat).div_(comm.world_size)
                    write_back(tensor, flat)

        ALGORITHMS.setdefault(name, {})[algorithm or name] = call
        return cast(Function, call)

    return decorate


def check_call(name: str, comm: Communicator, tensor: torch.Tensor, given: Mapping[str, Any]) -> None:
    """Check what a collective was given. If it writes into a tensor with a history, autograd's user gets to know.

    Raises:
        TypeError: no communicator, or not a tensor.
        ValueError: a tensor that can't be sent (see tensor_kinds) or whose elements share memory, no rank `root`, or
            an `op` that has no meaning for the dtype.
    """
    check_communicator(name, comm)
    check_sendable(name, tensor)
    if "root" in given:
        check_integer(name, "root", given["root"], 0, comm.world_size - 1)
    if "op" in given:
        check_op(name, given["op"], tensor)
    if name == "reduce" or "root" not in given or (comm.rank == given["root"]) == (name in _COLLECTING):
        check_sendable(name, tensor, written=True)  # a reduce leaves parts of the result in all tensors
        watch_backward(name, tensor)


def unseen_by_autograd(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """In this block autograd records nothing, and `tensor` may be written, also if inference mode has made it."""
    if tensor.is_inference():
        return torch.inference_mode()
    return torch.no_grad() if torch.is_grad_enabled() else nullcontext()  # off already inside another collective


def _result(name: str, comm: Communicator, flat: torch.Tensor) -> torch.Tensor:
    return chunks_of(flat, comm.world_size)[comm.rank] if name == "reduce_scatter" else flat
