"""TensorFlow and JAX are fetched when they are first needed. Here pip is a stand-in that installs nothing."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import tqdm.auto
from packaging.requirements import Requirement

from distlib.cli import main
from distlib.frameworks import fetch, on_demand
from distlib.installed_packages import versions_here

STAND_IN = """#!/bin/sh
for word in "$@"; do test -f "$word" && cp "$word" {folder}/constraints; done
echo "$@" >> {folder}/calls
echo "Collecting tensorflow-cpu<2.22"
echo "  Downloading tensorflow_cpu-2.21.whl (257 MB)"
echo "Progress 1000 of 257000000"
echo "WARNING: of no interest"
echo "No space left"
exit {status}
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python whose pip writes down how it was called, in a folder in which no framework is."""
    write(tmp_path, status=0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(on_demand, "is_there", lambda name: False)
    return tmp_path


def write(folder: Path, status: int, text: str = STAND_IN) -> None:
    (folder / "python").write_text(text.format(folder=folder, status=status))
    (folder / "python").chmod(0o755)


def test_it_installs_what_the_course_asks_for_and_keras_alone(
    stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not on_demand.requirements("tensorflow"):
        pytest.skip("there is no TensorFlow for this Python")
    fetch("tensorflow")
    first, second = (stand_in / "calls").read_text().splitlines()
    assert Requirement(first.split()[-1]).name in ("tensorflow", "tensorflow-cpu")
    assert second.endswith("--no-deps tf-keras")
    assert (
        capsys.readouterr().out
        == "TensorFlow, 1.5 GB on the disk, is fetched now. This happens once, and takes some minutes.\n"
    )


WITH_STEPS = """#!/bin/sh
echo "Collecting jax"
echo "  Downloading jax-0.10.2-py3-none-any.whl (2 MB)"
echo "Progress 0 of 2000000"
echo "Progress 500000 of 2000000"
echo "Installing collected packages: jax"
cat {folder}/until_seen
"""


def test_the_bar_tells_bytes_where_pip_does_and_else_that_time_goes_on(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip installs, and says nothing, until the bar has been drawn five times since."""
    write(stand_in, status=0, text=WITH_STEPS)
    os.mkfifo(stand_in / "until_seen")
    drawn: list[str] = []

    class Bar(tqdm.auto.tqdm):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            clock = itertools.count()
            self._time = lambda: next(clock)  # a second later, each time that it is asked

        def refresh(self, *how: Any, **more: Any) -> None:
            drawn.append(str(self))
            if [line.partition(":")[0] for line in drawn[-5:]] == ["Installing"] * 5 and fifo:
                os.close(fifo.pop())

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    monkeypatch.setattr(on_demand, "TICK", 0.01)
    fifo = [os.open(stand_in / "until_seen", os.O_RDWR)]
    fetch("jax")
    in_bytes = [line for line in drawn if "B/s" in line]
    assert "500k/2.00M" in in_bytes[-1] and all(line.startswith("Downloading jax-0.10.2:") for line in in_bytes)
    installing = [line for line in drawn if line.startswith("Installing")]
    assert len(set(installing)) == len(installing) >= 5 and all(
        re.fullmatch(r"\w+: 00:\d\d", line) for line in installing
    )


def test_what_is_here_keeps_its_version(stand_in: Path) -> None:
    fetch("jax")
    lines = (stand_in / "constraints").read_text().splitlines()
    assert [line for line in lines if re.match("torch==", line)] != []
    names = [line.partition("==")[0] for line in lines]
    assert len(set(names)) == len(names) and on_demand.COURSE not in names
    assert ("jax" in names) == ("jax" not in versions_here())  # pip chooses a newer one; a first one is the course's


def test_a_pip_that_fails_is_told_with_what_to_do(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(stand_in, status=1)
    with pytest.raises(ImportError, match=r"(?s)could not fetch jax\. .*distlib fetch jax.*No space left$"):
        fetch("jax")
    assert main(["fetch", "jax"]) == 1
    assert "No space left" in capsys.readouterr().err


def test_what_is_there_is_not_fetched(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "is_there", lambda name: True)
    assert main(["fetch", "jax"]) == 0
    assert not (stand_in / "calls").exists()


def test_where_its_makers_have_none_it_says_so(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "requirements", lambda extra: [])
    monkeypatch.setattr("distlib.frameworks.optional.is_there", lambda name: False)
    with pytest.raises(ImportError, match="if there is one for Python"):
        fetch("jax")
    assert not (stand_in / "calls").exists()


def test_another_name_is_told() -> None:
    with pytest.raises(ValueError, match="expected 'tensorflow' or 'jax', got 'torch'"):
        fetch("torch")
