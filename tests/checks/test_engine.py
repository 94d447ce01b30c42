"""The engine behind every check: cases, places, handles, reports. On simulated ranks, but for the tests that say so."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from distlib.checks import CheckFailed
from distlib.checks.case import Case
from distlib.checks.errors import without_our_files
from distlib.checks.plays.calls import call
from distlib.checks.plays.plain_values import changed_inputs
from distlib.checks.plays.tensor import one_tensor
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import called, returns
from distlib.checks.rules.sent_messages import SentMessages, sends
from distlib.checks.rules.sums import LeftInTensors
from distlib.checks.rules.values import holds
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, explain_old_version, in_turn, task
from distlib.checks.tensor_cases import TensorCase, expected_on
from distlib.checks.venues import simulated_only
from distlib.communicator import Communicator
from distlib.trace import Trace
from tests.heard import tells


@task("comm", "tensor")
def check_swap(draw: Draw, *, sizes: tuple[int, ...] = (2,)) -> Iterator[Case]:
    """`function(comm, tensor)`: ranks 0 and 1 exchange their tensors."""
    for size in sizes:
        inputs = [{"values": draw.whole((3,)), "layout": "contiguous", "options": {}} for _ in range(size)]
        yield Case(f"on {size} ranks", one_tensor, inputs, facts=Facts(size))


class Facts:
    def __init__(self, world_size: int) -> None:
        self.world_size = world_size


@check_swap.judge
def _(seen: Seen) -> Remarks:
    given = seen.given("values")
    for rank in (0, 1):
        mistakes = {"nothing has arrived.": given[rank]}
        yield holds(f"on rank {rank} the tensor", seen[rank]["values"], given[1 - rank], mistakes)


def swap(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank < 2:
        mine = tensor.clone()
        comm.exchange(mine, 1 - comm.rank, tensor, 1 - comm.rank)


def remark_on(function: Callable[..., object], **options: object) -> str:
    with simulated_only(), pytest.raises(CheckFailed) as caught:
        check_swap(function, **options)
    return " ".join(str(caught.value).split())


def test_a_right_function_gets_a_report() -> None:
    with simulated_only():
        report = check_swap(swap, sizes=(2, 3))
    assert [seen.size for seen in report] == [2, 3]
    assert report.trace(world_size=3).messages_sent == [1, 1, 0]
    assert str(report).splitlines()[0] == "swap: right in all 2 cases."
    assert report.summary() == "2 cases, with 2 and 3 ranks"
    with pytest.raises(KeyError, match="no case with world_size=7; there are: on 2 ranks; on 3 ranks"):
        report.trace(world_size=7)


def test_the_usual_mistake_is_named() -> None:
    said = remark_on(lambda comm, tensor: None)
    assert "on rank 0 the tensor is wrong" in said
    assert "Usual cause: nothing has arrived." in said


def test_errors_are_explained() -> None:
    def waits(comm: Communicator, tensor: torch.Tensor) -> None:
        comm.recv(tensor, 1 - comm.rank)

    assert "ranks wait for each other" in remark_on(waits)


def test_only_so_many_arguments() -> None:
    assert tells(remark_on(lambda comm: None), "checks/task.txt: other_arguments")


def test_what_is_no_function() -> None:
    said = remark_on(5)  # type: ignore[arg-type]
    assert tells(said, "checks/task.txt: no_function")
    assert said == "int: expected a function of (comm, tensor), got 5."


# Handles


def test_a_handle_that_nobody_waits_for_is_the_first_remark() -> None:
    def never_waits(comm: Communicator, tensor: torch.Tensor) -> None:
        comm.irecv(tensor, 1 - comm.rank)
        comm.send(tensor.clone(), 1 - comm.rank)

    assert re.search(
        r"rank 0 never waits for the irecv that it begins at test_engine.py, line \d+", remark_on(never_waits)
    )


def test_a_tensor_that_changes_too_early() -> None:
    def changes(comm: Communicator, tensor: torch.Tensor) -> None:
        sending = comm.isend(tensor, 1 - comm.rank)
        comm.recv(tensor, 1 - comm.rank)
        sending.wait()

    assert "changes the tensor of the isend" in remark_on(changes)


def test_two_receives_into_one_buffer() -> None:
    def shares(comm: Communicator, tensor: torch.Tensor) -> None:
        buffer = torch.empty_like(tensor)
        works = [comm.irecv(buffer, 1 - comm.rank), comm.irecv(buffer, 1 - comm.rank)]
        works += [comm.isend(tensor.clone(), 1 - comm.rank), comm.isend(tensor.clone(), 1 - comm.rank)]
        for work in works:
            work.wait()
        tensor.copy_(buffer)

    assert "begins two receives into the same memory" in remark_on(shares)


def test_handles_that_are_used_as_they_must_be() -> None:
    def swaps(comm: Communicator, tensor: torch.Tensor) -> None:
        incoming = torch.empty_like(tensor)
        works = [comm.irecv(incoming, 1 - comm.rank), comm.isend(tensor, 1 - comm.rank)]
        assert [work.wait() for work in works] == [1 - comm.rank] * 2
        tensor.copy_(incoming)

    with simulated_only():
        assert len(check_swap(swaps)) == 1


def test_neighbors_of_a_chunk_that_is_sent_may_change() -> None:
    """Chunks share a tensor's version counter; only their own numbers count."""

    def in_two(comm: Communicator, tensor: torch.Tensor) -> None:
        mine = tensor.clone()
        first = comm.isend(mine[:1], 1 - comm.rank)
        mine[1:] += 0.0
        comm.recv(tensor[:1], 1 - comm.rank)
        first.wait()
        comm.exchange(mine[1:], 1 - comm.rank, tensor[1:], 1 - comm.rank)

    with simulated_only():
        assert len(check_swap(in_two)) == 1


# The library


@task("number")
def check_double(draw: Draw) -> Iterator[Case]:
    """`function(number)` returns twice the number."""
    yield Case("(2)", call, [{"args": [2], "kwargs": {}}])


@check_double.judge
def _(seen: Seen) -> Remarks:
    yield None if seen[0] == 4 else Remark(f"it returned {seen[0]}.")


def test_the_library_may_not_do_the_work() -> None:
    from distlib.network import Cluster, all_reduce_seconds

    def by_the_library(number: int) -> float:
        return all_reduce_seconds("ring", Cluster(1, number), number, itemsize=1)

    with simulated_only(), pytest.raises(CheckFailed, match="it calls distlib.network"):
        check_double(by_the_library)


# Which case is told, and what lives on


def test_one_rank_is_played_last_and_reported_where_it_was_declared() -> None:
    def talks_to_itself(comm: Communicator, tensor: torch.Tensor) -> None:
        if comm.rank < 2:
            comm.exchange(tensor.clone(), (comm.rank + 2) % 3 if comm.world_size > 2 else comm.rank - 1, tensor, 0)

    said = remark_on(talks_to_itself, sizes=(1, 2, 3))
    assert said.startswith("talks_to_itself on 2 ranks:")
    played = in_turn([Case(f"on {size} ranks", one_tensor, [{}] * size) for size in (1, 2, 1, 3)])
    assert played == [1, 3, 0, 2]
    with simulated_only():
        report = check_double_and_keep(lambda numbers: [2 * number for number in numbers], sizes=(1, 2))
    assert [seen.case.title for seen in report] == ["([1])", "([1, 2])"]


@task("numbers")
def check_double_and_keep(draw: Draw, *, sizes: Sequence[int]) -> Iterator[Case]:
    """`function(numbers)` returns a list of twice the numbers."""
    for size in sizes:
        yield called(list(range(1, size + 1)))


@check_double_and_keep.judge
def _(seen: Seen) -> Remarks:
    yield returns(seen, [2 * number for number in seen.case.inputs[0]["args"][0]])


def told_of(function: Callable[..., object], sizes: Sequence[int] = (1, 2)) -> str:
    with simulated_only(), pytest.raises(CheckFailed) as caught:
        check_double_and_keep(function, sizes=sizes)
    return " ".join(str(caught.value).split())


def test_an_argument_that_has_changed_is_found() -> None:
    def doubles_in_place(numbers: list[int]) -> list[int]:
        for k in range(len(numbers)):
            numbers[k] *= 2
        return numbers

    said = told_of(doubles_in_place)
    assert "the result is right, but it has changed its argument numbers. before [1] after [2]" in said
    assert "work on a copy: list(numbers)" in said


@pytest.mark.parametrize(
    ("before", "after", "is_same_value"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1.0, 2], False),
        ([1], (1,), False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), True),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.ones(2), torch.ones(2, requires_grad=True), False),
        ([torch.ones(2)], [torch.zeros(2)], False),
        (float("nan"), float("nan"), True),
    ],
)
def test_what_counts_as_changed(before: object, after: object, is_same_value: bool) -> None:
    found = changed_inputs({"args": [before], "kwargs": {"k": 1}}, {"args": [after], "kwargs": {"k": 1}})
    assert list(found) == ([] if is_same_value else ["0"])


def test_what_lives_on_between_cases_is_told_as_such() -> None:
    def keeps(numbers: list[int], doubled: list[int] = []) -> list[int]:  # noqa: B006
        doubled += [2 * number for number in numbers]
        return doubled

    said = told_of(keeps)
    assert "keeps([1, 2]): right on its own, but not after other calls: it returned a wrong value" in said
    assert "found [2, 2, 4]" in said and "a default argument such as seen=[]" in said


def test_what_is_wrong_alone_is_not_told_as_living_on() -> None:
    assert "right on its own" not in told_of(lambda numbers: [2 for _ in numbers])


def test_without_a_communicator_nothing_is_said_of_a_rank() -> None:
    def looks_up(numbers: list[int]) -> object:
        return {}[numbers[0]]

    said = told_of(looks_up)
    assert "it raised KeyError: 1" in said and "rank 0" not in said
    assert "a dict has no entry under this key" in said


def test_no_file_of_the_library_is_named() -> None:
    text = """in user code:
    File "/opt/env/lib/python3.12/site-packages/tensorflow/x.py", line 270, in __call__
        return f(*args)

    File "cell 3", line 5, in double
        return 2 * number
at /srv/course/distlib/exercises/jax_programs/plays.py:43 for shard_map; rank 0 receives (plays.py, line 6)"""
    assert (
        without_our_files(text).split()
        == (
            'in user code: File "cell 3", line 5, in double return 2 * number '
            "at the test for shard_map; rank 0 receives (the test)"
        ).split()
    )


# A check that is not complete


def some_cases(draw: Draw, *, sizes: Sequence[int] = (2,)) -> Iterator[Case]:
    """Cases of `check_swap`."""
    return check_swap.cases(draw, sizes=sizes)


def error_of(judge: Callable[[Seen], Any] | None, **options: object) -> str:
    """What the author of a check reads."""
    check = task("comm", "tensor")(some_cases)
    if judge:
        check.judge(judge)
    with simulated_only(), pytest.raises((TypeError, ValueError)) as caught:
        check(swap, **options)
    return str(caught.value)


def test_a_check_without_a_judge_does_not_pass_everything() -> None:
    assert error_of(None) == "some_cases has no @some_cases.judge, and would let every answer pass"


def test_a_check_without_cases_does_not_pass_everything() -> None:
    assert error_of(lambda seen: iter(()), sizes=()) == "some_cases has no case for {'sizes': ()}"


def test_a_judge_yields_remarks() -> None:
    assert "This one returns Remark" in error_of(lambda seen: Remark("wrong."))
    assert "needs `yield from`" in error_of(lambda seen: iter([sends(seen, {}, "nobody needs it.")]))
    assert "got str" in error_of(lambda seen: iter(["wrong."]))


def test_rules_about_one_tensor_ask_for_its_facts() -> None:
    seen = Seen(Case("on 1 rank", one_tensor, [{}]), [], Trace(1, []), True)
    with pytest.raises(TypeError, match="SentMessages asks for the facts of a TensorCase"):
        _ = SentMessages(seen).case
    with pytest.raises(TypeError, match="LeftInTensors asks for the facts of a TensorCase"):
        _ = LeftInTensors(seen).case
    unknown = TensorCase("gossip", 2, 3, torch.float32, "contiguous", seed=1)
    with pytest.raises(ValueError, match="what gossip leaves on a rank"):
        expected_on(unknown, 0)


def test_a_case_has_a_play_and_a_list_of_inputs() -> None:
    with pytest.raises(TypeError, match="play: expected a function"):
        Case("on 1 rank", "one_tensor", [{}])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="inputs: expected a list"):
        Case("on 1 rank", one_tensor, {"tensor": 1})  # type: ignore[arg-type]


def test_errors_are_pairs() -> None:
    with pytest.raises(TypeError, match="errors: expected a list of pairs"):
        task("comm", errors=("NoneType", "a parameter has no gradient."))  # type: ignore[arg-type]


# Real ranks


def test_real_ranks_have_the_last_word() -> None:
    """A list that all simulated ranks share; each real rank has one of its own."""

    def by_memory(comm: Communicator, tensor: torch.Tensor) -> None:
        import math

        kept = vars(math).setdefault("_shelf", {})
        kept[comm.rank] = tensor.clone()
        comm.barrier()
        if 1 - comm.rank in kept:
            tensor.copy_(kept[1 - comm.rank])
        comm.barrier()

    with pytest.raises(CheckFailed, match="nothing has arrived"):
        check_swap(by_memory)


def test_a_cell_with_a_check_loads_few_modules() -> None:
    program = (
        "import sys; from distlib.checks import *; "
        "names = [name for name in sys.modules if name.startswith('distlib')]; "
        "print(len(names), [name for name in names if 'judge' in name or 'classroom' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    number, _, rest = done.stdout.strip().partition(" ")
    assert int(number) <= 100
    assert rest == "[]"


# Errors


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("chunkz[0] += 1", "Did you mean: 'chunks'? Usual cause: is the name spelled right?"),
        ("functional.relu(tensor)", "no cell that has run defines this name"),
        ("chunks[0] += 1", "torch.tensor_split returns a tuple"),
        ("comm.recv(1 - comm.rank)", "recv and exchange write what arrives into a tensor"),
        ("comm.exchange(tensor, tensor, 1, 1)", "exchange(outgoing, dst, incoming, src)"),
        ("assert comm.rank == 9", "an assert of your own does not hold"),
    ],
)
def test_an_error_has_a_cause(line: str, cause: str) -> None:
    names: dict[str, Callable[..., object]] = {}
    program = f"def swap(comm, tensor):\n    chunks = tensor.tensor_split(2)\n    {line}\n"
    exec(compile(program, "swap.py", "exec"), names)  # type: ignore[arg-type]
    assert cause in remark_on(names["swap"])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (["def swap(comm): pass", "def swap(comm)\n    pass"], "expected ':', in line 1 of the cell"),
        (["def swap(comm)\n    pass", "def swap(comm): pass"], ""),
        (["def swap(comm): pass", "def swap_back(comm)\n    pass", "print("], ""),
        ([], ""),
    ],
)
def test_a_cell_that_python_cannot_read_leaves_an_earlier_version(
    inputs: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = SimpleNamespace(user_ns={"In": ["", *inputs]})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    remark = explain_old_version("swap")
    if not words:
        assert remark is None
        return
    assert remark is not None and words in remark.seen
    assert tells(f"{remark.seen} {remark.cause}", "checks/task.txt: old_version")


def test_a_tensor_is_not_sent_on_before_it_has_come() -> None:
    def passes_on_early(comm: Communicator, tensor: torch.Tensor) -> None:
        partner = comm.rank ^ 1
        receiving = comm.irecv(tensor, partner)
        sending = comm.isend(tensor, partner)
        receiving.wait()
        sending.wait()

    with simulated_only(), pytest.raises(CheckFailed, match=r"while\s+an\s+irecv"):
        check_swap(passes_on_early)
