"""Frameworks that the course takes apart, TensorFlow and JAX, each imported only where it is used.

processes    run_processes: a demonstration as named processes, their output, their end
stage        where they live: a network of their own, in which every port is free
on_stage     the process that starts and ends them
in_process   what runs in each of them
reports      what became of a process
optional     a framework, or one sentence if this Python has none

jax_collectives    what a compiled JAX program communicates, counted and in bytes
jax_ring           the ring all-reduce with ppermute
"""

from distlib.frameworks.optional import require
from distlib.frameworks.processes import Process, run_processes
from distlib.frameworks.reports import Outcome, ProcessDied, ProcessError, ProcessTimeout
from distlib.frameworks.stage import addresses

__all__ = [
    "Outcome",
    "Process",
    "ProcessDied",
    "ProcessError",
    "ProcessTimeout",
    "addresses",
    "require",
    "run_processes",
]
