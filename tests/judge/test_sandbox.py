"""What a sandbox promises: each promise is tried from the inside, by a rank that does its worst.

The same tests run as an ordinary user, too: see test_the_same_as_an_ordinary_user.
"""

import ast
import functools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import symtable
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import distlib
import distlib_backend
from distlib.frameworks.temporary import temporary_folder
from distlib.judge.sandbox import KINDS, Limits, choose_sandbox, contents, fork_rank, kinds, system_filter
from distlib.judge.sandbox.bubblewrap import Bubblewrap
from distlib.judge.sandbox.docker import Docker
from distlib.judge.sandbox.inside import __all__ as NAMES_INSIDE
from distlib.judge.sandbox.unconfined import Unconfined
from tests.tools.sandboxed_ranks import Rank, Ranks
from tests.tools.second_user import as_second_user

ROOT = Path(__file__).parents[2]
MEBIBYTE = 2**20
LIMITS = Limits(memory_bytes=512 * MEBIBYTE, threads=16, open_files=64, file_bytes=4 * MEBIBYTE)
DENIED = "PermissionError"
NO_BUBBLEWRAP = Bubblewrap().problem()

needs_bubblewrap = pytest.mark.skipif(NO_BUBBLEWRAP is not None, reason=str(NO_BUBBLEWRAP))
needs_linux = pytest.mark.skipif(not system_filter.is_supported(), reason="needs Linux on x86_64 or aarch64")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# What every rank here begins with.
PRELUDE = """
import ctypes, fcntl, mmap, os, signal, socket, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

def call(function, *arguments):
    result = getattr(libc, function)(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """A sandbox of bubblewrap's, for all tests that don't end it."""
    if NO_BUBBLEWRAP is not None:
        pytest.skip(NO_BUBBLEWRAP)
    opened = Ranks(Bubblewrap(), LIMITS)
    yield opened
    opened.close()


class Two:
    """Two ranks of one submission. Rank 0 is honest, rank 1 is not."""

    def __init__(self, ranks: Ranks) -> None:
        self.honest, self.hostile = ranks.start(0), ranks.start(1)
        for rank in (self.honest, self.hostile):
            assert rank.run(PRELUDE) == ("done", None)

    def still_honest(self) -> bool:
        return self.honest.run("told = sum(range(10))") == ("done", 45)


@pytest.fixture
def two(ranks: Ranks) -> Iterator[Two]:
    pair = Two(ranks)
    yield pair
    assert pair.still_honest()
    for rank in (pair.honest, pair.hostile):
        ranks.end(rank)


def told(rank: Rank, text: str) -> Any:
    """What a rank tells that must not fail."""
    kind, value = rank.run(text)
    assert kind == "done", f"{kind}: {value}"
    return value


# ── a rank is one process ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "os.fork()",
        "[os.fork() for _ in range(400)]",
        "call('vfork')",
        "call('syscall', 56 if os.uname().machine == 'x86_64' else 220, signal.SIGCHLD, 0, 0, 0, 0)",  # clone
        "subprocess.run(['/bin/true'])",
        "subprocess.Popen(['/bin/sleep', '100'], start_new_session=True)",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "import multiprocessing; multiprocessing.get_context('fork').Process(target=print).start()",
    ],
)
def test_it_cannot_start_another_process(two: Two, text: str) -> None:
    assert two.hostile.run(text)[0] == DENIED


def test_clone3_is_as_good_as_missing(two: Two) -> None:
    assert two.hostile.run("call('syscall', 435, 0, 0)") == ("OSError", "[Errno 38] Function not implemented")


@needs_linux
@pytest.mark.parametrize("name", ["kcmp", "vmsplice", "personality", "move_pages", "mbind", "pidfd_open", "io_setup"])
def test_other_doors_are_closed(two: Two, name: str) -> None:
    number = system_filter.NUMBERS[name][platform.machine() == "aarch64"]
    assert two.hostile.run(f"call('syscall', {number}, 0, 0, 0, 0, 0)") == (
        "PermissionError",
        "[Errno 1] Operation not permitted",
    )


@needs_linux
@pytest.mark.parametrize("number", [453, 462, 470, 5000])
def test_calls_that_are_newer_than_the_filter_are_not_there(two: Two, number: int) -> None:
    assert two.hostile.run(f"call('syscall', {number}, 0, 0, 0)") == ("OSError", "[Errno 38] Function not implemented")


@needs_linux
def test_a_pair_of_sockets_is_local(two: Two) -> None:
    assert told(two.hostile, "told = [one.close() for one in socket.socketpair()]") == [None, None]
    for family in (16, 17, 40, 44):  # netlink, packet, vsock, XDP
        assert two.hostile.run(f"socket.socketpair({family}, socket.SOCK_DGRAM)") == (
            "PermissionError",
            "[Errno 1] Operation not permitted",
        )


def counts_threads_by_namespace() -> bool:
    return tuple(map(int, re.findall("[0-9]+", os.uname().release)[:2])) >= (5, 14)


def test_it_has_threads_up_to_the_limit(two: Two) -> None:
    text = """
import threading
stop, count = threading.Event(), 0
try:
    while count < 100:
        threading.Thread(target=stop.wait, daemon=True).start()
        count += 1
except RuntimeError:
    pass
stop.set()
told = count
"""
    count = told(two.hostile, text)
    for _ in range(50):  # a thread that has just ended may still count
        if count == LIMITS.threads - 1:
            break
        time.sleep(0.1)
        count = told(two.hostile, text)
    if os.geteuid() == 0 or counts_threads_by_namespace():  # else memory is what limits threads
        assert count == LIMITS.threads - 1
    else:
        assert 3 < count <= 100


# ── nothing to be seen ───────────────────────────────────────────────────────────────────────────────────────────────


def test_it_sees_no_other_process(two: Two) -> None:
    assert told(two.hostile, "told = [name for name in os.listdir('/proc') if name.isdigit()]") == ["1"]
    assert told(two.hostile, "told = [os.getpid(), os.getppid()]") == [1, 0]


def test_it_can_signal_nobody(two: Two, ranks: Ranks) -> None:
    text = f"""
reached = []
for pid in [*range(2, 3000), {os.getpid()}, {ranks.confined.pid}, {two.honest.pid}]:
    try:
        os.kill(pid, 9)
        reached.append(pid)
    except ProcessLookupError:
        pass
try:
    os.kill(-1, 9)
    reached.append(-1)
except ProcessLookupError:
    pass
os.kill(0, 9)  # its process group; the first process of a namespace does not hear its own signals
os.setpriority(os.PRIO_PGRP, 0, 19)
told = reached
"""
    before = told(two.honest, "told = os.getpriority(os.PRIO_PROCESS, 0)")
    assert told(two.hostile, text) == []
    assert ranks.confined.poll() is None
    assert told(two.honest, "told = os.getpriority(os.PRIO_PROCESS, 0)") == before < 19


def test_it_sees_nothing_of_the_machine(two: Two, tmp_path: Path) -> None:
    secret = tmp_path / "gradebook.db"
    secret.write_text("marks")
    places = [secret, tmp_path, ROOT / "solutions", ROOT / "tests", ROOT / "distlib", ROOT / "README.md", ROOT / ".git"]
    places += [Path.home() / ".bashrc", Path("/etc/passwd"), Path("/etc/shadow"), Path("/sys"), Path("/run")]
    empty = "os.path.isdir(path) and not os.listdir(path)"
    there = f"told = [path for path in {list(map(str, places))} if os.path.lexists(path) and not ({empty})]"
    assert told(two.hostile, there) == []
    devices = "told = sorted(entry.name for entry in os.scandir('/dev') if entry.stat(follow_symlinks=False).st_rdev)"
    there = [name for name in told(two.hostile, devices) if name != "tty"]  # Docker's; no rank has a terminal
    assert there == ["full", "null", "random", "urandom", "zero"]
    assert two.hostile.run("open('/dev/tty')")[0] in ("OSError", "FileNotFoundError")


def test_no_solution_and_no_hidden_test_is_anywhere(two: Two) -> None:
    text = """
found = []
for folder, _, names in os.walk("/"):
    if folder == "/proc":
        _.clear()
    for name in names:
        if name in ("ring.py", "checks.py", "helpers.py", "duration.py", "gradebook.db") or "all_reduce" in name:
            with open(os.path.join(folder, name), errors="replace") as file:
                found += [os.path.join(folder, name)] if "distlib" in file.read() else []
told = found
"""
    assert told(two.hostile, text) == []


def test_the_library_inside_has_nothing_that_is_graded(two: Two) -> None:
    shown = told(two.hostile, "told = [[d, sorted(n)] for d, _, n in os.walk('/library')]")
    files = sorted(os.path.join(folder, name).removeprefix("/library/") for folder, names in shown for name in names)
    assert files == sorted(contents.library_files())
    assert {"distlib/communicator.py", "distlib/worlds/real/world.py"} <= set(files)
    real = {name for name in files if contents.library_files()[name] == ROOT / name}
    arithmetic = "distlib/collectives/reduction.py"  # which sends nothing
    assert [name for name in real if name.startswith(("distlib/collectives", "distlib/authoring"))] == [arithmetic]
    assert {Path(name).parent.name for name in real if name.startswith("distlib/checks/")} == {"checks", "plays"}
    named = {Path(name).name for name in real if "check" in Path(name).name}
    assert {name for name in named if not name.endswith("plays.py")} == {"message_check.py"}


def test_environment_and_streams_tell_nothing(two: Two) -> None:
    os.environ["DISTLIB_TEST_SECRET"] = "a password"  # also what was there before the sandbox began must not show
    variables = told(two.hostile, "told = dict(os.environ)")
    assert {"PWD": contents.HOME, **variables} == {**contents.environment(), "PWD": contents.HOME}
    assert (
        told(two.hostile, "told = open('/proc/self/environ').read() if os.getuid() < 2**30 else ''").count("SECRET")
        == 0
    )
    streams = told(two.hostile, "told = [os.fstat(fd).st_rdev for fd in range(3)]")
    assert streams == [os.stat(os.devnull).st_rdev] * 3
    text = "told = []\nfor fd in range(3, 64):\n  try: told.append((os.fstat(fd), fd)[1])\n  except OSError: pass"
    assert len(told(two.hostile, text)) == 1  # its wire


# ── nothing to be written ────────────────────────────────────────────────────────────────────────────────────────────


def test_it_can_write_only_at_home(two: Two) -> None:
    text = """
written = []
for folder, folders, names in os.walk("/"):
    if folder == "/proc" or os.path.samefile(folder, os.environ["HOME"]) or folder.count("/") > 5:
        folders.clear()
        continue
    for path in [os.path.join(folder, "new"), *(os.path.join(folder, name) for name in names[:3])]:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            written.append(os.path.realpath(path))
        except OSError:
            pass
told = written
"""
    nowhere = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
    assert set(told(two.hostile, text)) - nowhere == set()
    text = (
        "with open('/tmp/x' if os.access('/tmp', os.W_OK) else 'x', 'w') as file: file.write('y')\ntold = os.listdir()"
    )
    assert told(two.hostile, text) == ["x"]


@pytest.mark.parametrize("text", ["os.chmod('/library', 0o777)", "os.remove('/library/distlib/__init__.py')"])
def test_it_cannot_change_the_library(two: Two, text: str) -> None:
    assert two.hostile.run(text)[0] in ("OSError", DENIED)


@pytest.mark.parametrize(
    "text",
    [
        "call('mount', b'none', b'/student', b'tmpfs', 0, None)",
        "call('umount2', b'/student', 0)",
        "call('unshare', 0x10000000)",  # a user namespace, in which it would have all rights
        "call('unshare', 0x20000)",
        "call('setns', 0, 0)",
        "call('chroot', b'/student')",
        "os.setuid(0)",
        "os.setgroups([0])",
        "os.mknod('disk', 0o60600, os.makedev(8, 0))",
        "os.chown('.', 0, 0)",
        "call('sethostname', b'x', 1)",
    ],
)
def test_it_has_no_rights(two: Two, text: str) -> None:
    no_such_user = "[Errno 22] Invalid argument"  # in a user namespace of one user
    kind, message = two.hostile.run(text)
    assert kind == DENIED or (os.geteuid() != 0 and message.startswith(no_such_user))


def test_capabilities_are_gone_for_good(two: Two) -> None:
    status = dict(
        line.split(":\t") for line in told(two.hostile, "told = open('/proc/self/status').read()").splitlines()
    )
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


@needs_root
def test_every_rank_is_a_user_of_its_own(two: Two) -> None:
    first, second = told(two.honest, "told = os.getresuid()"), told(two.hostile, "told = os.getresuid()")
    assert second == [first[0] + 1] * 3
    assert first[0] >= 2**30
    assert told(two.hostile, "told = [os.getgroups(), os.getresgid()]") == [[], second]


# ── memory, disk, files ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bytearray(10 * 2**30)", "MemoryError"),
        ("kept = []\nwhile True: kept.append(bytearray(10 * 2**20))", "MemoryError"),
        ("mmap.mmap(-1, 10 * 2**30)", "OSError"),  # shared memory without a name
        ("os.memfd_create('x')", DENIED),
        ("call('shmget', 0, 2**30, 0o1600)", DENIED),
    ],
)
def test_memory_is_limited(two: Two, text: str, kind: str) -> None:
    assert two.hostile.run(text)[0] == kind
    two.hostile.run("kept = None")
    assert told(two.hostile, "told = len(bytearray(100 * 2**20))") == 100 * MEBIBYTE


def test_the_disk_is_limited_and_ends_with_the_rank(two: Two, ranks: Ranks) -> None:
    text = """
full = 0
for number in range(100):
    try:
        with open(f"file{number}", "wb", buffering=0) as file:
            for _ in range(100):
                full += file.write(bytes(2**20))
    except OSError:
        pass
told = [full, len(os.listdir())]
"""
    written, files = told(two.hostile, text)
    assert 3 * MEBIBYTE < written <= LIMITS.file_bytes
    assert files > 1
    ranks.end(two.hostile)
    again = ranks.start(1)
    assert told(again, "import os; told = os.listdir()") == []
    ranks.end(again)


def test_a_million_empty_files_are_too_many(two: Two) -> None:
    kind, _ = two.hostile.run("for number in range(10**6): open(str(number), 'w').close()")
    assert kind == "OSError"


def test_open_files_are_limited(two: Two) -> None:
    kind, message = two.hostile.run("kept = [open('/dev/null') for _ in range(1000)]")
    assert kind == "OSError" and "Too many open files" in message


# ── no network, and no way to another rank ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_VSOCK", "AF_PACKET"])
def test_it_has_no_socket(two: Two, family: str) -> None:
    assert two.hostile.run(f"socket.socket(socket.{family})")[0] == DENIED


def test_no_network_device_is_up(two: Two) -> None:
    lines = told(two.hostile, "told = open('/proc/self/net/dev').read()").splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] in ([], ["lo"])


@pytest.mark.parametrize(
    "text",
    [
        "fcntl.flock(open('/library/distlib/__init__.py'), fcntl.LOCK_EX)",
        "fcntl.lockf(open('/library/distlib/__init__.py'), fcntl.LOCK_SH)",
        "fcntl.fcntl(open('/library/distlib/__init__.py'), 5, bytes(32))",  # F_GETLK
        "fcntl.fcntl(os.open('/library', 0), fcntl.F_NOTIFY, fcntl.DN_ACCESS)",
        "call('inotify_init1', 0)",
        "call('syscall', 248 if os.uname().machine == 'x86_64' else 217, b'user', b'x', b'y', 1, -3)",  # add_key
        "call('semget', 5, 1, 0o1666)",
        "call('msgget', 5, 0o1666)",
        "call('shmget', 5, 4096, 0o1666)",
        "call('ptrace', 16, 2, 0, 0)",
        "call('syscall', 425, 8, 0)",  # io_uring_setup
    ],
)
def test_ranks_share_nothing_to_talk_through(two: Two, text: str) -> None:
    assert two.hostile.run(text)[0] == DENIED


def test_ranks_share_no_terminals(two: Two) -> None:
    assert two.hostile.run("os.openpty()")[0] in ("OSError", "FileNotFoundError")


def test_it_sees_no_counters_of_the_machine(two: Two) -> None:
    names = ("stat", "loadavg", "meminfo", "vmstat", "interrupts", "uptime")
    assert told(two.hostile, f"told = [name for name in {names!r} if os.path.exists('/proc/' + name)]") == []
    assert told(two.hostile, "told = os.path.exists('/proc/self/status')")
    assert two.hostile.run("os.getloadavg()")[0] == "OSError"


@pytest.mark.parametrize(
    "text",
    [
        "call('sysinfo', ctypes.create_string_buffer(256))",
        "call('mincore', ctypes.c_void_p(0x1000), 4096, ctypes.create_string_buffer(16))",
        "os.posix_fadvise(os.open(os.__file__, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)",
        "os.preadv(os.open(os.__file__, os.O_RDONLY), [bytearray(9)], 0, os.RWF_NOWAIT)",
    ],
)
def test_it_can_not_ask_what_is_in_memory(two: Two, text: str) -> None:
    assert two.hostile.run(text)[0] == DENIED


TORCHS_SAMPLER = """
import importlib, sys, torch.utils.data
from torch.utils.data import DistributedSampler
kept = DistributedSampler.__init__
"""


@needs_bubblewrap
def test_torchs_sampler_is_not_there() -> None:
    ranks = Ranks(Bubblewrap(), imports="import distlib, torch")  # with CUDA, torch alone exceeds the limit
    rank = ranks.start(0)
    for text in (
        "DistributedSampler(range(9), 3, 0)",
        "importlib.reload(torch.utils.data.distributed).DistributedSampler(range(9), 3, 0)",
        "kept(object.__new__(DistributedSampler), range(9), 3, 0)",
        "sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != 'AbsentModules']\n"
        "del sys.modules['torch.utils.data.distributed']\n"
        "from torch.utils.data.distributed import DistributedSampler",
    ):
        assert rank.run(TORCHS_SAMPLER + text)[0] in ("RuntimeError", "ModuleNotFoundError")
    assert rank.run("open(torch.utils.__path__[0] + '/data/distributed.py')")[0] == DENIED
    ranks.close()


def test_the_parts_that_a_check_supplies_are_not_there(two: Two) -> None:
    assert two.hostile.run("import distlib.checks.helpers")[0] == "ModuleNotFoundError"
    stands_in = "from distlib.exercises.master import helpers\ntold = str(helpers.gather_outputs(1, 2, 3))"
    assert told(two.hostile, stands_in) == "(not shown while your work is graded)"
    files = "[os.path.join(folder, name) for folder, _, names in os.walk('/library') for name in names]"
    assert (
        told(two.hostile, f"told = [file for file in {files} if b'def gather_outputs' in open(file, 'rb').read()]")
        == []
    )


def test_a_rank_does_not_see_the_files_of_another(two: Two) -> None:
    told(two.honest, "open('mine', 'w').write('my answer')")
    assert told(two.hostile, "told = os.listdir()") == []
    assert "mine" not in told(two.hostile, "told = os.listdir('/tmp')")
    assert told(two.honest, "told = os.listdir()") == ["mine"]


def test_there_is_no_shared_memory_folder(two: Two) -> None:
    assert told(two.hostile, "told = os.path.exists('/dev/shm')") is False
    assert two.hostile.run("from multiprocessing.shared_memory import SharedMemory; SharedMemory('x', True, 10)")[
        0
    ] in (
        "FileNotFoundError",
        DENIED,
    )


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "tell('begun')\nwhile True: pass",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); tell('begun'); time.sleep(100)",
        "threads = [threading.Thread(target=time.sleep, args=(100,)) for _ in range(5)]\n"
        "[t.start() for t in threads]; tell('begun')",
        "kept = [os.dup(fd) for fd in range(3, 10) if os.path.exists(f'/proc/self/fd/{fd}')]\n"
        "tell('begun'); time.sleep(100)",
        "a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [b.fileno(), a.fileno()])\n"
        "tell('begun'); time.sleep(100)",
    ],
)
def test_a_rank_that_is_ended_lets_go_of_its_wire(two: Two, ranks: Ranks, text: str) -> None:
    two.hostile.wire.sendall(json.dumps(text).encode() + b"\n")
    assert two.hostile.hear() == ("begun", None)
    ranks.end(two.hostile)
    while (heard := two.hostile.hear())[0] == "done":
        pass
    assert heard == ("ended", None)


def test_a_rank_cannot_untie_itself_from_its_parent(two: Two) -> None:
    assert two.hostile.run("call('prctl', 1, 0, 0, 0, 0)")[0] == DENIED


@pytest.mark.parametrize("text", ["os._exit(3)", "ctypes.string_at(0)", "os.abort()"])
def test_a_rank_that_dies_takes_nobody_along(two: Two, text: str) -> None:
    assert two.hostile.run(text) == ("ended", None)


@needs_linux
@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
def test_kill_leaves_no_process(kind: str) -> None:
    if kind == "bubblewrap" and NO_BUBBLEWRAP is not None:
        pytest.skip(NO_BUBBLEWRAP)
    ranks = Ranks(KINDS[kind](), LIMITS)
    for number in range(3):
        rank = ranks.start(number)
        told(rank, PRELUDE)
        rank.wire.sendall(json.dumps("signal.pthread_sigmask(0, range(1, 65))\nwhile True: pass").encode() + b"\n")
    family = psutil.Process(ranks.confined.pid).children(recursive=True)
    assert len(family) >= 3
    ranks.close()
    assert [process for process in family if process.is_running()] == []
    assert ranks.confined.poll() is not None
    ranks.close()  # once more does no harm


@needs_bubblewrap
def test_everything_ends_with_a_judge_that_is_killed() -> None:
    program = """
import sys, time
from distlib.judge.sandbox.bubblewrap import Bubblewrap
from tests.tools.sandboxed_ranks import Ranks
ranks = Ranks(Bubblewrap())
rank = ranks.start(0)
rank.run("told = 1")
print(ranks.confined.pid, flush=True)
rank.run("while True: pass")
"""
    judge = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert judge.stdout is not None
    sandbox = psutil.Process(int(judge.stdout.readline()))
    family = [sandbox, *sandbox.children(recursive=True)]
    assert len(family) >= 3
    judge.kill()
    judge.wait()
    judge.stdout.close()
    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_what_kept_a_command_from_starting_can_be_read() -> None:
    sandbox = Bubblewrap() if NO_BUBBLEWRAP is None else Unconfined()
    with sandbox.start([sys.executable, "-c", "import no_such_module"], [], Limits()) as confined:
        assert confined.wait(30) != 0
        assert confined.last_words().endswith("No module named 'no_such_module'")


# ── what `import distlib` finds ──────────────────────────────────────────────────────────────────────────────────────

IMPORTS = f"""
from distlib import {", ".join(distlib.__all__)}
from distlib.collectives import ring_all_reduce, broadcast
from distlib.draw import play_chunks, predict, timeline, watch_chunks
from distlib.checks import CheckFailed, Report
from distlib.exercises import Accelerator, check_ring_all_reduce
from distlib.network import Cluster, Link, duration
from distlib.partition import chunk_lengths
"""


@needs_linux
@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
def test_exercises_find_what_they_import(kind: str) -> None:
    if kind == "bubblewrap" and NO_BUBBLEWRAP is not None:
        pytest.skip(NO_BUBBLEWRAP)
    ranks = Ranks(KINDS[kind](), imports="import distlib, torch")  # with CUDA, torch alone exceeds the limit
    rank = ranks.start(0)
    try:
        told(rank, IMPORTS)
        assert told(rank, "world = World(3); told = [world.run(print), len(world.trace)]") == [[None] * 3, 0]
        assert told(rank, "told = SimulatedWorld(2, cluster=Cluster.flat(2)).run(print, timeout=100)") == [None] * 2
        assert told(rank, "told = chunk_lengths(10, 4)") == [3, 3, 2, 2]
        told(
            rank,
            "play_chunks(watch_chunks(world, print)); timeline(world.trace).show(); str(check_ring_all_reduce(print))",
        )
        names = [path.stem for path in (ROOT / "distlib" / "training").glob("[!_]*") if path.suffix in ("", ".py")]
        told(rank, "; ".join(f"import distlib.training.{name}" for name in names))
        told(
            rank,
            "from distlib.training.mesh.coordinates import mesh_groups; from distlib.training import digits, replicate",
        )
        assert told(rank, "told = len(digits()[0].images)") > 1000
        for name in ("ring_all_reduce", "all_reduce", "calibrate", "mesh_groups"):
            kind_of_error, message = rank.run(f"{name}(None, None)")
            assert kind_of_error == "RuntimeError"
            assert message == f"the library's {name} is not there while your own function is graded"
        assert rank.run("import distlib.collectives.ring")[0] == "ModuleNotFoundError"
        assert rank.run("import distlib.checks.task")[0] == "ModuleNotFoundError"
        assert rank.run("from distlib import no_such_name")[0] == "ImportError"
    finally:
        ranks.close()


def test_names_inside_are_those_of_the_library() -> None:
    assert NAMES_INSIDE == list(distlib.__all__)


def test_nothing_that_is_graded_is_shown() -> None:
    shown = set(contents.MODULES)
    graded = [name for name in shown if name.startswith(("collectives", "authoring", "cli", "draw"))]
    assert graded == ["collectives/reduction.py"]  # arithmetic without messages
    assert [name for name in shown if name.startswith(("worlds/real/", "worlds/simulated/"))] == []
    assert shown & {"network/duration.py", "network/choice.py", "network/traffic.py"} == set()
    of_training = {"training/__init__.py", "training/__init__.pyi", "training/datasets.py", "training/digits.csv.gz"}
    assert {name for name in shown if name.startswith("training/")} == of_training
    assert {name for name in shown if name.startswith("checks/")} == {
        "checks/helper_form.py",
        "checks/remark.py",
        "checks/sentences.py",
        "checks/student_communicator.py",
        "checks/student_communicator.txt",
    }


def test_every_module_inside_finds_those_it_imports() -> None:
    files = contents.library_files()
    modules = {path for path in files.values() if path.suffix == ".py"}
    for path in modules - {Path(distlib_backend.__file__)}:  # which finds a script's ranks elsewhere
        for name in re.findall(r"^ *(?:from|import) (distlib[.\w]*)", path.read_text(), re.MULTILINE):
            module = name.replace(".", "/")
            assert f"{module}.py" in files or f"{module}/__init__.py" in files, f"{path} imports {name}"


def test_every_module_inside_finds_the_names_it_imports() -> None:
    """A module that stands in for another has all names that others inside take from it."""
    files = contents.library_files()
    for path in {path for path in files.values() if path.suffix == ".py"} - {Path(distlib_backend.__file__)}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("distlib"):
                module = str(node.module).replace(".", "/")
                there = files.get(f"{module}.py") or files[f"{module}/__init__.py"]
                missing = [
                    each.name
                    for each in node.names
                    if each.name not in names_at_top(there) and f"{module}/{each.name}.py" not in files
                ]
                assert missing == [] or "__getattr__" in names_at_top(there), f"{path}: {there} has no {missing}"


@functools.cache
def names_at_top(path: Path) -> set[str]:
    """The names that a module gives a value."""
    return {
        symbol.get_name()
        for symbol in symtable.symtable(path.read_text(), str(path), "exec").get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }


def test_a_checkout_inside_a_shown_folder_is_hidden() -> None:
    hidden = contents.hidden_folders([ROOT.parent])
    assert {ROOT / "distlib", ROOT / "solutions", ROOT / "tests", ROOT / "exercises"} <= set(hidden)
    assert contents.hidden_folders([Path("/usr/bin")]) == []


def test_an_installed_copy_of_the_library_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site-packages" / "distlib").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    assert contents.hidden_folders([tmp_path]) == [tmp_path / "site-packages" / "distlib"]


def test_a_missing_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MODULES", ("no_such_module.py",))
    with pytest.raises(RuntimeError, match=r"no_such_module\.py.*make env"):
        contents.library_files()


# ── the filter, for machines that this one isn't ─────────────────────────────────────────────────────────────────────

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
REFUSED, MISSING = 0x00050000 | 1, 0x00050000 | 38


def verdict(program: list[system_filter.Instruction], number: int, arguments: tuple[int, ...], machine: int) -> int:
    """What a filter says to a system call: a small interpreter of its instructions."""
    loaded, at = 0, 0
    data = {0: number, 4: machine, 16: arguments[0] & 0xFFFFFFFF, 24: arguments[1] & 0xFFFFFFFF}
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            loaded = data[value]
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += if_true if holds else if_false


@pytest.mark.parametrize(("name", "column", "own"), [("x86_64", 0, 0xC000003E), ("aarch64", 1, 0xC00000B7)])
def test_the_filter_refuses_and_allows_what_it_should(name: str, column: int, own: int) -> None:
    program = system_filter.filter_program(name)
    numbers = {call: row[column] for call, row in system_filter.NUMBERS.items() if row[column] is not None}
    conditional = {"clone", "clone3", "fcntl", "prctl", "socketpair"}

    def say(call: str, *arguments: int) -> int:
        return verdict(program, numbers[call], (*arguments, 0, 0), own)

    assert {say(call) for call in numbers if call not in conditional} == {REFUSED}
    assert say("clone", signal.SIGCHLD) == REFUSED
    assert say("clone", 0x3D0F00) == ALLOWED  # the flags of a new thread
    assert say("clone3") == MISSING
    assert [say("fcntl", 3, command) for command in (0, 1, 2, 3, 4)] == [ALLOWED] * 5
    assert [say("fcntl", 3, command) for command in (5, 6, 7, 36, 37, 38)] == [REFUSED] * 6
    assert say("prctl", 1) == REFUSED
    assert say("prctl", 15) == ALLOWED
    assert [say("socketpair", family) for family in (1, 2, 16, 17, 40, 44)] == [ALLOWED, *[REFUSED] * 5]
    others = set(range(453)) - set(numbers.values())
    assert {verdict(program, number, (0, 0), own) for number in others} == {ALLOWED}
    assert {verdict(program, number, (0, 0), own) for number in range(453, 1000)} == {MISSING}
    assert verdict(program, 0, (0, 0), 0x40000003) == KILLED  # 32-bit calls
    if name == "x86_64":
        assert verdict(program, 0x40000000 | 41, (0, 0), own) == MISSING


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")],
    ids=["x86_64", "aarch64"],
)
def test_numbers_of_calls_are_the_kernels(column: int, header: str) -> None:
    path = Path("/usr/include") / header
    if not path.exists():
        pytest.skip(f"needs {path}")
    words = [line.split() for line in path.read_text().splitlines() if line.startswith("#define __NR")]
    kernels = {
        line[1].removeprefix("__NR3264_").removeprefix("__NR_"): line[2]
        for line in words
        if line[2:] and line[2].isdigit()
    }
    kernels.pop("syscalls", None)  # their number
    newest = max(map(int, kernels.values()))
    for name, row in system_filter.NUMBERS.items():
        if (row[column] or 0) > newest:
            continue  # of a later kernel
        if row[column] is not None:
            assert kernels[name] == str(row[column]), name
        else:
            assert name not in kernels


def test_the_filter_knows_which_machines_it_knows() -> None:
    assert system_filter.is_supported("aarch64", "Linux")
    assert not system_filter.is_supported("riscv64", "Linux")
    assert not system_filter.is_supported("arm64", "Darwin")


# ── choosing, and bad input ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="auto, bubblewrap, docker, none, got 'podman'"):
        choose_sandbox("podman")


def test_a_kind_that_does_not_work_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "bubblewrap", lambda: Bubblewrap("no-such-program"))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="bubblewrap can't be used: bubblewrap is not installed.*apt install"):
        choose_sandbox("bubblewrap")


def test_bubblewrap_that_may_not_make_namespaces_says_so(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    if system_filter.is_supported():
        assert Bubblewrap(str(program)).problem() == "bwrap: setting up uid map: Permission denied"


def test_auto_takes_the_first_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Unconfined):
        def problem(self) -> str | None:
            return "does not work"

    class Working(Broken):
        name = "docker"

        def problem(self) -> str | None:
            return None

    monkeypatch.setitem(KINDS, "bubblewrap", Broken)
    monkeypatch.setitem(KINDS, "docker", Working)
    assert choose_sandbox().name == "docker"
    monkeypatch.setitem(KINDS, "docker", Broken)
    with pytest.raises(RuntimeError, match="bubblewrap: does not work; docker: does not work.*Only if you have read"):
        choose_sandbox("auto")
    sandbox = choose_sandbox("none")
    assert "your rights" in sandbox.warning and "bubblewrap" in sandbox.warning


def test_a_trial_that_takes_too_long_is_no_reason_to_go_on_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(kinds, "TRIAL_SECONDS", 0.01)
    monkeypatch.setitem(KINDS, "bubblewrap", lambda: Bubblewrap(str(program)))  # type: ignore[arg-type]
    monkeypatch.setitem(KINDS, "docker", lambda: Docker("no-such-program"))  # type: ignore[arg-type]
    with pytest.raises(
        RuntimeError, match="no answer within 0.01 s: try again.*Docker is not installed.*--sandbox none"
    ):
        choose_sandbox("auto")


@needs_bubblewrap
def test_auto_is_bubblewrap_where_it_works() -> None:
    sandbox = choose_sandbox()
    assert (sandbox.name, sandbox.warning) == ("bubblewrap", "")


@pytest.mark.parametrize("name", ["check_seconds", "memory_bytes", "threads", "file_bytes"])
def test_limits_must_be_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"expected {name} above 0, got 0"):
        Limits(**{name: 0})


def test_fork_rank_is_only_for_sandboxes() -> None:
    with pytest.raises(RuntimeError, match="processes that a Sandbox has started"):
        fork_rank(0, [])
    with pytest.raises(ValueError, match="rank from 0 to 1023, got 1024"):
        fork_rank(1024, [])


def test_without_a_sandbox_limits_still_hold(tmp_path: Path) -> None:
    ranks = Ranks(Unconfined(), LIMITS)
    rank = ranks.start(0)
    try:
        told(rank, PRELUDE)
        home = Path(told(rank, "open('mine', 'w').write('x'); told = os.getcwd()"))
        assert (home / "mine").exists()
        assert told(rank, "told = os.environ.get('TMPDIR')") == str(home)
        assert rank.run("kept = [open('/dev/null') for _ in range(1000)]")[0] == "OSError"
        if system_filter.is_supported():
            assert rank.run("bytearray(10 * 2**30)")[0] == "MemoryError"
            assert rank.run("os.fork()")[0] == DENIED
            assert rank.run("socket.socket()")[0] == DENIED
    finally:
        ranks.close()
    assert not home.exists()


def test_what_a_killed_grader_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "distlib-ranks-of-somebody").mkdir()
    program = (
        "import os, signal; from distlib.judge.sandbox import Limits;"
        "from distlib.judge.sandbox.unconfined import Unconfined;"
        "Unconfined().start(['true'], [], Limits()).wait(60); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with Unconfined().start(["true"], [], LIMITS):
        (running,) = set(tmp_path.glob("distlib-ranks-*/lock"))
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=120)
        assert done.returncode == -signal.SIGKILL
        (left,) = set(tmp_path.glob("distlib-ranks-*/lock")) - {running}
        Unconfined().start(["true"], [], LIMITS).kill()
        assert running.exists() and not left.parent.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["distlib-ranks-of-somebody"]


@needs_root
def test_what_another_user_has_put_into_tmp_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe as the lock, as the folder, as what TensorFlow's processes leave; a link to one's own folder."""
    with tempfile.TemporaryDirectory() as name:
        shared, own = Path(name), tmp_path / "own"
        shared.chmod(0o1777)
        own.mkdir()
        (own / "lock").touch()

        def litter() -> None:
            for prefix in ("distlib-ranks-", "distlib-processes-"):
                folder = shared / f"{prefix}a"
                folder.mkdir(0o755)
                os.mkfifo(folder / "lock", 0o666)
                os.mkfifo(shared / f"{prefix}b", 0o666)
                (shared / f"{prefix}c").symlink_to(own)

        as_second_user(litter)
        before = sorted(shared.rglob("*"))
        for path in shared.iterdir():
            os.utime(path, (0, 0), follow_symlinks=False)
        monkeypatch.setattr(tempfile, "tempdir", str(shared))
        Unconfined().start(["true"], [], LIMITS).kill()
        with temporary_folder():
            pass
        assert sorted(shared.rglob("*")) == before and (own / "lock").exists()


# ── docker ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_root
@needs_bubblewrap
def test_docker_with_containers_by_bubblewrap(tmp_path: Path) -> None:
    """The options for docker, the way of file descriptors into a container, and ranks in it. Not Docker itself."""
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {ROOT}/tests/tools/fake_docker.py "$@"\n')
    program.chmod(0o755)
    sandbox = Docker(str(program))
    assert sandbox.problem() is None
    ranks = Ranks(sandbox, LIMITS)
    try:
        two = Two(ranks)
        assert told(two.hostile, "told = [os.getpid(), os.listdir('/student'), os.path.exists('/judge')]") == [
            1,
            [],
            True,
        ]
        assert told(two.hostile, "told = os.getuid()") == told(two.honest, "told = os.getuid()") + 1
        assert two.hostile.run("os.listdir('/judge')")[0] == DENIED
        assert two.hostile.run("socket.socket(socket.AF_UNIX)")[0] == DENIED
        assert two.hostile.run("os.fork()")[0] == DENIED
        assert two.hostile.run("bytearray(10 * 2**30)")[0] == "MemoryError"
        assert told(two.hostile, f"told = os.path.exists({str(ROOT / 'solutions')!r})") is False
        assert two.still_honest()
        family = psutil.Process(ranks.confined.pid).children(recursive=True)
        assert len(family) >= 4
    finally:
        ranks.close()
    assert psutil.wait_procs(family, timeout=60)[1] == []


@pytest.mark.docker
def test_docker_itself() -> None:
    assert Docker().problem() is None


def test_docker_without_a_service_says_so(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    program.chmod(0o755)
    if system_filter.is_supported():
        assert Docker(str(program)).problem() == "Cannot connect to the Docker daemon"
    assert Docker("no-such-docker").problem() == "Docker is not installed"


# ── another user ─────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_root
@needs_bubblewrap
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_the_same_as_an_ordinary_user() -> None:
    """All of these tests, as a user who isn't root and has user namespaces only."""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    user = "setpriv --reuid 54321 --regid 54321 --clear-groups --inh-caps=-all --bounding-set=-all".split()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"]
        environment = {**os.environ, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [*view_with_open_home(), *user, *tests, __file__]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=880)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= 90, done.stdout


def view_with_open_home() -> list[str]:
    """A command that shows a command the whole disk, but with the Python in root's home readable for all."""
    view = ["bwrap", "--dev-bind", "/", "/"]
    home = Path.home()
    if home in Path(sys.base_prefix).parents:
        view += ["--perms", "0755", "--tmpfs", str(home)]
        for above in contents.folders_above([sys.base_prefix]):
            view += ["--perms", "0755", "--dir", above] if home in Path(above).parents else []
        view += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    return view
