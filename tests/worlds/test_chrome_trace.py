"""What `to_chrome` writes, held against the rules of the trace-event format.

The rules are those of "Trace Event Format" (N. Duca, D. Sinclair; the document that chrome://tracing and Perfetto
refer to): "JSON Object Format", "Complete Events", "Metadata Events", "Flow Events". That slices of one thread may not
overlap, unless one lies within the other, is said there of duration events and holds for complete events likewise.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from distlib import Cluster, Communicator, Link, SimulatedWorld, World
from distlib.chrome_trace import to_chrome
from distlib.collectives import halving_doubling_all_reduce, ring_all_reduce
from distlib.trace import Trace
from tests.tools.draw_samples import master_trace, message, ring_trace

Worlds = Callable[[int], World]
Event = dict[str, Any]

REQUIRED = {
    "X": {"name", "ph", "ts", "dur", "pid", "tid"},
    "M": {"name", "ph", "pid", "args"},
    "s": {"name", "cat", "ph", "ts", "pid", "tid", "id"},
    "f": {"name", "cat", "ph", "ts", "pid", "tid", "id"},
}
METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}


def checked(trace: Trace) -> list[Event]:
    """The events of a trace, after all rules were held against them."""
    document = json.loads(to_chrome(trace))
    assert isinstance(document, dict) and document["displayTimeUnit"] in ("ms", "ns")
    events = document["traceEvents"]
    for event in events:
        check_fields(event)
    check_names(events)
    check_nesting(events)
    check_arrows(events)
    return list(events)


def check_fields(event: Event) -> None:
    assert event["ph"] in REQUIRED and REQUIRED[event["ph"]] <= set(event), event
    for field in ("pid", "tid"):
        assert field not in event or (type(event[field]) is int and event[field] > 0), event
    for field in ("ts", "dur"):
        assert field not in event or (isinstance(event[field], float | int) and event[field] >= 0), event
    assert isinstance(event["name"], str) and isinstance(event.get("args", {}), dict)
    if event["ph"] == "M":
        field, kind = METADATA[event["name"]]
        assert set(event["args"]) == {field} and isinstance(event["args"][field], kind)


def check_names(events: list[Event]) -> None:
    """Every process and thread has one name, and no thread is in two processes."""
    for what, field in (("process", "pid"), ("thread", "tid")):
        named = [event[field] for event in events if event["name"] == f"{what}_name"]
        assert len(named) == len(set(named))
        assert {event[field] for event in events if event["ph"] != "M"} <= set(named)
    pairs = {(event["pid"], event["tid"]) for event in events if "tid" in event}
    assert len(pairs) == len({tid for _, tid in pairs})


def slices(events: list[Event]) -> list[Event]:
    return [event for event in events if event["ph"] == "X"]


def nanoseconds(microseconds: float) -> int:
    return round(1000 * microseconds)


def check_nesting(events: list[Event]) -> None:
    """Slices of a thread lie apart or inside one another, to the nanosecond."""
    threads: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in slices(events):
        begin = nanoseconds(event["ts"])
        threads[event["tid"]].append((begin, begin + nanoseconds(event["dur"])))
    for spans in threads.values():
        still_open: list[int] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while still_open and still_open[-1] <= begin:
                still_open.pop()
            assert not still_open or end <= still_open[-1], f"{begin} to {end} overlaps what ends at {still_open[-1]}"
            still_open.append(end)


def check_arrows(events: list[Event]) -> None:
    """Each has one start and one end, alike in id, category and name, each at a slice that is open then."""
    arrows: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in ("s", "f"):
            arrows[event["id"], event["cat"], event["name"]].append(event)
    assert len({key[0] for key in arrows}) == len(arrows)
    for pair in arrows.values():
        start, end = sorted(pair, key=lambda event: event["ph"], reverse=True)
        assert (start["ph"], end["ph"], end["bp"]) == ("s", "f", "e") and start["ts"] <= end["ts"]
        for event in pair:
            assert any(_is_open(one, event) for one in slices(events)), event


def _is_open(one: Event, event: Event) -> bool:
    """Whether a slice begins at an event of its thread, or before it and ends after it. An empty one has begun, too."""
    begun = one["tid"] == event["tid"] and one["ts"] <= event["ts"]
    return begun and event["ts"] < one["ts"] + max(one["dur"], 1e-3)


# ── traces ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def many_at_once(comm: Communicator) -> None:
    """Everybody sends to everybody with isend, and takes the messages in another order."""
    others = [rank for rank in range(comm.world_size) if rank != comm.rank]
    sending = [comm.isend(torch.zeros(1000 * (peer + 1)), peer) for peer in others]
    receiving = [comm.irecv(torch.zeros(1000 * (comm.rank + 1)), peer) for peer in reversed(others)]
    for work in [*receiving, *sending]:
        work.wait()


def halves(comm: Communicator) -> None:
    group = comm.split(comm.rank % 2)
    assert group is not None
    ring_all_reduce(group, torch.ones(10))
    halving_doubling_all_reduce(comm, torch.ones(10))


FUNCTIONS: dict[str, Callable[[Communicator], Any]] = {
    "exchange": lambda comm: ring_all_reduce(comm, torch.ones(1000)),
    "isend": many_at_once,
    "groups": halves,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["real", "simulated", "eager", "without latency"])
def test_runs_keep_the_rules(kind: str, name: str, worlds: Worlds) -> None:
    clusters = {
        "eager": Cluster(2, 2, eager_limit=8000),
        "without latency": Cluster.flat(4, Link(0.0, float("inf"))),
    }
    world = worlds(4) if kind == "real" else SimulatedWorld(4, cluster=clusters.get(kind))
    world.run(FUNCTIONS[name])
    events = checked(world.trace)
    assert len(slices(events)) == 2 * len(world.trace)


@pytest.mark.parametrize("trace", [Trace(2, []), ring_trace(5), master_trace(5)], ids=["empty", "ring", "master"])
def test_made_up_traces_keep_the_rules(trace: Trace) -> None:
    assert len(slices(checked(trace))) == 2 * len(trace)


times = st.floats(0, 10, allow_nan=False)
sent = st.tuples(st.integers(0, 2), st.integers(0, 2), times, times, times)


@given(st.lists(sent, max_size=20))
def test_any_messages_keep_the_rules(drawn: list[tuple[int, int, float, float, float]]) -> None:
    messages = [message(src, dst, 4, *sorted(when), 1) for src, dst, *when in drawn]
    assert len(slices(checked(Trace(3, messages)))) == 2 * len(messages)


def test_a_message_is_two_slices_and_an_arrow() -> None:
    events = checked(Trace(2, [message(0, 1, 400, 1.0, 2.0, 3.0, 1)]))
    names = [(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"]
    assert names == [(1, "rank 0"), (2, "rank 1")]
    send, receive = slices(events)
    assert (send["pid"], send["ts"], send["dur"], send["name"]) == (1, 1e6, 2e6, "send to 1")
    assert (receive["pid"], receive["ts"], receive["dur"], receive["name"]) == (2, 2e6, 1e6, "receive from 0")
    assert send["args"] == {"bytes": 400, "tag": 0, "round": 1, "line": "cell 7, line 12"}
    assert [(e["ph"], e["ts"]) for e in events if e["ph"] in "sf"] == [("s", 1e6), ("f", 2e6)]


def test_messages_that_overlap_have_tracks_of_their_own() -> None:
    spans = [(0.0, 3.0), (1.0, 4.0), (3.0, 5.0)]
    events = checked(Trace(2, [message(0, 1, 4, begin, begin, end, 1) for begin, end in spans]))
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    told = [(e["ts"] / 1e6, tracks[e["tid"]]) for e in slices(events) if e["pid"] == 1]
    assert told == [(0, "sends"), (1, "sends (2)"), (3, "sends")]


def test_the_rules_refuse_what_they_should() -> None:
    """Else the tests above would say nothing."""
    numbers = count(1)

    def span(begin: float, end: float) -> Event:
        return {"ph": "X", "pid": 1, "tid": 1, "ts": begin, "dur": end - begin, "name": str(next(numbers))}

    with pytest.raises(AssertionError, match="overlaps"):
        check_nesting([span(0, 3), span(1, 4)])
    check_nesting([span(0, 3), span(1, 2), span(3, 4)])
    with pytest.raises(AssertionError):
        check_fields({"ph": "X", "pid": 1, "tid": 1, "ts": 0, "name": "no duration"})
    start = {"ph": "s", "pid": 1, "tid": 1, "ts": 0, "name": "message", "cat": "message", "id": 1}
    with pytest.raises(AssertionError):
        check_arrows([span(0, 1), start, {**start, "ph": "f", "bp": "e", "ts": 1}])
