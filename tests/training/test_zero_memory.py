"""What is alive in a step of stage 3, counted, against the plan of the step; the memory of a process; the picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import pytest
import torch
from torch import nn

from distlib import Communicator, SimulatedWorld, World
from distlib.draw import memory_over_time
from distlib.training.zero import (
    FlatLayout,
    FullyShardedModule,
    MemoryAccount,
    Sample,
    ShardedOptimizer,
    UnitAction,
    return_large_blocks,
    step_plan,
    whole_units,
)
from distlib.training.zero.shard_unit import BUFFERS, GRADIENTS, PARAMETERS
from distlib.training.zero.step_plan import AVERAGE, BACKWARD, FREE, GATHER
from tests.tools.draw_samples import texts

RANKS = 3
KINDS = (PARAMETERS, GRADIENTS, BUFFERS)


class Layers(nn.Module):
    """Linear layers from one width to the next; with a scale of its own, which is then the root's unit."""

    def __init__(self, widths: Sequence[int], with_root: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in zip(widths, widths[1:], strict=False))
        self.scale = nn.Parameter(torch.ones(widths[-1])) if with_root else 1.0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = torch.tanh(layer(inputs))
        return inputs * self.scale


def samples_of_a_step(comm: Communicator, widths: Sequence[int], with_root: bool, options: dict[str, Any]) -> Any:
    """Of the second step; the lengths of the units; and the bytes of the largest gradient of a parameter."""
    module = Layers(widths, with_root)
    largest = max(parameter.numel() for parameter in module.parameters())
    model = FullyShardedModule(comm, module, units=module.layers, **options)
    itemsize = model.units[0].whole.itemsize
    for _ in range(2):
        model.zero_grad()
        with MemoryAccount(comm, model) as account:
            model(torch.ones(2, widths[0])).sum().backward()
    return account.samples, [unit.layout.length for unit in model.units], largest * itemsize


def most(samples: Sequence[Sample], kinds: Sequence[str]) -> int:
    return max(sum(sample.bytes[kind] for kind in kinds) for sample in samples)


def most_of_plan(plan: Sequence[UnitAction], unit_lengths: Sequence[int], itemsize: int = 4) -> dict[str, int]:
    """The most bytes of parameters, of gradients and of buffers in a step, and of all three "together" at one moment.

    Parameters are computed with in numbers of `itemsize` bytes. Shards, gradients and buffers have numbers of 4 bytes;
    where that is not the same, shards are states of the optimizer and not counted.
    """
    shards = [FlatLayout({"unit": (length,)}, RANKS).shard_length for length in unit_lengths]
    alive = {PARAMETERS: 4 * sum(shards) if itemsize == 4 else 0, GRADIENTS: 0, BUFFERS: 0}
    peak = {**alive, "together": 0}
    for kind, unit in plan:
        whole = shards[unit] * RANKS
        if kind == BACKWARD:
            alive[BUFFERS] += 4 * whole
        elif kind in (GATHER, FREE):
            alive[PARAMETERS] += (1 if kind == GATHER else -1) * itemsize * whole
        elif kind == AVERAGE:
            alive[BUFFERS] -= 4 * whole
            alive[GRADIENTS] += 4 * shards[unit]
        peak = {name: max(most, alive.get(name, sum(alive.values()))) for name, most in peak.items()}
    return peak


MODELS = {"alike": (8, 8, 8, 8, 8), "one large": (2, 3, 20, 5, 2), "growing": (2, 4, 8, 16, 32), "two": (5, 6, 7)}
OPTIONS: dict[str, dict[str, Any]] = {
    "prefetch": {},
    "no prefetch": {"prefetch": False},
    "kept after forward": {"reshard_after_forward": False},
    "bfloat16": {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32},
}


@pytest.mark.parametrize("with_root", [pytest.param(False, marks=pytest.mark.slow), True], ids=["", "root"])
@pytest.mark.parametrize(
    ("model", "way"), [*((model, "prefetch") for model in MODELS), *(("one large", way) for way in list(OPTIONS)[1:])]
)
def test_the_peak_is_that_of_the_plan(model: str, way: str, with_root: bool) -> None:
    widths, options = MODELS[model], OPTIONS[way]
    itemsize = options.get("param_dtype", torch.float32).itemsize
    chosen = {key: value for key, value in options.items() if not key.endswith("_dtype")}
    for found in SimulatedWorld(RANKS, contexts="threads").run(samples_of_a_step, widths, with_root, options):
        samples, lengths, one_gradient = found
        plan = step_plan(len(lengths), root=with_root, **chosen)
        peak = most_of_plan(plan, lengths, itemsize)
        assert most(samples, [PARAMETERS]) == peak[PARAMETERS]
        assert most(samples, [BUFFERS]) == peak[BUFFERS]
        assert peak[GRADIENTS] <= most(samples, [GRADIENTS]) <= peak[GRADIENTS] + one_gradient
        assert peak["together"] <= most(samples, KINDS) <= peak["together"] + one_gradient


@pytest.mark.parametrize(("prefetch", "units"), [(True, 2), (False, 1)])
def test_shards_and_whole_units_are_all_that_there_is(prefetch: bool, units: int) -> None:
    shard, number = 10, 6
    plan = step_plan(number, reshard_after_forward=True, prefetch=prefetch)
    peak = most_of_plan(plan, [shard * RANKS] * number)
    assert whole_units(plan) == units
    assert peak[PARAMETERS] == 4 * shard * (number + units * RANKS)
    assert peak[BUFFERS] == 4 * shard * 2 * RANKS
    assert peak[GRADIENTS] == 4 * shard * number


# ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────


def process_bytes() -> int:
    """The physical memory that this process has now."""
    return int(psutil.Process().memory_info().rss)


def bytes_before_and_after(comm: Communicator, nbytes: int) -> tuple[int, int, int, bool]:
    """Resident memory before, with and after blocks of 1 MiB that are freed in the order in which they were made."""
    given_back = return_large_blocks()
    before = process_bytes()
    blocks = [torch.ones(2**18) for _ in range(nbytes >> 20)]
    full = process_bytes()
    blocks.clear()
    return before, full, process_bytes(), given_back


def test_freed_blocks_go_back_to_the_system() -> None:
    nbytes = 64 << 20
    with World(1) as world:
        before, full, after, given_back = world.run(bytes_before_and_after, nbytes)[0]
    assert full - before >= nbytes
    if given_back:
        assert full - after >= nbytes


def test_a_threshold_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 as threshold, got threshold=0"):
        return_large_blocks(0)


# ── the picture ──────────────────────────────────────────────────────────────────────────────────────────────────────


def account_of_a_phased_step(comm: Communicator, stage: int) -> list[Sample]:
    module: Any = Layers((8, 8, 8), False)
    if stage == 3:
        module = FullyShardedModule(comm, module, units=module.layers)
        optimizer: Any = torch.optim.Adam(module.parameters())
    else:
        optimizer = ShardedOptimizer(comm, module, torch.optim.Adam, units=module.layers)
    with MemoryAccount(comm, module, optimizer) as account:
        loss = module(torch.ones(2, 8)).sum()
        account.phase("backward")
        loss.backward()
        account.phase("step")
        optimizer.step()
    return account.samples


def test_a_picture_of_two_stages_says_their_peaks() -> None:
    world = SimulatedWorld(2, contexts="threads")
    accounts: Mapping[str, list[Sample]] = {
        f"stage {stage}": world.run(account_of_a_phased_step, stage)[0] for stage in (1, 3)
    }
    picture = memory_over_time(accounts, "Memory", "of one step", limit=10_000)
    found = texts(picture)
    assert {"Memory", "of one step", *KINDS, "optimizer states", "activations"} <= set(found)
    for name, samples in accounts.items():
        assert any(text.startswith(f"{name}: at most") for text in found)
        assert [sample.phase for sample in samples] == sorted(
            (sample.phase for sample in samples), key=["forward", "backward", "step"].index
        )
    assert {"backward", "step"} <= set(found), "the forward pass is too narrow for its name"


@pytest.mark.parametrize(
    ("accounts", "limit", "words"),
    [
        ({}, None, "expected 1 to 4 accounts, got 0"),
        ({"stage 1": []}, None, "stage 1: expected at least 2 samples"),
        ({"stage 1": [Sample("forward", 0.0, {PARAMETERS: 4})] * 2}, 0, "expected a limit above 0 bytes, got 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(accounts: dict[str, list[Sample]], limit: float | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        memory_over_time(accounts, "Memory", limit=limit)
