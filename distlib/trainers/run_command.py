"""`run_text`: run a program's text by a command, in a network, a home and a folder of its own. Nothing of it is left.

    kernel ──► run_processes ──► fork server, in a network and a process namespace of its own
                                    └─► run_in_home ──► torchrun, python, … ──► all that these start

When the run ends, or is interrupted, the namespace ends, and with it every process: Ray starts some that would stay.
Where the system has no namespaces, they are found by a mark in their environment. What the run has written is in a
folder for temporary files, and is removed with it. Nobody is told of it: usage statistics are off.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from distlib.frameworks import Process, addresses, optional, own_network, run_processes
from distlib.frameworks.own_home import run_in_home
from distlib.trainers import environment_of_frameworks

SECONDS = 600.0  # for a run: DeepSpeed may have to compile, on a busy machine
QUIET = {
    **{"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},  # Accelerate
    **{"RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_ENABLE_STATE_TRACKING": "0", "RAY_ENABLE_METRICS_EXPORT": "0"},
    "RAY_DEDUP_LOGS": "0",  # else it shows a line of one worker in place of both
    "RAY_AUTH_MODE": "disabled",  # it is alone in its network, and would say so
    **optional.QUIET,  # Ray speaks gRPC
}
_CALLS = "20000"  # that the flight recorder keeps
MARK = "DISTLIB_TRAINERS_RUN"  # environment variable


@dataclass
class Ran:
    """What became of a run.

    Attributes:
        status: the command's exit status.
        lines: what all of its processes have printed.
        files: by name, what they have left to be handed on, in the folder $DISTLIB_FOUND.
    """

    status: int
    lines: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def counted(self) -> list[dict[str, Any]]:
        """What each rank has counted, by rank; see `in_each_process`. Empty if the run did not come to its end."""
        return [json.loads(self.files[name]) for name in sorted(self.files) if name.endswith(".json")]


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
    mark = new_mark()
    own = {**QUIET, "TORCH_FR_BUFFER_SIZE": _CALLS, **(env or {}), MARK: mark}
    if not warnings:
        own["PYTHONWARNINGS"] = "ignore"
    try:
        outcome = run_processes(
            {"run": Process(run_in_home, source, _in_full(command), _kept_extensions(), env=own)},
            seconds=seconds,
            on_output=lambda name, line: None,
            imports=[],
        )["run"]
    finally:
        if not own_network.has_own_network():
            end_marked(mark)
    status, files = outcome.value
    return Ran(status, outcome.lines, files)


def _kept_extensions() -> Path | None:
    """Where what DeepSpeed compiles is kept: in the frameworks' environment."""
    folder = environment_of_frameworks.folder()
    return folder / "torch_extensions" if folder.exists() else None


def new_mark() -> str:
    """What the environment of all processes of a run has, and of no other."""
    return f"{os.getpid()}-{time.time_ns()}"


def _in_full(command: str) -> list[str]:
    """A command with the paths of the frameworks' environment, and the address where torchrun's processes meet."""
    first, *rest = shlex.split(command)
    python = environment_of_frameworks.python()
    host, _, port = addresses(1)[0].partition(":")
    meet = [f"--master-addr={host}", f"--master-port={port}"]
    known = {"python": [python], "torchrun": [python, "-m", "torch.distributed.run", *meet]}
    return [*known.get(first, [str(Path(python).with_name(first))]), *rest]


# ── without namespaces ───────────────────────────────────────────────────────────────────────────────────────────────


def end_marked(mark: str) -> None:
    """End the processes that this run has left behind."""
    for process in marked(mark):
        with contextlib.suppress(psutil.Error):
            process.kill()


def marked(mark: str) -> Iterator[psutil.Process]:
    """The processes of a run that are alive."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                yield process
