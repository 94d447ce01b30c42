"""`import distlib` in a sandbox: the types that a student's functions are written with, and stand-ins for the rest.

In a sandbox this file is distlib/__init__.py. What is loaded there besides it, `distlib.judge.sandbox.contents` says.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

from distlib.judge.sandbox.absent import AbsentModules, Nothing, absent_class, absent_function
from distlib.judge.sandbox.contents import TORCHS

_HOMES = {
    "CallSite": "trace",
    "Cluster": "network.cluster",
    "Communicator": "communicator",
    "DeadlockError": "worlds.diagnosis",
    "Link": "network.cluster",
    "Message": "trace",
    "MessageMismatch": "worlds.diagnosis",
    "PeerLost": "worlds.diagnosis",
    "RankError": "worlds.diagnosis",
    "ReduceOp": "communicator",
    "ResultError": "worlds.diagnosis",
    "RunTimeout": "worlds.diagnosis",
    "SimulatedWorld": "worlds.simulated.simulator",
    "TooMuchOutput": "worlds.diagnosis",
    "Trace": "trace",
    "UnreceivedMessage": "worlds.diagnosis",
    "Work": "communicator",
    "World": "worlds.real.world",
    "torch_distributed": "torch_backend.enter",
}
_ABSENT = (
    "ALL_REDUCES",
    "Comparison",
    "all_gather",
    "all_reduce",
    "all_reduce_seconds",
    "all_to_all",
    "barrier",
    "broadcast",
    "calibrate",
    "charge_computing",
    "choose_all_reduce",
    "chunk_lengths",
    "compare",
    "crossover_bytes",
    "crossover_nodes",
    "double_tree_all_reduce",
    "duration",
    "gather",
    "grid_all_reduce",
    "halving_doubling_all_reduce",
    "hierarchical_all_reduce",
    "moves_up",
    "reduce",
    "reduce_scatter",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "run_program",
    "scatter",
    "traffic",
    "tree_all_reduce",
    "two_trees",
)
_PACKAGES = ("gpus", "launch")

_WITHOUT_EFFECT = (
    "distlib.checks.models",
    "distlib.classroom",
    "distlib.draw",
)
_SOLUTIONS = ("distlib.gpus.", "distlib.launch.")

if __name__ == "distlib":  # in the sandbox, where these modules have no files
    sys.meta_path[:0] = [  # first: an installed distlib is found by a finder of its own
        AbsentModules(_SOLUTIONS, absent_function),
        AbsentModules(_WITHOUT_EFFECT, Nothing().__getattr__),
        AbsentModules(TORCHS, absent_class),  # before torch is imported
    ]
    # Of the exercises only the plays have files here, and of training only the data: these are found before.
    behind_files = sys.meta_path.index(PathFinder) + 1
    sys.meta_path[behind_files:behind_files] = [
        AbsentModules(["distlib.exercises."], Nothing().__getattr__),
        AbsentModules(["distlib.training."], absent_function),
    ]

__version__ = "0.1.0"
__all__ = sorted((*_HOMES, *_ABSENT, *_PACKAGES))


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"distlib.{_HOMES[name]}"), name)
    if name in _ABSENT:
        return absent_function(name)
    if name in _PACKAGES:
        return import_module(f"distlib.{name}")
    raise AttributeError(f"module 'distlib' has no attribute {name!r}")
