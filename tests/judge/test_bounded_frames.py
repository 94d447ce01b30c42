"""Whatever a rank sends, the judge reads it in a time that its length bounds. The oracle is the processor's time."""

from __future__ import annotations

import contextlib
import json
import math
import random
import time

import pytest

from distlib.judge.remote.wire import MOST_HEADER, WireError, decode
from distlib.network import Cluster
from distlib.reading_process import EndedEarly, read_apart
from tests.judge.test_remote_judge import RIGHT, TEST, run, told

SECONDS = 8.0  # of the processor, for a frame of 1 to 4 MiB; it takes less than one
SAME_HASH = (1 << 61) - 1  # of Python's numbers: k times this all have the hash 0


def _dict(keys: list[str]) -> str:
    return '{"$":"dict","items":[' + ",".join(f"[{key},0]" for key in keys) + "]}"


def _tuple(*items: str) -> str:
    return '{"$":"tuple","items":[' + ",".join(items) + "]}"


def _cluster(**fields: object) -> str:
    given = {"nodes": 10**18, "ranks_per_node": 1, "stragglers": {}, **fields}
    return json.dumps({"$": "Cluster", "fields": given})


def _tensor(shape: str, start: int = 0) -> str:
    return f'{{"$":"tensor","dtype":"int8","shape":[{shape}],"start":{start}}}'


def _filled(piece: str, before: str = "[", after: str = "]", between: str = ",") -> str:
    """A frame of a quarter of what one may have, of equal pieces."""
    number = (MOST_HEADER // 4 - len(before) - len(after)) // (len(piece) + len(between))
    return before + between.join([piece] * number) + after


FRAMES = {
    "keys with one hash": lambda: _dict([str(k * SAME_HASH) for k in range(140_000)]),
    "negative keys with one hash": lambda: _dict([str(-k * SAME_HASH) for k in range(1, 140_000)]),
    "keys that meet in a table": lambda: _dict([str(k << 33) for k in range(200_000)]),
    "keys that are no whole numbers": lambda: _dict([f"{k}.0e18" for k in range(200_000)]),
    "keys with one hash among powers": lambda: _dict([f"{2**k}.0" for k in range(900)] * 20),
    "keys that are tuples": lambda: _dict([_tuple(str(k), "0") for k in range(60_000)]),
    "keys that are truth values": lambda: _dict(["true", "false"] * 100_000),
    "keys that are nothing": lambda: _dict(["null"] * 100_000),
    "keys that are lists": lambda: _dict(["[]"] * 100_000),
    "equal texts as keys": lambda: _dict(['"a"'] * 100_000),
    "other texts as keys": lambda: _dict([f'"{k}"' for k in range(100_000)]),
    "dicts in dicts": lambda: '{"$":"dict","items":[["a",' * 40 + "1" + "]]}" * 40,
    "pairs that are none": lambda: '{"$":"dict","items":' + "[" * 900 + "]" * 900 + "}",
    "a straggler that is a text": lambda: _cluster(stragglers={"x": 1}),
    "a straggler that is a fraction": lambda: '{"$":"Cluster","fields":{"nodes":1e18,"ranks_per_node":1}}',
    "a straggler between two ranks": lambda: _cluster(stragglers={"$": "dict", "items": [[0.5, 1]]}),
    "a large cluster": lambda: _cluster(),
    "a cluster in a tuple": lambda: _tuple(_cluster()),
    "a link": lambda: '{"$":"Link","fields":{"latency":0,"bandwidth":1}}',
    "an operation": lambda: '{"$":"ReduceOp","fields":{"value":"sum"}}',
    "a kind with a long name": lambda: '{"$":"' + "x" * 4_000_000 + '","fields":{}}',
    "lists in lists": lambda: "[" * 900 + "]" * 900,
    "two million lists in lists": lambda: "[" * (MOST_HEADER // 2) + "]" * (MOST_HEADER // 2),
    "tuples in tuples": lambda: '{"$":"tuple","items":[' * 200 + "]}" * 200,
    "lists in tuples in dicts": lambda: '{"a":[{"$":"tuple","items":[' * 100 + "]}]}" * 100,
    "empty lists": lambda: _filled("[]"),
    "empty dicts": lambda: _filled("{}"),
    "tuples of nothing": lambda: _filled(_tuple()),
    "one key again and again": lambda: _filled('"a":1', "{", "}"),
    "digits": lambda: "9" * (MOST_HEADER - 1),
    "numbers of 4,000 digits": lambda: _filled("9" * 4_000),
    "numbers of 40 digits": lambda: _filled("9" * 40),
    "digits behind a point": lambda: "0." + "9" * (MOST_HEADER - 3),
    "large exponents": lambda: _filled("1e999999999"),
    "long fractions": lambda: _filled("0." + "123456789" * 80),
    "halves of pairs": lambda: _filled("\\ud800", '"', '"', ""),
    "texts with halves of pairs": lambda: _filled('"\\udcff"'),
    "brackets in a text": lambda: _filled("[{", '"', '"', ""),
    "backslashes": lambda: _filled("\\\\", '"', '"', ""),
    "white space": lambda: _filled(" ", "[", "]", ""),
    "tensors of nothing": lambda: _filled(_tensor("0")),
    "a tensor of a million dimensions": lambda: _tensor(",".join(["1"] * 1_000_000)),
    "a tensor of long dimensions": lambda: _tensor(",".join(["9" * 39] * 64)),
    "a tensor of no length": lambda: _tensor(",".join(["9" * 39] * 10 + ["0"])),
    "a tensor far away": lambda: _tensor("1", 10**39),
    "no end": lambda: _filled("[1", "", "", ","),
}


def seconds_of(names: list[str]) -> dict[str, float]:
    """What reading each frame takes of the processor."""
    found = {}
    for name in names:
        header = FRAMES[name]().encode()
        assert len(header) <= MOST_HEADER, name
        start = time.process_time()
        with contextlib.suppress(WireError):
            decode(header, b"12 bytes here")
        found[name] = time.process_time() - start
    return found


@pytest.fixture(scope="module")
def seconds() -> dict[str, float]:
    """Of all frames, in a process that is ended if one of them is an hour's work; then each has its own."""
    try:
        return read_apart(seconds_of, list(FRAMES), seconds=100, memory=3 << 30)
    except EndedEarly:
        return {name: _alone(name) for name in FRAMES}


def _alone(name: str) -> float:
    try:
        return read_apart(seconds_of, [name], seconds=2 * SECONDS, memory=3 << 30)[name]
    except EndedEarly:
        return math.inf


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_takes_no_longer_than_its_length(seconds: dict[str, float], name: str) -> None:
    assert seconds[name] < SECONDS


def made_up(draw: random.Random, depth: int = 0) -> str:
    """Something that looks like a frame: a few kinds of pieces, some of them many times."""
    inner = made_up(draw, depth + 1) if depth < 4 and draw.random() < 0.8 else draw.choice(["1", '"a"', "null", "1e9"])
    many = draw.choice([1, 1, 2, 50, 4_000])
    kind = draw.randrange(6)
    if kind == 0:
        return "[" + ",".join([inner] * min(many, 1 + 2_000_000 // len(inner))) + "]"
    if kind == 1:
        step = draw.choice([1, SAME_HASH, 1 << 33, 1 << 52])
        return _dict([str(step * k) for k in range(many * 10)])
    if kind == 2:
        return _tuple(*[inner] * min(many, 1 + 2_000_000 // len(inner)))
    if kind == 3:
        return '{"a":' * min(many, 400) + inner + "}" * min(many, 400)
    if kind == 4:
        return _tensor(",".join(["1"] * many))
    return _cluster(stragglers={"x": many})


def test_made_up_frames_take_no_longer_than_their_length() -> None:
    draw = random.Random(43)
    headers = [header for _ in range(150) if len(header := made_up(draw)) <= MOST_HEADER]
    assert len(headers) > 100
    assert read_apart(slow_ones, headers, seconds=60, memory=3 << 30) == []


def slow_ones(headers: list[str]) -> list[str]:
    """The beginnings of those that take more time of the processor than a frame may."""
    slow = []
    for header in headers:
        start = time.process_time()
        with contextlib.suppress(WireError):
            decode(header.encode(), b"12 bytes here")
        slow += [header[:200]] if time.process_time() - start > SECONDS else []
    return slow


def test_a_straggler_is_looked_up_and_no_rank_is_walked() -> None:
    with pytest.raises(ValueError, match="expected stragglers among the ranks 0 to 999999999999999999"):
        Cluster(10**18, 1, stragglers={"x": 1.0})  # type: ignore[dict-item]


SENDS = """
import json, struct, sys
wire = sys.stdout._wire
def shift(comm, tensor):
    header = ({header}).replace("QUESTION", str(wire.question)).encode()
    wire._connection.sendall(struct.pack("!IQ", len(header), 0) + header)
"""
SENT = {
    "keys with one hash": """'{"what":"done","question":QUESTION,"value":{"$":"dict","items":['
        + ",".join(f"[{k * ((1 << 61) - 1)},0]" for k in range(150_000)) + "]}}" """,
    "a cluster": """'{"what":"done","question":QUESTION,"value":{"$":"Cluster","fields":'
        '{"nodes":1000000000000000000,"ranks_per_node":1,"stragglers":{"x":1}}}}'""",
    "a cluster for a helper": """'{"what":"helper","question":QUESTION,"site":["","",1,null,""],"group":0,"name":"x",'
        '"given":{},"records":{"cluster":["Cluster",{"nodes":1000000000000000000,"stragglers":{"x":1}}]}}'""",
    "a deep value": """'{"what":"done","question":QUESTION,"value":' + "[" * 900 + "]" * 900 + "}" """,
}


@pytest.mark.parametrize("name", SENT)
def test_a_rank_that_sends_it_loses_its_function_and_no_time_of_the_judge(name: str) -> None:
    before = time.process_time()
    judged = run(SENDS.format(header=SENT[name]))
    assert time.process_time() - before < SECONDS
    assert "did not keep to the protocol" in told(judged) or "expected" in told(judged)
    assert told(run(RIGHT, TEST)) == ""
