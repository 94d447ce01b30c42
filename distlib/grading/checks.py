"""The checks that a test cell calls: run the student's function on real ranks, compare, explain the first difference.

    cases, smallest first ──► run ──► error?  values?  messages?  ──► CheckFailed, or on to the next case ──► Report

A check stops at the first case that fails, and says of it what was expected, what was seen, where, and what usually
causes it. The cases and what is expected stand in the test cell; nothing here knows them.

What a check can't see, because it runs in the student's own process: code that is written to deceive it, such as one
that patches this module or keeps a second way for data beside the messages. Test cells therefore import the checks
afresh and assert on the figures of the `Report`; more than that, `distlib grade` will do.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch

from distlib.grading.all_reduce_specification import AllReduceSpecification
from distlib.grading.case import LAYOUTS, Case, count
from distlib.grading.errors import explain_error
from distlib.grading.failure import CheckFailed, Remark
from distlib.grading.helpers import supplied
from distlib.grading.observe import Observation, observe
from distlib.grading.pattern_specification import PatternSpecification
from distlib.grading.report import Report
from distlib.grading.seen import Seen
from distlib.grading.specification import Specification, expect_one_of
from distlib.grading.traffic import explain_traffic
from distlib.grading.values import explain_values

CASE_SECONDS = 5.0  # a case takes milliseconds; one that takes this long does not end
CHECK_SECONDS = 10.0  # all cases of one check together
_PRINTED_SHOWN = 2_000  # characters

SpecificationType = TypeVar("SpecificationType", Specification, PatternSpecification, AllReduceSpecification)


def check_all_reduce(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    messages: Callable[[int], int | Sequence[int]],
    rounds: Callable[[int], int],
    carries: str,
    topology: str,
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
    helpers: Sequence[str] = (),
) -> Report:
    """Check `function(comm, tensor)`: afterwards every rank's tensor holds the sum over all ranks, in place.

    Every combination of world size, length, dtype and layout is one case; they run in the order given.

    Args:
        world_sizes: numbers of ranks.
        lengths: numbers of elements of the tensor; they need not divide, and may be smaller than the number of ranks.
        messages: from the number of ranks to how many messages each rank sends (a number, or a list by rank).
        rounds: from the number of ranks to the number of rounds.
        carries: what each message carries, a "chunk" of the tensor or the whole "buffer".
        topology: who talks to whom: "ring" (either way round), or "star" with rank 0 in the middle.
        dtypes: of the tensor.
        layouts: how the tensor lies in memory: "contiguous", "matrix", "transposed", "strided".
        seed: of the values.
        helpers: names in the student's notebook that lead to functions of ours while the check runs.

    Returns:
        The cases with their messages, if all have passed.

    Raises:
        CheckFailed: what is wrong in the first case that fails. No other exception of the function gets through.
        ValueError: the test cell asks for something that does not exist.
    """
    specification = Specification(messages, rounds, carries, topology, tuple(helpers))
    return run_check(
        function, make_cases(function, "all_reduce", world_sizes, lengths, dtypes, layouts, seed), specification, _judge
    )


def check_reduce_scatter(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    messages: Callable[[int], int | Sequence[int]],
    rounds: Callable[[int], int],
    carries: str = "chunk",
    topology: str = "ring",
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
    helpers: Sequence[str] = (),
) -> Report:
    """Check `function(comm, tensor)`: afterwards chunk r of rank r's tensor holds the sum; the other chunks are free.

    Arguments, result and exceptions as in `check_all_reduce`.
    """
    specification = Specification(messages, rounds, carries, topology, tuple(helpers))
    return run_check(
        function,
        make_cases(function, "reduce_scatter", world_sizes, lengths, dtypes, layouts, seed),
        specification,
        _judge,
    )


def check_all_gather(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    messages: Callable[[int], int | Sequence[int]],
    rounds: Callable[[int], int],
    carries: str = "chunk",
    topology: str = "ring",
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    seed: int = 1,
    helpers: Sequence[str] = (),
) -> Report:
    """Check `function(comm, tensor)`: rank r starts with only chunk r right; afterwards every rank has every chunk.

    Arguments, result and exceptions as in `check_all_reduce`.
    """
    specification = Specification(messages, rounds, carries, topology, tuple(helpers))
    return run_check(
        function, make_cases(function, "all_gather", world_sizes, lengths, dtypes, layouts, seed), specification, _judge
    )


def make_cases(
    function: Callable[..., object],
    collective: str,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    dtypes: Sequence[torch.dtype],
    layouts: Sequence[str],
    seed: int,
    roots: Sequence[int | None] = (None,),
) -> list[Case]:
    """Every combination as a case, in the order given. A root that a world does not have is left out."""
    for layout in layouts:
        expect_one_of("layouts", layout, tuple(LAYOUTS))
    name = name_of(function, ("comm", "tensor") if roots == (None,) else ("comm", "tensor", "root=0"))
    combinations = itertools.product(world_sizes, lengths, dtypes, layouts, roots)
    cases = [
        Case(name, collective, size, length, dtype, layout, seed, root)
        for size, length, dtype, layout, root in combinations
    ]
    return [case for case in cases if case.root is None or case.root < case.world_size]


def run_check(
    function: Callable[..., object],
    cases: Sequence[Case],
    specification: SpecificationType,
    judge: Callable[[Case, Observation, SpecificationType], Remark | None],
) -> Report:
    """Run the cases until one fails. `judge` looks at a run that came to its end."""
    report = Report(cases[0].function)
    printed, spent = "", 0.0
    for case in cases:
        with supplied(function, specification.helpers):
            complete = partial(function, columns=case.columns) if case.columns else function
            observation = observe(complete, case, max(0.1, min(CASE_SECONDS, CHECK_SECONDS - spent)))
        spent += observation.trace.elapsed
        error = observation.error
        remark = explain_error(case, error) if error else judge(case, observation, specification)
        if observation.printed and (remark or not printed):  # of the first case that prints, and of the one that fails
            printed = observation.printed
            show_printed(printed, case.title)
        if remark is not None:
            raise CheckFailed(case.title, remark, report.summary())
        report.add(case, observation.trace)
    return report


def _judge(case: Case, observation: Observation, specification: Specification) -> Remark | None:
    in_chunks = specification.carries == "chunk"
    seen = Seen(case, observation.outcomes, len(observation.trace), in_chunks)
    return explain_values(seen) or explain_traffic(case, observation.trace, specification)


def show_printed(text: str, title: str) -> None:
    """Show what the student's function printed, on stdout: on stderr it would cost the cell's marks."""
    shown, more = text[:_PRINTED_SHOWN].rstrip(), len(text) - _PRINTED_SHOWN
    print(f"Printed by {title}:\n{shown}" + (f"\n… and {count(more, 'character')} more" if more > 0 else ""))


def name_of(function: Callable[..., object], arguments: Sequence[str]) -> str:
    """The function's name, once it is certain that it can be called with these arguments.

    Args:
        arguments: as a student reads them: "comm", "tensor", and "root=0" for one that is handed over by its name.

    Raises:
        CheckFailed: it can't be called that way.
    """
    shown = f"({', '.join(arguments)})"
    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function):
        raise CheckFailed(name, Remark(f"expected a function of {shown}, got {function!r}."))
    by_name = {argument.partition("=")[0]: None for argument in arguments if "=" in argument}
    try:
        inspect.signature(function).bind(*[None] * (len(arguments) - len(by_name)), **by_name)
    except TypeError as error:
        told = Remark(f"it can't be called with {shown}: {error}.", cause="keep the first line of the function.")
        raise CheckFailed(name, told) from None
    except ValueError:  # a builtin without a signature: the run will tell
        pass
    return name
