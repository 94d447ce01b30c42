"""A share of the slow tests, for a CI that ends within twenty minutes: `make test-ci`, or pytest's `--share=2/8`.

All slow tests about a lesson and its exercise are in one share, and all slow tests of any other file. So what a test's
neighbors use, such as a graded class, is made in one share only. The everyday tests are in all of them.

The CI takes those that the commit touches, the closest first, as long as `SECONDS_FOR_THE_TOUCHED` last
(`tests.touched`), and the share that its hash chooses: the same commit gets the same share each time, and some fifty
commits get all. `make test-all` runs them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

# The tests of these files are about the lesson, the exercise or the patient that is their parameter.
BY_SUBJECT = (
    "test_lessons.py",
    "test_answers.py",
    "test_answers_fast.py",
    "test_mutants.py",
    "test_given_arguments.py",
    "test_patients.py",
    "test_tools_that_serve.py",
)
# Seconds of the slow tests that take longest, in runs of the CI on two cores. They say only how to deal them out.
SECONDS = {
    "01_messages": 660,
    "test_hub.py": 570,
    "06_large_batches": 510,
    "03_trees_and_grids": 490,
    "19b_budget": 300,
    "02_all_reduce": 380,
    "07b_parameter_server": 320,
    "13_tensorflow": 280,
    "08_decentralized": 260,
    "test_lesson_19.py": 260,
    "test_grade.py": 250,
    "test_instructors_guide.py": 240,
    "test_browser.py": 220,
    "test_hostile_class.py": 210,
    "test_site.py": 210,
    "test_slurm.py": 210,
    "13b_tensorflow_failures": 190,
    "14_jax": 180,
    "12d_long_and_sparse_closer": 180,
    "17_hang_clinic": 170,
    "19_capstone": 170,
    "test_grade_demo.py": 160,
    "test_doctor.py": 150,
    "test_class_share.py": 130,
    "test_commands.py": 120,
    "12c_layouts": 100,
    "10_tensor_parallel": 90,
    "12_hybrid": 80,
}
OTHERS_SECONDS = 40
SECONDS_FOR_THE_TOUCHED = 600
# Of this one, tests without a parameter are about whatever the others have run, so they are in every share with others.
ABOUT_THE_OTHERS = "test_answers_fast.py"


def read_share(text: str) -> tuple[int, int]:
    """The number of a share, from 1, and how many there are: "2/4".

    Raises:
        pytest.UsageError: it is written otherwise.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise pytest.UsageError(f"--share expected a number and how many shares there are, such as 2/4, got {text!r}")
    return number, count


def parts_of(items: Sequence[pytest.Item]) -> set[str]:
    """What the slow tests among these are about, or the files that they are in."""
    return {_part(item) for item in items if item.get_closest_marker("slow")} - {""}


def of_other_shares(
    items: Sequence[pytest.Item], number: int, count: int, touched: Sequence[str] = ()
) -> list[pytest.Item]:
    """The slow tests that are neither in this share nor, as far as there is time for them, touched by the change.

    Nor is a test there about what others of its file have run, where it has none of these: by itself it runs them all.

    Args: touched: parts, the closest to the change first.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    dealt = deal_out(parts_of(items), count)
    wanted = {part for part in dealt if dealt[part] == number} | set(in_time(touched))
    files = {item.path for item in slow if _part(item) in wanted}
    return [item for item in slow if (_part(item) not in wanted if _part(item) else item.path not in files)]


def in_time(parts: Iterable[str]) -> list[str]:
    """Those of these parts for which there is time: taken in this order, without what is too long for the rest."""
    taken, left = [], SECONDS_FOR_THE_TOUCHED
    for part in parts:
        seconds = SECONDS.get(part, OTHERS_SECONDS)
        if seconds <= left:
            taken.append(part)
            left -= seconds
    return taken


def deal_out(parts: Iterable[str], count: int) -> dict[str, int]:
    """The number of the share that each part is in, from 1: the longest first, each to the share with least to do."""
    dealt, seconds = {}, dict.fromkeys(range(1, count + 1), 0)
    for part in sorted(parts, key=lambda part: (-SECONDS.get(part, OTHERS_SECONDS), part)):
        dealt[part] = min(seconds, key=seconds.__getitem__)
        seconds[dealt[part]] += SECONDS.get(part, OTHERS_SECONDS)
    return dealt


def _part(item: pytest.Item) -> str:
    """What is in one share as a whole. Nothing: a test about whatever the others of its file have run."""
    values = list(item.callspec.params.values()) if hasattr(item, "callspec") else []
    if values and item.path.name in BY_SUBJECT:
        return _name(values[0])
    return "" if item.path.name == ABOUT_THE_OTHERS else item.path.name


def _name(subject: object) -> str:
    return subject.stem if isinstance(subject, Path) else str(getattr(subject, "assignment", subject))
