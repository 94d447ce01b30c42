"""Frames over a socket: a header of JSON, then the bytes of tensors. What comes in is only ever data.

    4 bytes: length of the header    8 bytes: length of the payload    header    payload

Values that JSON does not know are written as {"$": kind, …}. A tensor's elements stand in the payload, in row order;
the header has its dtype, shape and place there. Nothing is unpickled, and no name from the other side is looked up
except in the tables below. A text may hold half of a pair of code units (a lone surrogate, as in "\\udcff"), which no
file and no terminal takes: it arrives as the characters \\udcff.

The judge reads what a rank sends, and a rank is a stranger. So a rank may send only what a rank has to send: no `Link`,
`Cluster` or `ReduceOp`, numbers of at most 40 digits, lists in lists at most 50 deep, and as keys of a dict texts and
whole numbers below 2^53. Then the time to read a frame grows as its length. (Keys that a stranger chooses can all have
the same hash, and a dict of n such keys takes n² steps. The hash of a text nobody can choose.) A rank takes all that
the judge sends: it `trusts` the judge.

Most frames are a dict of a few numbers and a tensor, and there are thousands of them for each submission. So what JSON
knows stands in a frame as it is, and is left to the json module's own code.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch

from distlib.communicator import ReduceOp
from distlib.network.cluster import Cluster, Link
from distlib.worlds.tensor_bytes import dtype_name_of, from_bytes, to_bytes

MOST_HEADER = 4 << 20  # bytes
MOST_PAYLOAD = 64 << 20
_MOST_TENSORS = 10_000  # in a frame, each of which takes a kilobyte, however small
_MOST_DIMENSIONS = 64  # as in NumPy
_MOST_DIGITS = 40
_MOST_DEPTH = 50  # lists in lists
_MOST_KEY = 1 << 53  # whole numbers up to here have different hashes
_LENGTHS = struct.Struct("!IQ")
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.complex64,
        torch.complex128,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.bool,
    )
}
_RECORDS: dict[str, type[Any]] = {"Link": Link, "Cluster": Cluster, "ReduceOp": ReduceOp}


class WireError(Exception):
    """The other side has sent what is no frame, or what can't be sent."""


class WireClosed(Exception):
    """The other side has ended."""


class WireTimeout(Exception):
    """The deadline has passed."""


class Wire:
    """One end of a connection that carries values.

    Args:
        connection: a connected stream socket. The wire owns it.
        trusts: whether the other end is the judge, see `decode`.

    Attributes:
        question: on a rank, the number of the question that it works on, which goes along with what it tells about it.
        asking: held by the thread of a rank that asks the judge for something, until the answer is there.
    """

    def __init__(self, connection: socket.socket, *, trusts: bool = False) -> None:
        self.question, self.asking = 0, threading.Lock()
        self._connection, self._trusts = connection, trusts
        self._arrived = bytearray()  # and not yet taken
        self._sending = threading.Lock()  # one frame at a time, whichever thread prints

    def send(self, value: Any, deadline: float | None = None) -> None:
        """Send a value: None, numbers, text, lists, tuples, dicts, tensors, `Link`, `Cluster` and `ReduceOp`.

        Raises:
            WireError: a value of another kind, or too much.
            WireClosed, WireTimeout.
        """
        header, payload = encode(value)
        data = _LENGTHS.pack(len(header), len(payload)) + header + payload
        try:
            with self._sending:
                self._limit(deadline)
                self._connection.sendall(data)
        except TimeoutError:
            raise WireTimeout from None
        except OSError:
            raise WireClosed from None

    def receive(self, deadline: float | None = None) -> Any:
        """The next value.

        Args:
            deadline: as `time.monotonic` counts; None waits for ever. Once it has passed, not even a value that is
                there already is handed out: a flood of them comes to an end, too.

        Raises:
            WireError, WireClosed, WireTimeout.
        """
        header_length, payload_length = _LENGTHS.unpack(self._take(_LENGTHS.size, deadline))
        if header_length > MOST_HEADER or payload_length > MOST_PAYLOAD:
            raise WireError(f"expected at most {MOST_PAYLOAD:,} bytes, got {header_length + payload_length:,}")
        header, payload = self._take(header_length, deadline), self._take(payload_length, deadline)
        return decode(header, payload, trusts=self._trusts)

    def is_sending(self) -> bool:
        """Whether a frame is half sent; for a signal's handler, which may interrupt that."""
        return self._sending.locked()

    def close(self) -> None:
        """Close this end; the other end sees it."""
        self._connection.close()

    def _take(self, length: int, deadline: float | None) -> bytes:
        if deadline is not None and time.monotonic() >= deadline:
            raise WireTimeout
        while len(self._arrived) < length:
            try:
                self._limit(deadline)
                piece = self._connection.recv(1 << 20)
            except TimeoutError:
                raise WireTimeout from None
            except OSError:
                raise WireClosed from None
            if not piece:
                raise WireClosed
            self._arrived += piece
        taken = bytes(self._arrived[:length])
        del self._arrived[:length]
        return taken

    def _limit(self, deadline: float | None) -> None:
        """Let the next call on the socket take until the deadline. Also between single bytes that keep coming."""
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)


def dtype_named(name: str) -> torch.dtype:
    """torch.float32 for "float32". Raises WireError for a name that is not in the table."""
    if name not in _DTYPES:
        raise WireError(f"expected one of {', '.join(_DTYPES)}, got {name!r}")
    return _DTYPES[name]


def encode(value: Any) -> tuple[bytes, bytes]:
    """A value as header and payload. Raises WireError for what can't travel."""
    payload = bytearray()
    header = _AS_JSON(_to_plain(value, payload)).encode()
    if len(header) > MOST_HEADER or len(payload) > MOST_PAYLOAD:
        raise WireError(f"expected at most {MOST_PAYLOAD:,} bytes, got {len(header) + len(payload):,}")
    return header, bytes(payload)


def decode(header: bytes, payload: bytes, *, trusts: bool = False) -> Any:
    """What `encode` made. Raises WireError for anything else.

    trusts: take also what only a judge sends. Without it, the time for it grows as the number of bytes.
    """
    try:
        text = header.decode()
        value = json.loads(text, object_hook=_Reader(payload, trusts).read, parse_int=None if trusts else _whole_number)
        _check_depth(value)
        return _with_whole_characters(value) if _HALF_A_PAIR.search(text) else value
    except (ValueError, TypeError, KeyError, RecursionError, RuntimeError, OverflowError) as error:
        raise WireError(f"expected a frame, got something else: {error}") from None


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_AS_JSON = json.JSONEncoder(separators=(",", ":")).encode
_KNOWN_TO_JSON = frozenset({type(None), bool, int, float, str})


def _to_plain(value: Any, payload: bytearray) -> Any:
    kind = type(value)
    if kind in _KNOWN_TO_JSON:
        return value
    if kind is list:
        return _plain_items(value, payload)
    if kind is tuple:
        return {"$": "tuple", "items": _plain_items(value, payload)}
    if kind is dict:
        return _plain_dict(value, payload)
    if isinstance(value, torch.Tensor):
        return _plain_tensor(value, payload)
    if kind.__name__ in _RECORDS and kind is _RECORDS[kind.__name__]:
        return {"$": kind.__name__, "fields": _to_plain(_fields(value), payload)}
    raise WireError(f"expected numbers, text, lists, dicts or tensors, got {kind.__name__}")


def _fields(record: Any) -> dict[str, Any]:
    """What a record is made of again."""
    if isinstance(record, ReduceOp):
        return {"value": record.value}
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.init}


def _plain_items(values: Sequence[Any], payload: bytearray) -> Sequence[Any]:
    if _KNOWN_TO_JSON.issuperset(map(type, values)):
        return values
    return [_to_plain(item, payload) for item in values]


def _plain_dict(value: dict[Any, Any], payload: bytearray) -> dict[str, Any]:
    if {str}.issuperset(map(type, value)) and "$" not in value:
        return {key: _to_plain(item, payload) for key, item in value.items()}
    return {"$": "dict", "items": [_plain_items(pair, payload) for pair in value.items()]}


def _plain_tensor(tensor: torch.Tensor, payload: bytearray) -> dict[str, Any]:
    name = dtype_name_of(tensor)
    if name not in _DTYPES or tensor.layout is not torch.strided or not tensor.is_cpu:
        raise WireError(f"expected a dense tensor in main memory, got {tensor.dtype}, {tensor.layout}, {tensor.device}")
    start = len(payload)
    payload += to_bytes(tensor)
    return {"$": "tensor", "dtype": name, "shape": list(tensor.shape), "start": start}


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")  # or a whole pair


class _Reader:
    """Makes values of the objects in one frame's JSON, the inner ones first.

    All tensors of a frame together get no more memory than its payload takes.
    """

    def __init__(self, payload: bytes, trusts: bool) -> None:
        self._payload, self._trusts = payload, trusts
        self._tensors, self._nbytes = 0, 0

    def read(self, plain: dict[str, Any]) -> Any:
        if "$" not in plain:
            return plain
        kind = plain["$"]
        if kind == "tuple":
            return tuple(plain["items"])
        if kind == "dict":
            return self._dict(plain["items"])
        if kind == "tensor":
            return self._tensor(plain["dtype"], plain["shape"], plain["start"])
        if not self._trusts:
            raise ValueError(f"expected a tuple, a dict or a tensor, got {str(kind)[:40]!r}")
        return _RECORDS[kind](**plain["fields"])

    def _dict(self, items: Any) -> dict[Any, Any]:
        if not self._trusts:
            for key, _ in items:
                if type(key) is not str and not (type(key) is int and abs(key) < _MOST_KEY):
                    raise ValueError(f"expected texts and whole numbers as keys, got {type(key).__name__}")
        return dict(items)

    def _tensor(self, name: str, shape: list[int], start: int) -> torch.Tensor:
        dtype = _DTYPES[name]
        if any(type(number) is not int or number < 0 for number in (start, *shape)):
            raise ValueError(f"a tensor of shape {shape} at {start}")
        if len(shape) > _MOST_DIMENSIONS:
            raise ValueError(f"a tensor with {len(shape):,} dimensions")
        nbytes = math.prod(shape) * dtype.itemsize
        self._tensors, self._nbytes = self._tensors + 1, self._nbytes + nbytes
        if self._tensors > _MOST_TENSORS:
            raise ValueError(f"more than {_MOST_TENSORS:,} tensors")
        if self._nbytes > len(self._payload):
            raise ValueError("tensors that overlap")  # else a small frame could fill the memory
        if start + nbytes > len(self._payload):
            raise ValueError(f"a tensor of {nbytes} bytes at {start} of {len(self._payload)}")
        tensor = torch.empty(shape, dtype=dtype)
        from_bytes(self._payload[start : start + nbytes], tensor)
        return tensor


def _whole_number(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text):,} digits")
    return int(text)


def _check_depth(value: Any) -> None:
    """Raise ValueError where lists, tuples and dicts are nested too deeply for whoever looks into them."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [item for each in level for item in _items(each) if isinstance(item, list | tuple | dict)]
        if not level:
            return
    raise ValueError(f"lists in lists, more than {_MOST_DEPTH} deep")


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


def _with_whole_characters(value: Any) -> Any:
    """The value with halves of pairs spelled out in all of its texts."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_with_whole_characters(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_with_whole_characters(item) for item in value)
    if isinstance(value, dict):
        return {_with_whole_characters(key): _with_whole_characters(item) for key, item in value.items()}
    return value
