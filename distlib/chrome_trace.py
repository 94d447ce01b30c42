"""A trace in the trace-event format, which Perfetto and chrome://tracing open.

    rank 0   sends        ██ to 1 ██  ██ to 1 ██      a process for each rank, a thread for each track
             sends (2)       ██ to 2 ██               messages that overlap have tracks of their own
             receives        ▒▒ from 3 ▒▒

Slices of one thread must lie apart or inside one another; of two that overlap otherwise, Perfetto cuts one off. A rank
sends and receives at the same time, and after `isend` it has several messages under way. So a slice goes to the first
track of its kind that is free. No process or thread is number 0: Perfetto takes that for the idle task.

An arrow goes from where a sender's slice begins to where the receiver's begins, as both slices have to be open there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from distlib.trace import Message, Trace

Event = dict[str, Any]


def to_chrome(trace: Trace) -> str:
    """A run as JSON in the trace-event format, to open in Perfetto or chrome://tracing. Times in microseconds.

    Each rank has tracks for what it sends and for what it receives; an arrow joins the two slices of a message.
    """
    events = chrome_events(trace.world_size, trace.messages)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})


def chrome_events(world_size: int, messages: Sequence[Message]) -> list[Event]:
    """The events of all messages, and the names of the tracks. Times in microseconds, to the nanosecond."""
    ends: dict[tuple[int, str], list[int]] = {(rank, kind): [] for rank in range(world_size) for kind in _KINDS}
    placed = [_place(number, message, kind) for number, message in enumerate(messages) for kind in _KINDS]
    events: list[Event] = []
    for begin, end, rank, kind, number in sorted(placed):
        track = _first_free(ends[rank, kind], begin, end)
        where = {"pid": rank + 1, "tid": _thread(world_size, rank, kind, track)}
        events += _slice_and_arrow(number, messages[number], kind, begin, end, where)
    return [*_names(world_size, ends), *events]


_KINDS = ("sends", "receives")


def _place(number: int, message: Message, kind: str) -> tuple[int, int, int, str, int]:
    """When a slice begins and ends, in nanoseconds, and whose it is."""
    rank, begin = (message.src, message.start) if kind == "sends" else (message.dst, message.taken)
    return round(begin * 1e9), round(message.end * 1e9), rank, kind, number


def _first_free(ends: list[int], begin: int, end: int) -> int:
    """The first track whose last slice has ended; its end is noted."""
    track = next((track for track, last in enumerate(ends) if last <= begin), len(ends))
    ends[track : track + 1] = [end]
    return track


def _thread(world_size: int, rank: int, kind: str, track: int) -> int:
    """A number from 1 on that no other track has, of any rank."""
    return 1 + 2 * (world_size * track + rank) + _KINDS.index(kind)


def _slice_and_arrow(
    number: int, message: Message, kind: str, begin: int, end: int, where: dict[str, int]
) -> list[Event]:
    name = f"send to {message.dst}" if kind == "sends" else f"receive from {message.src}"
    line = message.site.place if kind == "sends" else message.receive_site.place
    details = {"bytes": message.nbytes, "tag": message.tag, "round": message.round, "line": line}
    at = {**where, "cat": "message", "ts": begin / 1e3}
    arrow = {"ph": "s"} if kind == "sends" else {"ph": "f", "bp": "e"}
    return [
        {"ph": "X", **at, "dur": (end - begin) / 1e3, "name": name, "args": details},
        {**arrow, **at, "name": "message", "id": number},
    ]


def _names(world_size: int, ends: dict[tuple[int, str], list[int]]) -> list[Event]:
    """Names of processes and threads, and the order in which they are shown."""
    names: list[Event] = []
    for rank in range(world_size):
        names += _name("process", {"pid": rank + 1}, f"rank {rank}", rank)
    for (rank, kind), tracks in ends.items():
        for track in range(len(tracks)):
            where = {"pid": rank + 1, "tid": _thread(world_size, rank, kind, track)}
            words = f"{kind} ({track + 1})" if track else kind
            names += _name("thread", where, words, track + 1000 * _KINDS.index(kind))
    return names


def _name(what: str, where: dict[str, int], words: str, order: int) -> list[Event]:
    return [
        {"ph": "M", **where, "name": f"{what}_name", "args": {"name": words}},
        {"ph": "M", **where, "name": f"{what}_sort_index", "args": {"sort_index": order}},
    ]
