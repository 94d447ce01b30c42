"""`distlib lab`: JupyterLab, opened where the student was last; with --instructor on the course's own first lesson."""

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import zmq
from jupyter_core.paths import jupyter_runtime_dir

from distlib.classroom.my_course.progress_table import in_numbers
from distlib.classroom.student_copies.copy_paths import FIRST_LESSON as FIRST_COPY, FOLDER
from distlib.cli.copies import bring_copies
from distlib.cli.course_folder import FIRST_LESSON, NO_COURSE, find_course
from distlib.cli.settings import SETTINGS, settings_for_jupyter
from distlib.cli.terminal_shell import terminal_command
from distlib.cli.where_am_i import take_stock
from distlib.printable import printable
from distlib.whole_file import make_private

STARTS_WITHIN = 300.0  # seconds; JupyterLab needs two or three, and many more on a busy machine
ENDS_WITHIN = 30  # seconds, likewise


def open_lab(extra: list[str], *, instructor: bool = False, from_start: bool = False) -> int:
    """Starts JupyterLab where the student was last, prints its address, and waits until it ends.

    extra: options for `jupyter lab`; they win over ours. instructor: show the whole course with nbgrader's panels,
    instead of the student's copies. from_start: open the first lesson. Returns JupyterLab's exit status: 0 if it was
    asked to end, 128 plus the signal's number if it was killed; 1 without a course, or if the student's copies can't
    be made.
    """
    root = find_course(Path.cwd())
    if root is None:
        print(NO_COURSE)
        return 1
    if not instructor:
        with contextlib.suppress(OSError):  # the copies are there already
            make_private(root / FOLDER)
        if not bring_copies(root):
            return 1
    folder, first = (root, FIRST_LESSON) if instructor else (root / FOLDER, where_to_open(root, from_start=from_start))
    with tempfile.TemporaryDirectory(prefix="distlib-lab-") as spare:
        os.environ.update(folders_for_jupyter(os.environ, Path.home(), Path(spare)))
        os.environ.update(settings_for_jupyter(os.environ, root, instructor=instructor))
        os.environ["JUPYTER_TOKEN"] = own_token(os.environ)
        # In a session of its own, so that Ctrl-C reaches it once, through us, as an orderly end.
        server = subprocess.Popen(lab_command(folder, first, extra), cwd=root, start_new_session=True)
        asked = end_when_asked(server)
        if not of_hub(os.environ):
            announce(server, folder, first, wanted_port(extra))
        status = server.wait()
        signal.alarm(0)
        if not instructor:
            take_stock(root)  # now the times of the notebooks are those of the work in them
        if status < 0 and not asked.is_set():
            name = signal.Signals(-status).name
            print(f"\nJupyterLab was killed ({name}), perhaps because the machine had no memory left.")
            return 128 - status
        return max(0, status)


def where_to_open(course: Path, *, from_start: bool) -> Path:
    """The notebook that was worked on last, from the folder of copies; the first lesson where there is none.

    Also prints the next step. course: the course's folder. from_start: open the first lesson in any case.
    """
    own = take_stock(course)
    for remark in own.remarks:
        print(f"Remark: {printable(remark)}")
    if not own.last:
        return Path(FIRST_COPY).relative_to(FOLDER)
    print(f"{in_numbers(own)}\nNext: {own.next_step}")
    return Path(FIRST_COPY).relative_to(FOLDER) if from_start else Path(own.last)


def announce(server: subprocess.Popen[bytes], folder: Path, first: Path, wanted: int | None) -> None:
    """Prints the address of the notebook `first` once the server listens, and starts its kernel.

    Before it, what the user may not expect: that the wanted port is taken, and where else this folder is open.
    """
    elsewhere = list(running_on(folder, first, besides=server.pid))
    if address := wait_for_address(server, Path(jupyter_runtime_dir()), first):
        if wanted and (port := urlsplit(address).port) != wanted:
            print(f"\nPort {wanted} is taken, so this JupyterLab is on port {port}.")
        for other in elsewhere:
            print(f"\nA JupyterLab of the same folder is running already, at {other}")
            print("Use one of the two: what you save in one, the other does not show until it is loaded again.")
        print(f"\nJupyterLab is at\n\n    {address}\n\nStop it with Ctrl-C.", flush=True)
        start_kernel(address, first)


def wanted_port(extra: list[str]) -> int | None:
    """The port that options for `jupyter lab` name; None if it may be any."""
    named = re.findall(r"--(?:ServerApp\.)?port[= ](\d+)", " ".join(extra))
    return int(named[-1]) or None if named else None


def running_on(folder: Path, first: Path, besides: int) -> Iterator[str]:
    """The addresses of the notebook `first` on this user's other JupyterLabs that show `folder`.

    besides: the process id of the one that is not meant.
    """
    for file in Path(jupyter_runtime_dir()).glob("jpserver-*.json"):
        with contextlib.suppress(OSError, ValueError):  # it has ended, or it is another machine's with the same home
            server_info = json.loads(file.read_text())
            if server_info["pid"] != besides and Path(server_info["root_dir"]).resolve() == folder.resolve():
                os.kill(server_info["pid"], 0)
                socket.create_connection((server_info["hostname"], server_info["port"]), timeout=1).close()
                yield address_of(server_info, first)


def of_hub(environment: Mapping[str, str]) -> bool:
    """Whether JupyterHub starts this server. It tells it where to listen, and decides who may come in."""
    return "JUPYTERHUB_SERVICE_URL" in environment


def own_token(environment: Mapping[str, str]) -> str:
    """The token that the user has chosen, else a new one.

    Without one JupyterLab would print addresses of its own; with an empty one it would let everybody in.
    """
    return environment.get("JUPYTER_TOKEN") or secrets.token_hex(24)


def end_when_asked(server: subprocess.Popen[bytes], seconds: int = ENDS_WITHIN) -> threading.Event:
    """From now on Ctrl-C, SIGTERM and a closed terminal end the server in order, or `seconds` later without.

    A server that has shut everything down can still wait forever for a thread of its own. Returns an event that is set
    when one of these has come.
    """
    asked = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        asked.set()
        server.terminate()
        signal.alarm(seconds)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    signal.signal(signal.SIGALRM, lambda number, frame: server.kill())
    return asked


def lab_command(folder: Path, first: Path, extra: list[str]) -> list[str]:
    """The command that starts JupyterLab, quiet, and with encrypted kernels where that works.

    folder: what the file browser shows. first: the notebook to open, from there. extra: more options.
    """
    server = "jupyterhub.singleuser" if of_hub(os.environ) else "jupyterlab"
    command = [sys.executable, "-m", server, str(folder / first)]
    command.append(f"--ServerApp.root_dir={folder}")
    command.append("--ServerApp.answer_yes=True")
    command += ["--ServerApp.log_level=ERROR", "--LabApp.log_level=ERROR"]
    command.append(f"--ServerApp.terminado_settings={ {'shell_command': terminal_command()} }")
    style = {"static_custom_path": [str(SETTINGS / "everybody" / "custom")]}
    command += ["--LabApp.custom_css=True", f"--ServerApp.tornado_settings={style}"]
    if zmq.has("curve"):
        command.append("--KernelManager.transport_encryption=auto")  # other users of the machine can't listen
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # containers and CI machines run as root
    return command + extra


def folders_for_jupyter(environment: Mapping[str, str], home: Path, spare: Path) -> dict[str, str]:
    """Variables that send Jupyter's, IPython's and matplotlib's files to `spare` when the home can't be written.

    Returns {} for a writable home. A folder that the user has already chosen is left as it is.
    """
    if os.access(home, os.W_OK | os.X_OK):
        return {}
    names = ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    return {name: str(spare / name.lower()) for name in names if name not in environment}


def wait_for_address(server: subprocess.Popen[bytes], runtime_folder: Path, first: Path) -> str | None:
    """Waits until the server listens, and returns the address of the notebook `first`; None when it ended instead.

    The server writes jpserver-<pid>.json itself, so port, token and prefix are those it really uses. It writes it a
    moment before it listens.
    """
    information = runtime_folder / f"jpserver-{server.pid}.json"
    deadline = time.monotonic() + STARTS_WITHIN
    while server.poll() is None and time.monotonic() < deadline:
        try:
            server_info = json.loads(information.read_text())
            if not server_info.get("sock"):  # else it listens on a Unix socket, of which there is no address to open
                socket.create_connection((server_info["hostname"], server_info["port"]), timeout=1).close()
            return address_of(server_info, first)
        except (OSError, ValueError):
            time.sleep(0.1)
    return None


def start_kernel(address: str, first: Path) -> None:
    """Starts the kernel of a notebook while the browser still loads the page, which then finds it and takes it.

    address: the notebook's, with the token. first: its path there. If the server refuses, the page starts the kernel.
    """
    server, _, _ = address.partition("lab/tree/")
    _, _, token = address.partition("?token=")
    session = {"path": first.as_posix(), "name": first.name, "type": "notebook", "kernel": {"name": "python3"}}
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}api/sessions", json.dumps(session).encode(), headers)
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the token is for no proxy
    with contextlib.suppress(OSError):  # of which HTTPError is one
        directly.open(request, timeout=STARTS_WITHIN).close()


def address_of(information: Mapping[str, str], first: Path) -> str:
    """The address of a notebook on a server. information: what is in its jpserver-<pid>.json."""
    address = f"{information['url']}lab/tree/{first.as_posix()}"
    return f"{address}?token={information['token']}" if information.get("token") else address
