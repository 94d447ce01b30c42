"""Test cases of unittest, run one by one: in a process of their own, and with what they print kept until one fails."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")


class Outcome(NamedTuple):
    """How a test case ended.

    Attributes:
        kind: "passed", "skipped" or "failed".
        seconds: that it took.
        told: what it printed, and the errors.
    """

    kind: str
    seconds: float
    told: str


def flat(suite: unittest.TestSuite) -> Iterator[Any]:
    """The test cases of a suite, in order."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from flat(each)
        else:
            yield each


def run_case(case: unittest.TestCase) -> Outcome:
    """Run it, with what its class sets up before."""
    start, result = time.monotonic(), unittest.TestResult()
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        with _output_to(printed.fileno()):
            unittest.TestSuite([case]).run(result)
        printed.seek(0)
        told = printed.read() + "\n".join(text for _, text in result.failures + result.errors)
    skipped = result.skipped or not result.testsRun and result.wasSuccessful()
    kind = "failed" if not result.wasSuccessful() else "skipped" if skipped else "passed"
    return Outcome(kind, time.monotonic() - start, told)


def in_child(work: Callable[[], Result], seconds: float | None = None) -> Result | None:
    """What `work` returns in a process forked from this one; None if it ends or is ended without.

    Args:
        work: is called without arguments. What it returns is pickled.
        seconds: after which the process, and those that it started, are ended.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _report(work, writer)
    os.close(writer)
    try:
        with open(reader, "rb") as pipe:
            ready, _, _ = select.select([pipe], [], [], seconds)
            return pickle.load(pipe) if ready else None
    except EOFError:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _report(work: Callable[[], Any], writer: int) -> None:
    """In the child: the result into the pipe. Does not return."""
    try:
        os.setsid()
        result = work()
        sys.stdout.flush()
        with open(writer, "wb") as pipe:
            pickle.dump(result, pipe)
    finally:
        os._exit(0)


@contextlib.contextmanager
def _output_to(fd: int) -> Iterator[None]:
    """In this block, what this process and its children print goes there."""
    saved = os.dup(1), os.dup(2)
    sys.stdout.flush()
    for number in (1, 2):
        os.dup2(fd, number)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, before in zip((1, 2), saved, strict=True):
            os.dup2(before, number)
            os.close(before)
