"""Ranks that die at a virtual time, and what the others notice of it.

A rank does nothing at the time of its death or later. A message counts if it was over before both ends died. (If it is
eager: before the receiver died. One that could not have left before either end dies is not eager.)

    rank 1   ── send ──────┤ dies at 3                        nothing of it arrives
    rank 0   ─ recv ───────┤ PeerLost at 3                    no delay: whoever waits learns of it at that moment
    rank 2   ── computes ──────── recv from 1: PeerLost at once ───

What comes of a death takes its turn among the deferred messages (see simulator): when no rank can run, whatever was due
first happens first. A rank that receives from anyone is due to learn of a death at that time, or when it asks, after
the eager messages of the dead rank that it could take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from distlib.worlds.deaths import WhileWaiting

_PASSES_ON = True  # see worlds.call_site

NEVER = math.inf
Event = tuple[float, Callable[[], None]]  # when, and what happens


class Mortal(Protocol):
    """What deaths need to know of a rank; see engine.SimulatedRank.

    Attributes:
        dies: when it is to die.
        dead: whether it has.
    """

    number: int
    now: float
    bytes_sent: int
    dies: float
    dead: bool
    finished: bool
    loose: int
    meeting: tuple[str, tuple[Any, ...], tuple[int, ...]] | None


class Survivors(Protocol):
    """What deaths do to the living; see engine.Engine."""

    def waiting_for(self, dead: Any) -> Iterator[Any]: ...
    def lose(self, operation: Any, dead: Any) -> None: ...
    def break_up(self, rank: Any, when: float, dead: Sequence[int]) -> None: ...


class Deaths:
    """The deaths of one run.

    Args:
        engine: what tells the living.
        ranks: all of them.
        times: by rank, in virtual seconds; or by what has happened.
    """

    def __init__(self, engine: Survivors, ranks: Sequence[Mortal], times: Mapping[int, float | WhileWaiting]) -> None:
        self._engine, self._ranks = engine, ranks
        self._mortal: list[Mortal] = []
        self._after: dict[int, int] = {}  # the bytes after which a rank dies as it waits
        for number, when in sorted(times.items()):
            if isinstance(when, WhileWaiting):
                self._after[number] = when.nbytes
            else:
                self._doom(ranks[number], when)

    def _doom(self, rank: Mortal, when: float) -> None:
        rank.dies = when
        self._mortal.append(rank)

    def on_receive(self, rank: Mortal) -> None:
        """A rank begins to receive: does it die of that?"""
        if rank.bytes_sent >= self._after.get(rank.number, NEVER):
            del self._after[rank.number]
            self._doom(rank, rank.now)

    def strike(self, before: float) -> bool:
        """No rank can run: let the first thing happen that comes of a death, unless it is due later than `before`."""
        when, happen = min(self._events(), key=lambda event: event[0], default=(NEVER, None))
        if happen is None or when > before:
            return False
        happen()
        return True

    def dead(self) -> list[Mortal]:
        """Those who have died, by rank."""
        return [rank for rank in self._mortal if rank.dead]

    def end(self, rank: Mortal) -> None:
        """A rank dies: it stays where it is, and nothing of it goes on."""
        rank.dead, rank.now = True, rank.dies

    def _events(self) -> Iterator[Event]:
        """What is to come: first the deaths, then what follows from those that have happened."""
        for rank in self._mortal:
            if not rank.dead and (rank.loose or not rank.finished):
                yield rank.dies, partial(self.end, rank)
        for rank in self.dead():
            for operation in self._engine.waiting_for(rank):
                yield max(operation.time, rank.dies), partial(self._engine.lose, operation, rank)
        for rank in self._ranks:
            if rank.meeting is not None and not rank.dead:
                yield from self._broken_meeting(rank, rank.meeting[2])

    def _broken_meeting(self, rank: Mortal, members: tuple[int, ...]) -> Iterator[Event]:
        dead = [other for other in self.dead() if other.number in members]
        if dead:
            when = max(rank.now, min(other.dies for other in dead))
            gone = [other.number for other in dead if other.dies <= when]
            yield when, partial(self._engine.break_up, rank, when, gone)
