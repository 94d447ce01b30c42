"""What else shows that an answer is not one: names that nothing makes, its last check, its test cells. Nothing runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from distlib.classroom.grader.definitions import tests_of
from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.my_course.evidence import FAILED_BEFORE, NOT_CHECKED, PASSED_BEFORE, LastCheck
from distlib.classroom.self_check.results import FAILS, PASSES
from distlib.classroom.uploads.answers import ANSWERED, Answer, is_code, number_of
from distlib.classroom.uploads.cell_faults import in_words, never_ends, unknown_names
from distlib.classroom.uploads.given_cells import expected_cells, faults_of_given
from distlib.classroom.uploads.receipt import clock
from distlib.classroom.uploads.recognize import cell_of, is_given
from distlib.classroom.words import was
from distlib.python_text import MAGIC_OF_A_CELL, Version, here, shown, why_not_python


@dataclass(frozen=True)
class Look:
    """What is looked at.

    Attributes:
        exercise: its name.
        cells: of the student's notebook.
        answers: what the text of each function's cell shows.
        starts: texts of solution cells as students get them.
        given: the exercise's own cells, by name, with their texts.
        last: what the last check of this notebook said.
        graded_with: the Python that the class is graded with; None if that is not known.
    """

    exercise: str
    cells: Sequence[HandedCell]
    answers: Sequence[Answer]
    starts: Collection[str]
    given: Mapping[str, str]
    last: LastCheck
    graded_with: Version | None = None

    def states(self) -> list[Answer]:
        """The answers; those with a fault are not answered any more."""
        return [Answer(each.function, self._fault(each) or each.state) for each in self.answers]

    def remarks(self) -> list[str]:
        """What a student should know about cells of his or her own."""
        return list(_own_cells(self.cells))

    def summary(self) -> list[tuple[str, str]]:
        """What a receipt says in any case, by a word for each line: given cells, last check, Python."""
        return [("given", self._given_cells()), ("checked", self._last_check()), ("Python", self._python())]

    def to_check(self) -> list[str]:
        """The functions of which the last check says nothing as they stand, and whose text shows no fault."""
        answered = {each.function for each in self.states() if each.state == ANSWERED}
        verdicts = self._verdicts().items()
        return [name for name, verdict in verdicts if name in answered and verdict not in (PASSES, FAILS)]

    def failing(self) -> list[str]:
        """The functions that failed in the last check, as they stand."""
        return [name for name, verdict in self._verdicts().items() if verdict == FAILS]

    def _given_cells(self) -> str:
        faults, number = self._faults_of_given, len(self._expected)
        if not faults:
            return f"all {number} cells of the exercise are there, unchanged"
        said = ", ".join(f"{name} {fault}" for name, fault in faults.items())
        return f"{len(faults)} of {number} cells of the exercise: {said}; graded as given out"

    def _last_check(self) -> str:
        """ "at 21:47:02: scatter and gather pass; broadcast failed; shift changed since; distlib check 01 tells"."""
        tells = f"distlib check {self.exercise} tells what passes"
        if self.last.checked is None:
            return f"never; {tells}"
        verdicts = self._verdicts()
        groups = {
            "passed": [PASSES],
            "failed": [FAILS],
            "changed since": [PASSED_BEFORE, FAILED_BEFORE],
            "not checked": [NOT_CHECKED],
        }
        found = {words: [name for name, said in verdicts.items() if said in of] for words, of in groups.items()}
        said = [f"{', '.join(names)} {_verb(words, names)}" for words, names in found.items() if names]
        advice = [tells] if self.to_check() else []
        return f"{self._when().removeprefix(', ')}: {'; '.join([*(said or ['nothing of this was written']), *advice])}"

    def _python(self) -> str:
        if self.graded_with is None:
            return f"{shown(here())} here; which one grades is not known here"
        if self.graded_with == here():
            return f"{shown(here())}, here and for grading"
        return f"{shown(here())} here, {shown(self.graded_with)} for grading"

    def _verdicts(self) -> dict[str, str]:
        """What the last check says of each function that is written, see `LastCheck.verdict`."""
        cells = {each.function: self._code_of(each) for each in self.answers if not each.is_empty}
        return {name: self.last.verdict(name, cell.source) for name, cell in cells.items() if cell}

    @property
    def _expected(self) -> dict[str, str]:
        functions = [each.function for each in self.answers if self._code_of(each)]
        return expected_cells(self.given, self.cells, functions)

    @property
    def _faults_of_given(self) -> dict[str, str]:
        return faults_of_given(self.cells, self._expected)

    def _fault(self, answer: Answer) -> str:
        """What is wrong with an answer whose text shows nothing; "" if nothing is."""
        cell = self._code_of(answer)
        if answer.state != ANSWERED or cell is None:
            return ""
        others = [each.source for each in self.cells if each.kind == "code"]
        unknown = in_words(unknown_names(cell.source, [*others, *self.given.values()]))
        if unknown or cell.kind != "code":
            return unknown or "its cell was made text: it does not run here"
        if self.last.verdict(answer.function, cell.source) == FAILS:
            return f"failed in your last check{self._when()}; its cell is the same as then"
        faults = self._faults_of_given
        wrong = [f"{name} {faults[name]}" for name in sorted(tests_of(answer.function), reverse=True) if name in faults]
        return f"written, but its test cell {wrong[0]}: nothing here has tested it" if wrong else ""

    def _code_of(self, answer: Answer) -> HandedCell | None:
        """The cell of a function; None for an answer in words."""
        cell = cell_of(self.cells, answer.function)
        return cell if cell is not None and is_code(cell, self.starts) else None

    def _when(self) -> str:
        return f", at {clock(self.last.checked, datetime.now(UTC))}" if self.last.checked else ""


def _verb(words: str, names: Sequence[str]) -> str:
    return f"{was(len(names))} {words}" if words == "not checked" else words


def _own_cells(cells: Sequence[HandedCell]) -> Iterator[str]:
    """Cells of the student's own that don't run, or that don't come to an end."""
    for cell in cells:
        is_plain = cell.kind == "code" and (MAGIC_OF_A_CELL.match(cell.source) or not cell.source.startswith("%%"))
        if not is_plain or cell.mark.get("solution") or is_given(cell):
            continue
        number = number_of(cells, cell)
        if problem := why_not_python(cell.source):
            yield f"code cell {number} does not run: line {problem.line} is not Python, {problem.why}."
        elif fault := never_ends(cell.source):
            yield f"code cell {number}: {fault}; in grading it is left out."
