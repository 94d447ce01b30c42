"""What runs on each rank around a student's function: gates, values that travel, helpers that are supplied."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from distlib.checks import on_a_rank, venues
from distlib.checks.case import Case, Part
from distlib.checks.helpers import all_reduce, ring_all_gather
from distlib.checks.library_calls import could_call
from distlib.checks.plays import calls
from distlib.checks.plays.calls import call
from distlib.checks.plays.gated import Gate
from distlib.checks.plays.plain_values import plain
from distlib.checks.senders import is_own
from distlib.checks.supplied import helper, scope_of, supplied
from distlib.checks.task import task
from distlib.trace import CallSite, Message
from distlib.worlds import pickling
from tests.remote_functions import in_a_notebook

INSIDE_BACKWARD = True


def test_a_gate_lets_time_pass_and_multiplies_the_gradient() -> None:
    part = Part(backward_through_gates, [None, None], seed=5)
    played, _, error = on_a_rank.simulate(None, pickling.pack_call(print, (), {}), part, (), None, 10.0)
    assert error is None
    for rank, each in enumerate(played):
        start = part.delay(rank)
        assert each.gates == [(0, pytest.approx(start + 0.5)), (1, pytest.approx(start + 0.75))]
        assert each.result == pytest.approx(3 * part.factor(rank, 0) * part.factor(rank, 1))
        assert 0.5 <= part.factor(rank, 0) <= 1.5
    assert part.factor(0, 0) != part.factor(1, 0) != part.factor(1, 1)


def backward_through_gates(comm: Any, function: Any, inputs: Any, gate: Any) -> Any:
    """A play: 3 x, with a gate on both sides."""
    x = torch.ones((), requires_grad=True)
    Gate(gate, 0)(3 * Gate(gate, 1)(x)).backward()
    assert x.grad is not None
    return x.grad.item()


def is_watched(comm: Any, function: Any, inputs: Any, gate: Any) -> bool:
    """A play: whether calls of the library are looked for."""
    return sys.getprofile() is not None


def seconds_of(inputs: Any, k: int) -> float:
    """Of the play's gates."""
    return (0.5, 0.25)[k]


@pytest.mark.parametrize(
    ("set_up", "line", "could"),
    [
        ("import math", "math.sqrt(x)", False),
        ("", "x + 1", False),
        ("", "imported_systems", False),
        ("import distlib", "distlib.all_reduce(x)", True),
        ("from distlib import all_reduce", "all_reduce(x)", True),
        ("def helper(x):\n    from distlib.frameworks import jax_ring\n    return jax_ring", "helper(x)", True),
        ("import sys", "sys.modules", True),
        ("", "__import__('dist' + x)", True),
        ("from importlib import import_module as get", "get('dist' + x)", True),
        ("", "eval('all_' + x)", True),
    ],
)
def test_whether_a_function_could_call_the_library(set_up: str, line: str, could: bool) -> None:
    with in_a_notebook(f"{set_up}\n\ndef answer(x):\n    return {line}\n", "answer") as answer:
        assert could_call(answer) == could


@pytest.mark.parametrize(("line", "many", "watched"), [("x", True, False), ("distlib", True, True), ("x", False, True)])
def test_where_calls_are_many_only_a_function_that_could_call_the_library_is_watched(
    monkeypatch: pytest.MonkeyPatch, line: str, many: bool, watched: bool
) -> None:
    monkeypatch.setattr(f"{__name__}.MANY_CALLS", many, raising=False)
    with in_a_notebook(f"def answer(x):\n    return {line}", "answer") as answer:
        packed = pickling.pack_call(answer, (), {})
    played, _, _ = on_a_rank.simulate(None, packed, Part(is_watched, [None], seed=5), (), None, 10.0)
    assert played[0].result == watched


def test_a_class_with_another_name_travels_by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """As jax.Array, which says that it is jaxlib._jax.Array."""
    renamed = type("Renamed", (), {"__module__": __name__, "__qualname__": "elsewhere.Renamed"})
    monkeypatch.setattr(f"{__name__}.Renamed", renamed, raising=False)
    assert pickling.loads(pickling.dumps(renamed)) is renamed


def test_what_travels() -> None:
    import numpy

    tensor = torch.ones(2, requires_grad=True)
    given = {"a": [1, (2.5, None)], 3: numpy.float64(1.5), "t": tensor * 2, "odd": range(3), "n": numpy.int64(4)}
    given["truth"] = numpy.float64(1) < 2  # numpy.bool
    made = plain(given)
    assert isinstance(made, dict)
    assert made.pop("t").equal(torch.tensor([2.0, 2.0]))
    assert made.pop("truth") is True
    assert made == {"a": [1, (2.5, None)], 3: 1.5, "odd": {"type": "range"}, "n": 4}
    assert not tensor.grad_fn and type(made["n"]) is int


def test_helpers_replace_the_names_of_a_class_and_put_them_back() -> None:
    text = "class Mine:\n    @torch.no_grad()\n    def go(self, comm, tensor): return all_reduce(comm, tensor)"
    with in_a_notebook(text, "Mine") as mine:
        before = scope_of(mine)["all_reduce"]
        with supplied(mine, (all_reduce, ring_all_gather)):
            assert scope_of(mine)["all_reduce"] is all_reduce
            assert scope_of(mine)["ring_all_gather"] is ring_all_gather
        assert scope_of(mine)["all_reduce"] is before
        assert "ring_all_gather" not in scope_of(mine)


def test_messages_of_helpers_are_the_students() -> None:
    def message(via: str | None) -> Message:
        site = CallSite("cell 1, line 1", "f", "cell.py", 1, via)
        return Message(0, 1, 0, 4, "float32", (1,), 0.0, 0.0, 0.0, 1, site, site)

    assert all_reduce.origins == ("distlib.checks.helpers.all_reduce", "distlib.collectives.all_reduce")
    assert all(is_own(message(origin), [all_reduce]) for origin in (None, *all_reduce.origins))
    assert not is_own(message("distlib.collectives.broadcast"), [all_reduce])
    assert not is_own(message("distlib.collectives.all_reduce"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("def mean(tensor, comm): ...", "expected comm first and tensor, got tensor, comm"),
        ("def mean(comm, values): ...", "expected comm first and tensor, got comm, values"),
        ("def mean(comm, *tensor): ...", "expected parameters that each have a name"),
    ],
)
def test_a_helper_that_can_not_be_supplied_is_refused_where_it_is_declared(line: str, words: str) -> None:
    names: dict[str, Any] = {}
    exec(line, names)
    with pytest.raises(TypeError, match=words):
        helper(in_place="tensor")(names["mean"])
    with pytest.raises(TypeError, match="expected functions with @helper"):
        task("comm", "tensor", helpers=[names["mean"]])


def test_plays_only_import_what_the_sandbox_has() -> None:
    from distlib.judge.sandbox.contents import library_files

    files = library_files()
    assert "distlib/checks/plays/calls.py" in files
    assert inspect.getsourcefile(call) == str(files["distlib/checks/plays/calls.py"])


def test_temporary_files_of_ranks_that_import_a_framework_go_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "IMPORTED_LATE", ("json",), raising=False)
    case = Case("a case", call, [{}])
    venues._import_on_ranks(1, case)
    path = Path(venues._run_on_ranks(1, "", 60.0, leave_a_file).result[0])
    assert path.exists()
    venues.close_worlds()
    assert not path.exists() and not path.parent.exists()


def leave_a_file(comm: object) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile(delete=False) as file:
        return file.name
