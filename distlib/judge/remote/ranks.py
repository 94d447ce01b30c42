"""The judge's hold on the rank processes of one submission: start, run the cells, ask, end.

A rank process is started when it is first needed, and runs the student's cells up to the test cell that needs it, as a
notebook would. Rank 0 does so alone and first. If a statement ends the process, or does not come to an end, it is left
out, and a new process runs the cells without it. All other ranks then run the rest at the same time. A process that is
left in the middle of a call is ended; the next call gets a new one.

Ranks can't be forked from one that has run the cells: what cells share with their forks, such as mapped memory, would
be a way around the wires.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from inspect import _ParameterKind as ParameterKind
from typing import Any

from distlib.checks.patience import fair_seconds, patience, without_own
from distlib.judge.remote.forkserver import CanNotGrade, SubmissionForkServer, too_much_memory
from distlib.judge.remote.question import Question, text
from distlib.judge.remote.student_cells import START, Part, Printed, RankCell, Statement, StudentCells
from distlib.judge.remote.wire import Wire, WireClosed, WireError, WireTimeout
from distlib.judge.sandbox.limits import statement_seconds

_SLOW = 1.0  # seconds
_LONGEST_ERROR = 2_000
_MEMORY = "took too much memory"
_MOST_PARAMETERS = 100
_GRACE = 2.0  # seconds for a rank to stop a statement itself, before it is ended
_START_SECONDS = 20.0  # for a process to start, and to run cells that took rank 0 no time


class OutOfTime(Exception):
    """The time for the whole submission is over."""


class RemoteRanks:
    """The rank processes of one submission. Use as a context manager: at its end they are gone.

    Args:
        cells: what every rank runs; see `advance`.
        names: the functions that may be called.
        server: it forks the processes. Its limits hold for all together.
        secret: a text that the student does not know: the inputs of all cases depend on it, so that a rank can't work
            out what the others start with.

    Attributes:
        functions: by name, the parameters of the named functions that exist (name, kind, has a default), or None for a
            name that can't be called.
        cells: what the cells have shown.
        remarks: what an instructor should know about the checks.
        printed: what the ranks have printed in the checks since this was last taken.
    """

    def __init__(
        self, cells: Sequence[RankCell], names: Sequence[str], server: SubmissionForkServer, secret: str
    ) -> None:
        self.functions: dict[str, Any] = {}
        self.limits = server.limits
        self.cells = StudentCells(cells, self.limits.output_bytes)
        self.remarks: list[str] = []
        self.printed = Printed(self.limits.output_bytes)
        self.secret = secret
        self._names = list(names)
        self._server = server
        self._wires: dict[int, Wire] = {}
        self._processes: dict[int, int] = {}  # as the fork server numbers them
        self._done: dict[int, int] = {}  # each has run the cells before this one
        self._due = 0
        self._expected = 0
        self._known = START  # rank 0 has run what is before
        self._slowness = 0.0  # fair seconds that this took
        self._has_dropped = False
        self._spent_on_cells = 0.0  # fair seconds
        before = time.process_time()
        self._business = without_own(lambda: time.process_time() - before + server.processor_seconds())
        self._start = 0.0

    def __enter__(self) -> RemoteRanks:
        self._business.__enter__()
        self._start = fair_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self._business.__exit__(None, None, None)
        self._end_all()

    def seconds_left(self) -> float:
        """Of the time for all checks."""
        spent = fair_seconds() - self._start - self._spent_on_cells
        return patience() * (self.limits.submission_seconds - spent)

    def seconds_left_for_cells(self) -> float:
        """Of the time for all that the student's cells run on all ranks."""
        return patience() * (self.limits.reruns_seconds - self._spent_on_cells)

    def seconds_for_a_check(self) -> float:
        """How long a check may take now."""
        return max(0.1, min(patience() * self.limits.check_seconds, self.seconds_left()))

    def gather(self, world_size: int) -> None:
        """Have this many ranks run the cells that are due: rank 0 first, then all others at the same time.

        Raises:
            OutOfTime: the time for cells is over, or that for checks.
            CanNotGrade: the sandbox does not work.
        """
        self._run_due_cells([0])
        is_slow = self._slowness > _SLOW
        self._run_due_cells(range(1, max(world_size, self._expected if is_slow else 0)))

    def expect(self, world_size: int) -> None:
        """So many ranks will be needed. Where cells are slow, all these run them at the same time."""
        self._expected = world_size

    def advance(self, number: int) -> None:
        """From now on the cells before cell `number` are due."""
        self._due = number

    def prepare(self, plays: str) -> None:
        """Have a file of plays imported once for all ranks, not by each. Ranks that run are replaced."""
        if self._server.prepare(plays):
            self._end_all()

    def renew(self) -> None:
        """End the processes of all ranks, with all that the student's functions have kept, unless cells are slow."""
        if self._slowness <= _SLOW:
            self._end_all()

    def end(self, number: int) -> None:
        """End the process of a rank. The next call to `wire` starts a new one."""
        if number in self._wires:
            self._wires.pop(number).close()
            self._server.end(self._processes.pop(number))
            del self._done[number]

    def _end_all(self) -> None:
        for number in list(self._wires):
            self.end(number)

    def question(self, number: int, request: Mapping[str, Any], deadline: float) -> Question:
        """Ask a rank, whose process has run the cells that are due.

        Raises:
            WireClosed, WireTimeout, WireError.
        """
        if self._done.get(number, -1) < self._due:
            self.gather(number + 1)
        return self._question(number, request, deadline)

    def ask(self, number: int, request: Mapping[str, Any], deadline: float) -> Any:
        """Let a rank do a job that takes no messages, and return what it tells.

        Raises:
            WireClosed, WireTimeout, WireError: the process has ended, or does not answer. It is gone then.
        """
        try:
            return self._told(self.question(number, request, deadline), deadline)
        except (WireClosed, WireTimeout, WireError):
            self.end(number)
            raise

    def interrupt(self, number: int) -> None:
        """Ask a rank that is computing to say where it is."""
        self._server.interrupt(self._processes[number])

    def how_it_ended(self, number: int) -> str:
        """How the process of a rank ended that has closed its wire."""
        return self._server.how_it_ended(self._processes[number])

    def _question(self, number: int, request: Mapping[str, Any], deadline: float) -> Question:
        return Question(self._wires[number], request, deadline, self._drop)

    def _told(self, question: Question, deadline: float) -> dict[str, Any]:
        """What a job tells at its end; meanwhile, what it prints."""
        while (told := question.hear(deadline))["what"] not in ("done", "raised"):
            if told["what"] == "print":
                self.printed.note(told.get("text"))
            elif told["what"] != "at":
                raise WireError(f"unexpected here: {told['what'][:40]!r}")
        return told

    def _drop(self) -> None:
        """Note that a rank has told something that nobody has asked for."""
        if not self._has_dropped:
            self.remarks.append("a rank told what nobody had asked for; it was dropped, and all else was graded")
        self._has_dropped = True

    # ── running the cells ────────────────────────────────────────────────────────────────────────────────────────

    def _run_due_cells(self, numbers: Sequence[int]) -> None:
        while behind := [number for number in numbers if self._done.get(number, -1) < self._due]:
            self._catch_up(behind)

    def _catch_up(self, numbers: Sequence[int]) -> None:
        """Let ranks run the cells that are due. If a statement can't be run, it is left out from now on."""
        if self.seconds_left() <= 0 or self.seconds_left_for_cells() <= 0:
            raise OutOfTime
        start = fair_seconds()
        try:
            self._run_cells(numbers)
        finally:
            self._spent_on_cells += fair_seconds() - start

    def _run_cells(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number not in self._wires:
                self._wires[number], self._processes[number] = self._server.fork(number)
                self._done[number] = 0
        parts = {number: self.cells.parts(self._done[number], self._due) for number in numbers}
        runs = {number: _RunOfCells(self, number, len(numbers)) for number in numbers}
        try:
            for _ in range(max(map(len, parts.values()))):
                going = [(runs[number], left.pop(0)) for number, left in parts.items() if left]
                for run, part in going:
                    run.begin(part)
                for run, part in going:
                    run.follow(part)
        except _Lost as lost:
            how = self._how(lost)
            for number in numbers:
                self.end(number)
            self._leave_out(lost, how)
            return
        self._done.update(dict.fromkeys(numbers, self._due))
        self._known = max(self._known, (self._due, -2))

    def _how(self, lost: _Lost) -> str:
        """What the statement did at which a rank was lost."""
        if isinstance(lost.error, WireError):
            return "told the judge what makes no sense"
        if isinstance(lost.error, WireTimeout):
            return "did not come to an end"
        how = self._server.how_it_ended(self._processes[lost.run.number])
        return f"{_MEMORY} ({how})" if how == too_much_memory(self.limits) else "ended its process"

    def _leave_out(self, lost: _Lost, how: str) -> None:
        if lost.run.statement is not None:
            self.cells.leave_out(lost.run.statement, lost.run.line, how)
        elif lost.run.is_fresh and not lost.run.is_over() and not how.startswith(_MEMORY):
            raise CanNotGrade(f"no rank could be started: {lost.error}")
        # Else something that an earlier cell has started ended the process. The next one runs all cells again.


class _Lost(Exception):
    """A rank's process is lost while it runs cells."""

    def __init__(self, run: _RunOfCells, error: Exception) -> None:
        self.run, self.error = run, error


class _RunOfCells:
    """One rank's run of the cells that are due.

    What rank 0 runs for the first time, statement after statement, may take what is left of the time for that, see
    `statement_seconds`. What it has run before, the others do in about that time, each with its share of the cores.

    Args:
        ranks: all of them.
        number: this one.
        company: how many run cells at the same time.

    Attributes:
        number: this one.
        is_fresh: whether no line of the student's has run in its process before.
        statement, line: what it has reached; None before the first.
    """

    def __init__(self, ranks: RemoteRanks, number: int, company: int) -> None:
        self._ranks, self.number = ranks, number
        self.is_fresh = ranks._done[number] == 0
        self.statement: Statement | None = None
        self.line = 1
        self._since, self._fair = time.monotonic(), fair_seconds()
        self._last = self._since + ranks.seconds_left_for_cells()
        self._repeated = self._since + patience() * (_START_SECONDS + 3 * ranks._slowness * company)

    def begin(self, part: Part) -> None:
        """Have the rank run some cells."""
        known = self._ranks._known if self.number == 0 else None
        request = {"job": "load", "cells": part, "names": self._ranks._names, "known": known, "seconds": self._left()}
        try:
            self._question = self._ranks._question(self.number, request, self._deadline())
        except (WireClosed, WireTimeout, WireError) as error:
            raise _Lost(self, error) from None

    def follow(self, part: Part) -> None:
        """Note what it tells, until it has run them."""
        try:
            while (told := self._question.hear(self._deadline()))["what"] != "done":
                self._note(told, part)
            self._move_on()
            self._expect_the_end_of(part)
            if self.number == 0:
                self._ranks.functions = functions_told(told["value"], self._ranks._names)
        except (WireClosed, WireTimeout, WireError) as error:
            self._move_on()
            raise _Lost(self, error) from None
        except (LookupError, TypeError, ValueError) as error:
            raise _Lost(self, WireError(f"what came makes no sense: {error}")) from None

    def _expect_the_end_of(self, part: Part) -> None:
        last = max((number for number, _, left_out in part if -1 not in left_out), default=0)
        if last > 0 and (self.statement is None or self.statement[0] < last):
            raise ValueError(f"done before cell {last}")

    def is_over(self) -> bool:
        """Whether there is no time left for cells at all."""
        return time.monotonic() >= self._last

    def _note(self, told: dict[str, Any], part: Part) -> None:
        cells = self._ranks.cells
        if told["what"] == "statement":
            self._move_on()
            self.statement, self.line = cells.next_statement(told, self.statement, part)
        elif told["what"] == "raised":  # outside of the cells
            raise WireError(f"the cells were not run: {text(told['text'], _LONGEST_ERROR)}")
        elif not self._is_first_time():
            return
        elif told["what"] == "error":
            cells.note_error(self._cell(), told["kind"], told["text"])
        elif told["what"] == "stopped":
            cells.leave_out(self._at(), self.line, "did not come to an end")
        elif told["what"] == "print":
            cells.printed[self._cell()].note(told["text"])

    def _move_on(self) -> None:
        """Charge the time of a statement that rank 0 has run for the first time."""
        now, fair = time.monotonic(), fair_seconds()
        if self._is_first_time():
            self._ranks._slowness += fair - self._fair
            cell, number = self._at()
            self._ranks._known = (cell, number + 1)
        self._since, self._fair = now, fair

    def _deadline(self) -> float:
        if not self._is_first_time():
            return min(self._last, self._repeated)
        return min(self._last, self._since + statement_seconds(self._left()) + _GRACE)

    def _left(self) -> float:
        """Of the time to run all cells for the first time."""
        return patience() * (self._ranks.limits.cells_seconds - self._ranks._slowness)

    def _is_first_time(self) -> bool:
        return self.number == 0 and self.statement is not None and self.statement >= self._ranks._known

    def _at(self) -> Statement:
        assert self.statement is not None
        return self.statement

    def _cell(self) -> int:
        return self._at()[0]


def functions_told(value: Any, names: Sequence[str]) -> dict[str, list[tuple[str, str, bool]] | None]:
    """Of the functions with these names the parameters, as a rank tells them; None for what can't be called.

    Raises:
        LookupError, TypeError, ValueError: it makes no sense.
    """
    return {name: None if value[name] is None else _parameters_told(value[name]) for name in names if name in value}


def _parameters_told(value: Any) -> list[tuple[str, str, bool]]:
    if len(value) > _MOST_PARAMETERS:
        raise ValueError(f"expected at most {_MOST_PARAMETERS} parameters")
    return [
        (text(name, 100), ParameterKind[text(kind, 100)].name, bool(has_default)) for name, kind, has_default in value
    ]
