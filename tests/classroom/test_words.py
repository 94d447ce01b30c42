"""Sentences with counts and points read as English, whatever the number."""

from __future__ import annotations

from distlib.classroom.grader.feedback_page import _full_marks
from distlib.classroom.words import all_of, have, joined, points, points_lost, was


def test_points_are_rounded_and_short() -> None:
    numbers = (0, -0.001, 1, 2.4000000000000004, 9.999, 0.125, 24, 1_234_567.5)
    assert [points(number) for number in numbers] == ["0", "0", "1", "2.4", "10", "0.13", "24", "1234567.5"]


def test_the_verb_agrees_with_the_number() -> None:
    assert [points_lost(number) for number in (1, 2.4, 0.5)] == [
        "1 point was lost", "2.4 points were lost", "0.5 points were lost",
    ]  # fmt: skip
    assert [was(1), was(0), was(2), have(1), have(0)] == ["was", "were", "were", "has", "have"]
    assert [all_of(n, "function") for n in (1, 2, 5)] == ["the function", "both functions", "all 5 functions"]
    assert [
        _full_marks(full, number, "function") for full, number in ((1, 1), (0, 1), (0, 5), (1, 5), (2, 5), (5, 5))
    ] == [
        "The function has full marks.",
        "The function does not have full marks.",
        "None of 5 functions has full marks.",
        "1 of 5 functions has full marks.",
        "2 of 5 functions have full marks.",
        "All 5 functions have full marks.",
    ]


def test_names_in_a_sentence() -> None:
    assert [joined(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "nobody",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert joined([str(number) for number in range(300)], most=2) == "0, 1 and 298 more"
