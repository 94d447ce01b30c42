"""Checks by scenario: functions with models, classes, functions that only compute; in a notebook and by the judge."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from distlib import SimulatedWorld
from distlib.checks.plays.calls import call
from distlib.checks.plays.gated import Gate
from distlib.checks.plays.plain import plain
from distlib.checks.supplied import helper_named, helper_origins, scope_of, supplied
from distlib.grading import (
    CheckFailed,
    Example,
    check_returns,
)
from distlib.grading.return_checks import same
from distlib.grading.scenario_case import Part
from distlib.grading.scenario_side import simulate_play
from distlib.grading.specification import is_own
from distlib.trace import CallSite, Message
from tests.remote_functions import PLACES, in_a_notebook, on_remote_ranks

pytestmark = pytest.mark.timeout(120)

Place = Callable[[str, str], AbstractContextManager[Callable[..., Any]]]


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: pytest.FixtureRequest) -> Place:
    """In a notebook, then on remote ranks."""
    found: Place = request.param
    return found


def told(check: Callable[..., Any], function: Callable[..., Any], **options: Any) -> str:
    """What a student is told, on one line; empty if everything is right."""
    try:
        check(function, **options)
    except CheckFailed as error:
        return " ".join(str(error).split())
    return ""


# ── functions that only compute ──────────────────────────────────────────────────────────────────────────────────────


def halves(function: Callable[..., Any]) -> str:
    """What is told about a function that should return n halves."""
    examples = [Example((1,), [0.5]), Example((2,), [0.5, 0.5], causes=[([0.5], "one is missing.")])]
    return told(check_returns, function, arguments=("n",), examples=examples, cause=lambda example, found: "no idea.")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return [0.5] * n", ""),
        ("return (0.5,) * n", ""),
        (
            "return [0.5]",
            "f(2): it returned a wrong value. expected [0.5, 0.5] found [0.5] Usual cause: one is missing.",
        ),
        ("return [1] * n", "f(1): it returned a wrong value. expected [0.5] found [1] Usual cause: no idea."),
        ("pass", "f(1): it returned None; expected [0.5]."),
        ("return map(float, [0.5] * n)", "found a value of type map"),
        ("return 1 / 0", "ZeroDivisionError"),
        ("raise NotImplementedError()", "it is not written yet"),
        ("import os; os._exit(2)", "exited with code 2"),
    ],
)
def test_a_function_that_computes(body: str, words: str) -> None:
    with in_a_notebook(f"def f(n):\n    {body}", "f") as function:
        seen = halves(function)
    assert words in seen and bool(words) == bool(seen)


@pytest.mark.parametrize("body", ["return [0.5] * n", "return map(float, [0.5] * n)"])
def test_the_judge_says_the_same_of_it(body: str) -> None:
    text = f"def f(n):\n    {body}"
    with in_a_notebook(text, "f") as here, on_remote_ranks(text, "f") as there:
        assert halves(here) == halves(there)


def test_a_function_of_the_library_does_not_count() -> None:
    text = "from distlib.partition import chunk_lengths\ndef f(n): return chunk_lengths(n, 2)"
    with in_a_notebook(text, "f") as function:
        seen = told(check_returns, function, arguments=("n",), examples=[Example((4,), [2, 2])])
        assert "it calls distlib.partition.chunk_lengths, a function of the library" in seen
        same_one = function.__globals__["chunk_lengths"]  # type: ignore[attr-defined]
    seen = told(check_returns, same_one, arguments=("length", "parts"), examples=[Example((4, 2), [2, 2])])
    assert "it calls distlib.partition.chunk_lengths" in seen


def test_what_is_the_same() -> None:
    one = torch.tensor([1.0, 2.0])
    assert same(one + 1e-9, one) and same({"a": (1,)}, {"a": [1]}) and same(0.1 + 0.2, 0.3) and same(1, 1.0)
    for wrong in (one.double(), one[:1], [1.0, 2.0], None, torch.tensor([1.0, float("nan")])):
        assert not same(wrong, one)
    assert not same(True, 1) and not same([1], [1, 1]) and not same("1", 1.0) and not same({}, {"a": 1})


# ── the machinery ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gate_lets_time_pass_and_multiplies_the_gradient() -> None:
    part = Part(backward_through_gates, [None, None], seed=5, apart=0.0)
    world = SimulatedWorld(1)
    played, _, error = world.run(simulate, part)[0]
    assert error is None
    assert [each.gates for each in played] == [((0, 0.5), (1, 0.75))] * 2
    for rank, each in enumerate(played):
        assert each.result == pytest.approx(3 * part.factor(rank, 0) * part.factor(rank, 1))
        assert 0.5 <= part.factor(rank, 0) <= 1.5
    assert part.factor(0, 0) != part.factor(1, 0) != part.factor(1, 1)


def simulate(comm: Any, part: Part) -> Any:
    """Play a part on simulated ranks, here."""
    from distlib.worlds import pickling

    return simulate_play(comm, pickling.pack_call(print, (), {}), part, (), None, 10.0)


def backward_through_gates(comm: Any, function: Any, inputs: Any, gate: Any) -> Any:
    """A scenario: 3 x, with a gate on both sides."""
    x = torch.ones((), requires_grad=True)
    Gate(gate, 0, 0.5)(3 * Gate(gate, 1, 0.25)(x)).backward()
    assert x.grad is not None
    return x.grad.item()


def test_what_travels() -> None:
    import numpy

    tensor = torch.ones(2, requires_grad=True)
    given = {"a": [1, (2.5, None)], 3: numpy.float64(1.5), "t": tensor * 2, "odd": range(3), "n": numpy.int64(4)}
    made = plain(given)
    assert isinstance(made, dict)
    assert made.pop("t").equal(torch.tensor([2.0, 2.0]))
    assert made == {"a": [1, (2.5, None)], 3: 1.5, "odd": {"type": "range"}, "n": 4}
    assert not tensor.grad_fn and type(made["n"]) is int


def test_helpers_replace_the_names_of_a_class_and_put_them_back() -> None:
    text = "class Mine:\n    @torch.no_grad()\n    def go(self, comm, tensor): return all_reduce(comm, tensor)"
    with in_a_notebook(text, "Mine") as mine:
        before = scope_of(mine)["all_reduce"]
        with supplied(mine, ("all_reduce", "gated.Gate")):
            assert scope_of(mine)["all_reduce"] is helper_named("all_reduce")
            assert scope_of(mine)["Gate"] is Gate
        assert scope_of(mine)["all_reduce"] is before
        assert "Gate" not in scope_of(mine)


def test_messages_of_helpers_are_the_students() -> None:
    def message(via: str | None) -> Message:
        site = CallSite("cell 1, line 1", "f", "cell.py", 1, via)
        return Message(0, 1, 0, 4, "float32", (1,), 0.0, 0.0, 0.0, 1, site, site)

    origins = helper_origins("all_reduce")
    assert origins == ("distlib.checks.supplied.all_reduce", "distlib.collectives.all_reduce")
    assert all(is_own(message(origin), ("all_reduce",)) for origin in (None, *origins))
    assert not is_own(message("distlib.collectives.broadcast"), ("all_reduce",))
    assert not is_own(message("distlib.collectives.all_reduce"))


def test_scenarios_only_import_what_the_sandbox_has() -> None:
    from distlib.judge.sandbox.contents import library_files

    files = library_files()
    assert "distlib/checks/plays/calls.py" in files
    assert inspect.getsourcefile(call) == str(files["distlib/checks/plays/calls.py"])
