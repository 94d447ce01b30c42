"""The answers in tests/answers: files with the text of one solution cell each, right or wrong, and what they deserve.

    # Wrong: averages instead of summing. Loses all marks.          or: Loses the hidden marks.
    # Told: this is the average
    def ring_all_reduce(comm, tensor): …

The name of the file says whether it is right. The first line says what a wrong one loses, the second what its student
must be told, by the first test that fails. "Alone" in the first line: it spoils more than its own function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ANSWERS = Path(__file__).parent / "answers"
ASSIGNMENTS = sorted(path.name for path in ANSWERS.iterdir() if path.is_dir())


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        assignment: the exercise that it belongs to, as in "02_all_reduce".
        function: the function that it answers.
        name: the name of its file, as in "wrong_average".
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
    def is_alone(self) -> bool:
        """Whether it changes more than its own function, so that other functions' marks say nothing."""
        return " Alone. " in self.text.splitlines()[0]

    def __str__(self) -> str:
        return f"{self.function}/{self.name}"


def read_answers(assignment: str) -> list[Answer]:
    """All answers of an assignment."""
    paths = sorted((ANSWERS / assignment).glob("*/*.py"))
    return [Answer(assignment, path.parent.name, path.stem, path.read_text(encoding="utf-8")) for path in paths]
