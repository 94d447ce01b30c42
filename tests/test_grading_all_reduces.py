"""The checks of all-reduces by a tree, by halving and doubling, and on a grid: wrong messages, the exercise's text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch

from distlib import CallSite, Message, SimulatedWorld, Trace, collectives
from distlib.grading import CheckFailed, check_grid_all_reduce, check_tree_all_reduce
from distlib.grading.algorithm_causes import algorithm_cause
from distlib.grading.all_reduce_specification import AllReduceSpecification
from distlib.grading.case import Case, expected_values, rank_input
from distlib.grading.grid_traffic import explain_grid_traffic
from distlib.grading.halving_traffic import explain_halving_traffic
from distlib.grading.rank_side import Outcome
from distlib.grading.seen import Seen
from distlib.grading.tree_traffic import explain_tree_traffic
from distlib.network import traffic

pytestmark = pytest.mark.timeout(120)

Sent = list[tuple[int, int, int, int]]  # src, dst, elements, round
TREE = AllReduceSpecification(steps=lambda n: (n - 1).bit_length())
COUNTS = {2: [2, 2], 3: [3, 2, 1], 4: [4] * 4, 6: [5, 5, 4, 4, 1, 1], 8: [6] * 8}
HALVING = AllReduceSpecification(COUNTS.__getitem__, {2: 2, 3: 4, 4: 4, 6: 6, 8: 6}.__getitem__)
GRID = AllReduceSpecification(
    lambda rows, columns: (2 * (columns - 1), 2 * (rows - 1)), lambda rows, columns: 2 * (columns - 1) + 2 * (rows - 1)
)


def case_of(algorithm: str, world_size: int, length: int = 8, columns: int | None = None, seed: int = 1) -> Case:
    return Case(
        "f", "all_reduce", world_size, length, torch.float32, "contiguous", seed, algorithm=algorithm, columns=columns
    )


def as_students(trace: Trace) -> Trace:
    """The same messages, sent by lines of a student."""
    site = CallSite("cell 5, line 3", "f", "cell.py", 3)
    fields = ("src", "dst", "tag", "nbytes", "dtype", "shape", "start", "taken", "end", "round")
    messages = [Message(*(getattr(m, name) for name in fields), site, site) for m in trace]
    return Trace(trace.world_size, messages)


def trace_of(sent: Sent, world_size: int) -> Trace:
    """A trace of messages of float32, sent in this order."""
    site = CallSite("cell 5, line 3", "f", "cell.py", 3)
    messages = [
        Message(src, dst, 0, 4 * elements, "float32", (elements,), number, number, number, round_, site, site)
        for number, (src, dst, elements, round_) in enumerate(sent)
    ]
    return Trace(world_size, messages)


def trace_of_run(function: Callable[..., Any], world_size: int, length: int, **options: Any) -> Trace:
    world = SimulatedWorld(world_size)
    world.run(lambda comm: function(comm, torch.zeros(length), **options))
    return as_students(world.trace)


def told(remark: Any) -> str:
    return f"{remark.seen} {' '.join(remark.details)} {remark.cause}" if remark else ""


def on_tree(sent: Sent, size: int = 4) -> str:
    return told(explain_tree_traffic(case_of("tree", size), trace_of(sent, size), TREE))


def on_halving(sent: Sent, size: int = 4, length: int = 8) -> str:
    return told(explain_halving_traffic(case_of("halving_doubling", size, length), trace_of(sent, size), HALVING))


def on_grid(sent: Sent, size: int = 4, columns: int = 2, length: int = 8) -> str:
    return told(explain_grid_traffic(case_of("grid", size, length, columns), trace_of(sent, size), GRID))


# ── the library's own algorithms are right ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13, 16])
@pytest.mark.parametrize("length", [0, 1, 16])
def test_the_librarys_tree_is_a_tree(size: int, length: int) -> None:
    trace = trace_of_run(collectives.tree_all_reduce, size, length)
    assert told(explain_tree_traffic(case_of("tree", size, length), trace, TREE)) == ""


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("length", [0, 3, 16, 29])
def test_the_librarys_halving_and_doubling_is_right_on_powers_of_two(size: int, length: int) -> None:
    trace = trace_of_run(collectives.halving_doubling_all_reduce, size, length)
    assert told(explain_halving_traffic(case_of("halving_doubling", size, length), trace, HALVING)) == ""
    assert trace.messages_sent == COUNTS[size]


def test_the_library_folds_other_ranks_than_the_exercise() -> None:
    trace = trace_of_run(collectives.halving_doubling_all_reduce, 6, 16)
    remark = told(explain_halving_traffic(case_of("halving_doubling", 6, 16), trace, HALVING))
    assert "you leave out different ranks than the exercise does. Here ranks 4 and up" in remark


@pytest.mark.parametrize(("size", "columns"), [(1, 1), (4, 2), (6, 3), (6, 2), (5, 1), (5, 5), (12, 4)])
@pytest.mark.parametrize("length", [0, 3, 24, 31])
def test_the_librarys_grid_is_a_grid(size: int, columns: int, length: int) -> None:
    trace = trace_of_run(collectives.grid_all_reduce, size, length, columns=columns)
    assert told(explain_grid_traffic(case_of("grid", size, length, columns), trace, GRID)) == ""
    assert trace.bytes_sent == traffic.grid_all_reduce(size, length, 4, columns).nbytes


# ── wrong messages ───────────────────────────────────────────────────────────────────────────────────────────────────

UP = [(1, 0, 8, 1), (3, 2, 8, 1), (2, 0, 8, 2)]
DOWN = [(0, 2, 8, 3), (0, 1, 8, 3), (2, 3, 8, 4)]
DOWN_LATER = [(0, 2, 8, 4), (0, 1, 8, 4), (2, 3, 8, 5)]


@pytest.mark.parametrize(
    ("sent", "remark"),
    [
        ([], "no message was seen; 6 messages were expected"),
        (UP, "there were 3 messages; 6 were expected: one up and one down"),
        ([*UP, *DOWN, (0, 1, 8, 3)], "rank 0 sends to rank 1 more than once"),
        ([*UP[:2], (2, 0, 4, 2), *DOWN], "a message carries 4 float32; each should carry the whole tensor"),
        ([(a, b, 8, 1) for a in range(4) for b in range(4) if a != b], "every rank sends to every other rank"),
        ([(a, a ^ d, 8, d) for d in (1, 2) for a in range(4)], "exchanges its whole tensor with a partner"),
        ([(r, 0, 8, 1) for r in (1, 2, 3)] + [(0, r, 8, 2) for r in (1, 2, 3)], "that is the master of naive_all"),
        ([*UP, (0, 1, 8, 3), (0, 2, 8, 3), (0, 3, 8, 3)], "rank 0 sends to everybody itself"),
        ([*UP, (0, 1, 8, 3), (0, 2, 8, 3), (2, 3, 8, 4)], "sends first to the rank that has least to pass on"),
        ([(3, 2, 8, 1), (2, 1, 8, 2), (1, 0, 8, 3), *DOWN_LATER], "the way up to rank 0 takes 3 steps; at most 2"),
        ([(1, 0, 8, 1), (3, 2, 8, 1), (0, 2, 8, 2), (2, 0, 8, 3), (2, 3, 8, 3), (0, 1, 8, 4)], "rank 2 is at the top"),
        ([*UP, (0, 2, 8, 3), (0, 1, 8, 3), (2, 1, 8, 4)], "rank 1 receives 2 messages after the sum is complete"),
    ],
)
def test_what_is_said_of_a_tree(sent: Sent, remark: str) -> None:
    assert on_tree([*UP, *DOWN]) == ""
    assert remark in on_tree(sent)


PAIRS = [(r, r ^ d, n, k) for k, (d, n) in enumerate([(2, 4), (1, 2), (1, 2), (2, 4)], 1) for r in range(4)]
NEAR = [(r, r ^ d, n, k) for k, (d, n) in enumerate([(1, 4), (2, 2), (2, 2), (1, 4)], 1) for r in range(4)]
ODD = [(r, r ^ 1, (5, 4)[r if k == 2 else 1 - r], k) for k in (1, 2) for r in range(2)]


@pytest.mark.parametrize(
    ("sent", "remark"),
    [
        ([], "no message was seen; 16 messages were expected"),
        (PAIRS[:-4], "rank 0 sent 3 messages; 4 were expected"),
        ([*PAIRS, (0, 1, 2, 5)], "rank 0 sent 5 messages; 4 were expected"),
        ([(r, r ^ d, 8, k) for k, d in enumerate((1, 2), 1) for r in range(4)], "whole tensors travel, as in a tree"),
        ([(r, (r + 1) % 4, 2, k) for k in range(1, 7) for r in range(4)], "every message carries one chunk, as in a"),
        ([(r, r ^ 1, n, k) for k, n in enumerate((2, 4, 4, 2), 1) for r in range(4)], "1/2 of the tensor, in step 1"),
        ([(r, r ^ 1, n, k) for k, n in enumerate((2, 4), 1) for r in range(4)], "the doubling comes first"),
        ([(a, b, n, 3 if k > 3 else k) for a, b, n, k in PAIRS], "they took 3 rounds; 4 were expected"),
        ([(a, b, n, 2 * k) for a, b, n, k in PAIRS], "one rank of a pair receives first"),
        ([(a, (a + 2 // k) % 4 if k < 3 else b, n, k) for a, b, n, k in PAIRS], "Two ranks should exchange"),
    ],
)
def test_what_is_said_of_halving_and_doubling(sent: Sent, remark: str) -> None:
    assert on_halving(PAIRS) == on_halving(NEAR) == ""
    assert remark in on_halving(sent)


def test_halves_of_an_odd_number_of_elements() -> None:
    assert on_halving([(0, 1, 4, 1), (1, 0, 5, 1), (0, 1, 5, 2), (1, 0, 4, 2)], size=2, length=9) == ""
    assert "is one of them padded" in on_halving([(r, 1 - r, 5, k) for k in (1, 2) for r in range(2)], 2, 9)


def test_ranks_beyond_a_power_of_two_hand_in_whole_tensors() -> None:
    inner = [(r, 1 - r, 4, k) for k in (2, 3) for r in range(2)]
    assert on_halving([(2, 0, 8, 1), *inner, (0, 2, 8, 4)], size=3) == ""
    assert "they took 3 rounds; 4 were expected" in on_halving([(2, 0, 8, 1), *inner, (0, 2, 8, 3)], size=3)
    assert "send their whole tensor" in on_halving([(2, 0, 4, 1), *inner, (0, 2, 8, 4)], size=3)
    assert "3 is not a power of two" in on_halving([(2, 0, 8, 1), (2, 1, 8, 1), *inner, (0, 2, 8, 4)], size=3)


ROWS, COLUMNS = (1, 0, 3, 2), (2, 3, 0, 1)  # the neighbors on a grid of 2 rows and 2 columns
SQUARE = [
    (r, (COLUMNS if n == 2 else ROWS)[r], n, k) for k, n in enumerate((4, 2, 2, 4), 1) for r in range(4)
]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "remark"),
    [
        ([], "no message was seen; 16 messages were expected"),
        (SQUARE[:-4], "along its row rank 0 sent 1 message; 2 were expected"),
        ([*SQUARE, *((r, COLUMNS[r], 2, 5) for r in range(4))], "along its column rank 0 sent 3 messages; 2 were"),
        ([*SQUARE[:-1], (3, 0, 4, 4)], "rank 3 sent to rank 0: neither in its row nor in its column"),
        ([(r, (r + 1) % 4, 2, k) for k in range(1, 7) for r in range(4)], "that is one ring through all ranks"),
        ([(r, COLUMNS[r], n, k) if n == 4 else (r, ROWS[r], n, k) for r, _, n, k in SQUARE], "begin with the columns"),
        ([(a, b, 4, k) for a, b, _, k in SQUARE], "Cut it once more, into one piece for each row"),
        ([(a, b, 8 if n == 4 else n, k) for a, b, n, k in SQUARE], "the whole tensor travels along the row"),
        ([(a, b, 4, (k if n == 4 else k + 5)) for a, b, n, k in SQUARE], "whole tensors are summed up along the col"),
        ([(a, b, n, 2 * k) for a, b, n, k in SQUARE], "they took 8 rounds; 4 were expected"),
        ([(a, b, n, min(k, 3)) for a, b, n, k in SQUARE], "a chunk has to visit every rank of the row"),
    ],
)
def test_what_is_said_of_a_grid(sent: Sent, remark: str) -> None:
    assert on_grid(SQUARE) == ""
    assert remark in on_grid(sent)


def test_a_row_in_which_chunks_go_straight_to_their_owner() -> None:
    straight = [(r, (r + d) % 3, 3, k) for k, d in enumerate((1, 2, 1, 2), 1) for r in range(3)]
    assert "along its row rank 0 sent to ranks 1 and 2" in on_grid(straight, size=3, columns=3, length=9)


def test_messages_of_the_library_do_not_count() -> None:
    with pytest.raises(CheckFailed, match="is a function of"):
        check_tree_all_reduce(
            collectives.tree_all_reduce, world_sizes=(2,), lengths=(4,), steps=lambda n: (n - 1).bit_length()
        )


# ── wrong values ─────────────────────────────────────────────────────────────────────────────────────────────────────


def cause_of(algorithm: str, size: int, change: Callable[..., torch.Tensor], **options: Any) -> str:
    """The cause when rank r ends with `change(r, expected, inputs)`."""
    case = case_of(algorithm, size, **options)
    inputs = [rank_input(case, rank) for rank in range(size)]
    outcomes = [
        Outcome(change(rank, expected_values(case).clone(), inputs), None, "NoneType", None, False)
        for rank in range(size)
    ]
    return algorithm_cause(Seen(case, outcomes, num_messages=4, in_chunks=algorithm != "tree"))


@pytest.mark.parametrize(
    ("algorithm", "size", "change", "cause"),
    [
        ("tree", 3, lambda r, e, i: e if r == 0 else i[r], "rank 0 has the sum, but it never arrived at ranks 1 and 2"),
        ("tree", 3, lambda r, e, i: e if r < 2 else i[r], "it never arrived at rank 2. On the way down"),
        ("tree", 3, lambda r, e, i: e if r < 2 else e + i[r], "the sum counts rank 2 more than once"),
        ("tree", 3, lambda r, e, i: e - i[1], "the sum lacks the values of rank 1. Does a rank send up"),
        ("tree", 3, lambda r, e, i: e * 0, "it is zero"),
        ("tree", 3, lambda r, e, i: e + 77.75, "no mistake known here"),
        ("halving_doubling", 3, lambda r, e, i: e - i[2], "Before the first step, ranks 2 and up"),
        ("halving_doubling", 3, lambda r, e, i: i[r] if r == 2 else e, "the sum has not come to rank 2"),
        ("halving_doubling", 4, lambda r, e, i: i[2], "these are the values of rank 2 alone"),
        ("grid", 4, lambda r, e, i: i[r // 2 * 2] + i[r // 2 * 2 + 1], "this is the sum of its row only"),
        ("grid", 4, lambda r, e, i: i[r % 2] + i[r % 2 + 2], "this is the sum of its column only"),
    ],
)
def test_the_cause_of_wrong_values(algorithm: str, size: int, change: Callable[..., Any], cause: str) -> None:
    assert cause in cause_of(algorithm, size, change, columns=2 if algorithm == "grid" else None)


def test_values_of_one_rank_are_not_called_the_maximum_when_they_happen_to_be_the_largest() -> None:
    def happen_to_be(seed: int) -> bool:
        first, second = (rank_input(case_of("halving_doubling", 2, 2, seed=seed), rank) for rank in range(2))
        return bool(first[1] > second[1] and second[0] > first[0])

    def not_doubled(rank: int, expected: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor:
        expected[1 - rank] = inputs[rank][1 - rank]
        return expected

    seed = next(seed for seed in range(100) if happen_to_be(seed))
    told = cause_of("halving_doubling", 2, not_doubled, length=2, seed=seed)
    assert "halving is done. Doubling" in told


# ── cases and arguments ──────────────────────────────────────────────────────────────────────────────────────────────


def test_how_the_tensor_is_cut() -> None:
    assert case_of("halving_doubling", 6, 10).chunk_lengths == [3, 3, 2, 2]
    assert case_of("halving_doubling", 8, 8).chunk_lengths == [1] * 8
    assert case_of("grid", 6, 10, columns=3).chunk_lengths == [4, 3, 3]
    assert case_of("grid", 6, 10, columns=3).rows == 2
    assert case_of("grid", 6, 10, columns=3).title == "f on 6 ranks in 2 rows of 3, 10 float32"


@pytest.mark.parametrize("changes", [{"layouts": ("nothing",)}, {"helpers": ("nothing",)}])
def test_a_test_cell_that_asks_for_what_is_not_there(changes: dict[str, Any]) -> None:
    options: dict[str, Any] = dict(grids=((1, 1),), lengths=(1,), messages=GRID.messages, rounds=GRID.rounds)
    with pytest.raises(ValueError, match="nothing"):
        check_grid_all_reduce(lambda comm, tensor, columns: None, **options, **changes)


def test_a_function_without_columns_is_refused() -> None:
    options: dict[str, Any] = dict(grids=((1, 1),), lengths=(1,), messages=GRID.messages, rounds=GRID.rounds)
    with pytest.raises(CheckFailed, match=r"can't be called with \(comm, tensor, columns=1\)"):
        check_grid_all_reduce(lambda comm, tensor, number: None, **options)
    report = check_grid_all_reduce(lambda comm, tensor, columns: None, **options)
    assert "columns" in str(report)
    assert report.trace(world_size=1, length=1, columns=1).rounds == 0
    with pytest.raises(KeyError):
        report.trace(world_size=1, length=1, columns=2)


# ── the exercise's text ──────────────────────────────────────────────────────────────────────────────────────────────


def table_rows(root: Path, heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the exercise, without the first column."""
    notebook = jupytext.read(root / "solutions" / "03_trees_and_grids" / "03_trees_and_grids.py")
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
    rows = table_rows(root, "## 2.")
    halved = [[a + b for a, b in zip(START[r], START[r ^ 2], strict=True)] for r in range(4)]
    expected = [
        START,
        [only(halved[r], range(r // 2 * 2, r // 2 * 2 + 2)) for r in range(4)],
        [only(SUM, range(r, r + 1)) for r in range(4)],
        [only(SUM, range(r // 2 * 2, r // 2 * 2 + 2)) for r in range(4)],
        [SUM] * 4,
    ]
    assert rows == [shown(row) for row in expected]


def test_the_table_of_the_grid(root: Path) -> None:
    in_rows = [[a + b for a, b in zip(START[r], START[r ^ 1], strict=True)] for r in range(4)]
    chunk = [range(r % 2 * 2, r % 2 * 2 + 2) for r in range(4)]
    expected = [
        START,
        [only(in_rows[r], chunk[r]) for r in range(4)],
        [only(SUM, chunk[r]) for r in range(4)],
        [SUM] * 4,
    ]
    assert table_rows(root, "## 3.") == [shown(row) for row in expected]
