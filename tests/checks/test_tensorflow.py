"""Exercise 13: what its declarations need, what a refusal must name, and what travels to a rank for AutoGraph."""

from __future__ import annotations

import linecache
import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

from distlib.checks import on_a_rank
from distlib.checks.case import Part
from distlib.checks.formatting import count
from distlib.checks.plays.calls import attempt, call
from distlib.checks.task import Draw
from distlib.checks.venues import pack
from distlib.exercises.tensorflow import checks as exercise
from distlib.exercises.tensorflow.checks import Pipeline, Shares, check_global_batch_loss
from distlib.frameworks import optional
from distlib.worlds import call_site


@pytest.mark.slow
def test_the_declarations_and_plays_are_there_without_tensorflow() -> None:
    program = "import sys, distlib.exercises.tensorflow.checks; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "False\n", done.stdout + done.stderr


def test_a_check_says_that_tensorflow_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "is_there", lambda name: False)
    with pytest.raises(ImportError, match="tensorflow is not installed"):
        check_global_batch_loss(print, batches=[Shares([1])])


@pytest.mark.parametrize(
    ("hosts", "role", "index", "named"),
    [
        ({"worker": ["a:1"]}, "worker", 0, None),
        ({"worker": ["a:1"], "ps": []}, "worker", 0, None),
        ({"worker": ["a:1"]}, "worker", 1, "1"),
        ({"worker": ["a:1"]}, "worker", -1, "-1"),
        ({"worker": ["a:1"], "ps": []}, "ps", 0, "ps"),
        ({"worker": ["a:1"]}, "master", 0, "master"),
        ({"worker": ["a:1"], "ps": ["a:1"]}, "worker", 0, "a:1"),
        ({"worker": [":1"]}, "worker", 0, ":1"),
        ({"worker": ["a:65536"]}, "worker", 0, "a:65536"),
        ({"worker": ["http://a:1"]}, "worker", 0, "http://a:1"),
        ({"chief": ["a:1", "b:1"]}, "chief", 0, "chief"),
    ],
)
def test_what_is_refused(hosts: Mapping[str, Sequence[str]], role: str, index: int, named: str | None) -> None:
    refusal = exercise._refusal(hosts, role, index)
    assert (refusal and refusal[0]) == named


def test_drawn_clusters_are_right() -> None:
    draw = Draw(5)
    assert all(exercise._refusal(*exercise._drawn_task(draw)) is None for _ in range(200))


def test_the_steps_and_shares_of_a_pipeline() -> None:
    plan = Pipeline(samples=13, num_workers=3, global_batch_size=6)
    assert (plan.steps, plan.share) == (3, 2)


def test_a_value_error_is_a_result() -> None:
    def refuse(number: int) -> int:
        if number:
            raise ValueError(f"not {number}")
        return 7

    given = [{"args": [number], "kwargs": {}} for number in (0, 3)]
    assert attempt(None, refuse, given[0], None) == {"returned": 7, "args": [0]}  # type: ignore[arg-type]
    assert attempt(None, refuse, given[1], None) == {"refused": "not 3", "args": [3]}  # type: ignore[arg-type]


def test_a_result_comes_with_the_arguments_as_they_are_then() -> None:
    given = {"args": [{"a": []}], "kwargs": {}}
    assert attempt(None, dict.clear, given, None)["args"] == [{}]  # type: ignore[arg-type]


def test_batches_are_counted_in_english() -> None:
    assert [count(number, "batch") for number in (1, 3)] == ["1 batch", "3 batches"]


def test_cells_travel_where_the_notebook_has_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(call_site.cell_numbers, "<cell 3>", 3)
    monkeypatch.setitem(linecache.cache, "<cell 3>", (4, None, ["a\n", "b\n"], "<cell 3>"))
    without = pack(print, ())
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    packed = pack(print, ())
    assert len(packed) > len(without)
    linecache.cache.pop("<cell 3>")
    part = Part(call, [{"args": [], "kwargs": {}}], seed=1)
    _, _, error = on_a_rank.simulate(None, packed, part, (), None, 10.0)
    assert error is None and linecache.getlines("<cell 3>") == ["a\n", "b\n"]
    linecache.cache.pop("<cell 3>")


def test_what_tensorflow_writes_is_not_the_students() -> None:
    assert not call_site.is_own_file("/tmp/__autograph_generated_filez1.py")
    assert call_site.is_own_file("/tmp/ipykernel_1/2.py")
