# %% [markdown]
# # ZeRO and FSDP: who holds each byte
#
# Four GPUs of 80 GB are to train a model of 7.5 billion parameters. Its weights take 15 GB in bfloat16, so a GPU could
# hold them five times. Yet DDP stops in its first step, out of memory. You rent four GPUs more, and it stops again.
# What fills a GPU, and why do more GPUs not help?
#
# > After this lesson you will be able to
# >
# > - say which 16 bytes training keeps for each parameter, and which rank needs which of them when,
# > - shard optimizer states, gradients and parameters, and count what each stage saves and sends,
# > - say what is alive at each moment of a training step,
# > - clip a gradient that no rank has whole,
# > - say when *not* to shard,
# > - read torch's `fully_shard` like your own code.
# >
# > **Time:** about 60 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [DDP](05_ddp.ipynb). No GPU.

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
from distlib.draw import (
    before_and_after,
    kept_shards,
    memory_over_time,
    predict,
    sweep,
    unit_lanes,
)
from distlib.training import DistributedDataParallel, Span, StepTimes, digits, zero

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64

# %% [markdown]
# ## Sixteen bytes
#
# Most large models are trained in **mixed precision**: they compute in bfloat16, which takes two bytes per number and
# is fast. But bfloat16 has only 8 significant binary digits. Suppose a weight is 1.0, and an optimizer adds 0.001
# to the weight, 1,000 times.

# %%
guess_1 = predict("A bfloat16 weight is 1.0. 0.001 is added 1,000 times. It is then …")

# %%
weight = torch.ones((), dtype=torch.bfloat16)
for _ in range(1000):
    weight += 0.001
print(guess_1.compare(weight.item()))
assert weight == 1.0 and torch.finfo(torch.bfloat16).eps == 2**-7

# %% [markdown]
# The weight has not moved, because the next bfloat16 number after 1.0 is 1.0078, and 1.001 is rounded back to 1.0.
# Therefore the optimizer keeps a copy of the weights in float32, where small steps add up. Adam also keeps running
# means of each weight's gradients and of their squares, both in float32. The next cell takes one such step, and adds up
# the bytes of the tensors.

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
# **Adam in mixed precision keeps sixteen bytes for each parameter.** The last three rows, 12 bytes, are called the
# **optimizer states**.
#
# So our model takes 120 GB, and a GPU has 80. More GPUs do not help, because with DDP every rank keeps the same 120 GB.
# ZeRO, the *Zero Redundancy Optimizer*, removes the copies: each rank keeps one **shard**, an $N$-th of the bytes,
# where $N$ is the number of ranks. There are three stages, and each stage shards one more kind of bytes:

# %%
by_stage = zero.memory_by_stage(7_500_000_000, world_size=4)
names = ("stage 0, which is DDP", "stage 1", "stage 2", "stage 3")
kept_shards(
    dict(zip(names, by_stage, strict=True)),
    ranks=4,
    title="What four ranks keep of 7.5 billion parameters",
    show=lambda nbytes: f"{nbytes / 1e9:.4g} GB",
)

# %% tags=["folded"]
# Checks of the numbers above and below
totals = [sum(kinds.values()) / 1e9 for kinds in by_stage]
assert totals == [120, 52.5, 41.25, 30] and 7.5e9 * 2 == 15e9
many = [
    sum(kinds.values()) / 7.5e9 for kinds in zero.memory_by_stage(7_500_000_000, 4096)
]
assert [round(each, 1) for each in many] == [16, 4.0, 2.0, 0.0]

# %% [markdown]
# With stage 1 the model fits, and this stage saves the most, because most of the bytes are optimizer states. But it has
# a floor: parameters and gradients stay whole, however many ranks there are. Only stage 3 shards everything. What must
# the ranks send for this?
#
# <details><summary>Where this stops being true</summary>
#
# | case | what changes |
# |---|---|
# | no mixed precision | In float32, 4 bytes for the weight, 4 for the gradient and 8 for Adam are also 16. |
# | gradients in float32 | A gradient takes 4 bytes instead of 2. |
# | torch's DDP | Its buckets come on top: by default they are as large as all gradients together. |
#
# </details>
#
# ## Stage 1: an all-reduce with a pause
#
# In DDP every rank has the same average gradient and the same optimizer states, and makes the same update. Instead,
# each rank could update one shard. Then it needs the states of this shard only: $4 + 12/N$ bytes per parameter. But
# afterwards it must tell the others its new weights. Does this cost more messages?
#
# No. A ring all-reduce has two halves: the reduce-scatter gives each rank the complete sum of one shard, and the
# all-gather spreads the sums. ZeRO pauses between the halves, updates the shard, and spreads new weights instead of
# sums:


# %% tags=["folded"]
# The picture: one step of four weights on four ranks, with SGD
def one_step(comm: Communicator) -> list[list[float]]:
    """The gradients of this rank, its average, its weight before and after, all weights."""
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=DOUBLE)
    gradients = 10 * weights + (2 * comm.rank - 3)  # each rank has others
    steps = [gradients.tolist()]
    reduce_scatter(comm, gradients)
    average = gradients.chunk(4)[comm.rank] / 4
    mine = weights.chunk(4)[comm.rank]
    steps += [average.tolist(), mine.tolist()]
    mine -= 0.01 * average
    steps += [mine.tolist()]
    all_gather(comm, weights)
    return [*steps, weights.tolist()]


seen = SimulatedWorld(4).run(one_step)
seen = [[[round(each, 4) for each in part] for part in rank] for rank in seen]
gradients, averages, before, after, everywhere = map(list, zip(*seen, strict=True))
shard_of = {each: place for rank in gradients for place, each in enumerate(rank)}
for numbers_of in (averages, before, after):
    shard_of |= {each: rank for rank, (each,) in enumerate(numbers_of)}
assert averages == [[10], [20], [30], [40]] and everywhere == [[0.9, 1.8, 2.7, 3.6]] * 4
before_and_after(
    {
        "reduce-scatter, and average": (gradients, averages),
        "update of one weight": (before, after),
        "all-gather": (after, everywhere),
    },
    title="Stage 1: four weights on four ranks",
    subtitle="a row is a rank; a weight and its gradient have one color; the rate is 0.01",
    colors=shard_of,
)

# %% [markdown]
# Here is the same in code, for 10 weights and an optimizer with momentum. Because 4 does not divide 10, two zeros of
# **padding** are added at the end.

# %%
LENGTH, RATE, MOMENTUM = 10, 0.1, 0.9


def gradient_of(rank: int, step: int, weights: torch.Tensor) -> torch.Tensor:
    """Anything that depends on the weights, and differs from rank to rank."""
    return torch.sin(weights * (rank + 1) + step)


def three_steps(comm: Communicator) -> tuple[torch.Tensor, int]:
    """The weights after three steps, and the bytes of momentum that this rank has."""
    ranks = comm.world_size
    padded = -(-LENGTH // ranks) * ranks  # rounded up
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
# For comparison, one process computes with the gradients of all four ranks:

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
# **Stage 1 sends as many bytes as DDP, and each rank updates only its shard.** The weights are those of the single
# process.
#
# A shard may begin in the middle of a matrix. So the optimizer must treat each number by itself, as SGD and AdamW do.
# `check_elementwise` tries an optimizer out:

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
# | case | what changes |
# |---|---|
# | $N$ does not divide the number of weights | The padding is sent, too. |
# | gradients in float32, weights in bfloat16 | DDP sends 4 + 4 bytes per parameter, and stage 1 only 4 + 2. |
# | Muon, an optimizer of whole matrices | The ranks get whole matrices: [lesson 11c](11c_memory_deeper.ipynb). |
# | DeepSpeed | Its stage 1 sends more by default: [lesson 15](15_frameworks.ipynb). |
#
# </details>
#
# A rank updates one shard, so it needs the average gradient of this shard only. Why does it keep the gradients of all
# other shards?
#
# ## Stage 2: gradients leave at once
#
# At stage 1 the gradients of the whole model stay until the backward pass is over, even if they are sent earlier. At
# stage 2 they are freed unit by unit. A **unit** is a group of parameters that share one flat buffer, for example a
# transformer block. As soon as the backward pass has all gradients of a unit, they are reduced and scattered, and the
# whole gradients are freed. A rank keeps $2 + 14/N$ bytes per parameter.
#
# We try this on a small model that reads images of digits. Each of its four blocks is a unit. Its first and last layer
# together are the unit of the **root**, which is the whole model. The library has a class for each stage:


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
    """The model, wrapped if its stage needs it, and its optimizer."""
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


def bytes_of_a_step(function: Callable[..., Any], *args: Any, **options: Any) -> int:
    """Bytes per rank and step, on four ranks, without those of the beginning."""
    world, by_steps = world_of(4), []
    for steps in (0, 4):
        world.run(function, *args, steps=steps, **options)
        by_steps.append(sum(world.trace.bytes_sent))
    return (by_steps[1] - by_steps[0]) // 16  # 4 ranks, 4 steps


# %% [markdown]
# With one backward pass per step, stage 2 sends what stage 1 sends. Why would anybody stop at stage 1? The reason is
# **gradient accumulation**: a step adds up the gradients of several *microbatches*, parts of a batch that go through
# the model one by one. At stage 1 a rank adds up whole gradients, and sends the sum once. At stage 2 a rank has no room
# for whole gradients, so it sends the gradients of each microbatch.

# %%
guess_2 = predict(
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


accumulated = {stage: bytes_of_a_step(accumulate, stage, 4) for stage in (1, 2)}
print(f"bytes per rank and step: {accumulated}")
print(guess_2.compare(round(accumulated[2] / accumulated[1], 2)))
assert accumulated[2] == 2.5 * accumulated[1]

# %% [markdown]
# Four reduce-scatters and one all-gather are 2.5 times as many bytes as one of each. With $m$ microbatches stage 2
# sends $(m + 1)/2$ times as many bytes.
#
# When do these bytes travel? The next picture is drawn from a simulated step on four ranks, in which messages have
# sizes but no contents, and a rank computes by sleeping:
#
# | | |
# |---|---|
# | the model | four units of 100 million parameters; all is sent in bfloat16 |
# | a rank | 200 · 10¹² operations per second, 25 GB/s, 12,000 tokens per step |
# | a token | for each parameter, 2 operations in the forward pass and 4 in the backward pass |

# %% tags=["folded"]
# How a step is played in virtual time
SPEED, NETWORK, UNIT = 200e12, Link(10e-6, 25e9), 100_000_000


def seconds_of(kind: str, tokens: float, length: int = UNIT) -> float:
    """Of a unit's forward (F) or backward pass."""
    return {"F": 2, "B": 4}.get(kind, 0) * tokens * length / SPEED


def played(stage: int, tokens: float, microbatches: int = 1) -> StepTimes:
    """When rank 0 of 4 computes four units and communicates, with `tokens` on each rank."""
    plan = zero.stage_plan(stage, 4, microbatches)
    each = tokens / microbatches

    def step(comm: Communicator) -> StepTimes:
        spans: list[Span] = []
        seconds = zero.play_step(
            comm,
            plan,
            [UNIT] * 4,
            reduce_dtype=torch.bfloat16,
            seconds=lambda action: seconds_of(action.kind, each),
            note=lambda *span: spans.append(Span(*span)),
        )
        return StepTimes(0.0, seconds, spans)

    return SimulatedWorld(4, Cluster.flat(4, NETWORK)).run(step)[0]


microbatches = {f"stage {stage}": played(stage, 12_000, 4) for stage in (1, 2)}
unit_lanes(microbatches, title="A step of four microbatches")

# %% tags=["folded"]
# Checks of what is said above and below
reduced = {
    name: len(step.of("reduce-scatter")) / 4 for name, step in microbatches.items()
}
assert reduced == {"stage 1": 1, "stage 2": 4}
assert bytes_of_a_step(train, 1) == bytes_of_a_step(train, 2)

# %% [markdown]
# **With microbatches, stage 2 sends the gradients of each, and stage 1 sends their sum.** So people who accumulate
# often stop at stage 1.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what changes |
# |---|---|
# | gradients in float32, weights in bfloat16 | Stage 2 sends $(2m + 1)/3$ times as many bytes as stage 1. |
# | torch's `set_requires_gradient_sync(False)` | Gradients stay whole, and only their sum is sent. |
#
# </details>
#
# Now only the parameters are whole on every rank. But a rank computes with one unit at a time. Why does it keep all
# other units?
#
# ## Stage 3: parameters come and go
#
# At stage 3 a rank keeps a shard of everything: $16/N$ bytes per parameter. It gathers the parameters of a unit just
# before it computes with them, and then frees them. The backward pass gathers them again. Gradients are reduced and
# scattered as before.

# %%
guess_3 = predict(
    "The bytes that a rank sends in one step: how many times as many at stage 3 as in DDP?",
    unit="times",
)

# %%
sent = {}
for stage in range(4):
    # free all units between the passes, the root's as well
    options = {"reshard_after_forward": True} if stage == 3 else {}
    sent[stage] = bytes_of_a_step(train, stage, **options)
    errors = [
        max(off(found, one.state_dict()) for found in world_of(ranks).run(train, stage))
        for ranks in (2, 3, 4, 5)
    ]
    print(f"stage {stage}: {sent[stage]:9,.0f} bytes per step, {max(errors):.0e} off")
    assert max(errors) < 1e-9
print(guess_3.compare(round(sent[3] / sent[0], 2)))

# %% tags=["folded"]
# Checks of what is said above and below
numbers = sum(each.numel() for each in one.parameters())
assert abs(sent[0] / (2 * 3 / 4 * numbers * 8) - 1) < 0.01
assert abs(sent[1] / sent[0] - 1) < 0.01 and sent[2] == sent[1]
assert abs(sent[3] / sent[0] - 1.5) < 0.01
assert bytes_of_a_step(accumulate, 3, 4) == 4 * bytes_of_a_step(accumulate, 3, 1)

# %% [markdown]
# **Stage 3 sends 1.5 times as many bytes as DDP: it gathers twice and scatters once.** DDP's all-reduce gathers once
# and scatters once.
#
# All stages end with the weights of one process, on two to five ranks and after 10 steps of AdamW.
#
# <details><summary>Where this stops being true</summary>
#
# | case | bytes that are sent |
# |---|---|
# | gradients in float32 | Stage 3 sends 2 + 2 + 4 bytes per parameter, and DDP sends 4 + 4. |
# | `reshard_after_forward=False` | A unit stays whole until its backward pass: one gather, as many bytes as DDP. |
# | $m$ microbatches | Stage 3 gathers and scatters in each: $1.5 m$ times as many as DDP with `no_sync()`. |
# | torch's default | The root's unit stays whole between the passes, and is gathered once. |
#
# </details>
#
# **Try it.** Gather in bfloat16, with `param_dtype=torch.bfloat16`. The shards and the sums of the gradients stay in
# float64. What part of the bytes does a step send then? And are the weights still the weights of one process? Guess,
# then change the line.

# %%
changed = dict(reshard_after_forward=True)  # add to this dict
print(f"{bytes_of_a_step(train, 3, **changed) / sent[3]:.0%} of the bytes above")
away = off(world_of(4).run(train, 3, **changed)[0], one.state_dict())
print(f"the weights are {away:.0e} off")

# %% tags=["folded"]
# One way to do it
changed["param_dtype"] = torch.bfloat16
now = bytes_of_a_step(train, 3, **changed)
away = off(world_of(4).run(train, 3, **changed)[0], one.state_dict())
print(f"{now / sent[3]:.0%} of the bytes above; the weights are {away:.0e} off")
# Two of three parts have a quarter of the bytes: (2/4 + 1)/3. The shards are exact,
# and yet the gradients come from rounded weights and activations.
assert abs(now / sent[3] - 0.5) < 0.01 and 1e-4 < away < 0.1

# %% [markdown]
# Do more bytes take more time? While a unit computes, the next unit is gathered already: it is **prefetched**. Here is
# the simulated step again, with one microbatch:

# %% tags=["folded"]
# The picture
busy = {f"stage {stage}": played(stage, 12_000) for stage in (1, 3)}
unit_lanes(busy, title="12,000 tokens per rank")

# %% tags=["folded"]
# Checks of what is said below
assert busy["stage 3"].seconds < busy["stage 1"].seconds
sending = {
    name: sum(each.seconds for each in step.of("all-gather", "reduce-scatter"))
    for name, step in busy.items()
}
assert abs(sending["stage 3"] / sending["stage 1"] - 1.5) < 0.01
two_gathers = [each for each in busy["stage 3"].of("all-gather") if each.name == "1"]
assert len(two_gathers) == 2

# %% [markdown]
# Follow unit 1 at stage 3. It is gathered while unit 0 computes forward, and again while unit 2 computes backward. Its
# gradients travel while unit 0 computes backward. Messages are **exposed** only at both ends and between the passes,
# where no other unit computes.
#
# Stage 1 sends less and waits longer here, because its all-gather comes after the update, when all computing is done.
# Megatron-LM can hide this all-gather under the next forward pass.
#
# At stage 3 a rank keeps a quarter of DDP's bytes, and at most two of these units are whole at a time. Is its peak also
# a quarter?
#
# ## What is alive, and when
#
# `MemoryAccount` notes all live tensors, and their kinds, after each operation of torch. We take eight wider blocks in
# float32 on four ranks. The first step makes the optimizer states, so we look at the second.

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
    "The most bytes that are ever alive at stage 3, as a part of those in DDP:",
    choices=["a quarter", "between a quarter and a half", "more than a half"],
)

# %%
wide = partial(Reader, WIDE, blocks=8)
accounts = {
    f"stage {stage}": world_of(4).run(account_of, stage, wide)[0] for stage in range(4)
}
peaks = {
    name: max(each.total for each in samples) for name, samples in accounts.items()
}
print({name: f"{peak / peaks['stage 0']:.0%}" for name, peak in peaks.items()})
print(guess_4.compare("between a quarter and a half"))
memory_over_time(
    accounts,
    title="What is alive on rank 0 of 4 during a training step",
    subtitle="forward, backward, the optimizer's step; the axis counts changes, not time",
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
# In DDP, parameters and states are there all the time, and gradients pile up in the backward pass. At stage 1 the
# states are a quarter. At stage 2 only shards of the gradients pile up. At stage 3 the parameters come and go as well.
#
# **What a rank keeps is not what it needs at the peak.** On top come gathered units, the buffers of messages, and
# **activations**, which the forward pass computes and the backward pass needs. No stage shards activations.
#
# <details><summary>How to read the numbers, and where they stop being true</summary>
#
# | case | what happens |
# |---|---|
# | DDP's buckets | They count as activations here: the spike at the end of the backward pass. |
# | a deeper model and few samples | A unit is a smaller part of the model, and the peak comes near a quarter. |
# | many samples per rank | The activations decide, and they grow with the depth. |
# | the size of the process | It may keep the memory of freed tensors: [lesson 11c](11c_memory_deeper.ipynb). |
#
# </details>
#
# **Try it.** Make the whole model one unit: with `"none"` in the cell below, all parameters are in the root's unit.
# Guess the peak first, as a fraction of DDP's.


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
# Many training runs *clip*: if the norm of the gradient is above 1, the gradient is scaled down to norm 1. This means
# the norm of the *whole* gradient, but with ZeRO a rank has only a shard. What if each rank clips by the norm of its
# own shard?

# %%
guess_5 = predict(
    "Four ranks clip their shards, of norms above 1, to norm 1. The whole then has the norm …"
)

# %%
generator = torch.Generator().manual_seed(0)
gradient = 100 * torch.randn(4000, generator=generator, dtype=DOUBLE)
gradient[:1000] *= 10  # one shard has larger numbers than others
own = torch.cat([shard / shard.norm() for shard in gradient.chunk(4)])
right = gradient / gradient.norm()
print(guess_5.compare(round(own.norm().item(), 6)))
print(f"cosine with the right direction: {torch.dot(own, right) / own.norm():.2f}")


def norm_of_all(comm: Communicator) -> float:
    squares = gradient.chunk(comm.world_size)[comm.rank].square().sum().reshape(1)
    all_reduce(comm, squares)
    return squares.sqrt().item()


world = SimulatedWorld(4)
assert all(abs(norm - gradient.norm()) < 1e-6 for norm in world.run(norm_of_all))
print(f"one number all-reduced: at most {max(world.trace.bytes_sent)} bytes per rank")
assert abs(own.norm() - 2) < 1e-9 and torch.dot(own / own.norm(), right) < 0.75

# %% [markdown]
# The result has norm 2, because each shard has norm 1 and the squares of four shards add up to 4. It also points
# elsewhere, because each shard was scaled by a different factor. Training goes on without an error.
#
# **Each rank needs the norm of the whole gradient, and one all-reduced number is enough.** The ranks add up the squares
# of their shards, and all scale by the same factor. The method `clip_grad_norm(1.0)` does both: the optimizer has it at
# stages 1 and 2, and the model at stage 3.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | a shard's norm is below 1 | It is not scaled down, and the result is shorter than 2. |
# | the padding is not zero | It becomes a part of the norm. |
#
# </details>
#
# ## When not to shard
#
# Stage 3 hides its messages when a unit computes for longer than its messages travel. With fewer tokens a unit computes
# for a shorter time, and its messages stay as long:

# %% tags=["folded"]
# The picture
few = {f"stage {stage}": played(stage, 2048) for stage in (1, 3)}
assert few["stage 3"].seconds > 1.2 * few["stage 1"].seconds
unit_lanes(few, title="2,048 tokens per rank")

# %% [markdown]
# At stage 3 the network is busy nearly all the time, and computing has holes. How many tokens are enough? The next
# cell plays 24 such units on 8 ranks, with DDP and with stage 3.


# %% tags=["folded"]
# A step of DDP and a step of stage three, for any numbers of ranks, tokens and units
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
    units: int = 24,
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
by_tokens = {
    tokens: step_seconds(8, tokens) for tokens in (512, 2048, 4096, 8192, 16_384)
}
print("tokens   computing   DDP   stage 3, in ms")
for tokens, found in by_tokens.items():
    computing, ddp, stage_3 = (each * 1e3 for each in found.values())
    print(f"{tokens:6,} {computing:11.0f} {ddp:5.0f} {stage_3:9.0f}")

# %% tags=["folded"]
# Checks of what is said below
ratios = {tokens: each["stage 3"] / each["DDP"] for tokens, each in by_tokens.items()}
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
# With few tokens the network decides, and stage 3 takes nearly 1.5 times as long as DDP, as its bytes say. With many
# tokens computing decides, and both hide nearly all messages.
#
# Where is the border? With $T$ tokens per rank and $s$ operations per second, a unit of $P$ parameters computes for
# $6 T P / s$. At bandwidth $b$ and on many ranks, its $3 \cdot 2 P$ bytes take nearly $6 P / b$. $P$ drops out:
#
# $$\frac{6 T P}{s} > \frac{6 P}{b} \quad\Longleftrightarrow\quad T > \frac{s}{b}$$
#
# **For a dense model with many large units, the border is s/b tokens per rank.** *Dense* means that each token uses all
# parameters. Here s/b is 8,000 tokens. So few tokens per rank make stage 3 slow, rather than a small model.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what changes |
# |---|---|
# | a model with experts | Multiply the border by all parameters over the parameters that a token uses. |
# | gradients reduced in float32 | The border is 1.5 times as high: the backward pass has to hide more bytes. |
# | few or small units | The first gather is exposed, and latency counts: [lesson 11c](11c_memory_deeper.ipynb). |
# | below the border | DDP is faster than stage 3 if both reduce in bfloat16. |
#
# </details>
#
# Often the batch is fixed, and spread over more and more ranks. The work of each rank shrinks then, and its messages do
# not.

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
messages = {ranks: step_seconds(ranks, 0, units=6)["stage 3"] for ranks in by_ranks}
hidden = [
    ranks for ranks, found in by_ranks.items() if messages[ranks] < found["computing"]
]
print(guess_6.compare(f"from {hidden[-1]} to {2 * hidden[-1]} ranks"))

# %% tags=["folded"]
# The picture
sweep(
    {
        name: {ranks: found[name] * 1e3 for ranks, found in by_ranks.items()}
        for name in ("computing", "DDP", "stage 3")
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
# Up to 16 ranks each doubling nearly halves the step. With 32 ranks each rank computes less, and waits.
#
# ### Memory golf
#
# Now you choose. A hole is a model, ranks, and a limit of memory for each rank. Train in as little time as you can
# within this limit: choose the stage, the blocks per unit and the number of microbatches. At stage 3 you also choose
# `prefetch`, and `reshard`: whether a unit is freed after its forward pass.
#
# With **activation checkpointing** a block keeps only its input, and recomputes its activations in the backward pass.
# The slider says how many blocks do so. **Par** is a good time for the hole and gives ten points. Each 2 % above par
# costs a point, each 2 % below par gives one, and a step above the limit gives none. Your best swings are kept in
# `work/my_games.json`, and only there.

# %%
from distlib.games import memory_golf, play_golf, swing

print(memory_golf.hole_of(1))
play_golf(1)

# %% [markdown]
# **Try it.** Find a step that fits. Which kind of bytes is highest in the picture, and when? Before each move say
# whether memory or time will change, and in which direction. Then go on to the other holes: there are five.

# %% tags=["folded"]
# The same game in code, and the other holes
for hole in memory_golf.HOLES:
    print(hole)
swings = [swing(2, stage=3, checkpointed=16)]  # change this, again and again
print(swings[-1])
print(memory_golf.score_card(swings))

# %% [markdown]
# Par checkpoints none, a quarter, a half, three quarters or all of the blocks. So par can be beaten at every hole:
# count how many blocks have to be checkpointed so that the step just fits.

# %% tags=["folded"]
# Par at every hole
for hole in memory_golf.HOLES:
    swings.append(memory_golf.swing(hole.number, **vars(hole.par)))
    print(f"{hole.number}: {hole.par}")
print(memory_golf.score_card(swings))
assert memory_golf.score_card(swings).endswith("50 points; par is 50")

# %% [markdown]
# ## In real frameworks
#
# **torch's `fully_shard` is stage 3.** It is called on each unit, and then on the model, whose rest becomes the root's
# unit. Afterwards the parameters are **DTensors**, whose rows are spread over the ranks. `fully_shard` sends nothing,
# so the weights of all ranks have to be equal before.
#
# `torch_distributed(comm)` lets torch send through our simulated ranks, so that we can count its messages.

# %%
from torch.distributed.fsdp import fully_shard


def shard_with_torch(model: Reader) -> tuple[nn.Module, torch.optim.Optimizer]:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.003)


# %% tags=["folded"]
# Train what is built, gather its weights, and count the collectives of a step
warnings.filterwarnings("ignore", "Full backward hook|FSDP2-wrapped")  # torch's notes


def torch_steps(
    comm: Communicator, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int
) -> None:
    for step in range(steps):
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
        model, optimizer = shard_with_torch(Reader().double())
        torch_steps(comm, model, optimizer, steps)
        return whole(model)


weights = world_of(4).run(stage_3_of_torch)[0]
calls = calls_in_a_step(4, stage_3_of_torch)
print(f"{off(weights, one.state_dict()):.0e} off; in a step {calls}")
assert off(weights, one.state_dict()) < 1e-9 and list(calls.values()) == [9, 5]

# %% [markdown]
# The weights are the weights of one process. Each of the five units is reduced and scattered once. There are nine
# all-gathers: two for each block, and one for the root's unit. torch keeps the root's unit whole between the passes,
# because it is used last in the forward pass and first in the backward pass. Our `FullyShardedModule` does the same.
#
# | in torch, and in DeepSpeed | what it is |
# |---|---|
# | `ZeroRedundancyOptimizer` | a stage 1 that deals out whole tensors |
# | `fully_shard(…, mp_policy=…)` | mixed precision: `MixedPrecisionPolicy(param_dtype=…, reduce_dtype=…)` |
# | `fully_shard(…, mesh=…)` with two dimensions | hybrid, lesson 11c: copies along the first, shards along the second |
# | `torch.distributed.checkpoint` | a checkpoint in shards, which another number of ranks can read: lesson 11c |
# | DeepSpeed's `"zero_optimization": {"stage": 2}` | the stage of ZeRO, as a number in the configuration |
#
# DeepSpeed, where ZeRO comes from, can also *offload* shards to the memory of the host or to disks.
#
# ## In short
#
# - Adam in mixed precision keeps sixteen bytes per parameter, and the peak is higher.
# - Stage 1 sends as many bytes as DDP, and each rank updates only its shard.
# - With microbatches, stage 2 sends the gradients of each, and stage 1 sends their sum.
# - Stage 3 sends 1.5 times as many bytes as DDP: it gathers twice and scatters once.
# - For a dense model with many large units, s/b tokens per rank hide stage 3's bfloat16 messages.
#
# For Adam in mixed precision on $N$ ranks, with collectives in rings and one backward pass per step:
#
# | stage | kept per parameter, in bytes | sent per step, in units of $\frac{N-1}{N}$ models |
# |---|---|---|
# | 0, DDP | 16 | 2 |
# | 1 | $4 + 12/N$ | 2 |
# | 2 | $2 + 14/N$ | 2 |
# | 3 | $16/N$ | 3 |
#
# ## Now you
#
# In [the exercise](../exercises/11_zero/11_zero.ipynb) you compute what each stage keeps, shard an optimizer, and train
# with torch's `fully_shard`.
#
# [Lesson 11c](11c_memory_deeper.ipynb) is a side road: activation checkpointing, why a process may still seem as large
# as before, what latency costs, sharding inside a node, and checkpoints for another number of ranks. In its exercise
# you shard gradients and parameters by hand.

# %% [markdown]
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
