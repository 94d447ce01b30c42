"""Exercise 02: the edges of its rules that no answer shows, and the tables of its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch

from distlib import CallSite, Message, Trace
from distlib.checks import Report
from distlib.checks.rules.sent_messages import SentMessages
from distlib.checks.seen import Seen
from distlib.checks.task import first
from distlib.checks.tensor_cases import tensor_cases
from distlib.checks.venues import simulated_only
from distlib.exercises.all_reduce.checks import check_ring_all_reduce, ring
from tests.heard import tells

ASSIGNMENT = "02_all_reduce"


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with simulated_only():
        yield


def two_halves(comm: Any, tensor: torch.Tensor, ways: tuple[int, int] = (1, 1), sends_empty: bool = True) -> None:
    """A ring all-reduce whose halves go these ways round."""
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for half, way in enumerate(ways):
        for step in range(size - 1):
            outgoing, target = (chunks[(rank - way * (step + k - half)) % size] for k in (1, 2))
            incoming = torch.empty_like(target)
            works = [comm.irecv(incoming, (rank - way) % size)] if sends_empty or len(target) else []
            works += [comm.isend(outgoing, (rank + way) % size)] if sends_empty or len(outgoing) else []
            for work in works:
                work.wait()
            target.copy_(incoming if half else target + incoming)
    tensor.copy_(flat.view(tensor.shape))


def passes(function: Any, **cases: Any) -> Report:
    return check_ring_all_reduce(function, **{"world_sizes": (2, 3, 5), "lengths": (15, 3, 0), **cases})


@pytest.mark.parametrize("ways", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
@pytest.mark.parametrize("sends_empty", [True, False])
def test_each_half_goes_its_own_way_and_empty_chunks_may_be_left_out(ways: tuple[int, int], sends_empty: bool) -> None:
    assert len(passes(lambda comm, tensor: two_halves(comm, tensor, ways, sends_empty))) == 9


Sent = list[tuple[int, int, int, int]]  # source, destination, elements, round


def ring_messages(size: int, elements: int, steps: int) -> Sent:
    return [(rank, (rank + 1) % size, elements, step + 1) for step in range(steps) for rank in range(size)]


def remark_on(sent: Sent, world_size: int = 3, length: int = 9) -> str:
    """What is said of these messages of float32, where the values are right."""
    site = CallSite("cell 5, line 3", "f", "cell.py", 3, None)
    messages = [
        Message(src, dst, 0, 4 * elements, "float32", (elements,), number, number, number, round_, site, site)
        for number, (src, dst, elements, round_) in enumerate(sent)
    ]
    (case,) = tensor_cases("all_reduce", world_sizes=(world_size,), lengths=(length,), seed=1)
    remark = first(ring(SentMessages(Seen(case, [], Trace(world_size, messages), True)), 2))
    return f"{remark.seen} {' '.join(remark.details)} {remark.cause}" if remark else ""


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ([], "no message was seen; 12 messages were expected"),
        (ring_messages(3, 3, steps=4), ""),
        (ring_messages(3, 3, steps=5), "rank 0 sent 5 messages; 4 were expected"),
        (ring_messages(3, 3, steps=3), "rank 0 sent 3 messages; 4 were expected"),
        (ring_messages(3, 3, steps=3) + [(0, 1, 3, 3), (1, 2, 3, 3), (2, 0, 3, 3)], "they took 3 rounds; 4 were"),
        (ring_messages(3, 2, steps=4), "a message carries 2 float32. Each should carry one chunk"),
        (ring_messages(3, 3, steps=3) + [(0, 2, 3, 4)], "rank 0 sent to ranks 1 and 2. In a ring"),
        ([(1, 0, 9, 1), (2, 0, 9, 1), (0, 1, 9, 2), (0, 2, 9, 2)], "everything passes through rank 0: it receives 72"),
    ],
)
def test_what_is_said_of_messages(sent: Sent, told: str) -> None:
    assert told in remark_on(sent) if told else remark_on(sent) == ""


def test_values_without_a_message() -> None:
    assert tells(remark_on([]), "rules/sent_messages.txt: no_message")


def test_neighbors_that_are_no_ring() -> None:
    sent = [(0, 1, 3, 1), (1, 0, 3, 1), (2, 3, 3, 1), (3, 2, 3, 1)]
    told = remark_on(sent, 4, length=12)
    assert "0 → 1, 1 → 0, 2 → 3, 3 → 2" in told
    assert tells(told, "rules/sent_messages.txt: no_circle")
    assert tells(told, "all_reduce/checks.txt: neighbors")


def test_chunks_of_different_length_are_each_sent_equally_often() -> None:
    lengths = {0: 3, 1: 3, 2: 2}
    right = [(r, (r + 1) % 3, lengths[(r - s) % 3], s + 1) for s in range(4) for r in range(3)]
    assert remark_on(right, length=8) == ""
    assert "chunks are padded to the same length" in remark_on(ring_messages(3, 3, steps=4), length=8)
    told = remark_on([*right[:-1], (2, 0, 3, 4)], length=8)
    assert "all ranks together sent 132 bytes; 128 were expected" in told and "some messages are longer" in told


def test_wrong_or_missing_halves_are_replaced_while_a_check_runs() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch}
    exec(compile(HALVES, "cell.py", "exec"), names)
    own = names["ring_reduce_scatter"]
    assert passes(names["both_halves"]).trace(world_size=3, length=15).rounds == 4
    assert names["ring_reduce_scatter"] is own and "ring_all_gather" not in names


HALVES = """
def ring_reduce_scatter(comm, tensor):
    raise AssertionError("the student's own, which is wrong")

def both_halves(comm, tensor):
    ring_reduce_scatter(comm, tensor)
    ring_all_gather(comm, tensor)  # not written: the check brings it
"""


# ── the exercise's text ──────────────────────────────────────────────────────────────────────────────────────────────


def table_rows(root: Path, heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the exercise, without bold marks; first in a row is its name."""
    notebook = jupytext.read(root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.py")
    (text,) = [cell.source for cell in notebook.cells if heading in cell.source and "| at the start |" in cell.source]
    lines = [line for line in text.replace("*", "").replace("`", "").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def chunk_text(values: list[Any]) -> str:
    return "[" + ", ".join(str(value) for value in values) + "]"


def test_the_table_of_the_naive_all_reduce(root: Path) -> None:
    start = [[1, 2], [10, 20], [100, 200]]
    total = [sum(values) for values in zip(*start, strict=True)]
    rows = [row[1:] for row in table_rows(root, "## 1. Through a master")]
    expected = [start, [total, *start[1:]], [total] * 3]
    assert rows == [[chunk_text(values) for values in row] for row in expected]


def test_the_table_of_the_reduce_scatter(root: Path) -> None:
    held: list[list[Any]] = [[1, 2, 3], [10, 20, 30], [100, 200, 300]]
    expected = [[chunk_text(values) for values in held]]
    for step in range(2):
        numbers = [(rank - 1 - step) % 3 for rank in range(3)]
        sent = [held[rank][number] for rank, number in enumerate(numbers)]
        expected.append([f"chunk {number}: {value}" for number, value in zip(numbers, sent, strict=True)])
        for rank in range(3):
            held[(rank + 1) % 3][numbers[rank]] += sent[rank]
        expected.append([chunk_text(values) for values in held])
    assert [held[rank][rank] for rank in range(3)] == [111, 222, 333]
    assert [row[1:] for row in table_rows(root, "## 2. The first half")] == expected


def test_the_table_of_the_all_gather(root: Path) -> None:
    held: list[list[Any]] = [[111, "-", "-"], ["-", 222, "-"], ["-", "-", 333]]
    expected = [[chunk_text(values) for values in held]]
    for step in range(2):
        numbers = [(rank - step) % 3 for rank in range(3)]
        sent = [held[rank][number] for rank, number in enumerate(numbers)]
        expected.append([f"chunk {number}: {value}" for number, value in zip(numbers, sent, strict=True)])
        for rank in range(3):
            held[(rank + 1) % 3][numbers[rank]] = sent[rank]
        expected.append([chunk_text(values) for values in held])
    assert [row[1:] for row in table_rows(root, "## 3. The second half")] == expected
