"""What a collective is given is checked before anything is sent: at the student's line, in words of the whole call."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator

import numpy
import pytest
import torch

from distlib import Communicator, MessageMismatch, RankError, SimulatedWorld, World, collectives
from distlib.arguments import described, overlaps_itself
from distlib.collectives import all_gather, all_reduce, all_to_all, broadcast, gather, reduce, reduce_scatter, scatter
from tests.tools.collective_cases import COLLECTIVES

AnyWorld = World | SimulatedWorld
HERE = r"test_arguments.py, line \d+: "
WHOLE = (broadcast, reduce, all_gather, reduce_scatter, all_reduce, scatter, gather)
TORCHS = torch.distributed.ReduceOp


@pytest.fixture(params=["real", "simulated"])
def make(request: pytest.FixtureRequest, worlds: Callable[[int], World]) -> Callable[[int], AnyWorld]:
    """A world of each kind."""
    return worlds if request.param == "real" else SimulatedWorld


def told(world: AnyWorld, function: Callable[[Communicator], object]) -> str:
    with pytest.raises(RankError) as caught:
        world.run(function, timeout=100)
    assert not len(world.trace), "nothing was sent"
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1.0, 2.0, 3.0], "TypeError: {} expected a torch.Tensor, got a list of 3 floats: make a tensor first"),
        (1.0, "TypeError: {} expected a torch.Tensor, got the float 1.0: make a tensor first, with torch.tensor"),
        (None, "TypeError: {} expected a torch.Tensor, got None"),
        ([torch.ones(1)] * 2, "TypeError: {} expected a torch.Tensor, got a list of 2 tensors: make one call for each"),
        (
            numpy.ones((2, 3)),
            "TypeError: {} expected a torch.Tensor, got a numpy array of 2×3 float64: torch.from_numpy",
        ),
        (torch.nn.Linear(1, 1), "TypeError: {} expected a torch.Tensor, got a Linear: a model has many tensors"),
        (torch.eye(2).to_sparse(), "ValueError: {} expected a dense tensor, got a sparse one \\(torch.sparse_coo\\)"),
    ],
    ids=lambda value: described(value) if not isinstance(value, str) else "",
)
@pytest.mark.parametrize("collective", WHOLE, ids=lambda collective: collective.__name__)
def test_what_is_no_dense_tensor(collective: Callable[..., object], given: object, says: str) -> None:
    text = told(SimulatedWorld(2), lambda comm: collective(comm, given))
    assert re.match(HERE + "ranks 0 and 1 raised " + says.format(collective.__name__), text), text


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda comm: all_reduce(torch.ones(3), comm),
            "all_reduce expected comm as the first .* a tensor of 3 float32",
        ),
        (lambda comm: all_reduce(torch.ones(3), comm, async_op=True), "all_reduce expected comm as the first argument"),
        (lambda comm: all_reduce(torch.ones(3), comm, algorithm="auto"), "all_reduce expected comm as the first"),
        (lambda comm: all_reduce(None, torch.ones(3)), "all_reduce expected comm, .*, got None"),
        (lambda comm: collectives.barrier(0), "barrier expected comm, .*, got the int 0"),
        (lambda comm: all_reduce(comm, [1.0], async_op=True), "all_reduce expected a torch.Tensor"),
        (lambda comm: all_reduce(comm, [1.0], algorithm="auto"), "all_reduce expected a torch.Tensor"),
        (lambda comm: all_reduce(comm, torch.ones(3), op="sum"), "got the text 'sum': write op=ReduceOp.SUM"),
        (lambda comm: all_reduce(comm, torch.ones(3), "tree"), "got the text 'tree': an algorithm .* algorithm='tree'"),
        (lambda comm: all_reduce(comm, torch.ones(3), torch.add), "all_reduce expected a ReduceOp, such as"),
        (
            lambda comm: all_reduce(comm, torch.ones(3), TORCHS.MAX),
            "got torch.distributed's MAX: write op=ReduceOp.MAX",
        ),
        (
            lambda comm: all_reduce(comm, torch.ones(3), TORCHS.BXOR),
            "got torch.distributed's BXOR: distlib has SUM, AVG",
        ),
        (lambda comm: all_reduce(comm, torch.ones(3), TORCHS.MAX, async_op=True), "got torch.distributed's MAX"),
        (lambda comm: all_reduce(comm, torch.ones(3), algorithm=None), "expected one of the algorithms .*, got None"),
        (lambda comm: all_reduce(comm, torch.ones(3), algorithm=["ring"]), "one of the algorithms .*, got .'ring'."),
        (lambda comm: all_reduce(comm, torch.ones(3), algorithm="star", async_op=True), "of the algorithms .*'star'"),
        (
            lambda comm: all_gather(comm, [torch.ones(3)] * 2, torch.ones(3)),
            "all_gather expected a torch.Tensor, got a",
        ),
        (
            lambda comm: broadcast(comm, torch.ones(3), True),
            "broadcast expected an integer from 0 to 1 as root, .* root=True",
        ),
        (lambda comm: reduce(comm, torch.ones(3), 2), "reduce expected an integer from 0 to 1 as root, got root=2"),
        (
            lambda comm: scatter(comm, torch.ones(3), "0"),
            "scatter expected an integer from 0 to 1 as root, got root='0'",
        ),
        (
            lambda comm: all_reduce(comm, torch.ones(1).expand(4)),
            r"all_reduce can't write .* shape \(4,\) with strides",
        ),
        (lambda comm: reduce_scatter(comm, torch.arange(9.0).unfold(0, 3, 1)), "reduce_scatter can't write into"),
        (lambda comm: all_to_all(comm, 1, [torch.ones(1)] * 2), "all_to_all expected a list of 2 tensors.* the int 1"),
        (
            lambda comm: all_to_all(comm, [torch.ones(1)] * 2, [1.0, 2.0]),
            r"a torch.Tensor as inputs\[0\], got the float",
        ),
        (lambda comm: all_to_all(comm, [torch.ones(1).expand(2)] * 2, torch.ones(2, 2)), "all_to_all can't write into"),
    ],
)
def test_the_other_arguments(call: Callable[[Communicator], object], says: str) -> None:
    text = told(SimulatedWorld(2), call)
    assert re.match(f"{HERE}ranks 0 and 1 raised (Type|Value)Error: .*{says}", text), text


def test_on_real_ranks_the_same_words(worlds: Callable[[int], World]) -> None:
    def call(comm: Communicator) -> None:
        all_reduce(comm, [1.0, 2.0, 3.0])  # type: ignore[arg-type]

    assert told(worlds(2), call) == told(SimulatedWorld(2), call)


def test_a_world_is_no_communicator() -> None:
    with pytest.raises(TypeError, match=r"got a SimulatedWorld: call it on the ranks, in the function that world.run"):
        all_reduce(SimulatedWorld(2), torch.ones(1))  # type: ignore[arg-type]


def test_which_tensors_overlap_themselves() -> None:
    numbers = torch.arange(12.0)
    assert all(
        map(overlaps_itself, (numbers[:1].expand(2), numbers.unfold(0, 3, 2), numbers.view(12, 1).expand(12, 2)))
    )
    apart = (numbers, numbers[::2], numbers.view(3, 4).T, numbers[:0], torch.tensor(1.0), numbers[:1].expand(1, 1))
    assert not any(map(overlaps_itself, apart))


# ── different tensors on two ranks ───────────────────────────────────────────────────────────────────────────────────

_DIFFERENT = {
    "(3, 2) against (2, 3)": ((3, 2), (2, 3), torch.float32, "3×2 float32", "2×3 float32"),
    "one more": ((4,), (5,), torch.float32, "4 float32", "5 float32"),
    "another dtype": ((4,), (4,), torch.int32, "4 float32", "4 int32"),
}


@pytest.mark.parametrize("shapes", list(_DIFFERENT))
@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_tensors_that_differ_are_named_with_the_whole_call(name: str, shapes: str) -> None:
    here, there, dtype, one, other = _DIFFERENT[shapes]
    if name in ("all_to_all", "barrier"):
        return

    def differ(comm: Communicator) -> None:
        tensor = torch.ones(here) if comm.rank < 3 else torch.ones(there, dtype=dtype)
        getattr(collectives, name)(comm, tensor)

    with pytest.raises(MessageMismatch) as caught:
        SimulatedWorld(4).run(differ, timeout=100)
    text, kind = str(caught.value), re.sub(r".*(all_reduce|all_gather|reduce_scatter|broadcast|reduce)$", r"\1", name)
    assert re.match(HERE + r"rank \d is in ", text), text
    assert f"{kind}({one}, " in text and f"{kind}({other}, " in text and "rank 3 is in" in text


def test_different_shapes_are_seen_on_both_kinds_of_ranks(make: Callable[[int], AnyWorld]) -> None:
    def differ(comm: Communicator) -> None:
        all_reduce(comm, torch.ones(2 + comm.rank, 3 - comm.rank))

    with pytest.raises(MessageMismatch, match=r"all_reduce\(2×3 float32.*all_reduce\(3×2 float32|3×2.*2×3"):
        make(2).run(differ, timeout=100)


# ── tensors with a history ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[warnings.WarningMessage]]:
    """The warnings, each place's once."""
    monkeypatch.setattr("distlib.collectives.history._warned", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield caught


@pytest.mark.parametrize("begin", [torch.Tensor.backward, torch.autograd.backward])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_backward_from_a_loss_that_was_reduced_is_an_error(
    make: Callable[[int], AnyWorld], shape: tuple[int, ...], begin: Callable[[torch.Tensor], None]
) -> None:
    def wrong(comm: Communicator) -> None:
        loss = torch.ones(shape, requires_grad=True) * 3
        all_reduce(comm, loss)
        begin(loss)

    with pytest.raises(
        RankError, match=r"RuntimeError: backward\(\) begins at a number that all_reduce has written into"
    ):
        make(2).run(wrong, timeout=100)


def layer(comm: Communicator, collective: Callable[..., object]) -> torch.Tensor | None:
    weight = torch.ones(3, requires_grad=True)
    activation = weight * 2
    collective(comm, activation)
    activation.pow(2).sum().backward()
    return weight.grad


@pytest.mark.parametrize(
    "collective", [all_reduce, broadcast, lambda comm, tensor: all_reduce(comm, tensor, async_op=True).wait()]
)
def test_backward_through_a_tensor_that_was_reduced_warns_once_per_line(
    said: list[warnings.WarningMessage], collective: Callable[..., object]
) -> None:
    for _ in range(3):
        SimulatedWorld(2).run(lambda comm: layer(comm, collective))
    name = "broadcast" if collective is broadcast else "all_reduce"
    (warning,) = said
    assert f"a tensor that {name} has written into" in str(warning.message)
    assert warning.filename == __file__


def test_backward_from_a_loss_that_has_a_reduced_number_in_it_warns(said: list[warnings.WarningMessage]) -> None:
    def add(comm: Communicator) -> float:
        weight = torch.tensor(2.0, requires_grad=True)
        part = weight * 1.0
        all_reduce(comm, part)
        loss = part + weight * 2
        loss.backward()
        assert weight.grad is not None
        return weight.grad.item()

    assert SimulatedWorld(2).run(add) == [3, 3]
    assert ["a tensor that all_reduce has written into" in str(warning.message) for warning in said] == [True]


def test_training_loops_do_not_warn(said: list[warnings.WarningMessage]) -> None:
    def loop(comm: Communicator) -> None:
        weight = torch.ones(3, requires_grad=True)
        all_reduce(comm, weight)  # the models are averaged: a leaf has no history
        loss = (weight * 2).sum()
        loss.backward()
        assert weight.grad is not None
        all_reduce(comm, weight.grad)
        all_reduce(comm, loss)  # to show it
        total = weight.sum()
        with torch.no_grad():
            all_reduce(comm, total)
        total.backward()
        parts = (weight * 2).sum()
        all_reduce(comm, parts.detach().clone())
        parts.backward()

    SimulatedWorld(2).run(loop)
    assert said == []
