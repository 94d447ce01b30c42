"""TensorFlow and JAX come when somebody opens their lesson. The environment begins without them: 1.9 GB less.

    fetch("tensorflow")        in the first cell of lessons 13 and 13b
    distlib fetch jax          the same from a terminal

pip installs what `pyproject.toml` names as the extra of that name. Everything that is here already keeps its version.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from packaging.requirements import Requirement
from packaging.version import Version

from distlib.frameworks.optional import check_there, is_there
from distlib.installed_packages import canonical, constraints, versions_here

COURSE = "distlib-course"
FETCHED = {"tensorflow": "TensorFlow, 1.5 GB on the disk", "jax": "JAX, 0.4 GB on the disk"}
# Asks for "tensorflow" by name, which on a PC is the package for GPUs. So it comes by itself, without what it asks for.
ALONE = {"tensorflow": ("tf-keras",)}
OPTIONS = ("--disable-pip-version-check", "--no-input")
TELLS_BYTES = Version("24.1")  # of pip: from here on it says how many bytes have come, and of how many
STEPS = ("Collecting", "Downloading", "Installing")  # the first words of lines of pip's that begin one
TICK = 1.0  # seconds: so often the bar shows the time while pip says nothing
TIME_ALONE = "{desc}{elapsed}"  # tqdm's format for a step of which nobody knows how long it takes
LINES_OF_PIP = 3  # of an error


def fetch(name: str) -> None:
    """Install a framework, "tensorflow" or "jax", unless it is there. Shows how far it is.

    Raises:
        ValueError: another name.
        ImportError: its makers have none for this Python, or pip can't get it. Says what to do.
    """
    if name not in FETCHED:
        raise ValueError(f"fetch expected {' or '.join(map(repr, FETCHED))}, got {name!r}")
    if is_there(name):
        return
    wanted = requirements(name)
    if not wanted:
        check_there(name)  # says that there is none
    print(f"{FETCHED[name]}, is fetched now. This happens once, and takes some minutes.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "constraints.txt")
        here, coming = versions_here(), {COURSE, *(canonical(Requirement(each).name) for each in wanted)}
        file.write_text("\n".join(constraints(here, coming, free=coming & here.keys())), encoding="utf-8")
        _pip(name, ["-c", str(file), *wanted])
        if name in ALONE:
            _pip(name, ["-c", str(file), "--no-deps", *ALONE[name]])
    importlib.invalidate_caches()


def requirements(extra: str) -> list[str]:
    """What this extra of the course asks for on this machine, as pip reads it."""
    every = [Requirement(each) for each in importlib.metadata.requires(COURSE) or ()]
    return [f"{each.name}{each.specifier}" for each in every if _is_of(each, extra) and not _is_of(each, "")]


def _is_of(requirement: Requirement, extra: str) -> bool:
    """Whether it is asked for with this extra, on this machine."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _pip(name: str, arguments: Sequence[str]) -> None:
    """`pip install` with these arguments, and a bar that shows what it does.

    Raises:
        ImportError: it fails.
    """
    bar = "raw" if Version(importlib.metadata.version("pip")) >= TELLS_BYTES else "off"
    process = subprocess.Popen(
        [sys.executable, "-m", "pip", "install", *OPTIONS, "--progress-bar", bar, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        try:
            assert process.stdout
            lines = _shown(process.stdout)
        except BaseException:  # an interrupt of the kernel, too: pip has installed nothing before its last step
            process.kill()
            raise
    if process.returncode:
        reason = "\n".join(lines[-LINES_OF_PIP:])
        raise ImportError(
            f"pip could not fetch {name}. Is this machine on the internet, and can you write to {sys.prefix}? "
            f"To try again: run this cell again, or `distlib fetch {name}`. pip says:\n{reason}",
            name=name,
        )


def _shown(pipe: IO[bytes]) -> list[str]:
    """Draw pip's steps while it works: a bar where it tells bytes, else the time. Returns what it has said besides."""
    from tqdm.auto import tqdm

    said = []
    with tqdm(unit="B", unit_scale=True, leave=False, desc="pip: ", bar_format=TIME_ALONE) as bar:
        for line in _lines(pipe):
            words = line.split()
            if words[:1] == ["Progress"]:  # Progress 1048576 of 257000000
                _show_bytes(bar, int(words[1]), int(words[3]))
            elif words and words[0] in STEPS:
                bar.set_description(_step(words), refresh=False)
                bar.total, bar.bar_format = None, TIME_ALONE
                bar.reset()  # its clock, too
            elif words and not line.startswith("WARNING:"):
                said.append(line.rstrip())
            bar.refresh()
    return said


def _step(words: Sequence[str]) -> str:
    """A line of pip's that begins a step, short: of a file, "Downloading jax-0.10.2"."""
    if words[0] == "Downloading":
        return f"{words[0]} {'-'.join(words[1].split('-')[:2])}"
    return words[0] if words[0] == "Installing" else " ".join(words[:2])


def _show_bytes(bar: Any, come: int, total: int) -> None:
    """Let tqdm's bar show how much of a file has come. The first time it gets its length."""
    if bar.total != total:
        bar.bar_format = None
        bar.reset(total)
    bar.n = come


def _lines(pipe: IO[bytes]) -> Iterator[str]:
    """What comes through a pipe, a line at a time, and an empty one for each `TICK` in which nothing comes."""
    begun = b""
    while True:
        if not select.select([pipe], [], [], TICK)[0]:
            yield ""
            continue
        piece = os.read(pipe.fileno(), 1 << 16)
        *lines, begun = (begun + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
        if not piece:
            yield begun.decode(errors="replace")
            return
