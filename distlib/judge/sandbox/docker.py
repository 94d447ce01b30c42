"""A sandbox on machines with Docker on Linux: a container without network and without rights.

With the image `distlib-grader` (docker/Dockerfile, target grader) a container has the Python and the packages of that
image, and nothing of this machine but the library. Without it, the container shows the same files as with bubblewrap,
from the same places, on an image that is empty: nothing is downloaded, and it runs exactly this environment.

The sockets that the judge passes on reach a container through a socket in a private folder: file descriptors travel
between processes of one kernel, so Docker Desktop won't do.

The fork server keeps the rights that it needs to separate the ranks, and Docker's own filter for system calls is off,
since it refuses new namespaces. Every rank has ours, and no rights. What Docker shows in a container and all ranks
would share is covered in each of them: terminals, shared memory, and the counters in /sys.

The options: https://docs.docker.com/reference/cli/docker/container/run/
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
from distlib.judge.sandbox.isolation import USERS_PER_SANDBOX, VARIABLE, SandboxSettings
from distlib.judge.sandbox.kinds import Confined, Sandbox, send_kill
from distlib.judge.sandbox.limits import Limits

EMPTY, GRADER = "distlib-empty", "distlib-grader"  # images; the second one is used where there is one
PYTHON = "/opt/venv/bin/python"  # of the second
_RIGHTS = ("SYS_ADMIN", "SETUID", "SETGID", "KILL", "DAC_OVERRIDE")  # of the fork server; the ranks give them up
_COVERED = ("/dev/mqueue", "/dev/pts", "/dev/shm", "/sys")
_CONNECT_SECONDS = 120.0
_JUDGE = "/judge"  # in the container: the folder with the socket

# In the container, before the command: take over the judge's file descriptors, under the numbers they have there.
_TAKE_OVER = f"""
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect("{_JUDGE}/socket")
os.environ.pop("HOSTNAME", None)
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
        image: what containers are made of; None to take the grader's image where there is one, else the empty one.
    """

    name = "docker"
    serves_many = True

    def __init__(self, program: str = "docker", image: str | None = None) -> None:
        self._program = program
        self._image = image

    def start(self, command: Sequence[str], pass_fds: Sequence[int], limits: Limits) -> Confined:
        image = self._find_image()
        folder = Path(tempfile.mkdtemp(prefix="distlib-judge-"))
        lay_out_library(folder / "library")
        name = f"distlib-{secrets.token_hex(8)}"
        numbers = ",".join(map(str, pass_fds))
        python = command[0] if image == EMPTY else PYTHON
        words = [self._program, "run", *arguments(name, folder, limits, image), image]
        words += [python, "-c", _TAKE_OVER, numbers, python, *command[1:]]
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

    def _find_image(self) -> str:
        """The image asked for, else the grader's where there is one, else the empty one, which is made if need be."""
        image = self._image or (GRADER if self._is_there(GRADER) else EMPTY)
        if image == EMPTY and not self._is_there(EMPTY):
            empty_archive = bytes(10_240)
            made = subprocess.run([self._program, "import", "-", EMPTY], input=empty_archive, capture_output=True)
            if made.returncode:
                raise OSError(f"docker import failed: {made.stderr.decode(errors='replace').strip()}")
        return image

    def _is_there(self, image: str) -> bool:
        return self._run("image", "inspect", image).returncode == 0

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self._program, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def arguments(name: str, folder: Path, limits: Limits, image: str) -> list[str]:
    """The options of `docker run`.

    There is no limit for the container as a whole, since it may serve a class of any size; each rank has its own.

    Args:
        name: the container's.
        folder: here, with the judge's socket and the library.
        image: what the container is made of.
    """
    shown = contents.shown_folders() if image == EMPTY else []
    first_user = 2**30 + USERS_PER_SANDBOX * secrets.randbelow(2**20)
    # Answers may write to /tmp by that name, unless this environment lies there.
    again = () if any(Path("/tmp") in path.parents for path in shown) else ("/tmp",)
    settings = SandboxSettings(
        separate=True, first_user=first_user, home=contents.HOME, limits=limits, home_again=again, covered=_COVERED
    )
    options = ["--rm", "--name", name, "--network", "none", "--ipc", "none", "--read-only", "--user", "0:0"]
    options += ["--entrypoint", "", "--no-healthcheck", "--log-driver", "none", "--cap-drop", "ALL"]
    options += _many("--cap-add", _RIGHTS)
    options += _many("--security-opt", ["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"])
    options += _many("--tmpfs", [f"{path}:ro,size=4k" for path in (contents.HOME, *again)])
    options += ["--workdir", contents.HOME]
    variables = {**contents.environment(), VARIABLE: settings.to_text()}
    options += _many("--env", [f"{key}={value}" for key, value in variables.items()])
    options += _many("--volume", [f"{source}:{target}:ro" for source, target in _volumes(shown)])
    options += _many("--tmpfs", [f"{hidden}:ro,size=4k" for hidden in contents.hidden_folders(shown)])
    options += ["--volume", f"{folder / 'library'}:{contents.LIBRARY}:ro"]
    return [*options, "--volume", f"{folder}:{_JUDGE}:ro"]


def _volumes(shown: Sequence[Path]) -> list[tuple[Path, str]]:
    """What is shown, and where. A volume can't be a link: what /bin leads to is shown once more as /bin."""
    if not shown:
        return []
    volumes = [(path, str(path)) for path in shown]
    volumes += [(Path(link).resolve(), link) for link in contents.system_links()]
    return volumes + [(Path(os.devnull), str(file)) for file in contents.hidden_files()]


def lay_out_library(folder: Path) -> None:
    """Copy the sandbox's distlib to a folder, readable by everybody. One volume is quicker than one for each file."""
    for name, source in contents.library_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


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
