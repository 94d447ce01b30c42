"""Processes of a class's commands and of a World are killed at random moments, and then everything is looked at.

    python -m tests.tools.kills                     300 kills, in half an hour
    python -m tests.tools.kills 60                  fewer
    python -m tests.tools.kills 60 grade same       of some commands only
    python -m tests.tools.kills --seed 7            other moments

Root gives it, because it has a shared memory of its own. After a kill the command is given once more. Then the class
must be as it is where nothing was killed, but for what differs in two such classes, too, and no process and nothing in
shared memory may be left. A World whose rank or fork server is killed must end, with its results or with an error.
Prints a line for each command. The status is 0 if nothing was lost.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkProcess
from pathlib import Path

import psutil

from distlib.cli import main as command_line
from tests.classroom.test_collect import put_zip, work
from tests.classroom.test_grade import dump
from tests.classroom.test_merge_students import ROSTER
from tests.tools.midst import becomes_so
from tests.tools.tiny_course import NAME, RIGHT, TinyCourse, make_tiny_course

FORK = multiprocessing.get_context("fork")
SHARED_MEMORY = Path("/dev/shm")
TORN = re.compile(r"\..+\.[0-9a-f]{8}\.new")  # a file that was being written; it goes with a later one
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d")  # in the name of a folder
MARK = "DISTLIB_KILLS"  # in the environment of everything that one command starts
PRIVATE = "DISTLIB_KILLS_PRIVATE"
PATIENCE = 150.0  # seconds, until what was killed or lost a process must have ended
WRONG = {"double": "def double(x):\n    return 4"}
RANKS = """
import torch
from distlib import World, all_reduce
if __name__ == "__main__":
    with World(3) as world:
        for turn in range(40):
            world.run(lambda comm: [all_reduce(comm, torch.ones(1000)) for _ in range(5)], timeout=60)
"""


@dataclass(frozen=True)
class Command:
    """What is killed. Its `words` are those of `distlib`; without any it is a program with ranks.

    Attributes:
        below: whether a process below the command's own is killed.
        prepare: brings a new course to where the command is given.
    """

    words: Sequence[str]
    below: bool
    prepare: Callable[[TinyCourse], None] = lambda course: None


def hand_in(course: TinyCourse) -> None:
    """Six students, of whom one has two names."""
    (course.root / "classroom" / "students.csv").write_text(ROSTER)
    for number, student in enumerate(("s1", "s2", "section-3-ana-souza", "s4", "s5", "s6")):
        answers = {**RIGHT, **(WRONG if number % 2 else {})}
        course.hand_in(student, answers, timestamp=f"2026-01-0{number + 1} 10:00 UTC")


def graded(course: TinyCourse) -> None:
    hand_in(course)
    assert run(course, ["grade", NAME]) == 0


def uploaded(course: TinyCourse) -> None:
    """Three of eight have handed in before."""
    students = [f"s{number}" for number in range(1, 9)]
    roster = "".join(f"{each},Name {each},Family,{each}@x.org\n" for each in students)
    (course.root / "classroom" / "students.csv").write_text(f"id,first_name,last_name,email\n{roster}")
    for each in students[:3]:
        course.hand_in(each, WRONG, timestamp="2025-01-01 10:00 UTC")
    put_zip(course, {f"{each}/{NAME}.ipynb": work(course, f"\n# of {each}") for each in students})


COMMANDS = {
    "collect": Command(["collect", NAME, "all.zip"], False, uploaded),
    "grade": Command(["grade", NAME], False, hand_in),
    "below grade": Command(["grade", NAME], True, hand_in),
    "same": Command(["class", "same", "section-3-ana-souza", "s3"], False, graded),
    "export": Command(["export", NAME, "--format", "moodle", "--provisional"], False, graded),
    "below World": Command([], True),
}


def start(course: TinyCourse, words: Sequence[str], mark: str = "") -> ForkProcess:
    """A process of its own for a command. It is a fork, because all that it imports takes seconds."""
    process = FORK.Process(target=_become, args=(course, words, mark))
    process.start()
    return process


def _become(course: TinyCourse, words: Sequence[str], mark: str) -> None:
    os.chdir(course.root)
    os.environ[MARK] = mark
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    if words:
        sys.exit(command_line([*words]))
    os.execv(sys.executable, [sys.executable, "ranks.py"])


def run(course: TinyCourse, words: Sequence[str]) -> int:
    process = start(course, words)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def state(course: TinyCourse) -> dict[str, object]:
    """All files of a class, and the gradebook."""
    classroom = course.root / "classroom"
    found: dict[str, object] = {
        TIME.sub("then", str(path.relative_to(classroom))): path.read_bytes()
        for path in sorted(classroom.rglob("*"))
        if path.is_file() and not (path.name.startswith("gradebook.db") or TORN.fullmatch(path.name))
    }
    return {**found, "gradebook": dump(course) if course.gradebook.exists() else None}


def marked(mark: str) -> Iterator[psutil.Process]:
    """The processes that a command has started, and that are there."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def kill_once(course: TinyCourse, command: Command, moment: float, draw: random.Random) -> list[str]:
    """Give a command and kill one of its processes after so many seconds. What has gone wrong by that."""
    mark, before = uuid.uuid4().hex, {*SHARED_MEMORY.iterdir()}
    process = start(course, command.words, mark)
    assert process.pid is not None
    time.sleep(moment)
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):  # it may have ended
        own = psutil.Process(process.pid)
        below = own.children(recursive=True)
        (draw.choice(below) if command.below and below else own).kill()
    wrong = []
    process.join(PATIENCE)
    if process.is_alive():
        wrong.append("it does not end")
        process.kill()
        process.join()
    if not becomes_so(lambda: not any(marked(mark)) and not any(map(_is_there, below)), 30.0):
        wrong.append("a process is left")
    if left := [each for each in SHARED_MEMORY.iterdir() if each not in before]:
        wrong.append(f"{', '.join(each.name for each in left)} in shared memory")
    return wrong


def _is_there(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def kill_often(command: Command, kills: int, fresh: TinyCourse, folder: Path, draw: random.Random) -> list[str]:
    """Kill a command so often, each time in a class of its own. What has gone wrong, a line each."""
    prepared = fresh.copy_to(folder / "prepared")
    command.prepare(prepared)
    (prepared.root / "ranks.py").write_text(RANKS)
    wholes = []
    for number in range(2):
        whole = prepared.copy_to(folder / f"whole-{number}")
        began = time.monotonic()
        run(whole, command.words)
        seconds = time.monotonic() - began
        wholes.append(state(whole))
    wrong = []
    for number in range(kills):
        course = prepared.copy_to(folder / f"killed-{number}")
        found = kill_once(course, command, draw.uniform(0, 1.1 * seconds), draw)
        if command.words:
            run(course, command.words)
            found += differences(state(course), *wholes)
        wrong += [f"kill {number}: {each}" for each in found]
        shutil.rmtree(course.root)
    return wrong


def differences(found: Mapping[str, object], one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """What differs in a class from two, where these are alike."""
    alike = {name for name in one.keys() | other.keys() if one.get(name) == other.get(name)}
    lost = [f"{name} is another" for name in sorted(alike) if found.get(name) != one.get(name)]
    return lost + [f"{name} is left" for name in sorted(found.keys() - one.keys() - other.keys())]


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, look, and print what was found. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.kills", description="Kill commands at any moment.")
    parser.add_argument("kills", type=int, nargs="?", default=300)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(COMMANDS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if not os.environ.get(PRIVATE):  # other programs use shared memory, too
        os.environ[PRIVATE] = "yes"
        script = 'mount -t tmpfs tmpfs /dev/shm && exec "$@"'
        words = [sys.executable, "-m", "tests.tools.kills", *(sys.argv[1:] if arguments is None else arguments)]
        return subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *words]).returncode
    chosen = options.commands or [*COMMANDS]
    status = 0
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        fresh = make_tiny_course(Path(folder) / "fresh")
        for number, name in enumerate(chosen):
            kills = options.kills // len(chosen) + (number < options.kills % len(chosen))
            place = Path(folder) / name.replace(" ", "-")
            place.mkdir()
            wrong = kill_often(COMMANDS[name], kills, fresh, place, random.Random(f"{options.seed} {name}"))
            print("\n".join([f"{name}: {kills} kills, {len(wrong)} wrong", *wrong]), flush=True)
            status = 1 if wrong else status
    return status


if __name__ == "__main__":
    sys.exit(main())
