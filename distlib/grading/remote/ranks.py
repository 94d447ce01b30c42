"""The judge's hold on the rank processes of one submission: start, load, ask, end.

A rank process is started when it is first needed, and runs the student's cells up to the test cell that needs it, as a
notebook would. If a cell ends the process, or does not come to an end, a new process runs the cells without that one. A
process that is left in the middle of a call is ended; the next call gets a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.grading.helpers import helper_named
from distlib.grading.patience import patience
from distlib.grading.remote.nursery import CanNotGrade, Room
from distlib.grading.remote.wire import Wire, WireClosed, WireError, WireTimeout

MOST_LOST_CELLS = 3


@dataclass(frozen=True)
class Cell:
    """A code cell that runs on the ranks.

    Attributes:
        number: counting all code cells of the notebook from 1, as a student sees them.
        source: plain Python, without magics.
    """

    number: int
    source: str


class OutOfTime(Exception):
    """The time for the whole submission is over."""


class RemoteRanks:
    """The rank processes of one submission. Use as a context manager: at its end they are gone.

    Args:
        cells: what every rank runs; see `advance`.
        names: the functions that may be called.
        room: it forks the processes. Its limits hold for all together.
        secret: a text that the student does not know, such as the hidden tests: the inputs of all cases depend on it,
            so that a rank can't work out what the others start with.

    Attributes:
        functions: by name, the parameters of the named functions that exist (name, kind, has a default), or None for a
            name that can't be called.
        cell_errors: by cell number, what each cell raised: "kind", "text", "site", "stack".
        remarks: what an instructor should know.
        printed: what the ranks have printed since this was last emptied.
    """

    def __init__(self, cells: Sequence[Cell], names: Sequence[str], room: Room, secret: str) -> None:
        self.functions: dict[str, Any] = {}
        self.cell_errors: dict[int, dict[str, Any]] = {}
        self.remarks: list[str] = []
        self.printed: list[str] = []
        self.limits = room.limits
        self.secret = secret
        self._cells, self._names = list(cells), list(names)
        self._room = room
        self._wires: dict[int, Wire] = {}
        self._processes: dict[int, int] = {}  # as the room numbers them
        self._done: dict[int, int] = {}  # each has run the cells before this one
        self._due = 0
        self._ends = time.monotonic() + patience() * self.limits.submission_seconds
        self._characters = 0

    def __enter__(self) -> RemoteRanks:
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._wires):
            self.end(number)

    def seconds_left(self) -> float:
        """Of the time for the submission."""
        return self._ends - time.monotonic()

    def seconds_for_a_check(self) -> float:
        """How long a check, or running the cells, may take now."""
        return max(0.1, min(patience() * self.limits.check_seconds, self.seconds_left()))

    def wire(self, number: int) -> Wire:
        """The wire of rank `number`, whose process has run the cells that are due."""
        while self._done.get(number, -1) < self._due:
            self._catch_up(number)
        return self._wires[number]

    def advance(self, number: int) -> None:
        """From now on the cells before cell `number` are due."""
        self._due = number

    def prepare(self, scenarios: str) -> None:
        """Have a file of scenarios imported once for all ranks, not by each. Ranks that run are replaced."""
        if self._room.prepare(scenarios):
            for number in list(self._wires):
                self.end(number)

    def end(self, number: int) -> None:
        """End the process of a rank. The next call to `wire` starts a new one."""
        if number in self._wires:
            self._wires.pop(number).close()
            self._room.end(self._processes.pop(number))
            del self._done[number]

    def ask(self, number: int, request: Mapping[str, Any], deadline: float, helpers: Sequence[str] = ()) -> Any:
        """Let a rank do a job that takes no messages, and return what it tells. It may call `helpers` of ours.

        Raises:
            WireClosed, WireTimeout, WireError: the process has ended, or does not answer. It is gone then.
        """
        wire = self.wire(number)
        try:
            wire.send(dict(request), deadline)
            return self._told(wire, deadline, lambda cell: None, helpers)
        except (WireClosed, WireTimeout, WireError):
            self.end(number)
            raise

    def interrupt(self, number: int) -> None:
        """Ask a rank that is computing to say where it is."""
        self._room.interrupt(self._processes[number])

    def how_it_ended(self, number: int) -> str:
        """How the process of a rank ended that has closed its wire."""
        return self._room.how_it_ended(self._processes[number])

    def note_print(self, text: object) -> bool:
        """Keep what a rank has printed. False if it was too much."""
        self.printed.append(str(text))
        self._characters += len(str(text))
        return self._characters <= self.limits.output_bytes

    # ── starting ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _catch_up(self, number: int) -> None:
        """Let a rank run the cells that are due; if one of them ends its process, forget that cell."""
        if self.seconds_left() <= 0:
            raise OutOfTime
        if number not in self._wires:
            self._wires[number], self._processes[number] = self._room.fork(number)
            self._done[number] = 0
        current: list[int] = []
        try:
            self._load(number, current.append)
        except (WireClosed, WireTimeout, WireError) as error:
            self.end(number)
            if self.seconds_left() <= 0:
                raise OutOfTime from None
            self._lose_cell(current[-1] if current else 0, error)

    def _load(self, number: int, begins: Callable[[int], None]) -> None:
        deadline = time.monotonic() + self.seconds_for_a_check()
        due = [(cell.number, cell.source) for cell in self._cells if self._done[number] <= cell.number < self._due]
        self._wires[number].send({"job": "load", "cells": due, "names": self._names}, deadline)
        told = self._told(self._wires[number], deadline, begins)
        if told["what"] != "done":
            raise WireError(f"the cells were not run: {told.get('text')}")
        value = told["value"]
        self._done[number] = self._due
        self.functions = dict(value["functions"])
        self.cell_errors = {**self.cell_errors, **{int(cell): error for cell, error in value["errors"].items()}}

    def _told(
        self, wire: Wire, deadline: float, begins: Callable[[int], None], helpers: Sequence[str] = ()
    ) -> dict[str, Any]:
        """What a job tells at its end; meanwhile, what it prints and which cells it begins."""
        while True:
            told = wire.receive(deadline)
            what = told.get("what") if isinstance(told, dict) else None
            if what in ("done", "raised"):
                return told
            if what == "cell":
                begins(int(told["number"]))
            elif what == "helper" and told.get("name") in helpers:
                wire.send(_help(told), deadline)
            elif what == "print" and self.note_print(told.get("text")):
                continue
            else:
                raise WireError(f"unexpected here: {what!r}")

    def _lose_cell(self, number: int, error: Exception) -> None:
        """Go on without a cell that has ended its process, or has not come to an end."""
        how = "did not come to an end" if isinstance(error, WireTimeout) else "ended its process"
        lost = [cell for cell in self._cells if cell.number == number]
        if not lost or len(self.cell_errors) > MOST_LOST_CELLS + len(self._cells):
            raise CanNotGrade(f"no rank could be started: {str(error) or how}")
        self.remarks.append(f"cell {number} {how}; the rest was graded without it")
        self.cell_errors[number] = {"kind": "Lost", "text": f"this cell {how}", "site": None, "stack": ""}
        self._cells.remove(lost[0])


def _help(told: dict[str, Any]) -> dict[str, Any]:
    """The answer to a rank that calls a helper of ours with plain values."""
    try:
        return {"value": helper_named(told["name"])(*told["args"])}
    except Exception as error:
        return {"error": "ValueError", "text": f"{type(error).__name__}: {error}"}
