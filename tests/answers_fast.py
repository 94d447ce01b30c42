"""Every answer against the test cells of its function, on simulated ranks, within minutes: `make answers ARGS=--fast`.

    make answers ARGS="--fast"                                  all exercises
    make answers ARGS="--fast 05_ddp OverlappedDDP"             those of an exercise, of a function, of a name
    make answers ARGS="--fast -v shift/wrong_backwards"         with what their students read
    make answers ARGS="--fast --save before.json"               keep what every test cell says to every answer
    make answers ARGS="--fast --compare before.json"            what any of them says differently now

An answer's cells run in the order of the notebook: what is set up, the solutions of what comes before, the answer, the
test cells of its function. They run in a process of their own, forked from this one, which has imported everything: so
no answer can change what the next one meets, whatever it patches, and one that never ends is killed.

What only real ranks show is in `SLOW`; `make answers` without --fast judges these, too. The status is 0 if every answer
has the marks that it deserves, and every wrong one's student reads what its file says; with --compare, if nothing has
changed besides.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import linecache
import multiprocessing
import os
import random
import re
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

import distlib
from distlib.checks import CheckFailed
from distlib.checks.places import simulated_only
from tests.answer_files import ASSIGNMENTS, Answer, read_answers
from tests.answer_verdicts import KINDS, Verdict, table

ROOT = Path(__file__).parents[1]
SECONDS = 60  # for all test cells of one answer; most take a tenth of a second
# Answers that only real ranks can judge, and why.
SLOW: dict[str, str] = {}


@dataclass(frozen=True)
class Said:
    """What a test cell said to an answer.

    Attributes:
        error: the error as a notebook shows it; empty if the cell passed.
        printed: what it printed.
    """

    error: str
    printed: str = ""


@dataclass(frozen=True)
class Judged:
    """An answer, what each of its test cells said, and the seconds that took."""

    answer: Answer
    said: Mapping[str, Said]
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """Its marks and words, as in the table of `make answers`."""
        full = {kind: points(self.answer, kind) for kind in KINDS}
        errors = [" ".join(self.said[kind].error.split()) for kind in KINDS if self.said[kind].error]
        return Verdict(
            self.answer,
            {kind: 0 if kind in self.answer.loses else full[kind] for kind in KINDS},
            {kind: 0 if self.said[kind].error else full[kind] for kind in KINDS},
            {self.answer.told},
            errors[0] if errors else "",
        )


# ── one answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook that nbgrader knows: its name, its source, whether a student writes it, its points."""

    name: str
    source: str
    is_solution: bool
    points: float | None


@cache
def cells_of(assignment: str, folder: Path = ROOT) -> list[Cell]:
    """The named cells of an exercise's notebook in `folder`/solutions, in their order."""
    path = folder / "solutions" / assignment / f"{assignment}.ipynb"
    found = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        told = cell["metadata"].get("nbgrader")
        if told and cell["cell_type"] == "code":
            found.append(Cell(told["grade_id"], "".join(cell["source"]), told["solution"], told.get("points")))
    return found


def points(answer: Answer, kind: str) -> float:
    """What the answer's test cell of this kind gives."""
    (cell,) = [cell for cell in cells_of(answer.assignment) if cell.name == f"{answer.function}_{kind}"]
    assert cell.points is not None
    return cell.points


def judge(answer: Answer) -> dict[str, Said]:
    """What the test cells of its function say to an answer, by kind. Changes this process: call it in one of its own.

    The process becomes that of a notebook: cells are `__main__`, which is why functions travel to ranks by value.
    """
    notebook = sys.modules["__main__"] = types.ModuleType("__main__")
    torch.manual_seed(0)
    random.seed(0)
    said: dict[str, Said] = {}
    for cell in cells_of(answer.assignment):
        if cell.name == answer.function:
            run_cell(f"{answer.name}.py", answer.text, notebook)
        elif cell.name in (f"{answer.function}_{kind}" for kind in KINDS):
            said[cell.name.rpartition("_")[2]] = run_cell(f"{cell.name}.py", cell.source, notebook)
        elif cell.points is None:
            run_cell(f"{cell.name}.py", cell.source, notebook)
        if len(said) == len(KINDS):
            break
    return said


def run_cell(file: str, source: str, notebook: types.ModuleType) -> Said:
    """Run a cell in a notebook's process, as if it stood in a file of this name; a warning counts as an error."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    out, err = io.StringIO(), io.StringIO()
    error = ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), simulated_only():
        try:
            exec(compile(source, file, "exec"), notebook.__dict__)
        except Exception as problem:
            error = shown(problem, file)
    if not error and err.getvalue():
        error = f"on stderr: {err.getvalue()}"
    return Said(error, out.getvalue())


def shown(problem: Exception, file: str) -> str:
    """An error as a student reads it: a check's own words alone, any other with its kind and its line of the cell."""
    if isinstance(problem, CheckFailed):
        return f"CheckFailed: {problem}"
    lines, trace = [], problem.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            lines = [linecache.getline(file, trace.tb_lineno).strip()]
        trace = trace.tb_next
    return "\n".join([*lines, f"{type(problem).__name__}: {problem}"])


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────────


def judge_all(
    answers: Sequence[Answer], jobs: int, tell: Callable[[Judged], None] = lambda judged: None
) -> list[Judged]:
    """Judge every answer in a process of its own, `jobs` at a time; the list is in the order of `answers`."""
    todo, running, found = list(reversed(answers)), {}, {}
    while todo or running:
        while todo and len(running) < jobs:
            child = _Child(todo.pop())
            running[child.connection] = child
        ready = wait(list(running), timeout=0.5)
        late = [connection for connection, child in running.items() if child.is_late()]
        for connection in {*ready, *late}:
            judged = running.pop(connection).end()
            found[str(judged.answer), judged.answer.assignment] = judged
            tell(judged)
    return [found[str(answer), answer.assignment] for answer in answers]


class _Child:
    """A process that judges one answer, and the connection on which it reports."""

    def __init__(self, answer: Answer) -> None:
        context = multiprocessing.get_context("fork")
        self.answer = answer
        self.start = time.monotonic()
        self.connection, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_in_a_child, args=(answer, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def is_late(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() > self.start + SECONDS

    def end(self) -> Judged:
        """What it has reported; if nothing, how it ended."""
        try:
            problem = "" if self.connection.poll() else f"it did not end within {SECONDS} seconds"
            told = {} if problem else self.connection.recv()
        except EOFError:
            told, problem = {}, "its process ended in the middle"
        self.process.kill()
        self.process.join()
        self.connection.close()
        missing = (problem or "its test cell was not reached", "")
        said = {kind: Said(*told.get(kind, missing)) for kind in KINDS}
        return Judged(self.answer, said, time.monotonic() - self.start)


def _in_a_child(answer: Answer, connection: Connection) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):  # what goes round Python's streams
        os.dup2(nowhere, stream)
    torch.set_num_threads(1)
    distlib.World = _NoWorld  # type: ignore[misc, assignment]
    connection.send({kind: (said.error, said.printed) for kind, said in judge(answer).items()})


class _NoWorld:
    """What a set-up cell gets for the worlds that a student tries things in."""

    def __init__(self, *args: Any, **options: Any) -> None: ...


# ── what is kept and compared ────────────────────────────────────────────────────────────────────────────────────────


def as_text(found: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """What every test cell said, by "exercise/function/name"; memory addresses are left out, since they change."""
    return {
        f"{judged.answer.assignment}/{judged.answer}": {
            kind: {"error": _settled(judged.said[kind].error), "printed": _settled(judged.said[kind].printed)}
            for kind in KINDS
        }
        for judged in found
    }


def _settled(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x…", text)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """For every answer in both whose marks or words have changed: what each test cell said before, and says now."""
    lines = []
    for name in sorted(before.keys() & after.keys()):
        for kind in KINDS:
            old, new = before[name][kind], after[name][kind]
            if old != new:
                marks = "marks changed" if bool(old["error"]) != bool(new["error"]) else "words changed"
                lines += [f"{name}, {kind}: {marks}", *_beside("-", old, new), *_beside("+", new, old), ""]
    return lines


def _beside(mark: str, told: Mapping[str, str], other: Mapping[str, str]) -> Iterator[str]:
    for part in ("error", "printed"):
        if told[part] != other[part]:
            yield from (f"  {mark} {line}" for line in (told[part] or f"({part}: nothing)").splitlines())


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge answers and print the tables. Returns the exit status."""
    options = _options(arguments)
    chosen = select(options.names)
    if not chosen:
        print(f"no answer, function or exercise is called {' '.join(options.names)}", file=sys.stderr)
        return 1
    found = judge_all([answer for answer in chosen if not is_slow(answer)], options.jobs, _progress(len(chosen)))
    _print_tables(found, verbose=options.verbose)
    for answer in filter(is_slow, chosen):
        print(f"left to `make answers`: {answer.assignment} {answer}: {SLOW[str(answer)]}")
    status = 0 if all(judged.verdict.is_as_it_should_be for judged in found) else 1
    if options.save:
        options.save.write_text(json.dumps(as_text(found), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    if options.compare:
        changed = differences(json.loads(options.compare.read_text()), as_text(found))
        print("\n".join(changed or ["Nothing has changed."]))
        status = 1 if changed else status
    return status


def select(names: Sequence[str]) -> list[Answer]:
    """The answers of these exercises, and of them those of these functions or names; of all where none is named."""
    assignments = [name for name in names if name in ASSIGNMENTS]
    others = set(names) - set(assignments)
    answers = [answer for name in assignments or ASSIGNMENTS for answer in read_answers(name)]
    return [a for a in answers if not others or others & {a.function, a.name, str(a), f"{a.assignment}/{a}"}]


def is_slow(answer: Answer) -> bool:
    """Whether only real ranks can judge it."""
    return str(answer) in SLOW


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make answers", description="Judge every answer on simulated ranks.")
    parser.add_argument("names", nargs="*", help="exercises, functions, answers; without them: all")
    parser.add_argument("--fast", action="store_true", help="accepted, because `make answers` passes it on")
    parser.add_argument("-v", "--verbose", action="store_true", help="print everything that students read")
    parser.add_argument("--save", type=Path, help="write everything that students read to this file")
    parser.add_argument("--compare", type=Path, help="show what has changed since this file was saved")
    parser.add_argument("--jobs", type=int, default=2, help="how many answers at a time")
    return parser.parse_args(arguments)


def _progress(total: int) -> Callable[[Judged], None]:
    counted = Counter[str]()

    def tell(judged: Judged) -> None:
        counted["done"] += 1
        if sys.stderr.isatty():
            print(f"\r{counted['done']} of {total} ", end="", file=sys.stderr, flush=True)

    return tell


def _print_tables(found: Sequence[Judged], *, verbose: bool) -> None:
    for assignment in dict.fromkeys(judged.answer.assignment for judged in found):
        those = [judged for judged in found if judged.answer.assignment == assignment]
        if verbose:
            for judged in those:
                print(f"\n══ {judged.answer}")
                for kind in KINDS:
                    print(f"── {kind}\n{judged.said[kind].printed}{judged.said[kind].error}")
        seconds = sum(judged.seconds for judged in those)
        print(f"\n{assignment}: {seconds:.0f} s\n\n{table([judged.verdict for judged in those])}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
