"""What hidden tests hand over differs from what visible ones show, in every size: see `tests.given_arguments`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.answer_files import ASSIGNMENTS
from tests.argument_sizes import sizes_of
from tests.given_arguments import fixed_by_the_text, left_as_they_are

ROOT = Path(__file__).parents[1]


def sizes_left(*arguments: str) -> list[str]:
    """The sizes that are in the hidden test as in the visible one. In a process that has no threads."""
    command = [sys.executable, "-m", "tests.given_arguments", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3_590)
    assert done.stderr == ""
    return [line.partition(" |")[0] for line in done.stdout.splitlines()]


def test_the_sizes_of_a_quick_function_differ() -> None:
    assert sizes_left("01b_messages_closer", "scatter") == []


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_every_size_differs_or_is_fixed_by_the_text(assignment: str) -> None:
    """One that the text fixes and that differs now is taken out of the list."""
    assert sorted(sizes_left(assignment, "--left")) == sorted(
        line for line in fixed_by_the_text() if line.startswith(f"{assignment} ")
    )


def test_the_sizes_of_an_argument() -> None:
    found = dict(sizes_of("x", [torch.ones(2, 3), torch.ones(2, 3)]))
    assert found == {"len(x)": 2, "x[].ndim": 2, "x[].shape[0]": 2, "x[].shape[1]": 3}
    assert dict(sizes_of("rate", 0.5)) == {"rate": 0.5} and not dict(sizes_of("shuffle", True))


def test_a_size_is_left_if_the_hidden_test_has_nothing_that_the_visible_one_does_not_show() -> None:
    hidden = {"features": {3.0}, "heads": {2.0, 4.0}, "ranks": {1.0, 2.0}, "third": {5.0}}
    assert left_as_they_are({"features": {3.0}, "heads": {2.0}, "ranks": {1.0, 2.0}}, hidden) == ["features", "ranks"]
