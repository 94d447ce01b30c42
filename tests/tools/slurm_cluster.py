"""A real Slurm on machines made of this one (see machines): its controller on n0, nodes n1, n2, …

No munge, no database, no cgroups: what a test needs to see is what srun starts, where, and in which variables.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tools import machines
from tests.tools.cpu_limit import CpuLimit
from tests.tools.machines import Machines

_PATIENCE = 120.0  # seconds for all nodes to be up
_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost=n0(10.77.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName=n[1-{nodes}] NodeAddr=10.77.0.[2-{last}] CPUs=8 RealMemory=64000
PartitionName=all Nodes=ALL Default=YES
"""


def missing() -> str | None:
    """Why this can't be had here; None if it can."""
    absent = [name for name in ("slurmctld", "slurmd", "srun") if shutil.which(name) is None]
    return f"needs {', '.join(absent)}" if absent else machines.missing()


class SlurmCluster:
    """A Slurm with some nodes. A context manager.

    Args:
        folder: for its configuration, state and logs.
        nodes: how many.
        limits: how much of a processor each may use; all of them without it.
    """

    def __init__(self, folder: Path, nodes: int, limits: Sequence[CpuLimit] = ()) -> None:
        self.folder, self.nodes, self._limits = folder, nodes, limits
        self.machines = Machines(nodes + 1)
        self._variables = {"SLURM_CONF": str(folder / "slurm.conf"), "SLURM_EXPORT_ENV": "ALL"}

    def __enter__(self) -> SlurmCluster:
        for name in ("state", *(f"n{node}" for node in range(1, self.nodes + 1))):
            (self.folder / name).mkdir()
        configuration = _CONFIGURATION.format(folder=self.folder, nodes=self.nodes, last=self.nodes + 1)
        Path(self._variables["SLURM_CONF"]).write_text(configuration)
        self.machines.__enter__()
        try:
            self.start(["slurmctld", "-D", "-i"], stderr=subprocess.DEVNULL)
            for node in range(1, self.nodes + 1):
                self._start_node(node)
            self._wait_until_up()
        except BaseException:
            self.machines.__exit__()
            raise
        return self

    def _start_node(self, node: int) -> None:
        command = ["slurmd", "-D", "-N", f"n{node}"]
        limited = self._limits[node - 1].inside(command) if self._limits else command
        self.start(limited, node, stderr=subprocess.DEVNULL)

    def __exit__(self, *_: object) -> None:
        self.machines.__exit__()

    def kill_node(self, node: int) -> None:
        """End all that runs on a node, Slurm's own daemon first: as if the node had lost its power."""
        for pid in self.machines.processes(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def revive_node(self, node: int) -> None:
        """Start a killed node again, and wait until it is up."""
        self._start_node(node)
        self._wait_until_up()

    def start(
        self, command: Sequence[str], machine: int = 0, variables: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command, such as srun, on a machine of the cluster. `options`: of Popen."""
        return self.machines.start(machine, command, {**self._variables, **(variables or {})}, **options)

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command on n0."""
        process = self.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        out, err = process.communicate(timeout=200)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def _wait_until_up(self) -> None:
        give_up = time.monotonic() + _PATIENCE
        while True:
            states = self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
            if states == ["idle"] * self.nodes:
                return
            if time.monotonic() >= give_up:
                logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
                raise RuntimeError(f"Slurm's nodes are not up, but {states}:\n{logs}")
            time.sleep(0.1)
