"""Deaths of ranks that a run survives: what a real and a simulated world have in common.

    World(4, deaths={2: 3.0})            rank 2 is killed 3 seconds after the start of each run
    World(4, deaths={})                  no rank is killed on purpose; one that dies by itself doesn't end the run

A rank that waits for a dead one gets a `PeerLost` from the call that it is in, and may go on with the living:

    call                                          raises PeerLost
    send, recv(src=2), and wait of isend, irecv   each time, if that rank has died before the message was over
    exchange                                      likewise, after its other half is over, if that rank lives
    recv and irecv(…).wait() from anyone          once for each dead rank, on each receiver
    barrier, split, collectives                   if they need a rank that has died

The communicator stays as it is. A message that was over before the death counts; one that was not is dropped. MPI's
ULFM does the same: W. Bland et al., "Post-failure recovery of MPI communication capability", Int. J. High Performance
Computing Applications 27(3), 2013.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.worlds.diagnosis import PeerLost, name_ranks


@dataclass(frozen=True)
class WhileWaiting:
    """A death in a simulated world that comes by what has happened, and not by the clock.

    The rank dies as it begins to receive, for the first time after it has sent so many bytes: whoever took these knows
    nothing of it yet.

    Attributes:
        nbytes: that it has sent by then, at least.
    """

    nbytes: int


def check_deaths(deaths: Mapping[int, float] | None, world_size: int) -> dict[int, float] | None:
    """The deaths of a world, by rank; None stays None.

    Raises:
        ValueError: it is not a mapping from ranks of the world to times of at least 0 seconds.
    """
    if deaths is None:
        return None
    if not isinstance(deaths, Mapping):
        raise ValueError(
            f"expected deaths as a mapping from ranks to seconds after the start of the run, got {deaths!r}: "
            "try deaths={1: 3.0}, or deaths={} to survive deaths that nobody asked for"
        )
    return {_check_rank(rank, world_size): _check_time(rank, time) for rank, time in deaths.items()}


def _check_rank(rank: Any, world_size: int) -> int:
    try:
        number = operator.index(rank)
    except TypeError:
        number = -1
    if not 0 <= number < world_size:
        raise ValueError(f"deaths: expected ranks from 0 to {world_size - 1}, got {rank!r}")
    return number


def _check_time(rank: Any, time: Any) -> float:
    try:
        seconds = float(time)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"deaths: expected the seconds after which rank {rank} dies, at least 0, got {time!r}")
    return seconds


def lost_in_message(rank: int, verb: str, what: str, dead: int, from_anyone: bool, place: str) -> PeerLost:
    """What a rank gets that would have exchanged a message with a dead one.

    Args:
        rank: the one that lives.
        verb: what it would have done: "send to" or "receive from".
        what: of the message: "4 float32".
        dead: the other one.
        from_anyone: whether the rank would have received from any rank.
        place: the student's line.
    """
    action, direction = verb.split()
    if from_anyone:
        return PeerLost(f"rank {dead} has died. Rank {rank} was to receive {what} from anyone ({place}).", [dead])
    return PeerLost(f"rank {dead} has died. Rank {rank} can't {action} {what} {direction} it ({place}).", [dead])


def lost_in_meeting(rank: int, kind: str, dead: Sequence[int], place: str) -> PeerLost:
    """What a rank gets whose barrier or split (`kind`) the ranks `dead` can't reach any more."""
    have = "have" if len(dead) > 1 else "has"
    text = f"{name_ranks(dead)} {have} died. Rank {rank} waits in vain for a {kind} of all ranks ({place})."
    return PeerLost(text, dead)


def died_at(rank: int, seconds: float, how: str = "") -> PeerLost:
    """The result of a rank that has died, `seconds` after the start of the run."""
    return PeerLost(f"rank {rank} died {round(seconds, 3):g} s after the start of the run{how}.", [rank])


def all_lost(lost: Sequence[PeerLost]) -> PeerLost:
    """What ends a run that no rank has survived."""
    text = f"no rank is left. {' '.join(str(error) for error in lost)}"
    return PeerLost(text, [rank for error in lost for rank in error.lost])
