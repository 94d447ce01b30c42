"""Exercises 17 and 17b: two patients that neither hang nor fail, and compute something wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.rules.returns import shown
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.hang_clinic.checks import SUPPLIED, shapes, waiting
from distlib.exercises.hang_clinic.plays import COMPUTES, blend, call_with_comm
from distlib.network import Cluster, Link

say = Sentences(__file__)


# ── blend_with_next ──────────────────────────────────────────────────────────────────────────────────────────────────

SLOW = Link(latency=0.3 * COMPUTES, bandwidth=1e9)  # a message takes a third of the time that compute() takes


@task("comm", "own", "compute", helpers=SUPPLIED, errors=waiting(say("both_ways")), untouched=["own"])
def check_blend_with_next(draw: Draw, *, world_sizes: Sequence[int], dimensions: int = 1) -> Iterator[Case]:
    """`function(comm, own, compute)`: what `compute()` returns, plus what the next rank has.

    Args:
        world_sizes: numbers of ranks.
        dimensions: of the tensors, at most.
    """
    drawn = shapes(draw, ([ranks] for ranks in world_sizes), dimensions)
    for ranks, shape in zip(world_sizes, drawn, strict=True):
        inputs = [{"own": draw.normal(shape), "computed": draw.normal(shape)} for _ in range(ranks)]
        cluster = Cluster(1, ranks, intra=SLOW)
        yield Case(f"on {count(ranks, 'rank')}", blend, inputs, cluster=cluster)


@check_blend_with_next.judge
def _(seen: Seen) -> Remarks:
    own, computed = seen.given("own"), seen.given("computed")
    for rank in seen.ranks:
        found, next_rank, previous_rank = seen[rank]["returned"], (rank + 1) % seen.size, (rank - 1) % seen.size
        if isinstance(found, torch.Tensor) and found.isnan().any():
            yield say.remark("read_early", rank=rank)
        mistakes = {
            say("only_computed"): computed[rank],
            say("own_added"): computed[rank] + own[rank],
            say("of_previous"): computed[rank] + own[previous_rank] if seen.size > 2 else None,
            say("only_arrived"): own[next_rank],
        }
        otherwise = say("blends_nothing" if found is None else "sum_of_both")
        what, right = f"what rank {rank} returned", computed[rank] + own[next_rank]
        yield holds(what, found, right, mistakes, same=is_close, otherwise=otherwise)
    for rank in seen.ranks:
        if len(seen.passed(rank, 0)) != 1:
            yield say.remark("computes_once", rank=rank, found=count(len(seen.passed(rank, 0)), "time"))


@check_blend_with_next.judge_times
def _(seen: Seen) -> Remarks:
    for message in seen.trace:
        for rank in (message.src, message.dst):
            (done,) = seen.passed(rank, 0)
            if message.nbytes and message.taken >= done:
                yield say.remark("after_compute", rank=rank, src=message.src, dst=message.dst)
            if message.nbytes and message.end <= done - COMPUTES:
                yield say.remark("before_compute", rank=rank, src=message.src, dst=message.dst)


# ── start_alike ──────────────────────────────────────────────────────────────────────────────────────────────────────

WEIGHTS, NOISE = (4, 3), (6,)


@task("comm", "seed", helpers=SUPPLIED, errors=waiting(say("all_broadcast")))
def check_start_alike(draw: Draw, *, world_sizes: Sequence[int], seeds: int = 10**6) -> Iterator[Case]:
    """`function(comm, seed)` returns weights, alike on all ranks, and noise that differs.

    seeds: all of them are below it.
    """
    for ranks in world_sizes:
        inputs = [{"seed": seed} for seed in draw.sample(range(seeds), ranks)]
        yield Case(f"on {count(ranks, 'rank')}", call_with_comm, inputs)


@check_start_alike.judge
def _(seen: Seen) -> Remarks:
    drawn = [_drawn(seed) for seed in seen.given("seed")]
    for rank in seen.ranks:
        found = seen[rank]["returned"]
        if not isinstance(found, tuple | list) or len(found) != 2:
            yield say.remark("two_tensors", rank=rank, found=shown(found))
            return
    for rank in seen.ranks:
        weights = torch.stack([own for own, _ in drawn])
        mistakes = {
            say("own_weights"): weights[rank],
            say("averaged_weights"): weights.mean(0),
            say("summed_weights"): weights.sum(0),
        }
        what, found, otherwise = f"on rank {rank} the weights", seen[rank]["returned"][0], say("weights_of_rank_0")
        yield holds(what, found, weights[0], mistakes, is_wrong=" are wrong.", same=_close, otherwise=otherwise)
    for rank in seen.ranks:
        wrong_noise = {say("noise_of_rank_0"): drawn[0][1] if rank else None, say("fresh_noise"): _fresh(seen, rank)}
        found = seen[rank]["returned"][1]
        what = f"on rank {rank} the noise"
        yield holds(what, found, drawn[rank][1], wrong_noise, same=_close, otherwise=say("own_noise"))


def _drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(WEIGHTS, generator=generator), torch.rand(NOISE, generator=generator)


def _fresh(seen: Seen, rank: int) -> torch.Tensor:
    """The noise of a generator that has not drawn weights before."""
    return torch.rand(NOISE, generator=torch.Generator().manual_seed(seen.case.inputs[rank]["seed"]))


def _close(found: Any, right: Any) -> bool:
    return is_close(found, right, relative=1e-5, absolute=1e-6)
