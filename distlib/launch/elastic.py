"""Elastic runs: when ranks are lost, the others start again, and go on from the last checkpoint.

    4 ranks ──rank 2 is killed──► PeerLost ──► 3 ranks ──…──► results         as long as there are `lowest` of them
              rank 2 is silent ──limit──► it is killed, and so on

The function is called anew, on fewer ranks. It is the function that resumes (see checkpoints): nothing of a rank's
memory is left. Under torchrun, `--nnodes 1:4 --max-restarts 3` does the same over machines: `distlib launch` ends on
all ranks when one is lost, and torchrun starts it again with the nodes that are there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distlib.communicator import Communicator
from distlib.launch.notice import of_this_process
from distlib.launch.silence import Watch, signs_of_life
from distlib.worlds.diagnosis import PeerLost, name_ranks
from distlib.worlds.real.world import World

_PASSES_ON = True  # see worlds.call_site

_NO_LIMIT = 2**62  # bytes that ranks may print


def run_elastic(
    fn: Callable[..., Any],
    /,
    *args: Any,
    lowest: int,
    highest: int,
    silence: float | None = None,
    notice: Path | None = None,
    say: Callable[[str], None] | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Call `fn(comm, *args, **kwargs)` on `highest` ranks of this machine; after a loss, on as many as are left.

    Args:
        fn, args, kwargs: as of `World.run`.
        lowest: the fewest ranks to go on with, at least 1.
        highest: how many to begin with.
        silence: seconds after which a rank that gives no sign of life counts as lost; None for no limit.
        notice: a file that gives notice of the end; see `notice`.
        say: called with what happens; None for stderr.

    Returns:
        What the ranks of the last run have returned, by rank.

    Raises:
        ValueError: not 1 ≤ lowest ≤ highest, or a limit that is not above 0.
        PeerLost: fewer than `lowest` ranks are left.
        RankError: any other failure ends the run: it would come again.
    """
    _check(lowest, highest, silence)
    size = highest
    while True:
        try:
            return _run_once(size, silence, notice, fn, args, kwargs)
        except PeerLost as lost:
            left = size - len(lost.lost)
            if left < lowest:
                raise
            (say or _to_stderr)(f"{lost} Starting again on {left} of {highest} ranks.")
            size = left


def _run_once(
    size: int, silence: float | None, notice: Path | None, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    with Watch(silence) as watch, World(size, record=False, output_limit=_NO_LIMIT) as world:
        try:
            return world.run(_on_rank, watch.folder, silence, notice, fn, args, kwargs)
        except PeerLost as lost:
            silent = [rank for rank in lost.lost if rank in watch.silent]
            if not silent:
                raise
            why = f"{name_ranks(silent).capitalize()} gave no sign of life for {silence:g} s, and so was killed."
            raise PeerLost(f"{lost} {why}", lost.lost, lost.site, lost.stack) from None


def _on_rank(
    comm: Communicator,
    folder: Path,
    silence: float | None,
    notice: Path | None,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    with of_this_process.by(notice):
        if silence is None:
            return fn(comm, *args, **kwargs)
        with signs_of_life(folder, comm.rank, silence):
            return fn(comm, *args, **kwargs)


def _to_stderr(text: str) -> None:
    print(f"distlib launch: {text}", file=sys.stderr, flush=True)


def _check(lowest: int, highest: int, silence: float | None) -> None:
    if not 1 <= lowest <= highest:
        raise ValueError(f"expected 1 ≤ lowest ≤ highest, got lowest={lowest}, highest={highest}: try 2 and 4")
    if silence is not None and not silence > 0:
        raise ValueError(f"expected a limit of more than 0 s for silence, got {silence!r}: try 30")
