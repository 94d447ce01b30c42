"""The answers in tests/answers: the text of one solution cell each, right or wrong, and what they deserve.

    # Wrong: averages instead of summing. Loses all marks.          or: Loses the hidden marks.
    # Told: this is the average
    # Told by the judge: averages                   only where that is something else
    def ring_all_reduce(comm, tensor): …

The name says whether it is right. The first line says what a wrong one loses, the second what its student must be told,
by the first test that fails; the third, what `distlib grade` may say instead. "Alone" in the first line: it spoils more
than its own function.

An answer is a file, right_in_one_loop.py, or a change to such a file in the function's list: `tests.answer_changes`.

The parts of an exercise are graded independently of each other. So answers to different functions share a submission,
and the number of submissions is that of the function with the most answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tests.answer_changes import CHANGES, read_changes

ANSWERS = Path(__file__).parent / "answers"
ASSIGNMENTS = sorted(path.name for path in ANSWERS.iterdir() if path.is_dir())


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        assignment: the exercise that it belongs to, as in "02_all_reduce".
        function: the function that it answers.
        name: what it is called, as in "wrong_average".
        text: what stands in the solution cell.
    """

    assignment: str
    function: str
    name: str
    text: str

    @property
    def is_right(self) -> bool:
        """Whether it deserves full marks."""
        return self.name.startswith("right_")

    @property
    def loses(self) -> tuple[str, ...]:
        """The tests that it must fail, out of "visible" and "hidden"."""
        if self.is_right:
            return ()
        found = re.search(r"Loses (all|the hidden) marks\.", self.text.splitlines()[0])
        assert found, f"{self}: the first line must end in 'Loses all marks.' or 'Loses the hidden marks.'"
        return ("visible", "hidden") if found[1] == "all" else ("hidden",)

    @property
    def told(self) -> str:
        """Words that its student must be told; empty if the first line says that it overwrites the check."""
        second = self.text.splitlines()[1]
        return second.removeprefix("# Told: ") if second.startswith("# Told: ") else ""

    @property
    def told_by_the_judge(self) -> str:
        """What its student may be told instead by `distlib grade`, where the library is not there."""
        found = re.search(r"^# Told by the judge: (.*)$", self.text, re.MULTILINE)
        return found[1] if found else self.told

    @property
    def is_alone(self) -> bool:
        """Whether it changes more than its own function, so that other functions' marks say nothing."""
        return " Alone. " in self.text.splitlines()[0]

    def __str__(self) -> str:
        return f"{self.function}/{self.name}"


def read_answers(assignment: str, folder: Path = ANSWERS) -> list[Answer]:
    """All answers of an assignment, in `folder`/ASSIGNMENT/FUNCTION/, by function and name.

    Raises:
        ChangesError: a list of changes that cannot be read.
    """
    found = []
    for function in sorted(path for path in (folder / assignment).glob("*") if path.is_dir()):
        texts = {path.stem: path.read_text(encoding="utf-8") for path in function.glob("*.py")}
        texts |= read_changes(function / CHANGES)
        found += [Answer(assignment, function.name, name, texts[name]) for name in sorted(texts)]
    return found


def submissions(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """Answers side by side, by the name of the student that hands them in."""
    functions = sorted({answer.function for answer in answers})
    shared = [[a for a in answers if a.function == function and not a.is_alone] for function in functions]
    rows = [[answer for answer in row if answer] for row in zip_longest(*shared)]
    rows.append([answer for answer in answers if answer.is_alone])
    return {f"{'left' if number % 2 else 'right'}-{number}": row for number, row in enumerate(rows) if row}


def sample(answers: Sequence[Answer], names: Collection[str] = ()) -> list[Answer]:
    """A few answers to an exercise that stand for all: those in `names`, and those that spoil more than their function.

    Besides, of each function a wrong one that loses all marks, if none of these does; and of the whole exercise one
    that loses the hidden marks, and a right one, which prints if one does: of functions with few in the sample, so that
    they share a submission with others.
    """
    chosen = [answer for answer in answers if answer.is_alone or str(answer) in names]
    has_a_wrong_one = {answer.function for answer in chosen if not answer.is_right}
    for answer in answers:
        if "visible" in answer.loses and answer.function not in has_a_wrong_one:
            has_a_wrong_one.add(answer.function)
            chosen.append(answer)
    for loses in (), ("hidden",):
        count = Counter(answer.function for answer in chosen)
        fitting = [answer for answer in answers if answer.loses == loses]
        chosen += sorted(fitting, key=lambda answer: ("print(" not in answer.text, count[answer.function]))[:1]
    return [answer for answer in answers if answer in chosen]
