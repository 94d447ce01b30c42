"""Handing in: looks at the saved notebook, then submits it to nbgrader's exchange, or makes a file to upload.

No line of the notebook runs. Everything is read from one copy of the file: what is looked at is what is handed in. A
question takes time, in which the student may save. So after each answer the file is looked at again.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import distlib
from distlib.classroom.grader.definitions import several
from distlib.classroom.grader.submission import CannotGrade, HandedCell, fingerprint, read_submission
from distlib.classroom.my_course.evidence import LastCheck
from distlib.classroom.my_course.last_check import read_check
from distlib.classroom.register.term_dates import due_in_words, term_dates
from distlib.classroom.self_check.exercise import saved_notebook
from distlib.classroom.self_check.results import ExerciseError
from distlib.classroom.uploads.answers import Answer, read_answers
from distlib.classroom.uploads.closer_look import Look
from distlib.classroom.uploads.exchange import Exchange, ExchangeFails, find_exchange
from distlib.classroom.uploads.graded_with import graded_with
from distlib.classroom.uploads.plays_besides import put_plays_besides
from distlib.classroom.uploads.receipt import Receipt, ago, clock
from distlib.classroom.uploads.recognize import Known, functions_of, known_notebooks, normal, recognize
from distlib.classroom.uploads.unsaved import newer_checkpoint, ran_in_this_kernel, run_differently
from distlib.classroom.uploads.upload_folder import UploadFolder
from distlib.classroom.uploads.upload_names import full_name, upload_name
from distlib.course_root import course_folder
from distlib.living_line import waiting

Ask = Callable[[str], str]
Check = Callable[[str, Path], object]
_SAVED_MEANWHILE = "The notebook was saved meanwhile; this is about the newer one."
_LARGE = 20 << 20  # bytes, above which learning platforms begin to refuse


class HandInError(Exception):
    """Nothing was handed in. The message says why, and what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not handed in: {self}"]  # IPython shows this instead of a traceback


class Declined(HandInError):
    """The student has answered no. The message is a whole sentence; nothing is wrong."""


class Interrupted(HandInError):
    """The student has interrupted a question."""


class _SavedMeanwhile(Exception):
    """The notebook was saved while a question was open. answer: what was typed."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer


def hand_in_notebook(
    name: str,
    *,
    student: str = "",
    notebook: Path | None = None,
    sure: bool = False,
    asks_again: bool = False,
    again: bool = False,
    start: Path | None = None,
    ask: Ask = input,
    ran: Sequence[str] | None = None,
    check: Check | None = None,
) -> Receipt:
    """Hand in a notebook as it is saved. What has not changed since it was handed in is not handed in again.

    Args:
        name: the exercise, such as "02_all_reduce" or "02".
        student: a name or a student number; asked for if it is not known from an earlier time.
        notebook: the student's notebook; without it, it is looked for as `distlib check` does.
        sure: hand in also if nothing is answered, and do not ask.
        asks_again: ask before a notebook is handed in that was handed in before. A cell may run because all cells do.
        again: hand in also what has not changed since it was handed in.
        start: a folder, by default the current one.
        ask: asks a question, and returns what is typed.
        ran: the text of every cell that the notebook's kernel has run; by default it is found out.
        check: checks a notebook by its name and path, shows what passes, and keeps it. It is offered where something
            was not checked as it stands; None: nothing is offered.

    Raises:
        HandInError: nothing was handed in. Declined: because the student said no.
    """
    start = (start or Path.cwd()).resolve()
    with waiting("a look at the course's notebooks"):
        known = known_notebooks(course_folder(start) or Path(distlib.__file__).parents[1])
    name = full_name(name, (other.name for other in known if other.is_exercise))
    path = _find(name, notebook, start)
    ran = ran_in_this_kernel() if ran is None else ran
    wishes = _Wishes(student, sure, asks_again, again, check)
    try:
        try:
            return _hand_in(name, path, known, wishes, ran, ask)
        except _SavedMeanwhile:
            return _hand_in_newer(name, path, known, wishes, ran, ask)
    except OSError as error:
        raise HandInError(f"{error.filename or path}: {error.strerror or error}") from None


@dataclass(frozen=True)
class _Wishes:
    """What the student wants: the arguments of `hand_in_notebook`."""

    student: str
    sure: bool
    asks_again: bool
    again: bool
    check: Check | None = None


def _hand_in(
    name: str, path: Path, known: Sequence[Known], wishes: _Wishes, ran: Sequence[str], ask: Ask, said: str = ""
) -> Receipt:
    """Hand in the notebook as it is saved now. said: what the student should know first; a remark in the receipt.

    Raises:
        _SavedMeanwhile: it was saved while a question was open.
    """
    with tempfile.TemporaryDirectory(prefix="distlib-hand-in-") as folder:
        copy = _copied(path, Path(folder) / name / f"{name}.ipynb")
        asking = _looking_again(path, copy, ask)
        cells = _read(copy, path)
        functions = _functions(name, cells, known, path)
        _check_saved(cells, functions, path, ran)
        look = _look(name, cells, functions, known, path)
        twice = [each.advice for each in several(cells, functions)]
        remarks = [*filter(None, [said]), *twice, *look.remarks(), *_remarks(path, copy)]
        work = _NotebookToHandIn(path, copy, _content(cells), look, remarks, _full_points(cells))
        if not wishes.again and (earlier := _earlier(work, wishes.student)) is not None:
            return earlier
        if not wishes.sure:
            _ask_if_empty(name, work.answers, asking)
        if wishes.check and not wishes.sure:
            _offer_to_check(look, path, wishes.check, asking)
            work = replace(work, look=_look(name, cells, functions, known, path))
        if wishes.asks_again:
            _ask_if_again(work, asking)
        return _deliver(work, wishes.student, asking)


def _hand_in_newer(
    name: str, path: Path, known: Sequence[Known], wishes: _Wishes, ran: Sequence[str], ask: Ask
) -> Receipt:
    """Start over, as often as the notebook is saved meanwhile. The student is told before the next question."""
    while True:
        try:
            return _hand_in(name, path, known, wishes, ran, _telling(_SAVED_MEANWHILE, ask), _SAVED_MEANWHILE)
        except _SavedMeanwhile:
            continue
        except (Declined, Interrupted):
            raise
        except HandInError as error:
            raise HandInError(f"{_SAVED_MEANWHILE} {error}") from None


def _telling(sentence: str, ask: Ask) -> Ask:
    return lambda question: ask(f"{sentence}\n{question}")


def _looking_again(path: Path, copy: Path, ask: Ask) -> Ask:
    """Asks, and then looks whether the notebook is still the one that was copied."""
    saved = path.stat().st_mtime_ns

    def asking(question: str) -> str:
        answer = ask(question)
        if path.stat().st_mtime_ns != saved or path.read_bytes() != copy.read_bytes():
            raise _SavedMeanwhile(answer)
        return answer

    return asking


@dataclass(frozen=True)
class _NotebookToHandIn:
    """A notebook that may be handed in.

    Attributes:
        path: of the student's file.
        copy: of it, named as the exercise.
        content: a hash of what is written in it.
        look: what it shows, for the receipt.
        remarks: likewise.
        full: the points that can be had.
    """

    path: Path
    copy: Path
    content: str
    look: Look
    remarks: Sequence[str]
    full: float

    @property
    def answers(self) -> list[Answer]:
        """Which functions are answered."""
        return self.look.states()

    def due(self, time: datetime) -> str:
        """What the due date means for a hand-in at this time."""
        course = course_folder(self.path.parent) or Path(distlib.__file__).parents[1]
        return due_in_words(term_dates(course), self.copy.stem, time, self.full)

    @property
    def exchange(self) -> Exchange | None:
        """The exchange that takes it, if there is one."""
        return find_exchange(course_folder(self.path.parent) or self.path.parent, self.copy.stem)


def _deliver(work: _NotebookToHandIn, student: str, ask: Ask) -> Receipt:
    """Submit a notebook, or put it where its student finds it. Returns the receipt, which is kept, too."""
    name, folder, exchange, file = work.copy.stem, UploadFolder(work.path), work.exchange, None
    if exchange:
        put_plays_besides(work.copy, work.path)
        try:
            exchange.submit(work.copy.parents[1], name)
        except ExchangeFails as error:
            raise HandInError(f"nbgrader's exchange did not take it: {error}") from None
    else:
        file = folder.write(work.copy, name_of_student(folder, student, ask))
    now = datetime.now(UTC)
    receipt = Receipt(
        name,
        now,
        work.path,
        _saved_at(work.copy),
        fingerprint(work.copy),
        work.answers,
        file,
        exchange.course if exchange else "",
        work.remarks,
        due=work.due(now),
        looked=work.look.summary(),
    )
    folder.keep_receipt(receipt, work.content)
    return receipt


# ── once is enough ───────────────────────────────────────────────────────────────────────────────────────────────────


def _content(cells: Sequence[HandedCell]) -> str:
    """A hash of what is written in a notebook, without the cell that hands it in: its # makes no difference."""
    written = [[cell.kind, normal(cell.source)] for cell in cells if "hand_in(" not in cell.source]
    return sha256(json.dumps(written).encode()).hexdigest()


def _earlier(work: _NotebookToHandIn, student: str) -> Receipt | None:
    """The receipt of what was handed in last, if that was the same, by the same name and to the same place."""
    folder, name = UploadFolder(work.path), work.copy.stem
    last = folder.last(name)
    if last is None or last.content != work.content:
        return None
    course = work.exchange.course if work.exchange else ""
    same_name = not student.strip() or not last.file or last.file == upload_name(name, student.strip())
    if course != last.course or not same_name:
        return None
    time, saved = (datetime.fromisoformat(text) for text in (last.time, last.saved))
    file = folder.path / last.file if last.file else None
    same = _saved_at(work.copy)
    return Receipt(
        name,
        time,
        work.path,
        saved,
        last.sha256,
        work.answers,
        file,
        course,
        work.remarks,
        same,
        work.due(time),
        work.look.summary(),
    )


def _full_points(cells: Sequence[HandedCell]) -> float:
    """The points of all cells that are graded, as the notebook itself has them."""
    found = [cell.mark.get("points") for cell in cells if cell.mark.get("grade")]
    return float(sum(each for each in found if isinstance(each, int | float)))


def _saved_at(copy: Path) -> datetime:
    return datetime.fromtimestamp(copy.stat().st_mtime, UTC)


def _ask_if_again(work: _NotebookToHandIn, ask: Ask) -> None:
    """Ask before a changed notebook takes the place of one that was handed in."""
    name, last = work.copy.stem, UploadFolder(work.path).last(work.copy.stem)
    if last is None:
        return
    now = datetime.now(UTC)
    before, saved = clock(datetime.fromisoformat(last.time), now), ago(_saved_at(work.copy), now)
    if last.file:
        fact, again = f"You made a file to upload at {before}.", f"Make a new file of what was saved {saved}?"
        stays = f"Nothing new was made; the file of {before} stays."
    else:
        fact, again = f"You handed in {name} at {before}.", f"Hand in what was saved {saved}?"
        stays = f"Nothing new was handed in; what you handed in at {before} stays."
    fact = f"{fact} The notebook has changed since."
    otherwise = f"{fact} To hand it in again, in a terminal: distlib hand-in {name}"
    if not _agreed(f"{fact} {again} [y/N] ", ask, otherwise):
        raise Declined(stays)


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


def _look(name: str, cells: Sequence[HandedCell], functions: Sequence[str], known: Sequence[Known], path: Path) -> Look:
    """What the text of the notebook shows, and what its last check has said."""
    course = course_folder(path.parent)
    starts = {text for each in known if each.name == name for text in each.starts}
    given = {cell: text for each in known if each.name == name for cell, text in each.given}
    graded = graded_with(course or Path(distlib.__file__).parents[1])
    answers = read_answers(cells, functions, starts, graded)
    return Look(name, cells, answers, starts, given, read_check(course, name)[0] if course else LastCheck(), graded)


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


def _offer_to_check(look: Look, path: Path, check: Check, ask: Ask) -> None:
    """Offer to run the tests now, and ask once more if a function fails.

    Raises:
        Declined: something fails, and the student wants to mend it first.
    """
    otherwise = "to hand in without a question: --yes."
    if names := look.to_check():
        fact = f"{', '.join(names)}: not checked as {'it stands' if len(names) == 1 else 'they stand'}."
        if not _agreed(f"{fact} Run the tests now? [y/N] ", ask, otherwise):
            return
        try:
            check(look.exercise, path)
        except ExerciseError as error:
            raise HandInError(str(error)) from None
        last = read_check(folder, look.exercise)[0] if (folder := course_folder(path.parent)) else look.last
        look = replace(look, last=last)
        if (failing := look.failing()) and not _agreed(
            f"{', '.join(failing)}: not right yet. Hand it in as it is? [y/N] ", ask, otherwise
        ):
            raise Declined(f"Nothing was handed in. To see it again: distlib check {look.exercise}")


def _ask_if_empty(name: str, answers: Sequence[Answer], ask: Ask) -> None:
    if not all(answer.is_empty for answer in answers):
        return
    fact = f"No function of {name} is answered: {', '.join(answer.function for answer in answers)}."
    otherwise = f"{fact} If you mean it: --yes, or in a notebook sure=True."
    if not _agreed(f"{fact}\nHand it in all the same? [y/N] ", ask, otherwise):
        raise Declined(f"Nothing was handed in: no function of {name} is answered.")


def name_of_student(folder: UploadFolder, given: str, ask: Ask) -> str:
    """The student's name: given now, kept from an earlier time, or asked for; then it is kept.

    Raises:
        HandInError: there is none.
    """
    otherwise = 'there is no name for the file: --name "Ada Lovelace", or in a notebook student="Ada Lovelace".'
    name = given.strip() or folder.student()
    try:
        name = name or _asked("Your name or student number, for the file's name: ", ask, otherwise)
    except _SavedMeanwhile as saved:
        if saved.answer.strip():  # the name holds for the newer notebook, too
            folder.keep_student(saved.answer.strip())
        raise
    if not name:
        raise HandInError("a name or student number is needed: your instructor knows the file by it.")
    folder.keep_student(name)
    return name


def _asked(question: str, ask: Ask, otherwise: str) -> str:
    try:
        return ask(question).strip()
    except (EOFError, RuntimeError):  # nobody is there to answer; a kernel's error is a RuntimeError
        raise HandInError(otherwise) from None
    except KeyboardInterrupt:
        raise Interrupted("you interrupted the question.") from None


def _agreed(question: str, ask: Ask, otherwise: str) -> bool:
    """Whether the answer is yes. What is neither yes nor no is asked once more; nothing is a no."""
    answer = _asked(question, ask, otherwise).lower()
    if answer not in ("y", "yes", "n", "no", ""):
        answer = _asked(f"Please answer y for yes or n for no. {question}", ask, otherwise).lower()
    return answer in ("y", "yes")
