"""A sandbox on machines with Docker on Linux: a container without network, rights or an image of its own.

The container shows the same files as with bubblewrap, from the same places, on an image that is empty. So nothing is
downloaded, and a container runs exactly this environment. The sockets that the judge passes on reach it through a
socket in a private folder: file descriptors travel between processes of one kernel, so Docker Desktop won't do.

The nursery keeps the rights that it needs to separate the ranks, and Docker's own filter for system calls is off, since
it refuses new namespaces. Every rank has ours, and no rights.

This was written from Docker's documentation (https://docs.docker.com/reference/cli/docker/container/run/) and has
not been run with a Docker service: `distlib doctor` tries it where there is one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from distlib.judge.sandbox import contents, system_filter
from distlib.judge.sandbox.isolation import USERS_PER_SANDBOX, VARIABLE, Place
from distlib.judge.sandbox.kinds import Confined, Sandbox, send_kill
from distlib.judge.sandbox.limits import Limits

IMAGE = "distlib-empty"
_RIGHTS = ("SYS_ADMIN", "SETUID", "SETGID", "KILL", "DAC_OVERRIDE")  # of the nursery; the ranks give them up
_MOST_RANKS = 16  # that are expected in one container, for its limits as a whole
_CONNECT_SECONDS = 30.0
_JUDGE = "/judge"  # in the container: the folder with the socket

# In the container, before the command: take over the judge's file descriptors, under the numbers they have there.
_TAKE_OVER = f"""
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect("{_JUDGE}/socket")
numbers = [int(number) for number in sys.argv[1].split(",") if number]
passed = socket.recv_fds(connection, 1, len(numbers))[1]
high = [os.dup2(fd, 500 + index) for index, fd in enumerate(passed)]
for fd in passed:
    os.close(fd)
for number, fd in zip(numbers, high):
    os.dup2(fd, number)
    os.close(fd)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Docker(Sandbox):
    """Runs commands in containers.

    Args:
        program: the client's name or path.
    """

    name = "docker"

    def __init__(self, program: str = "docker") -> None:
        self._program = program

    def start(self, command: Sequence[str], pass_fds: Sequence[int], limits: Limits) -> Confined:
        self._make_image()
        folder = Path(tempfile.mkdtemp(prefix="distlib-judge-"))
        name = f"distlib-{secrets.token_hex(8)}"
        numbers = ",".join(map(str, pass_fds))
        words = [self._program, "run", *arguments(name, folder, limits), IMAGE]
        words += [command[0], "-c", _TAKE_OVER, numbers, *command]
        errors = tempfile.TemporaryFile()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
            listener.listen(1)
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
            hand_over(listener, process, pass_fds)

        def end() -> None:
            self._run("rm", "--force", name)
            send_kill(process)
            shutil.rmtree(folder, ignore_errors=True)

        return Confined(process, errors, end)

    def problem(self) -> str | None:
        if shutil.which(self._program) is None:
            return "Docker is not installed"
        if not system_filter.is_supported():
            return "the sandbox knows only Linux on x86_64 and aarch64"
        found = self._run("version", "--format", "{{.Server.Os}}")
        if found.returncode:
            return (found.stderr.strip().splitlines() or ["Docker's service does not answer"])[-1]
        return super().problem()

    def _make_image(self) -> None:
        """An image with nothing in it, from an empty archive."""
        if self._run("image", "inspect", IMAGE).returncode == 0:
            return
        made = subprocess.run([self._program, "import", "-", IMAGE], input=bytes(10_240), capture_output=True)
        if made.returncode:
            raise OSError(f"docker import failed: {made.stderr.decode(errors='replace').strip()}")

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self._program, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def arguments(name: str, folder: Path, limits: Limits) -> list[str]:
    """The options of `docker run`.

    Args:
        name: the container's.
        folder: here, with the judge's socket.
    """
    first_user = 2**30 + USERS_PER_SANDBOX * secrets.randbelow(2**20)
    place = Place(separate=True, first_user=first_user, home=contents.HOME, limits=limits)
    shown = contents.shown_folders()
    options = ["--rm", "--name", name, "--network", "none", "--ipc", "none", "--read-only", "--user", "0:0"]
    options += ["--cap-drop", "ALL", *_many("--cap-add", _RIGHTS)]
    options += _many("--security-opt", ["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"])
    options += ["--pids-limit", str(_MOST_RANKS * limits.threads)]
    options += ["--memory", str(_MOST_RANKS * limits.memory_bytes)]
    options += ["--tmpfs", f"{contents.HOME}:ro,size=4k", "--workdir", contents.HOME]
    variables = {**contents.environment(), VARIABLE: place.to_text()}
    options += _many("--env", [f"{key}={value}" for key, value in variables.items()])
    options += _many("--volume", [f"{source}:{target}:ro" for source, target in _volumes(shown)])
    options += _many("--tmpfs", [f"{hidden}:ro,size=4k" for hidden in contents.hidden_folders(shown)])
    return [*options, "--volume", f"{folder}:{_JUDGE}:ro"]


def _volumes(shown: Sequence[Path]) -> list[tuple[Path, str]]:
    """What is shown, and where. A volume can't be a link: what /bin leads to is shown once more as /bin."""
    volumes = [(path, str(path)) for path in shown]
    volumes += [(Path(link).resolve(), link) for link in contents.system_links()]
    volumes += [(Path(os.devnull), str(file)) for file in contents.hidden_files()]
    return volumes + [(path, f"{contents.LIBRARY}/{name}") for name, path in contents.library_files().items()]


def _many(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def hand_over(listener: socket.socket, process: subprocess.Popen[bytes], pass_fds: Sequence[int]) -> None:
    """Wait for the container's call, and pass file descriptors on to it. Nothing, if the container has ended before."""
    listener.settimeout(0.1)
    for _ in range(int(_CONNECT_SECONDS * 10)):
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            if process.poll() is not None:
                return
            continue
        with connection:
            socket.send_fds(connection, [b"-"], list(pass_fds))
            return
