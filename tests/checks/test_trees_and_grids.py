"""Exercises 03 and 03b: what its answers do not show. Edge cases of messages, tables of
the text, questions without answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch

from distlib import CallSite, Cluster, Link, Message, SimulatedWorld, Trace, all_reduce, collectives, network
from distlib.checks import CheckFailed
from distlib.checks.seen import Played, Seen
from distlib.checks.task import Draw, Task, first
from distlib.checks.tensor_cases import expected_on
from distlib.checks.venues import simulated_only
from distlib.exercises.trees_and_grids.checks import (
    check_grid_all_reduce,
    check_halving_doubling_all_reduce,
    check_tree_all_reduce,
)
from distlib.exercises.trees_and_grids.helpers import predict_time
from distlib.exercises.trees_and_grids.predictions import (
    PREDICTED,
    CostQuestion,
    check_choose_algorithm,
    check_predict_time,
    latency_of,
    readable,
    steps_of,
    travel_of,
)
from tests.heard import tells

Sent = Sequence[tuple[int, int, int, int]]  # src, dst, elements, round


def judged(check: Task, trace: Trace, **cases: Any) -> str:
    """What is said of a run of the first case with right values and these messages."""
    case = next(iter(check.cases(Draw(1), **cases)))
    played = [
        Played({"values": expected_on(case.facts, rank), "returned": None, "is_other": False, "moved": None,
                "reformed": None, "strayed": False})
        for rank in range(case.world_size)
    ]  # fmt: skip
    remark = first(check._judge(Seen(case, played, trace, True)))
    return f"{remark.seen} {' '.join(remark.details)} {remark.cause}" if remark else ""


def trace_of(sent: Sent, size: int) -> Trace:
    """A trace of messages of float32, sent in this order."""
    site = CallSite("cell 5, line 3", "f", "cell.py", 3)
    return Trace(size, [
        Message(src, dst, 0, 4 * elements, "float32", (elements,), number, number, number, round_, site, site)
        for number, (src, dst, elements, round_) in enumerate(sent)
    ])  # fmt: skip


def on_tree(sent: Sent, size: int = 4) -> str:
    return judged(check_tree_all_reduce, trace_of(sent, size), world_sizes=[size], lengths=[8])


def on_halving(sent: Sent, size: int = 4, length: int = 8) -> str:
    return judged(check_halving_doubling_all_reduce, trace_of(sent, size), world_sizes=[size], lengths=[length])


def on_grid(sent: Sent, rows: int = 2, columns: int = 2, length: int = 8) -> str:
    return judged(check_grid_all_reduce, trace_of(sent, rows * columns), grids=[(rows, columns)], lengths=[length])


def library(function: Callable[..., Any], size: int, length: int, **options: Any) -> Trace:
    world = SimulatedWorld(size)
    world.run(lambda comm: function(comm, torch.zeros(length), **options))
    return world.trace


# ── the library's own algorithms are right ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [0, 1, 16])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_the_librarys_tree_is_a_tree(size: int, length: int) -> None:
    trace = library(collectives.tree_all_reduce, size, length)
    assert judged(check_tree_all_reduce, trace, world_sizes=[size], lengths=[length]) == ""


@pytest.mark.parametrize("length", [0, 3, 29])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_librarys_halving_and_doubling_is_right_on_powers_of_two(size: int, length: int) -> None:
    trace = library(collectives.halving_doubling_all_reduce, size, length)
    assert judged(check_halving_doubling_all_reduce, trace, world_sizes=[size], lengths=[length]) == ""


def test_the_library_folds_other_ranks_than_the_exercise() -> None:
    trace = library(collectives.halving_doubling_all_reduce, 6, 16)
    remark = judged(check_halving_doubling_all_reduce, trace, world_sizes=[6], lengths=[16])
    assert "you leave out different ranks than the exercise does. Here ranks 4 and up" in remark


@pytest.mark.parametrize("length", [0, 3, 31])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 3), (3, 2), (5, 1), (1, 5), (3, 4)])
def test_the_librarys_grid_is_a_grid(rows: int, columns: int, length: int) -> None:
    trace = library(collectives.grid_all_reduce, rows * columns, length, columns=columns)
    assert judged(check_grid_all_reduce, trace, grids=[(rows, columns)], lengths=[length]) == ""


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

UP = [(1, 0, 8, 1), (3, 2, 8, 1), (2, 0, 8, 2)]
DOWN = [(0, 2, 8, 3), (0, 1, 8, 3), (2, 3, 8, 4)]


@pytest.mark.parametrize(
    ("sent", "remark"),
    [
        ([], "no message was seen; 6 messages were expected"),
        (UP, "there were 3 messages; 6 were expected: one up and one down"),
        ([*UP, *DOWN, (0, 1, 8, 3)], "rank 0 sends to rank 1 more than once"),
        ([(a, a ^ d, 8, d) for d in (1, 2) for a in range(4)], "a rank sends its sum up once"),
        ([(1, 0, 8, 1), (3, 2, 8, 1), (0, 2, 8, 2), (2, 0, 8, 3), (2, 3, 8, 3), (0, 1, 8, 4)], "rank 2 is at the top"),
    ],
)
def test_what_is_said_of_a_tree(sent: Sent, remark: str) -> None:
    assert on_tree([*UP, *DOWN]) == ""
    assert remark in on_tree(sent)


def test_a_sum_that_comes_down_twice() -> None:
    remark = on_tree([*UP, (0, 2, 8, 3), (0, 1, 8, 3), (2, 1, 8, 4)])
    assert tells(remark, "trees_and_grids/checks.txt: received_after_the_sum")
    assert tells(remark, "trees_and_grids/checks.txt: no_tree")


PAIRS = [(r, r ^ d, n, k) for k, (d, n) in enumerate([(2, 4), (1, 2), (1, 2), (2, 4)], 1) for r in range(4)]
NEAR = [(r, r ^ d, n, k) for k, (d, n) in enumerate([(1, 4), (2, 2), (2, 2), (1, 4)], 1) for r in range(4)]


@pytest.mark.parametrize(
    ("sent", "remark"),
    [
        ([], "no message was seen; 16 messages were expected"),
        (PAIRS[:-4], "rank 0 sent 3 messages; 4 were expected"),
        ([*PAIRS, (0, 1, 2, 5)], "rank 0 sent 5 messages; 4 were expected"),
        ([(r, r ^ 1, n, k) for k, n in enumerate((2, 4, 4, 2), 1) for r in range(4)], "1/2 of the tensor, in step 1"),
        ([(a, b, n, 3 if k > 3 else k) for a, b, n, k in PAIRS], "they took 3 rounds; 4 were expected"),
        ([(a, (a + 2 // k) % 4 if k < 3 else b, n, k) for a, b, n, k in PAIRS], "Two ranks should exchange"),
    ],
)
def test_what_is_said_of_halving_and_doubling(sent: Sent, remark: str) -> None:
    assert on_halving(PAIRS) == on_halving(NEAR) == ""
    assert remark in on_halving(sent)


def test_doubling_before_halving() -> None:
    remark = on_halving([(r, r ^ 1, n, k) for k, n in enumerate((2, 4), 1) for r in range(4)])
    assert tells(remark, "trees_and_grids/checks.txt: doubling_first")


def test_halves_of_an_odd_number_of_elements() -> None:
    assert on_halving([(0, 1, 4, 1), (1, 0, 5, 1), (0, 1, 5, 2), (1, 0, 4, 2)], size=2, length=9) == ""
    assert "is one of them padded" in on_halving([(r, 1 - r, 5, k) for k in (1, 2) for r in range(2)], 2, 9)


def test_ranks_beyond_a_power_of_two_hand_in_whole_tensors() -> None:
    inner = [(r, 1 - r, 4, k) for k in (2, 3) for r in range(2)]
    assert on_halving([(2, 0, 8, 1), *inner, (0, 2, 8, 4)], size=3) == ""
    assert "they took 3 rounds; 4 were expected" in on_halving([(2, 0, 8, 1), *inner, (0, 2, 8, 3)], size=3)
    assert "send their whole tensor" in on_halving([(2, 0, 4, 1), *inner, (0, 2, 8, 4)], size=3)
    assert "rank 2 sent 2 messages; 1 was expected" in on_halving(
        [(2, 0, 8, 1), (2, 1, 8, 1), *inner, (0, 2, 8, 4)], size=3
    )


ROWS, COLUMNS = (1, 0, 3, 2), (2, 3, 0, 1)  # the neighbors on a grid of 2 rows and 2 columns
SQUARE = [(r, (COLUMNS if n == 2 else ROWS)[r], n, k) for k, n in enumerate((4, 2, 2, 4), 1) for r in range(4)]


@pytest.mark.parametrize(
    ("sent", "remark"),
    [
        ([], "no message was seen; 16 messages were expected"),
        (SQUARE[:-4], "along its row rank 0 sent 1 message; 2 were expected"),
        ([*SQUARE, *((r, COLUMNS[r], 2, 5) for r in range(4))], "along its column rank 0 sent 3 messages; 2 were"),
        ([*SQUARE[:-1], (3, 0, 4, 4)], "rank 3 sent to rank 0; that is neither in its row nor in its column"),
        ([(a, b, 8 if n == 4 else n, k) for a, b, n, k in SQUARE], "the whole tensor travels along the row"),
        ([(a, b, n, min(k, 3)) for a, b, n, k in SQUARE], "they took 3 rounds; 4 were expected"),
    ],
)
def test_what_is_said_of_a_grid(sent: Sent, remark: str) -> None:
    assert on_grid(SQUARE) == ""
    assert remark in on_grid(sent)


def test_the_halves_of_a_row_may_go_different_ways() -> None:
    def row(ways: Sequence[int]) -> list[tuple[int, int, int, int]]:
        return [(r, (r + way) % 3, 3, k) for k, way in enumerate(ways, 1) for r in range(3)]

    assert on_grid(row((1, 1, 1, 1)), 1, 3, 9) == on_grid(row((1, 1, 2, 2)), 1, 3, 9) == ""
    assert "along its row rank 0 sent to ranks 1 and 2" in on_grid(row((1, 2, 1, 2)), 1, 3, 9)


# ── test cells that ask for what is not there ────────────────────────────────────────────────────────────────────────


def test_a_test_cell_that_asks_for_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="nothing"):
        check_grid_all_reduce(lambda comm, tensor, columns: None, grids=[(1, 1)], lengths=[1], layouts=("nothing",))


def test_a_function_without_columns_is_refused() -> None:
    with pytest.raises(CheckFailed, match=r"can't be called with \(comm, tensor, columns=1\)"):
        check_grid_all_reduce(lambda comm, tensor, number: None, grids=[(1, 1)], lengths=[1])


# ── predictions ──────────────────────────────────────────────────────────────────────────────────────────────────────

SLOW, FAST = Link(latency=5e-6, bandwidth=12.5e9), Link(latency=1e-6, bandwidth=200e9)
ONE = Cluster.flat(6, SLOW)
CLUSTERS = [
    *(Cluster.flat(ranks, SLOW) for ranks in (1, 2, 3, 6, 8, 13)),
    *(Cluster(nodes, ranks, FAST, SLOW) for nodes, ranks in ((2, 4), (4, 1), (4, 8), (8, 2))),
]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
@pytest.mark.parametrize("algorithm", PREDICTED)
@pytest.mark.parametrize("factor", [0, 8, 100_000])
def test_steps_closed_form_and_simulation_agree(algorithm: str, cluster: Cluster, factor: int) -> None:
    world = SimulatedWorld(cluster.world_size, cluster, record=False)
    nbytes = factor * cluster.world_size
    tensor = torch.empty(nbytes, dtype=torch.uint8, device="meta")
    world.run(lambda comm: all_reduce(comm, tensor, algorithm=algorithm))
    steps = steps_of(algorithm, nbytes, cluster)
    for found in (latency_of(steps) + travel_of(steps), predict_time(algorithm, nbytes, cluster)):
        assert math.isclose(found, world.elapsed, rel_tol=1e-9, abs_tol=1e-15)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster": Cluster(3, 2, FAST, SLOW)}, "powers of two of nodes"),
        ({"cluster": Cluster(2, 2, SLOW, FAST)}, "no faster link between nodes"),
        ({"nbytes": 7}, "bytes that divide by 6 ranks, got 7"),
        ({"algorithms": ("naive",)}, "algorithms out of ring, tree"),
    ],
)
def test_questions_without_an_exact_answer(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        CostQuestion(**{"nbytes": 12, "cluster": ONE, "algorithms": ("ring",), **changes})


def in_a_notebook(text: str) -> Callable[..., Any]:
    """The function f of a notebook."""
    names: dict[str, Any] = {"__name__": "__main__", "network": network}
    exec(compile(text, "cell.py", "exec"), names)
    function = names["f"]
    assert callable(function)
    return function


def predicted(returned: str, **options: Any) -> str:
    """What a student reads whose predict_time returns this."""
    asked: dict[str, Any] = {"algorithms": ["ring"], "nbytes": [960], "clusters": [ONE], **options}
    with pytest.raises(CheckFailed) as caught, simulated_only():
        check_predict_time(in_a_notebook(f"def f(algorithm, nbytes, cluster): return {returned}"), **asked)
    return " ".join(str(caught.value).split())


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("True", "it returned a value of type bool"),
        ("'a lot'", "it returned a value of type str"),
        ("float('nan')", "no mistake known here. There are 10 steps"),
        (
            "25.064e-6",
            "expected 5.0128e-05 s, that is 50.128 µs: the time of a simulated run found 2.5064e-05 s, 0.5 times",
        ),
        ("network.choose_all_reduce(cluster, 960, 1).seconds['ring']", "distlib.network.choice.choose_all_reduce"),
    ],
)
def test_what_is_said_of_a_time(returned: str, words: str) -> None:
    assert words in predicted(returned)
    assert words in predicted(returned)  # also when the library remembers the answer


def test_one_rank_takes_no_time() -> None:
    assert "with one rank there is nothing to do" in predicted("cluster.intra.latency", clusters=[CLUSTERS[0]])


@pytest.mark.parametrize("name", ["ring", "hierarchical"])
def test_equally_fast_ones_are_all_right(name: str) -> None:
    choose = in_a_notebook(f"def f(nbytes, cluster, algorithms): return '{name}'")
    with simulated_only():
        report = check_choose_algorithm(choose, choices=[PREDICTED], nbytes=[96_000_000], clusters=[ONE])
    assert report.answers == [name]
    assert str(report).splitlines()[1].split() == ["ranks", "bytes", "algorithms", "answer"]


@pytest.mark.parametrize(("value", "text"), [(0.0, "0 s"), (1.5, "1.5 s"), (2e-3, "2 ms"), (3e-8, "30 ns")])
def test_seconds_in_the_unit_that_fits(value: float, text: str) -> None:
    assert readable(value) == text


# ── the exercise's text ──────────────────────────────────────────────────────────────────────────────────────────────


def table_rows(root: Path, heading: str, exercise: str = "03_trees_and_grids") -> list[list[str]]:
    """The rows of the table below a heading of the exercise, without the first column."""
    notebook = jupytext.read(root / "solutions" / exercise / f"{exercise}.py")
    (text,) = [cell.source for cell in notebook.cells if cell.source.startswith(heading)]
    lines = [line for line in text.replace("`", "").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines[2:]]


START = [[k * 10**rank for k in (1, 2, 3, 4)] for rank in range(4)]
SUM = [1111, 2222, 3333, 4444]


def shown(rows: list[list[Any]]) -> list[str]:
    return ["the sum" if row == SUM else str(row).replace("'", "") for row in rows]


def only(row: list[int], kept: range) -> list[Any]:
    return [value if k in kept else "-" for k, value in enumerate(row)]


def test_the_table_of_the_tree(root: Path) -> None:
    held, rows = [1, 10, 100, 1000], table_rows(root, "## 1.")
    assert rows[0] == ["", *map(str, held)]
    for number, row in enumerate(rows[1:]):
        for pair in row[0].split(", "):
            src, dst = map(int, pair.split(" → "))
            held[dst] = held[dst] + held[src] if number < 2 else held[src]
        assert row[1:] == [str(value) for value in held]
    assert held == [1111] * 4


def test_the_table_of_halving_and_doubling(root: Path) -> None:
    halved = [[a + b for a, b in zip(START[r], START[r ^ 2], strict=True)] for r in range(4)]
    pair = [range(r // 2 * 2, r // 2 * 2 + 2) for r in range(4)]
    expected = [
        START,
        [only(halved[r], pair[r]) for r in range(4)],
        [only(SUM, range(r, r + 1)) for r in range(4)],
        [only(SUM, pair[r]) for r in range(4)],
        [SUM] * 4,
    ]
    assert table_rows(root, "## 2.") == [shown(row) for row in expected]


def test_the_table_of_the_grid(root: Path) -> None:
    in_rows = [[a + b for a, b in zip(START[r], START[r ^ 1], strict=True)] for r in range(4)]
    chunk = [range(r % 2 * 2, r % 2 * 2 + 2) for r in range(4)]
    expected = [
        START,
        [only(in_rows[r], chunk[r]) for r in range(4)],
        [only(SUM, chunk[r]) for r in range(4)],
        [SUM] * 4,
    ]
    assert table_rows(root, "## 1.", "03b_networks") == [shown(row) for row in expected]
