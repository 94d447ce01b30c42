"""What a check by scenario returns when every case has passed: the cases, and the messages of each."""

from __future__ import annotations

from collections.abc import Iterator

from distlib.grading.case import count
from distlib.grading.scenario_case import ScenarioCase
from distlib.grading.scene import Scene


class ScenarioReport:
    """The cases that a function has passed. Print it for a list; index it for what was seen of one case.

    A test cell asserts on what was seen, so that a mark depends on messages and values, not only on the check having
    come to its end.

    Attributes:
        function: the function's name.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        self._cases: list[ScenarioCase] = []
        self._scenes: list[Scene] = []

    def add(self, case: ScenarioCase, scene: Scene) -> None:
        """Note that a case has passed, with what was seen of it."""
        self._cases.append(case)
        self._scenes.append(scene)

    def __len__(self) -> int:
        return len(self._cases)

    def __getitem__(self, number: int) -> Scene:
        return self._scenes[number]

    def __iter__(self) -> Iterator[Scene]:
        return iter(self._scenes)

    def summary(self) -> str:
        """ "4 cases"; empty if no case has passed."""
        return count(len(self), "case") if self._cases else ""

    def __str__(self) -> str:
        lines = map(_line, self._cases, self._scenes)
        return "\n".join([f"{self.function}: right in all {count(len(self), 'case')}.", *lines])


def _line(case: ScenarioCase, scene: Scene) -> str:
    """A case as a line: its title, and what was sent."""
    sent = sum(scene.trace.bytes_sent)
    messages = f": {count(len(scene.trace), 'message')}, {count(sent, 'byte')} in all" if sent else ""
    return f"  {case.title}{messages}"
