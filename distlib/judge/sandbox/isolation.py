"""A process for one rank, separated from everything else before the first line of a student's code: `fork_rank`.

    fork server, in the sandbox ──fork──► rank     own process ids, files, user, network, names
                                            no rights, limits, a filter for system calls

The rank is the first process in its namespace: when its fork server ends it, the kernel ends whatever else is in there.
With bubblewrap and in a Docker container all of it is done. Without a sandbox there are only the limits and the filter,
where the system has them.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from distlib.judge.sandbox import system_filter
from distlib.judge.sandbox.limits import Limits

VARIABLE = "DISTLIB_SANDBOX"
USERS_PER_SANDBOX = 1024

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/capability.h
_NEW_MOUNTS, _NEW_NAMES, _NEW_IPC, _NEW_PROCESS_IDS, _NEW_NETWORK = (
    0x20000,
    0x4000000,
    0x8000000,
    0x20000000,
    0x40000000,
)
_NEW_USERS = 0x10000000
_COUNTS_BY_NAMESPACE = (5, 14)  # the first Linux that counts threads by user namespace, user_namespaces(7)
_READ_ONLY, _NO_SET_USER_ID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_SET_PARENT_DEATH_SIGNAL = 1
_CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True)
class SandboxSettings:
    """What a sandbox tells the processes in it, through an environment variable.

    Attributes:
        separate: whether each rank gets namespaces of its own.
        first_user: the user id of rank 0, and the next for each next rank; None to keep the user.
        home: the rank's own folder, or without namespaces, the folder that holds one for each rank.
        limits: for each rank.
        home_again: folders that show the rank's own one once more; only with namespaces, as the next.
        covered: folders that are empty for a rank, if they are there.
    """

    separate: bool
    first_user: int | None
    home: str
    limits: Limits
    home_again: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()

    def to_text(self) -> str:
        """As the variable holds it."""
        return json.dumps(asdict(self))

    @classmethod
    def here(cls) -> SandboxSettings:
        """The sandbox that this process is in.

        Raises:
            RuntimeError: it is in none.
        """
        text = os.environ.get(VARIABLE)
        if text is None:
            raise RuntimeError("isolate_rank is for processes that a Sandbox has started")
        values = json.loads(text)
        return cls(**{**values, "limits": Limits(**values["limits"])})


def fork_rank(number: int, keep: Sequence[int]) -> int:
    """Fork, and separate the child from all other processes, for good. Like os.fork: returns twice.

    Args:
        number: the rank, from 0.
        keep: file descriptors that stay open in the child: the rank's connection to the judge. All others are closed,
            and the standard streams lead nowhere.

    Returns:
        0 in the child, which is the rank from now on; its process id in the caller. Killing that process ends the rank.

    Raises:
        RuntimeError: this process was not started by a Sandbox.
        ValueError: a number that is too high.
        OSError: the system refuses something. In the child, nothing of a student's must run then.
    """
    if not 0 <= number < USERS_PER_SANDBOX:
        raise ValueError(f"expected a rank from 0 to {USERS_PER_SANDBOX - 1}, got {number}")
    settings = SandboxSettings.here()
    child = _fork_into_new_processes() if settings.separate else os.fork()
    if child == 0:
        _isolate(settings, number, keep)
    return child


def take_users(block: int) -> None:
    """Let the ranks that this process forks have users that those of other blocks don't have.

    Args:
        block: from 0; each holds users for `USERS_PER_SANDBOX` ranks.

    Raises:
        RuntimeError: this process was not started by a Sandbox.
    """
    settings = SandboxSettings.here()
    if settings.first_user is not None:
        settings = replace(settings, first_user=settings.first_user + block * USERS_PER_SANDBOX)
        os.environ[VARIABLE] = settings.to_text()


def _fork_into_new_processes() -> int:
    """Fork a child that is the first process of a new namespace. This process stays in its own."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        _call("unshare", _NEW_PROCESS_IDS)
        child = os.fork()
        if child:
            _call("setns", own, _NEW_PROCESS_IDS)
        return child
    finally:
        os.close(own)


def _isolate(settings: SandboxSettings, number: int, keep: Sequence[int]) -> None:
    _close_all_but(keep)
    home = settings.home if settings.separate else os.path.join(settings.home, str(number))
    if settings.separate:
        os.setsid()  # a signal to its process group stays within it
        user = None if settings.first_user is None else settings.first_user + number
        _enter_namespaces(settings, user)
        _limit(settings, counts_threads=user is not None or _enter_own_users())
        _give_up_rights(user)
    else:
        os.makedirs(home, exist_ok=True)
        _limit(settings, counts_threads=False)
    _settle_in(home)
    if sys.platform == "linux":
        _call("prctl", _SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if system_filter.is_supported():
        system_filter.refuse_calls()


def _close_all_but(keep: Sequence[int]) -> None:
    """Close file descriptors; the standard streams lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    edges = [2, *sorted(fd for fd in keep if fd > 2), os.sysconf("SC_OPEN_MAX")]
    for before, after in zip(edges, edges[1:], strict=False):
        os.closerange(before + 1, after)


def _settle_in(folder: str) -> None:
    """Make a folder the home, the place for temporary files, and the working folder."""
    os.environ.update(HOME=folder, TMPDIR=folder)
    os.environ.pop(VARIABLE)
    os.chdir(folder)


def _enter_namespaces(settings: SandboxSettings, user: int | None) -> None:
    _call("unshare", _NEW_MOUNTS | _NEW_NAMES | _NEW_IPC | _NEW_NETWORK)
    _call("mount", b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
    owner = "" if user is None else f",uid={user},gid={user}"
    size = f"size={settings.limits.file_bytes},nr_inodes=4096,mode=0700{owner}"
    flags = _NO_SET_USER_ID | _NO_DEVICES
    _call("mount", b"tmpfs", settings.home.encode(), b"tmpfs", flags, size.encode())
    for folder in settings.home_again:
        _call("mount", settings.home.encode(), folder.encode(), None, _BIND, None)
    for folder in filter(os.path.isdir, settings.covered):
        _call("mount", b"tmpfs", folder.encode(), b"tmpfs", flags | _READ_ONLY, b"size=4k,mode=0755")
    try:  # without the machine's counters, such as /proc/stat, which all ranks would share
        _call("mount", b"proc", b"/proc", b"proc", flags | _NO_PROGRAMS, b"subset=pid")
    except OSError:  # before Linux 5.8
        _call("mount", b"proc", b"/proc", b"proc", flags | _NO_PROGRAMS, None)


def _enter_own_users() -> bool:
    """Enter a user namespace whose only user is this process's own, and whose threads Linux counts by themselves.

    Returns:
        False where it doesn't: before Linux 5.14, or where the system allows no such namespace.
    """
    if tuple(int(part) for part in re.findall(r"[0-9]+", os.uname().release)[:2]) < _COUNTS_BY_NAMESPACE:
        return False
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _NEW_USERS)
    except OSError:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return True


def _limit(settings: SandboxSettings, counts_threads: bool) -> None:
    limits = settings.limits
    _at_most(resource.RLIMIT_CORE, 0)
    _at_most(resource.RLIMIT_FSIZE, limits.file_bytes)
    _at_most(resource.RLIMIT_NOFILE, limits.open_files)
    if sys.platform != "linux":
        return
    _at_most(resource.RLIMIT_AS, _own_memory() + limits.memory_bytes)
    _at_most(resource.RLIMIT_MSGQUEUE, 0)
    if counts_threads:  # the system counts the threads of a user, wherever they run in that user's namespace
        _at_most(resource.RLIMIT_NPROC, limits.threads)


def _at_most(what: int, amount: int) -> None:
    hard = resource.getrlimit(what)[1]
    value = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(what, (value, value))


def _own_memory() -> int:
    """Bytes of address space that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _give_up_rights(user: int | None) -> None:
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _call("capset", header, none)


def _call(function: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"the sandbox could not be closed behind a rank: {function}: {os.strerror(number)}")
