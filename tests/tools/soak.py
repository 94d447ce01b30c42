"""The tests that processes and clocks have a part in, many times over on a machine that is far too busy: `make soak`.

    make soak                                   ten rounds by six workers beside six busy processes; two hours
    make soak ROUNDS=2 ARGS="-k paced"          fewer, of some of these tests; ARGS are pytest's
    make soak LOAD=12                           more busy processes
    make soak LOAD=0 PAUSE=1.5                  none; one of the tests' processes after the other stands still for 1.5 s

A pause is what a process on a shared machine gets when others are let run first. It finds what load alone hardly does.
(Tests that stop a process themselves may fail by it: when its pause is over, it goes on.)

Prints after each round what has failed in it, and at the end how often each of these tests has failed. The status is 0
if none has. A test that fails here and not elsewhere measures time, or takes a nap in place of an event.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Event, Thread
from xml.etree import ElementTree

import psutil

ROOT = Path(__file__).parents[2]
PARTS = (
    "tests/worlds",
    "tests/training/test_ddp.py",
    "tests/frameworks/test_forkservers.py",
    "tests/frameworks/test_processes.py",
    "tests/clinic",
    "tests/judge/test_remote_judge.py",
    "tests/judge/test_remote_wire.py",
    "tests/judge/test_sandbox.py",
    "tests/judge/test_time.py",
    "tests/launch",
    "tests/cli/test_lab.py",
)
# A process that computes until its parent ends, however that came about.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
_BETWEEN_PAUSES = 0.15  # seconds
_LONGEST = 900  # seconds for one test: a third of a core, and less, is left for it


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that compute, for one block."""
    started = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def pauses(seconds: float) -> Iterator[None]:
    """Stop one process after the other of those that descend from this one, each for so many seconds."""
    ended = Event()

    def stop_one_after_the_other() -> None:
        while not ended.wait(_BETWEEN_PAUSES):
            family = [process for process in psutil.Process().children(recursive=True) if may_be_stopped(process)]
            if family:
                let_stand_still(random.choice(family), seconds)

    thread = Thread(target=stop_one_after_the_other)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def let_stand_still(process: psutil.Process, seconds: float) -> None:
    """Stop a process for so many seconds, unless it has ended."""
    with suppress(psutil.Error):
        process.suspend()
        time.sleep(seconds)
        process.resume()


def may_be_stopped(process: psutil.Process) -> bool:
    """Whether it runs or waits, and is none of the busy ones."""
    with suppress(psutil.Error):
        stopped_or_dead = process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
        return not stopped_or_dead and _BUSY not in process.cmdline()
    return False


def run_once(parts: Sequence[str], options: Sequence[str]) -> tuple[int, list[str]]:
    """Run tests. How many there were, and which of them have failed; a run that breaks off counts as a failure."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "6", "--dist", "loadfile", f"--timeout={_LONGEST}"]
        done = subprocess.run([*command, f"--junitxml={report}", *options, *parts], cwd=ROOT)
        failed, count = failures(report) if report.exists() else ([], 0)
    return count, failed or ([f"pytest itself: status {done.returncode}"] if done.returncode else [])


def failures(report: Path) -> tuple[list[str], int]:
    """The tests that a report of pytest's (JUnit's format) calls failed or broken, and how many it has."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return [f"{case.get('classname')}::{case.get('name')}" for case in failed], len(cases)


def soak(rounds: int, load: int, options: Sequence[str], parts: Sequence[str] = PARTS, pause: float = 0.0) -> int:
    """Run the rounds and print what failed. Returns the exit status."""
    failed: Counter[str] = Counter()
    with busy(load), pauses(pause) if pause else nullcontext():
        for number in range(1, rounds + 1):
            count, now = run_once(parts, options)
            failed.update(now)
            print(f"round {number} of {rounds}: {count} tests, {', '.join(now) or 'no failure'}", flush=True)
    for name, times in failed.most_common():
        print(f"{times} of {rounds}  {name}")
    print(f"{failed.total()} failures in {rounds} rounds, beside {load} busy processes")
    return 1 if failed else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make soak", description="Repeat the tests that depend on processes.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--load", type=int, default=6, help="busy processes beside the tests")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds for which a process stands still")
    options, others = parser.parse_known_args()
    return soak(options.rounds, options.load, others, pause=options.pause)


if __name__ == "__main__":
    sys.exit(main())
