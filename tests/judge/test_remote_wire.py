"""Frames between the judge and a rank: what goes in comes out, and what is no frame is refused."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, strategies as st

from distlib import Cluster, Link, ReduceOp
from distlib.judge.remote.records import Record, record_told, told_record
from distlib.judge.remote.wire import (
    MOST_PAYLOAD,
    Wire,
    WireClosed,
    WireError,
    WireTimeout,
    decode,
    dtype_named,
    encode,
)

KEYS = st.integers(-(1 << 53) + 1, (1 << 53) - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**38), 10**38) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | KEYS, inner),
    max_leaves=20,
)


@pytest.fixture
def wires() -> Iterator[tuple[Wire, Wire, socket.socket]]:
    """Two ends, and the socket under the first."""
    here, there = socket.socketpair()
    ends = Wire(here), Wire(there)
    yield (*ends, here)
    for end in ends:
        end.close()


@given(PLAIN)
def test_plain_values_come_out_as_they_went_in(value: object) -> None:
    assert decode(*encode(value)) == value


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int64, torch.uint16], ids=str
)
def test_tensors_come_out_as_they_went_in(dtype: torch.dtype) -> None:
    square = torch.arange(12).reshape(3, 4).to(dtype)
    for tensor in (square, square.t(), square[:, ::2], square[:0], square[0, 0]):
        (arrived,) = decode(*encode([tensor]))
        assert arrived.dtype is dtype
        assert torch.equal(arrived, tensor)


CLUSTER = Cluster(nodes=2, ranks_per_node=4, intra=Link(1e-6, 1e11), inter=Link(5e-6, 1e10), stragglers={3: 2.0})


@pytest.mark.parametrize(
    "value",
    [{"on": CLUSTER, "over": (Link(0.0, float("inf")),)}, ReduceOp.MAX, {(1, 2): 3, None: 4}, 10**60],
    ids=["networks", "an operation", "other keys", "a long number"],
)
def test_what_a_judge_may_send_and_a_rank_may_not(value: object) -> None:
    assert decode(*encode(value), trusts=True) == value
    with pytest.raises(WireError, match="expected a frame"):
        decode(*encode(value))


@pytest.mark.parametrize("record", [CLUSTER, Link(0.0, float("inf")), ReduceOp.AVG], ids=str)
def test_a_rank_hands_a_network_to_a_helper_as_plain_values(record: Record) -> None:
    assert record_told(decode(*encode(told_record(record)))) == record


@pytest.mark.parametrize(
    "told",
    [
        ("Cluster", {}),
        ("Cluster", {**told_record(CLUSTER)[1], "stragglers": {"x": 1.0}, "nodes": 10**18}),
        ("Cluster", {**told_record(CLUSTER)[1], "intra": 3}),
        ("Link", {"latency": "1", "bandwidth": 1}),
        ("ReduceOp", {"value": "all"}),
        ("World", {}),
        ([], {}),
        (),
        7,
    ],
    ids=repr,
)
def test_what_makes_no_network_is_refused(told: object) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        record_told(told)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, open, torch.eye(2).to_sparse(), b"bytes"],
    ids=["object", "set", "function", "sparse tensor", "bytes"],
)
def test_other_values_can_not_travel(value: object) -> None:
    with pytest.raises(WireError, match="expected"):
        encode(value)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b'{"$": "code"}',
        b'{"$": null}',
        b'{"$": ["tensor"]}',
        b'{"value": {"$": "code"}}',
        b'{"$": "tensor", "dtype": "float32", "shape": ["1"], "start": 0}',
        b'{"$": "tensor", "dtype": "float32", "shape": [1.0], "start": 0}',
        b'{"$": "tensor", "dtype": "float32", "shape": [1], "start": true}',
        b'{"$": "tensor", "dtype": "float32", "shape": [4], "start": 0}',
        b'{"$": "tensor", "dtype": "float32", "shape": [-1], "start": 0}',
        b'{"$": "tensor", "dtype": "load", "shape": [0], "start": 0}',
        b'{"$": "tensor", "dtype": "float32", "shape": [99999999999, 99999999999], "start": 0}',
        b'{"$": "Link", "fields": {"$": "dict", "items": [["latency", -1], ["bandwidth", 1]]}}',
        b'{"$": "dict", "items": [[[], 1]]}',
        b"[" * 100_000,
        b"\xff",
        '"half a character: \udcff"'.encode("utf-8", "surrogatepass"),
    ],
    ids=repr,
)
def test_what_is_no_frame_is_refused(header: bytes) -> None:
    with pytest.raises(WireError, match="expected a frame"):
        decode(header, b"12 bytes here")


@given(st.binary(), st.binary())
def test_any_bytes_are_a_value_or_refused(header: bytes, payload: bytes) -> None:
    try:
        decode(header, payload)
    except WireError:
        pass


def test_a_dtype_is_one_of_the_table() -> None:
    assert dtype_named("float32") is torch.float32
    with pytest.raises(WireError, match="'load'"):
        dtype_named("load")


def test_frames_follow_each_other(wires: tuple[Wire, Wire, socket.socket]) -> None:
    here, there, _ = wires
    for number in range(3):
        here.send({"number": number, "tensor": torch.full((1000,), number)})
    assert [there.receive()["tensor"][0].item() for _ in range(3)] == [0, 1, 2]


def test_a_wire_says_when_nothing_comes_or_the_other_end_has_gone(wires: tuple[Wire, Wire, socket.socket]) -> None:
    here, there, socket_here = wires
    with pytest.raises(WireTimeout):
        there.receive(time.monotonic() + 0.01)
    socket_here.sendall(struct.pack("!IQ", 10, MOST_PAYLOAD + 1))
    with pytest.raises(WireError, match="at most"):
        there.receive()
    here.close()
    with pytest.raises(WireClosed):
        there.receive()


def test_a_deadline_holds_also_while_values_keep_coming(wires: tuple[Wire, Wire, socket.socket]) -> None:
    here, there, _ = wires
    for _ in range(3):
        here.send("a flood")
    assert there.receive(time.monotonic() + 60) == "a flood"
    with pytest.raises(WireTimeout):
        there.receive(time.monotonic())
    assert there.receive() == "a flood"


def test_half_a_pair_of_code_units_arrives_as_text_that_files_take() -> None:
    assert decode(*encode({"caf\udce9": ["\udcff", "ü𝄞"]})) == {"caf\\udce9": ["\\udcff", "ü𝄞"]}
    assert decode(*encode([("\udcff", {1: "\udcff"})])) == [("\\udcff", {1: "\\udcff"})]


def test_a_dict_may_have_the_key_that_marks_a_kind() -> None:
    value = {"$": "tensor", "inside": {"$": {"$": 1}}}
    assert decode(*encode(value)) == value


def test_tensors_do_not_take_more_memory_than_was_sent() -> None:
    header, payload = encode([torch.zeros(1000)])
    with pytest.raises(WireError, match="overlap"):
        decode(b"[" + b",".join([header[1:-1]] * 2) + b"]", payload)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            b"[" + b",".join([b'{"$": "tensor", "dtype": "int8", "shape": [0], "start": 0}'] * 10_001) + b"]",
            "more than 10,000 tensors",
        ),
        (b'{"$": "tensor", "dtype": "int8", "shape": [' + b"1," * 99 + b'1], "start": 0}', "100 dimensions"),
        (
            b'{"$": "tensor", "dtype": "int8", "shape": [9223372036854775807, 9223372036854775807, 0], "start": 0}',
            "overflow",
        ),
    ],
    ids=["many tensors", "many dimensions", "large and empty"],
)
def test_a_small_frame_does_not_become_much(header: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        decode(header, b"four")


def test_a_rank_that_does_not_read_holds_nobody_up(wires: tuple[Wire, Wire, socket.socket]) -> None:
    here, _, _ = wires
    with pytest.raises(WireTimeout):
        here.send(torch.zeros(1 << 20), time.monotonic() + 0.05)
