"""Exercise 07b: the function that its check supplies."""

from __future__ import annotations

from collections.abc import Mapping

from distlib.checks.supplied import helper
from distlib.training import parameter_server


@helper()
def may_proceed(clocks: Mapping[int, int], worker: int, bound: float) -> bool:
    """Whether a worker is at most `bound` gradients ahead of the slowest. See distlib.training.parameter_server."""
    if worker not in clocks:
        raise ValueError(f"may_proceed: expected one of the workers in clocks, {list(clocks)}, got {worker!r}")
    return bool(parameter_server.may_proceed(clocks, worker, bound))
