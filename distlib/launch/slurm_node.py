"""The ranks of a `SlurmWorld` on one node: srun starts this process there, and it forks them.

    srun ──► node 0: imports torch, once ──fork──► rank 0, rank 1, …
         ──► node 1: imports torch, once ──fork──► rank 2, rank 3, …

It is a fork server (see `worlds.forkserver`) that forks once and is told nothing. It leaves Slurm's signals to its
ranks, waits for them, and takes them along when it ends.
"""

import os
import signal
import socket
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import distlib
from distlib.launch.environment import LaunchError, Placement, read_placement
from distlib.launch.notice import SIGNALS
from distlib.launch.rank import be_rank
from distlib.launch.rendezvous import FileRendezvous
from distlib.worlds.forkserver.service import die_with_parent, freeze


def main(directory: str, name: str, patience: str, ranks: str) -> int:
    """Be the ranks of this node until the notebook is done with them.

    Args: see `SlurmWorld`; name: of this start, which no other one has; ranks: how many on each node.

    Returns:
        The exit status: 0 if that of each rank is.
    """
    try:
        node = read_placement(os.environ, socket.gethostname())
        if node is None:
            raise LaunchError("the ranks of a SlurmWorld are started by srun")
        rendezvous = FileRendezvous(Path(directory), name)
        for each in dir(distlib):  # what the functions of a notebook use, imported once for all ranks
            getattr(distlib, each)
        freeze()
        pids = [_fork(placement, rendezvous, float(patience)) for placement in placements_on(node, int(ranks))]
    except (LaunchError, OSError) as error:
        print(f"node {socket.gethostname()}: {error}", file=sys.stderr)
        return 1
    for number in (*SIGNALS, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    return int(any([os.waitpid(pid, 0)[1] for pid in pids]))


def placements_on(node: Placement, ranks: int) -> list[Placement]:
    """The ranks of a node, of which each has as many, where srun has started one process on each."""
    first, world_size = node.node * ranks, node.nodes * ranks
    return [
        replace(node, rank=first + local, world_size=world_size, local_rank=local, local_size=ranks)
        for local in range(ranks)
    ]


def _fork(placement: Placement, rendezvous: FileRendezvous, patience: float) -> int:
    """Fork a rank. Returns its process id."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            die_with_parent(parent)
            status = be_rank(placement, rendezvous, patience)
        except BaseException as error:
            print(error if isinstance(error, LaunchError) else traceback.format_exc(), file=sys.stderr, flush=True)
        os._exit(status)
    return pid
