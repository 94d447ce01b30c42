"""A graded function as one declaration: its cases, and what must be true after each. The engine behind every check.

    @task("comm", "batch")                                # how the function is called
    def check_split_batch(draw, *, world_sizes):          # 1. its cases, smallest first (one rank alone: see below)
        for ranks in world_sizes:
            yield Case(f"on {count(ranks, 'rank')}", split, [{"batch": draw.whole((6, 2))} for _ in range(ranks)])

    @check_split_batch.judge                              # 2. what must be true; a student reads the first remark
    def _(seen):
        yield holds("on rank 0 the part", seen[0]["part"], right, {"usual mistake, in words": what it gives})
        yield from sends(seen, …)

A test cell calls it: `check_split_batch(split_batch, world_sizes=(1, 2, 3))`. What happens then, for each case:

    case ──► venue ──► what was seen ──► remarks ──► the first one: CheckFailed     none: on to the next case ──► Report

A student reads about one case, so the order matters. Cases are played as they are declared, but those with one rank
last: what is wrong among several ranks is told before "with one rank there is nobody to talk to". See `in_turn`.

Cases are played on simulated ranks, which is quick and always goes in the same order. But these share a process, so a
function could pass values on without a message, through a class or a module that all of them see. Therefore the first
case of each world size up to `SAMPLED_RANKS` is also played on real ranks, which share no memory. Real ranks have the
last word: what goes wrong on simulated ones is played again on real ones, and theirs are the remark and the prints that
a student sees. Either may know the usual cause. Only times mean nothing there: `judge_times` looks at simulated ranks
alone. More than `MOST_REAL_RANKS` ranks are always simulated.

What a check can't see, because it runs in the student's own process: code that is written to deceive it, such as one
that patches this module or keeps a second way for data besides the messages. Test cells therefore import the checks
afresh and assert on the figures of the `Report`; `distlib grade` does more: it plays all cases in a sandbox.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs, explain_error
from distlib.checks.formatting import count
from distlib.checks.patience import seconds_for
from distlib.checks.remark import CheckFailed, Remark
from distlib.checks.report import Report, Row
from distlib.checks.seen import Seen
from distlib.checks.senders import explain_foreign, explain_library, runs_torch
from distlib.checks.sentences import Sentences
from distlib.checks.side_effects import explain_changed, explain_kept
from distlib.checks.supplied import Helper, checked_helpers
from distlib.checks.venues import FunctionElsewhere, Real, Simulated, Venue, pack, real_ranks_allowed
from distlib.worlds.diagnosis import PeerLost, RunTimeout, TooMuchOutput

say = Sentences(__file__)
SAMPLED_RANKS = 4
WITH_RANKS = {"comm", "mesh", "fabric", "accelerator"}  # arguments of a function that ranks call
MOST_REAL_RANKS = 20
CASE_SECONDS = 5.0  # a case takes milliseconds; one that takes this long does not end
SIMULATED_SECONDS = 2.0  # the same where real ranks have the last word
CHECK_SECONDS = 20.0  # all cases of one check together
CUT = "is left out here"  # part of what a judge puts in the place of prints that it has cut
ENOUGH_BYTES = 64  # of messages, so that they are not all zeros by chance
_PRINTED_SHOWN = 2_000  # characters

Remarks = Iterator[Remark | None]
Judge = Callable[[Seen], Remarks]


class Draw(random.Random):
    """Random numbers for the inputs of a check."""

    def whole(self, shape: Sequence[int], dtype: torch.dtype = torch.float32, most: int = 9) -> torch.Tensor:
        """Whole numbers from -most to most without 0, so that sums are exact; a tensor of this shape."""
        numbers = [self.choice((-1, 1)) * self.randint(1, most) for _ in range(torch.Size(shape).numel())]
        return torch.tensor(numbers, dtype=dtype).reshape(tuple(shape))

    def normal(self, shape: Sequence[int]) -> torch.Tensor:
        """Normally distributed float64 numbers, for models that compute."""
        numbers = [self.gauss() for _ in range(torch.Size(shape).numel())]
        return torch.tensor(numbers, dtype=torch.float64).reshape(tuple(shape))

    def sizes(self, number: int, but: Collection[int] = (), most: int = 9) -> tuple[int, ...]:
        """Different sizes of one case, from 2 to `most`, none of them in `but`: so none is taken for another one."""
        return tuple(self.sample([size for size in range(2, most + 1) if size not in but], number))

    def rate(self, least: float = 0.1, most: float = 0.9) -> float:
        """A learning rate, to four digits after the point."""
        return round(self.uniform(least, most), 4)


def task(
    *arguments: str,
    helpers: Sequence[Helper[..., Any]] = (),
    errors: Signs | Callable[[Seen], Signs] = (),
    allowed: Sequence[str] = (),
    untouched: Sequence[str] = (),
    row: Callable[[Seen], Row] | None = None,
    seconds: float = CASE_SECONDS,
) -> Callable[[Callable[..., Iterator[Case]]], Task]:
    """Make a generator of cases a `Task`. Decorates `def check_<function>(draw, *, …)`.

    Args:
        arguments: of the student's function as a student reads them: "comm", "tensor", and "root=0" for one that is
            handed over by its name.
        helpers: functions of ours, to which their names in the student's notebook lead while the check runs.
        errors: pairs, words of an error and their usual cause in this exercise; or a function that knows them for a
            case. The first pair whose words occur in the error counts.
        allowed: modules and functions of the library that a function on one rank may call.
        untouched: inputs that the play hands on as they are, and that must not change: "batches". What a function that
            only computes is given (`plays.calls`) never may, and need not be named.
        row: makes a passed case a row of the report's table, such as `tensor_cases.row`; without it the report lists
            titles.
        seconds: that a case may take on a free machine.

    Raises:
        TypeError: `errors` is one pair, and not a list of pairs; or a helper is not declared as one.
    """
    if not callable(errors) and any(isinstance(pair, str) for pair in errors):
        raise TypeError(f"errors: expected a list of pairs (words of an error, usual cause), got {errors!r}")
    ours = checked_helpers(helpers)
    return lambda cases: Task(cases, arguments, ours, errors, tuple(allowed), tuple(untouched), row, seconds)


class Task:
    """One graded function. Made by `task`; called by a test cell.

    Attributes:
        cases: the generator of cases.
        helpers: functions that the check supplies.
        seconds: that one of them may take on a free machine.
    """

    def __init__(
        self,
        cases: Callable[..., Iterator[Case]],
        arguments: Sequence[str],
        helpers: Sequence[Helper[..., Any]],
        errors: Signs | Callable[[Seen], Signs],
        allowed: Sequence[str],
        untouched: Sequence[str],
        row: Callable[[Seen], Row] | None,
        seconds: float = CASE_SECONDS,
    ) -> None:
        self.__name__, self.__doc__ = cases.__name__, cases.__doc__
        self.cases, self._arguments, self._row = cases, arguments, row
        self.helpers, self._errors, self._allowed, self._untouched = helpers, errors, allowed, untouched
        self.seconds = seconds
        self._judge: Judge = _no_judge
        self._judge_times: Judge = lambda seen: iter(())

    def judge(self, function: Judge) -> Judge:
        """Decorator: a generator of remarks about a run that came to its end. The first that is not None counts."""
        self._judge = function
        return function

    def judge_times(self, function: Judge) -> Judge:
        """Decorator: a second generator, about what is true in virtual time only: moments of messages and gates."""
        self._judge_times = function
        return function

    def __call__(self, function: Callable[..., object], *, seed: int = 1, **options: Any) -> Report:
        """Check a student's function.

        Args:
            function: it, or a class.
            seed: of the inputs.
            options: of the generator of cases.

        Returns:
            The cases and what was seen of them, if all have passed.

        Raises:
            CheckFailed: what is wrong in the first case that fails. No other exception of the function gets through.
            ValueError, TypeError: the test cell asks for something that does not exist, or the check is not complete.
        """
        if self._judge is _no_judge:
            raise TypeError(f"{self.__name__} has no @{self.__name__}.judge, and would let every answer pass")
        name = checked_name(function, self._arguments)
        judged: FunctionElsewhere | None = getattr(function, "_venue", None)
        if judged is None and (old := explain_old_version(name)):
            raise CheckFailed(name, old)
        seed = judged.seed(seed) if judged else seed
        cases = [replace(case, function=name) for case in self.cases(Draw(seed), **options)]
        if not cases:
            raise ValueError(f"{self.__name__} has no case for {options}")
        return _TaskCall(self, name).of(function, judged, cases)

    def remark(self, seen: Seen) -> Remark | None:
        """The first remark about a run, times left out."""
        if seen.error is not None:
            signs = self._errors(seen) if callable(self._errors) else self._errors
            has_ranks = runs_torch(seen.case) or not WITH_RANKS.isdisjoint(self._arguments)
            remark = explain_error(seen.error, signs, has_ranks=has_ranks)
            return replace(remark, details=(*remark.details, *seen.case.shows))
        library = next((played.library for played in seen.played if played.library), None)
        if library:
            return explain_library(seen.case.function, library)
        foreign = explain_foreign(seen.case, seen.trace, self.helpers)
        return (
            foreign
            or explain_slips(seen)
            or first(self._judge(seen))
            or explain_changed(seen, self._arguments, self._untouched)
        )

    def remark_on_times(self, seen: Seen) -> Remark | None:
        """The first remark about moments."""
        return first(self._judge_times(seen)) if seen.in_virtual_time else None

    def venues(self, function: Callable[..., object], title: str) -> tuple[Venue, Venue]:
        """Simulated and real ranks for a function of this notebook.

        Raises:
            CheckFailed: it can't travel to them. `title`: of the first case.
        """
        try:
            packed = pack(function, self.helpers)
        except TypeError as error:
            raise CheckFailed(title, explain_error(error)) from None
        return Simulated(packed, self.helpers, self._allowed), Real(packed, self.helpers, self._allowed)

    def report(self, name: str) -> Report:
        """A report without a case, in which those that are played are noted."""
        return Report(name, self._row)


class _TaskCall:
    """One call of a task: plays cases with one function, and chooses the venues."""

    def __init__(self, task: Task, name: str) -> None:
        self._task, self._name = task, name
        self._spent = 0.0
        self._has_shown_prints = False
        self._earlier: list[Case] = []

    def of(self, function: Callable[..., object], judged: FunctionElsewhere | None, cases: Sequence[Case]) -> Report:
        self._is_judged = judged is not None
        self._sampled = set() if judged else _sample(cases)
        self._real: Venue | None = None
        if judged:
            judged.prepare(cases, self._task.helpers)
            self._first: Venue = judged
        else:
            self._first, self._real = self._task.venues(function, cases[0].full_title)
        passed: dict[int, Seen] = {}
        for number in in_turn(cases):
            seen, remark = self._examine(cases[number])
            remark = remark or self._task.remark_on_times(seen)
            if remark is not None:
                raise CheckFailed(cases[number].full_title, remark, self._report(passed).summary())
            passed[number] = seen
        report = self._report(passed)
        if judged:
            self._play_without_contents(judged, report)
        return report

    def _report(self, passed: Mapping[int, Seen]) -> Report:
        """The cases that have passed, as they are declared."""
        report = self._task.report(self._name)
        for number in sorted(passed):
            report.add(passed[number])
        return report

    def _play_without_contents(self, judged: FunctionElsewhere, report: Report) -> None:
        """Play a case once more, in which all messages arrive with zeros in them. The result must be wrong then."""
        case = next((seen.case for seen in report if sum(seen.trace.bytes_sent) >= ENOUGH_BYTES), None)
        if case is None:
            return
        seen = judged.play(case, seconds_for(self._task.seconds, CHECK_SECONDS, self._spent), is_empty=True)
        if self._task.remark(seen) is None:
            raise CheckFailed(case.full_title, say.remark("another_way"), report.summary())

    def _examine(self, case: Case) -> tuple[Seen, Remark | None]:
        """What the case has shown, in virtual time if nothing is wrong there, and the remark about it."""
        limit = SIMULATED_SECONDS if self._may_be_real(case) else self._task.seconds
        seen, remark = self._look(self._first, case, limit)
        lives_on = remark is not None and self._is_right_alone(case, seen, limit)
        is_doubtful = remark is not None or (seen.printed and not self._has_shown_prints)
        if self._may_be_real(case) and (is_doubtful or id(case) in self._sampled):
            real, final = self._look_at_real_ranks(case, lives_on)
            self._show(real, case, final)
            seen, remark = (seen if remark is None and final is None else real), _with_cause(final, remark)
        else:
            self._show(seen, case, remark)
        self._earlier.append(case)
        return seen, explain_kept(remark) if remark and lives_on else remark

    def _is_right_alone(self, case: Case, seen: Seen, limit: float) -> bool:
        """Whether a case that has failed passes if the function is new: then it has kept something that it must not."""
        if isinstance(seen.error, RunTimeout | PeerLost | TooMuchOutput) or not (self._earlier or self._is_judged):
            return False
        return self._look(self._first, case, limit, is_fresh=True)[1] is None

    def _look_at_real_ranks(self, case: Case, lives_on: bool) -> tuple[Seen, Remark | None]:
        """What real ranks show. `lives_on`: in these processes they first play what came before on as many ranks."""
        assert self._real is not None
        earlier = [each for each in self._earlier if each.world_size == case.world_size] if lives_on else []
        for number, each in enumerate(earlier):
            self._look(self._real, each, self._task.seconds, is_fresh=number == 0)
        return self._look(self._real, case, self._task.seconds, is_fresh=not earlier)

    def _may_be_real(self, case: Case) -> bool:
        if self._real is None or case.deaths or not real_ranks_allowed():
            return False
        return 1 < case.world_size <= MOST_REAL_RANKS

    def _look(self, venue: Venue, case: Case, limit: float, is_fresh: bool = False) -> tuple[Seen, Remark | None]:
        seen = venue.play(case, seconds_for(limit, CHECK_SECONDS, self._spent), is_fresh)
        self._spent += seen.seconds
        return seen, self._task.remark(seen)

    def _show(self, seen: Seen, case: Case, remark: Remark | None) -> None:
        """Show what was printed: of the first case that prints, and of one that fails."""
        if seen.printed and (remark or not self._has_shown_prints):
            self._has_shown_prints = True
            show_printed(seen.printed, case.full_title)


def in_turn(cases: Sequence[Case]) -> list[int]:
    """The numbers of the cases in the order in which they are played: as declared, those with one rank last.

    Most mistakes show with one rank, too, and there each looks the same: rank 0 talks to itself.
    """
    return sorted(range(len(cases)), key=lambda number: cases[number].world_size == 1)


def _no_judge(seen: Seen) -> Remarks:
    return iter(())


def first(remarks: Remarks) -> Remark | None:
    """The first remark of a judge.

    Raises:
        TypeError: it is no generator of remarks.
    """
    if not isinstance(remarks, Iterator):
        raise TypeError(f"a judge yields its remarks: `yield holds(…)`. This one returns {type(remarks).__name__}")
    for remark in remarks:
        if isinstance(remark, Iterator):
            raise TypeError("a rule with several remarks, such as sends, needs `yield from` in a judge")
        if remark is not None and not isinstance(remark, Remark):
            raise TypeError(f"a judge yields a Remark or None, got {type(remark).__name__}")
        if remark is not None:
            return remark
    return None


def _with_cause(real: Remark | None, simulated: Remark | None) -> Remark | None:
    """What to say of a case that was played on real ranks: what they showed, unless only simulated ranks know a cause.

    A call that nobody waits for leaves other values on real ranks every time; on simulated ones always the same.
    """
    return simulated if real and simulated and simulated.cause and not real.cause else real


def _sample(cases: Sequence[Case]) -> set[int]:
    """The first case of each small world size, by its id: cases hold tensors, which can't be compared."""
    may = [case for case in cases if case.world_size <= SAMPLED_RANKS and not case.deaths]
    return {next(id(case) for case in may if case.world_size == size) for size in {case.world_size for case in may}}


_SLIPS = {
    "never waited": "never_waited",
    "changed early": "changed_early",
    "sent early": "sent_early",
    "one buffer for two": "one_buffer_for_two",
}


def explain_slips(seen: Seen) -> Remark | None:
    """The remark about handles that were not used as they must be: whatever else is wrong may follow from it."""
    for rank, played in enumerate(seen.played):
        for slip, call, place in played.slips:
            if call == "all_reduce":  # a class may wait for it in another method
                return say.remark("all_reduce_never_waited", rank=rank, place=place)
            return say.remark(_SLIPS[slip], rank=rank, call=call, place=place)
    return None


def show_printed(text: str, title: str) -> None:
    """Show what the student's function printed, on stdout: on stderr it would cost the cell's marks."""
    shown, more = text[:_PRINTED_SHOWN].rstrip(), len(text) - _PRINTED_SHOWN
    least = "at least " if CUT in text else ""
    print(f"Printed by {title}:\n{shown}" + (f"\n… and {least}{count(more, 'character')} more" if more > 0 else ""))


def explain_old_version(name: str) -> Remark | None:
    """The remark about a function whose cell was last run with a syntax error: a notebook keeps its earlier version."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cells = shell.user_ns.get("In", ()) if shell else ()
    defines = re.compile(rf"(?m)^(def|class) {name}\b")
    try:
        ast.parse(next((cell for cell in reversed(cells) if defines.search(cell)), ""))
    except SyntaxError as error:
        return say.remark("old_version", error=error.msg, line=error.lineno)
    return None


def checked_name(function: Callable[..., object], arguments: Sequence[str]) -> str:
    """The function's name, once it is certain that it can be called with these arguments.

    Args:
        arguments: as of `task`.

    Raises:
        CheckFailed: it can't be called that way.
    """
    shown = f"({', '.join(arguments)})"
    name = getattr(function, "__name__", type(function).__name__)
    if not getattr(function, "defined", True):
        raise CheckFailed(name, function.why_absent())  # type: ignore[attr-defined]
    if not callable(function):
        raise CheckFailed(name, say.remark("no_function", arguments=shown, found=repr(function)))
    by_name = {argument.partition("=")[0]: None for argument in arguments if "=" in argument}
    try:
        inspect.signature(function).bind(*[None] * (len(arguments) - len(by_name)), **by_name)
    except TypeError as error:
        raise CheckFailed(name, say.remark("other_arguments", arguments=shown, error=error)) from None
    except ValueError:  # a builtin without a signature: the run will show
        pass
    return name
