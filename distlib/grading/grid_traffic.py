"""Are the messages those of an all-reduce on a grid: round the rows, round the columns, round the rows again?

    2 rows of 3 columns    rank 0 → rank 1 → rank 2 → rank 0    along a row: chunks, one for each column
                           rank 3 → rank 4 → rank 5 → rank 3
                           0 ⇄ 3,  1 ⇄ 4,  2 ⇄ 5                along a column: pieces of a chunk, one for each row

Rows and columns are rings, either way round. Where pieces are empty (fewer elements than ranks) a function may send
them or not: then messages and rounds have an upper limit only.

What can't be seen: see `distlib.grading.traffic`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from distlib.checks.remark import Remark
from distlib.grading.all_reduce_specification import AllReduceSpecification, Traffic, first_remark
from distlib.grading.case import Case, count, dtype_name
from distlib.grading.traffic import describe
from distlib.partition import chunk_lengths
from distlib.trace import Message, Trace

WAYS = ("row", "column")


def explain_grid_traffic(case: Case, trace: Trace, specification: AllReduceSpecification) -> Remark | None:
    """The remark about the first thing that is not as specified; None if all is.

    Args:
        trace: all messages of the run, also those that don't count.
    """
    traffic = Traffic(case, trace, specification)
    return first_remark(traffic, case.world_size * sum(_expected(traffic)), (_aside, _rings, _sizes, _counts, _rounds))


def _columns(traffic: Traffic) -> int:
    assert traffic.case.columns is not None
    return traffic.case.columns


def _expected(traffic: Traffic) -> Sequence[int]:
    """How many messages a rank sends along its row, and along its column."""
    assert traffic.specification.messages is not None
    return traffic.specification.messages(traffic.case.rows, _columns(traffic))


def _along(traffic: Traffic, way: str) -> list[Message]:
    """The messages inside the rows, or inside the columns."""
    return [message for message in traffic.full if _way(traffic, message) == way]


def _way(traffic: Traffic, message: Message) -> str | None:
    columns = _columns(traffic)
    if message.src // columns == message.dst // columns:
        return "row"
    return "column" if message.src % columns == message.dst % columns else None


# ── to whom ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _aside(traffic: Traffic) -> Remark | None:
    aside = [message for message in traffic.full if _way(traffic, message) is None]
    if not aside:
        return None
    first, columns = aside[0], _columns(traffic)
    if all((message.dst - message.src) % traffic.size == 1 for message in traffic.full):
        cause = "that is one ring through all ranks. Here every row is a ring, and every column is one."
    else:
        cause = f"rank r is in row r // columns and in column r % columns; here columns is {columns}."
    places = " and ".join(f"rank {r} in row {r // columns}, column {r % columns}" for r in (first.src, first.dst))
    return Remark(
        f"the values are right, but rank {first.src} sent to rank {first.dst}: neither in its row nor in its column.",
        (f"{places} of the grid", describe(first)),
        cause,
    )


def _rings(traffic: Traffic) -> Remark | None:
    for way in WAYS:
        receivers: dict[int, list[int]] = {}
        for message in _along(traffic, way):
            peers = receivers.setdefault(message.src, [])
            if message.dst not in peers:
                peers.append(message.dst)
        for rank, peers in sorted(receivers.items()):
            if len(peers) > 1:
                return _several_receivers(traffic, way, rank, peers)
    return None


def _several_receivers(traffic: Traffic, way: str, rank: int, peers: Sequence[int]) -> Remark:
    message = next(m for m in traffic.full if m.src == rank and m.dst == peers[1])
    return Remark(
        f"the values are right, but along its {way} rank {rank} sent to ranks {peers[0]} and {peers[1]}. In a ring it "
        "sends to one neighbor only.",
        (describe(message),),
        f"each {way} is a ring: what comes from one neighbor is added, or copied, and passed on to the other one.",
    )


# ── how much ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sizes(traffic: Traffic) -> Remark | None:
    for way, allowed in zip(WAYS, _allowed_lengths(traffic), strict=True):
        nbytes = {length * traffic.case.dtype.itemsize for length in allowed}
        wrong = [message for message in _along(traffic, way) if message.nbytes not in nbytes]
        if wrong:
            return _wrong_size(traffic, way, wrong[0], allowed)
    return _totals(traffic)


def _allowed_lengths(traffic: Traffic) -> tuple[set[int], set[int]]:
    chunks = set(traffic.case.chunk_lengths)
    return chunks, {piece for chunk in chunks for piece in chunk_lengths(chunk, traffic.case.rows)}


def _wrong_size(traffic: Traffic, way: str, message: Message, allowed: set[int]) -> Remark:
    wanted = " or ".join(map(str, sorted(allowed)))
    part = f"1/{_columns(traffic)}" if way == "row" else f"1/{traffic.size}"
    return Remark(
        f"the values are right, but along a {way} a message carries {_elements(message)}; {wanted} were expected, "
        f"{part} of the tensor.",
        (describe(message), f"bytes sent by each rank: {_list(traffic.trace.bytes_sent)}"),
        _cause_of_size(traffic, way, message),
    )


def _cause_of_size(traffic: Traffic, way: str, message: Message) -> str:
    length, rows = traffic.case.length, traffic.case.rows
    if message.dtype != dtype_name(traffic.case.dtype):
        return f"the message's dtype differs from the tensor's. Send it unchanged, as {dtype_name(traffic.case.dtype)}."
    if way == "column" and math.prod(message.shape) in chunk_lengths(length, rows) and _rows_are_done_first(traffic):
        return (
            "whole tensors are summed up along the columns, by every column the same. After the reduce-scatter along "
            "the row a rank looks after one chunk only; only this chunk has to travel along its column."
        )
    if way == "row" and math.prod(message.shape) in {
        piece for chunk in chunk_lengths(length, rows) for piece in chunk_lengths(chunk, _columns(traffic))
    }:
        return "you begin with the columns. Here the rows come first: chunks along the row, pieces along the column."
    if message.nbytes == traffic.case.nbytes:
        return f"the whole tensor travels along the {way}. Cut it with torch.tensor_split, and send one chunk per step."
    if way == "column" and math.prod(message.shape) in traffic.case.chunk_lengths:
        return "the chunk travels along the column as a whole. Cut it once more, into one piece for each row."
    return (
        "torch.tensor_split(flat, columns) cuts the tensor for the row. What travels along a column are the pieces "
        "that torch.tensor_split(chunk, rows) cuts one of these chunks into. Nothing is padded."
    )


def _rows_are_done_first(traffic: Traffic) -> bool:
    """Whether no message along a row comes after one along a column."""
    row, column = ([message.round for message in _along(traffic, way)] for way in WAYS)
    return max(row, default=0) < min(column)


def _totals(traffic: Traffic) -> Remark | None:
    """Chunks are of different length: each must have been sent equally often."""
    rows, columns = traffic.case.rows, _columns(traffic)
    expected = {"row": rows * 2 * (columns - 1), "column": 2 * (rows - 1)}
    for way in WAYS:
        found = sum(message.nbytes for message in _along(traffic, way))
        wanted = expected[way] * traffic.case.nbytes
        if found != wanted and len(_along(traffic, way)) == traffic.size * _expected(traffic)[WAYS.index(way)]:
            return Remark(
                f"the values are right, but along the {way}s {found:,} bytes were sent; {wanted:,} were expected.",
                (f"bytes sent by each rank: {_list(traffic.trace.bytes_sent)}",),
                "some chunk is sent more often than needed and another one less often, or chunks are padded.",
            )
    return None


# ── how often, in how many rounds ────────────────────────────────────────────────────────────────────────────────────


def _counts(traffic: Traffic) -> Remark | None:
    for way, expected in zip(WAYS, _expected(traffic), strict=True):
        messages = [message.src for message in _along(traffic, way)]
        found = [messages.count(rank) for rank in range(traffic.size)]
        wrong = [r for r in range(traffic.size) if found[r] > expected or (traffic.is_exact and found[r] < expected)]
        if wrong:
            return Remark(
                f"the values are right, but along its {way} rank {wrong[0]} sent {count(found[wrong[0]], 'message')}; "
                f"{expected} {'was' if expected == 1 else 'were'} expected.",
                (f"messages along the {way} by each rank: {_list(found)}",),
                _cause_of_count(traffic, way, found, expected),
            )
    return None


def _cause_of_count(traffic: Traffic, way: str, found: Sequence[int], expected: int) -> str:
    if min(found) < max(found):
        return f"some ranks of a {way} do more than others. In a ring all do the same, in every step."
    if found[0] > expected:
        ranks = _columns(traffic) if way == "row" else traffic.case.rows
        return (
            f"a loop runs too often. A {way} has {count(ranks, 'rank')}: it takes {count(ranks - 1, 'step')} to add, "
            "and as many to copy."
        )
    return f"is the loop one step short? Along the {way}, every rank sends in every step."


def _rounds(traffic: Traffic) -> Remark | None:
    assert traffic.specification.rounds is not None
    found, expected = traffic.trace.rounds, traffic.specification.rounds(traffic.case.rows, _columns(traffic))
    if found == expected or (not traffic.is_exact and found < expected):
        return None
    last = max(traffic.full or list(traffic.trace), key=lambda message: message.round)
    return Remark(
        f"the values are right, but they took {count(found, 'round')}; {expected} "
        f"{'was' if expected == 1 else 'were'} expected. (A round: messages that need not wait for one another.)",
        (describe(last),),
        "your sends wait for one another. Let every rank send and receive at the same time: "
        "comm.exchange(outgoing, next_rank, incoming, previous_rank)."
        if found > expected
        else "a chunk has to visit every rank of the row, then every rank of the column, and then the row once more.",
    )


def _elements(message: Message) -> str:
    return f"{math.prod(message.shape)} {message.dtype}"


def _list(values: Sequence[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)
