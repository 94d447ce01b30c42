"""The check that stays on: what it finds, which rank and parameter it names, and that it does not wait forever."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data.distributed import DistributedSampler

from distlib import Communicator, RankError, World, torch_distributed
from distlib.clinic.replica_check import _BLOCK, ReplicaCheck, ReplicaError, bit_sums, check_samples, who_differs
from distlib.training.ddp import average_per_parameter


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(3) as world:
        yield world


def model_of(rank: int, changed: int = -1) -> nn.Module:
    """The same on every rank, but for the last bit of one weight on rank `changed`."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    if rank == changed:
        with torch.no_grad():
            model[1].weight[0, 1] = torch.nextafter(model[1].weight[0, 1], torch.tensor(9.0))  # type: ignore[index]
    return model


def check_once(comm: Communicator, of_torch: bool, changed: int, bad: int = -1) -> float:
    model = model_of(comm.rank, changed)
    model(torch.ones(1, 3)).sum().backward()
    if comm.rank == bad:
        model[0].bias.grad[1] = float("nan")  # type: ignore[index]
    if not of_torch:
        return calls(ReplicaCheck(model, comm, every=2))
    with torch_distributed(comm, "gloo"):
        return calls(ReplicaCheck(model, every=2, timeout=100))


def calls(check: ReplicaCheck) -> float:
    check()
    assert check.grad_norm == 0, "not yet"
    check()
    return check.grad_norm


@pytest.mark.parametrize("of_torch", [True, False])
def test_equal_replicas_pass(world: World, of_torch: bool) -> None:
    norms = world.run(check_once, of_torch, changed=-1)
    assert norms[0] > 0 and norms == [norms[0]] * 3


@pytest.mark.parametrize("of_torch", [True, False])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_last_bit_of_one_weight_is_found(world: World, of_torch: bool, rank: int) -> None:
    with pytest.raises(RankError, match=rf"step 2: 1\.weight has different weights on rank {rank} and on the others"):
        world.run(check_once, of_torch, changed=rank)


@pytest.mark.parametrize("of_torch", [True, False])
def test_a_gradient_that_is_not_finite_is_named(world: World, of_torch: bool) -> None:
    with pytest.raises(RankError, match=r"step 2: rank 1 has a gradient that is not finite, 0\.bias"):
        world.run(check_once, of_torch, changed=-1, bad=1)


def test_a_gradient_that_an_average_has_spread_is_not_laid_to_one_rank(world: World) -> None:
    """Only rank 1 has the infinity; after the average all have it, and nobody knows whose it was."""

    def averages(comm: Communicator) -> None:
        model = nn.Linear(2, 1)
        nn.init.ones_(model.weight), nn.init.zeros_(model.bias)
        check = ReplicaCheck(model, comm, every=1)
        (model(torch.ones(2)).sum() * (float("inf") if comm.rank == 1 else 1)).backward()
        average_per_parameter(comm, model)
        check()

    with pytest.raises(RankError, match=r"ranks 0, 1 and 2 have a gradient .* weight\. It may come from one of them"):
        world.run(averages)


@pytest.mark.parametrize("of_torch", [True, False])
def test_a_rank_that_has_left_out_a_call_is_named(world: World, of_torch: bool) -> None:
    def leaves_out(comm: Communicator, every: int) -> None:
        with torch_distributed(comm, "gloo") if of_torch else nullcontext():
            check = ReplicaCheck(model_of(comm.rank), None if of_torch else comm, every=every)
            for step in range(3):
                if (comm.rank, step) != (2, 1):
                    check(step)

    with pytest.raises(
        RankError, match=r"not in the same step \(rank 2 differs\): rank 0 is in step 1, .*rank 2 is in step 2"
    ):
        world.run(leaves_out, every=2)


def test_the_step_is_the_loops_number_or_that_of_the_call(world: World) -> None:
    def steps(comm: Communicator) -> list[int]:
        check = ReplicaCheck(model_of(comm.rank), comm, every=2)
        check()
        check()
        counted = check.step
        check(70)
        return [counted, check.step]

    assert world.run(steps) == [[2, 70]] * 3


@pytest.mark.parametrize("of_torch", [True, False])
def test_a_sparse_gradient_is_looked_at(world: World, of_torch: bool) -> None:
    def embed(comm: Communicator, bad: int) -> float:
        torch.manual_seed(0)
        model = nn.Embedding(4, 2, sparse=True)
        (model(torch.tensor([1, 1, 3])).sum() * (float("inf") if comm.rank == bad else 1)).backward()
        with torch_distributed(comm, "gloo") if of_torch else nullcontext():
            check = ReplicaCheck(model, None if of_torch else comm, every=1)
            check()
        return check.grad_norm

    assert world.run(embed, bad=-1) == pytest.approx([10**0.5] * 3)  # of 2, 2, 1, 1
    with pytest.raises(RankError, match="rank 1 has a gradient that is not finite, weight"):
        world.run(embed, bad=1)


MODELS = {
    "more": lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
    "plain": lambda: nn.Sequential(nn.Linear(2, 2)),
    "wide": lambda: nn.Sequential(nn.Linear(2, 3)),
    "double": lambda: nn.Sequential(nn.Linear(2, 2)).double(),
    "renamed": lambda: nn.ModuleDict({"head": nn.Linear(2, 2)}),
    "lazy": lambda: nn.Sequential(nn.LazyLinear(2)),
    "none": lambda: nn.Sequential(),
}
FIRST = r"The first that differs: "
DIFFERENT = [
    (
        ["plain", "more", "plain"],
        rf"\(rank 1 differs\): 2 parameters on rank 0, 4 on rank 1\. {FIRST}none on rank 0, 1",
    ),
    (
        ["more", "plain", "plain"],
        rf"\(rank 0 differs\): 4 .* rank 0, 2 on rank 1\. {FIRST}1\.weight \(float32 \[2, 2\]\)",
    ),
    (
        ["plain", "plain", "wide"],
        rf"{FIRST}0\.weight \(float32 \[2, 2\]\) on rank 0, 0\.weight \(float32 \[3, 2\]\) on",
    ),
    (["plain", "double", "plain"], rf"{FIRST}0\.weight \(float32 \[2, 2\]\) on rank 0, 0\.weight \(float64 \[2, 2\]\)"),
    (["renamed", "plain", "plain"], rf"{FIRST}head\.weight \(float32 \[2, 2\]\) on rank 0, 0\.weight"),
    (
        ["plain", "plain", "lazy"],
        rf"{FIRST}0\.weight \(float32 \[2, 2\]\) on rank 0, 0\.weight \(float32 no shape yet\)",
    ),
    (["none", "plain", "none"], rf"0 parameters on rank 0, 2 on rank 1\. {FIRST}none on rank 0, 0\.weight"),
]


@pytest.mark.parametrize("of_torch", [True, False])
@pytest.mark.parametrize(("models", "told"), DIFFERENT)
def test_models_that_differ_end_no_process_and_are_told_on_every_rank(
    world: World, of_torch: bool, models: list[str], told: str
) -> None:
    def make(comm: Communicator) -> str:
        model = MODELS[models[comm.rank]]()
        with torch_distributed(comm, "gloo") if of_torch else nullcontext():
            return caught(lambda: ReplicaCheck(model, None if of_torch else comm, timeout=100))

    messages = world.run(make)
    assert re.search(told, messages[0]), messages[0]
    assert messages == [messages[0]] * 3
    assert "failed after" not in messages[0], "nobody has waited"


def test_a_rank_that_makes_no_check_is_named(world: World) -> None:
    def make(comm: Communicator, absent: list[int]) -> str:
        with torch_distributed(comm, "gloo") as dist:
            ReplicaCheck(model_of(comm.rank), timeout=100)  # an earlier one, which all have made
            dist.barrier()  # those that make one begin together
            message = "" if comm.rank in absent else caught(lambda: ReplicaCheck(model_of(comm.rank), timeout=5))
            dist.barrier()
        return message

    assert re.match(
        r"the making of a check failed after \d+\.\d s\. rank 1 did not make one\. ", world.run(make, [1])[0]
    )
    messages = world.run(make, [0, 2])
    assert "ranks 0 and 2 did not make one" in messages[1]
    assert messages[::2] == ["", ""]


def test_a_rank_that_is_missing_ends_the_check(world: World) -> None:
    """Rank 2 waits for the others, in a group without a limit to speak of; the check has a group of its own."""

    def missing(comm: Communicator) -> str:
        with torch_distributed(comm, "gloo") as dist:
            check = ReplicaCheck(model_of(comm.rank), every=1, timeout=5)
            dist.barrier()  # as above
            message = caught(check) if comm.rank < 2 else ""
            dist.barrier()
        return message

    messages = world.run(missing)
    failed = r"the check of step 1 failed after \d+\.\d s\. "
    assert re.match(failed + r"\[Rank 0\]: Ranks 2 failed to pass monitoredBarrier", messages[0])
    assert re.match(failed, messages[1])


def caught(check: Callable[[], object]) -> str:
    try:
        check()
    except ReplicaError as error:
        return str(error)
    return ""


def sampled(length: int, drop_last: bool, ranks: int = 3) -> list[list[int]]:
    data = range(length)
    return [list(DistributedSampler(data, ranks, rank, drop_last=drop_last)) for rank in range(ranks)]  # type: ignore[arg-type]


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("length", [1, 2, 6, 7, 8])
def test_what_torchs_sampler_deals_out_is_let_pass(world: World, length: int, drop_last: bool) -> None:
    world.run(lambda comm: check_samples(sampled(length, drop_last)[comm.rank], length, comm))


UNSEEN = [
    (6, [[0, 1], [2, 3], [4]], r"1 of 6 samples were not seen once: sample 5: 0 times"),  # 6 samples divide
    (6, [[0, 1], [2, 3], [4, 5, 0]], r"1 of 6 samples .* sample 0: 2 times \(ranks 0 and 2\)"),
    (7, [[0, 1], [2, 3], [4]], r"2 of 7 samples"),  # one is what a sampler may leave out
    (7, [[0, 1, 2], [3, 4, 5], [6, 0, 0, 0]], r"1 of 7 samples .* sample 0: 4 times \(ranks 0 and 2\)"),
    (8, [[0, 1, 2], [3, 4, 5], [6, 0]], r"2 of 8 samples .* sample 0: 2 times .*, sample 7: 0 times"),  # both at once
]


@pytest.mark.parametrize(("length", "parts", "told"), UNSEEN)
def test_more_than_a_sampler_repeats_or_leaves_out_is_a_fault(
    world: World, length: int, parts: list[list[int]], told: str
) -> None:
    with pytest.raises(RankError, match=told):
        world.run(lambda comm: check_samples(parts[comm.rank], length, comm))


@pytest.mark.parametrize("of_torch", [True, False])
@pytest.mark.parametrize("outside", [39, -1])
def test_samples_that_are_not_in_the_data_set_end_no_process(world: World, of_torch: bool, outside: int) -> None:
    def epoch(comm: Communicator, lengths: list[int]) -> str:
        with torch_distributed(comm, "gloo") if of_torch else nullcontext():
            seen, group = [outside] if comm.rank == 1 else [0], None if of_torch else comm
            return caught(lambda: check_samples(seen, lengths[comm.rank], group, timeout=100))

    assert world.run(epoch, [3, 3, 3]) == [f"rank 1 has seen sample {outside}, in a data set of 3 samples"] * 3
    told = "(rank 2 differs): 3 samples on rank 0, 3 samples on rank 1, 4 samples on rank 2"
    assert told in world.run(epoch, [3, 3, 4])[0]


@pytest.mark.parametrize("of_torch", [True, False])
def test_samples_that_are_seen_never_or_twice_are_named(world: World, of_torch: bool) -> None:
    def epoch(comm: Communicator, parts: list[list[int]]) -> None:
        if not of_torch:
            return check_samples(parts[comm.rank], 6, comm)
        with torch_distributed(comm, "gloo"):
            check_samples(parts[comm.rank], 6, timeout=100)

    world.run(epoch, [[0, 3], [1, 4], [2, 5]])
    with pytest.raises(RankError, match=r"2 of 6 samples were not seen once: sample 0: 2 times \(ranks 0 and 1\)"):
        world.run(epoch, [[0, 3], [1, 0], [2, 5]])
    with pytest.raises(RankError, match=r"sample 4: 0 times\. Does each"):
        world.run(epoch, [[0, 3], [1, 0], [2, 5]])


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.int64, torch.bool]
)
def test_any_dtype_has_a_sum_and_a_change_changes_it(dtype: torch.dtype) -> None:
    one: Any = torch.tensor([[1, 0], [1, 1]]).to(dtype)
    other = one.clone()
    other[0, 1] = 1
    assert bit_sums([one]) == bit_sums([one.t().clone().t()])  # wherever in memory the numbers stand
    assert bit_sums([one]) != bit_sums([other])
    assert bit_sums([one]) != bit_sums([one.t()])  # two have changed places


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("other", [[1.5, 0.75, 1], [-1, -1, 1], [1, -1, -1]])
def test_changes_whose_bits_sum_up_to_nothing_are_seen(dtype: torch.dtype, other: list[float]) -> None:
    assert bit_sums([torch.ones(3, dtype=dtype)]) != bit_sums([torch.tensor(other, dtype=dtype)])


def test_each_place_of_a_long_tensor_counts() -> None:
    long = torch.zeros(2 * _BLOCK + 1, dtype=torch.int32)
    found = set()
    for place in (0, 1, _BLOCK - 1, _BLOCK, 2 * _BLOCK - 1, 2 * _BLOCK):
        changed = long.clone()
        changed[place] = 1
        found |= set(bit_sums([changed]))
    assert len(found) == 6 and 0 not in found
    assert bit_sums([long[:0]]) == [0]


def test_who_differs() -> None:
    assert who_differs([5, 5, 5]) == []
    assert who_differs([5, 6, 5]) == [1]
    assert who_differs([6, 5, 5]) == [0]
    assert who_differs([5, 6]) == [1]


@pytest.mark.parametrize("wrong", [{"every": 0}, {"timeout": 0.5}])
def test_arguments_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least 1 each"):
        ReplicaCheck(nn.Linear(1, 1), **wrong)  # type: ignore[arg-type]
