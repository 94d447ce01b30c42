#!/opt/venv/bin/python
"""`on-nodes COMMAND`: runs a command on all nodes of the cluster of docker/cluster.yaml, and shows what they print.

    on-nodes hostname
    on-nodes torchrun --nproc-per-node 2 -m distlib.cli launch train.py:main

What srun does in a Slurm job, and a loop over ssh elsewhere, in the simplest way: by a folder that all of them share.

    head   on-nodes           job.json: what to run, and on which nodes ──►  ┐
                         ◄──  what a node prints, then its exit status       ├ a folder for each job
    node   on-nodes --serve   runs it as long as `on-nodes` holds job.json   ┘

The nodes are all machines that Docker's name service knows as `node`, so one that is killed, or cut off from the
network, is one no longer. torchrun's processes meet at a store on the head. They learn of it from variables: PET_NNODES
stands for --nnodes, and so on; options of the command line count more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

JOBS = Path(os.environ.get("JOBS", "/course/work/.jobs"))
SERVICE = "node"
TORCHRUN = {"torchrun", "torch.distributed.run"}
FAREWELL = 5.0  # seconds for a command to end when it is asked to
# A node that is silent for 10 s is lost; where fewer than all will do, the others are waited for for 10 s.
QUICK = "keep_alive_interval=1,keep_alive_max_attempt=10,last_call_timeout=10"


# ── on the head ──────────────────────────────────────────────────────────────────────────────────────────────────────


def run(command: Sequence[str]) -> int:
    """Run it on all nodes. Returns the highest exit status of a node; one that is lost on the way doesn't count."""
    nodes = addresses()
    if not nodes:
        print("on-nodes: there is no node. docker compose -f docker/cluster.yaml up --scale node=2", file=sys.stderr)
        return 2
    JOBS.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=JOBS))
    store, variables = open_store(nodes, folder.name) if TORCHRUN & set(command) else (None, {})
    variables |= {"DISTLIB_SECRET_FILE": str(draw_secret(folder))}  # the nodes have no home in common
    job = {"nodes": nodes, "command": list(command), "folder": os.getcwd(), "variables": variables}
    watch = Watch(folder, nodes)
    try:
        with posted(folder, job):
            watch.until_over(addresses)
        return watch.status()
    except KeyboardInterrupt:  # the nodes have seen it, too
        watch.until_over(addresses, patience=2 * FAREWELL)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        del store


def addresses() -> list[str]:
    """The addresses of all nodes that are there."""
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(SERVICE, None, socket.AF_INET)})
    except socket.gaierror:
        return []


def open_store(nodes: Sequence[str], name: str) -> tuple[Any, dict[str, str]]:
    """A store for torchrun's processes, for as long as it is kept, and the variables by which they find it."""
    from torch.distributed import TCPStore

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((nodes[0], 9))  # sends nothing
        own = asking.getsockname()[0]
    store = TCPStore(own, 0, is_master=True, wait_for_workers=False)
    options = {"NNODES": str(len(nodes)), "RDZV_BACKEND": "c10d", "RDZV_ENDPOINT": f"{own}:{store.port}"}
    options |= {"RDZV_ID": name, "RDZV_CONF": QUICK}
    return store, {"OMP_NUM_THREADS": "1", **{f"PET_{option}": value for option, value in options.items()}}


def draw_secret(folder: Path) -> Path:
    """A file by which the ranks of a job know each other."""
    path = folder / "secret"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    return path


@contextlib.contextmanager
def posted(folder: Path, job: dict[str, Any]) -> Iterator[None]:
    """In this block the job stands in the folder, and is held. The system lets go of it, too, if this process dies."""
    new = folder / "new"
    with open(new, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(job, file)
        file.flush()
        os.replace(new, folder / "job.json")
        yield


class Watch:
    """What the nodes say about a job.

    Args:
        folder: the job's.
        nodes: their addresses.
    """

    def __init__(self, folder: Path, nodes: Sequence[str]) -> None:
        self._folder, self._nodes = folder, nodes
        self._shown: dict[Path, int] = {}
        self._gone: set[str] = set()

    def until_over(self, there: Callable[[], Sequence[str]], patience: float = float("inf")) -> None:
        """Show what they print until each of them has ended, or is not there any more."""
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up:
            missing = [node for node in self._nodes if node not in self._statuses() and node not in self._gone]
            self._show(last=not missing)
            if not missing:
                return
            self._note_gone(set(missing) - set(there()))
            time.sleep(0.2)

    def status(self) -> int:
        """The highest exit status; 1 if no node is left that has one."""
        return max((status for node, status in self._statuses().items() if node not in self._gone), default=1)

    def _statuses(self) -> dict[str, int]:
        return {path.name.partition("_")[0]: int(path.read_text()) for path in self._folder.glob("*.status")}

    def _note_gone(self, nodes: set[str]) -> None:
        for node in nodes - self._statuses().keys():
            names = [path.stem.partition("_")[2] for path in self._folder.glob(f"{node}_*.out")]
            print(f"on-nodes: node {(names or [node])[0]} is gone.", file=sys.stderr, flush=True)
        self._gone |= nodes

    def _show(self, last: bool) -> None:
        """Whole lines, with the name of the node; at last what is left, too."""
        for path in sorted(self._folder.glob("*.out")):
            with open(path, "rb") as file:
                file.seek(self._shown.get(path, 0))
                new = file.read()
            new = new if last else new[: new.rfind(b"\n") + 1]
            self._shown[path] = self._shown.get(path, 0) + len(new)
            for line in new.decode(errors="replace").splitlines():
                print(f"[{path.stem.partition('_')[2]}] {line}", flush=True)


# ── on a node ────────────────────────────────────────────────────────────────────────────────────────────────────────


def serve() -> None:
    """Run the jobs that are for this node. Does not return."""
    seen: set[Path] = set()
    running: dict[Path, subprocess.Popen[bytes]] = {}
    while True:
        for file in set(JOBS.glob("*/job.json")) - seen:
            seen.add(file)
            started = start(file) if is_held(file) else None
            if started is not None:
                running[file] = started
        for file, process in list(running.items()):
            if process.poll() is not None or not is_held(file):
                end(process)
                report(file, process.returncode)
                del running[file]
        time.sleep(0.1)


def start(file: Path) -> subprocess.Popen[bytes] | None:
    """Start a job; None if it is not for this node."""
    job = json.loads(file.read_text())
    if own_address() not in job["nodes"]:
        return None
    variables = {**os.environ, "PYTHONUNBUFFERED": "1", **job["variables"]}
    with open(named(file, "out"), "wb") as out:
        try:
            return subprocess.Popen(
                job["command"],
                cwd=job["folder"],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            out.write(f"on-nodes: {error}\n".encode())
            report(file, 127)
            return None


def is_held(file: Path) -> bool:
    """Whether the process that has posted a job is still there."""
    try:
        with open(file) as job:
            fcntl.flock(job, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # the folder is gone
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    """End a job, with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(FAREWELL)


def report(file: Path, status: int) -> None:
    """Leave the exit status, unless nobody asks for it any more."""
    with contextlib.suppress(OSError):
        new = named(file, "new")
        new.write_text(str(status if status >= 0 else 128 - status))
        os.replace(new, named(file, "status"))


def named(file: Path, kind: str) -> Path:
    """A file of this node next to job.json, such as 172.18.0.3_4c1d0fb7aa21.out"""
    return file.with_name(f"{own_address()}_{socket.gethostname()}.{kind}")


def own_address() -> str:
    """This node's. It may have another one after it was connected anew."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "cut-off"


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    elif sys.argv[1:] and not sys.argv[1].startswith("-"):
        sys.exit(run(sys.argv[1:]))
    else:
        print(__doc__)
        sys.exit(2)
