"""The tests of graded functions notice right answers that a machine has changed: see `tests.mutants`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.answer_files import ASSIGNMENTS
from tests.mutants import explained
from tests.mutations import NOTED, Noted, Site, mutants_of, noting

ROOT = Path(__file__).parents[1]
BY_CHANCE = (
    "19_capstone",
    "19b_budget",
)  # whether a changed training still reaches its target differs from processor to processor
QUICK = "01_messages", "shift"  # of which a mutant keeps all marks, and should


def survivors(*arguments: str) -> tuple[str, list[str]]:
    """What the command says of the mutants that lose marks, and those that don't. In a process that has no threads."""
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3_590)
    assert done.stderr == ""
    counts, _, found = done.stdout.partition("\n\n")
    return counts, found.splitlines()


def test_the_mutants_of_a_quick_function_lose_marks_or_are_explained() -> None:
    counts, found = survivors(*QUICK, "--all")
    assert " mutants, " in counts
    assert found == [line for line in explained() if line.startswith(f"{' '.join(QUICK)}/")]


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("assignment", [name for name in ASSIGNMENTS if name not in BY_CHANCE])
def test_the_mutants_of_an_exercise_lose_marks_or_are_explained(assignment: str) -> None:
    """A few of each function's. All of them take minutes to an hour: `make answers ARGS="--mutants 05_ddp"`."""
    _, found = survivors(assignment, "--all", "--most", "6")
    assert set(found) <= set(explained())


def changes(text: str, *arguments: object) -> set[str]:
    """What becomes of the value that a function `f` returns, when it is called once before."""
    before = text.partition("return ")[0] + "return "
    return {each.text.removeprefix(before).rstrip() for each in mutants_of(text, noted(text, *arguments))}


def test_a_size_becomes_the_number_that_it_was_and_a_shape_in_each_dimension() -> None:
    assert "(3)" in changes("def f(x):\n    return len(x)\n", [0, 0, 0])
    found = changes("def f(x):\n    return torch.empty(x.shape)\n", torch.ones(2, 5))
    assert {
        "torch.empty((*(x.shape)[:1], 5, *(x.shape)[2:]))",
        "torch.empty((*(x.shape)[:0], 2, *(x.shape)[1:]))",
    } <= found
    assert "torch.empty((x).shape)" in changes("def f(x):\n    return torch.empty_like(x)\n", torch.ones(2))
    assert "torch.float32" in changes("def f(x):\n    return x.dtype\n", torch.ones(2))


def test_a_loop_ends_after_as_many_turns_as_it_had() -> None:
    found = changes("def f(x):\n    return [y for y in x]\n", [7, 8])
    assert found == {"[y for y in __import__('itertools').islice(x, 2)]", "[y for y in [*(x)][:-1]]"}
    text = "def f(n):\n    while n:\n        n -= 1\n    return n\n"
    (program,) = [each for each in mutants_of(text, noted(text, 3)) if "[True] * 3" in each.text]
    namespace: dict[str, object] = {}
    exec(program.text, namespace)
    assert [namespace["f"](n) for n in (2, 3, 5)] == [0, 0, 2]  # type: ignore[operator]


def noted(text: str, *arguments: object) -> dict[Site, Noted]:
    """What is noted of a function `f` that is called once."""
    NOTED.clear()
    namespace: dict[str, object] = {"torch": torch}
    exec(noting(text), namespace)
    namespace["f"](*arguments)  # type: ignore[operator]
    return dict(NOTED)


def test_divisors_indices_signs_and_comparisons_change_by_one() -> None:
    assert {"(x)", "x / (4)", "x / (2)"} <= changes("def f(x):\n    return x / 3\n", 1)
    assert {"x[(2)]", "x[(0)]"} <= changes("def f(x):\n    return x[1]\n", [0, 1])
    assert "((x) - (y))" in changes("def f(x, y):\n    return x + y\n", 1, 2)
    assert "(x) <= (y)" in changes("def f(x, y):\n    return x < y\n", 1, 2)
