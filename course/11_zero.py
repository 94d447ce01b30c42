# %% [markdown]
# # ZeRO and FSDP: who holds each byte
#
# Eight GPUs train one model with DDP. Each of them keeps the same weights, the same gradients and the same optimizer
# states: 16 bytes for every parameter, eight times over. What if every GPU kept an eighth of them, and asked the others
# when it needs the rest?
#
# > After this lesson you will be able to
# >
# > - say what the 16 bytes are that training keeps for each parameter, and which rank needs which of them when,
# > - shard optimizer states, gradients and parameters, and count what each stage saves and sends,
# > - say what is alive at each moment of a training step,
# > - clip a gradient that no rank has whole,
# > - say when *not* to shard,
# > - read torch's `fully_shard` like your own code, and move a run to another number of ranks.
# >
# > **Time:** about 65 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [DDP](05_ddp.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
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
# Large models are trained in **mixed precision**: they compute in bfloat16, two bytes per number, because bfloat16 is
# fast. But bfloat16 has only 8 binary digits. Suppose that a weight is 1.0, and that an optimizer adds 0.001 to the
# weight, 1,000 times.

# %%
guess_1 = predict("A bfloat16 weight is 1.0. 0.001 is added 1,000 times. It is then …")

# %%
weight = torch.ones((), dtype=torch.bfloat16)
for _ in range(1000):
    weight += 0.001
print(guess_1.compare(weight.item()))
assert weight == 1.0 and torch.finfo(torch.bfloat16).eps == 2**-7

# %% [markdown]
# Nothing has happened. The next bfloat16 number after 1.0 is 1.0078, so 1.001 is rounded back to 1.0. Therefore the
# optimizer keeps a copy of the weights in float32, where small steps add up, and the model gets a new bfloat16 copy
# after each step. Adam, which trains most large models, keeps two more float32 numbers for each weight: the mean of its
# gradients and the mean of their squares. The next cell takes one such step, and adds up the bytes of the real tensors.

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
assert total == 16 and model.weight.nbytes / 10_000 == 2

# %% [markdown]
# **Adam in mixed precision keeps sixteen bytes for each parameter, and the model that computes is two of them.** The
# last three rows of the table are called the **optimizer states**: 12 bytes.
#
# A model of 7.5 billion parameters has 15 GB in bfloat16. With DDP, training takes 120 GB on *each* rank, and every
# rank has the same bytes as all the others. ZeRO, the *Zero Redundancy Optimizer*, removes the copies: each rank keeps
# its own **shard**, one $N$-th of what all ranks would keep alike. There are three stages:
#
# | stage | sharded | each rank keeps, in bytes per parameter |
# |---|---|---|
# | 0, which is DDP | nothing | $2 + 2 + 12$ |
# | 1 | optimizer states | $2 + 2 + 12/N$ |
# | 2 | and gradients | $2 + 2/N + 12/N$ |
# | 3 | and parameters | $2/N + 2/N + 12/N$ |

# %%
by_stage = zero.memory_by_stage(7_500_000_000, 64)
gigabytes = [sum(kinds.values()) / 1e9 for kinds in by_stage]
print("GB at stages 0 to 3:", ", ".join(f"{each:.2f}" for each in gigabytes))
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
# The picture counts in GiB, as torch's reports do, so its bars are a little lower: 120 GB are 111.8 GiB. The first step
# is the largest, because the optimizer states are 12 of the 16 bytes. Only stage 3 has no floor: with more and more
# ranks, stage 1 still keeps 4 bytes per parameter, and stage 2 keeps 2.
#
# <details><summary>Where this stops being true</summary>
#
# - **Without mixed precision**: All is in float32: 4 bytes for the weight, 4 for the gradient, 8 for Adam, again
#   16. Mixed precision saves memory elsewhere: in the activations.
# - **In torch's DDP**: It has buckets besides, by default as large as all gradients together.
# - **With gradient shards in float32**: Stages 2 and 3 keep $2/N$ bytes more.
#
# </details>
#
# ## Stage 1: an all-reduce with a pause
#
# A ring all-reduce has two halves. After the reduce-scatter, each rank has the complete sum of *one shard*. In DDP the
# second half, an all-gather, spreads these sums, and then every rank makes the same update with the same numbers. ZeRO
# puts the optimizer between the two halves:
#
#     DDP       reduce-scatter ──► all-gather of gradients ──► update of all weights, on every rank
#     stage 1   reduce-scatter ──► update of one shard ──► all-gather of new weights
#
# Here is stage 1 for 10 weights on 4 ranks, with momentum as the optimizer. Because 4 does not divide 10, two zeros are
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
# **Stage 1 sends as many bytes as DDP, and each rank keeps and updates only its shard.** (Where the number of weights
# does not divide, as here, there are some bytes of padding.) The weights are equal to those of the single process.
#
# A shard may begin in the middle of a matrix, so the optimizer must treat each number by itself, as SGD, Adam and AdamW
# do. `check_elementwise` tries an optimizer out:

# %%
for name in ("AdamW", "Adafactor"):
    try:
        zero.check_elementwise(getattr(torch.optim, name), lr=0.01)
        print(f"{name}: can be sharded")
    except ValueError as error:
        print(error)
        assert name != "AdamW"

# %% [markdown]
# <details><summary>Where this stops being true</summary>
#
# - **If $N$ does not divide the number of weights**: The padding is sent, too.
# - **With an optimizer that looks at whole matrices**: Adafactor keeps one number per row and per column, and Muon
#   multiplies whole matrices. They need whole tensors, which can be dealt out to the ranks: [lesson
#   11c](11c_memory_deeper.ipynb).
# - **In DeepSpeed**: Its stage 1 has another way to send, and sends more by default ([lesson
#   15](15_frameworks.ipynb)).
#
# </details>
#
# ## One model, four stages
#
# Now we shard a real model, small enough to be watched: it reads images of digits. Four blocks stand between its first
# and its last layer. The library's classes are short: `ShardedOptimizer` is stage 1, `ShardedGradients` is stage 2, and
# `FullyShardedModule` is stage 3. They shard a model *unit* by unit. A **unit** is a group of parameters that share one
# flat buffer. Here each block is a unit, and the first and the last layer together are a fifth unit, the *root's*.


# %% tags=["folded"]
# The model, and its data
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


# %% tags=["folded"]
# What each rank does, and one process that trains with the whole batch
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


# %% [markdown]
# Do the four stages compute the same? One process trains with the whole batch, and two to five ranks train with equal
# parts of it.

# %%
for stage in range(4):
    errors = [
        max(off(found, one.state_dict()) for found in world_of(ranks).run(train, stage))
        for ranks in (2, 3, 4, 5)
    ]
    print(f"stage {stage}: at most {max(errors):.0e} off, on 2, 3, 4 and 5 ranks")
    assert max(errors) < 1e-9

# %% [markdown]
# **Sharding changes where the numbers are, and not which numbers they are.** After 10 steps of AdamW the weights agree
# to rounding.
#
# What do the stages send? At stage 3 no rank has the weights that it needs. It gathers them before the forward pass,
# frees them, and gathers them once more before the backward pass. Then it reduces and scatters the gradients.

# %%
guess_2 = predict(
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
print(guess_2.compare(round(sent[3] / sent[0], 2)))

# %% tags=["folded"]
# Checks of what is said below
numbers = sum(each.numel() for each in one.parameters())
assert abs(sent[0] / (2 * 3 / 4 * numbers * 8) - 1) < 0.01
assert abs(sent[1] / sent[0] - 1) < 0.01 and sent[2] == sent[1]
assert abs(sent[3] / sent[0] - 1.5) < 0.01

# %% [markdown]
# **Stage 3 sends 1.5 times as many bytes as DDP.** DDP's all-reduce is a reduce-scatter and an all-gather. Stage 3
# gathers parameters twice and scatters gradients once: three units of traffic, where DDP has two. For this price the 16
# bytes per parameter become $16/N$.
#
# <details><summary>Where this stops being true</summary>
#
# - **If gradients are reduced in float32, and parameters are bfloat16**: Stage 3 sends 2 + 2 + 4 bytes per
#   parameter, DDP 4 + 4. A DDP that reduces in bfloat16 sends 2 + 2.
# - **If units stay whole between the passes**: With `reshard_after_forward=False` stage 3 gathers once, and sends
#   what DDP sends.
# - **With several backward passes per step**: Stages 2 and 3 send in each of them: see the next section.
#
# </details>
#
# **Try it.** Gather in bfloat16: `param_dtype=torch.bfloat16`. The shards and the sums of the gradients stay in float64
# here. How many bytes does a step send then, as a fraction of those above? Guess, then change the line. And how far are
# the weights from those of one process?

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
# At stage 1 each rank collects a whole gradient, and needs only its shard. Stage 2 does not wait for the end. The
# backward pass goes from the last unit to the first, and as soon as a unit has all its gradients, they are reduced and
# scattered, and the whole gradients of the unit are freed:
#
#     backward          unit 3    unit 2    unit 1    unit 0
#     reduce-scatter              unit 3    unit 2    unit 1    unit 0
#
# Stage 2 sent exactly as much as stage 1 in the run above. Is there any reason to stop at stage 1? There is **gradient
# accumulation**. Suppose that a step adds up the gradients of 4 *microbatches*, parts of a batch that go through the
# model one by one. At stage 1 each rank adds up whole gradients, and sends the sum once. At stage 2 a rank has no room
# for a whole gradient, so it sends the gradients of each microbatch.

# %%
guess_3 = predict(
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
print(guess_3.compare(round(accumulated[2] / accumulated[1], 2)))
assert accumulated[2] == 2.5 * accumulated[1]

# %% [markdown]
# **With microbatches, stage 2 sends gradients after each of them, and stage 1 sends once.** In our step these are four
# reduce-scatters and one all-gather, against one of each: $(m + 1)/2$ times as many bytes for $m$ microbatches. So
# people who accumulate often stop at stage 1.
#
# <details><summary>Where this stops being true</summary>
#
# - **If gradients stay whole until the last microbatch**: `no_sync()` of stage 3 does it, and torch's
#   `set_requires_gradient_sync(False)`. Then gradients are sent once, and take the memory of whole gradients until
#   then.
#
# </details>
#
# ## Stage 3: what is alive, and when
#
# At stage 3 a rank has a shard of each parameter. To compute, it needs whole parameters, but only those of one unit at
# a time:
#
#     computing               │ compute 0 │ compute 1 │ compute 2 │
#     sending        gather 0 │ gather 1  │ gather 2  │           │
#
# A unit is gathered, used and freed. While it computes, the next unit is gathered already: it is **prefetched**. The
# backward pass does the same from the last unit to the first. So two units are whole at a time, however many blocks the
# model has. (What belongs to no block is the root's unit, which stays whole from its forward pass to its backward
# pass.)
#
# Now we look at what is *there*. `MemoryAccount` looks at a rank's live tensors after every operation of torch, and
# says what kind each tensor is. We take eight wider blocks in float32 and train two steps. The first step makes
# the optimizer's states, and we look at the second one.

# %% tags=["folded"]
# How it is measured
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
guess_4 = predict(
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
print(guess_4.compare(round(peaks["stage 3"] / peaks["stage 0"] * 100)))
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
# Read the picture from the left. In DDP, parameters and optimizer states are there all the time, and gradients pile up
# in the backward pass. At stage 1 the states have shrunk to a quarter. At stage 2 only shards of the gradients pile up,
# because the whole gradients of a unit come and go. At stage 3 the parameters come and go as well.
#
# **What a rank keeps is not what it needs at the peak.** By the table stage 3 keeps a quarter of what DDP keeps. The
# peak is more than a third, because gathered units, the buffers of messages and **activations** come on top: what the
# forward pass computes and the backward pass needs. That is why the choice of units matters.
#
# <details><summary>How to read the numbers, and where they stop being true</summary>
#
# | case | what happens |
# |---|---|
# | DDP's buckets | They count as activations here: the spike at the end of the backward pass. |
# | MB and MiB | The text counts in MB, the picture in MiB. |
# | with a deeper model and few samples | A unit is a smaller part of the model, and the peak comes near a quarter. |
# | with many samples per rank | The activations decide, and they grow with the depth. No stage shards them. |
# | what the system sees | A process may keep the memory of freed tensors: [lesson 11c](11c_memory_deeper.ipynb). |
#
# </details>
#
# **Try it.** Make the whole model one unit: with `"none"` in the cell below, `FullyShardedModule` gets no blocks as
# units, so that all is the root's. Guess the peak first, as a fraction of DDP's.


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
# ## A trap: the norm
#
# Many training runs *clip*: if the norm of the gradient is above 1, the gradient is scaled down to norm 1. This is the
# norm of the *whole* gradient, but at stages 1 to 3 a rank has only a shard. What if each rank clips with the norm of
# its own shard?

# %%
guess_5 = predict(
    "A long gradient on 4 ranks. Each rank clips its shard to norm 1. The whole has then the norm …"
)

# %%
generator = torch.Generator().manual_seed(0)
gradient = 100 * torch.randn(4000, generator=generator, dtype=DOUBLE)
gradient[:1000] *= 10  # one shard has larger numbers than others
own = torch.cat([shard / shard.norm() for shard in gradient.chunk(4)])
right = gradient / gradient.norm()
print(guess_5.compare(round(own.norm().item(), 6)))
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
# The result has norm 2, the square root of the number of ranks, because each of the four shards has norm 1. The result
# also points elsewhere, because each shard was scaled by another factor, and training goes on without an error.
#
# **Each rank needs the norm of the whole gradient, and one all-reduced number is enough.** The ranks add up the squares
# of their shards, and all of them scale by the same factor. The method `clip_grad_norm(1.0)` does both. The optimizer
# has it at stages 1 and 2, and the model has it at stage 3.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | if a shard is no longer than 1 | It is not scaled down, and the result is shorter than 2. |
# | if the padding is not zero | Its numbers become a part of the norm. Write the zeros yourself. |
#
# </details>
#
# ## When not to shard
#
# Stage 3 sends half as much again as DDP. The extra messages cost no time if they hide behind computing. When do they?
#
# The folded cell plays both steps in virtual time, with messages of the right sizes and layers that take as long as
# they would on a GPU. A rank computes 200 · 10¹² operations per second and sends 25 GB/s. There are 8 ranks and 24
# units, each of 100 million parameters. For each parameter a token takes 2 operations forward and 4 backward. All is
# sent in bfloat16.

# %% tags=["folded"]
# A step of DDP and a step of stage three, played on a network of their own
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
# With few tokens the network decides, and stage 3 takes nearly 1.5 times as long, as its bytes say. With many tokens
# computing decides, and both strategies hide what they send.
#
# Where is the border? With $T$ tokens and $s$ operations per second, a unit of $P$ parameters computes for $6 T P / s$.
# At bandwidth $b$ it sends $3 \cdot 2 P$ bytes, where there are many ranks. $P$ drops out:
#
# $$\frac{6 T P}{s} > \frac{6 P}{b} \quad\Longleftrightarrow\quad T > \frac{s}{b}$$
#
# **For a dense model, the border is a number of tokens per rank: its number of parameters drops out.** Here it is s/b =
# 8,000 tokens per rank. So do not say "my model is too small for stage 3". Say "my ranks have too little to do", or "my
# model fits without it". Ranks have too little to do when a fixed batch is spread over more and more of them, because
# the work of each rank shrinks and its messages do not.
#
# <details><summary>Where this stops being true</summary>
#
# - **With experts**: A token uses only some parameters. Multiply the border by all parameters over those that a
#   token uses.
# - **If gradients are reduced in float32**: The border is 1.5 times as high, since the backward pass must hide 2 +
#   4 bytes behind its own 4 operations.
# - **With few or small units**: The first gather and the last scatter hide behind nothing, and latency counts:
#   [lesson 11c](11c_memory_deeper.ipynb) measures it.
#
# DDP has the same border, if it reduces in bfloat16. It sends $2 \cdot 2 P$ bytes, but can hide them only behind the
# backward pass, which takes $4 T P / s$. Below the border it is faster than stage 3, since nothing disturbs its forward
# pass.
#
# </details>

# %%
TOKENS = 131_072  # in a step, of all ranks together

# %%
guess_6 = predict(
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
print(guess_6.compare(f"from {hidden[-1]} to {2 * hidden[-1]} ranks"))

# %% tags=["folded"]
# The picture
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
# Up to 16 ranks each doubling nearly halves the step. From there on each rank computes less, and waits.
#
# ### Memory golf
#
# Now you choose. A hole is a model, ranks, and the memory of each rank. Train the model in as little time as you can,
# within this memory. You choose the stage, the number of blocks per unit and the number of microbatches. At stage 3 you
# also choose whether the next unit is gathered early, with `prefetch`, and whether a unit is freed after its forward
# pass, with `reshard`.
#
# You also choose how many blocks are `checkpointed`. With **activation checkpointing** a block keeps only its input,
# and recomputes its activations in the backward pass, so it buys memory with computing.
#
# Whoever needs more memory than there is gets no points, and ten points are par. Your best swing at each hole is kept
# in `work/my_games.json`, in your own folder. Nothing sends this file. `distlib board`, in a terminal, shows what is in
# it.

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
# ## In real frameworks
#
# **torch's `fully_shard` is stage 3.** It is called on each unit, and then on the model, whose rest becomes the root's
# unit. Afterwards the parameters are **DTensors**, and each rank has some rows of every tensor. Because `fully_shard`
# sends nothing, it does not make the weights of the ranks equal: they have to be equal before.
#
# `torch_distributed(comm)` gives torch a process group whose messages are this course's, so that they stand in the
# trace.

# %%
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard

Built = tuple[nn.Module, torch.optim.Optimizer]


def shard_with_torch(model: Reader) -> Built:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.003)


# %% tags=["folded"]
# Train what is built, gather its weights, and count the collectives of a step
warnings.filterwarnings("ignore", "Full backward hook|FSDP2-wrapped")  # torch's notes


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


def calls_in_a_step(ranks: int, function: Callable[..., Any]) -> dict[str, int]:
    """The collectives of the second step, by torch's names; each takes ranks - 1 messages."""
    world, sums = world_of(ranks), [Counter(), Counter()]
    for steps, found in enumerate(sums, 1):
        world.run(function, steps=steps)
        for call, sent in world.trace.by_collective(rank=0).items():
            found[call] += sent.messages
    return {call: n // (ranks - 1) for call, n in (sums[1] - sums[0]).items()}


# %%
def stage_3_of_torch(comm: Communicator, steps: int = 10) -> dict[str, torch.Tensor]:
    """The weights after some steps."""
    with torch_distributed(comm):
        built = shard_with_torch(Reader().double())
        torch_steps(comm, built, range(steps))
        return whole(built[0])


weights = world_of(4).run(stage_3_of_torch)[0]
calls = calls_in_a_step(4, stage_3_of_torch)
print(f"{off(weights, one.state_dict()):.0e} off; in a step {calls}")
assert off(weights, one.state_dict()) < 1e-9 and list(calls.values()) == [9, 5]

# %% [markdown]
# The weights are those of one process. Each of the five units has a reduce-scatter. There are nine all-gathers: two for
# each block, and one for the root's unit. torch keeps the root's unit whole between the passes, because it is used last
# in the forward pass and first in the backward pass. Our `FullyShardedModule` does the same.
#
# How does a run continue on another number of ranks? If there are two ranks, each has other rows than any rank of four
# had. So rank 0 saves whole tensors, and sends them to the other ranks when they are loaded, because the options say
# so. All ranks call the same functions, but only rank 0 hands in tensors: the other ranks hand in empty dicts.


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
# **A run that four ranks have saved whole continues on two ranks, with the weights of a run without a break.** Here the
# training ends with the save. If it goes on, copy the state first, because some of its tensors are the optimizer's own,
# and the next step would change them: the count of steps, and on a single rank all tensors.
#
# | in torch, and in DeepSpeed | what it is |
# |---|---|
# | `ZeroRedundancyOptimizer` | a stage 1 that deals out whole tensors |
# | `fully_shard(…, mp_policy=…)` | mixed precision: `MixedPrecisionPolicy(param_dtype=…, reduce_dtype=…)` |
# | `fully_shard(…, mesh=…)` with two dimensions | hybrid: replicated along the first, sharded along the second |
# | `torch.distributed.checkpoint` | a checkpoint in shards, which another number of ranks can read |
# | DeepSpeed's `"zero_optimization": {"stage": 2}` | the stage of ZeRO, as a number in the configuration |
#
# DeepSpeed, where ZeRO comes from, can also *offload* shards to the memory of the host, or to disks: one more place
# where bytes can be, and one more link that they must cross.
#
# ## In short
#
# - Stage 1 shards optimizer states, stage 2 also gradients, stage 3 also parameters: 16/N bytes.
# - The paper's stage 1 sends what DDP sends: an all-reduce with the optimizer in its middle.
# - Stage 3 sends 1.5 times as much, and enough tokens per rank hide the messages.
# - What is kept is not the peak: whole units, buffers and activations come on top.
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
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - The table is the paper's. DeepSpeed has the same stages, and by default sends something else (lesson 15). Gradients
#   and messages are in bfloat16; with gradient shards in float32 it is $2/N$ bytes more. torch's `fully_shard` is stage
#   3, and sends a little less by default, since its root stays.
# - Stage 1 is an all-reduce with the optimizer in its middle. It sends no byte more, but for padding, and is right
#   for every optimizer that works on each number by itself.
# - With $m$ microbatches per step, stage 2 sends $(m + 1)/2$ times as much as stage 1.
# - What is *kept* is not the *peak*. On top of it come the units that are whole (two with prefetching, and the root's),
#   gradients on their way, and activations, which no stage shards.
# - A rank has a shard of the gradient. The norm is that of the whole gradient: add up the squares over all ranks.
# - Stage 3 costs hardly any time where messages hide behind computing: with more than $s/b$ tokens per rank and
#   backward pass, whatever the size of a dense model, if all is sent in two bytes and there are many units, each large
#   enough for latency not to count. Below that it takes up to 1.5 times as long as DDP, and more with accumulation.
#   (With gradients reduced in float32 the border is 1.5 times as high; then stage 3 takes up to twice as long as a DDP
#   that reduces in bfloat16, and no longer than one that reduces in float32.)
#   With experts, multiply the border by all parameters over those that a token uses. Do not take stage 3 for a model
#   that fits and whose ranks have little to do.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/11_zero/11_zero.ipynb) you compute what each stage keeps, shard an optimizer, and train
# with torch's `fully_shard`.
#
# [Lesson 11c](11c_memory_deeper.ipynb) is a side road: activation checkpointing, why a process may still seem as large
# as before, what latency costs, sharding inside a node, and checkpoints in shards. In its exercise you shard gradients
# and parameters by hand.
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
# - [torch.distributed.fsdp.fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html),
#   torch's manual.
