"""Where a machine gives little, a World works, or one sentence says what ran out and how to have more."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from distlib.worlds.real.what_ran_out import said_of_limits

PROGRAM = """
from distlib import World
try:
    print(World({ranks}).run(lambda comm: print("l\\u00f6ss \\u2192") or comm.rank, timeout=100)[-1])
except OSError as error:
    print("told:", error)
"""


def run(*before: str, ranks: int = 4, shell: str = "true", **environment: str) -> str:
    """What a program with a World prints, after a shell command that takes something away."""
    words = [*before, "sh", "-c", f'{shell} && exec "$@"', "sh", sys.executable, "-c", PROGRAM.format(ranks=ranks)]
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, timeout=200)
    assert not done.stderr, done.stderr
    return done.stdout.decode("ascii" if environment else "utf-8")


def test_few_open_files() -> None:
    said = run(ranks=24, shell="ulimit -n 40")
    assert said.startswith("told: 24 ranks need more open files than the 40") and "ulimit -n 1024" in said


def test_a_umask_that_takes_ones_own_rights() -> None:
    assert run(shell="umask 0277").startswith("told: the umask is 0277, which takes from this process the right")


@pytest.mark.slow
def test_what_is_enough() -> None:
    assert run(ranks=4, shell="ulimit -n 64 && umask 077").endswith("3\n")


def test_a_stream_that_knows_ascii_only() -> None:
    said = run(ranks=2, PYTHONIOENCODING="ascii")
    assert "[rank 1] l\\xf6ss \\u2192\n" in said and said.endswith("1\n")


@pytest.mark.skipif(os.name != "posix" or not shutil.which("unshare"), reason="needs unshare")
@pytest.mark.slow
def test_without_a_loopback_address() -> None:
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a network namespace")
    assert run("unshare", "-n").endswith("3\n")


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        OSError("ranks could not be started: [Errno 11] Resource temporarily unavailable"),
        RuntimeError("the fork server of the ranks has ended. It said: RuntimeError: can't start new thread"),
    ],
)
def test_few_processes(error: Exception) -> None:
    with pytest.raises(OSError, match=r"8 ranks need more processes or threads.*ulimit -u.*take fewer ranks"):
        with said_of_limits(8):
            raise error


def test_an_error_about_something_else_stays_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="^something else$"), said_of_limits(8):
        raise RuntimeError("something else")
