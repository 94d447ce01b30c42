"""The checks that a test cell calls: run the student's function on all ranks, compare, explain the first difference.

    cases, smallest first ──► run ──► error?  values?  messages?  ──► CheckFailed, or on to the next case ──► Report

A check stops at the first case that fails, and says of it what was expected, what was seen, where, and what usually
causes it. The cases and what is expected stand in the test cell; nothing here knows them.

Most cases run on simulated ranks, which is quick and always goes in the same order. But these share a process, so a
function could pass values on without a message, through a class or a module that all of them see. Therefore the first
case of each world size up to `SAMPLED_RANKS` runs on real ranks, which share no memory. And real ranks have the last
word: what goes wrong on simulated ones runs again on real ones, and theirs are the remark and the prints that a student
sees. If they find nothing wrong, the function keeps something where all simulated ranks see it and real ones don't;
then the cases that are left run on real ranks, too. Only more than `MOST_REAL_RANKS` ranks are always simulated.

What a check can't see, because it runs in the student's own process: code that is written to deceive it, such as one
that patches this module or keeps a second way for data besides the messages. Test cells therefore import the checks
afresh and assert on the figures of the `Report`; more than that, `distlib grade` will do.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from distlib.checks.patience import seconds_for
from distlib.checks.places import real_ranks_allowed
from distlib.checks.remark import CheckFailed, Remark
from distlib.checks.supplied import supplied
from distlib.grading.all_reduce_specification import AllReduceSpecification
from distlib.grading.case import LAYOUTS, Case, count
from distlib.grading.errors import explain_error
from distlib.grading.observe import Observation, observe, observe_simulated
from distlib.grading.report import Report
from distlib.grading.specification import expect_one_of
from distlib.judge.remote.stand_in import RemoteFunction
from distlib.judge.sandbox.limits import CUT
from distlib.worlds import pickling

CASE_SECONDS = 5.0  # a case takes milliseconds; one that takes this long does not end
SIMULATED_SECONDS = 1.0  # the same on simulated ranks, after which real ones have their turn
CHECK_SECONDS = 10.0  # all cases of one check together
SAMPLED_RANKS = 4
MOST_REAL_RANKS = 20
_PRINTED_SHOWN = 2_000  # characters


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
    specification: AllReduceSpecification,
    judge: Callable[[Case, Observation, AllReduceSpecification], Remark | None],
) -> Report:
    """Run the cases until one fails. `judge` looks at a run that came to its end."""
    if isinstance(function, RemoteFunction):
        cases = [replace(case, seed=function.seed(case.seed)) for case in cases]
        function.expect(max(case.world_size for case in cases))
    report = Report(cases[0].function)
    examination = _examination(function, cases, specification, lambda case, seen: judge(case, seen, specification))
    for case in cases:
        observation, remark = examination.of(case)
        if remark is not None:
            raise CheckFailed(case.title, remark, report.summary())
        report.add(case, observation.trace)
    return report


Look = tuple[Observation, Remark | None]  # what a run of a case has shown, and the remark about it


Run = Callable[[Case, float], Observation]  # runs a case, at most this many seconds


class _Examination:
    """Runs a function for cases."""

    def __init__(self, judge: Callable[[Case, Observation], Remark | None]) -> None:
        self._judge = judge
        self._spent = 0.0
        self._has_shown_prints = False

    def of(self, case: Case) -> Look:
        """What the case has shown, and the remark about it. Prints what its function printed, if that is to be seen."""
        observation, remark = self._choose_and_look(case)
        if observation.printed and (remark or not self._has_shown_prints):  # of the first that prints, and if it fails
            self._has_shown_prints = True
            show_printed(observation.printed, case.title)
        return observation, remark

    def _choose_and_look(self, case: Case) -> Look:
        raise NotImplementedError

    def _look(self, run: Run, case: Case, limit: float) -> Look:
        observation = run(case, seconds_for(limit, CHECK_SECONDS, self._spent))
        self._spent += observation.seconds
        error = observation.error
        return observation, explain_error(case, error) if error else self._judge(case, observation)


class _LocalExamination(_Examination):
    """Runs a function of this notebook, on simulated and on real ranks: the module's text says which on what."""

    def __init__(
        self, packed: bytes, sampled: Sequence[Case], judge: Callable[[Case, Observation], Remark | None]
    ) -> None:
        super().__init__(judge)
        self._sampled = sampled
        self._real, self._simulated = partial(observe, packed), partial(observe_simulated, packed)
        self._simulates = True  # until real ranks contradict the simulated ones

    def _choose_and_look(self, case: Case) -> Look:
        if case.world_size > MOST_REAL_RANKS or not real_ranks_allowed():
            return self._look(self._simulated, case, CASE_SECONDS)
        if case in self._sampled or not self._simulates:
            return self._look(self._real, case, CASE_SECONDS)
        simulated, doubt = self._look(self._simulated, case, SIMULATED_SECONDS)
        if not doubt and (self._has_shown_prints or not simulated.printed):
            return simulated, None
        real, remark = self._look(self._real, case, CASE_SECONDS)
        self._simulates = not doubt or remark is not None
        return real, remark


class _RemoteExamination(_Examination):
    """Runs a function that is on remote ranks, which are simulated and share no memory: one run has it all."""

    def __init__(
        self, function: RemoteFunction, helpers: Sequence[str], judge: Callable[[Case, Observation], Remark | None]
    ) -> None:
        super().__init__(judge)
        self._run = partial(function.observe, helpers=tuple(helpers))

    def _choose_and_look(self, case: Case) -> Look:
        return self._look(lambda case, seconds: self._run(case, timeout=seconds), case, CASE_SECONDS)


def _examination(
    function: Callable[..., object],
    cases: Sequence[Case],
    specification: AllReduceSpecification,
    judge: Callable[[Case, Observation], Remark | None],
) -> _Examination:
    if isinstance(function, RemoteFunction):
        return _RemoteExamination(function, specification.helpers, judge)
    return _LocalExamination(pack(function, cases[0].title, specification.helpers), _sample(cases), judge)


def _sample(cases: Sequence[Case]) -> list[Case]:
    """The first case of each small world size; if there is none, the first one of the smallest size."""
    sizes = {case.world_size for case in cases}
    small = {size for size in sizes if size <= SAMPLED_RANKS} or {min(sizes)}
    return [next(case for case in cases if case.world_size == size) for size in small]


def pack(function: Callable[..., object], title: str, helpers: Sequence[str]) -> bytes:
    """The function as it travels to the ranks, with `helpers` in the place of the student's own.

    Raises:
        CheckFailed: it can't travel. `title`: of the first case.
    """
    try:
        with supplied(function, helpers):
            return pickling.pack_call(function, (), {})
    except TypeError as error:
        raise CheckFailed(title, explain_error(None, error)) from None


def show_printed(text: str, title: str) -> None:
    """Show what the student's function printed, on stdout: on stderr it would cost the cell's marks."""
    shown, more = text[:_PRINTED_SHOWN].rstrip(), len(text) - _PRINTED_SHOWN
    least = "at least " if CUT in text else ""
    print(f"Printed by {title}:\n{shown}" + (f"\n… and {least}{count(more, 'character')} more" if more > 0 else ""))


def name_of(function: Callable[..., object], arguments: Sequence[str]) -> str:
    """The function's name, once it is certain that it can be called with these arguments.

    Args:
        arguments: as a student reads them: "comm", "tensor", and "root=0" for one that is handed over by its name.

    Raises:
        CheckFailed: it can't be called that way.
    """
    shown = f"({', '.join(arguments)})"
    name = getattr(function, "__name__", type(function).__name__)
    if isinstance(function, RemoteFunction) and not function.defined:
        told = Remark("there is no function of this name.", cause="its cell does not run, or defines another name.")
        raise CheckFailed(name, told)
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
