# %% [markdown]
# # ZeRO and FSDP: who holds each byte
#
# Eight GPUs train one model with DDP. Each of them keeps the same weights, the same gradients and the same optimizer
# states: 16 bytes for every parameter, eight times. Seven of the eight copies exist only to be equal to the first. What
# if every GPU kept an eighth?
#
# > After this lesson you will be able to
# >
# > - say what the 16 bytes are that training keeps for each parameter, and which rank needs which of them when,
# > - shard optimizer states, gradients and parameters, and count what that saves and what it sends,
# > - say what is alive at each moment of a training step, and why the process may still seem as large as before,
# > - trade computing for memory, and messages for memory,
# > - say when *not* to shard,
# > - read torch's `fully_shard` like your own code.
# >
# > **Time:** about 130 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [DDP](05_ddp.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu

from distlib import (
    Cluster,
    Communicator,
    Link,
    RankError,
    SimulatedWorld,
    World,
    all_gather,
    all_reduce,
    reduce_scatter,
    torch_distributed,
)
from distlib.draw import memory_over_time, memory_parts, predict, sweep
from distlib.training import zero
from distlib.training.datasets import digits
from distlib.training.ddp import DistributedDataParallel

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64

# %% [markdown]
# ## Sixteen bytes
#
# In DDP every rank has the whole model. That sounds like one copy per rank. Let us look at what a rank really keeps.
#
# Large models are trained in *mixed precision*. They compute in bfloat16, two bytes per number, since that is fast. But
# bfloat16 has only 8 binary digits. Suppose that a weight is 1.0, and that an optimizer adds 0.001 to it, 1,000 times.

# %%
guess_1 = predict("A bfloat16 weight is 1.0. 0.001 is added 1,000 times. It is then …")

# %%
weight = torch.ones((), dtype=torch.bfloat16)
for _ in range(1000):
    weight += 0.001
print(guess_1.compare(weight.item()))
assert weight == 1.0 and torch.finfo(torch.bfloat16).eps == 2**-7

# %% [markdown]
# Nothing has happened. The next number after 1.0 is 1.0078, and 1.001 is nearer to 1.0. So the optimizer needs the
# weights in float32, where small steps add up. It updates these, and the model gets a copy in bfloat16. Adam, which
# trains most large models, keeps two more numbers for each weight: the mean of its gradients, and the mean of their
# squares. Both are in float32.
#
# Let us add up, for real tensors.

# %%
guess_2 = predict(
    "Of all that training keeps, which part is the model that it computes with?",
    unit="percent",
)

# %%
model = nn.Linear(100, 100, bias=False, dtype=torch.bfloat16)
master = nn.Parameter(model.weight.detach().float())  # what the optimizer updates
adam = torch.optim.Adam([master])
model(torch.ones(1, 100, dtype=torch.bfloat16)).sum().backward()
master.grad = model.weight.grad.float()  # for a moment
adam.step()
master.grad = None
kept = {
    "weights, bfloat16": model.weight,
    "gradients, bfloat16": model.weight.grad,
    "weights, float32": master,
    "mean of gradients": adam.state[master]["exp_avg"],
    "mean of squares": adam.state[master]["exp_avg_sq"],
}
for name, tensor in kept.items():
    print(f"{name:20} {tensor.nbytes / 10_000:2.0f} bytes per parameter")
total = sum(tensor.nbytes for tensor in kept.values()) / 10_000
print(f"together             {total:.0f}")
print(guess_2.compare(model.weight.nbytes / 10_000 / total * 100))
assert total == 16 and model.weight.nbytes / 10_000 == 2

# %% [markdown]
# One eighth. Sixteen bytes per parameter, of which the model is two. The last three are called the *optimizer states*:
# 12 bytes. (Without mixed precision all is in float32: 4 for the weight, 4 for the gradient, 8 for Adam. Again 16. The
# memory that mixed precision saves is elsewhere: in the activations. And torch's DDP has buckets besides, by default as
# large as all gradients together: they are not in the 16.)
#
# A model of 7.5 billion parameters has 15 GB. Training it with DDP takes 120 GB on *each* rank, and each rank has
# the same bytes as all others. That is what ZeRO, the *Zero Redundancy Optimizer*, does away with. Each rank keeps its
# own **shard** of what all would keep alike, one $N$-th, in three stages:
#
# | stage | sharded | each rank keeps, in bytes per parameter |
# |---|---|---|
# | 0, which is DDP | nothing | $2 + 2 + 12$ |
# | 1 | optimizer states | $2 + 2 + 12/N$ |
# | 2 | and gradients | $2 + 2/N + 12/N$ |
# | 3 | and parameters | $2/N + 2/N + 12/N$ |

# %%
guess_3 = predict(
    "7.5 billion parameters, 64 ranks. Stage 1 alone: from 120 GB on each rank to …",
    unit="GB",
)

# %%
by_stage = zero.memory_by_stage(7_500_000_000, 64)
gigabytes = [sum(kinds.values()) / 1e9 for kinds in by_stage]
print("GB at stages 0 to 3:", ", ".join(f"{each:.2f}" for each in gigabytes))
print(guess_3.compare(round(gigabytes[1], 1)))
memory_parts(
    {f"stage {stage}": [kinds] for stage, kinds in enumerate(by_stage)},
    title="What one of 64 ranks keeps",
    subtitle="7.5 billion parameters, Adam in mixed precision",
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert [f"{each:.3g}" for each in gigabytes] == ["120", "31.4", "16.6", "1.88"]
assert 7.5e9 * 2 == 15e9
many = [
    sum(kinds.values()) / 7.5e9 for kinds in zero.memory_by_stage(7_500_000_000, 4096)
]
assert [round(each, 1) for each in many] == [16, 4.0, 2.0, 0.0]
few = [sum(kinds.values()) / 7.5e9 for kinds in zero.memory_by_stage(7_500_000_000, 4)]
assert few == [16, 7, 5.5, 4]

# %% [markdown]
# (The picture counts in GiB, of 2³⁰ bytes, as torch's reports do: 120 GB are 111.8 GiB.)
#
# The first step is the largest. It takes away 12 of 16 bytes where there are many ranks. Stage 2 takes two more, and
# only stage 3 has no floor: with more and more ranks the others go to 4 and to 2 bytes per parameter.
#
# ## Stage 1: an all-reduce with a pause
#
# A ring all-reduce has two halves: a reduce-scatter and an all-gather. After the first half each rank has the complete
# sum of *one shard*, and nothing else that is complete. In DDP the second half spreads these sums. Then every rank
# makes the same update, with the same numbers.
#
# ZeRO puts the optimizer between the halves:
#
#     DDP       reduce-scatter ──► all-gather of gradients ──► update of all weights, on every rank
#     stage 1   reduce-scatter ──► update of one shard ──► all-gather of new weights
#
# Here it is for 10 weights on 4 ranks, with momentum as the optimizer. 10 is not divisible by 4, so two zeros are
# added at the end.

# %%
LENGTH, RATE, MOMENTUM = 10, 0.1, 0.9


def gradient_of(rank: int, step: int, weights: torch.Tensor) -> torch.Tensor:
    """Anything that depends on the weights, and differs from rank to rank."""
    return torch.sin(weights * (rank + 1) + step)


def three_steps(comm: Communicator) -> tuple[torch.Tensor, int]:
    """The weights after three steps, and the bytes of momentum that this rank has."""
    ranks = comm.world_size
    padded = -(-LENGTH // ranks) * ranks
    weights = torch.zeros(padded, dtype=DOUBLE)
    weights[:LENGTH] = torch.arange(LENGTH)
    mine = weights.chunk(ranks)[comm.rank]  # a view: to update it is to update weights
    momentum = torch.zeros_like(mine)  # for the shard, and for nothing else
    for step in range(3):
        gradients = torch.zeros_like(weights)
        gradients[:LENGTH] = gradient_of(comm.rank, step, weights[:LENGTH])
        reduce_scatter(comm, gradients)
        average = gradients.chunk(ranks)[comm.rank] / ranks
        momentum.mul_(MOMENTUM).add_(average)
        mine -= RATE * momentum
        all_gather(comm, weights)
    return weights[:LENGTH], momentum.nbytes


# %% [markdown]
# And what would one process compute that has the gradients of all four?

# %%
alone, momentum = torch.arange(LENGTH, dtype=DOUBLE), torch.zeros(LENGTH, dtype=DOUBLE)
for step in range(3):
    average = sum(gradient_of(rank, step, alone) for rank in range(4)) / 4
    momentum = MOMENTUM * momentum + average
    alone = alone - RATE * momentum

four = SimulatedWorld(4)
for weights, nbytes in four.run(three_steps):
    assert (weights - alone).abs().max() < 1e-12
    print(f"the same weights; {nbytes} bytes of momentum instead of {momentum.nbytes}")
print("bytes sent per rank:", four.trace.bytes_sent)
all_reduced = SimulatedWorld(4)
all_reduced.run(
    lambda comm: [all_reduce(comm, torch.zeros(12, dtype=DOUBLE)) for _ in "123"]
)
print("three all-reduces:  ", all_reduced.trace.bytes_sent)
assert four.trace.bytes_sent == all_reduced.trace.bytes_sent == [3 * 2 * 9 * 8] * 4

# %% [markdown]
# The same weights, a quarter of the momentum (and of the work of the update), and not one byte more on the network.
# Stage 1 costs nothing in bytes, but for padding.
#
# ### What may be cut, and where
#
# A shard may begin in the middle of a matrix. So the optimizer must work on each number by itself, as SGD, Adam and
# AdamW do. Others can't be cut like this: Adafactor keeps one number per row and per column of a matrix, and Muon
# multiplies whole matrices. Our classes try an optimizer out first:

# %%
for name in ("AdamW", "Adafactor"):
    try:
        zero.check_elementwise(getattr(torch.optim, name), lr=0.01)
        print(f"{name}: can be sharded")
    except ValueError as error:
        print(error)
        assert name != "AdamW"

# %% [markdown]
# Why not deal out whole tensors instead, as one deals cards? Then Adafactor would do, too, and any other optimizer that
# looks at one tensor at a time. And there would be no padding. GPT-2 has 148 tensors. We give each to the rank that has
# the least so far, the largest tensors first.

# %%
F = 768
attention = [F, F, F * 3 * F, 3 * F, F * F, F]  # with the norm before it
mlp = [F, F, F * 4 * F, 4 * F, 4 * F * F, F]
sizes = [50_257 * F, 1024 * F, *(attention + mlp) * 12, F, F]
print(f"{len(sizes)} tensors, {sum(sizes) / 1e6:.1f} million parameters")

# %%
guess_4 = predict(
    "Of GPT-2's 124 million parameters, 8 ranks should have 12.5 % each. "
    "The rank with the most has …",
    unit="percent",
)


# %%
def deal(sizes: Sequence[int], ranks: int) -> list[int]:
    """How many parameters each rank has, if whole tensors are dealt out."""
    loads = [0] * ranks
    for size in sorted(sizes, reverse=True):
        loads[loads.index(min(loads))] += size
    return loads


for ranks in (2, 4, 8, 16):
    loads = deal(sizes, ranks)
    shares = [load / sum(sizes) for load in loads]
    print(f"{ranks:2} ranks: from {min(shares):5.1%} to {max(shares):5.1%}")
shares = [load / sum(sizes) for load in deal(sizes, 8)]
print(guess_4.compare(round(max(shares) * 100, 1)))

# %% tags=["folded"]
# Checks of the numbers above and below
assert sum(sizes) == 124_439_808 and len(sizes) == 148
assert abs(max(shares) - 50_257 * F / sum(sizes)) < 1e-9 and 0.30 < max(shares) < 0.32

# %% [markdown]
# The embedding of the words is one tensor: 31 % of the model. Whoever gets it has at least 31 %, however many ranks
# there are. And the step takes as long as the slowest rank. So ZeRO joins tensors to one flat buffer, cuts this into
# $N$ equal pieces, and does not care where a tensor ends.
#
# ## One model, four ways
#
# Now a real model, small enough to be watched: it reads images of digits. Between a first and a last layer stand four
# blocks. The library's classes do the sharding, and their code is short: `ShardedOptimizer` is stage 1,
# `ShardedGradients` stage 2, `FullyShardedModule` stage 3. They shard a model *unit* by unit. A **unit** is some
# parameters that share a flat buffer. Here each block is a unit, and what is in none of the blocks forms a fifth, the
# *root's*.


# %%
class Block(nn.Module):
    """An MLP whose result is added to its input."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(gelu(self.up(x)))


class Reader(nn.Module):
    """[images, 64] → [images, 10]"""

    def __init__(self, features: int = 30, blocks: int = 4, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.below = nn.Linear(64, features)
        self.blocks = nn.ModuleList(Block(features) for _ in range(blocks))
        self.above = nn.Linear(features, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.below(images)
        for block in self.blocks:
            x = block(x)
        return self.above(x)


train_set, _ = digits()
images, labels = train_set.images.flatten(1), train_set.labels


# %%
def sharded(
    comm: Communicator, stage: int, model: nn.Module, **options: Any
) -> tuple[Any, Any]:
    """The model as it is called in this stage, and its optimizer."""
    if stage == 3:
        model = zero.FullyShardedModule(comm, model, units=model.blocks, **options)
        return model, torch.optim.AdamW(model.parameters(), lr=0.003)
    if stage == 0:
        model = DistributedDataParallel(comm, model)
        return model, torch.optim.AdamW(model.parameters(), lr=0.003)
    kind = zero.ShardedOptimizer if stage == 1 else zero.ShardedGradients
    optimizer = kind(
        comm, model, torch.optim.AdamW, units=model.blocks, lr=0.003, **options
    )
    return model, optimizer


def train(
    comm: Communicator, stage: int, steps: int = 10, batch: int = 60, **options: Any
) -> dict[str, torch.Tensor]:
    """The weights after some steps; each rank has its part of every batch."""
    model, optimizer = sharded(comm, stage, Reader().double(), **options)
    for step in range(steps):
        own = slice(step * batch + comm.rank, (step + 1) * batch, comm.world_size)
        optimizer.zero_grad()
        cross_entropy(model(images[own].double()), labels[own]).backward()
        optimizer.step()
    return {name: each.clone() for name, each in model.state_dict().items()}


# %% [markdown]
# First of all: do they compute the same? One process trains with the whole batch, and two to five ranks with their
# parts of it. No unit's number of parameters is divisible by all of these, so there is padding. Each
# rank has as many samples as any other.

# %%
one = Reader().double()
adamw = torch.optim.AdamW(one.parameters(), lr=0.003)
for step in range(10):
    batch = slice(step * 60, (step + 1) * 60)
    adamw.zero_grad()
    cross_entropy(one(images[batch].double()), labels[batch]).backward()
    adamw.step()


def off(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """The largest difference of any weight."""
    return max(float((found[name] - wanted[name]).abs().max()) for name in wanted)


def world_of(ranks: int) -> SimulatedWorld:
    return SimulatedWorld(ranks, contexts="threads")  # they send inside backward


for stage in range(4):
    errors = [
        max(off(found, one.state_dict()) for found in world_of(ranks).run(train, stage))
        for ranks in (2, 3, 4, 5)
    ]
    print(f"stage {stage}: at most {max(errors):.0e} off, on 2, 3, 4 and 5 ranks")
    assert max(errors) < 1e-9

# %% [markdown]
# The same weights, to rounding, after 10 steps of AdamW. Sharding changes where numbers are, and not which.
#
# And what do they send? At stage 3 no rank has the weights it needs. It must gather them before the forward pass. And,
# since it then frees them, once more before the backward pass.

# %%
guess_5 = predict(
    "The bytes that a rank sends in one step: how many times as many at stage 3 as in DDP?",
    unit="times",
)

# %%
sent = {}
for stage in range(4):
    options = {"reshard_after_forward": True} if stage == 3 else {}
    world = world_of(4)
    by_steps = []
    for steps in (0, 4):
        world.run(train, stage, steps, **options)
        by_steps.append(sum(world.trace.bytes_sent))
    sent[stage] = (by_steps[1] - by_steps[0]) / 16  # 4 ranks, 4 steps
    print(f"stage {stage}: {sent[stage]:10,.0f} bytes per rank and step")
print(guess_5.compare(round(sent[3] / sent[0], 2)))

# %% tags=["folded"]
# Checks of what is said below
numbers = sum(each.numel() for each in one.parameters())
assert abs(sent[0] / (2 * 3 / 4 * numbers * 8) - 1) < 0.01
assert abs(sent[1] / sent[0] - 1) < 0.01 and sent[2] == sent[1]
assert abs(sent[3] / sent[0] - 1.5) < 0.01

# %% [markdown]
# 1.5 times. In units of $\frac{N-1}{N}$ times the bytes of the model, DDP sends one for the reduce-scatter and one for
# the all-gather of its all-reduce. Stage 3 gathers parameters twice and scatters gradients once. That makes three. So
# stage 3 makes room for up to $N$ times as many parameters, and sends only half as much again for each of them. (Where
# parameters are bfloat16 and gradients are reduced in float32, it is 2 + 2 + 4 bytes per parameter, against 4 + 4 for
# DDP in float32, or 2 + 2 for DDP that reduces in bfloat16.)
#
# **Try it.** Gather in bfloat16: `param_dtype=torch.bfloat16`. The shards stay in float64 here, and so do the sums of
# the gradients. How many bytes does a step send then, as a fraction of those above? Guess, then change the line. And
# how far are the weights from those of one process?

# %%
world, changed = world_of(4), dict(reshard_after_forward=True)  # add to this dict
world.run(train, 3, 0, **changed)
before = sum(world.trace.bytes_sent)
world.run(train, 3, 4, **changed)
print(f"{(sum(world.trace.bytes_sent) - before) / 16:,.0f} bytes per rank and step")
away = off(world.run(train, 3, **changed)[0], one.state_dict())
print(f"the weights are {away:.0e} off")

# %% tags=["folded"]
# One way to do it
changed["param_dtype"] = torch.bfloat16
world.run(train, 3, 0, **changed)
before = sum(world.trace.bytes_sent)
world.run(train, 3, 4, **changed)
now = (sum(world.trace.bytes_sent) - before) / 16
away = off(world.run(train, 3, **changed)[0], one.state_dict())
print(f"{now:,.0f} bytes, {now / sent[3]:.0%} as many; the weights are {away:.0e} off")
# Two of three parts have a quarter of the bytes: (2/4 + 1)/3. The shards are exact,
# and yet the gradients come from rounded weights and activations.
assert abs(now / sent[3] - 0.5) < 0.01 and 1e-4 < away < 0.1

# %% [markdown]
# ## Stage 2: gradients leave at once
#
# At stage 1 each rank has a whole gradient in the end, and needs only its shard. Stage 2 does not wait for the end.
# The backward pass goes from the last unit to the first. As soon as a unit has all its gradients, they are reduced
# and scattered, and the whole ones are freed:
#
#     backward          unit 3    unit 2    unit 1    unit 0
#     reduce-scatter              unit 3    unit 2    unit 1    unit 0
#
# Not one byte more than at stage 1 is sent, as you have seen. So is there any reason to stop at stage 1? There is:
# *gradient accumulation*. Suppose that a step adds up the gradients of 4 microbatches, parts of a batch that go through
# the model one by one. At stage 1 they add up on each rank, whole, and are sent once. At stage 2 there is no place for
# a whole gradient. Each microbatch's must be sent.

# %%
guess_6 = predict(
    "A step of 4 microbatches. Stage 2 sends how many times as many bytes as stage 1?",
    unit="times",
)


# %%
def accumulate(comm: Communicator, stage: int, microbatches: int, steps: int) -> None:
    model, optimizer = sharded(comm, stage, Reader().double())
    for _ in range(steps):
        optimizer.zero_grad()
        for number in range(microbatches):
            own = slice(20 * number + comm.rank, 20 * (number + 1), comm.world_size)
            loss = cross_entropy(model(images[own].double()), labels[own])
            (loss / microbatches).backward()
        optimizer.step()


accumulated = {}
for stage in (1, 2):
    world = world_of(4)
    by_steps = []
    for steps in (0, 1):
        world.run(accumulate, stage, 4, steps)
        by_steps.append(world.trace.bytes_sent[0])
    accumulated[stage] = by_steps[1] - by_steps[0]
    print(f"stage {stage}: {accumulated[stage]:9,} bytes per rank and step")
print(guess_6.compare(round(accumulated[2] / accumulated[1], 2)))
assert accumulated[2] == 2.5 * accumulated[1]

# %% [markdown]
# Four reduce-scatters and one all-gather, against one of each: $(m + 1)/2$ for $m$ microbatches. So those who
# accumulate often stop at stage 1. Or they keep whole gradients until the last microbatch. `no_sync()` of stage 3 does
# that, and then it has the memory of whole gradients as long as they accumulate.
#
# ## Stage 3: a unit at a time
#
# Now the parameters. A rank has a shard of each. To compute, it needs whole ones, but not all at the same time:
#
#     forward     gather 0 │ compute 0 │ compute 1 │ compute 2 │
#                          │ gather 1  │ gather 2  │           │
#
# A unit is gathered, used and freed. While it computes, the next one is gathered already: it is *prefetched*. In the
# backward pass the same happens from the last to the first.
#
# So how many all-gathers does a step make? That depends on one argument, which torch calls `reshard_after_forward`. It
# says whether a unit is freed after its forward pass. Ours has three of torch's values: `True`, `False`, and `None`,
# the default, which frees all units but the root's.

# %%
guess_7 = predict(
    "Five units, one of them the root's. How many all-gathers does a step make with the default?",
    unit="all-gathers",
)

# %%
WAYS = {"True": True, "None": None, "False": False}


def count(world: SimulatedWorld, kind: str) -> float:
    """How many such collectives rank 0 took part in, for units. A ring sends 3 messages
    from each of 4 ranks."""
    calls = [each.site.call or "" for each in world.trace if each.src == 0]
    return sum(call.startswith(f"{kind} of unit") for call in calls) / 3


world, gathers, scatters = world_of(4), {}, {}
for name, reshard in WAYS.items():
    world.run(train, 3, 1, reshard_after_forward=reshard)
    gathers[name] = count(world, "all_gather")
    scatters[name] = count(world, "reduce_scatter")
    print(
        f"{name:5}: {gathers[name]:2.0f} all-gathers, {scatters[name]:.0f} reduce-scatters"
    )
print(guess_7.compare(gathers["None"]))
assert list(gathers.values()) == [10, 9, 5] and set(scatters.values()) == {5}

# %% [markdown]
# Nine: two for each block, and one for the root, which is needed last in the forward pass and first in the backward
# pass. With `False` each unit stays whole from its forward pass to its backward pass. That is one all-gather per
# unit. So with one backward pass per step it *sends* what stage 2 sends, and what DDP sends. Between steps it *keeps*
# what stage 3 keeps.
#
# A step of stage 3 is so regular that it can be written down before it runs, as a list of actions. G begins to gather a
# unit, W waits for it, F and B compute, X frees, R begins a reduce-scatter, A waits for its average.

# %%
plan = zero.step_plan(3, reshard_after_forward=True)
print(*plan)
print("at most", zero.whole_units(plan), "units whole at the same time")
for units in (2, 3, 10, 50):
    for prefetch in (True, False):
        plan = zero.step_plan(units, reshard_after_forward=True, prefetch=prefetch)
        assert zero.whole_units(plan) == (2 if prefetch else 1)

# %% [markdown]
# Two units are whole, the one that computes and the next, however many there are. (The root's unit, where there is one,
# is a third: it is whole from beginning to end of each pass.) So the parameters that are
# whole do not grow with the depth of the model.
#
# ## What is alive, and when
#
# We have counted what is *sent*. Now what is *there*. `MemoryAccount` looks at a rank's live tensors after every
# operation of torch, and says what kind each is. Nothing is estimated. We take wider blocks, train two steps (the first
# one makes the optimizer's states) and look at the second.


# %%
WIDE = 120


def account_of(
    comm: Communicator,
    stage: int,
    make: Callable[[], nn.Module],
    batch: int = 16,
    limit: float | None = None,
) -> list[zero.Sample]:
    """What is alive on rank 0 in the second step."""
    model, optimizer = sharded(comm, stage, make())
    own = slice(comm.rank * batch, (comm.rank + 1) * batch)
    for step in range(2):
        optimizer.zero_grad()
        account = zero.MemoryAccount(comm, model, optimizer, limit=limit)
        watched = comm.rank == 0 and (step == 1 or limit is not None)
        with account if watched else nullcontext():
            loss = cross_entropy(model(images[own]), labels[own])
            account.phase("backward")
            loss.backward()
            account.phase("step")
            optimizer.step()
    return account.samples


# %%
guess_8 = predict(
    "Four ranks. The most bytes that are alive at stage 3, as a fraction of those in DDP:",
    unit="percent",
)

# %%
wide = partial(Reader, WIDE, blocks=8)
accounts = {
    f"stage {stage}": world_of(4).run(account_of, stage, wide)[0] for stage in range(4)
}
peaks = {
    name: max(each.total for each in samples) for name, samples in accounts.items()
}
for name, peak in peaks.items():
    print(f"{name}: at most {peak / 1e6:5.2f} MB")
print(guess_8.compare(round(peaks["stage 3"] / peaks["stage 0"] * 100)))
memory_over_time(
    accounts,
    title="What is alive on rank 0 of 4 during a training step",
    subtitle="from left to right, a step for each change",
)

# %% tags=["folded"]
# Checks of what is said below
kept = {name: samples[0].bytes for name, samples in accounts.items()}
shares = [peaks[f"stage {stage}"] / peaks["stage 0"] for stage in range(4)]
assert 0.55 < shares[1] < 0.65 and 0.42 < shares[2] < 0.52 and 0.3 < shares[3] < 0.4
unit = max(sum(each.numel() for each in block.parameters()) for block in wide().blocks)
own = -(-unit // 4) * 4
for sample in accounts["stage 3"]:
    extra = sample.bytes["parameters"] - kept["stage 3"]["parameters"]
    assert (
        extra <= 2 * own * 4 + wide().below.weight.nbytes * 2
    )  # two blocks and the root

# %% [markdown]
# Read the picture from the left. In DDP parameters and optimizer states are there all the time, and gradients pile up
# in the backward pass. At stage 1 the states have shrunk to a quarter. At stage 2 gradients no longer pile up: a unit's
# come and go. At stage 3 the parameters come and go, too, a unit or two at a time, and the root's. (DDP's buckets count
# as activations here. They are the spike at the end of its backward pass. The text counts in MB, the picture in MiB.)
#
# By the table stage 3 keeps a quarter of what DDP keeps. The *peak* is higher, a good third here, since what is
# gathered at the moment, and the activations, come on top. With a deeper model a unit is a smaller part, and with as
# few images per rank as here the peak then comes near a quarter. (With many images the activations decide, and they
# grow with the depth as well.) That is why the choice of units matters: one unit for all would be gathered whole.
#
# **Try it.** Make the whole model one unit: pass `units=[]` to `FullyShardedModule`, so that all is the root's. Guess
# the peak first, as a fraction of DDP's.


# %% tags=["folded"]
# How it is measured, with all blocks as units or with none
def peak_of(units: str) -> int:
    """The peak of stage 3 on rank 0; units: "blocks" or "none"."""

    def step(comm: Communicator) -> int:
        model: Any = wide()
        chosen = model.blocks if units == "blocks" else []
        model = zero.FullyShardedModule(comm, model, units=chosen)
        optimizer = torch.optim.AdamW(model.parameters())
        for number in range(2):
            optimizer.zero_grad()
            account = zero.MemoryAccount(comm, model, optimizer)
            with account if number == 1 and comm.rank == 0 else nullcontext():
                cross_entropy(model(images[:16]), labels[:16]).backward()
                optimizer.step()
        return account.peak.total if comm.rank == 0 else 0

    return world_of(4).run(step)[0]


# %%
print(f"{peak_of('blocks') / peaks['stage 0']:.0%} of DDP's peak")  # change the word

# %% tags=["folded"]
# One way to do it
coarse = peak_of("none") / peaks["stage 0"]
print(f"{coarse:.0%} of DDP's peak")
# All parameters and all gradients are whole at the end of the backward pass
assert 0.6 < coarse < 1

# %% [markdown]
# ## The other axis: activations
#
# ZeRO shards what all ranks keep alike. Activations are not alike: each rank has those of its own samples. So ZeRO
# leaves them as they are. Until now we had 16 samples per rank. With more, they are most of the memory.
#
# **Activation checkpointing** is the remedy for these. A block keeps its input and forgets all that it computes inside.
# In the backward pass it computes its forward pass once more. Memory is bought with computing.
#
# A backward pass computes about twice as much as a forward pass: for each matrix a product for the gradient of the
# inputs, and one for that of the weights.

# %%
guess_9 = predict(
    "All blocks are checkpointed. How much more does a step compute?", unit="percent"
)

# %%
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode


class CheckpointedReader(Reader):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.below(images)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.above(x)


# %% tags=["folded"]
# Count the operations of a step
def operations(model: nn.Module) -> int:
    """Floating-point operations of a forward and a backward pass, counted by torch."""
    with FlopCounterMode(display=False) as counter:
        cross_entropy(model(images[:16]), labels[:16]).backward()
    return counter.get_total_flops()


# %%
plain = operations(Reader(WIDE, 8))
more = operations(CheckpointedReader(WIDE, 8)) / plain - 1
with set_checkpoint_early_stop(False):
    all_again = operations(CheckpointedReader(WIDE, 8)) / plain - 1
print(guess_9.compare(round(more * 100)))
print(f"without stopping early: {all_again:.0%}")

# %% [markdown]
# A forward pass is a third of a step. So if all of it is done again, that is a third more, or nearly so. But torch
# stops *early*: it computes a block again only until the last thing is there that the backward pass needs. The backward
# pass of `down` needs its input, and not its output. So the second of the two products is not done again, and it is
# one sixth. In a block whose last layer is small, it would be nearer to a third.
#
# What does it save?

# %%
both = {}
for kind in (Reader, CheckpointedReader):
    make = partial(kind, WIDE, blocks=8)
    both[kind.__name__] = world_of(2).run(account_of, 3, make, 400)[0]
peaks_of = {name: max(each.total for each in samples) for name, samples in both.items()}
less = peaks_of["CheckpointedReader"] / peaks_of["Reader"]
print(f"peak: {less:.0%} as many bytes")
memory_over_time(
    both,
    title="Stage 3 with 400 samples per rank, without and with checkpoints",
    subtitle="rank 0 of 2",
)

# %% tags=["folded"]
# Checks of what is said above and below
assert 0.15 < more < 0.18 and 0.3 < all_again < 0.34
kinds = max(both["Reader"], key=lambda each: each.total).bytes
assert kinds["activations"] > 0.6 * sum(kinds.values())
assert 0.45 < less < 0.6

# %% [markdown]
# Half of the peak, for a sixth more computing. Without checkpoints the activations grow through the whole forward pass
# and shrink through the backward pass. With them they stay low, and a small hill for one block comes and goes.
#
# Note what happens at stage 3: computing a block again needs its parameters, which are gathered for the backward
# pass anyway. Checkpoints around the same parts as the units cost no further all-gather.

# %% tags=["folded"]
# A count of the all-gathers, with and without checkpoints
gathered = {}
for kind in (Reader, CheckpointedReader):

    def one_step(comm: Communicator, kind: type[Reader] = kind) -> None:
        model, _ = sharded(comm, 3, kind())
        cross_entropy(model(images[:8]), labels[:8]).backward()

    world = world_of(4)
    world.run(one_step)
    gathered[kind.__name__] = count(world, "all_gather")
print(gathered)
assert gathered["CheckpointedReader"] == gathered["Reader"] == 9

# %% [markdown]
# ### A model that does not fit
#
# Now we put it together. Each rank may have 5.7 MB alive, and not a byte more. (Suppose that this is 80 GB.) The model
# has twelve blocks of 90 features. What a stage *keeps* can be computed before, and `first_stage_within` says the first
# stage that fits. Then we run all four.

# %%
LIMIT = 5.7e6
deep = partial(Reader, 90, blocks=12)
lengths = [
    sum(each.numel() for each in part)
    for part in [
        [*deep().below.parameters(), *deep().above.parameters()],
        *(list(block.parameters()) for block in deep().blocks),
    ]
]
keeps = zero.padded_bytes_by_stage(lengths, 4)
for stage, kinds in enumerate(keeps):
    print(f"stage {stage} keeps {sum(kinds.values()) / 1e6:5.2f} MB")
print("the first that fits: stage", zero.first_stage_within(LIMIT, keeps))

# %%
guess_10 = predict(
    "With a limit of 5.7 MB, which stages get through a step?",
    choices=["stage 3 alone", "stages 2 and 3", "stages 1, 2 and 3"],
)


# %%
def brief(error: RankError) -> str:
    """What rank 0 says."""
    return str(error).partition("alive, ")[2].partition(": parameters")[0]


got_through = []
for stage in range(4):
    try:
        world_of(4).run(account_of, stage, deep, limit=LIMIT)
        got_through.append(stage)
        print(f"stage {stage}: trains")
    except RankError as error:
        print(f"stage {stage}: {brief(error)}")
print(guess_10.compare("stage 3 alone"))
assert got_through == [3] and zero.first_stage_within(LIMIT, keeps) == 2

# %% [markdown]
# What a stage keeps is not yet what it needs. Stage 2 keeps few enough bytes, and still fails in its first step: on top
# come activations, gradients on their way, and temporary numbers of the optimizer. Stage 3 trains. The same model, on
# the same four ranks, with memory in which DDP does not even get through its first backward pass.
#
# And if stage 3 does not fit, either? Then there is the other axis. With 130 samples per rank the activations are too
# much. Checkpointed, the step gets through:

# %%
fits = {}
for kind in (Reader, CheckpointedReader):
    make = partial(kind, 90, blocks=12)
    try:
        world_of(4).run(account_of, 3, make, 130, limit=LIMIT)
        fits[kind.__name__] = True
        print(f"{kind.__name__}: trains")
    except RankError as error:
        fits[kind.__name__] = False
        print(f"{kind.__name__}: {brief(error)}")
assert fits == {"Reader": False, "CheckpointedReader": True}

# %% [markdown]
# ### The process does not give back
#
# So far we have counted tensors. Your system counts differently: it sees the memory of a process. You would expect
# that the two go together. Let us look at torch's own stage 3, `fully_shard`, in two real processes. The model has 12
# layers of 4 MB. A rank's shards of weights, gradients and states are 100 MB. Two layers at a time are whole, 8 MB. DDP
# keeps 200 MB, and its buckets.
#
# The script runs with DDP, with `fully_shard`, and with `fully_shard` and `MALLOC_MMAP_THRESHOLD_=65536` in its
# environment.

# %% tags=["folded"]
# The script
SCRIPT = """
import json, sys, warnings
import psutil, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

warnings.simplefilter("ignore")
torch.set_num_threads(1)
dist.init_process_group("gloo")
process, found = psutil.Process(), {}
before = process.memory_info().rss
model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(12)))
if sys.argv[1] == "DDP":
    model = nn.parallel.DistributedDataParallel(model)
else:
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())

def note(moment):
    found[moment] = (process.memory_info().rss - before) / 1e6

note("made")
for step in (1, 2):
    loss = model(torch.ones(16, 1024)).square().mean()
    note(f"step {step}, forward")
    loss.backward()
    note(f"step {step}, backward")
    optimizer.step()
    note(f"step {step}, step")
    optimizer.zero_grad()
if dist.get_rank() == 0:
    print(json.dumps(found))
dist.barrier()
dist.destroy_process_group()
"""

# %%
guess_11 = predict(
    "fully_shard, after two steps: how many times as much has the process grown "
    "without that setting?",
    unit="times",
)


# %% tags=["folded"]
# How the script is run, and what it prints
def process_megabytes(way: str, **environment: str) -> dict[str, float]:
    """By how much the process of rank 0 has grown, at several moments, in MB."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT)
        meeting = f"--rdzv-endpoint={folder}/meeting --rdzv-conf=store_type=file"
        meeting += " --rdzv-backend=c10d --local-addr=127.0.0.1"
        run = subprocess.run(
            [*torchrun, *meeting.split(), str(script), way],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(run.stdout.splitlines()[-1])


# %%
in_ddp = process_megabytes("DDP")
usual = process_megabytes("fully_shard")
returned = process_megabytes("fully_shard", MALLOC_MMAP_THRESHOLD_="65536")
print("                       DDP   fully_shard   with the threshold")
for moment in usual:
    print(
        f"{moment:18} {in_ddp[moment]:4.0f} MB {usual[moment]:10.0f} MB"
        f" {returned[moment]:17.0f} MB"
    )
print(guess_11.compare(round(usual["step 2, step"] / returned["step 2, step"], 1)))

# %% tags=["folded"]
# Checks of what is said below, where the C library is glibc
if platform.libc_ver()[0] == "glibc":
    assert usual["step 2, step"] > 1.5 * returned["step 2, step"]
    assert returned["step 2, step"] < 0.7 * in_ddp["step 2, step"]
    assert usual["step 2, step"] > 0.8 * in_ddp["step 2, step"]
    assert returned["step 2, forward"] < returned["step 1, step"]

# %% [markdown]
# On Linux with glibc, the process that shards has grown as much as the one that does not, or more. The tensors that are
# alive are the same in the last two columns. (On other systems these two may be alike.) What happens?
#
#     tensor freed ──► malloc of the C library ──► the system
#                      keeps what is smaller than a threshold, for later
#
# A block above the threshold comes from the system and goes back to it. The threshold begins at 128 KiB. But whenever
# such a block is freed, glibc raises the threshold to its size, up to 32 MiB. So after the first layer was gathered and
# freed, layers come from a heap, one long piece of memory, which gets smaller at its end only. Units come, go, and
# leave holes. A threshold that is set stays as it is. In a running process `zero.return_large_blocks()` does the same.
#
# So believe neither number alone. Count tensors to see whether the *program* frees what it should, and look at the
# process to see what the *machine* must have. On GPUs torch's own allocator keeps freed blocks, too: there these
# numbers are `torch.cuda.memory_allocated()` and `memory_reserved()`.

# %% [markdown]
# ## A trap: the norm
#
# Many trainings clip: if the gradient's norm is above 1, say, it is scaled down to 1. The norm is that of *all*
# gradients. At stages 1 to 3 a rank has a shard of them. What if each rank clips with the norm of its own shard?

# %%
guess_12 = predict(
    "A long gradient on 4 ranks. Each rank clips its shard to norm 1. The whole has then the norm …"
)

# %%
generator = torch.Generator().manual_seed(0)
gradient = 100 * torch.randn(4000, generator=generator, dtype=DOUBLE)
gradient[:1000] *= 10  # one shard has larger numbers than others
own = torch.cat([shard / shard.norm() for shard in gradient.chunk(4)])
right = gradient / gradient.norm()
print(guess_12.compare(round(own.norm().item(), 6)))
print(f"cosine of the two directions: {torch.dot(own / own.norm(), right):.2f}")


def norm_of_all(comm: Communicator) -> float:
    squares = gradient.chunk(comm.world_size)[comm.rank].square().sum().reshape(1)
    all_reduce(comm, squares)
    return squares.sqrt().item()


world = SimulatedWorld(4)
assert all(abs(norm - gradient.norm()) < 1e-6 for norm in world.run(norm_of_all))
print(f"one number is all-reduced: {world.trace.bytes_sent} bytes sent")
assert abs(own.norm() - 2) < 1e-9 and torch.dot(own / own.norm(), right) < 0.75

# %% [markdown]
# Two: the square root of the number of ranks, where each shard is longer than 1. And where shards differ in length, as
# here, it points elsewhere, since each was scaled by another number. The training goes on without an error. So the
# squares are added up over the ranks, which takes a message of one number, and all ranks scale by the same factor.
# `clip_grad_norm(1.0)` does that: of the optimizer at stages 1 and 2, of the model at stage 3. (The zeros of the
# padding add nothing, as long as they *are* zeros.)
#
# ## When not to shard
#
# Stage 3 sends half as much again. What does that cost in time? Nothing, if it hides behind computing. So we need
# both. `play_step` plays a plan in virtual time, with messages of the right sizes and layers that take as long as they
# would. (Its tensors are on torch's device "meta": they have a shape, and no contents.) DDP is short enough to write
# down.
#
# A rank computes 200 · 10¹² operations per second, and sends 25 GB/s. There are 8 ranks, and 24 units of 100 million
# parameters. A token takes 2 operations per parameter forward, and 4 backward. All is sent in bfloat16.

# %%
SPEED, NETWORK, UNITS, UNIT = 200e12, Link(10e-6, 25e9), 24, 100_000_000


def seconds_of(kind: str, tokens: float, length: int = UNIT) -> float:
    """Of a unit's forward (F) or backward pass."""
    return {"F": 2, "B": 4}.get(kind, 0) * tokens * length / SPEED


def ddp_step(
    comm: Communicator, tokens: float, units: int, length: int, dtype: torch.dtype
) -> float:
    """A step of DDP: each unit's all-reduce begins as soon as its gradients are there."""
    began, under_way = comm.time(), []
    comm.sleep(units * seconds_of("F", tokens, length))
    for _ in range(units):
        comm.sleep(seconds_of("B", tokens, length))
        gradients = torch.empty(length, dtype=dtype, device="meta")
        under_way.append(comm.start(all_reduce, gradients, algorithm="ring"))
    for work in under_way:
        work.wait()
    return comm.time() - began


def stage_3_step(
    comm: Communicator, tokens: float, units: int, length: int, dtype: torch.dtype
) -> float:
    return zero.play_step(
        comm,
        zero.step_plan(units, reshard_after_forward=True),
        [length] * units,
        reduce_dtype=dtype,
        seconds=lambda action: seconds_of(action.kind, tokens, length),
    )


# %% tags=["folded"]
# Play both, on a network of its own
def step_seconds(
    ranks: int,
    tokens: float,
    units: int = UNITS,
    length: int = UNIT,
    link: Link = NETWORK,
    dtype: torch.dtype = torch.bfloat16,  # of the gradients that are sent
) -> dict[str, float]:
    """Seconds of a step: computing alone, DDP, stage 3."""
    found = {"computing": units * 6 * tokens * length / SPEED}
    for name, step in (("DDP", ddp_step), ("stage 3", stage_3_step)):
        world = SimulatedWorld(ranks, Cluster.flat(ranks, link))
        found[name] = max(world.run(step, tokens, units, length, dtype))
    return found


# %%
guess_13 = predict(
    "16,384 tokens per rank and step. How many times as long as DDP's does a step of stage 3 take?",
    unit="times",
)

# %%
by_tokens = {}
for tokens in (512, 2048, 4096, 8192, 16_384):
    by_tokens[tokens] = found = step_seconds(8, tokens)
    ratio = found["stage 3"] / found["DDP"]
    print(
        f"{tokens:6,} tokens: computing {found['computing'] * 1e3:5.0f} ms,"
        f" DDP {found['DDP'] * 1e3:5.0f}, stage 3 {found['stage 3'] * 1e3:5.0f}:"
        f" {ratio:.2f} times DDP's"
    )
ratios = {tokens: each["stage 3"] / each["DDP"] for tokens, each in by_tokens.items()}
print(guess_13.compare(round(ratios[16_384], 2)))

# %% tags=["folded"]
# Checks of what is said below
assert ratios[512] > 1.4 and ratios[4096] > 1.1 and ratios[16_384] < 1.02
break_even = SPEED / 25e9
assert break_even == 8000
half = step_seconds(
    8, 2048, units=12
)  # a model of half the size, and one of other units
thin = step_seconds(8, 2048, units=48, length=UNIT // 2)
for found in (half, thin):
    assert abs(found["stage 3"] / found["DDP"] - ratios[2048]) < 0.03
border = 7 / 8 * break_even  # 8 ranks send seven eighths
for factor, hides in ((4 / 3, False), (1.5, True)):
    exact = step_seconds(8, factor * border, units=96, dtype=torch.float32)
    assert (exact["stage 3"] < 1.03 * exact["computing"]) == hides
for factor in (0.1, 1, 2):
    exact = step_seconds(8, factor * border, dtype=torch.float32)
    assert exact["stage 3"] < exact["DDP"]
exact = step_seconds(8, 512, dtype=torch.float32)
assert 1.8 < exact["stage 3"] / by_tokens[512]["DDP"] < 2

# %% [markdown]
# With few tokens the network decides, and it is the 1.5 of the bytes. With many, computing decides, and both hide
# what they send. Where is the border? A unit of $P$ parameters computes for $6 T P / s$ with $T$ tokens and $s$
# operations per second. It sends $3 \cdot 2 P$ bytes at bandwidth $b$, where there are many ranks. $P$ drops out:
#
# $$\frac{6 T P}{s} > \frac{6 P}{b} \quad\Longleftrightarrow\quad T > \frac{s}{b}$$
#
# Here that is 8,000 tokens *per rank and backward pass*, for a small dense model as for a large one. (Four conditions:
# each token uses all parameters; all is sent in two bytes; there are many units, since the first gather and the last
# scatter hide behind nothing; and latency does not count. With gradients reduced in float32 it is half more, since the
# backward pass must hide 2 + 4 bytes behind its own 4 operations.) So "my model is too small for stage 3" is not the
# reason not to shard. (That it fits without is one.) "My ranks have too little to do" is.
#
# DDP has the same border, if it reduces in bfloat16. It sends $2 \cdot 2 P$ bytes, but can hide them only behind the
# backward pass, which takes $4 T P / s$. Below the border it is faster than stage 3, since nothing disturbs its forward
# pass.
#
# Too little to do: that happens when a fixed batch is spread over more and more ranks: the work of each shrinks, and
# what it sends does not.

# %%
TOKENS = 131_072  # in a step, of all ranks together

# %%
guess_14 = predict(
    "A batch of 131,072 tokens. Where does stage 3's communication become longer than computing?",
    choices=[f"from {ranks} to {2 * ranks} ranks" for ranks in (2, 4, 8, 16)],
)

# %%
by_ranks = {
    ranks: step_seconds(ranks, TOKENS / ranks, units=6) for ranks in (2, 4, 8, 16, 32)
}
names = ("computing", "DDP", "stage 3")
sending = {ranks: step_seconds(ranks, 0, units=6)["stage 3"] for ranks in by_ranks}
for ranks, found in by_ranks.items():
    each = ", ".join(f"{name} {found[name] * 1e3:6.0f} ms" for name in names)
    print(f"{ranks:2} ranks: {each}; messages alone {sending[ranks] * 1e3:4.0f} ms")
hidden = [ranks for ranks in by_ranks if sending[ranks] < by_ranks[ranks]["computing"]]
print(guess_14.compare(f"from {hidden[-1]} to {2 * hidden[-1]} ranks"))
sweep(
    {
        name: {ranks: found[name] * 1e3 for ranks, found in by_ranks.items()}
        for name in names
    },
    along="ranks",
    title="A step of 131,072 tokens on more and more ranks",
    subtitle="ms in virtual time; 6 units of 100 million parameters",
)

# %% tags=["folded"]
# Checks of what is said above and below
assert hidden == [2, 4, 8, 16] and 16 < TOKENS / break_even < 17
slower = {
    ranks: each["stage 3"] / each["computing"] for ranks, each in by_ranks.items()
}
assert slower[8] < 1.1 and slower[32] > 1.5
assert by_ranks[32]["stage 3"] > 0.85 * by_ranks[16]["stage 3"]
assert by_ranks[8]["stage 3"] < 0.55 * by_ranks[4]["stage 3"]

# %% [markdown]
# Up to 16 ranks each doubling halves the step, or nearly so. From there on more ranks compute less each, and wait.
#
# Small units pay something else as well: *latency*. A ring takes $N - 1$ rounds for each all-gather, whatever its size.
# On 32 ranks with 10 µs that is 0.3 ms, three times per unit and step. For units of 100,000 parameters that is most of
# the time even with 100,000 tokens. So the border moves:

# %%
small = step_seconds(32, 100_000, units=6, length=100_000)
many = step_seconds(32, 1_000_000, units=6, length=100_000)
for tokens, found in ((100_000, small), (1_000_000, many)):
    ratio = found["stage 3"] / found["computing"]
    print(f"{tokens:9,} tokens: stage 3 takes {ratio:.2f} times as long as computing")
assert small["stage 3"] > 2 * small["computing"] and 0.3 < 31 * 10e-3 < 0.32
assert many["stage 3"] < 1.15 * many["computing"]

# %% [markdown]
# ### On a clock
#
# The same with real processes, whose messages are held back as on a link of 15 MB/s with a latency of 1 ms. Nothing
# here is asserted: it is your machine's time. By their bytes alone DDP needs 374 ms for its messages, and stage 3 559
# ms (its root stays, so a little less than three parts). Expect something near 1.5 times, and not just that: four
# processes also compute on your cores, in DDP each of them updates the whole model, and at stage 3 they wait for the
# latency more often.


# %% tags=["folded"]
# What each rank does
def seconds_per_step(comm: Communicator, stage: int) -> float:
    torch.set_num_threads(1)
    model, optimizer = sharded(comm, stage, wide())
    times = []
    for _ in range(3):
        comm.barrier()
        began = comm.time()
        optimizer.zero_grad()
        cross_entropy(model(images[:16]), labels[:16]).backward()
        optimizer.step()
        times.append(comm.time() - began)
    return min(times)


# %%
with World(4, network=Link(1e-3, 15e6)) as paced:
    on_a_clock = {
        stage: max(paced.run(seconds_per_step, stage, timeout=100)) for stage in (0, 3)
    }
for stage, seconds in on_a_clock.items():
    print(f"stage {stage}: {seconds * 1e3:.0f} ms per step")
print(f"{on_a_clock[3] / on_a_clock[0]:.2f} times DDP's")
wide_bytes = sum(each.nbytes for each in wide().parameters())
assert round(2 * 3 / 4 * wide_bytes / 15e3) == 374
stays = sum(
    each.nbytes for name, each in wide().named_parameters() if "blocks" not in name
)
assert round(3 / 4 * (3 * wide_bytes - stays) / 15e3) == 559

# %% [markdown]
# ### Memory golf
#
# Now you choose. A hole is a model, ranks, and the memory of each. Train it in as little time as you can. You choose
# the stage, how many blocks form a unit, how many of them are checkpointed, the number of microbatches, and at stage 3
# `prefetch` and `reshard`. Who needs more memory than there is gets no points. Ten are par. Your best swing at each
# hole is kept in `work/my_games.json`, in your own folder. Nothing sends that file. `distlib board`, in a terminal,
# shows what is in it.

# %%
from distlib.games.in_lessons import swing
from distlib.training.zero import memory_golf
from distlib.training.zero.memory_golf import HOLES, score_card

for hole in HOLES:
    print(hole)

# %%
swings = [swing(1, stage=1, blocks_per_unit=2, checkpointed=0, microbatches=1)]
print(swings[-1])
memory_over_time(
    {"rank 0": swings[-1].samples},
    title=f"Hole {swings[-1].hole.number}, {swings[-1].hole.name}",
    limit=swings[-1].hole.limit,
)

# %% [markdown]
# **Try it.** Change the choice, and go on to the other holes. Look at the picture: what stands highest, and when? After
# each change say first whether memory or time will change, and in which direction.

# %%
swings.append(swing(2, stage=3, checkpointed=16))  # change this, again and again
print(swings[-1])
print(score_card(swings))

# %% tags=["folded"]
# One way to do it
for hole in HOLES:
    swings.append(memory_golf.swing(hole.number, **vars(hole.par)))
    print(f"{hole.number}: {hole.par}")
print(score_card(swings))
assert score_card(swings).endswith("50 points; par is 50")

# %% [markdown]
# ### Shard inside the node
#
# Often some links are much faster than others: those between the GPUs of one node. Then shard *inside* of a node,
# and keep a copy of all shards in each node. This is **hybrid sharding**. Between nodes only gradients travel, and of
# these each rank sends its shard. With our classes it takes two communicators:

# %%
NODES, PER_NODE = 2, 4
two_nodes = Cluster(NODES, PER_NODE, intra=Link(2e-6, 200e9), inter=Link(10e-6, 5e9))


def train_hybrid(comm: Communicator, steps: int) -> dict[str, torch.Tensor]:
    node = comm.split(comm.rank // PER_NODE)  # ranks of one node: 0 to 3, 4 to 7
    across = comm.split(comm.rank % PER_NODE)  # one rank of each node: 0 and 4, …
    model = Reader(seed=0).double()  # the same on every node
    model = zero.FullyShardedModule(node, model, units=model.blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for step in range(steps):
        own = slice(step * 64 + comm.rank, (step + 1) * 64, comm.world_size)
        optimizer.zero_grad()
        cross_entropy(model(images[own].double()), labels[own]).backward()
        for shard in model.parameters():  # the average of a node, so far
            all_reduce(across, shard.grad)
            shard.grad /= across.world_size
        optimizer.step()
    return {name: each.clone() for name, each in model.state_dict().items()}


# %% tags=["folded"]
# How it is measured
def between_nodes(world: SimulatedWorld) -> int:
    """Bytes that go from one node to another."""
    return sum(
        each.nbytes
        for each in world.trace
        if each.src // PER_NODE != each.dst // PER_NODE
    )


def of_three_steps(function: Callable[..., Any]) -> tuple[Any, int, float]:
    """The weights of rank 0, the bytes between nodes and the virtual seconds."""
    world = SimulatedWorld(8, two_nodes, contexts="threads")
    world.run(function, steps=0)
    before, began = between_nodes(world), world.elapsed
    weights = world.run(function, steps=3)[0]
    return weights, between_nodes(world) - before, world.elapsed - began


# %%
plain_weights, plain_bytes, plain_seconds = of_three_steps(
    partial(train, stage=3, batch=64, reshard_after_forward=True)
)
hybrid_weights, hybrid_bytes, hybrid_seconds = of_three_steps(train_hybrid)
print(f"the weights differ by {off(hybrid_weights, plain_weights):.0e}")
print(f"between nodes: {plain_bytes:,} bytes, hybrid {hybrid_bytes:,}")
print(f"communication takes {plain_seconds / hybrid_seconds:.1f} times as long without")
assert off(hybrid_weights, plain_weights) < 1e-9

# %% tags=["folded"]
# Checks of what is said below
psi = sum(sum(each.numel() for each in part.parameters()) for part in one.children())
assert psi == numbers
assert abs(plain_bytes / 3 / (2 * 3 * 7 / 8 * psi * 8) - 1) < 0.02
assert abs(hybrid_bytes / 3 / (2 * psi * 8) - 1) < 0.02
assert plain_seconds > 2 * hybrid_seconds

# %% [markdown]
# The same weights. A ring over all eight ranks has two links between the nodes. Over each of them go
# $3 \cdot \frac78$ of the model, $5.25$ models in all. In the hybrid two partners all-reduce their shard, a quarter of
# the model. Each sends half of it twice: all eight together two models. What it costs is memory: each rank keeps a
# quarter instead of an eighth.
#
# ## In real frameworks
#
# torch has stage 1 as `ZeroRedundancyOptimizer` and stage 3 as `fully_shard` (its users say *FSDP*). With one backward
# pass per step, `fully_shard` with `reshard_after_forward=False` sends what stage 2 sends, but keeps between steps what
# stage 3 keeps. (The older `FullyShardedDataParallel` calls it `SHARD_GRAD_OP`.) With $m$ microbatches it sends $2m$
# units where stage 2 sends $m + 1$, because it gathers for each of them. `set_reshard_after_backward(False)` on all but
# the last brings that down to $m + 1$, and keeps the parameters whole meanwhile.
#
# First stage 1. Remember the two ways to shard.

# %%
guess_15 = predict(
    "So how does ZeroRedundancyOptimizer shard?",
    choices=["equal pieces of a flat buffer", "whole tensors"],
)

# %% tags=["folded"]
# What each rank does
from torch.distributed.optim import ZeroRedundancyOptimizer

Found = tuple[dict[str, torch.Tensor], list[int]]


def stage_1_of_torch(comm: Communicator) -> Found:
    """The weights after 10 steps, and the sizes of the tensors that this rank updates."""
    torch.set_num_threads(1)
    with torch_distributed(comm, "gloo"):
        model = nn.parallel.DistributedDataParallel(Reader().double())
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, lr=0.003
        )
        for step in range(10):
            own = slice(step * 60 + comm.rank, (step + 1) * 60, comm.world_size)
            optimizer.zero_grad()
            cross_entropy(model(images[own].double()), labels[own]).backward()
            optimizer.step()
        sizes = [each.numel() for each in optimizer.optim.param_groups[0]["params"]]
    return model.module.state_dict(), sizes


# %%
real = World(4)
by_rank = real.run(stage_1_of_torch, timeout=100)
for rank, (weights, sizes) in enumerate(by_rank):
    print(f"rank {rank}: {sum(sizes):5,} parameters, in tensors of {sizes}")
    assert off(weights, one.state_dict()) < 1e-9
print(guess_15.compare("whole tensors"))
assert sum(sum(sizes) for _, sizes in by_rank) == numbers

# %% [markdown]
# It deals out whole tensors, and gives each to the rank that has the least so far. Here the ranks get about as much
# each, since no tensor is large. And now `fully_shard`. It is called on each unit, and then on the model, whose rest is
# the root's unit. Afterwards parameters are DTensors: each rank has its rows of every one. `torch_distributed(comm)`
# without "gloo" gives torch a process group whose messages are this course's, so that they stand in the trace.

# %%
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

Built = tuple[nn.Module, torch.optim.Optimizer]


def shard_with_torch(model: Reader, **options: Any) -> Built:
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model, torch.optim.AdamW(model.parameters(), lr=0.003)


def torch_steps(comm: Communicator, built: Built, steps: range) -> None:
    model, optimizer = built
    for step in steps:
        own = slice(step * 60 + comm.rank, (step + 1) * 60, comm.world_size)
        optimizer.zero_grad()
        output = model(images[own].to(next(model.parameters()).dtype))
        cross_entropy(output, labels[own]).backward()
        optimizer.step()


def whole(model: nn.Module) -> dict[str, torch.Tensor]:
    """All weights, gathered."""
    return {name: each.full_tensor() for name, each in model.state_dict().items()}


# %%
def stage_3_of_torch(
    comm: Communicator, steps: int = 10, **options: Any
) -> dict[str, torch.Tensor]:
    """The weights after some steps."""
    warnings.filterwarnings("ignore", "Full backward hook|FSDP2-wrapped")  # its notes
    with torch_distributed(comm):
        built = shard_with_torch(Reader().double(), **options)
        torch_steps(comm, built, range(steps))
        return whole(built[0])


def sent_in_a_step(ranks: int, function: Callable[..., Any], **options: Any) -> Counter:
    """Messages and bytes of rank 0 in the second step, by the name of the call."""
    world, sums = world_of(ranks), [Counter(), Counter()]
    for steps, found in enumerate(sums, 1):
        world.run(function, steps=steps, **options)
        for call, sent in world.trace.by_collective(rank=0).items():
            found += {(call, ""): sent.messages, (call, "bytes"): sent.nbytes}
    return sums[1] - sums[0]


# %%
for name, reshard in WAYS.items():
    options = dict(reshard_after_forward=reshard)
    weights = world_of(4).run(stage_3_of_torch, **options)[0]
    counts = sent_in_a_step(4, stage_3_of_torch, **options)
    calls = {call: number // 3 for (call, what), number in counts.items() if not what}
    print(f"{name:5}: {calls}, {off(weights, one.state_dict()):.0e} off")
    assert list(calls.values()) == [gathers[name], scatters[name]]
    assert off(weights, one.state_dict()) < 1e-9

# %% [markdown]
# torch calls as many all-gathers as ours: ten, nine and five. The weights are those of one process. Are there equally
# many bytes? With `True` the formula says $3 \cdot \frac{N-1}{N}$ models.

# %%
sent_by, messages_by = {}, {}
print("ranks           all-gathers, bytes  reduce-scatters, bytes    in all")
for ranks in (4, 5):
    for name, run in {
        "ours": partial(train, stage=3),
        "torch's": stage_3_of_torch,
    }.items():
        counts = sent_in_a_step(ranks, run, reshard_after_forward=True)
        gather, gathered, scatter, scattered = counts.values()
        messages_by[ranks, name] = gather, scatter
        sent_by[ranks, name] = gathered + scattered
        each = f"{gather:11}, {gathered:7,}  {scatter:14}, {scattered:7,}"
        print(f"{ranks:5}  {name:7}  {each}   {gathered + scattered:7,}")
    formula = 3 * (ranks - 1) / ranks * numbers * 8
    print(f"{'':7}formula{'':47}{formula:7,.0f}")


# %% tags=["folded"]
# Checks of what is said below
def rows_padded(ranks: int) -> int:
    """Numbers of the model, where each tensor has a multiple of `ranks` rows."""
    return sum(
        -(-len(each) // ranks) * ranks * each[0].numel() for each in one.parameters()
    )


def made_by_torch(comm: Communicator) -> None:
    with torch_distributed(comm):
        shard_with_torch(Reader().double())


assert len(set(messages_by.values())) == 2  # one number for 4 ranks, and one for 5
assert sent_by[5, "ours"] == sent_by[5, "torch's"] == 3 * 4 * numbers * 8 // 5
assert sent_by[4, "torch's"] == 3 * 3 * rows_padded(4) * 8 // 4
assert sent_by[4, "ours"] - 3 * 3 * numbers * 8 // 4 == 3 * 3 * 2 * 4 * 8 // 4
world = world_of(4)
world.run(made_by_torch)
assert len(world.trace) == 0

# %% [markdown]
# torch sends as many messages as ours. On five ranks both send the formula's bytes exactly, because five divides the
# rows of every tensor. On four ranks torch sends 3.7 % more. It cuts each tensor by rows, and the messages of a
# collective must be equally long, so torch pads a tensor of 30 rows to 32. Ours pads once per unit, at the end of the
# flat buffer.
#
# When the model is wrapped, torch sends nothing, so `fully_shard` does not make the ranks' weights equal: they have to
# be equal before.
#
# Three more things that you will meet.
#
# - `MixedPrecisionPolicy(param_dtype=…, reduce_dtype=…)`, as the arguments of our classes. Shards, and so the
#   optimizer, stay in float32. If you give `param_dtype` alone, torch reduces the gradients in `param_dtype`, and
#   ours in the dtype of the model.
# - A *mesh* of two dimensions makes it hybrid: replicated along the first, sharded along the second.
# - `torch.distributed.checkpoint`, a checkpoint in shards. Each rank writes its own, and another number of ranks can
#   read them.


# %%
def hybrid_of_torch(comm: Communicator, steps: int = 10) -> dict[str, torch.Tensor]:
    with torch_distributed(comm):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
        built = shard_with_torch(Reader().double(), mesh=mesh)
        torch_steps(comm, built, range(steps))
        return whole(built[0])


def mixed(comm: Communicator) -> list[torch.dtype]:
    """The dtype of outputs, of a shard, and of its gradient."""
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)
    with torch_distributed(comm, "gloo"):
        model, _ = shard_with_torch(Reader(), mp_policy=policy)
        output = model(images[:8])
        output.float().sum().backward()
        shard = next(model.parameters())
        return [output.dtype, shard.dtype, shard.grad.dtype]


weights = world_of(4).run(hybrid_of_torch)[0]
counts = sent_in_a_step(4, hybrid_of_torch)
messages = {call: number for (call, what), number in counts.items() if not what}
print(f"hybrid: {messages} messages, {off(weights, one.state_dict()):.0e} off")
assert off(weights, one.state_dict()) < 1e-9
dtypes = real.run(mixed, timeout=100)[0]
print("mixed:", dtypes)
assert dtypes == [torch.bfloat16, torch.float32, torch.float32]
assert messages["all_reduce"] == 5 * 2

# %% [markdown]
# The hybrid calls one more collective for each of the five units: an all-reduce that sums the gradients of a shard over
# the two copies. Each rank sends two messages in it.
#
# Now save on four ranks, after five steps, and go on with two. Each of two ranks has other shards than any of
# four.


# %%
def save(comm: Communicator, folder: str) -> None:
    with torch_distributed(comm, "gloo"):
        built = shard_with_torch(Reader().double())
        torch_steps(comm, built, range(5))
        model_state, optimizer_state = get_state_dict(*built)
        state = {"model": model_state, "optimizer": optimizer_state}
        dcp.save(state, checkpoint_id=folder)


def load_and_go_on(comm: Communicator, folder: str) -> dict[str, torch.Tensor]:
    with torch_distributed(comm, "gloo"):
        built = shard_with_torch(Reader(seed=1).double())  # other weights, so far
        model_state, optimizer_state = get_state_dict(*built)
        state = {"model": model_state, "optimizer": optimizer_state}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            *built,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        torch_steps(comm, built, range(5, 10))
        return whole(built[0])


with tempfile.TemporaryDirectory() as folder:
    real.run(save, folder, timeout=100)
    print(sorted(path.name for path in Path(folder).iterdir()))
    with World(2) as two:
        resumed = two.run(load_and_go_on, folder, timeout=100)[0]
print(f"saved by 4, continued by 2: {off(resumed, one.state_dict()):.0e} off")
assert off(resumed, one.state_dict()) < 1e-9
real.close()

# %% [markdown]
# Ours are `zero.save_shards` and `zero.load_shards`.
#
# Such a checkpoint needs a disk that all ranks see. Without one, rank 0 saves whole tensors, and sends them when they
# are loaded. The options say so. All ranks call the same functions, and the others hand in empty dicts.


# %%
SAVE = StateDictOptions(full_state_dict=True, cpu_offload=True)
LOAD = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def save_whole(comm: Communicator) -> tuple[dict, dict]:
    with torch_distributed(comm):
        built = shard_with_torch(Reader().double())
        torch_steps(comm, built, range(5))
        return get_state_dict(*built, options=SAVE)


def load_whole_and_go_on(
    comm: Communicator, weights: dict, states: dict
) -> dict[str, torch.Tensor]:
    with torch_distributed(comm):
        model, optimizer = built = shard_with_torch(Reader(seed=1).double())
        mine = (weights, states) if comm.rank == 0 else ({}, {})
        set_model_state_dict(model, mine[0], options=LOAD)
        set_optimizer_state_dict(model, optimizer, mine[1], options=LOAD)
        torch_steps(comm, built, range(5, 10))
        return whole(model)


saved = world_of(4).run(save_whole)
print("tensors of the model, by rank:", [len(weights) for weights, _ in saved])
resumed = world_of(2).run(load_whole_and_go_on, *saved[0])[0]
print(f"whole from 4, continued by 2: {off(resumed, one.state_dict()):.0e} off")
assert off(resumed, one.state_dict()) < 1e-9

# %% [markdown]
# Here the training ends with the save. If it goes on, copy the state first: on a CPU, torch hands out the optimizer's
# own count of steps, and on a single rank everything.
#
# **DeepSpeed**, where ZeRO comes from, takes the stage as a number in its configuration: `"zero_optimization":
# {"stage": 2}`. Its stages are those of the paper. It can also *offload* shards to the memory of the host, or to disks:
# one more place where bytes can be, and one more link that they must cross.
#
# ## In short
#
# - Stage 1 shards optimizer states, stage 2 also gradients, stage 3 also parameters: 16/N bytes.
# - The paper's stage 1 sends what DDP sends: an all-reduce with the optimizer in its middle.
# - Stage 3 sends half as much again, and enough tokens per rank hide the messages.
# - What is kept is not the peak: whole units and activations come on top.
# - With microbatches, stages 2 and 3 send in each one, stage 1 once.
#
# For $\Psi$ parameters on $N$ ranks, Adam in mixed precision, collectives in rings, and one backward pass per step:
#
# | stage | kept per parameter, in bytes | sent per step, in units of $\frac{N-1}{N}$ models |
# |---|---|---|
# | 0 | 16 | 2 |
# | 1 | $4 + 12/N$ | 2 |
# | 2 | $2 + 14/N$ | 2 |
# | 3 | $16/N$ | 3 |
#
# Those are the paper's. DeepSpeed has the same stages, and by default sends something else (lesson 15). Gradients and
# messages are in bfloat16; with gradient shards in float32 it is $2/N$ bytes more. torch's `fully_shard` is stage 3,
# and sends a little less by default, since its root stays. Its `ZeroRedundancyOptimizer` is a stage 1 of whole tensors:
# DDP all-reduces, then new weights are broadcast. So it sends 3, and one rank keeps at least the states of the largest
# tensor.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - Stage 1 is an all-reduce with the optimizer in its middle. It sends no byte more, but for padding, and is right
#   for every optimizer that works on each number by itself.
# - With $m$ microbatches per step, stage 2 sends $(m + 1)/2$ times as much as stage 1.
# - What is *kept* is not the *peak*. On top of it come the units that are whole (two with prefetching, and the root's),
#   gradients on their way, and activations, which no stage shards. Checkpointing makes these smaller, for up to a third
#   more computing; torch stops early, and in our blocks it was a sixth.
# - A process does not always give back the memory of freed tensors. With glibc a process with `fully_shard` grew as
#   much as one with DDP, or more, until glibc's threshold was fixed. On other systems, look.
# - A rank has a shard of the gradient. The norm is that of the whole gradient: add up the squares over all ranks.
# - Stage 3 costs hardly any time where messages hide behind computing: with more than $s/b$ tokens per rank and
#   backward pass, whatever the size of a dense model, if all is sent in two bytes and there are many units, each large
#   enough for latency not to count. Below that it takes up to 1.5 times as long as DDP, and more with accumulation.
#   (With gradients reduced in float32 the border is 1.5 times as high; then stage 3 takes up to twice as long as a DDP
#   that reduces in bfloat16, and no longer than one that reduces in float32.)
#   With experts, multiply the border by all parameters over those that a token uses. Do not take stage 3 for a model
#   that fits and whose ranks have little to do.
# - Where links inside a node are faster, shard inside of it, if a node has the memory.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/11_zero/11_zero.ipynb) you compute what each stage keeps, shard an optimizer and
# gradients, write a module whose parameters are there only while they are used, train with torch's `fully_shard`, and
# move a training to another number of ranks.
#
# ## Further reading
#
# - S. Rajbhandari et al., [ZeRO: Memory Optimizations Toward Training Trillion Parameter
#   Models](https://arxiv.org/abs/1910.02054), SC 2020. Section 5: the stages; section 7: what they send; figure 1: the
#   numbers for 7.5 billion parameters.
# - Y. Zhao et al., [PyTorch FSDP: Experiences on Scaling Fully Sharded Data
#   Parallel](https://arxiv.org/abs/2304.11277), PVLDB 16(12), 2023. Units, prefetching, hybrid sharding, and the
#   allocator's part.
# - P. Micikevicius et al., [Mixed Precision Training](https://arxiv.org/abs/1710.03740), ICLR 2018. Why the optimizer
#   needs weights of more digits than the model.
# - T. Chen et al., [Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174), 2016. Activation
#   checkpointing.
# - [mallopt(3)](https://man7.org/linux/man-pages/man3/mallopt.3.html), the manual page. `M_MMAP_THRESHOLD`, and how it
#   moves.
# - [torch.distributed.fsdp.fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html),
#   torch's manual.
