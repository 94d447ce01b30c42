"""Running a notebook for its marks: the test cells here, everything of the student's on ranks in a sandbox.

    cell                                            runs
    ────────────────────────────────────────────    ───────────────────────
    locked set-up cell of the instructor            here and on the ranks; on the ranks only, if it imports a framework
    test cell                                       here
    solution cell, cell of the student's own        on the ranks
    demonstration of the instructor                 nowhere

A cell of the student's own has the metadata {"distlib": {"from": "student"}}.
In the test cells the name of each graded function is a stand-in (`distlib.judge.remote.stand_in`). The namespace of
the test cells is never the student's, and no text of a test cell leaves this process.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbformat.v4 import new_output

import distlib
from distlib.checks import training_scores
from distlib.checks.absent_function import AnswerCell
from distlib.checks.remark import CheckFailed
from distlib.judge.remote.forkserver import CanNotGrade, SandboxForkServer, SubmissionForkServer
from distlib.judge.remote.frameworks import check_installed, frameworks_in, frameworks_of
from distlib.judge.remote.introspection_remarks import reaches_inside
from distlib.judge.remote.ranks import OutOfTime, RemoteRanks
from distlib.judge.remote.stand_in import RemoteFunction
from distlib.judge.remote.student_cells import RankCell
from distlib.judge.sandbox import Limits, Sandbox
from distlib.judge.sandbox.inside.worlds.real.world import World as IdleWorld
from distlib.judge.sandbox.limits import CUT
from distlib.python_text import MAGIC_OF_A_CELL, WRITTEN_WITH, version_in, without_magics

MOST_SHOWN = 2_000  # characters of what a cell printed
_MOST_REMARKS = 5  # about cells
_MOST_CHARACTERS_READ = 500_000
_MORE_TIME = "--time-for STUDENT=3 grants three times as much"


@dataclass(frozen=True)
class Judged:
    """A notebook after its run.

    Attributes:
        notebook: with outputs and execution counts, as nbgrader expects them for its marks.
        remarks: what the instructor should know.
        seconds: how long it took.
    """

    notebook: NotebookNode
    remarks: list[str]
    seconds: float


class Judges:
    """A judge for each submission of a class. Use as a context manager: at its end all sandboxes are gone.

    Where one sandbox may serve many submissions, all come from the same fork server. Else each has its own.

    Args:
        sandbox: where the students' code runs.
        limits: for each submission.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._sandbox, self._limits = sandbox, limits
        self._server: SandboxForkServer | None = None

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    @contextlib.contextmanager
    def __call__(self, notebook: NotebookNode) -> Iterator[Callable[..., Judged]]:
        """A judge for one submission. Within the block it can be sent to a process that `multiprocessing` starts.

        Args:
            notebook: the instructor's, or any with the same locked cells.

        Raises:
            OSError: the sandbox can't be started.
        """
        if not self._sandbox.serves_many:
            yield partial(judge, sandbox=self._sandbox, limits=self._limits)
            return
        with self._working_server().for_submission(frameworks_of(notebook)) as server:
            yield partial(judge_in, server)

    def _working_server(self) -> SandboxForkServer:
        if self._server is not None and self._server.has_ended():
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = SandboxForkServer(self._sandbox, self._limits)
        return self._server


def judge(
    notebook: NotebookNode,
    seed: str = "",
    *,
    sandbox: Sandbox,
    limits: Limits,
    times: float = 1.0,
    only: Collection[str] | None = None,
) -> Judged:
    """Run a notebook (as `transplant` makes it) and return a copy with outputs. The notebook is left as it is.

    Args:
        seed: of the inputs of all cases; "" to make one of the text of the tests.
        times: how many times as much time as in `limits` it may take.
        only: the names of the test cells to run; all without it. The others have no execution count afterwards.

    Raises:
        CanNotGrade: the sandbox does not work. That says nothing about the notebook.
    """
    with SandboxForkServer(sandbox, limits) as first, first.for_submission(frameworks_of(notebook)) as server:
        return judge_in(server, notebook, seed, times=times, only=only)


def judge_in(
    server: SubmissionForkServer,
    notebook: NotebookNode,
    seed: str = "",
    *,
    times: float = 1.0,
    only: Collection[str] | None = None,
) -> Judged:
    """Judge a notebook on ranks that `server` forks. `seed`, `times`, `only`: as of `judge`."""
    check_installed(frameworks_of(notebook))
    server.limits = server.limits.times(times)
    start = time.perf_counter()
    done = copy.deepcopy(notebook)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        is_left_out = only is not None and _is_test(cell) and _mark(cell)["grade_id"] not in only
        cell.outputs, cell.execution_count = [], None if is_left_out else number
    answers = _answers(done, code)
    names = [answer.function for answer in answers]
    for_ranks = [(number, cell.source) for number, cell in enumerate(code, 1) if _is_for_ranks(cell)]
    texts = _all_plain([source for _, source in for_ranks])
    on_ranks = [RankCell(number, text) for (number, _), text in zip(for_ranks, texts, strict=True)]
    secret = seed or "".join(cell.source for cell in code if _is_test(cell))
    with RemoteRanks(on_ranks, names, server, secret) as ranks:
        _run_here(code, answers, ranks)
        for number, printed, errors in ranks.cells.outputs():
            if not _is_locked(code[number - 1]):
                shown = [new_output("stream", name="stdout", text=_cut(printed))] if printed else []
                code[number - 1].outputs = shown + [_error_output(kind, text) for kind, text in errors]
        inside = reaches_inside(cell for cell in on_ranks if not _is_locked(code[cell.number - 1]))
        return Judged(done, _first_few(ranks.cells.remarks) + inside + ranks.remarks, time.perf_counter() - start)


def _answers(notebook: NotebookNode, code: Sequence[NotebookNode]) -> list[AnswerCell]:
    """The cells of the graded functions."""
    written_with = version_in(notebook.metadata.get("distlib", {}).get(WRITTEN_WITH))
    return [
        AnswerCell(_mark(cell)["grade_id"], number, cell.source, written_with)
        for number, cell in enumerate(code, 1)
        if _is_solution(cell)
    ]


def _run_here(code: list[NotebookNode], answers: Sequence[AnswerCell], ranks: RemoteRanks) -> None:
    """Run the instructor's cells in their order."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code, 1):
        if _is_test(cell) and cell.execution_count is None:
            continue
        if _is_test(cell):
            ranks.advance(number)
            _run_test(cell, answers, ranks, namespace)
        elif _is_locked(cell) and not frameworks_in(cell.source):
            with _no_worlds():
                exec(compile(_plain(cell.source), "<set-up>", "exec"), namespace)


def _run_test(cell: NotebookNode, answers: Sequence[AnswerCell], ranks: RemoteRanks, namespace: dict[str, Any]) -> None:
    name = _mark(cell)["grade_id"]
    error = None
    with _captured() as printed, training_scores.gather_trainings() as trainings:
        try:
            namespace.update({answer.function: RemoteFunction(answer, ranks) for answer in answers})
            exec(compile(_plain(cell.source), f"<{name}>", "exec"), namespace)
        except OutOfTime:
            ranks.remarks.append(f"{name}: the time for this submission was over; {_MORE_TIME}")
            error = _error_output("Timeout", _whole_time(ranks.limits))
        except CanNotGrade:
            raise
        except Exception as problem:
            place = next((f" ({note})" for note in getattr(problem, "__notes__", ())), "")
            error = _error_output(type(problem).__name__, f"{problem}{place}")
    if printed.getvalue():
        cell.outputs.append(new_output("stream", name="stdout", text=printed.getvalue()))
    if error is not None:
        cell.outputs.append(error)
    elif trainings:
        cell.outputs.append(_trainings_output(trainings))


@contextlib.contextmanager
def _no_worlds() -> Iterator[None]:
    """A set-up cell makes worlds for a student to try things in. Here nobody does."""
    real = distlib.World, distlib.SimulatedWorld
    distlib.World, distlib.SimulatedWorld = IdleWorld, IdleWorld  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        distlib.World, distlib.SimulatedWorld = real  # type: ignore[misc]


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    """What is printed meanwhile. Warnings of ours are nobody's business: nbgrader would take marks away for them."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield printed


def _error_output(kind: str, text: str) -> NotebookNode:
    """An error as a notebook shows it, without a line of the test."""
    lines = text.splitlines() if kind == CheckFailed.__name__ else f"{kind}: {text}".splitlines()
    return new_output("error", ename=kind, evalue=text, traceback=lines)


def _trainings_output(trainings: Sequence[training_scores.TrainingScore]) -> NotebookNode:
    """What a test has told of trainings: a text for the student, and data for the board."""
    data = {training_scores.KEY: [each.as_data() for each in trainings]}
    return new_output("display_data", {"text/plain": training_scores.in_words(trainings)}, metadata=data)


def _whole_time(limits: Limits) -> str:
    return (
        f"the time for the whole notebook is over: {limits.submission_seconds:g} s for its tests, "
        f"{limits.reruns_seconds:g} s for all that its other cells run on all ranks. If they take long for a reason, "
        f"ask for more."
    )


def _first_few(remarks: list[str]) -> list[str]:
    more = len(remarks) - _MOST_REMARKS
    return remarks if more <= 0 else [*remarks[:_MOST_REMARKS], f"{more} more lines of cells were left out like that"]


def _cut(printed: str) -> str:
    """The beginning of what a cell printed."""
    return printed if len(printed) <= MOST_SHOWN else printed[:MOST_SHOWN] + CUT


def _all_plain(sources: Sequence[str]) -> Iterator[str]:
    """Each of a student's cells as Python; all together take a few seconds at most, whatever stands in them."""
    transformer = _ShortTransformer(_MOST_CHARACTERS_READ)
    for source in sources:
        yield _plain(source, transformer)


class _ShortTransformer(TransformerManager):
    """IPython's way from a cell to Python, up to where it takes long: it reads a cell again for each line it changes.

    Args:
        most: characters that it reads, of all cells together.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def do_one_token_transform(self, lines: list[str]) -> tuple[bool, list[str]]:
        """One reading of a cell, which changes one line. Raises RuntimeError where that would be too much."""
        cost = sum(map(len, lines))
        if cost > self._left:
            raise RuntimeError("this takes too long")
        self._left -= cost
        changed: tuple[bool, list[str]] = super().do_one_token_transform(lines)
        return changed


def _plain(source: str, transformer: TransformerManager | None = None) -> str:
    """A cell's text as Python: magics and shell lines become calls, which fail on the ranks.

    %%time and the like go, and what stands below them runs. Where IPython would take long, and where it gives up, such
    lines become comments.
    """
    source = MAGIC_OF_A_CELL.sub(lambda found: "\n" * found[0].count("\n"), source)
    try:
        return (transformer or TransformerManager()).transform_cell(source)
    except (SyntaxError, RuntimeError, RecursionError, MemoryError):
        return source if _is_python(source) else without_magics(source)


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _mark(cell: NotebookNode) -> Any:
    return cell.metadata.get("nbgrader", {})


def _is_test(cell: NotebookNode) -> bool:
    return bool(_mark(cell).get("grade")) and not _mark(cell).get("solution")


def _is_solution(cell: NotebookNode) -> bool:
    return bool(_mark(cell).get("solution"))


def _is_for_ranks(cell: NotebookNode) -> bool:
    return _is_solution(cell) or _is_locked(cell) or cell.metadata.get("distlib", {}).get("from") == "student"


def _is_locked(cell: NotebookNode) -> bool:
    return bool(_mark(cell).get("locked")) and not _is_test(cell) and not _is_solution(cell)
