"""How much a process may take, also where the system allows it less than that."""

import subprocess
import sys

import pytest

MEBIBYTE = 1 << 20
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS has no such limit of memory")


def printed(program: str) -> str:
    """What a process of its own prints, which has `resource` and the functions."""
    names = "import resource\nfrom distlib.process_limits import limit_memory, limit_to\n"
    done = subprocess.run([sys.executable, "-c", names + program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_process_gets_what_it_may_take_and_no_more() -> None:
    program = f"""
limit_memory({200 * MEBIBYTE})
kept = bytearray({100 * MEBIBYTE})
try:
    bytearray({150 * MEBIBYTE})
except MemoryError:
    print("no more")
"""
    assert printed(program) == "no more"


@pytest.mark.parametrize("call", [f"limit_memory({1 << 40})", f"limit_to(resource.RLIMIT_DATA, {1 << 40})"])
def test_a_lower_hard_limit_stays(call: str) -> None:
    """Who is not root must not raise it, and gets an error for the attempt."""
    most = 500 * MEBIBYTE
    program = f"resource.setrlimit(resource.RLIMIT_DATA, ({most}, {most}))\n{call}\n"
    assert printed(f"{program}print(resource.getrlimit(resource.RLIMIT_DATA))") == f"({most}, {most})"


def test_a_later_limit_may_be_higher() -> None:
    """As for processor time, of which each replay of a game has its own."""
    program = "for seconds in (10, 20):\n    limit_to(resource.RLIMIT_CPU, seconds)\n"
    assert printed(f"{program}print(resource.getrlimit(resource.RLIMIT_CPU)[0])") == "20"
