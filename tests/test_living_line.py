"""The line that lives while somebody waits."""

from __future__ import annotations

import io
import sys
import threading
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from distlib import living_line
from distlib.living_line import GONE, line, screen_here, waiting

SINCE = datetime(2030, 11, 2, 21, 47, 2)


class Heard:
    """A screen that remembers."""

    stop = "Ctrl-C"
    room = None

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.is_live = threading.Event()

    def show(self, text: str) -> None:
        self.shown.append(text)
        self.is_live.set()

    def clear(self) -> None:
        self.shown.append("")


def test_what_it_says() -> None:
    assert line("the tests of 02", 12.4, SINCE, 180, "Ctrl-C") == (
        "Waiting for the tests of 02, 12 s since 21:47:02, until 21:50:02 at most. Stop: Ctrl-C"
    )
    cut = line("the tests of 02", 12.4, SINCE, 180, "Ctrl-C", 79)
    assert cut == "the tests of 02, 12 s since 21:47:02, until 21:50:02 at most. Stop: Ctrl-C"
    assert line("the tests of 02", 12.4, SINCE, 180, "Ctrl-C", 70) == cut.replace("tests of 02", "tests …")
    assert ", expected by 21:50:02, it is slow. " in line("the tests of 02", 181, SINCE, 180, "Ctrl-C")
    assert ", without a limit. " in line("the tests of 02", 12.4, SINCE, None, "Ctrl-C")


def test_it_is_there_while_one_waits_and_gone_afterwards() -> None:
    screen = Heard()
    with waiting("a bus", 60, screen, after=0):
        assert screen.is_live.wait(60)
    assert screen.shown[0].startswith("Waiting for a bus, 0 s since ") and screen.shown[-1] == ""
    before = list(screen.shown)
    with waiting("nothing", 60, screen, after=1e6):
        pass
    assert screen.shown == before, "a short wait has no line"


def test_an_error_and_an_interrupt_pass_and_take_the_line_away() -> None:
    for error in (ValueError, KeyboardInterrupt):
        screen = Heard()
        with pytest.raises(error), waiting("a bus", 60, screen, after=0):
            assert screen.is_live.wait(60)
            raise error
        assert screen.shown[-1] == "" and "living line" not in [each.name for each in threading.enumerate()]


def test_of_waits_inside_of_each_other_the_outermost_has_the_line() -> None:
    outer, inner = Heard(), Heard()
    with waiting("a bus", 60, outer, after=0), waiting("its wheel", 60, inner, after=0):
        assert outer.is_live.wait(60)
    assert inner.shown == []
    with waiting("its wheel", 60, inner, after=0):
        assert inner.is_live.wait(60)


def test_in_a_pipe_there_is_none_and_on_a_terminal_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert screen_here() is None
    monkeypatch.setattr(sys, "stderr", None)
    assert screen_here() is None

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    assert screen_here(is_printing=True) is None
    screen = screen_here()
    assert screen is not None and (screen.stop, screen.room) == ("Ctrl-C", 39)
    screen.show("a bus")
    screen.clear()
    assert terminal.getvalue() == "\r\x1b[Ka bus\r\x1b[K"


def test_a_terminal_that_is_gone_ends_no_wait() -> None:
    class Gone(Heard):
        def show(self, text: str) -> None:
            self.is_live.set()
            raise BrokenPipeError

    screen = Gone()
    with waiting("a bus", 60, screen, after=0):
        assert screen.is_live.wait(60)
    assert living_line._one_at_a_time.acquire(blocking=False)
    living_line._one_at_a_time.release()


def test_in_a_notebook_it_is_an_output_of_the_cell_that_shows_nothing_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[tuple[str, Any]] = []
    handle = SimpleNamespace(update=lambda data, raw: said.append(("update", data)))

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Any:
        said.append(("new", data))
        return handle

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("IPython.display.display", display)
    screen = screen_here()
    assert screen is not None and "Interrupt" in screen.stop
    screen.show("1 s")
    screen.show("2 s")
    screen.clear()
    assert said == [("new", {"text/plain": "1 s"}), ("update", {"text/plain": "2 s"}), ("update", GONE)]
