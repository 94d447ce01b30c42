"""The checks, without nbgrader: what each wrong answer is told, and the parts that a check is made of."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import distlib.grading
from distlib import CallSite, Communicator, Message, Trace, World, collectives
from distlib.checks import supplied
from distlib.grading import (
    CheckFailed,
    StudentCommunicator,
    check_all_gather,
    check_all_reduce,
    check_reduce_scatter,
    checks,
    observe,
    scenario_checks,
)
from distlib.grading.case import LAYOUTS, Case, expected_values, lay_out, rank_input
from distlib.grading.rank_side import Outcome
from distlib.grading.seen import Seen, contents
from distlib.grading.specification import Specification
from distlib.grading.traffic import explain_traffic
from distlib.grading.values import explain_values
from tests.answer_files import ASSIGNMENTS, Answer, read_answers

pytestmark = pytest.mark.timeout(120)

ASSIGNMENT = "02_all_reduce"
ANSWERS = [answer for assignment in ASSIGNMENTS for answer in read_answers(assignment)]
RING = dict(
    messages=lambda n: 2 * (n - 1), rounds=lambda n: 2 * (n - 1), carries="chunk", topology="ring", lengths=(8, 10)
)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def cells_of(solution: Path) -> dict[str, str]:
    """The marked cells of an exercise, by name."""
    notebook = jupytext.read(solution)
    marks = ("solution", "test", "readonly")
    return {cell.metadata[mark]: cell.source for cell in notebook.cells for mark in marks if mark in cell.metadata}


@pytest.fixture
def untouched_checks() -> Iterator[None]:
    """Put back what an answer has done to the checks."""
    before = {module: dict(vars(module)) for module in (distlib.grading, checks)}
    yield
    for module, names in before.items():
        vars(module).update(names)


def notebook_with(cells: dict[str, str], answer: Answer) -> dict[str, Any]:
    """The names of a notebook in which the solution cells have run, one of them with the text of `answer`."""
    names: dict[str, Any] = {"__name__": "__main__"}
    setup = ast.parse(cells["setup"])
    setup.body = [node for node in setup.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(setup, "setup.py", "exec"), names)
    for function in {name.removesuffix("_hidden") for name in cells if name.endswith("_hidden")}:
        exec(compile(cells[function], f"{function}.py", "exec"), names)
    exec(compile(answer.text, f"{answer.name}.py", "exec"), names)
    return names


def run_test(cells: dict[str, str], names: dict[str, Any], function: str, kind: str) -> Exception | None:
    """What a test cell raises; None if it passes."""
    try:
        exec(compile(cells[f"{function}_{kind}"], f"{function}_{kind}", "exec"), names)
    except Exception as error:
        return error
    return None


@pytest.mark.usefixtures("untouched_checks")
@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_an_answer_is_told_what_is_wrong_with_it(answer: Answer, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_of(root / "solutions" / answer.assignment / f"{answer.assignment}.py")
    monkeypatch.setattr(checks, "CASE_SECONDS", 2.0)
    monkeypatch.setattr(scenario_checks, "CASE_SECONDS", 4.0)
    names = notebook_with(cells, answer)
    errors = {kind: run_test(cells, names, answer.function, kind) for kind in ("visible", "hidden")}
    assert tuple(kind for kind, error in errors.items() if error) == answer.loses
    if answer.told:
        told = errors[answer.loses[0]]
        assert isinstance(told, CheckFailed)
        assert re.match(rf"{answer.function}( on |\()", str(told))
        assert answer.told in " ".join(str(told).split())
    elif not answer.is_right:
        assert answer.is_alone, "a wrong answer says what its student is told"


# ── what reaches the student ─────────────────────────────────────────────────────────────────────────────────────────


def as_in_a_notebook(text: str) -> dict[str, Any]:
    """The names that a cell defines. Functions of a notebook travel to the ranks by value, those of a file do not."""
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch}
    exec(compile(text, "cell.py", "exec"), names)
    return names


RING_TEXT = """
def ring(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(2 * (size - 1)):
        target = chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(target)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        target.copy_(incoming if step >= size - 1 else target + incoming)
    tensor.copy_(flat.view(tensor.shape))
"""
ring = as_in_a_notebook(RING_TEXT)["ring"]  # a right answer, used in many tests below


def failure(function: Callable[..., object], world_sizes: tuple[int, ...] = (2,), **changes: Any) -> str:
    """What a student is told whose ring is `function`, on one line."""
    with pytest.raises(CheckFailed) as caught:
        check_all_reduce(function, **{**RING, "world_sizes": world_sizes, **changes})
    return " ".join(str(caught.value).split())


def test_a_report_has_the_cases_and_their_messages() -> None:
    report = check_all_reduce(ring, world_sizes=(1, 3), **RING)
    assert len(report) == 4
    assert report.trace(world_size=3, length=10).messages_sent == [4, 4, 4]
    assert sum(report.trace(3, 10).bytes_sent) == 4 * 40
    assert str(report).startswith("ring: right in all 4 cases.\nranks  elements    dtype")
    assert report.summary() == "4 cases, with 1 and 3 ranks"
    with pytest.raises(KeyError, match="no case with 4 ranks and 10 elements"):
        report.trace(4, 10)


def test_a_failure_shows_in_a_notebook_without_a_stack() -> None:
    with pytest.raises(CheckFailed) as caught:
        check_all_reduce(lambda comm, tensor: None, world_sizes=(2,), **RING)
    assert caught.value._render_traceback_() == str(caught.value).splitlines()
    assert isinstance(caught.value, AssertionError)
    assert max(map(len, str(caught.value).splitlines())) <= 100


def test_a_check_stops_at_the_first_case_that_fails() -> None:
    told = failure(lambda comm, tensor: ring(comm, tensor) if tensor.numel() == 8 else None, (1, 2))
    assert "on 2 ranks, 10 float32" in told
    assert "Passed before this: 3 cases, with 1 and 2 ranks." in told


def test_prints_and_warnings_come_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    def talkative(comm: StudentCommunicator, tensor: torch.Tensor) -> None:
        import os

        os.write(2, b"from the machine room\n")
        print("to stderr", file=sys.stderr)
        warnings.warn("a warning", stacklevel=1)
        ring(comm, tensor)

    check_all_reduce(talkative, world_sizes=(2,), **RING)
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith("Printed by talkative on 2 ranks, 8 float32:\n[rank ")
    assert all(text in out for text in ("from the machine room", "to stderr", "UserWarning: a warning"))
    assert out.count("Printed by") == 1


def test_what_the_failing_case_printed_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def talkative(comm: StudentCommunicator, tensor: torch.Tensor) -> None:
        print("length", tensor.numel())
        if tensor.numel() == 8:
            ring(comm, tensor)

    failure(talkative)
    out = capsys.readouterr().out
    assert "[rank 0] length 8" in out and "[rank 0] length 10" in out


def test_a_flood_of_prints_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    def flood(comm: StudentCommunicator, tensor: torch.Tensor) -> None:
        while True:
            print("x" * 1000)

    assert "it printed too much and was stopped" in failure(flood)
    assert len(capsys.readouterr().out) < 4_000


def test_a_slow_function_is_stopped_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    def slow(comm: StudentCommunicator, tensor: torch.Tensor) -> None:
        time.sleep(0.4)
        ring(comm, tensor)

    monkeypatch.setattr(checks, "CHECK_SECONDS", 1.0)
    assert "not done after" in failure(slow, (1, 2, 3))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (None, "expected a function of (comm, tensor), got None."),
        (lambda comm: None, "it can't be called with (comm, tensor): too many positional arguments."),
        (lambda comm, tensor, op: None, "it can't be called with (comm, tensor): missing a required argument: 'op'."),
    ],
)
def test_what_is_no_function_of_comm_and_tensor(function: Any, told: str) -> None:
    assert told in failure(function)


def test_a_function_that_can_not_travel() -> None:
    world = World(1)
    assert "can't be sent to the ranks" in failure(lambda comm, tensor: world.run(ring))


# ── simulated and real ranks ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What the checks of a test run: ("real" or "simulated", number of ranks, number of elements)."""
    seen: list[tuple[str, int, int]] = []

    def noted(kind: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def noting(packed: bytes, case: Case, limit: float) -> Any:
            seen.append((kind, case.world_size, case.length))
            return run(packed, case, limit)

        return noting

    monkeypatch.setattr(checks, "observe", noted("real", checks.observe))
    monkeypatch.setattr(checks, "observe_simulated", noted("simulated", checks.observe_simulated))
    return seen


def test_the_first_case_of_each_small_size_runs_on_real_ranks(runs: list[tuple[str, int, int]]) -> None:
    check_all_reduce(ring, world_sizes=(1, 4, 5, 17), **RING)
    assert runs == [
        *(("real", 1, 8), ("simulated", 1, 10)),
        *(("real", 4, 8), ("simulated", 4, 10)),
        *(("simulated", size, length) for size in (5, 17) for length in (8, 10)),
    ]


def test_one_case_at_least_runs_on_real_ranks(runs: list[tuple[str, int, int]]) -> None:
    check_all_reduce(ring, world_sizes=(7, 6), **RING)
    assert [run for run in runs if run[0] == "real"] == [("real", 6, 8)]


def test_what_fails_on_simulated_ranks_is_told_by_real_ones(runs: list[tuple[str, int, int]]) -> None:
    told = failure(lambda comm, tensor: ring(comm, tensor) if tensor.numel() == 8 else print("no"), (2,))
    assert "on rank 0, chunk 0 (elements 0 to 4) is wrong" in told
    assert runs == [("real", 2, 8), ("simulated", 2, 10), ("real", 2, 10)]


SCRATCH_TEXT = """
class Scratch:
    kept = None

def keeps_its_own(comm, tensor):
    Scratch.kept = tensor.clone()
    comm.barrier()
    tensor.copy_(Scratch.kept)
    ring(comm, tensor)
"""


def test_real_ranks_have_the_last_word(runs: list[tuple[str, int, int]]) -> None:
    names = as_in_a_notebook(RING_TEXT + SCRATCH_TEXT)
    report = check_all_reduce(names["keeps_its_own"], world_sizes=(2, 3), **RING)
    assert len(report) == 4
    assert runs == [("real", 2, 8), ("simulated", 2, 10), ("real", 2, 10), ("real", 3, 8), ("real", 3, 10)]


def test_values_that_simulated_ranks_could_share_are_not_there_on_real_ones() -> None:
    def cheat(comm: StudentCommunicator, tensor: torch.Tensor) -> None:
        import string

        board = string.__dict__.setdefault("cheat", {})
        board[comm.rank] = tensor.clone()
        ring(comm, tensor.clone())
        tensor.copy_(sum(board.get(rank, 0) for rank in range(comm.world_size)))

    assert "Passed before this: 2 cases, with 1 rank." in failure(cheat, (1, 2))


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda comm: comm.recv(torch.empty(1), (comm.rank - 1) % comm.world_size), "No rank on this cycle has sent"),
        (
            lambda comm: __import__("os")._exit(3),
            "a rank ended in the middle of the run: its process exited with code 3",
        ),
        (lambda comm: __import__("time").sleep(100), "it did not finish in time"),
        (lambda comm: sys.exit(3) if comm.rank == 5 else comm.barrier(), "rank 5 raised SystemExit: 3"),
        (lambda comm: [0 for _ in iter(int, 1)] if comm.rank == 5 else None, "rank 5 was computing at test_grading.py"),
    ],
)
def test_many_simulated_ranks_in_trouble(
    act: Callable[[Any], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checks, "CASE_SECONDS", 2.0)
        assert told in failure(lambda comm, tensor: act(comm) if comm.world_size == 32 else ring(comm, tensor), (4, 32))
    assert len(check_all_reduce(ring, world_sizes=(32,), **RING)) == 2


def test_checks_of_the_other_two_collectives() -> None:
    phases = {"messages": lambda n: n - 1, "rounds": lambda n: n - 1, "world_sizes": (1, 2, 3), "lengths": (8,)}

    def scatter(comm: Any, tensor: torch.Tensor) -> None:
        rank, size = comm.rank, comm.world_size
        chunks = torch.tensor_split(tensor, size)
        for step in range(size - 1):
            mine = chunks[(rank - 2 - step) % size]
            incoming = torch.empty_like(mine)
            comm.exchange(chunks[(rank - 1 - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
            mine += incoming

    def gather(comm: Any, tensor: torch.Tensor) -> None:
        rank, size = comm.rank, comm.world_size
        chunks = torch.tensor_split(tensor, size)
        for step in range(size - 1):
            going, coming = chunks[(rank - step) % size], chunks[(rank - 1 - step) % size]
            comm.exchange(going, (rank + 1) % size, coming, (rank - 1) % size)

    assert len(check_reduce_scatter(scatter, **phases)) == len(check_all_gather(gather, **phases)) == 3
    with pytest.raises(CheckFailed, match="Chunk k must"):
        check_all_gather(scatter, **phases)
    with pytest.raises(CheckFailed, match="Chunk r of"):
        check_reduce_scatter(gather, **phases)


@pytest.mark.parametrize("name", ["carries", "topology", "layouts", "helpers"])
def test_a_test_cell_that_asks_for_what_is_not_there(name: str) -> None:
    value: Any = ("nothing",) if name in ("layouts", "helpers") else "nothing"
    with pytest.raises(ValueError, match="nothing"):
        check_all_reduce(ring, **{**RING, "world_sizes": (1,), name: value})


def test_ranks_are_reused_and_end_when_told() -> None:
    check_all_reduce(ring, world_sizes=(2,), **RING)
    first = observe._worlds[2]
    check_all_reduce(ring, world_sizes=(2,), **RING)
    assert observe._worlds[2] is first
    observe.close_worlds()
    assert observe._worlds == {}
    check_all_reduce(ring, world_sizes=(2,), **RING)


# ── helpers in the place of other parts ──────────────────────────────────────────────────────────────────────────────


NAMES = ("ring_reduce_scatter", "ring_all_gather")
HALVES_TEXT = """
def ring_reduce_scatter(comm, tensor):
    raise AssertionError("the student's own, which is wrong")

def both_halves(comm, tensor):
    ring_reduce_scatter(comm, tensor)
    ring_all_gather(comm, tensor)  # not written: the check brings it
"""


def test_wrong_or_missing_parts_are_replaced_while_a_check_runs() -> None:
    names = as_in_a_notebook(HALVES_TEXT)
    own = names["ring_reduce_scatter"]
    report = check_all_reduce(names["both_halves"], world_sizes=(3,), helpers=NAMES, **RING)
    assert report.trace(3, 8).rounds == 4
    assert names["ring_reduce_scatter"] is own and "ring_all_gather" not in names
    assert "the student's own, which is wrong" in failure(names["both_halves"])


def test_the_names_come_back_when_a_check_fails() -> None:
    names = as_in_a_notebook(HALVES_TEXT + "    tensor += 1\n")
    own = names["ring_reduce_scatter"]
    assert "is wrong" in failure(names["both_halves"], helpers=NAMES)
    assert names["ring_reduce_scatter"] is own and "ring_all_gather" not in names


def test_a_helper_counts_only_where_it_is_supplied() -> None:
    def uses_helpers(comm: Any, tensor: torch.Tensor) -> None:
        supplied.ring_reduce_scatter(comm, tensor)
        supplied.ring_all_gather(comm, tensor)

    assert len(check_all_reduce(uses_helpers, world_sizes=(2,), helpers=NAMES, **RING)) == 2
    assert "were sent by distlib.checks.supplied.ring_reduce_scatter" in failure(uses_helpers)


# ── the student's communicator ───────────────────────────────────────────────────────────────────────────────────────


def test_the_students_communicator_has_what_is_allowed_and_nothing_else(worlds: Callable[[int], World]) -> None:
    def look(comm: Communicator) -> list[Any]:
        ours = StudentCommunicator(comm)
        found: list[Any] = [ours.rank, ours.world_size, ours.size, str(ours.device), repr(ours)]
        other = 1 - ours.rank
        tensor, received = torch.full((2,), float(ours.rank)), torch.empty(2)
        ours.exchange(tensor, other, received, other)
        if ours.rank == 0:
            ours.send(tensor, 1, tag=3)
            ours.isend(tensor, 1).wait()
        else:
            found.append(ours.recv(torch.empty(2), tag=3))
            found.append(ours.irecv(torch.empty(2)).wait())
        ours.barrier()
        group = ours.split(ours.rank)
        found += [type(group).__name__, group.world_size if group else None, ours.split(None)]
        for name in ("sleep", "time", "all_reduce", "_endpoint"):
            with pytest.raises(AttributeError, match=f"no '{name}'. It has rank, world_size, size, device, send"):
                getattr(ours, name)
        return found

    world = worlds(2)
    zero, one = world.run(look)
    assert zero == [0, 2, 2, "cpu", "<StudentCommunicator: rank 0 of 2>", "StudentCommunicator", 1, None]
    assert one[5:7] == [0, 0]
    assert {message.site.via for message in world.trace} == {None}
    assert {message.site.function for message in world.trace} == {"look"}


# ── cases ────────────────────────────────────────────────────────────────────────────────────────────────────────────

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8)


def case_of(collective: str = "all_reduce", **changes: Any) -> Case:
    fields = dict(world_size=3, length=8, dtype=torch.float32, layout="contiguous", seed=1)
    return Case("f", collective, **{**fields, **changes})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("world_size", [1, 3, 8])
def test_sums_are_exact_in_any_order(dtype: torch.dtype, world_size: int) -> None:
    case = case_of(dtype=dtype, world_size=world_size, length=50)
    forward, backward = torch.zeros(50, dtype=dtype), torch.zeros(50, dtype=dtype)
    for rank in range(world_size):
        forward += rank_input(case, rank)
        backward += rank_input(case, world_size - 1 - rank)
    exact = sum(
        rank_input(case, rank).to(torch.float64 if dtype.is_floating_point else torch.int64)
        for rank in range(world_size)
    )
    assert torch.equal(forward, backward)
    assert torch.equal(forward.to(exact.dtype), exact)
    assert torch.equal(expected_values(case), forward)


def test_integers_are_too_large_for_a_detour_through_float() -> None:
    values = rank_input(case_of(dtype=torch.int64, length=50), 0)
    assert not torch.equal(values.double().long(), values)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [0, 1, 7, 12])
def test_layouts_hold_the_values_in_order(layout: str, length: int) -> None:
    values = torch.arange(1.0, length + 1)
    memory, view = lay_out(values, layout)
    assert torch.equal(view.flatten(), values)
    assert memory.dim() == 1
    if length == 12:
        assert view.is_contiguous() == (layout in ("contiguous", "matrix"))


def test_what_each_rank_must_hold() -> None:
    gather = case_of("all_gather")
    inputs = [rank_input(gather, rank) for rank in range(3)]
    assert torch.equal(expected_values(gather), torch.cat([inputs[0][:3], inputs[1][3:6], inputs[2][6:]]))
    assert gather.judged_chunks(1) == [0, 1, 2]
    assert case_of("reduce_scatter").judged_chunks(1) == [1]
    assert case_of(length=10, layout="transposed").title.startswith("f on 3 ranks, 10 float32, a transposed matrix")


# ── wrong values ─────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=5))
def test_a_sum_is_taken_apart_again(weights: list[int]) -> None:
    case = case_of(world_size=len(weights), length=20)
    inputs = [rank_input(case, rank).double() for rank in range(len(weights))]
    found = sum((weight * values for weight, values in zip(weights, inputs, strict=True)), torch.zeros(20).double())
    assert contents(found, inputs) == tuple(weights)
    assert contents(found + 0.125, inputs) is None


def told_about(change: Callable[[int, torch.Tensor, list[torch.Tensor]], Any], **options: Any) -> str:
    """The remark when rank r ends with what `change(r, expected, inputs)` gives: values, or fields of an Outcome."""
    in_chunks = options.pop("in_chunks", True)
    case = case_of(**options)
    inputs = [rank_input(case, rank) for rank in range(case.world_size)]
    outcomes = []
    for rank in range(case.world_size):
        given = change(rank, expected_values(case).clone(), inputs)
        fields = given if isinstance(given, dict) else {"values": given}
        nothing = dict(values=inputs[rank], returned=None, returned_type="NoneType", moved=None, strayed=False)
        outcomes.append(Outcome(**{**nothing, **fields}))
    remark = explain_values(Seen(case, outcomes, num_messages=4, in_chunks=in_chunks))
    return f"{remark.seen} {remark.cause}" if remark else ""


def test_right_values_need_no_remark() -> None:
    assert told_about(lambda rank, expected, inputs: expected) == ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rank, expected, inputs: {"moved": expected}, "you have pointed the tensor there"),
        (lambda rank, expected, inputs: {"returned": expected.clone()}, "a new tensor that your function returns"),
        (lambda rank, expected, inputs: {}, "the result went into another one"),
        (lambda rank, expected, inputs: {"values": expected, "strayed": rank == 1}, "rank 1 also wrote into memory"),
        (lambda rank, expected, inputs: torch.stack(inputs).amax(0), "this is the maximum over the ranks"),
        (lambda rank, expected, inputs: torch.stack(inputs).prod(0), "this is the product over the ranks"),
        (lambda rank, expected, inputs: torch.zeros(8), "it is zero"),
        (lambda rank, expected, inputs: expected - inputs[1], "the sum lacks the values of rank 1"),
        (lambda rank, expected, inputs: expected + inputs[2], "the sum counts rank 2 more than once"),
        (lambda rank, expected, inputs: inputs[(rank + 1) % 3], "the values of rank 1 alone"),
        (lambda rank, expected, inputs: expected + 77.7, "no mistake known here. Watch it: chunk_steps(World(3), f)"),
    ],
)
def test_the_cause_of_wrong_values(change: Callable[..., Any], told: str) -> None:
    assert told in told_about(change)


def test_the_cause_of_wrong_values_in_a_master() -> None:
    def last_forgotten(rank: int, expected: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor:
        return inputs[2] if rank == 2 else expected

    assert "rank 2 never got the sum" in told_about(last_forgotten, in_chunks=False)
    assert "Print the tensor on every rank" in told_about(lambda r, e, i: e + 77.7, in_chunks=False)


def test_a_full_sum_in_another_chunk_and_a_chunk_in_another_place() -> None:
    def previous_chunk(rank: int, expected: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor:
        values, part = inputs[rank].clone(), torch.tensor_split(torch.arange(9), 3)[(rank - 1) % 3]
        values[part] = expected[part]
        return values

    told = told_about(previous_chunk, collective="reduce_scatter", length=9)
    assert "in the wrong chunk: rank 0 in chunk 2" in told and "begin with a chunk 1 place higher" in told
    swapped = told_about(lambda r, e, i: torch.cat([e[3:6], e[:3], e[6:]]), collective="all_gather", length=9)
    assert "this is the chunk of rank 1: it has come to the wrong place" in swapped


def test_a_wrong_last_digit_of_a_short_float() -> None:
    told = told_about(lambda rank, e, i: (e.float() * 1.001 + 0.01).to(e.dtype), dtype=torch.float64)
    assert "Keep float64 throughout" in told


# ── wrong messages ───────────────────────────────────────────────────────────────────────────────────────────────────


def trace_of(sent: list[tuple[int, int, int, int]], world_size: int = 3, via: str | None = None) -> Trace:
    """A trace of messages (src, dst, elements, round) of float32."""
    site = CallSite("cell 5, line 3", "f", "cell.py", 3, via)
    messages = [
        Message(src, dst, 0, 4 * elements, "float32", (elements,), number, number, number, round_, site, site)
        for number, (src, dst, elements, round_) in enumerate(sent)
    ]
    return Trace(world_size, messages)


def ring_messages(size: int, elements: int, steps: int, stride: int = 1) -> list[tuple[int, int, int, int]]:
    return [(rank, (rank + stride) % size, elements, step + 1) for step in range(steps) for rank in range(size)]


SPECIFICATION = Specification(lambda n: 2 * (n - 1), lambda n: 2 * (n - 1), "chunk", "ring")


def remark_on(trace: Trace, specification: Specification = SPECIFICATION, **changes: Any) -> str:
    remark = explain_traffic(case_of(world_size=trace.world_size, **{"length": 9, **changes}), trace, specification)
    return f"{remark.seen} {' '.join(remark.details)} {remark.cause}" if remark else ""


@pytest.mark.parametrize("stride", [1, 2])
def test_a_ring_either_way_round_is_right(stride: int) -> None:
    assert remark_on(trace_of(ring_messages(3, 3, steps=4, stride=stride))) == ""


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ([], "no message was seen; 12 messages were expected"),
        (ring_messages(3, 3, steps=5), "rank 0 sent 5 messages; 4 were expected"),
        (ring_messages(3, 3, steps=3), "rank 0 sent 3 messages; 4 were expected"),
        (ring_messages(3, 3, steps=3) + [(0, 1, 3, 3), (1, 2, 3, 3), (2, 0, 3, 3)], "they took 3 rounds; 4 were"),
        (ring_messages(3, 2, steps=4), "a message carries 2 float32. Each should carry one chunk"),
        (ring_messages(3, 2, steps=4), "send one chunk in each step"),
    ],
)
def test_what_is_said_of_messages_that_are_no_ring(sent: list[tuple[int, int, int, int]], told: str) -> None:
    assert told in remark_on(trace_of(sent))


def test_neighbors_that_are_no_ring() -> None:
    sent = [(0, 1, 3, 1), (1, 0, 3, 1), (2, 3, 3, 1), (3, 2, 3, 1)]
    assert "do not go once round all ranks: 0 → 1, 1 → 0, 2 → 3, 3 → 2" in remark_on(trace_of(sent, 4), length=12)


def test_everything_through_one_rank_is_a_master_whatever_it_is_called() -> None:
    sent = [(1, 0, 9, 1), (2, 0, 9, 1), (0, 1, 9, 2), (0, 2, 9, 2)]
    told = remark_on(trace_of(sent))
    assert "everything passes through rank 0: it receives 72 bytes and sends 72, 4 times the buffer of 36 bytes" in told


def test_chunks_of_different_length_are_each_sent_equally_often() -> None:
    lengths = {0: 3, 1: 3, 2: 2}
    right = [(r, (r + 1) % 3, lengths[(r - s) % 3], s + 1) for s in range(4) for r in range(3)]
    assert remark_on(trace_of(right), length=8) == ""
    assert "all chunks are padded to the same length" in remark_on(trace_of(ring_messages(3, 3, steps=4)), length=8)
    told = remark_on(trace_of(right[:-1] + [(2, 0, 3, 4)]), length=8)
    assert "all ranks together sent 132 bytes; 128 were expected" in told and "some chunk is sent more often" in told


def test_empty_chunks_may_be_sent_or_not() -> None:
    sent = [(0, 1, 1, 1), (1, 2, 1, 2), (2, 0, 1, 3), (0, 1, 1, 4)]
    assert remark_on(trace_of(sent), length=1) == ""
    empty = [(2, 0, 0, 1), (1, 2, 0, 1)]
    assert remark_on(trace_of(sent + empty), length=1) == ""
    assert remark_on(trace_of([]), length=0) == ""


def test_messages_of_code_made_from_a_text_do_not_count() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch}
    exec(RING_TEXT, names)
    assert "sent by code that was made from a text" in failure(names["ring"])


def test_the_librarys_own_function_under_another_name() -> None:
    assert "ring_all_reduce is a function of the library itself" in failure(collectives.ring_all_reduce)


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
