"""What went wrong in a run, in one short message that begins with the student's own line.

A rank that is blocked reports what it waits for. These reports decide which ranks can still go on:

    1. a rank that computes, or that has something to read, can go on;
    2. a blocked rank can go on if each thing it waits for can still come from a rank that can go on;
    3. nothing else can.

The ranks that are left over are deadlocked: not "for longer than a time limit", but forever.

    rank 0 ──waits for──► rank 3 ──waits for──► rank 2 ──waits for──► rank 1 ──waits for──► rank 0      a cycle
    rank 0 ──waits for──► rank 1, which has returned                                                    a dead end
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from distlib.trace import CallSite
from distlib.worlds import call_site

_CYCLE_SHOWN = 6  # ranks of a long cycle that are written out
_PLACE = re.compile(r"\bcell\s+(\d{1,6}),\s+line\s+(\d{1,6})\b")
_MESSAGES = ("send", "recv", "payload")  # kinds of waits
_EMPTY = re.compile(r"(\d+×)*0(×\d+)* \w")  # 0 float32
_OTHER_GROUP = "Their calls are alike, but not on the same communicator."
_SAME_GROUPS = "Hint: every rank has to use its communicators, those of split, in the same order."
_IN_GROUP = re.compile(r", group=[^,()]*\)$")  # how the call of a process group of torch ends
_OTHER_OF_TORCH = "Their calls are alike, but not in the same group."
_SAME_OF_TORCH = "Hint: every rank has to use its groups in the same order."
_SAME_CALLS = "Hint: every rank has to make the same collective calls, in the same order and with the same arguments."


class RankError(Exception):
    """Something went wrong on one or more ranks. `str(error)` is the short message.

    Attributes:
        ranks: the ranks it happened on.
        site: the student's line it is about, or None if there is none.
        stack: the whole story, with every frame of every rank.
    """

    def __init__(self, message: str, ranks: Sequence[int] = (), site: CallSite | None = None, stack: str = "") -> None:
        super().__init__(message)
        self.ranks = list(ranks)
        self.site = site
        self.stack = stack

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the frames of the framework: the message, the student's lines and notes."""
        shown = [f"{type(self).__name__}: {self}"]
        if self.site is not None:
            shown += ["", *source_excerpt(self.site)]
        shown += getattr(self, "__notes__", [])
        if self.stack and (world := self._world()):
            shown += ["", f"The whole stack of each rank: print({world}.last_error.stack)"]
        return shown

    def _world(self) -> str:
        """The name under which the notebook has the world of this error; "" if it has none."""
        names = vars(sys.modules["__main__"]).items()
        return next((name for name, value in names if getattr(value, "__dict__", {}).get("last_error") is self), "")


class DeadlockError(RankError):
    """Ranks wait for each other, or for one that has finished, and would wait forever."""


class MessageMismatch(RankError, ValueError):
    """A message and its receiver do not fit: size, dtype, device, or they are parts of different collective calls.

    Or the other rank does not exist, or is oneself.
    """


class PeerLost(RankError):
    """A rank has died in the middle of a run. Where the world has `deaths`, the other ranks may catch it and go on."""

    @property
    def lost(self) -> list[int]:
        """The ranks that have ended: their numbers in the world, also in a communicator made by `split`."""
        return self.ranks


class RunTimeout(RankError, TimeoutError):
    """The `timeout` of `World.run` has passed. The message says where each rank was."""


class UnreceivedMessage(RankError):
    """The run ended with messages that were sent and that nobody has received."""


class ResultError(RankError):
    """What a rank returned can't be sent back."""


class TooMuchOutput(RankError):
    """The ranks printed more than the world's `output_limit`."""


class RunInterrupted(KeyboardInterrupt):
    """The kernel was interrupted during a run. The message says where each rank was."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the message, without the frames of the framework."""
        return [f"Interrupted. {self}"]


def source_excerpt(site: CallSite, around: int = 2) -> list[str]:
    """The line of `site` and its neighbors, with an arrow; empty if the source is not at hand."""
    linecache.checkcache(site.file)  # it may have been edited since it was shown last
    return numbered_lines(linecache.getlines(site.file), site.line, around)


def places_in(text: str) -> list[tuple[int, int]]:
    """The cells and lines that a message names, as in "cell 7, line 12", each once."""
    return list(dict.fromkeys((int(cell), int(line)) for cell, line in _PLACE.findall(text)))


def lines_of_cell(cell: int) -> list[str]:
    """The text of a cell that has run in this notebook; empty outside of notebooks."""
    files = [file for file, number in call_site.learn_cells().items() if number == cell]
    return linecache.getlines(files[-1]) if files else []


def numbered_lines(lines: Sequence[str], line: int, around: int = 2) -> list[str]:
    """A line and its neighbors with their numbers, and an arrow at the line; empty if there is no such line.

    Args:
        lines: all of them.
        line: the number of the one that is meant, from 1.
        around: how many before and after it.
    """
    if not 1 <= line <= len(lines):
        return []
    first, last = max(1, line - around), min(len(lines), line + around)
    arrows = ("---->" if number == line else "     " for number in range(first, last + 1))
    numbered = zip(arrows, range(first, last + 1), lines[first - 1 : last], strict=True)
    return [f"{arrow} {number:3} {text.rstrip()}" for arrow, number, text in numbered]


# ── an exception on some ranks ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Failure:
    """An exception that a rank did not catch, as it reports it."""

    rank: int
    kind: str
    message: str
    site: CallSite | None
    stack: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


def explain_failures(failures: Sequence[Failure]) -> RankError:
    """One error for the exceptions of all ranks; equal ones appear once."""
    first = failures[0]
    stack = "\n".join(f"── rank {failure.rank} ──\n{failure.stack}" for failure in failures)
    groups: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        groups.setdefault((str(failure), place(failure.site)), []).append(failure)
    kinds = {failure.kind for failure in failures}
    kind = _OWN_KINDS.get(first.kind, RankError) if len(kinds) == 1 else RankError
    if kind is MessageMismatch:  # it names its ranks itself, and both sides report the same
        told = list(dict.fromkeys(failure.message for failure in failures))
        if len(told) > 1:
            told = [f"{told[0]} ({len(told) - 1} more like this one)"]
    else:
        told = [_tell(group, with_place=number > 0) for number, group in enumerate(groups.values())]
    prefix = f"{first.site.place}: " if first.site else ""
    text = "; ".join([*(each.removesuffix(".") for each in told[:-1]), told[-1]])
    return kind(prefix + text, [failure.rank for failure in failures], first.site, stack)


_OWN_KINDS: dict[str, type[RankError]] = {"MessageMismatch": MessageMismatch, "ResultError": ResultError}


def place(site: CallSite | None) -> str:
    """ "cell 7, line 12", or nothing if the line is not known."""
    return site.place if site else ""


def name_ranks(ranks: Sequence[int]) -> str:
    """ "rank 2", "ranks 0 and 3", "ranks 0, 1 and 2", "ranks 0, 1, 2 … 63"."""
    names = [str(rank) for rank in ranks]
    if len(names) == 1:
        return f"rank {names[0]}"
    if len(names) > _CYCLE_SHOWN:
        return f"ranks {', '.join(names[:3])} … {names[-1]} ({len(names)} ranks)"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _tell(failures: Sequence[Failure], with_place: bool) -> str:
    failure, ranks = failures[0], name_ranks([failure.rank for failure in failures])
    where = f" ({failure.site.place})" if with_place and failure.site and failure.site.place not in str(failure) else ""
    if failure.kind == "ResultError":
        return f"{ranks} {failure.message}"
    return f"{ranks} raised {failure}{where}"


# ── a message that nobody received ───────────────────────────────────────────────────────────────────────────────────

Left = tuple[
    int, int, int, str, CallSite
]  # a message: its sender, its receiver, its tag, "4 float32", the sender's line


def explain_unreceived(left: Sequence[Left]) -> UnreceivedMessage:
    """One error for all messages that were sent and never received."""
    rank, dst, tag, what, site = left[0]
    prefix = f"{site.place}: " if site.file else ""  # a simulated world may not have recorded its lines
    count = f" ({len(left)} messages in all)" if len(left) > 1 else ""
    text = (
        f"{prefix}rank {rank} sent {what} to rank {dst} with tag {tag}, and nobody received it{count}. "
        f"Hint: rank {dst} has to call recv once more, or rank {rank} sends once too often. "
        "Call wait() on what isend returns: then the error comes at that line."
    )
    return UnreceivedMessage(text, sorted({message[0] for message in left}), site)


# ── deadlock ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Wait:
    """One thing that a rank is blocked on.

    Attributes:
        kind: "send", "recv" or "payload"; "travel to" or "travel from" for a message that both sides have agreed on
            and that is under way on a paced network; the name of a meeting, as "barrier" or "split".
        peers: the ranks it has to come from.
        any_of: one of the peers is enough (receive from anyone); otherwise all are needed.
        what: "4 float32"; for a meeting, which one.
        place: the student's line.
        call: the collective call that the message belongs to, or None.
    """

    kind: str
    peers: tuple[int, ...]
    any_of: bool
    what: str
    place: str
    call: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is a message without elements, as a ring sends where there are fewer elements than ranks."""
        return _EMPTY.match(self.what) is not None

    @property
    def is_meeting(self) -> bool:
        """Whether it is one that all ranks of a communicator have to come to."""
        return self.kind not in _MESSAGES and not self.kind.startswith("travel")

    def describe(self) -> str:
        peers = name_ranks(self.peers)
        if self.is_empty:
            return f"waits for {'anyone' if self.any_of else peers}"
        if self.kind == "send":
            return f"waits to send {self.what} to {peers}"
        if self.kind.startswith("travel"):
            return f"waits while {self.what} {self.kind.replace('travel', 'travels')} {peers}"
        if self.kind == "payload":
            return f"waits for the rest of {self.what} from {peers}"
        if self.kind == "recv":
            return f"waits to receive {self.what} from {'anyone' if self.any_of else peers}"
        return f"waits in {self.kind} for {peers}"


class LastCall(NamedTuple):
    """The last collective call that a rank has begun: its number, counted from 1, its text, the student's line."""

    number: int
    call: str
    place: str

    def __str__(self) -> str:
        return f"collective call {self.number}: {self.call}"


@dataclass(frozen=True)
class RankState:
    """What one rank was doing.

    Attributes:
        activity: "running", "blocked", "finished", or "dead" in a run that survives deaths.
        round: the highest round it had received (see trace).
        waits: what it is blocked on; all of it is needed.
        strangers: messages that have come and that it has not asked for: (source, what, tag, place).
        last_call: the last collective call that it has begun, or None.
    """

    activity: str
    round: int = 0
    waits: tuple[Wait, ...] = ()
    strangers: tuple[tuple[int, str, int, str], ...] = ()
    last_call: LastCall | None = None


def find_deadlocked(states: Mapping[int, RankState], on_their_way: set[int]) -> list[int]:
    """The ranks that are blocked forever.

    Args:
        states: by rank.
        on_their_way: ranks that have something to read which they have not yet read.
    """
    alive = {rank for rank, state in states.items() if state.activity == "running" or rank in on_their_way}
    blocked = {rank for rank, state in states.items() if state.activity == "blocked"} - alive
    while True:
        freed = {rank for rank in blocked if all(_can_come(wait, alive) for wait in states[rank].waits)}
        if not freed:
            return sorted(blocked)
        alive |= freed
        blocked -= freed


def _can_come(wait: Wait, alive: set[int]) -> bool:
    if wait.kind.startswith("travel"):
        return True
    needed = any if wait.any_of else all
    return needed(peer in alive for peer in wait.peers)


def explain_deadlock(states: Mapping[int, RankState], stuck: Sequence[int]) -> str:
    """The message of a DeadlockError: which rank waits for which, at which line, since which round, what to try."""
    chain, end = _follow(states, stuck)
    links = [_link(rank, states[rank]) for rank in chain]
    if len(links) > _CYCLE_SHOWN:
        links = [*links[:3], f"… {len(links) - 4} more ranks that wait for one another …", links[-1]]
    story = "\n  ← ".join(links)
    first_place = _blocking_wait(states[chain[0]], set(stuck), states).place
    if end in chain:
        hint = _group_hint(states, stuck) or _cycle_hint(states, chain)
        closing = f"\n  ← rank {end}.{hint}"
    else:
        closing = f"\n  ← rank {end} {_dead_end(states[end], states[chain[-1]], end)}"
    others = [rank for rank in stuck if rank not in chain]
    also = f"\nAlso blocked: {name_ranks(others)}." if others else ""
    note = "" if closing.endswith((_SAME_CALLS, _SAME_GROUPS, _SAME_OF_TORCH)) else _tag_hint(states, stuck)
    return f"{first_place}: deadlock. {story}{closing}{note}{also}"


def _follow(states: Mapping[int, RankState], stuck: Sequence[int]) -> tuple[list[int], int]:
    """From the lowest stuck rank to the one it waits for, and on, until a rank comes again or is not blocked.

    Returns the ranks of the cycle (or of the way to the dead end), and the rank at its end.
    """
    chain: list[int] = []
    rank = stuck[0]
    stuck_set = set(stuck)
    while rank not in chain and rank in stuck_set:
        chain.append(rank)
        rank = _blocker(states[rank], stuck_set, states)
    return (chain[chain.index(rank) :] if rank in chain else chain), rank


def _blocking_wait(state: RankState, stuck: set[int], states: Mapping[int, RankState]) -> Wait:
    """The wait that keeps a rank from going on; preferably one on a rank that is not blocked itself."""
    hopeless = [w for w in state.waits if any(_hopeless(p, stuck, states) for p in w.peers)]
    dead_ends = [w for w in hopeless if any(p not in stuck for p in w.peers if _hopeless(p, stuck, states))]
    return (dead_ends or hopeless or list(state.waits))[0]


def _blocker(state: RankState, stuck: set[int], states: Mapping[int, RankState]) -> int:
    wait = _blocking_wait(state, stuck, states)
    hopeless = [peer for peer in wait.peers if _hopeless(peer, stuck, states)]
    ended = [peer for peer in hopeless if peer not in stuck]
    return (ended or hopeless or list(wait.peers))[0]


def _hopeless(peer: int, stuck: set[int], states: Mapping[int, RankState]) -> bool:
    return peer in stuck or states[peer].activity in ("finished", "dead")


def _link(rank: int, state: RankState) -> str:
    telling = [wait for wait in state.waits if not wait.is_empty] or state.waits[:1]
    waits = " and ".join(wait.describe() for wait in telling)
    last, own = state.last_call, state.waits[0].call
    call = f", in {own}" if own else ""  # of several that are under way, the one that it waits in
    if last and own == last.call:
        call = f", in {last}"
    elif last and state.waits[0].is_meeting:
        call = f", after collective call {last.number}"
    return f"rank {rank} {waits} ({state.waits[0].place}, round {state.round + 1}{call})"


def _group_hint(states: Mapping[int, RankState], stuck: Sequence[int]) -> str:
    """What to try where all that are stuck are in calls that would fit, were they in one communicator; else ""."""
    waits = [wait for rank in stuck for wait in states[rank].waits]
    calls = {wait.call for wait in waits}
    if None in calls:
        return ""
    if len(calls) == 1:
        return f" {_OTHER_GROUP}\n{_SAME_GROUPS}" if len({wait.place for wait in waits}) > 1 else ""
    alike = {_IN_GROUP.sub(")", str(call)) for call in calls}
    return f" {_OTHER_OF_TORCH}\n{_SAME_OF_TORCH}" if len(alike) == 1 else ""


def _cycle_hint(states: Mapping[int, RankState], chain: Sequence[int]) -> str:
    kinds = {wait.kind for rank in chain for wait in states[rank].waits}
    if len({wait.call for rank in chain for wait in states[rank].waits}) > 1:
        return f" They are not in the same collective call.\n{_SAME_CALLS}"
    if kinds == {"recv"}:
        return (
            " No rank on this cycle has sent.\nHint: somebody has to send first. "
            "comm.exchange(…) sends and receives at the same time."
        )
    if kinds == {"send"}:
        return (
            " Every rank on this cycle sends, and none receives: a send returns only when the message is taken."
            "\nHint: comm.exchange(…) sends and receives at the same time; or let some ranks receive first."
        )
    if any(wait.is_meeting for rank in chain for wait in states[rank].waits):
        return "\nHint: every rank has to reach the same barrier, with nothing left to send or receive before it."
    return (
        "\nHint: write down, for one step, what each rank does first. For every send that somebody waits in, "
        "the other rank has to be in the matching receive: the same tag, and as src the rank that sends."
    )


def _dead_end(state: RankState, before: RankState, rank: int) -> str:
    wait = before.waits[0]
    if state.activity == "dead":
        return "has died, and nobody else is left who could send.\nHint: stop receiving when the last sender is lost."
    if state.activity != "finished":
        return "cannot help."
    if wait.is_meeting:
        return f"has already returned, without reaching this {wait.kind}.\nHint: call it on every rank, or on none."
    if wait.call:
        last = state.last_call
        return (
            f"has already returned, {f'after {last} ({last.place})' if last else 'without such a call'}.\n{_SAME_CALLS}"
        )
    verb = "receives" if wait.kind == "send" else "sends"
    return (
        f"has already returned.\nHint: rank {rank} {verb} one message fewer than the others expect: "
        "compare how often each rank runs its loop, and which rank each call names."
    )


def _tag_hint(states: Mapping[int, RankState], stuck: Sequence[int]) -> str:
    """A message that has come but was not asked for is often the missing one with a wrong tag or a wrong source."""
    for rank in stuck:
        for src, what, tag, where in states[rank].strangers:
            if any(wait.kind == "recv" for wait in states[rank].waits):
                message = f"{what} with tag {tag} to rank {rank} ({where})"
                return f" Note: rank {src} sends {message}, but rank {rank} waits for a different message."
    return ""


# ── a process that has gone ──────────────────────────────────────────────────────────────────────────────────────────


def how_it_ended(status: int | None) -> str:
    """How the process of a rank ended: `status` is its exit code, or minus the signal, or None if nobody knows."""
    if status is None:
        return "its process is gone"
    if status == -9:
        return "its process was killed by signal 9 (by hand, or because the machine ran out of memory)"
    if status < 0:
        return f"its process was killed by signal {-status}"
    return f"its process exited with code {status} (os._exit, or a library that gave up)"
