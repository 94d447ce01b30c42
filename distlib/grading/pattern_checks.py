"""The checks of shift, broadcast, scatter, gather and reduce.

Like the checks in `distlib.grading.checks`, and with the same engine: every combination of world size, length, dtype,
layout and root is one case. What they can't see is said there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from distlib.checks.remark import Remark
from distlib.grading.case import Case
from distlib.grading.checks import make_cases, run_check
from distlib.grading.observe import Observation
from distlib.grading.pattern_specification import PatternSpecification
from distlib.grading.pattern_traffic import explain_pattern_traffic
from distlib.grading.pattern_values import Held, explain_pattern_values
from distlib.grading.report import Report


def check_shift(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    messages: Callable[[int], Sequence[int]],
    rounds: Callable[[int], int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
) -> Report:
    """Check `function(comm, tensor)`: afterwards the tensor of rank r holds what rank r - 1 had, in place.

    Args:
        world_sizes: numbers of ranks.
        lengths: numbers of elements of the tensor.
        messages: from the number of ranks to how many messages each rank sends, a list.
        rounds: from the number of ranks to the largest number of rounds.
        dtypes: of the tensor.
        layouts: how the tensor lies in memory: "contiguous", "matrix", "transposed", "strided".
        seed: of the values.

    Returns:
        The cases with their messages, if all have passed.

    Raises:
        CheckFailed: what is wrong in the first case that fails. No other exception of the function gets through.
        ValueError: the test cell asks for something that does not exist.
    """
    specification = PatternSpecification("ring", messages, rounds)
    cases = make_cases(function, "shift", world_sizes, lengths, dtypes, layouts, seed)
    return run_check(function, cases, specification, _judge)


def check_broadcast(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    roots: Sequence[int],
    steps: Callable[[int], int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
) -> Report:
    """Check `function(comm, tensor, root=0)`: afterwards every tensor holds what the root had, in place, by a tree.

    Args:
        roots: ranks to be the root; one that a world does not have is left out there.
        steps: from the number of ranks to the largest number of steps (see `pattern_specification`).

    The other arguments, the result and exceptions as in `check_shift`.
    """
    specification = PatternSpecification("tree", steps=steps)
    cases = make_cases(function, "broadcast", world_sizes, lengths, dtypes, layouts, seed, roots)
    return run_check(function, cases, specification, _judge)


def check_scatter(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    roots: Sequence[int],
    messages: Callable[[int], Sequence[int]],
    rounds: Callable[[int], int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
) -> Report:
    """Check `function(comm, tensor, root=0)`: rank r returns chunk r of the root's tensor, sent directly.

    Args:
        roots: ranks to be the root; one that a world does not have is left out there.
        messages: how many messages each rank sends if the root is rank 0; with another root, places move along.

    The other arguments, the result and exceptions as in `check_shift`.
    """
    specification = PatternSpecification("star", messages, rounds, carries="chunk")
    cases = make_cases(function, "scatter", world_sizes, lengths, dtypes, layouts, seed, roots)
    return run_check(function, cases, specification, _judge)


def check_gather(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    roots: Sequence[int],
    messages: Callable[[int], Sequence[int]],
    rounds: Callable[[int], int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
) -> Report:
    """Check `function(comm, tensor, root=0)`: the root returns a list of all tensors by rank, every other rank None.

    Arguments as in `check_scatter`, result and exceptions as in `check_shift`.
    """
    specification = PatternSpecification("star", messages, rounds)
    cases = make_cases(function, "gather", world_sizes, lengths, dtypes, layouts, seed, roots)
    return run_check(function, cases, specification, _judge)


def check_reduce(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    roots: Sequence[int],
    messages: Callable[[int], Sequence[int]],
    steps: Callable[[int], int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
) -> Report:
    """Check `function(comm, tensor, root=0)`: afterwards the root's tensor holds the sum, in place, by a tree.

    What the other ranks' tensors hold is free. Arguments as in `check_scatter` and `check_broadcast`, result and
    exceptions as in `check_shift`.
    """
    specification = PatternSpecification("tree", messages, steps=steps)
    cases = make_cases(function, "reduce", world_sizes, lengths, dtypes, layouts, seed, roots)
    return run_check(function, cases, specification, _judge)


def _judge(case: Case, observation: Observation, specification: PatternSpecification) -> Remark | None:
    held = Held(case, observation.outcomes, len(observation.trace))
    return explain_pattern_values(held) or explain_pattern_traffic(case, observation.trace, specification)
