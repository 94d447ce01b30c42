"""Checks for functions that only compute, whose specification stands in the notebook; and exercise 07b's own checks."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from distlib.checks import CheckFailed
from distlib.checks.questions import check_answers, check_each
from distlib.checks.venues import simulated_only
from distlib.exercises.parameter_server.checks import check_worker_loop
from distlib.exercises.parameter_server.helpers import may_proceed
from tests.remote_functions import in_a_notebook

NOTEBOOK = Path(__file__).parents[2] / "solutions" / "07b_parameter_server" / "07b_parameter_server.py"
CALLS_THE_PLAY = """
from distlib.exercises.parameter_server import plays as servers

def worker_loop(comm, server, parameters, compute, steps):
    inputs = {"server": server, "parameters": parameters, "gradients": []}
    servers.with_workers(comm, None, inputs, lambda k, values=None: 1.0)
"""


def sound(found: list[int], number: int) -> tuple[str, str] | None:
    return None if found[0] > number else (f"{found[0]} is not more.", "add 1.")


def told(check: Any, text: str, name: str, *arguments: Any) -> str:
    with in_a_notebook(text, name) as function, simulated_only():
        try:
            check(function, *arguments)
        except CheckFailed as problem:
            return " ".join(str(problem).split())
    return ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return [number + 1]", ""),
        ("return [number]", "f(3): 3 is not more. Usual cause: add 1."),
        ("return None", "f(3): it returned None. Usual cause: return what the docstring says"),
        ("raise KeyError", "it stopped with an error"),
    ],
)
def test_whatever_is_sound_is_right(body: str, words: str) -> None:
    found = told(check_each, f"def f(number):\n    {body}", "f", sound, [(3,), (5,)])
    assert words in found and bool(words) == bool(found)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return number + 1", ""),
        ("return number", "f(3): it returned a wrong value. expected 4 found 3 Usual cause: add 1."),
        ("return 1 / 0", "ZeroDivisionError: division by zero Usual cause: add 1."),
    ],
)
def test_a_question_has_one_answer_and_a_cause_of_all_others(body: str, words: str) -> None:
    found = told(check_answers, f"def f(number):\n    {body}", "f", ["number"], [((3,), 4, "add 1.")])
    assert words in found and bool(words) == bool(found)


def test_the_plan_in_the_table_of_exercise_07_is_sound_and_the_solution_always_is() -> None:
    text = NOTEBOOK.read_text()
    names: dict[str, Any] = {"math": math}
    for cell in re.findall(r'^# %% (?:readonly="plan"|solution="shard_parameters")\n(.*?)(?=^# %%)', text, re.M | re.S):
        exec(cell, names)
    plan, table = names["sound_plan"], ([(30, 4), (5, 8)], 2, 48)
    assert plan([[(0, 0, 12), (0, 24, 30)], [(0, 12, 24), (1, 0, 5)]], *table) is None
    assert "more than 48 bytes" in plan([[(0, 0, 13), (0, 25, 30)], [(0, 13, 25), (1, 0, 5)]], *table)[0]
    drawn = random.Random(7)
    for servers in range(1, 9):
        sizes = [(drawn.randint(1, 500), drawn.choice([1, 2, 4, 8])) for _ in range(12)]
        assert plan(names["shard_parameters"](sizes, servers, 60), sizes, servers, 60) is None


def test_the_supplied_rule_refuses_a_worker_that_has_left() -> None:
    assert may_proceed({1: 2, 2: 1}, 1, 1) and not may_proceed({1: 2, 2: 1}, 1, 0)
    with pytest.raises(ValueError, match=r"expected one of the workers in clocks, \[1\], got 2"):
        may_proceed({1: 0}, 2, 0)


def test_messages_of_the_play_count_only_where_the_play_speaks_for_a_rank() -> None:
    found = told(lambda f: check_worker_loop(f, steps=[0]), CALLS_THE_PLAY, "worker_loop")
    assert "2 of 3 messages were sent by the library" in found
