"""`make soak`: what fails in any of the rounds is named and counted, and nothing stays busy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from tests.tools import soak
from tests.tools.midst import wait_until

FAILS_THE_SECOND_TIME = """
import pathlib, pytest

mark = pathlib.Path(__file__).with_name("mark")

@pytest.mark.parametrize("x", [1, 2])
def test_a(x):
    assert x == 1 or not mark.exists()
    if x == 2:
        mark.touch()
"""


@pytest.mark.slow
def test_failures_are_counted_by_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_x.py").write_text(FAILS_THE_SECOND_TIME)
    options = ["-n", "0", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    assert soak.soak(2, 1, options, [str(tmp_path / "test_x.py")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("round")] == [
        "round 1 of 2: 2 tests, no failure",
        "round 2 of 2: 2 tests, test_x::test_a[2]",
    ]
    assert lines[-2:] == ["1 of 2  test_x::test_a[2]", "1 failures in 2 rounds, beside 1 busy processes"]
    assert [child for child in psutil.Process().children() if soak._BUSY in child.cmdline()] == []


@pytest.mark.slow
def test_a_run_that_breaks_off_is_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert soak.run_once([], ["--no-such-option"]) == (0, ["pytest itself: status 4"])


def test_a_process_stands_still_and_goes_on() -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        process = psutil.Process(sleeper.pid)
        with soak.pauses(0.1):
            wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "it stands still")
        assert process.status() != psutil.STATUS_STOPPED
        sleeper.kill()


def test_its_parts_exist() -> None:
    assert [part for part in soak.PARTS if not (soak.ROOT / part).exists()] == []
