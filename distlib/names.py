"""The names of `from distlib import …`, and where each of them comes from."""

from distlib.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)
from distlib.communicator import Communicator, ReduceOp, Work
from distlib.network import Cluster, Link, choose_all_reduce
from distlib.torch_backend.computing import charge_computing
from distlib.torch_backend.enter import torch_distributed
from distlib.torch_backend.whole_program import run_program
from distlib.trace import CallSite, Message, Trace
from distlib.worlds.calibration import calibrate
from distlib.worlds.diagnosis import (
    DeadlockError,
    MessageMismatch,
    PeerLost,
    RankError,
    ResultError,
    RunTimeout,
    TooMuchOutput,
    UnreceivedMessage,
)
from distlib.worlds.real.world import World
from distlib.worlds.simulated.simulator import SimulatedWorld

__all__ = [
    "CallSite",
    "Cluster",
    "Communicator",
    "DeadlockError",
    "Link",
    "Message",
    "MessageMismatch",
    "PeerLost",
    "RankError",
    "ReduceOp",
    "ResultError",
    "RunTimeout",
    "SimulatedWorld",
    "TooMuchOutput",
    "Trace",
    "UnreceivedMessage",
    "Work",
    "World",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "calibrate",
    "charge_computing",
    "choose_all_reduce",
    "gather",
    "reduce",
    "reduce_scatter",
    "run_program",
    "scatter",
    "torch_distributed",
]
