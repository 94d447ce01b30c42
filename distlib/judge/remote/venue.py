"""The place where the functions of a graded class are played: remote ranks, each in a process of its own in a sandbox.

They are simulated ranks for all that concerns messages and time (see `proxy`), and share no memory. So one run has it
all: exact counts, virtual time, and nothing that passes without a message. Gates are kept here, too: the factor by
which a gradient is multiplied comes only when its gate is passed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from distlib.checks.case import Case
from distlib.checks.seen import Played, Seen, with_the_dead
from distlib.checks.senders import runs_torch
from distlib.checks.student_communicator import SLIPS
from distlib.checks.supplied import Helper
from distlib.judge.remote.proxy import Proxy, RemoteRun, limited, made_no_sense
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.wire import WireError
from distlib.worlds.simulated.simulator import SimulatedCommunicator, SimulatedWorld


class RemoteVenue:
    """Plays cases with one function on remote ranks: a `FunctionElsewhere` of `distlib.checks.venues`.

    Args:
        name: the function's name in the student's notebook.
        ranks: where it is.
    """

    def __init__(self, name: str, ranks: RemoteRanks) -> None:
        self._name, self._ranks = name, ranks
        self._helpers: Mapping[str, Helper[..., Any]] = {}

    def seed(self, seed: int) -> int:
        """A seed of a test cell, made one that the student can't know."""
        text = f"{seed} {self._ranks.secret}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def prepare(self, cases: Sequence[Case], helpers: Sequence[Helper[..., Any]]) -> None:
        """The cases to come need that many ranks, and these helpers."""
        self._helpers = {helper.name: helper for helper in helpers}
        self._ranks.expect(max(case.world_size for case in cases))

    def play(self, case: Case, seconds: float, is_fresh: bool = False, is_empty: bool = False) -> Seen:
        """Play a case, at most `seconds`. Starting the ranks and running the student's cells is not part of it.

        Args:
            is_fresh: the ranks are new. Where cells are slow, which all would have to run again, they are not.
            is_empty: every message arrives with zeros in it.
        """
        self._ranks.prepare(_plays_of(case))
        if is_fresh:
            self._ranks.renew()
        self._ranks.gather(case.world_size)
        start = time.perf_counter()
        seconds = min(seconds, self._ranks.seconds_for_a_check())
        run = RemoteRun(self._ranks, self._name, case, self._helpers, seconds, is_empty, runs_torch=runs_torch(case))
        world = SimulatedWorld(case.world_size, case.cluster, record=True, deaths=case.deaths)
        played, trace, error = run.on(world, _speak)
        return Seen(
            case, with_the_dead(played), trace, True, error, self._ranks.printed.take(), time.perf_counter() - start
        )


def _speak(run: RemoteRun, comm: SimulatedCommunicator) -> Played:
    """Hand the remote rank its inputs, do what it asks for, and look at what it hands back."""
    part = run.case.part
    comm.sleep(part.delay(comm.rank))
    request = {
        "job": "play",
        "name": run.name,
        "play": (_plays_of(run.case), part.play.__name__),
        "inputs": part.inputs[comm.rank],
        "helpers": [vars(helper.form) for helper in run.helpers.values()],
        "rank": comm.rank,
        "world_size": comm.world_size,
    }
    proxy = Proxy(run, comm)
    back = proxy.converse(request)
    try:
        gates, shown = run.gates.get(comm.rank, ()), run.shown.get(comm.rank, ())
        slips = _slips(back["slips"]) or ([] if run.runs_torch else proxy.never_waited())
        return Played(
            back["result"],
            tuple(gates),
            tuple(shown),
            slips,
            changed=_changed(back["changed"] if "changed" in back else {}),
        )
    except (WireError, KeyError, TypeError, ValueError) as error:
        raise made_no_sense(comm.rank, error) from None


def _slips(from_rank: Any) -> list[tuple[str, str, str]]:
    """Slips as a rank reports them: data from a stranger."""
    slips = [(str(what), limited(call), limited(place)) for what, call, place in from_rank]
    if not {what for what, _, _ in slips} <= set(SLIPS):
        raise ValueError("expected slips that exist")
    return slips


def _changed(from_rank: Any) -> dict[str, Any]:
    """Inputs that have changed, as a rank reports them: data from a stranger."""
    return {limited(name): value for name, value in dict(from_rank).items()}


def _plays_of(case: Case) -> str:
    """The module of plays that a play stands in."""
    return case.play.__module__
