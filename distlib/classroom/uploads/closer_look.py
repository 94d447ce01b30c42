"""What else shows that an answer is not one: names that nothing makes, its last check, its test cells. Nothing runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from distlib.classroom.grader.definitions import tests_of
from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.my_course.evidence import FAILED_BEFORE, LastCheck
from distlib.classroom.self_check.results import FAILS
from distlib.classroom.uploads.answers import ANSWERED, Answer, is_code, number_of
from distlib.classroom.uploads.cell_faults import in_words, never_ends, unknown_names
from distlib.classroom.uploads.given_cells import expected_cells, faults_of_given
from distlib.classroom.uploads.receipt import clock
from distlib.classroom.uploads.recognize import cell_of, is_given
from distlib.python_text import MAGIC_OF_A_CELL, why_not_python


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
    """

    exercise: str
    cells: Sequence[HandedCell]
    answers: Sequence[Answer]
    starts: Collection[str]
    given: Mapping[str, str]
    last: LastCheck

    def states(self) -> list[Answer]:
        """The answers; those with a fault are not answered any more."""
        return [Answer(each.function, self._fault(each) or each.state) for each in self.answers]

    def remarks(self) -> list[str]:
        """What a student should know besides: about given cells, the last check, and cells of the student's own."""
        tests = {name for each in self.answers for name in tests_of(each.function)}
        changed = [
            f"the given cell {name} {fault}; it is graded as it was given out."
            for name, fault in self._faults_of_given.items()
            if name not in tests
        ]
        return [*changed, *self._changed_since_the_check(), *_own_cells(self.cells)]

    @property
    def _faults_of_given(self) -> dict[str, str]:
        functions = [each.function for each in self.answers if self._code_of(each)]
        return faults_of_given(self.cells, expected_cells(self.given, self.cells, functions))

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

    def _changed_since_the_check(self) -> Iterator[str]:
        for each in self.answers:
            cell = cell_of(self.cells, each.function)
            if each.state == ANSWERED and cell and self.last.verdict(each.function, cell.source) == FAILED_BEFORE:
                again = f"distlib check {self.exercise} tells whether it passes now"
                yield f"{each.function} failed in your last check{self._when()}; it has changed since: {again}."

    def _when(self) -> str:
        return f", at {clock(self.last.checked, datetime.now(UTC))}" if self.last.checked else ""


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
