"""Errors keep their cause, in both worlds, and whatever the exception's own code does."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest

from distlib import Communicator, RankError, ResultError, SimulatedWorld, World
from distlib.worlds.exception_text import shortened, whole_text_of

MakeWorld = Callable[[int], World | SimulatedWorld]
HERE = r"test_exception_text\.py, line \d+"


@pytest.fixture(params=["real", "simulated"])
def make_world(request: pytest.FixtureRequest, worlds: Callable[[int], World]) -> MakeWorld:
    return worlds if request.param == "real" else SimulatedWorld


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Unpicklable(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


def from_a_cause(comm: Communicator) -> None:
    try:
        raise KeyError("w")
    except KeyError as error:
        problem = RuntimeError("no weights")
        problem.add_note("look at the checkpoint")
        raise problem from error


def in_an_except_block(comm: Communicator) -> None:
    try:
        raise KeyError("w")
    except KeyError:
        raise RuntimeError("no weights")  # noqa: B904  (this is what is tested)


def from_none(comm: Communicator) -> None:
    try:
        raise KeyError("w")
    except KeyError:
        raise RuntimeError("no weights") from None


def a_group(comm: Communicator) -> None:
    raise ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in it", [OSError("b")])])


def unprintable(comm: Communicator) -> None:
    raise Unprintable


def unpicklable(comm: Communicator) -> None:
    raise Unpicklable(1, 2)


def long(comm: Communicator) -> None:
    raise ValueError("begin " + "x" * 5_000_000 + " end")


TOLD = {
    from_a_cause: rf"RuntimeError: no weights \(caused by KeyError: 'w', {HERE}\)\nlook at the checkpoint",
    in_an_except_block: rf"RuntimeError: no weights \(while handling KeyError: 'w', {HERE}\)",
    from_none: "RuntimeError: no weights",
    a_group: r"ExceptionGroup: two \(2 sub-exceptions\) "
    r"\[ValueError: a; ExceptionGroup: in it \(1 sub-exception\) \[OSError: b\]\]",
    unprintable: r"Unprintable: \(its text can't be shown: its __str__ raised ValueError\)",
    unpicklable: "Unpicklable: it holds a lock",
    long: r"ValueError: begin x+ … \[shortened: 5,000,010 characters in all\] … x+ end",
}


@pytest.mark.parametrize("function", TOLD, ids=lambda function: function.__name__)
def test_what_an_exception_says_reaches_the_notebook(make_world: MakeWorld, function) -> None:
    with pytest.raises(RankError) as caught:
        make_world(2).run(function)
    text = str(caught.value)
    assert re.fullmatch(rf"{HERE}: ranks 0 and 1 raised {TOLD[function]}", text), text[:500]
    assert len(text) < 5_000 and len(caught.value.stack) < 50_000
    assert function.__name__ in caught.value.stack


def test_a_result_whose_pickling_raises_what_can_not_be_printed(worlds) -> None:
    class Odd:
        def __reduce__(self) -> str:
            raise Unprintable

    with pytest.raises(ResultError, match="its __str__ raised ValueError"):
        worlds(1).run(lambda comm: Odd())


def test_causes_without_end_and_groups_of_many_stay_short() -> None:
    one, two = ValueError("one"), TypeError("two")
    one.__cause__, two.__cause__ = two, one
    assert whole_text_of(one).count("one") < 10
    nested: Exception = ValueError("x" * 1000)
    for _ in range(8):
        nested = ExceptionGroup("g", [nested] * 20)
    assert len(whole_text_of(nested)) < 7_000
    assert shortened("short") == "short"


def test_a_connection_that_a_data_loader_has_lost_is_explained() -> None:
    """Torch's DataLoader often has no words of its own for a worker that was killed."""
    names: dict[str, Callable[[], None]] = {}
    source = "def take() -> None:\n    raise ConnectionResetError(104, 'Connection reset by peer')\n"
    for file, is_explained in (("/x/torch/utils/data/dataloader.py", True), ("/x/mine.py", False)):
        exec(compile(source, file, "exec"), names)
        with pytest.raises(ConnectionResetError) as caught:
            names["take"]()
        assert ("a worker of the DataLoader was killed" in whole_text_of(caught.value)) == is_explained
