"""TensorFlow's own log of its ring all-reduce: who sent which chunk to whom.

The ring is written in C++. With `LOGGED` in its environment, a process writes a line for each message:

    … ring_alg.cc:401] DispatchSend rank=3 send key 1:100:0:0:0:2:3 chunk (139697032557504, 139697032558528) sc_idx 2
    … ring_alg.cc:421] DispatchRecv rank=0 recv key 1:100:0:0:0:2:3 chunk (…) into tmp_chunk
                                 which all-reduce ◄─────┘ │ │ └─ sender     └─ from address to address in memory
                                    0 adds, 1 copies ◄────┘ └─ chunk

Source: tensorflow/core/common_runtime/ring_alg.cc, https://github.com/tensorflow/tensorflow
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from distlib.trace import CallSite, Message, Trace

LOGGED = {
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "ring_alg=3",
    "GRPC_VERBOSITY": "INFO",  # below it, gRPC silences TensorFlow, too
}
ADDS, COPIES = 0, 1

_SEND = re.compile(r"DispatchSend rank=(\d+) send key (\S+):(\d+):(\d+):\d+ chunk \((\d+), (\d+)\)")
_RECEIVE = re.compile(r"DispatchRecv rank=(\d+) recv key (\S+) ")
_HERE = CallSite("ring_alg.cc", "DispatchSend", "ring_alg.cc", 401)


@dataclass(frozen=True)
class RingMessage:
    """A message of TensorFlow's ring.

    Attributes:
        all_reduce: a name; messages of the same all-reduce have the same.
        src, dst: ranks.
        phase: ADDS (reduce-scatter) or COPIES (all-gather).
        chunk: its number.
        nbytes: its size.
    """

    all_reduce: str
    src: int
    dst: int
    phase: int
    chunk: int
    nbytes: int


def ring_messages(lines: Iterable[str]) -> list[RingMessage]:
    """The messages in a log, in its order. lines: of all processes, one after the other or mixed.

    Raises:
        ValueError: a message was sent that nobody has received: the log of a process is missing, or it was killed.
    """
    lines = list(lines)
    receivers = {found[2]: int(found[1]) for line in lines if (found := _RECEIVE.search(line))}
    messages = []
    for sent in filter(None, map(_SEND.search, lines)):
        key = sent[0].split(" key ")[1].split(" ")[0]
        if key not in receivers:
            raise ValueError(f"expected a DispatchRecv line for each DispatchSend line, got none for the key {key}")
        phase, chunk, begin, end = (int(sent[group]) for group in range(3, 7))
        messages.append(RingMessage(sent[2], int(sent[1]), receivers[key], phase, chunk, end - begin))
    return messages


def as_trace(transfers: Iterable[tuple[int, int, int]], world_size: int) -> Trace:
    """A trace to draw, of (source, destination, bytes). It has no times, and no rounds."""
    return Trace(
        world_size,
        [
            Message(src, dst, 0, nbytes, "float32", (nbytes // 4,), number, number, number, 1, _HERE, _HERE)
            for number, (src, dst, nbytes) in enumerate(transfers)
        ],
    )
