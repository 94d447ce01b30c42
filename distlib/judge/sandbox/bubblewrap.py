"""The sandbox of choice on Linux: bubblewrap (https://github.com/containers/bubblewrap), a program without a service.

    bwrap ──► first process of the sandbox ──► fork server ──► one for each submission ──► ranks

It starts in an empty root of its own, shows what `contents` lists, and has no network. When its first process is
killed, the kernel kills all others in it.

Started by root, the fork server stays root and every rank gets a user id that nobody else has. Started by anybody
else, all of it runs as that user, whose rights end at the sandbox; this needs unprivileged user namespaces, which some
systems forbid. In both cases the fork server has what it takes to make namespaces for the ranks, and the ranks have no
rights.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from distlib.judge.sandbox import contents, kinds, system_filter
from distlib.judge.sandbox.isolation import USERS_PER_SANDBOX, VARIABLE, SandboxSettings
from distlib.judge.sandbox.kinds import Confined, Sandbox, send_kill
from distlib.judge.sandbox.limits import Limits

_RIGHTS_OF_ROOT = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL")
_EVERY_USER = ["0", "0", "4294967295"]  # /proc/self/uid_map outside of any user namespace


class Bubblewrap(Sandbox):
    """Runs commands with bubblewrap.

    Args:
        program: its name or path.
    """

    name = "bubblewrap"
    serves_many = True

    def __init__(self, program: str = "bwrap") -> None:
        self._program = program

    def start(self, command: Sequence[str], pass_fds: Sequence[int], limits: Limits) -> Confined:
        errors = tempfile.TemporaryFile()
        reading, writing = os.pipe()
        program = shutil.which(self._program) or self._program
        words = [program, *_arguments(limits), "--info-fd", str(writing), "--", *command]
        with open(reading, "rb") as told:
            try:
                process = subprocess.Popen(
                    words,
                    pass_fds=[*pass_fds, writing],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env={},
                )
            finally:
                os.close(writing)
            return Confined(process, errors, _Killer(process, _read_to_end(told, process)).kill)

    def problem(self) -> str | None:
        if shutil.which(self._program) is None:
            return "bubblewrap is not installed (on Debian and Ubuntu: apt install bubblewrap)"
        if not system_filter.is_supported():
            return "the sandbox knows only Linux on x86_64 and aarch64"
        return super().problem()


def _read_to_end(told: BinaryIO, process: subprocess.Popen[bytes]) -> bytes:
    """What bubblewrap says of a sandbox. Raises OSError, and ends it, where that takes too long."""
    os.set_blocking(told.fileno(), False)
    give_up, words = time.monotonic() + kinds.TRIAL_SECONDS, b""
    while (left := give_up - time.monotonic()) > 0:
        if select.select([told], [], [], left)[0]:
            new = os.read(told.fileno(), 4096)
            if not new:
                return words
            words += new
    send_kill(process)
    process.wait()
    raise OSError(kinds.too_slow())


class _Killer:
    """Kills the first process of a sandbox. `told`: what bubblewrap has said about it, empty if it failed before."""

    def __init__(self, process: subprocess.Popen[bytes], told: bytes) -> None:
        self._process = process
        self._first: int | None = None
        with contextlib.suppress(ProcessLookupError, ValueError):
            self._first = os.pidfd_open(json.loads(told)["child-pid"])

    def kill(self) -> None:
        """bubblewrap itself ends after the last process in the sandbox."""
        if self._first is None:
            return send_kill(self._process)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        os.close(self._first)


def _arguments(limits: Limits) -> list[str]:
    root = _is_root()
    first_user = 2**30 + USERS_PER_SANDBOX * secrets.randbelow(2**20) if root else None
    settings = SandboxSettings(separate=True, first_user=first_user, home=contents.HOME, limits=limits)
    arguments = "--unshare-pid --unshare-net --unshare-ipc --unshare-uts --die-with-parent --new-session".split()
    arguments += [] if root else ["--unshare-user"]
    arguments += ["--clearenv", *_many("--setenv", {**contents.environment(), VARIABLE: settings.to_text()})]
    arguments += ["--cap-drop", "ALL"]
    for right in _RIGHTS_OF_ROOT if root else ("CAP_SYS_ADMIN",):
        arguments += ["--cap-add", right]
    return arguments + _files() + ["--chdir", contents.HOME]


def _files() -> list[str]:
    """Everything that there is in the sandbox. Read-only, but for what a rank mounts over its home."""
    shown, links, library = contents.shown_folders(), contents.system_links(), contents.library_files()
    sources = {f"{contents.LIBRARY}/{name}": str(path) for name, path in library.items()}
    arguments = []
    for folder in [*contents.folders_above([*map(str, shown), *sources, *contents.DEVICES]), contents.HOME]:
        arguments += ["--perms", "0755", "--dir", folder]  # else bubblewrap makes them for root only
    arguments += _many("--ro-bind", {str(path): str(path) for path in shown})
    hidden = [str(path) for path in contents.hidden_folders(shown)]
    for folder in hidden:
        arguments += ["--tmpfs", folder, "--remount-ro", folder]
    for file in contents.hidden_files():
        arguments += ["--ro-bind", "/dev/null", str(file)]
    arguments += _many("--ro-bind", {source: target for target, source in sources.items()})
    arguments += _many("--dev-bind", {device: device for device in contents.DEVICES})
    arguments += _many("--symlink", {**{to: link for link, to in links.items()}})
    arguments += ["--symlink", contents.HOME, "/tmp"] if not any(Path("/tmp") in path.parents for path in shown) else []
    return [*arguments, "--proc", "/proc", "--remount-ro", "/"]


def _many(option: str, pairs: dict[str, str]) -> list[str]:
    return [word for first, second in pairs.items() for word in (option, first, second)]


def _is_root() -> bool:
    """Whether this process is root with all users, so that ranks can have users of their own."""
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == _EVERY_USER
