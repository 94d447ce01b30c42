"""In a sandbox: a SimulatedWorld that runs nothing."""

from __future__ import annotations

from distlib.worlds.real.world import World


class SimulatedWorld(World):
    """Has the names of a real SimulatedWorld. `run` does nothing, and returns None for every rank."""

    elapsed = 0.0
