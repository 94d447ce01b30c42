"""The checks of the all-reduces by a tree, by halving and doubling, and on a grid.

Like the checks in `distlib.grading.checks`, and with the same engine. What they can't see is said there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from distlib.checks.remark import Remark
from distlib.grading.all_reduce_specification import AllReduceSpecification
from distlib.grading.case import LAYOUTS, Case
from distlib.grading.checks import make_cases, name_of, run_check
from distlib.grading.grid_traffic import explain_grid_traffic
from distlib.grading.halving_traffic import explain_halving_traffic
from distlib.grading.observe import Observation
from distlib.grading.report import Report
from distlib.grading.seen import Seen
from distlib.grading.specification import expect_one_of
from distlib.grading.tree_traffic import explain_tree_traffic
from distlib.grading.values import explain_values


def check_tree_all_reduce(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    steps: Callable[[int], int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
) -> Report:
    """Check `function(comm, tensor)`: the sum goes up a tree to rank 0 and down a tree, and ends on every rank.

    Every combination of world size, length, dtype and layout is one case; they run in the order given.

    Args:
        world_sizes: numbers of ranks.
        lengths: numbers of elements of the tensor.
        steps: from the number of ranks to the largest number of steps up, and down (see `all_reduce_specification`).
        dtypes: of the tensor.
        layouts: how the tensor lies in memory: "contiguous", "matrix", "transposed", "strided".
        seed: of the values.

    Returns:
        The cases with their messages, if all have passed.

    Raises:
        CheckFailed: what is wrong in the first case that fails. No other exception of the function gets through.
        ValueError: the test cell asks for something that does not exist.
    """
    cases = make_cases(function, "all_reduce", world_sizes, lengths, dtypes, layouts, seed)
    specification = AllReduceSpecification(steps=steps)
    return run_check(function, [replace(case, algorithm="tree") for case in cases], specification, _judge)


def check_halving_doubling_all_reduce(
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
    """Check `function(comm, tensor)`: an all-reduce by halving and doubling over a power of two of the ranks.

    Args:
        messages: from the number of ranks to how many messages each rank sends, a list.
        rounds: from the number of ranks to the number of rounds.

    The other arguments, the result and exceptions as in `check_tree_all_reduce`.
    """
    cases = make_cases(function, "all_reduce", world_sizes, lengths, dtypes, layouts, seed)
    specification = AllReduceSpecification(messages, rounds)
    return run_check(function, [replace(case, algorithm="halving_doubling") for case in cases], specification, _judge)


def check_grid_all_reduce(
    function: Callable[..., object],
    *,
    grids: Sequence[tuple[int, int]],
    lengths: Sequence[int],
    messages: Callable[[int, int], Sequence[int]],
    rounds: Callable[[int, int], int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
    helpers: Sequence[str] = (),
) -> Report:
    """Check `function(comm, tensor, columns)`: an all-reduce round the rows and the columns of a grid.

    Args:
        grids: rows and columns; there are rows * columns ranks, and rank r is in row r // columns.
        messages: from rows and columns to how many messages each rank sends along its row, and along its column.
        rounds: from rows and columns to the number of rounds.
        helpers: names in the student's notebook that lead to functions of ours while the check runs.

    The other arguments, the result and exceptions as in `check_tree_all_reduce`.
    """
    for layout in layouts:
        expect_one_of("layouts", layout, tuple(LAYOUTS))
    name = name_of(function, ("comm", "tensor", "columns=1"))
    cases = [
        Case(name, "all_reduce", rows * columns, length, dtype, layout, seed, algorithm="grid", columns=columns)
        for (rows, columns), length, dtype, layout in itertools.product(grids, lengths, dtypes, layouts)
    ]
    return run_check(function, cases, AllReduceSpecification(messages, rounds, helpers=tuple(helpers)), _judge)


_EXPLAIN = {"tree": explain_tree_traffic, "halving_doubling": explain_halving_traffic, "grid": explain_grid_traffic}


def _judge(case: Case, observation: Observation, specification: AllReduceSpecification) -> Remark | None:
    assert case.algorithm is not None
    in_chunks = case.algorithm != "tree"
    seen = Seen(case, observation.outcomes, len(observation.trace), in_chunks)
    return explain_values(seen) or _EXPLAIN[case.algorithm](case, observation.trace, specification)
