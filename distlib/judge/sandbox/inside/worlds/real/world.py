"""In a sandbox: a World that runs nothing. A rank that is graded is a rank of the judge's network, and of no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distlib.trace import Trace


class World:
    """Has the names of a real World. `run` does nothing, and returns None for every rank."""

    def __init__(self, world_size: int, *args: object, **options: object) -> None:
        self.world_size = int(world_size)
        self.trace = Trace(self.world_size, [])
        self.last_error = None

    def run(self, fn: Callable[..., Any], /, *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Nothing is run: the result of every rank is None."""
        return [None] * self.world_size

    def close(self) -> None:
        """There is nothing to end."""

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<World: {self.world_size} ranks; runs nothing while your work is graded>"
