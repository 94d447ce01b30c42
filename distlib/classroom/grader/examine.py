"""One submission, from its folder to a notebook that has run. It is examined in a process of its own.

    the grader ──Examinee, Judge──► a process, forked ──► read, transplant, judge ──Examined──► the grader

So nothing that one submission does to its judge reaches another one. Only the grader writes files and marks. The
process has so much time of the processor for reading the notebook, and so much for judging it: for decoding what its
ranks send, and for the checks. Then the system ends it.
"""

from __future__ import annotations

import contextlib
import copy
import signal
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol

import nbformat
from nbformat import NotebookNode

from distlib.checks.patience import patience as busy
from distlib.classroom.grader.feedback import harmless_outputs, harmless_text
from distlib.classroom.grader.source import Source
from distlib.classroom.grader.submission import CannotGrade, find_notebook, read_submission
from distlib.classroom.grader.transplant import transplant
from distlib.classroom.grader.verdicts import Verdicts, is_test, needed_tests, note_verdicts, verdict_hashes
from distlib.printable import printable
from distlib.process_limits import allow_processor_seconds
from distlib.python_text import WRITTEN_WITH, here, shown
from distlib.reading_process import EndedEarly, ReadingProcess

MEMORY = 3 << 30  # bytes for one submission in the grader's process; its ranks have limits of their own
READING = 30.0  # seconds of the processor to read one submission, however busy the machine is; a usual one takes 0.1
JUDGING = 120.0  # the same, to judge it: without what its ranks take. A usual one takes 3, the longest of ours 18
_IN_C = 5.0  # seconds more to read it, until its process is ended in the midst of it
PATIENCE = 900.0  # seconds for one submission, on a free machine; the judge's own limits end it long before

_LONGEST_REMARK = 500  # characters
_TOO_LONG = (
    "what it holds, or what its functions send and return, takes too long to read: more than "
    f"{READING:g} s of the processor for the notebook, or {JUDGING:g} s for the rest"
)


class JudgedNotebook(Protocol):
    """What a judge returns: `distlib.judge.remote.judge.Judged`."""

    @property
    def notebook(self) -> NotebookNode: ...

    @property
    def remarks(self) -> list[str]: ...


# Of a notebook and a seed; `times`: how many times as much time it may take; `only`: which test cells are run.
Judge = Callable[..., JudgedNotebook]
OpenJudge = Callable[[NotebookNode], AbstractContextManager[Judge]]  # of the instructor's notebook


@dataclass(frozen=True)
class Examinee:
    """A submission to examine.

    Attributes:
        folder: what the student has handed in.
        assignment: its name.
        source: the instructor's notebook.
        seed: of the inputs of its tests.
        times: how many times as much time as others it may take.
        code: the parts of this package that judge, see `verdicts.judging_code`.
        before: the notebook in autograded/, whose verdicts may stay; None to judge everything.
    """

    folder: Path
    assignment: str
    source: Source
    seed: str
    times: float = 1.0
    code: Mapping[str, str] = field(default_factory=dict)
    before: Path | None = None


@dataclass(frozen=True)
class Examined:
    """What came of it.

    Attributes:
        notebook: as JSON, with the outputs that give the marks; "" if it could not be graded.
        problem: why it could not be graded.
        remarks: what the instructor should know.
        seconds: how long it took.
        judged: the test cells that were judged now; of the others the earlier verdicts stay.
        older: the locked cells and tests that the instructor has changed since this student got them.
    """

    notebook: str = ""
    problem: str = ""
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0
    judged: list[str] = field(default_factory=list)
    older: list[str] = field(default_factory=list)


def examine(task: Examinee, judge: Judge, begin_judging: Callable[[], None] = lambda: None) -> Examined:
    """Read, transplant and judge one submission, here. begin_judging: called in between."""
    start = time.monotonic()
    try:
        with _limited(READING):
            path, remarks = find_notebook(task.folder, task.assignment)
            submission = read_submission(path)
            transplanted = transplant(task.source, submission.cells)
            transplanted.notebook.metadata["distlib"] = {WRITTEN_WITH: submission.python}
        begin_judging()
        done, judges, judged = _judged(task, transplanted.notebook, judge)
        remarks = [*remarks, *submission.remarks, *transplanted.remarks, *judges]
        examined = Examined(nbformat.writes(done), remarks=remarks, judged=judged, older=transplanted.older)
    except CannotGrade as error:
        examined = Examined(problem=str(error))
    except MemoryError:
        examined = Examined(problem=f"it would take more than {MEMORY >> 30} GiB of memory to read and grade it")
    except Exception as error:
        examined = _failed(error)
    problem, remarks = printable(examined.problem), [printable(remark)[:_LONGEST_REMARK] for remark in examined.remarks]
    return replace(examined, problem=problem, remarks=remarks, seconds=time.monotonic() - start)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise CannotGrade in a block that takes more time of the processor."""

    def stop(*_: object) -> None:
        raise CannotGrade(f"it takes more than {seconds:g} s to read; hand it in without its outputs and odd cells")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _judged(task: Examinee, notebook: NotebookNode, judge: Judge) -> tuple[NotebookNode, list[str], list[str]]:
    """The notebook with all verdicts, the judge's remarks, and the test cells that were judged now."""
    hashes = verdict_hashes(notebook, task.code, [task.seed, f"{task.times:g}", f"Python {shown(here())}"])
    before = Verdicts(task.before)
    stay = before.that_stay(hashes)
    again = [name for name in hashes if name not in stay]
    if not stay:
        judged = judge(notebook, task.seed, times=task.times)
        done, remarks = _checked(judged.notebook, notebook, again), judged.remarks
    elif again:
        judged = judge(notebook, task.seed, times=task.times, only=needed_tests(notebook, again))
        done, remarks = _checked(judged.notebook, notebook, again), judged.remarks
    else:
        done, remarks = _checked(copy.deepcopy(notebook), notebook, ()), []
    before.put_back(done, stay)
    kept = [remark for remark in before.remarks if stay and not remark.startswith(tuple(f"{name}: " for name in again))]
    remarks = list(dict.fromkeys([*kept, *remarks]))
    note_verdicts(done, hashes, remarks)
    return done, remarks, again


def _failed(error: Exception) -> Examined:
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return Examined(problem=f"the grader failed: {words[:500]}")


def examine_all(
    tasks: Mapping[str, Examinee], open_judge: OpenJudge, jobs: int, patience: float = PATIENCE
) -> Generator[tuple[str, Examined], None, None]:
    """Examine submissions, each in a process of its own, some at a time; yield each when it is ready.

    Args:
        tasks: by student.
        open_judge: for each submission it opens a judge, which is then pickled into the submission's process.
        jobs: how many at a time.
        patience: seconds for each, on a free machine (see `distlib.checks.patience`); then its process is ended.
    """
    waiting = list(tasks.items())[::-1]
    running: dict[Connection, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                student, task = waiting.pop()
                try:
                    started = _Running(student, task, open_judge, patience)
                except OSError as error:
                    yield student, _failed(error)
                    continue
                running[started.connection] = started
            soonest = min((each.deadline for each in running.values()), default=0.0)
            ready = wait(list(running), max(0.0, soonest - time.monotonic()))
            for connection, each in list(running.items()):
                if connection in ready or each.deadline <= time.monotonic():
                    del running[connection]
                    yield each.student, each.result()
    finally:
        for each in running.values():
            each.end()


class _Running:
    """A submission that is being examined in another process."""

    def __init__(self, student: str, task: Examinee, open_judge: OpenJudge, patience: float) -> None:
        self.student, self._patience = student, busy() * max(1.0, task.times) * patience
        self.deadline = time.monotonic() + self._patience
        with open_judge(task.source.notebook) as judge:
            begin_judging = partial(allow_processor_seconds, JUDGING * max(1.0, task.times))
            self._process = ReadingProcess(
                examine,
                (task, judge, begin_judging),
                seconds=READING + _IN_C,
                memory=MEMORY,
                preload=[getattr(judge, "func", judge).__module__],
            )
        self.connection = self._process.connection

    def result(self) -> Examined:
        """What came of it; the process is gone afterwards."""
        try:
            if not self.connection.poll():
                problem = f"the grader did not come to an end within {self._patience:g} s"
                return Examined(problem=problem, seconds=self._patience)
            received = self._process.result()
            assert isinstance(received, Examined)
            return received
        except EndedEarly as ended:
            return Examined(problem=_TOO_LONG if ended.is_out_of_time else f"the grader's process ended ({ended})")
        finally:
            self.end()

    def end(self) -> None:
        self._process.end()


def _checked(done: NotebookNode, transplanted: NotebookNode, tests: Collection[str]) -> NotebookNode:
    """A judged notebook, its outputs made harmless. A test cell without outputs counts as passed: it must have run.

    tests: those that the judge had to run.
    """
    for cell, before in zip(done.cells, transplanted.cells, strict=True):
        mark = cell.metadata.get("nbgrader", {})
        if cell.source != before.source or mark != before.metadata.get("nbgrader", {}):
            raise RuntimeError("the judge has changed the notebook")
        if cell.cell_type == "code":
            if is_test(cell) and mark["grade_id"] in tests and cell.execution_count is None:
                raise RuntimeError(f"the judge did not run {mark['grade_id']}")
            cell.outputs = harmless_outputs(cell.outputs)
        elif mark.get("solution"):
            cell.source = harmless_text(cell.source, cell.get("attachments", ()))
    return done
