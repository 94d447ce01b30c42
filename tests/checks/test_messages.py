"""The checks of shift, broadcast, scatter, gather and reduce: steps of trees, odd options, the exercises' tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch

from distlib import CallSite, Cluster, Link, Message, SimulatedWorld, Trace
from distlib.checks import CheckFailed
from distlib.checks.rules.steps import broadcast_steps, reduce_steps
from distlib.checks.venues import simulated_only
from distlib.exercises.messages.checks import check_broadcast, check_gather, check_scatter, check_shift

Sent = list[tuple[int, int, int]]  # src, dst, round


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
        ([(1, 0, 1), (2, 0, 1), (3, 0, 1)], 4, 3),
        ([(1, 0, 1), (3, 2, 1), (2, 0, 2)], 4, 2),
        ([(3, 2, 1), (2, 1, 2), (1, 0, 3)], 4, 3),
        ([(3, 1, 1), (4, 1, 1), (2, 0, 1), (1, 0, 2)], 5, 3),
    ],
)
def test_steps_of_a_reduce(sent: Sent, size: int, steps: int) -> None:
    site = CallSite("cell 5, line 3", "f", "cell.py", 3, None)
    messages = [
        Message(src, dst, 0, 4, "float32", (1,), number, number, number, round_, site, site)
        for number, (src, dst, round_) in enumerate(sent)
    ]
    assert reduce_steps(Trace(size, messages)) == steps


# ── functions, roots and results ─────────────────────────────────────────────────────────────────────────────────────

STAR = dict(messages=lambda n: [0] * n, rounds=lambda n: 1, roots=(0,))


def remark(check: Callable[..., Any], function: Callable[..., Any], **options: Any) -> str:
    with simulated_only(), pytest.raises(CheckFailed) as caught:
        check(function, **options)
    return " ".join(str(caught.value).split())


def test_a_function_without_a_root_is_refused() -> None:
    options = dict(world_sizes=(1,), lengths=(1,), roots=(0,), steps=lambda n: 0)
    assert "can't be called with (comm, tensor, root=0)" in remark(
        check_broadcast, lambda comm, tensor: None, **options
    )


def test_roots_that_a_world_does_not_have_are_left_out() -> None:
    with simulated_only():
        report = check_broadcast(
            lambda comm, tensor, root: None, world_sizes=(1,), lengths=(2, 0), roots=(0, 1, 2), steps=lambda n: 0
        )
    assert [passed.facts.root for passed in report] == [0, 0]
    assert "root" in str(report)


@pytest.mark.parametrize(
    ("check", "result", "words"),
    [
        (check_gather, "a word", "rank 0 returned a value of type str; expected a list of tensors"),
        (check_gather, (torch.zeros(3),), "rank 0 returned a value of type tuple; expected a list of tensors"),
        (check_gather, [torch.zeros(3)] * 2, "returned a list of 2 tensors; expected 1"),
        (check_scatter, 7, "rank 0 returned a value of type int; expected a tensor"),
        (check_scatter, object(), "rank 0 returned a value of type object; expected a tensor"),
        (check_scatter, torch.ones(3, dtype=torch.float64), "needs the right dtype"),
    ],
)
def test_what_a_function_returns_is_compared(check: Callable[..., Any], result: Any, words: str) -> None:
    assert words in remark(check, lambda comm, tensor, root: result, world_sizes=(1,), lengths=(3,), **STAR)


def test_writing_next_to_the_tensor_is_seen() -> None:
    def stray(comm: Any, tensor: torch.Tensor) -> None:
        torch.as_strided(tensor, (1,), (1,), 0).fill_(7)

    options = dict(lengths=(3,), layouts=("strided",), messages=lambda n: [0], rounds=lambda n: 1)
    assert "wrote into memory" in remark(check_shift, stray, world_sizes=(1,), **options)


# ── the exercise's text ──────────────────────────────────────────────────────────────────────────────────────────────


def table_rows(root: Path, heading: str, exercise: str = "01_messages") -> list[list[str]]:
    """The rows of the table below a heading of the exercise, without the first column."""
    notebook = jupytext.read(root / "solutions" / exercise / f"{exercise}.py")
    (text,) = [cell.source for cell in notebook.cells if cell.source.startswith(heading)]
    lines = [line for line in text.replace("`", "").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines[2:]]


def test_the_table_of_the_shift(root: Path) -> None:
    start = [[1, 2], [10, 20], [100, 200]]
    assert table_rows(root, "## 1.") == [[str(v) for v in start], [str(start[rank - 1]) for rank in range(3)]]


def test_the_table_of_the_scatter(root: Path) -> None:
    chunks = [chunk.tolist() for chunk in torch.tensor_split(torch.tensor([1, 2, 3, 4]), 3)]
    rows = table_rows(root, "## 1.", "01b_messages_closer")
    assert rows[0] == ["[1, 2, 3, 4]", "[0, 0, 0, 0]", "[0, 0, 0, 0]"]
    assert rows[1] == [f"{chunks[1]} to rank 1, {chunks[2]} to rank 2", "nothing", "nothing"]
    assert rows[2] == [str(chunk) for chunk in chunks]


def test_the_table_of_the_reduce(root: Path) -> None:
    held, rows = [1, 10, 100, 1000], table_rows(root, "## 3.")
    assert rows[0] == ["", *map(str, held)]
    for row in rows[1:]:
        for pair in row[0].split(", "):
            src, dst = map(int, pair.split(" → "))
            held[dst] += held[src]
        assert row[1:] == [str(value) for value in held]
