"""The place is the student's line: a property of all diagnoses, in every world. No line of a library is named."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping

import pytest

from distlib import RankError, SimulatedWorld, World
from tests.tools import situations
from tests.tools.launched import LauncherForkServer

FILE = os.path.basename(situations.__file__)
PLACE = re.compile(r"([\w.<>-]+), line (\d+)")
CASES = {**situations.QUICK, **situations.ON_PROCESSES}


def lines_of(name: str) -> range:
    """The lines of a situation's function, with that of its decorator, at which Python lets it begin."""
    tables = {**CASES, **situations.LATE, **situations.GONE}
    lines, first = inspect.getsourcelines(tables[name])
    return range(first, first + len(lines))


def wrong_places(name: str, text: str) -> list[str]:
    """The places in a diagnosis that are not in the situation's function; or that there is none."""
    named = PLACE.findall(text)
    return [f"{name}: {text}"] * (
        not named or any(file != FILE or int(line) not in lines_of(name) for file, line in named)
    )


def diagnoses(world: World | SimulatedWorld, names: Iterable[str], timeout: float) -> Iterable[tuple[str, RankError]]:
    for name in names:
        function: Callable[..., object] = {**CASES, **situations.LATE, **situations.GONE}[name]
        with pytest.raises(RankError) as caught:
            world.run(function, timeout=timeout)
        yield name, caught.value


def check(world: World | SimulatedWorld, table: Mapping[str, object], timeout: float = 100) -> None:
    wrong = []
    for name, error in diagnoses(world, table, timeout):
        wrong += wrong_places(name, str(error))
        if error.site is None or not error.site.file.endswith(FILE) or error.site.line not in lines_of(name):
            wrong.append(f"{name}: at {error.site}")
    assert wrong == []


def test_on_processes() -> None:
    with World(2, on_output=lambda rank, stream, text: None) as world:
        check(world, CASES)


def test_in_simulated_time() -> None:
    names = {name: each for name, each in situations.QUICK.items() if name != "nobody_receives"}
    check(SimulatedWorld(2), names)
    check(SimulatedWorld(2), {"nobody_receives": None})


@pytest.mark.slow
def test_at_a_time_limit(worlds: Callable[[int], World]) -> None:
    check(worlds(2), situations.LATE, timeout=3)


def test_where_a_process_ends(worlds: Callable[[int], World]) -> None:
    check(worlds(2), situations.GONE)


def test_a_crash_is_told_in_one_sentence_with_its_stack_apart(capfd: pytest.CaptureFixture[str]) -> None:
    with World(2) as world, pytest.raises(RankError) as caught:
        world.run(situations.reads_at_zero, timeout=100)
    assert re.fullmatch(
        rf"{FILE}, line \d+: rank 1 ended in the middle of the run: its process was killed by signal 11\."
        r"( Rank 0 waited for it\.)?",
        str(caught.value),
    )
    assert "in reads_at_zero" in caught.value.stack
    assert "Fatal Python error" not in "".join(capfd.readouterr())


def test_a_thread_that_waits_ends_with_its_run(worlds: Callable[[int], World]) -> None:
    world = worlds(2)
    for _ in range(3):
        with pytest.raises(RankError, match=rf"^{FILE}"):
            world.run(situations.in_a_thread, timeout=100)
        with pytest.raises(RankError) as caught:
            world.run(situations.one_does_not_call, timeout=100)
        assert wrong_places("one_does_not_call", str(caught.value)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a_thread_of_the_library", "in_context_manager", "too_few_arguments", "sizes_differ"])
def test_on_ranks_that_are_started(name: str, tmp_path: str) -> None:
    with LauncherForkServer(tmp_path) as launcher:  # type: ignore[arg-type]
        launched = launcher.srun(f"{situations.__file__}:inside", name, nodes=1)
    allowed = {*lines_of(name), *lines_around(situations.inside)}
    places = PLACE.findall(launched.err)
    assert places and all(file == FILE and int(line) in allowed for file, line in places), launched.err


def lines_around(function: Callable[..., object]) -> range:
    lines, first = inspect.getsourcelines(function)
    return range(first, first + len(lines))
