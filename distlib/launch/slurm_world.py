"""`SlurmWorld`: a `World` over the nodes of a Slurm allocation, from a notebook that runs in one of them.

    salloc --nodes 2 jupyter lab …        a job; the notebook runs on its first node
      └─ notebook, which is the head ──srun --overlap──► a process on each node, which forks ranks (see slurm_node)

The ranks find the notebook by a file in the home (see rendezvous), so no address needs to be known. They are kept warm
from one run to the next.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distlib.launch.environment import LaunchError, Placement
from distlib.launch.head import Head
from distlib.launch.node_list import write_out
from distlib.launch.rendezvous import FileRendezvous, default_directory
from distlib.worlds.diagnosis import RankError
from distlib.worlds.forkserver.handle import fresh_python
from distlib.worlds.real.rank_settings import ENVIRONMENT
from distlib.worlds.real.supervisor import Supervisor
from distlib.worlds.real.world import Pool, World

_END_PATIENCE = 1.0  # seconds for srun to end when its ranks have, or when it is asked to


class SlurmWorld(World):
    """Ranks on all nodes of the allocation that this process is in. Otherwise as a `World`, over gloo.

    Args:
        ranks_per_node: how many on each node.
        directory: where they meet; all nodes must see it. None for a place in the home.
        patience: seconds for all ranks to come.
        options: `record`, `seed`, `output_limit` and `on_output`, as of a `World`.

    Raises:
        LaunchError: this process is not in an allocation; from the first `run`: srun can't start the ranks, or they
            can't find this process.
    """

    def __init__(
        self, ranks_per_node: int = 1, *, directory: Path | None = None, patience: float = 120.0, **options: Any
    ) -> None:
        self.nodes = nodes_of_job(os.environ)
        self._ranks_per_node = ranks_per_node
        self._directory, self._patience = directory or default_directory(), patience
        super().__init__(ranks_per_node * len(self.nodes), backend="gloo", **options)

    def _prepare(self) -> None:
        """Nothing on this machine: what the ranks need gets ready on their nodes."""

    def _supervise(self, run: Supervisor) -> list[Any]:
        try:
            return super()._supervise(run)
        except RankError as error:
            assert isinstance(run.pool, SlurmPool)
            run.pool.name_nodes(error)
            raise error.with_traceback(None) from None

    def _start_pool(self) -> Pool:
        return SlurmPool(self.nodes, self._ranks_per_node, self._directory, self._patience)


class SlurmPool(Head):
    """Ranks that srun has started, and their head, in this process.

    Args: see `SlurmWorld`; nodes: the names of all.
    """

    def __init__(self, nodes: list[str], ranks_per_node: int, directory: Path, patience: float) -> None:
        name, host = f"world-{secrets.token_hex(8)}", socket.gethostname()
        node = nodes.index(host) if host in nodes else len(nodes)
        machines = len({*nodes, host})
        placement = Placement("srun", name, 0, ranks_per_node * len(nodes), 0, ranks_per_node, node, machines, host)
        super().__init__(placement, FileRendezvous(directory, name), shows=True)
        self.environment = dict(os.environ)
        self._owner = os.getpid()
        self._errors = tempfile.TemporaryFile()
        self._srun = self._start(len(nodes), [str(directory), name, str(patience), str(ranks_per_node)])
        try:
            self.gather(patience, wanted=lambda: self._srun.poll() is None)
        except LaunchError as error:
            why = self._explain(error)
            self.close()
            raise LaunchError(why) from None
        except BaseException:
            self.close()
            raise

    def _start(self, nodes: int, words: list[str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*_SRUN, f"--nodes={nodes}", f"--ntasks={nodes}", *fresh_python(_PROGRAM), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=_variables(),
                start_new_session=True,  # an interrupt from the keyboard is for the kernel
            )
        except OSError as error:
            raise LaunchError(f"can't start srun: {error}") from None

    def _explain(self, error: LaunchError) -> str:
        """Why the ranks have not come: srun knows best, once it has ended the ranks of the other nodes."""
        self._wait_for_srun()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()
        said = f" srun said:\n{words}" if words else ""
        return f"srun has not started the ranks.{said}" if self._srun.poll() is not None else f"{error}{said}"

    def _wait_for_srun(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._srun.wait(_END_PATIENCE)

    @property
    def alive(self) -> bool:
        """Whether all ranks are there."""
        return self._srun.poll() is None and all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """End the ranks. Does not wait long for srun, which itself waits for a node that is gone.

        In a process that was forked from the notebook's, whose ranks they are, nothing is done.
        """
        if os.getpid() != self._owner:
            return
        self.kill()
        self.__exit__()
        self._srun.terminate()
        self._wait_for_srun()
        self._errors.close()


# One process on each node, next to the notebook's own step, which may use all cores of the job: it forks several ranks.
_SRUN = ("srun", "--overlap", "--ntasks-per-node=1", "--cpu-bind=none", "--kill-on-bad-exit=0")
_PROGRAM = "import os; from distlib.launch.slurm_node import main; os._exit(main(*sys.argv[1:]))"

# What srun would take from the step in which the notebook itself runs.
_OF_ANOTHER_STEP = ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_STEP_ID", "SLURM_PROCID")


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_STEP} | ENVIRONMENT


def nodes_of_job(variables: Mapping[str, str]) -> list[str]:
    """The names of the nodes of the allocation that a process is in.

    Raises:
        LaunchError: it is in none.
    """
    text = variables.get("SLURM_JOB_NODELIST")
    if not text:
        raise LaunchError(
            "SLURM_JOB_NODELIST is not set: this notebook does not run in a Slurm job. Start it in one, such as by "
            "salloc --nodes=2 …, or use World, for this machine."
        )
    try:
        return write_out(text)
    except ValueError as error:
        raise LaunchError(f"SLURM_JOB_NODELIST: {error}") from None
