"""What a check of predictions returns when every answer is right: the questions, and the answers."""

from __future__ import annotations

from distlib.grading.case import count
from distlib.grading.prediction_case import Question

_UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9))


class Answers:
    """The questions that a function has answered rightly, and its answers. Print it for a table.

    Attributes:
        function: the function's name.
        answers: seconds, or names of algorithms, in the order of the questions.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        self.answers: list[float | str] = []
        self._questions: list[Question] = []

    def add(self, question: Question, answer: float | str) -> None:
        """Note a right answer."""
        self._questions.append(question)
        self.answers.append(answer)

    def __len__(self) -> int:
        return len(self.answers)

    def summary(self) -> str:
        """ "4 questions"; empty if none was answered rightly."""
        return count(len(self), "question") if self.answers else ""

    def __str__(self) -> str:
        rows = [_row(question, answer) for question, answer in zip(self._questions, self.answers, strict=True)]
        table = [("ranks", "bytes", "algorithms", "answer"), *rows]
        widths = [max(len(row[column]) for row in table) for column in range(4)]
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([f"{self.function}: right in all {len(self)} cases.", *lines])


def _row(question: Question, answer: float | str) -> tuple[str, str, str, str]:
    cluster = question.cluster
    ranks = f"{cluster.nodes} x {cluster.ranks_per_node}" if cluster.nodes > 1 else str(cluster.world_size)
    shown = answer if isinstance(answer, str) else readable(answer)
    return ranks, f"{question.nbytes:,}", ", ".join(question.algorithms), shown


def readable(seconds: float) -> str:
    """ "1.25 ms": in the unit that fits."""
    unit, factor = next((pair for pair in _UNITS if abs(seconds) * pair[1] >= 1), _UNITS[0])
    return f"{seconds * factor:.6g} {unit}"
