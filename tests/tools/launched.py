"""Starts ranks for the tests of `distlib launch` as srun or torchrun would, without either, nor a wait for torch.

    tests ──a line of JSON──► fork server, which has imported torch ──fork──► rank 0, rank 1, …, each in its variables

The fork server adopts whatever its ranks leave behind, so it can tell that nothing is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_PATIENCE = 100.0  # seconds for all that was started to end


def without_gloos(lines: Iterable[str]) -> list[str]:
    """All lines but those that gloo itself prints in older torchs."""
    return [line for line in lines if not line.startswith("[Gloo] ")]


@dataclass(frozen=True)
class Launched:
    """What became of the ranks of one start.

    Attributes:
        statuses: by rank: its exit status, or minus the signal that killed it.
        out, err: what all of them printed.
        left: how many processes had to be ended by the test.
        files: what was left where they have met.
    """

    statuses: list[int]
    out: str
    err: str
    left: int
    files: list[str]

    def lines(self) -> list[str]:
        """The lines of `out`, sorted: ranks print in any order."""
        return sorted(without_gloos(self.out.splitlines()))


class LauncherForkServer:
    """Starts ranks. A context manager.

    Args:
        folder: for their output, and their homes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0

    def __enter__(self) -> LauncherForkServer:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.launched"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=100)

    def start(self, *words: str, variables: Sequence[Mapping[str, str]]) -> Launched:
        """`distlib launch *words`, once with each of the `variables`. Returns when nothing is left of it.

        What srun has started meets in the home, so each start gets one of its own.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._count += 1
        folder = self.folder / str(self._count)
        folder.mkdir()
        meeting = folder / ".distlib" / "rendezvous"
        own = [{"HOME": str(folder), **each} for each in variables]
        request = {"words": words, "variables": own, "folder": str(folder)}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        out, err = (
            "".join((folder / f"{stream}-{rank}").read_text() for rank in range(len(variables)))
            for stream in ("out", "err")
        )
        files = [path.name for path in meeting.glob("*")]
        return Launched(answer["statuses"], out, err, answer["left"], files)

    def srun(self, *words: str, nodes: int = 2, tasks: int = 2, **change: str) -> Launched:
        """As if srun had started `tasks` ranks on each of `nodes` nodes, n1, n2, …, which are all this machine.

        change: variables that all ranks get instead.
        """
        variables = [slurm_variables(rank, nodes, tasks) | change for rank in range(nodes * tasks)]
        return self.start(*words, variables=variables)


def slurm_variables(rank: int, nodes: int, tasks: int) -> dict[str, str]:
    """What Slurm tells a task: `tasks` on each of the nodes n1, n2, …"""
    return {
        "SLURM_JOB_ID": "12",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(nodes * tasks),
        "SLURM_LOCALID": str(rank % tasks),
        "SLURM_NODEID": str(rank // tasks),
        "SLURM_STEP_NODELIST": f"n[1-{nodes}]",
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_TASKS_PER_NODE": f"{tasks}(x{nodes})",
        "SLURMD_NODENAME": f"n{rank // tasks + 1}",
    }


def torchrun_variables(rank: int, world_size: int, port: int, address: str = "127.0.0.1") -> dict[str, str]:
    """What torchrun tells a rank that is alone on its node."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "GROUP_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "two",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def losses_in(text: str) -> dict[int, str]:
    """The losses that a training of the capstone has printed, by step, in order: nodes may mix their lines."""
    found = re.findall(r"step +([\d,]+)  loss (\S+)", text)
    return dict(sorted((int(step.replace(",", "")), loss) for step, loss in found))


# ── in the fork server ──────────────────────────────────────────────────────────────────────────────────────────────


def _serve() -> None:
    import torch.distributed  # noqa: F401  (once for all)

    import distlib.launch.run  # noqa: F401

    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    for line in sys.stdin:
        request = json.loads(line)
        pids = [_fork(request, rank) for rank in range(len(request["variables"]))]
        ended, left = _wait()
        print(json.dumps({"statuses": [ended.get(pid) for pid in pids], "left": left}), flush=True)


def _fork(request: dict[str, Any], rank: int) -> int:
    pid = os.fork()
    if pid == 0:
        status = 99
        with contextlib.suppress(SystemExit):
            for number, stream in ((1, "out"), (2, "err")):
                fd = os.open(f"{request['folder']}/{stream}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(fd, number)
            os.environ.update(request["variables"][rank])
            status = _command(request["words"])
        os._exit(status)
    return pid


def _command(words: list[str]) -> int:
    from distlib.cli import main

    sys.stdin = open(os.devnull)
    try:
        return main(["launch", *words])
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _wait() -> tuple[dict[int, int], int]:
    """How each child has ended, also adopted ones, and how many had to be killed."""
    ended: dict[int, int] = {}
    left, give_up = 0, time.monotonic() + _PATIENCE
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, left
        if pid:
            ended[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() >= give_up:
            left += _kill_all()
        else:
            time.sleep(0.01)


def _kill_all() -> int:
    children = psutil.Process().children()
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
    time.sleep(0.1)
    return len(children)


if __name__ == "__main__":
    _serve()
