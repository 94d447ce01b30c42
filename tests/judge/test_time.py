"""Every submission has an end, whatever its ranks send, and some may be granted more time. In virtual time."""

from __future__ import annotations

import itertools
import json
import struct
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from distlib.judge.remote import question as question_module, wire as wire_module
from distlib.judge.remote.question import Question
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.student_cells import RankCell
from distlib.judge.remote.wire import Wire, WireTimeout
from distlib.judge.sandbox import Limits
from tests.judge.test_remote_judge import run, told
from tests.remote_functions import shared_fork_server

DEADLINE = 50.0
BUSY = "import time\nwhile time.process_time() < 0.6: pass"
NUMBER = 7


class Flood:
    """A connection over which something comes again and again, one byte at a time or as much as is asked for."""

    def __init__(self, data: bytes, then: bytes, piece: int) -> None:
        self._bytes = itertools.chain(data, itertools.cycle(then))
        self._piece = piece

    def recv(self, most: int) -> bytes:
        return bytes(itertools.islice(self._bytes, self._piece))

    def sendall(self, data: bytes) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        assert 0 < seconds <= DEADLINE


def frame(value: Any) -> bytes:
    header = json.dumps({"$": "dict", "items": list(value.items())}).encode()
    return struct.pack("!IQ", len(header), 0) + header


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Each look at the clock takes a tenth of a second."""
    ticks = itertools.count()
    monkeypatch.setattr(wire_module, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 10))
    monkeypatch.setattr(question_module, "secrets", SimpleNamespace(randbits=lambda bits: NUMBER))
    return ticks


@pytest.mark.parametrize(
    ("first", "again", "piece"),
    [
        (b"", frame({"what": "print", "text": ""}), 100),
        (b"", frame({"what": "at", "place": ""}), 100),
        (b"", frame({"what": "time", "group": 0, "question": NUMBER}), 100),
        (b"", frame({"what": "done", "value": 0}), 100),
        (b"", frame({"what": "statement", "cell": 1, "number": 0, "line": 1, "question": NUMBER}), 1),
        (struct.pack("!IQ", 4_000_000, 0), b"x", 1),
        (struct.pack("!IQ", 2, 60_000_000) + b"[]", b"x", 100),
    ],
    ids=["empty prints", "places", "questions", "what nobody asked", "byte by byte", "half a header", "half a payload"],
)
def test_whatever_keeps_coming_ends_with_the_deadline(clock: Any, first: bytes, again: bytes, piece: int) -> None:
    question = Question(Wire(Flood(first, again, piece)), {}, DEADLINE, lambda: None)  # type: ignore[arg-type]
    with pytest.raises(WireTimeout):
        while question.hear(DEADLINE):
            pass
    assert next(clock) <= 10 * DEADLINE + 2


def test_a_rank_that_does_not_read_holds_up_until_the_deadline(clock: Any) -> None:
    wire = Wire(Flood(b"", b"x", 1))  # type: ignore[arg-type]
    with pytest.raises(WireTimeout):
        while True:
            wire.send("more", DEADLINE)
    assert next(clock) <= 10 * DEADLINE + 2


@pytest.mark.slow
def test_when_the_time_is_over_no_test_runs_any_more() -> None:
    limits = Limits(check_seconds=0.5, submission_seconds=0.5)
    made = run("def shift(comm, tensor):\n    while True: comm.barrier()", limits=limits)
    assert "not done after" in told(made) or "the time for the whole notebook is over" in told(made)


def test_more_time_is_more_of_each_kind() -> None:
    more = Limits(check_seconds=1, submission_seconds=2, cells_seconds=3, reruns_seconds=4).times(3)
    assert (more.check_seconds, more.submission_seconds, more.cells_seconds, more.reruns_seconds) == (3, 6, 9, 12)
    assert more.memory_bytes == Limits().memory_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_submission_keeps_busy_is_its_own() -> None:
    with shared_fork_server().for_submission() as server, RemoteRanks([RankCell(1, BUSY)], [], server, "") as ranks:
        before = server.processor_seconds()
        ranks.advance(2)
        ranks.gather(1)
        running = server.processor_seconds()
        ranks.end(0)
        ended = server.processor_seconds()
    assert 0 <= before < before + 0.5 <= running <= ended
