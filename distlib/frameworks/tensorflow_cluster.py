"""The parts of a TensorFlow cluster that every demonstration needs: who waits for whom, and who ends when.

    coordinator ──steps──► worker 0, worker 1 ──read, change──► ps 0       a parameter server's cluster
         │                     │                     │
         └──── touches a file every 0.2 s: alive ────┴──► who sees no sign of life for 5 s ends

A server of TensorFlow's never returns, also when its coordinator is long dead. Hence the sign of life.

Each process of the cluster finds its own place in TF_CONFIG: see `task_environment`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from distlib.frameworks.processes import Process
from distlib.frameworks.tensorflow_ring_log import LOGGED

Cluster = Mapping[str, Sequence[str]]
PATIENCE = 5.0  # seconds without a sign of life, after which a server ends
_SIGN_EVERY = 0.2  # seconds
# A task waits for others inside of TensorFlow's threads. On one processor it has only one of them, and then nobody is
# left to answer: a step of a parameter server would hang.
_THREADS = {"TF_NUM_INTEROP_THREADS": "4"}


def task_environment(cluster: Cluster, role: str, index: int) -> dict[str, str]:
    """The environment of one process of a cluster: its TF_CONFIG, TensorFlow's log switched on, and threads enough.

    Args:
        cluster: the addresses ("host:port") of each role.
        role, index: which of them the process is.
    """
    told = {"cluster": {name: list(each) for name, each in cluster.items()}, "task": {"type": role, "index": index}}
    return {"TF_CONFIG": json.dumps(told)} | _THREADS | LOGGED


def leave_together(folder: Path, count: int) -> None:
    """Wait until this many processes have come here: who leaves first closes connections that others still read from.

    Args:
        folder: a folder that all of them see, empty at first.
    """
    (folder / f"done {os.getpid()}").touch()
    while len(list(folder.glob("done *"))) < count:
        time.sleep(0.05)


# ── parameter servers ────────────────────────────────────────────────────────────────────────────────────────────────


def serving(cluster: Cluster, alive: Path) -> dict[str, Process]:
    """The workers and parameter servers of a cluster, as processes for `run_processes`.

    Args:
        alive: the file that the coordinator touches, see `show_life`.
    """
    return {
        f"{role} {index}": Process(serve, role, index, alive, env=task_environment(cluster, role, index))
        for role in ("worker", "ps")
        for index in range(len(cluster[role]))
    }


def serve(role: str, index: int, alive: Path) -> None:
    """Be a worker or a parameter server: do what the coordinator sends, while that is alive. Does not return."""
    import tensorflow as tf

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    server = tf.distribute.Server(cluster, job_name=role, task_index=index)
    waiting = threading.Thread(target=server.join, daemon=True)
    waiting.start()
    while not alive.exists() or time.time() - alive.stat().st_mtime < PATIENCE:
        time.sleep(0.1)
    still = "still waits" if waiting.is_alive() else "has returned"
    print(f"I have seen no sign of life for {PATIENCE:.0f} s. The server's join {still}", flush=True)
    os._exit(0)


def show_life(alive: Path) -> None:
    """Touch a file again and again, as long as this process lives. Returns at once."""

    def touch() -> None:
        while True:
            alive.touch()
            time.sleep(_SIGN_EVERY)

    threading.Thread(target=touch, daemon=True).start()


def make_coordinator(alive: Path) -> tuple[Any, Any]:
    """A ParameterServerStrategy as TF_CONFIG says, and the ClusterCoordinator that hands out its steps.

    Also begins to show a sign of life.
    """
    import tensorflow as tf

    show_life(alive)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)


def worker_tickets(coordinator: Any) -> Any:
    """An iterator for `schedule(step, args=(tickets,))`: `next(tickets)` in a step tells which worker computes it.

    A worker does not know its index. So each draws a number, once, and the numbers differ: int64, shape [].
    """
    import tensorflow as tf

    def make_dataset() -> Any:
        one = tf.data.Dataset.from_tensors(0).map(lambda _: tf.random.uniform((), 0, 2**60, tf.int64))
        return one.cache().repeat()

    return iter(coordinator.create_per_worker_dataset(make_dataset))
