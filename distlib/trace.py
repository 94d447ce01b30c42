"""What happened in a run: every message, who sent it to whom, when, and from which line.

A `Trace` is a plain value. It is filled by a `World` (or any other place where rank functions run) and read by
lessons, figures and checks. Two counts in it decide how fast an algorithm can be:

    bytes_sent[rank]   what passes through one rank's link: the bandwidth term of its cost
    rounds             the longest chain of messages each of which had to wait for the one before: the latency term

Rounds are counted by a logical clock (Lamport, "Time, clocks, and the ordering of events in a distributed system",
CACM 1978): a rank's clock is the highest round it has received so far, and what it sends is one later.

    rank 0 ──round 1──► rank 1 ──round 2──► rank 2      2 rounds: rank 1 had to receive before it sent
    rank 0 ──round 1──► rank 1 ◄──round 1── rank 2      1 round: neither message waited for the other
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of code that called the communicator.

    Attributes:
        place: how a person would say it: "cell 7, line 12" in a notebook, "ring.py, line 12" elsewhere.
        function: the name of the function that the line is in.
        file: the file name as Python knows it.
        line: the line's number in that file, from 1.
        via: None if the line itself called send, recv, …; else the library function it called, which did
            ("distlib.collectives.ring.ring_all_reduce").
        call: the collective call that the message belongs to, with its tensor and arguments; None outside of the
            library's collectives ('all_reduce(3×2 float32, op=SUM, algorithm="ring")').
    """

    place: str
    function: str
    file: str
    line: int
    via: str | None = None
    call: str | None = None

    def __str__(self) -> str:
        return self.place

    @property
    def collective(self) -> str:
        """The name of the collective call: "all_reduce", of torch's own too; "" outside of any."""
        return _NAME.match(self.call or "").group()  # type: ignore[union-attr]  # it matches every text

    def within(self, call: str | None) -> CallSite:
        """The same line, for a message of the collective call `call`."""
        return self if call == self.call else CallSite(self.place, self.function, self.file, self.line, self.via, call)


@dataclass(frozen=True, slots=True)
class Message:
    """One message that was sent and received.

    Attributes:
        src, dst: the ranks it went from and to (numbers in the world, also for messages inside a group).
        tag: as given by the sender.
        nbytes: size of the payload in bytes, without any header.
        dtype: the payload's dtype, as "float32".
        shape: the payload's shape at the sender.
        start: seconds since the run began, when the sender called send, isend or exchange.
        taken: seconds, when both sides had met: the receiver was ready and the message had been announced.
        end: seconds, when the payload had arrived.
        round: 1 + the highest round that `src` had received before it sent this (see the module's text).
        site: the line that sent it.
        receive_site: the line that received it.
    """

    src: int
    dst: int
    tag: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]
    start: float
    taken: float
    end: float
    round: int
    site: CallSite
    receive_site: CallSite


class Volume(NamedTuple):
    """How many messages were sent, and their bytes."""

    messages: int
    nbytes: int


@dataclass(frozen=True)
class Counts:
    """The counts of a run whose single messages were not kept. Lists are indexed by rank."""

    messages_sent: list[int]
    messages_received: list[int]
    bytes_sent: list[int]
    bytes_received: list[int]
    rounds: int


class Trace:
    """The messages of one run, in the order in which they were sent.

    Attributes:
        world_size: how many ranks ran.
        messages: a tuple of `Message`; empty if the run kept only counts.
        elapsed: seconds from the start of the run to the end of its last rank.
    """

    def __init__(
        self,
        world_size: int,
        messages: Sequence[Message] | Callable[[], Iterable[Message]],
        elapsed: float = 0.0,
        counts: Counts | None = None,
    ) -> None:
        self._unordered = messages
        self._counts = counts
        self.world_size = world_size
        self.elapsed = elapsed

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The messages, in the order in which they were sent. A long run has a million: made when first asked for."""
        unordered = self._unordered() if callable(self._unordered) else self._unordered
        return tuple(sorted(unordered, key=lambda m: (m.start, m.src, m.dst)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Trace, (self.world_size, self.messages, self.elapsed, self._counts)

    def __len__(self) -> int:
        return sum(self._counts.messages_sent) if self._counts is not None else len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def filter(self, keep: Callable[[Message], bool]) -> Trace:
        """A trace of only the messages for which `keep(message)` is true.

        Raises:
            ValueError: the run kept only counts.
        """
        self._check_kept()
        return Trace(self.world_size, [m for m in self.messages if keep(m)], self.elapsed)

    def by_collective(self, rank: int | None = None) -> dict[str, Volume]:
        """What was sent in each kind of collective call, of ours or of torch's; under "" what was sent outside of any.

        Args:
            rank: that sent it. None: any.

        Raises:
            ValueError: the run kept only counts.
        """
        self._check_kept()
        found: dict[str, Volume] = {}
        for message in self.messages:
            if rank in (None, message.src):
                before = found.get(message.site.collective, Volume(0, 0))
                found[message.site.collective] = Volume(before.messages + 1, before.nbytes + message.nbytes)
        return found

    @property
    def messages_sent(self) -> list[int]:
        """How many messages each rank sent, indexed by rank."""
        if self._counts is not None:
            return self._counts.messages_sent
        return self._count(lambda m: m.src, lambda m: 1)

    @property
    def messages_received(self) -> list[int]:
        """How many messages each rank received, indexed by rank."""
        if self._counts is not None:
            return self._counts.messages_received
        return self._count(lambda m: m.dst, lambda m: 1)

    @property
    def bytes_sent(self) -> list[int]:
        """How many bytes of payload each rank sent, indexed by rank."""
        if self._counts is not None:
            return self._counts.bytes_sent
        return self._count(lambda m: m.src, lambda m: m.nbytes)

    @property
    def bytes_received(self) -> list[int]:
        """How many bytes of payload each rank received, indexed by rank."""
        if self._counts is not None:
            return self._counts.bytes_received
        return self._count(lambda m: m.dst, lambda m: m.nbytes)

    @property
    def rounds(self) -> int:
        """The length of the longest chain of messages each of which waited for the one before; 0 without messages."""
        if self._counts is not None:
            return self._counts.rounds
        return max((m.round for m in self.messages), default=0)

    def _count(self, rank_of: Callable[[Message], int], amount: Callable[[Message], int]) -> list[int]:
        totals = [0] * self.world_size
        for message in self.messages:
            totals[rank_of(message)] += amount(message)
        return totals

    def table(self) -> str:
        """The messages as text, one per line: round, from, to, bytes, dtype and shape, tag, the sending line.

        Raises:
            ValueError: the run kept only counts.
        """
        self._check_kept()
        return _align([_HEADINGS, *self._rows()])

    def summary(self) -> str:
        """Messages and bytes by rank, and the rounds, as text."""
        rows: list[tuple[str, ...]] = [("rank", "messages sent", "bytes sent", "messages received", "bytes received")]
        columns = (self.messages_sent, self.bytes_sent, self.messages_received, self.bytes_received)
        rows += [
            tuple(f"{value:,}" for value in (rank, *values)) for rank, values in enumerate(zip(*columns, strict=True))
        ]
        return f"{_align(rows)}\n{self._totals()}"

    def __repr__(self) -> str:
        return f"<Trace: {_in_words(self.world_size, 'rank')}, {self._totals()}>"

    def _totals(self) -> str:
        counts = ((len(self), "message"), (sum(self.bytes_sent), "byte"), (self.rounds, "round"))
        return ", ".join(_in_words(number, what) for number, what in counts)

    def _check_kept(self) -> None:
        if self._has_only_counts():
            raise ValueError(f"expected a trace of messages, got only counts: {_REMEDY}")

    def _has_only_counts(self) -> bool:
        return len(self) > len(self.messages)

    def _rows(self) -> list[tuple[str, ...]]:
        ordered = sorted(self.messages, key=lambda m: (m.round, m.src, m.dst, m.start))
        return [
            (
                str(m.round),
                str(m.src),
                str(m.dst),
                f"{m.nbytes:,}",
                f"{m.dtype} {list(m.shape)}",
                str(m.tag),
                m.site.place,
            )
            for m in ordered
        ]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _HEADINGS)
        shown = self._rows()[:_ROWS_SHOWN]
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in shown)
        more = len(self) - len(shown)
        note = f"<p>… and {more:,} more messages: see trace.table()</p>" if more > 0 else ""
        if self._has_only_counts():
            note = f"<p>Only counts were kept: {_REMEDY}</p>"
        caption = self._totals()
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


_NAME = re.compile(r"\w*")
_HEADINGS = ("round", "from", "to", "bytes", "what", "tag", "sent by")
_ROWS_SHOWN = 60
_REMEDY = "make the world with record=True"


def _in_words(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
