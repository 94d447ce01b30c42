"""`make answers ARGS=--fast`: every answer against its test cells on simulated ranks."""

from __future__ import annotations

import pytest

from tests.answer_files import ASSIGNMENTS, read_answers
from tests.answers_fast import SLOW, select
from tests.heard import STILL_UNHEARD
from tests.tools.oracle import oracle


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The lines about each exercise that is tested here, of one run that judges the answers to all of them.

    One run loads torch but once.
    """
    tests = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    asked = {item.callspec.params["assignment"] for item in tests if "assignment" in getattr(item, "fixturenames", ())}
    _, lines = oracle(*sorted(asked or ASSIGNMENTS), "--unheard")
    starts = [number for number, line in enumerate(lines) if line.partition(":")[0] in ASSIGNMENTS]
    parts = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    return {part[0].partition(":")[0]: part for part in parts}


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_every_answer_is_judged_as_its_file_says(judged: dict[str, list[str]], assignment: str) -> None:
    fast = [answer for answer in read_answers(assignment) if str(answer) not in SLOW]
    lines = judged[assignment]
    assert f"{len(fast)} of {len(fast)} answers are judged as they should be." in lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_answer_is_told_of_a_file_of_the_library_or_of_ranks_that_it_has_not(judged: dict[str, list[str]]) -> None:
    assert [line for lines in judged.values() for line in lines if "which says nothing about the answer" in line] == []


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_sentence_of_the_tutor_is_heard(judged: dict[str, list[str]]) -> None:
    """A new one needs an answer that earns it: see `tests.heard`. One that is heard now is taken out of the list."""
    lines = [line for part in judged.values() for line in part]
    unheard = {line.removeprefix("unheard: ") for line in lines if line.startswith("unheard: ")}
    assert unheard == set(STILL_UNHEARD.read_text(encoding="utf-8").splitlines())


def test_few_answers_are_left_to_real_ranks() -> None:
    assert len(SLOW) <= 10
    assert set(SLOW) <= {str(answer) for answer in select([])}
