"""Handing in: looks at the saved notebook, then submits it to nbgrader's exchange, or makes a file to upload.

No line of the notebook runs. Everything is read from one copy of the file: what is looked at is what is handed in.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import distlib
from distlib.classroom.grader.definitions import several
from distlib.classroom.grader.submission import CannotGrade, HandedCell, fingerprint, read_submission
from distlib.classroom.self_check.exercise import saved_notebook
from distlib.classroom.self_check.results import ExerciseError
from distlib.classroom.uploads.answers import Answer, read_answers
from distlib.classroom.uploads.exchange import ExchangeFails, find_exchange
from distlib.classroom.uploads.names import full_name
from distlib.classroom.uploads.receipt import Receipt
from distlib.classroom.uploads.recognize import Known, functions_of, known_notebooks, recognize
from distlib.classroom.uploads.saved import newer_checkpoint, ran_in_this_kernel, run_differently
from distlib.classroom.uploads.upload_folder import UploadFolder, course_folder

Ask = Callable[[str], str]
_LARGE = 20 << 20  # bytes, above which learning platforms begin to refuse


class HandInError(Exception):
    """Nothing was handed in. The message says why, and what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not handed in: {self}"]  # IPython shows this instead of a traceback


def hand_in_notebook(
    name: str,
    *,
    student: str = "",
    notebook: Path | None = None,
    sure: bool = False,
    start: Path | None = None,
    ask: Ask = input,
    ran: Sequence[str] | None = None,
) -> Receipt:
    """Hand in a notebook as it is saved.

    Args:
        name: the exercise, such as "02_all_reduce" or "02".
        student: a name or a student number; asked for if it is not known from an earlier time.
        notebook: the student's notebook; without it, it is looked for as `distlib check` does.
        sure: hand in also if nothing is answered, and do not ask.
        start: a folder, by default the current one.
        ask: asks a question, and returns what is typed.
        ran: the text of every cell that the notebook's kernel has run; by default it is found out.

    Raises:
        HandInError: nothing was handed in.
    """
    start = (start or Path.cwd()).resolve()
    known = known_notebooks(course_folder(start) or Path(distlib.__file__).parents[1])
    name = full_name(name, (other.name for other in known if other.is_exercise))
    path = _find(name, notebook, start)
    try:
        with tempfile.TemporaryDirectory(prefix="distlib-hand-in-") as place:
            copy = _copied(path, Path(place) / name / f"{name}.ipynb")
            cells = _read(copy, path)
            functions = _functions(name, cells, known, path)
            _check_saved(cells, functions, path, ran_in_this_kernel() if ran is None else ran)
            answers = read_answers(cells, functions)
            if not sure:
                _ask_if_empty(name, answers, ask)
            twice = [f"{each.remark} Delete what you don't want." for each in several(cells, functions)]
            return _deliver(copy, path, answers, twice + _remarks(path, copy), student, ask)
    except OSError as error:
        raise HandInError(f"{error.filename or path}: {error.strerror or error}") from None


def _deliver(
    copy: Path, path: Path, answers: Sequence[Answer], remarks: Sequence[str], student: str, ask: Ask
) -> Receipt:
    """Submit a copy of a notebook, or put it where its student finds it. Returns the receipt, which is kept, too."""
    name, folder = copy.stem, UploadFolder(path)
    exchange = find_exchange(course_folder(path.parent) or path.parent, name)
    file = None
    if exchange:
        try:
            exchange.submit(copy.parents[1], name)
        except ExchangeFails as error:
            raise HandInError(f"nbgrader's exchange did not take it: {error}") from None
    else:
        file = folder.write(copy, _student(folder, student, ask))
    receipt = Receipt(
        name,
        datetime.now(UTC),
        path,
        datetime.fromtimestamp(copy.stat().st_mtime, UTC),
        fingerprint(copy),
        answers,
        file,
        exchange.course if exchange else "",
        remarks,
    )
    folder.keep_receipt(receipt)
    return receipt


# ── the right notebook, as the student sees it ───────────────────────────────────────────────────────────────────────


def _find(name: str, notebook: Path | None, start: Path) -> Path:
    try:
        return notebook.resolve() if notebook else saved_notebook(name, start)
    except ExerciseError as error:
        raise HandInError(str(error)) from None


def _copied(path: Path, copy: Path) -> Path:
    copy.parent.mkdir()
    shutil.copy2(path, copy)  # with the time when it was saved
    return copy


def _read(copy: Path, path: Path) -> list[HandedCell]:
    try:
        return read_submission(copy).cells
    except CannotGrade as error:
        raise HandInError(f"{path.parent}: {error}") from None


def _functions(name: str, cells: Sequence[HandedCell], known: Sequence[Known], path: Path) -> tuple[str, ...]:
    """The functions that the exercise asks for, if these cells are of that exercise."""
    found = recognize(cells, known)
    if found and not found.is_exercise:
        raise HandInError(f"{path} is {found}. What you hand in is the exercise, exercises/{name}/{name}.ipynb.")
    if found and found.name != name:
        raise HandInError(f"{path} is {found}, not {name}. To hand that in: distlib hand-in {found.name}")
    functions = found.functions if found else functions_of(cells)
    if not functions:
        raise HandInError(
            f"{path} has nothing of exercise {name}. Were the cells copied into a new notebook? Then get a fresh copy "
            "of the exercise and put your functions into its cells."
        )
    return functions


def _check_saved(cells: Sequence[HandedCell], functions: Sequence[str], path: Path, ran: Sequence[str]) -> None:
    if differing := run_differently(cells, functions, ran):
        raise HandInError(
            f"the file {path.name} is not what you have run: {', '.join(differing)}. Save the notebook (Ctrl+S, on a "
            f"Mac ⌘S) and run this cell again. If it is saved, run the cell of {differing[0]} first."
        )


def _remarks(path: Path, copy: Path) -> list[str]:
    remarks = []
    if newer := newer_checkpoint(path):
        remarks.append(
            f"Jupyter saved a different version later, at {newer:%H:%M:%S on %Y-%m-%d}: is this the file you mean? "
            "File, Revert Notebook to Checkpoint shows the other one."
        )
    if (size := copy.stat().st_size) > _LARGE:
        remarks.append(f"The file has {size >> 20} MiB; Edit, Clear Outputs of All Cells makes it small.")
    return remarks


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ask_if_empty(name: str, answers: Sequence[Answer], ask: Ask) -> None:
    if not all(answer.is_empty for answer in answers):
        return
    fact = f"No function of {name} is answered: {', '.join(answer.function for answer in answers)}."
    otherwise = f"{fact} If you mean it: --yes, or in a notebook sure=True."
    if _asked(f"{fact}\nHand it in all the same? [y/N] ", ask, otherwise).lower() not in ("y", "yes"):
        raise HandInError(f"no function of {name} is answered.")


def _student(folder: UploadFolder, given: str, ask: Ask) -> str:
    """The student's name: given now, kept from an earlier time, or asked for; then it is kept."""
    otherwise = 'there is no name for the file: --name "Ada Lovelace", or in a notebook student="Ada Lovelace".'
    name = given.strip() or folder.student()
    name = name or _asked("Your name or student number, for the file's name: ", ask, otherwise)
    if not name:
        raise HandInError("a name or student number is needed: your instructor knows the file by it.")
    folder.keep_student(name)
    return name


def _asked(question: str, ask: Ask, otherwise: str) -> str:
    try:
        return ask(question).strip()
    except (EOFError, RuntimeError):  # nobody is there to answer; a kernel's error is a RuntimeError
        raise HandInError(otherwise) from None
