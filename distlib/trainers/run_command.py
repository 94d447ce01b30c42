"""`run_text`: run a program's text by a command, in a network, a home and a folder of its own. Nothing of it is left.

    kernel ──► run_processes ──► fork server, in a network and a process namespace of its own
                                    └─► run_in_folder ──► torchrun, python, … ──► all that these start

When the run ends, or is interrupted, the namespace ends, and with it every process: Ray starts some that would stay.
Where the system has no namespaces, they are found by a mark in their environment. What the run has written is in a
folder for temporary files, and is removed with it. Nobody is told of it: usage statistics are off.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from distlib.frameworks import Process, addresses, own_network, run_processes
from distlib.trainers import environment_of_frameworks
from distlib.trainers.in_each_process import BEGAN, FOLDER

SECONDS = 600.0  # for a run: DeepSpeed may have to compile, on a busy machine
QUIET = {
    **{"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},  # Accelerate
    **{"RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_ENABLE_STATE_TRACKING": "0", "RAY_ENABLE_METRICS_EXPORT": "0"},
    **{"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR"},
}
_CALLS = "20000"  # that the flight recorder keeps
_LOOPBACK = "lo"


@dataclass
class Ran:
    """What became of a run.

    Attributes:
        status: the command's exit status.
        lines: what all of its processes have printed.
        counted: what each rank has counted, by rank; see `in_each_process`. Empty if it did not come to its end.
        parameters: rank 0's, as torch saves them; empty likewise.
    """

    status: int
    lines: list[str] = field(default_factory=list)
    counted: list[dict[str, Any]] = field(default_factory=list)
    parameters: bytes = b""


def run_text(
    source: str, command: str, *, env: Mapping[str, str] | None = None, warnings: bool = False, seconds: float = SECONDS
) -> Ran:
    """Run a program.

    Args:
        source: its text, which becomes `train.py`.
        command: as a student types it, "torchrun --nproc-per-node 2 train.py".
        env: environment variables on top.
        warnings: whether Python's warnings are to be seen.
        seconds: after which all is ended.

    Raises:
        ProcessTimeout: it took longer.
        KeyboardInterrupt: the kernel was interrupted. All processes are gone.
    """
    mark = f"{os.getpid()}-{time.time_ns()}"
    own = {**QUIET, **(env or {}), "DISTLIB_TRAINERS_RUN": mark}
    if not warnings:
        own["PYTHONWARNINGS"] = "ignore"
    try:
        outcome = run_processes(
            {"run": Process(run_in_folder, source, _in_full(command), env=own)},
            seconds=seconds,
            on_output=lambda name, line: None,
            imports=[],
        )["run"]
    finally:
        if not own_network.has_own_network():
            _end_marked(mark)
    ran: Ran = outcome.value
    ran.lines = outcome.lines
    return ran


def _in_full(command: str) -> list[str]:
    """A command with the paths of the frameworks' environment, and the address where torchrun's processes meet."""
    first, *rest = shlex.split(command)
    python = environment_of_frameworks.python()
    host, _, port = addresses(1)[0].partition(":")
    meet = [f"--master-addr={host}", f"--master-port={port}"]
    known = {"python": [python], "torchrun": [python, "-m", "torch.distributed.run", *meet]}
    return [*known.get(first, [str(Path(python).with_name(first))]), *rest]


# ── in the run's own process ─────────────────────────────────────────────────────────────────────────────────────────


def run_in_folder(source: str, command: list[str]) -> Ran:
    """Run a command in a new folder, with a new home."""
    top = Path(tempfile.gettempdir())
    folders = {name: top / name for name in ("work", "home", "found", "tmp")}
    for each in folders.values():
        each.mkdir()
    (folders["work"] / "train.py").write_text(source, encoding="utf-8")
    environment = {**os.environ, **_own_places(folders), **_own_settings(command[0])}
    with _kept_extensions(Path(environment.setdefault("TORCH_EXTENSIONS_DIR", str(top / "extensions")))):
        environment[BEGAN] = str(time.time())
        status = subprocess.run(command, cwd=folders["work"], env=environment, stdin=subprocess.DEVNULL).returncode
    counted = [json.loads(file.read_text()) for file in sorted(folders["found"].glob("*.json"))]
    parameters = folders["found"] / "parameters.pt"
    return Ran(status, [], counted, parameters.read_bytes() if parameters.exists() else b"")


def _own_places(folders: Mapping[str, Path]) -> dict[str, str]:
    """Where frameworks write to."""
    home, cache = str(folders["home"]), str(folders["home"] / ".cache")
    return {
        **{"HOME": home, "XDG_CACHE_HOME": cache, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home},
        **{"TMPDIR": str(folders["tmp"]), "RAY_TMPDIR": str(folders["tmp"]), "MPLCONFIGDIR": home, "HF_HOME": cache},
        **{"TRITON_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": cache},
        FOLDER: str(folders["found"]),
    }


@contextlib.contextmanager
def _kept_extensions(used: Path) -> Iterator[None]:
    """What DeepSpeed compiles the first time is kept in the frameworks' environment.

    A run works on a copy: one that is interrupted while it compiles would leave a lock, and the next ones would wait.
    """
    kept = environment_of_frameworks.folder() / "torch_extensions"
    if used.is_absolute() and kept.exists():
        shutil.copytree(kept, used, dirs_exist_ok=True)
    yield
    if used.is_absolute() and kept.parent.exists() and not kept.exists() and any(used.rglob("*.so")):
        draft = kept.with_name(f"{kept.name}-{os.getpid()}")
        shutil.copytree(used, draft, ignore=shutil.ignore_patterns("lock"))
        with contextlib.suppress(OSError):  # another run was faster
            draft.rename(kept)


def _own_settings(python: str) -> dict[str, str]:
    """One thread for each rank, over loopback, calls recorded, and no compiled files next to a package's."""
    interface = _LOOPBACK if _LOOPBACK in psutil.net_if_addrs() else f"{_LOOPBACK}0"
    return {
        **{"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface},
        **{"TORCH_FR_BUFFER_SIZE": _CALLS, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        "PATH": os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")]),
    }


# ── without namespaces ───────────────────────────────────────────────────────────────────────────────────────────────


def _end_marked(mark: str) -> None:
    """End the processes that this run has left behind."""
    for process in _marked(mark):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("DISTLIB_TRAINERS_RUN") == mark:
                yield process
