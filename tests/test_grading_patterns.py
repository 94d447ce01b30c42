"""The checks of shift, broadcast, scatter, gather and reduce: steps, wrong messages, the exercise's text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch

from distlib import CallSite, Cluster, Link, Message, SimulatedWorld, Trace
from distlib.grading import CheckFailed, check_broadcast, check_gather, check_scatter, check_shift
from distlib.grading.case import Case
from distlib.grading.pattern_specification import PatternSpecification, broadcast_steps, reduce_steps
from distlib.grading.pattern_traffic import explain_pattern_traffic

pytestmark = pytest.mark.timeout(120)

Sent = list[tuple[int, int, int, int]]  # src, dst, elements, round
LOG = PatternSpecification("tree", steps=lambda n: (n - 1).bit_length())
TO_ROOT = PatternSpecification("star", lambda n: [0] + [1] * (n - 1), lambda n: 1)
FROM_ROOT = PatternSpecification("star", lambda n: [n - 1] + [0] * (n - 1), lambda n: 1, carries="chunk")
RING = PatternSpecification("ring", lambda n: [1] * n, lambda n: 1)


def trace_of(sent: Sent, world_size: int, via: str | None = None) -> Trace:
    """A trace of messages of float32, sent in this order."""
    site = CallSite("cell 5, line 3", "f", "cell.py", 3, via)
    messages = [
        Message(src, dst, 0, 4 * elements, "float32", (elements,), number, number, number, round_, site, site)
        for number, (src, dst, elements, round_) in enumerate(sent)
    ]
    return Trace(world_size, messages)


def remark_on(collective: str, specification: PatternSpecification, sent: Sent, size: int = 4, **more: Any) -> str:
    root = None if collective == "shift" else more.get("root", 0)
    case = Case("f", collective, size, more.get("length", 8), torch.float32, "contiguous", 1, root)
    remark = explain_pattern_traffic(case, trace_of(sent, size, more.get("via")), specification)
    return f"{remark.seen} {' '.join(remark.details)} {remark.cause}" if remark else ""


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def flat(comm: Any, tensor: torch.Tensor) -> None:
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst) if comm.rank == 0 else None
    if comm.rank:
        comm.recv(tensor, 0)


def two_children(comm: Any, tensor: torch.Tensor) -> None:
    if comm.rank:
        comm.recv(tensor, (comm.rank - 1) // 2)
    for child in (2 * comm.rank + 1, 2 * comm.rank + 2):
        if child < comm.world_size:
            comm.send(tensor, child)


def doubling(comm: Any, tensor: torch.Tensor) -> None:
    distance = 1
    while distance < comm.world_size:
        if comm.rank < distance and comm.rank + distance < comm.world_size:
            comm.send(tensor, comm.rank + distance)
        elif distance <= comm.rank < 2 * distance:
            comm.recv(tensor, comm.rank - distance)
        distance *= 2


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 16, 17, 33])
@pytest.mark.parametrize("function", [flat, two_children, doubling], ids=lambda function: function.__name__)
def test_steps_of_a_broadcast_are_its_time_on_a_simulated_cluster(function: Callable[..., None], size: int) -> None:
    """With links on which every message takes one second, the clock counts the steps."""
    world = SimulatedWorld(size, Cluster.flat(size, Link(latency=1.0, bandwidth=1e30)))
    world.run(function, torch.zeros(1))
    steps = broadcast_steps(world.trace)
    assert steps == round(world.elapsed)
    expected = {"flat": size - 1, "doubling": (size - 1).bit_length()}
    assert steps == expected.get(function.__name__, steps)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 16, 17, 33])
@pytest.mark.parametrize("nearest_first", [True, False])
def test_sends_that_start_at_the_same_moment_have_no_order(size: int, nearest_first: bool) -> None:
    def at_once(comm: Any, tensor: torch.Tensor) -> None:
        lowest = comm.rank & -comm.rank or comm.world_size
        below = [comm.rank + 2**k for k in range(6) if 2**k < lowest and comm.rank + 2**k < comm.world_size]
        if comm.rank:
            comm.recv(tensor, comm.rank - lowest)
        for work in [comm.isend(tensor, rank) for rank in (below if nearest_first else below[::-1])]:
            work.wait()

    world = SimulatedWorld(size)
    world.run(at_once, torch.zeros(1))
    assert broadcast_steps(world.trace) == (size - 1).bit_length()


@pytest.mark.parametrize(
    ("sent", "size", "steps"),
    [
        ([], 1, 0),
        ([(1, 0, 1, 1), (2, 0, 1, 1), (3, 0, 1, 1)], 4, 3),
        ([(1, 0, 1, 1), (3, 2, 1, 1), (2, 0, 1, 2)], 4, 2),
        ([(3, 2, 1, 1), (2, 1, 1, 2), (1, 0, 1, 3)], 4, 3),
        ([(3, 1, 1, 1), (4, 1, 1, 1), (2, 0, 1, 1), (1, 0, 1, 2)], 5, 3),
    ],
)
def test_steps_of_a_reduce(sent: Sent, size: int, steps: int) -> None:
    assert reduce_steps(trace_of(sent, size)) == steps


# ── wrong messages ───────────────────────────────────────────────────────────────────────────────────────────────────

ALL_TO_ROOT = [(rank, 0, 8, 1) for rank in (1, 2, 3)]
CHUNKS = [(0, rank, 2, 1) for rank in (1, 2, 3)]
AROUND = [(rank, (rank + 1) % 4, 8, 1) for rank in range(4)]


@pytest.mark.parametrize(
    ("collective", "specification", "sent"),
    [
        ("shift", RING, AROUND),
        ("gather", TO_ROOT, ALL_TO_ROOT),
        ("scatter", FROM_ROOT, CHUNKS),
        ("broadcast", LOG, [(0, 2, 8, 1), (0, 1, 8, 1), (2, 3, 8, 2)]),
        ("reduce", LOG, [(1, 0, 8, 1), (3, 2, 8, 1), (2, 0, 8, 2)]),
    ],
)
def test_right_messages_need_no_remark(collective: str, specification: PatternSpecification, sent: Sent) -> None:
    assert remark_on(collective, specification, sent) == ""


@pytest.mark.parametrize(
    ("collective", "specification", "sent", "told"),
    [
        ("shift", RING, [], "no message was seen; 4 messages were expected"),
        ("shift", RING, AROUND[:3], "there were 3 messages; 4 were expected"),
        ("shift", RING, [(0, 2, 8, 1), *AROUND], "rank 0 sent to rank 2; it should send to rank 1 only"),
        ("shift", RING, [*AROUND[:3], (3, 0, 8, 2)], "they took 2 rounds; 1 was expected"),
        ("shift", RING, [(0, 1, 4, 1), *AROUND[1:]], "a message carries 4 float32; each should carry the whole"),
        ("gather", TO_ROOT, [(3, 2, 8, 1), (2, 0, 8, 2), (1, 0, 8, 1)], "passed on from rank to rank"),
        ("gather", TO_ROOT, [(2, 1, 8, 1), *ALL_TO_ROOT], "every rank sends to the root, and to nobody else"),
        ("gather", TO_ROOT, ALL_TO_ROOT * 2, "rank 1 sends to rank 0 more than once"),
        ("gather", TO_ROOT, ALL_TO_ROOT * 3, "One whole tensor to each rank is enough"),
        ("gather", TO_ROOT, [*ALL_TO_ROOT[:2], ALL_TO_ROOT[1]], "rank 2 sent 2 messages; 1 was expected"),
        ("scatter", FROM_ROOT, [*CHUNKS, (1, 2, 2, 1)], "only the root has something to send"),
        ("scatter", FROM_ROOT, [(0, 1, 8, 1), *CHUNKS[1:]], "rank 1 was sent 32 bytes; its chunk has 8"),
        ("scatter", FROM_ROOT, [(0, 1, 3, 1), *CHUNKS[1:]], "padded to the same length"),
        ("broadcast", LOG, [(0, 1, 8, 1), (0, 2, 8, 1), (0, 3, 8, 1)], "messages: 0 → 1, 0 → 2, 0 → 3"),
        ("broadcast", LOG, [(0, 1, 8, 1), (1, 2, 8, 2), (2, 3, 8, 3)], "from rank to rank in a chain"),
        ("broadcast", LOG, [(0, 1, 8, 1), (0, 2, 8, 1), (2, 3, 8, 2)], "it takes 3 steps; at most 2 are allowed"),
        ("broadcast", LOG, [(0, 1, 8, 1)], "some values came without a message of yours"),
        ("reduce", LOG, ALL_TO_ROOT, "the root takes in every tensor itself"),
    ],
)
def test_what_is_said_of_wrong_messages(
    collective: str, specification: PatternSpecification, sent: Sent, told: str
) -> None:
    assert told in remark_on(collective, specification, sent)


def test_messages_of_the_library_do_not_count() -> None:
    assert "were sent by distlib.collectives" in remark_on("shift", RING, AROUND, via="distlib.collectives.ring.f")


def test_places_move_along_with_the_root() -> None:
    assert FROM_ROOT.messages_by_rank(4, root=2) == [0, 0, 3, 0]
    assert LOG.messages_by_rank(4, root=2) is None
    assert remark_on("scatter", FROM_ROOT, [(2, rank, 2, 1) for rank in (0, 1, 3)], root=2) == ""
    assert "should come from the root, rank 2" in remark_on("scatter", FROM_ROOT, CHUNKS, root=2)


def test_empty_messages_may_be_sent_or_not() -> None:
    assert remark_on("scatter", FROM_ROOT, [(0, 1, 1, 1)], length=2) == ""
    assert remark_on("scatter", FROM_ROOT, [(0, 1, 1, 1), (0, 2, 0, 1), (0, 3, 0, 1)], length=2) == ""
    assert remark_on("gather", TO_ROOT, [], length=0) == ""


@pytest.mark.parametrize("name", ["topology", "carries"])
def test_a_specification_of_what_is_not_there(name: str) -> None:
    with pytest.raises(ValueError, match="nothing"):
        PatternSpecification(**{"topology": "ring", **{name: "nothing"}})


# ── functions and roots ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_function_without_a_root_is_refused() -> None:
    with pytest.raises(CheckFailed, match=r"can't be called with \(comm, tensor, root=0\)"):
        check_broadcast(lambda comm, tensor: None, world_sizes=(1,), lengths=(1,), roots=(0,), steps=lambda n: 0)


def test_roots_that_a_world_does_not_have_are_left_out() -> None:
    report = check_broadcast(
        lambda comm, tensor, root: None, world_sizes=(1,), lengths=(2, 0), roots=(0, 1, 2), steps=lambda n: 0
    )
    assert [passed.case.root for passed in report] == [0, 0]
    assert "root" in str(report)


@pytest.mark.parametrize(
    ("check", "result", "told"),
    [
        (check_gather, "a word", "rank 0 returned a value of type str; expected a list of tensors"),
        (check_gather, [torch.zeros(3)] * 2, "returned a list of 2 tensors; expected 1"),
        (check_scatter, 7, "rank 0 returned a value of type int; expected a tensor"),
        (check_scatter, torch.zeros(3, dtype=torch.float64), "the result is float64. Keep float32"),
    ],
)
def test_what_a_function_returns_is_compared(check: Callable[..., Any], result: Any, told: str) -> None:
    options = dict(world_sizes=(1,), lengths=(3,), roots=(0,), messages=lambda n: [0], rounds=lambda n: 1)
    with pytest.raises(CheckFailed) as caught:
        check(lambda comm, tensor, root: result, **options)
    assert told in " ".join(str(caught.value).split())


def test_writing_beside_the_tensor_is_seen() -> None:
    def stray(comm: Any, tensor: torch.Tensor) -> None:
        torch.as_strided(tensor, (1,), (1,), 0).fill_(7)

    options = dict(lengths=(3,), layouts=("strided",), messages=lambda n: [0], rounds=lambda n: 1)
    with pytest.raises(CheckFailed, match="wrote into memory"):
        check_shift(stray, world_sizes=(1,), **options)


# ── the exercise's text ──────────────────────────────────────────────────────────────────────────────────────────────


def table_rows(root: Path, heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the exercise, without the first column."""
    notebook = jupytext.read(root / "solutions" / "01_messages" / "01_messages.py")
    (text,) = [cell.source for cell in notebook.cells if cell.source.startswith(heading)]
    lines = [line for line in text.replace("`", "").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines[2:]]


def test_the_table_of_the_shift(root: Path) -> None:
    start = [[1, 2], [10, 20], [100, 200]]
    assert table_rows(root, "## 1.") == [[str(v) for v in start], [str(start[rank - 1]) for rank in range(3)]]


def test_the_table_of_the_scatter(root: Path) -> None:
    chunks = [chunk.tolist() for chunk in torch.tensor_split(torch.tensor([1, 2, 3, 4]), 3)]
    rows = table_rows(root, "## 2.")
    assert rows[0] == ["[1, 2, 3, 4]", "[0, 0, 0, 0]", "[0, 0, 0, 0]"]
    assert rows[1] == [f"{chunks[1]} to rank 1, {chunks[2]} to rank 2", "nothing", "nothing"]
    assert rows[2] == [str(chunk) for chunk in chunks]


def test_the_table_of_the_reduce(root: Path) -> None:
    held, rows = [1, 10, 100, 1000], table_rows(root, "## 5.")
    assert rows[0] == ["", *map(str, held)]
    for row in rows[1:]:
        for pair in row[0].split(", "):
            src, dst = map(int, pair.split(" → "))
            held[dst] += held[src]
        assert row[1:] == [str(value) for value in held]
    assert held[0] == 1111
