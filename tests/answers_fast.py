"""Every answer against the test cells of its function, on simulated ranks, within minutes: `make answers ARGS=--fast`.

    make answers ARGS="--fast"                                  all exercises
    make answers ARGS="--fast 05_ddp OverlappedDDP"             those of an exercise, of a function, of a name
    make answers ARGS="--fast -v shift/wrong_backwards"         with what their students read
    make answers ARGS="--fast --save before.json"               keep what every test cell says to every answer
    make answers ARGS="--fast --compare before.json"            what any of them says differently now
    make answers ARGS="--fast 05_ddp --unheard"                 which sentences of the checks none of its answers hears
    make answers ARGS="--fast --seed 3"                         with inputs drawn from another seed

An answer's cells run in the order of the notebook: what is set up, the solutions of what comes before, the answer, the
test cells of its function. They run in a process of their own, forked from this one, which has imported everything: so
no answer can change what the next one meets, whatever it patches, and one that never ends is killed.

What only real ranks show is in `SLOW`; `make answers` without --fast judges these, too. The status is 0 if every answer
has the marks that it deserves, and every wrong one's student reads what its file says, and nothing of the inside of the
library; with --compare, if nothing has changed besides.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import io
import json
import linecache
import multiprocessing
import os
import pkgutil
import random
import re
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import torch

import distlib
import distlib.checks.task as engine
from distlib import checks, exercises
from distlib.checks import CheckFailed, plays
from distlib.checks.task import Draw
from distlib.checks.venues import simulated_only
from distlib.frameworks.optional import QUIET
from distlib.judge.remote.frameworks import FRAMEWORKS, frameworks_in
from distlib.lazy_names import homes_in
from tests.answer_files import ANSWERS, Answer, read_answers
from tests.answer_verdicts import KINDS, Verdict, table
from tests.drawn_cases import remember_cases
from tests.heard import heard_by_tests, unheard

ROOT = Path(__file__).parents[1]
# Answers that only real ranks can judge, and why.
_SHARED = "simulated ranks share memory: what one of them keeps in a module or a class, all of them see"
_ENDS = "it ends the process that all simulated ranks are in; the words are those of a process of its own"
SLOW = {
    "broadcast/wrong_hidden_in_a_module": _SHARED,
    "ring_all_gather/wrong_hidden_in_a_module": _SHARED,
    "shift/right_keeps_its_buffer": _SHARED,
    "ShardedOptimizer/wrong_on_the_class": _SHARED,
    "ring_all_reduce/right_keeps_its_buffers": _SHARED,
    "naive_all_reduce/wrong_exits": _ENDS,
    "ring_all_gather/wrong_exits": _ENDS,
    "ring_reduce_scatter/wrong_crashes": _ENDS,
    "predict_time/wrong_exits": _ENDS,
    "ring_all_gather/wrong_sleeps": "it waits outside of Python, where only the end of its process stops it",
}

ENDLESS = "wrong_never_ends"  # it computes until a check gives up; to wait longer than a second for that shows nothing

# Most answers to a function end in the same few programs, and half of their time was spent on compiling these: so JAX
# keeps each in a file, however small. It locks the files as soon as their size has a limit.
_KEEP_PROGRAMS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**30),
}


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
    """An answer, what each of its test cells said, the seconds that took, and the marks that each cell gives."""

    answer: Answer
    said: Mapping[str, Said]
    seconds: float
    full: Mapping[str, float]

    @property
    def verdict(self) -> Verdict:
        """Its marks and words, as in the table of `make answers`."""
        errors = [" ".join(self.said[kind].error.split()) for kind in KINDS if self.said[kind].error]
        return Verdict(
            self.answer,
            {kind: 0 if kind in self.answer.loses else self.full[kind] for kind in KINDS},
            {kind: 0 if self.said[kind].error else self.full[kind] for kind in KINDS},
            {self.answer.told, self.answer.told_by_the_judge},
            errors[0] if errors else "",
        )


OF_THE_LIBRARY = re.compile(r"[^\s\"'(]*/(?:site-packages|distlib)/\S*")
OF_A_RANK = re.compile(r"\b(?:rank \d+|a rank|ranks \d+ and \d+) (?:raised|was|ended|sent)\b[^.;]*")


def unfit(judged: Judged, folder: Path) -> str:
    """What a student reads and must not: a path of the library; or a rank, where the function has no communicator."""
    text = " ".join(f"{said.error} {said.printed}" for said in judged.said.values())
    found = OF_THE_LIBRARY.search(text) or OF_A_RANK.search(text)
    if not found or (
        found.re is OF_A_RANK and has_communicator(judged.answer.assignment, judged.answer.function, folder)
    ):
        return ""
    return found[0]


@cache
def has_communicator(assignment: str, function: str, folder: Path) -> bool:
    """Whether the function, or the class, is called with one, or with several in a mesh."""
    (cell,) = [cell for cell in cells_of(assignment, folder) if cell.name == function]
    takes_ranks = re.search(rf"\(\s*(self,\s*)?({'|'.join(engine.WITH_RANKS)})\b", cell.source) is not None
    return takes_ranks or "default process group is open" in cell.source


# ── one answer ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook that nbgrader knows: its name, its source, whether a student writes it, its points."""

    name: str
    source: str
    is_solution: bool
    points: float | None


def cells_of(assignment: str, folder: Path, edition: str = "solutions") -> list[Cell]:
    """The named cells of an exercise's notebook in `folder`/solutions, or in another edition, in their order."""
    path = folder / edition / assignment / f"{assignment}.ipynb"
    found = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        told = cell["metadata"].get("nbgrader")
        if told and cell["cell_type"] == "code":
            found.append(Cell(told["grade_id"], "".join(cell["source"]), told["solution"], told.get("points")))
    return found


def judge(answer: Answer, cells: Sequence[Cell], *, until_lost: bool = False) -> dict[str, Said]:
    """What the test cells of its function say to an answer, by kind. Changes this process: call it in one of its own.

    The process becomes that of a notebook: cells are `__main__`, which is why functions travel to ranks by value.
    `until_lost`: no test cell runs after one that has failed.
    """
    notebook = sys.modules["__main__"] = types.ModuleType("__main__")
    torch.default_generator.manual_seed(0)  # torch.manual_seed also goes to devices that are not used here, for longer
    random.seed(0)
    said: dict[str, Said] = {}
    for cell in cells:
        if cell.name == answer.function:
            run_cell(f"{cell.name}.py", without_header(answer.text), notebook)
        elif cell.name in (f"{answer.function}_{kind}" for kind in KINDS):
            said[cell.name.rpartition("_")[2]] = run_cell(f"{cell.name}.py", cell.source, notebook)
        elif cell.points is None:
            run_cell(f"{cell.name}.py", cell.source, notebook)
        if len(said) == len(KINDS) or (until_lost and any(each.error for each in said.values())):
            break
    return said


def without_header(text: str) -> str:
    """An answer without the comments at its beginning, so that what these say moves no line number."""
    return re.sub(r"\A(#.*\n)*", "", text)


def run_cell(file: str, source: str, notebook: types.ModuleType) -> Said:
    """Run a cell in a notebook's process, as if it stood in a file of this name; a warning counts as an error."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    out, err = io.StringIO(), io.StringIO()
    error = ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), simulated_only():
        try:
            exec(compiled(source, file), notebook.__dict__)
        except Exception as problem:
            error = shown(problem, file)
    if not error and err.getvalue():
        error = f"on stderr: {err.getvalue()}"
    return Said(error, out.getvalue())


@cache
def compiled(source: str, file: str) -> types.CodeType:
    """A cell's code. What all answers share is compiled once, before they have processes of their own."""
    return compile(source, file, "exec")


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
    answers: Sequence[Answer],
    folder: Path = ROOT,
    jobs: int = 2,
    seconds: float = 120,
    seed: int | None = None,
    tell: Callable[[Judged], None] = lambda judged: None,
    work: Callable[[Answer, Sequence[Cell]], Mapping[str, Said]] = judge,
) -> list[Judged]:
    """Judge every answer in a process of its own, `jobs` at a time; the list is in the order of `answers`.

    Args:
        folder: where solutions/ is.
        seconds: of the processor, after which an answer is given up, both test cells together. Most take a tenth.
        seed: for other inputs than those of the test cells' own seeds.
        tell: called with each as soon as it is judged.
        work: what the process of an answer does, in the place of `judge`.
    """
    cells = {name: cells_of(name, folder) for name in {answer.assignment for answer in answers}}
    needed = {name: sorted(frameworks_in("\n".join(cell.source for cell in cells[name]))) for name in cells}
    found = {}
    with tempfile.TemporaryDirectory(prefix="distlib-", ignore_cleanup_errors=True) as programs:
        os.environ |= QUIET | _KEEP_PROGRAMS | {"JAX_COMPILATION_CACHE_DIR": programs}
        for frameworks in sorted({tuple(names) for names in needed.values()}):  # none first: a fork is slower with them
            chosen = [answer for answer in answers if tuple(needed[answer.assignment]) == frameworks]
            _import_checks(set(frameworks))
            for name in {answer.assignment for answer in chosen}:
                _get_ready(cells[name], {answer.function for answer in chosen if answer.assignment == name})
            gc.collect()
            gc.freeze()  # so that a child's garbage collector leaves the shared pages alone
            children = (_Child(answer, cells[answer.assignment], seconds, seed, work) for answer in chosen)
            for judged in _ended(children, jobs):
                found[str(judged.answer), judged.answer.assignment] = judged
                tell(judged)
    return [found[str(answer), answer.assignment] for answer in answers]


def _ended(children: Iterator[_Child], jobs: int) -> Iterator[Judged]:
    """What each has reported, as soon as it has. A child begins when it is taken: at most `jobs` at a time."""
    running: dict[Connection, _Child] = {}
    while True:
        running |= {child.connection: child for child in islice(children, jobs - len(running))}
        if not running:
            return
        ready = wait(list(running), timeout=0.5)
        late = [connection for connection, child in running.items() if child.is_late()]
        for connection in {*ready, *late}:
            yield running.pop(connection).end()


def _import_checks(needed: Set[str]) -> None:
    """What test cells import, and torch behind it: once, for all children. And the frameworks that are needed."""
    for module in pkgutil.walk_packages(exercises.__path__, f"{exercises.__name__}."):
        import_module(module.name)
    # torch's compiler makes a folder when it is imported, and leaves it empty.
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder):
        for name in plays.all_plays():
            late = getattr(plays.module_of_plays(name), "IMPORTED_LATE", ())
            if needed.issuperset(set(FRAMEWORKS).intersection(late)):
                plays.import_plays(name)


def _get_ready(cells: Sequence[Cell], functions: Set[str]) -> None:
    """Compile the cells of an exercise, import what they import, and draw the cases of these functions."""
    for cell in cells:
        compiled(cell.source, f"{cell.name}.py")
        imports = [node for node in ast.parse(cell.source).body if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), "imports", "exec"), {})
    tests = {f"{name}_{kind}" for name in functions for kind in KINDS}
    remember_cases([compiled(cell.source, f"{cell.name}.py") for cell in cells if cell.name in tests])


class _Child:
    """A process that judges one answer, and the connection on which it reports."""

    def __init__(
        self,
        answer: Answer,
        cells: Sequence[Cell],
        seconds: float,
        seed: int | None,
        work: Callable[[Answer, Sequence[Cell]], Mapping[str, Said]],
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.answer = answer
        named = {cell.name: cell.points or 0 for cell in cells}
        self.full = {kind: named[f"{answer.function}_{kind}"] for kind in KINDS}
        self.start, self.seconds = time.monotonic(), seconds
        self.folder = tempfile.TemporaryDirectory(prefix="distlib-", ignore_cleanup_errors=True)
        self.connection, theirs = context.Pipe(duplex=False)
        given = answer, cells, theirs, seed, self.folder.name, work
        self.process = context.Process(target=_in_a_child, args=given, daemon=True)
        self.process.start()
        theirs.close()

    def is_late(self) -> bool:
        """Whether it has computed for too long; or waited, and that ten times as long: a machine may be busy."""
        try:
            spent = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:
            return False  # it has ended, and its connection says so
        return spent.user + spent.system > self.seconds or time.monotonic() > self.start + 10 * self.seconds

    def end(self) -> Judged:
        """What it has reported; if nothing, how it ended."""
        try:
            problem = (
                "" if self.connection.poll() else f"it did not end within {self.seconds:g} seconds of the processor"
            )
            told = {} if problem else self.connection.recv()
        except EOFError:
            told, problem = {}, "its process ended in the middle"
        self.process.kill()
        self.process.join()
        self.connection.close()
        self.folder.cleanup()
        missing = (problem or "its test cell was not reached", "")
        said = {kind: Said(*told.get(kind, missing)) for kind in KINDS}
        return Judged(self.answer, said, time.monotonic() - self.start, self.full)


def _in_a_child(
    answer: Answer,
    cells: Sequence[Cell],
    connection: Connection,
    seed: int | None,
    folder: str,
    work: Callable[[Answer, Sequence[Cell]], Mapping[str, Said]],
) -> None:
    tempfile.tempdir = folder  # TensorFlow leaves files there: a process like this one has no exit handlers
    if seed is not None:
        engine.Draw = lambda own: Draw(f"{own} {seed}")  # type: ignore[misc, assignment]
    if answer.name == ENDLESS:
        engine.seconds_for = lambda *limits: 1.0
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):  # what goes round Python's streams
        os.dup2(nowhere, stream)
    torch.set_num_threads(1)
    distlib.World = _NoWorld  # type: ignore[misc, assignment]
    torch.distributed.init_process_group = _no_process_group
    connection.send({kind: (said.error, said.printed) for kind, said in work(answer, cells).items()})


class _NoWorld:
    """What a set-up cell gets for the worlds that a student tries things in."""

    def __init__(self, *args: Any, **options: Any) -> None: ...


def _no_process_group(*args: Any, **options: Any) -> None:
    """Ranks in one process would wait half an hour for the others; this is how that ends."""
    raise torch.distributed.DistStoreError("simulated ranks share a process")


# ── what is kept and compared ────────────────────────────────────────────────────────────────────────────────────────


def as_text(found: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """What every test cell said, by "exercise/function/name"; without what differs from run to run."""
    return {
        f"{judged.answer.assignment}/{judged.answer}": {
            kind: {"error": _settled(judged.said[kind].error), "printed": _settled(judged.said[kind].printed)}
            for kind in KINDS
        }
        for judged in found
    }


def _settled(text: str) -> str:
    return re.sub(r"not done after \d+ s", "not done after … s", re.sub(r"0x[0-9a-f]+", "0x…", text))


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
    chosen = select(options.names, options.folder / "tests" / "answers")
    if not chosen:
        print(f"no answer, function or exercise is called {' '.join(options.names)}", file=sys.stderr)
        return 1
    fast = [answer for answer in chosen if str(answer) not in SLOW]
    found = judge_all(fast, options.folder, options.jobs, options.seconds, options.seed, _progress(len(fast)))
    _print_tables(found, verbose=options.verbose)
    inside = [(judged.answer, unfit(judged, options.folder)) for judged in found]
    for answer, words in inside:
        if words:
            print(f"{answer}: its student reads {words!r}, which says nothing about the answer.")
    for name in (str(answer) for answer in chosen if answer not in fast):
        print(f"Left to `make answers` without --fast: {name} ({SLOW[name]}).")
    if options.unheard:
        print("\n".join(f"unheard: {it}" for it in unheard_in(found, options.folder)) or "Every sentence is heard.")
    is_right = all(judged.verdict.is_as_it_should_be for judged in found)
    status = 0 if is_right and not any(words for _, words in inside) else 1
    if options.save:
        options.save.write_text(json.dumps(as_text(found), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    if options.compare:
        before, after = json.loads(options.compare.read_text()), as_text(found)
        changed = differences(before, after)
        gone = [] if options.names else sorted(before.keys() - after.keys())
        for name in [*gone, *sorted(after.keys() - before.keys())]:
            print(f"{name}: only {'in ' + options.compare.name if name in gone else 'now'}")
        print("\n".join(changed or ["Nothing has changed."]))
        status = 1 if changed else status
    return status


def select(names: Sequence[str], folder: Path = ANSWERS) -> list[Answer]:
    """The answers of these exercises, and of them those of these functions or names; of all where none is named."""
    every = sorted(path.name for path in folder.glob("*") if path.is_dir())
    others = set(names) - set(every)
    answers = [a for name in every if name in names or others == set(names) for a in read_answers(name, folder)]
    return [a for a in answers if not others or others & {a.function, a.name, str(a), f"{a.assignment}/{a}"}]


def unheard_in(found: Sequence[Judged], folder: Path) -> list[str]:
    """The sentences of these exercises that nobody hears; of all exercises, the engine's, too. See `tests.heard`.

    A sentence is heard by answers to the exercises that import its package, whatever those to other exercises are told:
    two packages may have a sentence in common. A package that several exercises import is looked at when all of them
    have been judged. So these exercises alone and all exercises together find the same.
    """
    told = dict[str, list[str]]()
    for name in sorted({judged.answer.assignment for judged in found}):
        told[name] = [
            said.error for judged in found if judged.answer.assignment == name for said in judged.said.values()
        ]
        told[name] += [answer.told for answer in select([name], folder / "tests" / "answers") if str(answer) in SLOW]
    rooms = {room: names for room, names in _importers(folder).items() if names <= told.keys()}
    silent = list[str]()
    for room, names in rooms.items():
        files = [file for path in exercises.__path__ for file in Path(path, room).glob("*.txt")]
        files = [file for file in files if file.name != "hints.txt"]  # opened by students, and told by no check
        silent += unheard(sorted(files), [text for name in sorted(names) for text in told[name]])
    if rooms.keys() >= {module.name for module in pkgutil.iter_modules(exercises.__path__) if module.ispkg}:
        files = sorted(file for path in checks.__path__ for file in Path(path).rglob("*.txt"))
        silent += unheard(files, [text for texts in told.values() for text in texts])
    by_tests = heard_by_tests()
    return [sentence for sentence in silent if sentence not in by_tests]


def _importers(folder: Path) -> dict[str, set[str]]:
    """By package of `distlib.exercises`, the exercises whose cells import from it."""
    homes = homes_in(Path(exercises.__path__[0], "__init__.pyi"))
    rooms = dict[str, set[str]]()
    for name in sorted(path.name for path in (folder / "solutions").glob("[0-9]*")):
        imports = [node for cell in cells_of(name, folder) for node in ast.walk(ast.parse(cell.source))]
        for node in imports:
            if isinstance(node, ast.ImportFrom) and node.module == exercises.__name__:
                for each in node.names:
                    rooms.setdefault(homes[each.name].split(".")[1], set()).add(name)
    return rooms


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make answers", description="Judge every answer on simulated ranks.")
    parser.add_argument("names", nargs="*", help="exercises, functions, answers; without them: all")
    parser.add_argument("--folder", type=Path, default=ROOT, help="where solutions/ and tests/answers/ are")
    parser.add_argument("--fast", action="store_true", help="accepted, because `make answers` passes it on")
    parser.add_argument("--unheard", action="store_true", help="print the sentences that no answer hears")
    parser.add_argument("-v", "--verbose", action="store_true", help="print everything that students read")
    parser.add_argument("--save", type=Path, help="write everything that students read to this file")
    parser.add_argument("--compare", type=Path, help="show what has changed since this file was saved")
    parser.add_argument("--seed", type=int, help="draw the inputs from this seed, besides the test cells' own")
    parser.add_argument("--jobs", type=int, default=2, help="how many answers at a time")
    parser.add_argument("--seconds", type=float, default=60, help="of the processor, after which an answer is given up")
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
