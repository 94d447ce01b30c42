# %% [markdown]
# # Pipeline
#
# A model needs 160 GB, and a GPU has 80. So you put the first half of its layers on one GPU and the second half on
# another. Now the model fits, but one of the two GPUs is always waiting for the other: you pay for two and use one.
#
# > After this lesson you will be able to
# >
# > - cut a model that does not fit on one device into stages on several ranks, and train it as one process would,
# > - say what share of the time the ranks wait, for any number of ranks and microbatches, and why,
# > - read and write schedules: GPipe, 1F1B, interleaved, zero bubble, and say what each costs in time and in memory,
# > - cut stages by what they cost, and trade memory for time with recomputation,
# > - say when a pipeline is the wrong choice,
# > - fill a grid of your own, and be graded by the clock.
# >
# > **Time:** about 125 minutes; a good place for a break is before "Stages that cost the same". **You need:**
# > [Messages](01_messages.ipynb) and [DDP](05_ddp.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

# %% tags=["folded"]
# More imports
from distlib import (
    Cluster,
    Communicator,
    Link,
    RankError,
    SimulatedWorld,
    World,
    torch_distributed,
)
from distlib.draw import (
    Picture,
    curves,
    memory_per_rank,
    pipeline_timeline,
    play_pipeline,
    predict,
)
from distlib.games.in_lessons import fill
from distlib.training.datasets import digits
from distlib.training.pipeline import Pipeline, StepRecord, measure_costs, stages_of
from distlib.training.schedules import (
    Costs,
    Schedule,
    ScheduleError,
    Timing,
    check_schedule,
    gpipe,
    interleaved_1f1b,
    most_live,
    naive,
    one_forward_one_backward,
    parse_schedule,
    puzzle,
    schedule_grid,
    time_schedule,
    zero_bubble,
    zero_bubble_v,
)
from distlib.training.schedules.execution import execution_order
from distlib.training.schedules.puzzle import Attempt, Grid, level_of, score_card

# %%
torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% [markdown]
# ## The model does not fit
#
# In data-parallel training every rank has the whole model. So the model must fit on one device, and with it the
# gradients and what the optimizer keeps. With Adam in mixed precision that is 16 bytes per parameter. Take a
# model of 175 billion parameters, such as GPT-3, and devices of 80 GB.

# %%
parameters, device = 175e9, 80e9
print(f"{16 * parameters / 1e12} TB, that is {16 * parameters / device:.0f} devices")
assert 16 * parameters == 2.8e12 and 16 * parameters / device == 35

# %% [markdown]
# And we have not counted a single activation. Plain data parallelism does not help at all: a thousand ranks need a
# thousand times 2.8 TB. ([ZeRO](11_zero.ipynb), lesson 11, shards what it copies.)
#
# So cut the model. A deep model is a list of layers, and each needs only the output of the layer before. Rank 0 takes
# the first layers, rank 1 the next, and so on. The layers of a rank are its **stage**.
#
#     rank 0            ──activations──►  rank 1            ──►  …  ──►  rank 3
#     layers 0, 1, 2    ◄───gradient────  layers 3, 4, 5    ◄──     ◄──  last layers, loss
#
# Forward, a rank sends the output of its stage to the next rank. Backward, it sends the gradient of its stage's
# *input* to the previous rank. That is all the communication there is, unless two stages share a weight, or gradients
# are clipped by the norm of all of them. No rank ever sees another rank's weights.
#
# Here is a model for images of digits, eight linear layers, in float64 so that we see how exact it is. We cut
# it into four stages of two linear layers each.

# %%
train_set, _ = digits()
images, labels = train_set.images.double().flatten(1), train_set.labels


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(64, 32), nn.Tanh()]
    for _ in range(6):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(32, 10)).double()


def cut_model(num_stages: int) -> list[nn.Sequential]:
    """The model in stages, with equally many linear layers in each, if that is possible."""
    model = make_model()
    linear = [isinstance(layer, nn.Linear) for layer in model]
    return stages_of(model, num_stages, costs=linear)


for rank, stage in enumerate(cut_model(4)):
    count = sum(parameter.numel() for parameter in stage.parameters())
    print(
        f"rank {rank}: layers {', '.join(dict(stage.named_children()))}; {count:,} parameters"
    )

# %% [markdown]
# `Pipeline` runs such stages. It is given a **schedule**: a list for each rank of what it does, in this order. The
# first one is the obvious one: the whole batch goes forward through all stages, then backward.
#
# An action is written as stage, kind, number: `2F0` is the forward pass through stage 2, `2B0` the backward pass.
# (What is numbered, you will see soon.)

# %%
print(schedule_grid(time_schedule(naive(4, 1))))

# %% [markdown]
# Rows are ranks, columns are units of time. We say that a forward pass through a stage takes one unit and a backward
# pass two: it computes two gradients, that of the weights and that of the input, and each is as much work as the
# forward pass. Dots are waiting, and dashes that an action goes on.

# %%
guess_1 = predict(
    "Four ranks, against one that could hold all. How many times as fast are the four?",
    unit="times",
)

# %% [markdown]
# To see it we run it. In a `SimulatedWorld` computing takes no time by itself; with `costs=` each rank sleeps after
# an action, in virtual time. The tensors are real, and so are the losses. The network, for now, takes no time.

# %%
Maker = Callable[[int, int], Schedule]
Trained = tuple[StepRecord, list[float | None], dict[str, torch.Tensor]]


def train(
    comm: Communicator,
    schedule: Schedule,
    steps: int = 1,
    costs: Costs | None = None,
    recompute: bool = False,
) -> Trained:
    """The record of the last step, the losses, and the weights of this rank's stages."""
    num_stages = 1 + max(action.stage for actions in schedule for action in actions)
    stages = cut_model(num_stages)
    options = {"costs": costs, "recompute": recompute}
    options["ahead"] = 8  # receives are posted 8 actions early
    pipeline = Pipeline(comm, stages, schedule, cross_entropy, **options)
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        batch = slice(64 * step, 64 * (step + 1))
        losses.append(pipeline.step(images[batch], labels[batch]))
        optimizer.step()
    states = [stage.state_dict() for stage in pipeline.stages.values()]
    weights = {name: value for state in states for name, value in state.items()}
    return pipeline.record, losses, weights


def timing_of(by_rank: Sequence[Trained]) -> Timing:
    """When each action ran, as the ranks noted it."""
    return Timing([record.spans for record, _, _ in by_rank])


# %%
FREE = Link(latency=0.0, bandwidth=float("inf"))
ideal = SimulatedWorld(4, Cluster.flat(4, FREE))
alone = timing_of(SimulatedWorld(1).run(train, naive(1, 1), costs=Costs(4, 8)))
four = timing_of(ideal.run(train, naive(4, 1), costs=Costs(1, 2)))
print(f"one rank {alone.seconds} s, four ranks {four.seconds} s")
print(guess_1.compare(alone.seconds / four.seconds))
assert alone.seconds == four.seconds == 12

# %%
pipeline_timeline(four, title="Four ranks, one batch")

# %% [markdown]
# Not faster at all. At each moment one rank computes, and three wait for it. The waiting is called the **bubble**.
# Here it is three quarters of the ranks' time. You have bought four devices, and use one.
#
# The model fits now, that much is true. Is the result right? We train 10 steps, and compare the loss of every step
# and all weights at the end with one process.

# %%
assert f"{four.bubble:.4f}" == "0.7500"


def train_alone(steps: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        batch = slice(64 * step, 64 * (step + 1))
        optimizer.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()


right_losses, right_weights = train_alone(10)


def distance(by_rank: Sequence[Trained]) -> float:
    """The largest difference to one process, of a loss or of a weight."""
    # the rank of the last stage has the losses, the others None
    losses = next(found for _, found, _ in by_rank if found[0] is not None)
    gaps = [abs(a - b) for a, b in zip(losses, right_losses, strict=True)]
    weights = {name: value for _, _, part in by_rank for name, value in part.items()}
    assert set(weights) == set(right_weights)
    gaps += [
        float((weights[name] - right_weights[name]).abs().max()) for name in weights
    ]
    return max(gaps)


found = distance(ideal.run(train, naive(4, 1), steps=10))
print(f"10 steps on 4 ranks: largest difference to one process {found:.1e}")
assert found < 1e-9

# %% [markdown]
# ## Microbatches
#
# Rank 0 waits because it has nothing to do until the whole batch comes back. So cut the batch. As soon as rank 0 has
# done the first part, rank 1 can begin with it, and rank 0 goes on with the second part. The parts are called
# **microbatches**. The number behind the letter is theirs: `2F5` is microbatch 5, forward, through stage 2.
#
# The gradients of all microbatches are added up, and the optimizer takes one step at the end. So it is still the same
# training step. This is **GPipe**: all microbatches forward, then all backward.
#
# From now on a unit is the forward pass of one *microbatch* through a stage: for 8 microbatches one rank alone would
# need 8 · 12 = 96 s.

# %%
guess_2 = predict(
    "4 ranks, 8 microbatches. What share of the time do the ranks wait now?",
    unit="%",
)

# %%
EVEN = Costs(forward=1.0, backward=2.0)
run = ideal.run(train, gpipe(4, 8), costs=EVEN)
print(guess_2.compare(100 * timing_of(run).bubble))
pipeline_timeline(timing_of(run), title="GPipe, 4 ranks, 8 microbatches, from a run")

# %% [markdown]
# The step takes 33 units, 96/33: 2.9 times as fast as one rank. Count in the picture. Rank 3 waits 3 units, works 8
# (forward) and 16 (backward), and waits 6 more while the gradients travel back: 9 of 33. Each rank waits as long as the
# p − 1 others take for one microbatch:
#
# $$\text{bubble} = \frac{p-1}{m+p-1}\ \text{of the total time}$$
#
# for $p$ ranks and $m$ microbatches. Be careful when you compare numbers. The GPipe paper divides by the total, as we
# do. The Megatron-LM paper divides by the *ideal* time, without any waiting: then it is $\frac{p-1}{m}$. The same
# run, two numbers. In this lesson it is always the part of the total.

# %%
print("ranks  microbatches   of the total   relative to ideal")
for p in (2, 4, 8):
    ranks = SimulatedWorld(p, Cluster.flat(p, FREE))
    for m in (8, 16, 32):
        timing = timing_of(ranks.run(train, gpipe(p, m), costs=EVEN))
        ideal_seconds = m * 3.0
        relative = timing.seconds / ideal_seconds - 1
        print(f"{p:5}  {m:12}   {timing.bubble:12.1%}   {relative:17.1%}")
        assert abs(timing.bubble - (p - 1) / (m + p - 1)) < 1e-9
        assert abs(relative - (p - 1) / m) < 1e-9

# %% tags=["folded"]
# Checks of the numbers above
# 27.3, 15.8 and 8.6 % for four ranks
spans = timing_of(run).spans[3]
assert (spans[0].start, spans[-1].end, timing_of(run).seconds) == (3, 27, 33)
assert sum(span.seconds for span in spans) == 24 and f"{96 / 33:.1f}" == "2.9"
shares = [100 * time_schedule(gpipe(4, m)).bubble for m in (8, 16, 32)]
assert [f"{share:.1f}" for share in shares] == ["27.3", "15.8", "8.6"]
same = [time_schedule(gpipe(p, m)).bubble for p, m in [(2, 8), (4, 24), (8, 56)]]
assert max(same) - min(same) < 1e-9
for p in range(1, 9):
    for m in range(1, 17):
        for costs in (Costs(1, 2), Costs(1, 1), Costs(0.3, 0.7)):
            found = time_schedule(gpipe(p, m), costs).bubble
            assert abs(found - (p - 1) / (m + p - 1)) < 1e-9

# %% [markdown]
# For the same bubble, $m$ must grow as $p - 1$: from 2 ranks to 4 three times as many microbatches, from 4 to 8 seven
# thirds. No speed appears in the formula. It holds for any time of a forward and of a backward pass, as long as all
# stages are alike and messages take no time.
#
# **Try it.** You have 8 ranks. How many microbatches do you need for a bubble of at most 5 %?

# %%
p, m = 8, 32  # change m
print(f"{time_schedule(gpipe(p, m)).bubble:.2%}")

# %% tags=["folded"]
# One way to do it
# Solve (p − 1)/(m + p − 1) ≤ 1/20 for m
m = 19 * (p - 1)
print(f"{m} microbatches: {time_schedule(gpipe(p, m)).bubble:.2%}")
assert abs(time_schedule(gpipe(p, m)).bubble - 0.05) < 1e-9

# %% [markdown]
# ## How much is kept
#
# So take many microbatches. There are two ways to get them: more samples, or fewer samples in each. With GPipe the
# first costs memory (and it changes the training, see [Large batches](06_large_batches.ipynb)). The second costs
# messages. First the memory.
#
# For its backward pass a layer needs what it had in the forward pass: its input or its output. So each microbatch
# leaves **activations** behind, and they are kept until its backward pass is done. With GPipe all backward passes come
# after all forward passes. So each rank keeps the activations of the whole batch.
#
# But the last rank could begin at once with the backward pass of microbatch 0. And so a microbatch could be finished,
# and forgotten, before the last one has begun. This is **1F1B**: one forward, one backward, in turn. At the beginning
# a rank does only as many forward passes as are needed to fill the stages behind it.

# %%
guess_3 = predict(
    "1F1B in place of GPipe, 4 ranks, 8 microbatches. A training step is …",
    choices=["faster", "just as fast", "slower"],
)

# %%
kept, timings, runs = {}, {}, {}
for name, make in {"GPipe": gpipe, "1F1B": one_forward_one_backward}.items():
    runs[name] = ideal.run(train, make(4, 8), costs=EVEN)
    timings[name] = timing_of(runs[name])
    kept[name] = [record.peak_bytes for record, _, _ in runs[name]]
    print(f"{name:6} {timings[name].seconds} s")
gap = timings["1F1B"].seconds - timings["GPipe"].seconds
verdict = "just as fast" if abs(gap) < 1e-9 else "faster" if gap < 0 else "slower"
print(guess_3.compare(verdict))
pipeline_timeline(timings, title="The same time, less memory")

# %% tags=["folded"]
# Checks of what is said above and below, with live tensors
# The microbatches of which anything was kept
assert abs(timings["GPipe"].seconds - timings["1F1B"].seconds) < 1e-9
for p, m in [(4, 8), (4, 2), (3, 7)]:
    ranks = SimulatedWorld(p, Cluster.flat(p, FREE))
    live = [record.most_live for record, _, _ in ranks.run(train, gpipe(p, m))]
    assert live == [m] * p
    schedule = one_forward_one_backward(p, m)
    live = [record.most_live for record, _, _ in ranks.run(train, schedule)]
    assert live == [min(m, p - stage) for stage in range(p)] == most_live(schedule)
for p in range(1, 9):
    for m in range(1, 17):
        schedule = one_forward_one_backward(p, m)
        assert abs(time_schedule(schedule).bubble - (p - 1) / (m + p - 1)) < 1e-9

# %% [markdown]
# Just as fast: the same bubble, only in other places. What differs is on the right. With GPipe each rank keeps all 8
# microbatches. With 1F1B rank $s$ keeps at most $p - s$: 4, 3, 2, 1. However many microbatches there are, it is never
# more than the number of ranks.
#
# Play it. Each slot on the right is a microbatch whose activations are kept. They are measured: `Pipeline` counts the
# tensors that autograd holds. A forward pass fills a slot, a backward pass frees it, and the next one takes it again.
# Step with → and ←; space plays.

# %%
play_pipeline(
    timings["1F1B"],
    title="1F1B: what each rank keeps",
    kept=[record.kept for record, _, _ in runs["1F1B"]],
)

# %% [markdown]
# In bytes, the most that was kept at any moment:

# %%
memory_per_rank(kept, "Activations that are kept, 4 ranks, 8 microbatches")

# %% tags=["folded"]
# Checks
# Rank 0 keeps half, rank 2 a quarter
assert kept["1F1B"][0] * 2 == kept["GPipe"][0]
assert kept["1F1B"][2] * 4 == kept["GPipe"][2]

# %% [markdown]
# With 1F1B the first rank has the most to keep.
#
# **Try it.** Write a schedule yourself. A line is a rank. This one is 1F1B for two ranks and three microbatches.
# Change the order so that rank 0 keeps only one microbatch at a time. How much longer does it take? Then break it:
# let rank 1 do `1B0` before `1F0`.

# %%
mine = parse_schedule(
    [
        "0F0 0F1 0B0 0F2 0B1 0B2",
        "1F0 1B0 1F1 1B1 1F2 1B2",
    ]
)
try:
    print(schedule_grid(time_schedule(mine)))
    print("kept at most:", most_live(mine))
except ScheduleError as error:
    print(error)

# %% tags=["folded"]
# One way to do it
# Naive; and a schedule that nobody can execute
one_at_a_time = parse_schedule(["0F0 0B0 0F1 0B1 0F2 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"])
print(schedule_grid(time_schedule(one_at_a_time)), most_live(one_at_a_time))
assert most_live(one_at_a_time) == [1, 1]
in_turn = one_forward_one_backward(2, 3)
assert time_schedule(in_turn).seconds == 12 and most_live(in_turn) == [2, 1]
assert time_schedule(one_at_a_time).seconds == 18
try:
    check_schedule(parse_schedule(["0F0 0B0", "1B0 1F0"]))
except ScheduleError as error:
    print(error)
    assert "1B0 waits for 1F0" in str(error)

# %% [markdown]
# ## Smaller microbatches on a slow link
#
# Now the other way: the batch stays as it is, and we cut it into more pieces. Each piece takes less time, and its
# messages are smaller. But there are more of them, and each message has a latency.
#
# Say that a whole batch takes a stage 80 ms forward and 160 ms backward. The link has a latency of 5 ms, as between two
# cities. Several messages may be under way at once. One of the schedules below, "longer warmup", is 1F1B whose ranks do
# twice as many forward passes before their first backward pass.

# %%
guess_4 = predict(
    "1F1B on this slow link. Which is faster for the same batch: 8 or 32 microbatches?",
    choices=["8", "32"],
)

# %%
SLOW = Link(latency=5e-3, bandwidth=1e9)


def milliseconds(make: Maker, m: int, link: Link) -> float:
    """Of one training step of four ranks, with m microbatches out of the same batch."""
    ranks = SimulatedWorld(4, Cluster.flat(4, link))
    run = ranks.run(train, make(4, m), costs=Costs(0.080 / m, 0.160 / m))
    return 1e3 * timing_of(run).seconds


MICROBATCHES = (1, 2, 4, 8, 16, 32, 64)
longer_warmup = partial(one_forward_one_backward, eager=1)
CASES = {
    "1F1B, 5 ms": (one_forward_one_backward, SLOW),
    "longer warmup": (longer_warmup, SLOW),
    "GPipe, 5 ms": (gpipe, SLOW),
    "no latency": (gpipe, FREE),
}
took = {
    name: {m: milliseconds(make, m, link) for m in MICROBATCHES}
    for name, (make, link) in CASES.items()
}
print("microbatches ", "".join(f"{m:7}" for m in MICROBATCHES))
for name, times in took.items():
    print(f"{name:13} {''.join(f'{ms:7.0f}' for ms in times.values())}  ms")
kept_by_longer = most_live(longer_warmup(4, 16))
print("a longer warmup keeps, of 16 microbatches:", kept_by_longer)
faster = min((8, 32), key=took["1F1B, 5 ms"].__getitem__)
print(guess_4.compare(str(faster)))
curves(
    {name: list(times.items()) for name, times in took.items()},
    along="microbatches",
    values="ms",
    title="One training step of the same batch, 4 ranks",
    subtitle="virtual time of a run",
)

# %% tags=["folded"]
# Checks of the numbers above, and of what is said below
assert took["1F1B, 5 ms"][8] < took["1F1B, 5 ms"][32] - 100
assert min(took["1F1B, 5 ms"], key=took["1F1B, 5 ms"].__getitem__) == 8
assert [round(took[name][16]) for name in list(CASES)[:3]] == [425, 315, 315]
thirty_two = [took[name][32] for name in list(CASES)[:3]]
assert thirty_two[0] > 500 and 300 < thirty_two[1] < 350 and 280 < thirty_two[2] < 300
assert kept_by_longer == [7, 5, 3, 1]
assert most_live(one_forward_one_backward(4, 16)) == [4, 3, 2, 1]
for m in (8, 16, 32, 64):
    eager = math.ceil(2 * 5e-3 / (0.24 / m))  # the first that is as fast as GPipe
    late = Costs(0.08 / m, 0.16 / m, transfer=5e-3)
    eager_seconds = [
        time_schedule(one_forward_one_backward(4, m, eager=k), late).seconds
        for k in (eager - 1, eager)
    ]
    gpipe_seconds = time_schedule(gpipe(4, m), late).seconds
    assert eager_seconds[0] > gpipe_seconds + 1e-3
    assert abs(eager_seconds[1] - gpipe_seconds) < 1e-9
assert most_live(one_forward_one_backward(4, 32, eager=2)) == [10, 7, 4, 1]
assert min(took["GPipe, 5 ms"], key=took["GPipe, 5 ms"].__getitem__) == 64
assert min(took["no latency"], key=took["no latency"].__getitem__) == 64
for m in (8, 16, 32, 64):
    free = Costs(0.08 / m, 0.16 / m)
    late = Costs(0.08 / m, 0.16 / m, transfer=1e-3)
    waits = [
        (
            time_schedule(make(4, m), late).seconds
            - time_schedule(make(4, m), free).seconds
        )
        for make in (gpipe, one_forward_one_backward)
    ]
    assert abs(waits[0] - 6e-3) < 1e-9  # 2(p − 1) messages in a row
    assert abs(waits[1] - (1.5 * m + 4) * 1e-3) < 1e-9
late = [
    time_schedule(one_forward_one_backward(4, 6), Costs(0.01, 0.02, transfer=wire))
    for wire in (1e-3, 0.0)
]  # no multiple of four: 12 latencies, not 13
assert abs(late[0].seconds - late[1].seconds - 12e-3) < 1e-9
for p in (2, 3, 4, 8):  # p microbatches more, 2(p − 1) latencies more
    each = Costs(0.01, 0.02, transfer=1e-3)
    few, more = (
        time_schedule(one_forward_one_backward(p, m), each).seconds - (m + p - 1) * 0.03
        for m in (16, 16 + p)
    )
    assert abs(more - few - 2 * (p - 1) * 1e-3) < 1e-9

# %% [markdown]
# Eight. With 32 the formula promises a bubble of 8.6 %, and the step takes longer than with 8. The formula knows
# nothing of messages. With this 1F1B there is a best number of microbatches: of those above, 8.
#
# GPipe sends its messages one after another, and nobody waits for an answer. So it pays its $2(p-1)$ latencies once,
# however many microbatches there are, and goes on gaining with more of them. For that its receives must be posted
# early enough: ours are posted 8 actions ahead. (With a few hundred microbatches that is not enough either.)
#
# In 1F1B a rank that has done its warm-up sends an activation and *waits* for a gradient before it goes on. At each
# time $p$ microbatches are under way, and each has to travel there and back: $2(p-1)$ messages. So each microbatch
# adds $2(p-1)/p$ latencies, 1.5 for four ranks. In all, for $m$ a multiple of four, four ranks wait for $1.5m + 4$
# latencies, where GPipe waits for 6.
#
# But nothing forces a rank to wait. It can do more forward passes first, and has work while the gradient travels: a
# longer **warmup**. The usual one has $p-s-1$ forward passes on rank $s$. The second line of the plot has twice as
# many. With 16 microbatches it is as fast as GPipe, 315 ms instead of 425, and keeps 7, 5, 3 and 1 of them, where
# GPipe keeps 16 on every rank and the usual 1F1B 4, 3, 2 and 1. With 32, where a microbatch is shorter and the latency
# is not, it takes three times the usual warmup to be as fast as GPipe: 10, 7, 4 and 1 are kept. With many microbatches
# it takes $1 + \lceil 2L/(t_F+t_B) \rceil$ times the usual one, for a latency $L$. So latency can be bought with
# memory; where it is no longer than a few microbatches, for less memory than GPipe's. (Zhuang et al. 2022 call it
# *eager* 1F1B.) You will need that in the puzzle.
#
# Small microbatches have another cost, which virtual time does not show. Products of small matrices make poor use of a
# GPU.
#
# ## Less memory: recompute
#
# What if even that is too much? Then keep only the *input* of a stage, for each microbatch, and run the forward pass
# again right before the backward pass. A stage then keeps the activations of one microbatch, and inputs of the
# others.
#
# Rank 1 keeps three tensors of each microbatch: its input, and what its two `Tanh` return. Each has 2 KiB. So with
# GPipe it keeps 48 KiB.

# %%
guess_5 = predict(
    "GPipe, 8 microbatches, recomputed. How much does rank 1 keep at most?",
    unit="KiB",
)

# %%
AGAIN = Costs(forward=1.0, backward=3.0)  # forward again, then backward
ways, seconds = {}, {}
for name, make, again in [
    ("GPipe", gpipe, False),
    ("GPipe, recomputed", gpipe, True),
    ("1F1B", one_forward_one_backward, False),
    ("1F1B, recomputed", one_forward_one_backward, True),
]:
    run = ideal.run(train, make(4, 8), costs=AGAIN if again else EVEN, recompute=again)
    ways[name] = [record.peak_bytes for record, _, _ in run]
    seconds[name] = timing_of(run).seconds
    print(f"{name:18} {seconds[name]} s")
print(guess_5.compare(ways["GPipe, recomputed"][1] / 1024))
memory_per_rank(ways, "Activations that are kept, 4 ranks, 8 microbatches")

# %% tags=["folded"]
# Checks of the numbers above
assert abs(seconds["1F1B, recomputed"] / seconds["1F1B"] - 4 / 3) < 1e-9
for name in ("GPipe", "1F1B"):
    pairs = zip(ways[f"{name}, recomputed"], ways[name], strict=True)
    assert all(less <= more for less, more in pairs)
assert ways["GPipe"][1] == 8 * 3 * 2 * 1024 == 48 * 1024
assert ways["GPipe, recomputed"][1] == (7 + 3) * 2 * 1024
assert ways["1F1B, recomputed"][3] == ways["1F1B"][3]
assert distance(ideal.run(train, gpipe(4, 8), steps=10, recompute=True)) < 1e-9


def recomputed(make: Maker, m: int, forward: Sequence[float]) -> float:
    """How many times as long a step takes if every stage does its forward pass twice."""
    schedule = make(len(forward), m)
    once, twice = (
        time_schedule(schedule, Costs(list(forward), [k * each for each in forward]))
        for k in (2, 3)
    )
    return twice.seconds / once.seconds


for make in (gpipe, one_forward_one_backward):
    assert all(
        abs(recomputed(make, m, [1.0] * p) - 4 / 3) < 1e-9
        for p in range(1, 6)
        for m in range(1, 10)
    )
assert abs(recomputed(one_forward_one_backward, 3, [2, 1, 1]) - 1.4) < 1e-9
assert abs(recomputed(gpipe, 3, [2, 1, 1]) - 4 / 3) < 1e-9
for k in (2, 3):  # F of ranks 0, 1, 2, then B of ranks 2, 1, and three of rank 0
    schedule, costs = one_forward_one_backward(3, 3), Costs([2, 1, 1], [2 * k, k, k])
    chain = (2 + 1 + 1) + (k + k) + 3 * 2 * k
    assert time_schedule(schedule, costs).seconds == chain == {2: 20, 3: 28}[k]

# %% [markdown]
# 20 KiB: seven inputs, and all three tensors of the microbatch that is recomputed. Where a stage is recomputed as a
# whole, of $k$ microbatches at most $(k-1)/k$ of the memory is freed, so it pays most where many are kept. Rank 3 of
# 1F1B keeps one, and gains nothing. The results are the same, to rounding.
#
# The time is not measured: we put the second forward pass into the cost of B. One more forward pass is 1 of 3, so
# where stages are alike it is at most a third more. Where they are not, it may be more with 1F1B: the slowest rank
# does some forward passes while it would wait for a gradient anyway. So backward passes are more than two thirds of
# what a step takes, and only they get longer. With stages of 2, 1 and 1 units and 3 microbatches it is 28 units in
# place of 20, 40 % more. A rank can also recompute while it waits.
#
# ## A smaller bubble: several stages per rank
#
# The bubble is the time until the pipeline is full, and the time until it is empty. It fills faster if stages are
# smaller. So give each rank *two* stages of half the size. They must not be neighbors: rank 0 has stages 0 and
# 4, rank 1 has 1 and 5, and so on. A microbatch goes around twice.

# %%
guess_6 = predict(
    "Interleaved, with two stages per rank. 4 ranks, 8 microbatches: "
    "what share of the time do the ranks wait?",
    unit="%",
)

# %%
HALF = Costs(forward=0.5, backward=1.0)  # a stage has half as many layers
run = ideal.run(train, interleaved_1f1b(4, 8), costs=HALF)
interleaved = timing_of(run)
interleaved_bytes = [record.peak_bytes for record, _, _ in run]
print(guess_6.compare(100 * interleaved.bubble))
compared = {"1F1B": timings["1F1B"], "interleaved": interleaved}
pipeline_timeline(compared, title="One stage per rank, and two")

# %% tags=["folded"]
# Checks of the numbers above and below
assert f"{interleaved.bubble:.1%}" == "15.8%"
assert most_live(interleaved_1f1b(4, 8)) == [11, 9, 7, 5]  # stages of half the size
assert (interleaved_bytes[1], kept["1F1B"][1]) == (36 * 1024, 18 * 1024)
for p in range(2, 7):  # as the table at the end says
    for v in (2, 3):
        for m in (p, 2 * p, 3 * p):
            pairs = zip(
                most_live(interleaved_1f1b(p, m, v)), range(p, 0, -1), strict=True
            )
            more = [count - v * usual for count, usual in pairs]
            assert min(more[1:]) > 0 and (more[0] == 0 if m == p else more[0] > 0)
for p in range(1, 9):
    for v in (1, 2, 3):
        for m in (p, 2 * p, 3 * p):
            found = time_schedule(interleaved_1f1b(p, m, v), HALF).bubble
            assert abs(found - (p - 1) / (v * m + p - 1)) < 1e-9

# %% [markdown]
# With $v$ stages per rank the bubble is $\frac{p-1}{v m + p-1}$, where $m$ is a multiple of $p$: as small as with $v$
# times as many microbatches. It costs messages: each microbatch crosses 7 boundaries instead of 3. And look at the
# right: rank 0 keeps 5.5 microbatches instead of 4, and rank 1 keeps 4.5 instead of 3. In bytes it is more than that:
# 36 KiB on rank 1 instead of 18. Each stage also keeps its input, and now there are twice as many inputs.
#
# ## A smaller bubble: two halves of a backward pass
#
# Look at 1F1B once more. Rank 2 waits for a gradient from rank 3. What rank 3 does meanwhile is a whole backward
# pass, and it computes two gradients: that of its input, which rank 2 is waiting for, and that of its weights, for
# which nobody is waiting. So cut it in two: **I** for the input, **W** for the weights. The first half is sent as
# soon as it is done. The second half can be done any time, best when the rank would wait. This is **zero bubble**, in
# the version that its authors call ZB-H1.

# %%
halves = timing_of(ideal.run(train, zero_bubble(4, 8), costs=EVEN))
compared = {"1F1B": timings["1F1B"], "zero bubble, ZB-H1": halves}
pipeline_timeline(compared, title="Whole backward passes, and halves")

# %% tags=["folded"]
# Checks of the numbers below
# (p − 1)/(3m + p − 1) of the total where m ≥ p
for p in range(1, 9):
    for m in range(1, 17):
        timing = time_schedule(zero_bubble(p, m))
        assert abs(timing.seconds - (2 * m + p - 1 + max(m, p))) < 1e-9
        if m >= p:
            assert abs(timing.bubble - (p - 1) / (3 * m + p - 1)) < 1e-9
        live = most_live(zero_bubble(p, m))
        assert live == [min(m, p - stage) for stage in range(p)]
        up_to_weight = most_live(zero_bubble(p, m), up_to_weight=True)
        assert up_to_weight == [min(m, p)] * p
assert (timings["1F1B"].seconds, halves.seconds) == (33, 27)
assert abs(halves.bubble - 1 / 9) < 1e-9
for rank, spans in enumerate(halves.spans):  # each rank waits 3: before F and before I
    first = next(span for span in spans if span.action.kind == "I")
    forward = sum(span.end - span.start for span in spans if span.start < first.start)
    assert (spans[0].start, first.start - forward) == (rank, 3)
    assert spans[-1].end == 27

# %% [markdown]
# 27 instead of 33, and a bubble of 11.1 % instead of 27.3 %. What is left are two triangles of the same size: before
# the first F, and before the first I. The one at the end is filled with W. (We let F, I and W take equally long. In a
# real model they differ, and so does the picture.)
#
# Now the memory. Look at the hatched bars: between I and W a rank still needs something, the inputs of its layers and
# the gradients of their outputs. The paper counts both parts: $M_B$ from F to I, and $M_W$ from I to W. In its
# transformer $M_W$ is smaller than $M_B$, so the fullest rank keeps no more than with 1F1B. But the other ranks do:
# *every* rank keeps 4 microbatches, counted up to W. With 1F1B only the first rank does. How much is it in bytes, in
# our pipeline?

# %%
kept["ZB-H1"] = [
    record.peak_bytes for record, _, _ in ideal.run(train, zero_bubble(4, 8))
]
memory_per_rank(kept, "Activations that are kept, 4 ranks, 8 microbatches")

# %% tags=["folded"]
# Checks of what is said below
assert all(a > b for a, b in zip(kept["ZB-H1"], kept["1F1B"], strict=True))
assert max(kept["ZB-H1"]) == kept["ZB-H1"][0] == 50 * 1024
assert max(kept["1F1B"]) == kept["1F1B"][0] == 32 * 1024
assert 6.9 < kept["ZB-H1"][3] / kept["1F1B"][3] < 7
assert 0.85 < kept["ZB-H1"][3] / kept["GPipe"][3] < 0.9

# %% [markdown]
# More than with 1F1B on every rank: 50 KiB instead of 32 on the first, and nearly seven times as much on the last, not
# far from GPipe. A good part of that is our pipeline: for each layer that has weights, its input and the gradient of
# its output wait for W, and our pipeline keeps the output too. In the paper's transformer the peak stays that of 1F1B.
#
# Can the last triangles go, too? The paper has two answers. ZB-H2 fills them with more forward passes, and keeps
# nearly twice as much. The other one is a question of *where* the stages are.
#
# ### A V of stages
#
# Look at the bars of 1F1B once more. Most memory is at the front: rank 0 keeps a microbatch for the longest time, the
# last rank for the shortest. So give each rank two stages again, of half the size, but now the second half comes back
# the same way:
#
#     rank               0  1  2  3
#     stages going down  0  1  2  3      a microbatch goes down to rank 3,
#     stages going up    7  6  5  4      and up again: its loss is on rank 0
#
# Rank 0 has the first stage, which keeps a microbatch for long, and the last one, which hardly keeps it. So all ranks
# keep the same. And rank 0 has a loss early, so it has I and W early. This is **ZB-V**.

# %%
guess_7 = predict(
    "ZB-V, 4 ranks, 8 microbatches, two stages per rank: what share of the time do the ranks wait?",
    unit="%",
)

# %%
run = ideal.run(train, zero_bubble_v(4, 8), costs=HALF)
v_shaped = timing_of(run)
kept["ZB-V"] = [record.peak_bytes for record, _, _ in run]
print(guess_7.compare(100 * v_shaped.bubble))
for name, schedule in {
    "1F1B": one_forward_one_backward(4, 8),
    "ZB-H1": zero_bubble(4, 8),
    "ZB-V": zero_bubble_v(4, 8),
}.items():
    size = 2 if name == "ZB-V" else 1  # its stages have half the size
    live = [count / size for count in most_live(schedule, up_to_weight=True)]
    print(
        f"{name:6} keeps on the ranks, in microbatches of a whole stage, up to W: {live}"
    )
compared = {"zero bubble, ZB-H1": halves, "ZB-V": v_shaped}
pipeline_timeline(compared, title="Halves, and halves in a V")

# %% tags=["folded"]
# Checks of the numbers above and below
# (p − 1)/(6m + p − 1) from m = 3p/2 on, and as ZB-H1 up to m = p
for p in range(2, 7):
    for m in range(1, 14):
        schedule = zero_bubble_v(p, m)
        bubble = time_schedule(schedule, HALF).bubble
        least = (p - 1) / (6 * m + p - 1)
        assert bubble > least - 1e-9 and (bubble < least + 1e-9) == (m >= 3 * p // 2)
        as_h1 = abs(bubble - time_schedule(zero_bubble(p, m)).bubble) < 1e-9
        assert as_h1 == (m <= p)
        full = most_live(schedule, up_to_weight=True) == [2 * p] * p
        assert full == (m >= 2 * p - 1)
for make, costs, wanted in [(zero_bubble_v, HALF, 73.5), (zero_bubble, EVEN, 81)]:
    third = timing_of(ideal.run(train, make(4, 8), steps=3, costs=costs))
    end = max(spans[-1].end for spans in third.spans)
    assert abs(end - wanted) < 1e-9  # 3 · 24 + 1.5, and 3 · 27
assert v_shaped.seconds == 25.5 and f"{v_shaped.bubble:.1%}" == "5.9%"
assert f"{time_schedule(zero_bubble_v(4, 16), HALF).bubble:.1%}" == "3.0%"
assert kept["ZB-V"][0] == 64 * 1024 and kept["1F1B"][0] == 32 * 1024
assert 1 < sum(kept["ZB-V"]) / sum(kept["GPipe"]) < 1.05
mixed = Costs(0.5, 1.0, input=0.75, weight=0.25)  # I takes longer than W: gaps return
assert time_schedule(zero_bubble_v(4, 8), mixed).bubble > 0.1

# %% [markdown]
# 5.9 %, and 3.0 % with 16 microbatches: what is left is the way of the first microbatch down the V. Over many steps
# not even that is left: rank 0 is done first, and begins the next step at once. Three steps take 3 · 24 units, and 1.5
# once for the way. (If all ranks meet between two steps, as for the norm of all gradients, each step pays it.) Every
# rank keeps 4 microbatches, which is the most that 1F1B keeps on any. So a bubble can nearly vanish *without* more
# memory at the fullest rank. The other ranks pay, as in ZB-H1: with 1F1B the last one keeps 1. What it costs besides
# are messages: twice as many, since every microbatch goes there and back. And for that bubble it wants $3p/2$
# microbatches; with $p$ or fewer it is no better than ZB-H1.
#
# In the bytes of our pipeline it is another picture: rank 0 keeps 64 KiB instead of 32, and all ranks about as much as
# with GPipe. The reason is the same as for ZB-H1, and half stages have twice as many inputs. As always, F, I and W take
# equally long here. In a real model they do not, and gaps return.
#
# ### All of them, compared
#
# Are they all right? We train 10 steps with each, and compare with one process. And we count the messages of
# one training step, in the trace: those of two steps, less those of one.

# %%
SCHEDULES = {
    "naive": (naive(4, 8), EVEN),
    "GPipe": (gpipe(4, 8), EVEN),
    "1F1B": (one_forward_one_backward(4, 8), EVEN),
    "interleaved": (interleaved_1f1b(4, 8), HALF),
    "ZB-H1": (zero_bubble(4, 8), EVEN),
    "ZB-V": (zero_bubble_v(4, 8), HALF),
}
print("schedule       time  bubble  kept by rank 0  messages     bytes  difference")
sent = {}
for name, (schedule, costs) in SCHEDULES.items():
    run = ideal.run(train, schedule, costs=costs)
    timing, one = timing_of(run), ideal.trace
    ideal.run(train, schedule, steps=2)
    messages = len(ideal.trace) - len(one)
    nbytes = sum(ideal.trace.bytes_sent) - sum(one.bytes_sent)
    sent[name] = messages, nbytes
    off = distance(ideal.run(train, schedule, steps=10))
    print(
        f"{name:12} {timing.seconds:6}  {timing.bubble:6.1%}  {run[0][0].peak_bytes:14,}"
        f"  {messages:8}  {nbytes:8,}  {off:10.0e}"
    )
    assert off < 1e-9
    assert abs(timing.bubble - time_schedule(schedule, costs).bubble) < 1e-9

# %% tags=["folded"]
# Checks
# Each microbatch crosses each boundary forward and backward, as 32 float64 per sample
for name, (messages, nbytes) in sent.items():
    boundaries = {"interleaved": 7, "ZB-V": 6}.get(name, 3)
    assert messages == 2 * 8 * boundaries
    assert nbytes == 2 * boundaries * 64 * 32 * 8

# %% [markdown]
# With $p$ stages there are $p - 1$ boundaries between ranks. A step sends $2m$ messages over each, and over each the
# activations of the whole batch forward, and as many bytes backward. The number of microbatches does not change the
# bytes, and neither does the schedule, unless it has more stages. (ZB-V has 8 stages and only 6 boundaries: the two
# stages at the tip of the V are neighbors on the same rank.)
#
# What is sent does not depend on the number of parameters directly (wider models have wider activations). That is the
# great difference to data parallelism. Take the model of 175 billion parameters again. Its layers hand on 12,288
# numbers for each of 2,048 positions of a text, and it was trained with about 1,560 texts in a batch. In 16 bits:

# %%
boundary = 2 * 2048 * 12288 * 2  # forward and backward, of one text
gradients = 2 * parameters * 2  # what a rank of a large ring sends, nearly
print(f"pipeline: {boundary / 1e6:.0f} MB over each boundary for each text")
print(f"data parallel: {gradients / 1e9:.0f} GB per rank and step")
print(f"with 1,560 texts in a step: {1560 * boundary / 1e9:.0f} GB over each boundary")
print(f"as many bytes with {gradients / boundary:,.0f} texts in a step")
assert 100e6 < boundary < 101e6 and gradients == 700e9
assert f"{1560 * boundary / 1e9:.0f}" == "157" and 157 < 700 / 4
assert f"{gradients / boundary:.0f}" == "6954"

# %% [markdown]
# 157 GB is less than a quarter of 700. So a pipeline is for links between machines, which are slower than those inside.
# But the larger the batch, the smaller the difference: with more than 6,954 texts a pipeline sends more.
#
# ## A pipeline that never drains
#
# All schedules so far drain the pipeline at the end of a step, because the optimizer must see all gradients. With
# most of them the bubble is the price of that. What if nobody waits? Each stage takes a step of its own after every
# backward pass, and the forward passes go on forever. Where stages are alike and messages take no time, there is no
# bubble at all. This is the first **PipeDream**.
#
# The price is another one. Once the pipeline is full, rank $s$ has updated its weights $p - s - 1$ times between the
# forward and the backward pass of a microbatch. With which weights should it go backward? The chain rule multiplies by
# the weights that the forward pass used. They are gone, unless the rank keeps them: **weight stashing**.
#
# Take four stages of a single weight each. They multiply: $y = w_3 w_2 w_1 w_0$, and the loss is $(y-2)^2/2$. Below is
# the gradient that rank 0 computes for microbatch 4, with stashed weights and without.


# %%
Versions = dict[int, tuple[float, float, float]]


def never_drained(microbatch: int, stash: bool) -> Versions:
    """For each stage: its weight in the forward pass, in the backward pass, its gradient."""
    weights, seen = [1.3, 0.9, 1.1, 1.2], {}
    given: dict[tuple[int, int], float] = {}  # the input of a stage
    used: dict[tuple[int, int], float] = {}  # the weight of its forward pass
    back: dict[tuple[int, int], float] = {}  # the gradient of its input
    for stage, kind, number in execution_order(one_forward_one_backward(4, 8)):
        at = stage, number
        if kind == "F":
            given[at] = (
                given[stage - 1, number] * used[stage - 1, number] if stage else 1.0
            )
            used[at] = weights[stage]
            if stage == 3:
                back[4, number] = given[at] * used[at] - 2  # of the loss
        else:
            gradient = back[stage + 1, number] * given[at]
            back[at] = back[stage + 1, number] * (used[at] if stash else weights[stage])
            if number == microbatch:
                seen[stage] = used[at], weights[stage], gradient
            weights[stage] -= 0.05 * gradient  # at once: nobody waits for the others
    return seen


# %%
def gradient_at(weights: Sequence[float]) -> list[float]:
    """What autograd says at these four weights."""
    at = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    ((at.prod() - 2) ** 2 / 2).backward()
    return at.grad.tolist()


print("the gradient of rank 0's weight, microbatch 4")
for stash in (True, False):
    rows = [row for _, row in sorted(never_drained(4, stash).items())]
    at_forward, at_backward, computed = zip(*rows, strict=True)
    print(f"{'with' if stash else 'without'} stashed weights {computed[0]:9.5f}")
    print(
        f"    autograd at the weights of the forward pass  {gradient_at(at_forward)[0]:9.5f}"
    )
    print(
        f"    autograd at the weights of the backward pass {gradient_at(at_backward)[0]:9.5f}"
    )
    exact = [
        abs(a - b) < 1e-12
        for a, b in zip(computed, gradient_at(at_forward), strict=True)
    ]
    assert exact == ([True] * 4 if stash else [False, False, True, True])
    assert abs(computed[0] - gradient_at(at_backward)[0]) > 0.1
    changed = [a != b for a, b in zip(at_forward, at_backward, strict=True)]
    assert changed == [True, True, True, False]

# %% tags=["folded"]
# Checks of what is said below about torch
for through_data in (False, True):
    stage = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    one, two = (stage(torch.ones(1, 4)).sum() for _ in range(2))
    one.backward()
    if through_data:
        for parameter in stage.parameters():
            parameter.data -= 0.1 * parameter.grad
        two.backward()
        continue
    torch.optim.SGD(stage.parameters(), lr=0.1).step()
    try:
        two.backward()
    except RuntimeError as error:
        assert "has been modified by an inplace operation" in str(error)
    else:
        raise AssertionError("torch did not notice")

# %% [markdown]
# With stashed weights it is a true gradient, to the last digit: that of the loss at the weights which the forward pass
# met on its way. (On rank $s$ they are $p-s-1$ updates old, so only those of the last rank are new; what that does is
# the subject of [lesson 07](07_parameter_server.ipynb).) Without, it is the gradient at neither place: forward through
# one function, and back through another. Only ranks 3 and 2 are right: between the two passes of rank 3 nothing
# happens, so what it hands back to rank 2 is right as well, and rank 2 has a single weight. A stage of several layers
# would go back through weights of its own that have changed.
#
# torch stops you: it counts the changes of each weight, and the backward pass says that one "has been modified by an
# inplace operation". Whoever updates through `.data` sees no error. A model may still learn, since the error is small
# where weights move little between the two passes. But a theorem about gradients speaks of it only if it allows for
# such an error.
#
# Rank $s$ keeps $p - s$ versions of its weights. For the 175 billion parameters on four ranks, in 16 bits:

# %%
versions = sum(4 - rank for rank in range(4))
print(f"one version of all weights: {2 * parameters / 1e9:.0f} GB")
print(f"with stashed ones: {versions * 2 * parameters / 4 / 1e9:.0f} GB")
assert (2 * parameters, versions * 2 * parameters / 4) == (350e9, 875e9)
live = most_live(one_forward_one_backward(4, 8))
assert live == [4, 3, 2, 1] and sum(live) == versions  # a version per microbatch

# %% [markdown]
# That is one reason why pipelines are drained today. The other is that every gradient is taken at weights that are old
# on all ranks but the last, so that the result is no longer that of one process. GPipe and 1F1B with a flush need one
# version. (PipeDream-2BW, by some of the same authors, keeps two on every rank: it adds up gradients over at least $p$
# microbatches before each update.)
#
# ## Stages that cost the same
#
# So far all stages were alike. But layers differ. Here is a model of seven layers; some are wide. How would you cut
# it?


# %%
def make_uneven(widths: Sequence[int]) -> nn.Sequential:
    pairs = zip(widths, widths[1:], strict=False)
    return nn.Sequential(*(nn.Linear(before, after) for before, after in pairs))


WIDTHS = [64, 64, 64, 64, 64, 256, 64, 256]
flops = measure_costs(make_uneven(WIDTHS), torch.zeros(8, 64))
print("thousands of operations:", [round(each / 1e3) for each in flops])

# %% [markdown]
# "Two layers per rank, and the last one for the last rank" is one way. The other way is by cost: cut so that the most
# expensive stage is as cheap as can be. `stages_of` does that. Without costs it takes the numbers of parameters. For
# linear layers that gives nearly always the same cut. (Biases count, too: where layers are narrow it can differ.) But
# a convolution uses its few parameters many times: there you need the measured costs.


# %%
def layers_by_cost(
    widths: Sequence[int], costs: Sequence[float] | None = None
) -> list[list[int]]:
    stages = stages_of(make_uneven(widths), 4, costs)
    return [[int(name) for name, _ in stage.named_children()] for stage in stages]


def timed(costs: Sequence[float], cut: Sequence[Sequence[int]]) -> Timing:
    """1F1B, 8 microbatches; a forward pass through the whole model takes 4 s."""
    whole = sum(costs)
    forward = [4 * sum(costs[layer] for layer in stage) / whole for stage in cut]
    schedule = one_forward_one_backward(4, 8)
    return time_schedule(schedule, Costs(forward, [2 * each for each in forward]))


by_count = [[0, 1], [2, 3], [4, 5], [6]]
by_cost = layers_by_cost(WIDTHS, flops)
print("by cost:", by_cost)
cuts = {"by count": timed(flops, by_count), "by cost": timed(flops, by_cost)}
pipeline_timeline(cuts, title="The same model and schedule, two cuts")

# %% tags=["folded"]
# Checks of the numbers above and below
assert [each / flops[0] for each in flops] == [1, 1, 1, 1, 4, 4, 4]
assert by_cost == [[0, 1, 2, 3], [4], [5], [6]] == layers_by_cost(WIDTHS)
narrow = [8, 128, 8, 8, 4, 8, 64]  # biases move a boundary
narrow_flops = measure_costs(make_uneven(narrow), torch.zeros(8, 8))
assert layers_by_cost(narrow, narrow_flops) == [[0], [1], [2, 3, 4], [5]]
assert layers_by_cost(narrow) == [[0], [1, 2, 3], [4], [5]]
mixed = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))
few, _, many = (sum(each.numel() for each in layer.parameters()) for layer in mixed)
more, _, less = measure_costs(mixed, torch.zeros(8, 1, 8, 8))
assert (few, many) == (80, 2890) and more / less > 20 * few / many
assert abs(cuts["by cost"].bubble - 3 / 11) < 1e-9
assert (cuts["by count"].seconds, cuts["by cost"].seconds) == (52, 33)
assert abs(cuts["by count"].computing[2] - 8 * 3 * 4 * 8 / 16) < 1e-9
uneven = [4 * sum(flops[layer] for layer in stage) / sum(flops) for stage in by_count]
costs = Costs(uneven, [2 * each for each in uneven])
assert 3 * sum(uneven) + 7 * 3 * max(uneven) == 54
assert time_schedule(gpipe(4, 8), costs).seconds == 54
crossed = Costs([2, 1], [2, 4])  # one stage is slow forward, the other backward
assert time_schedule(gpipe(2, 3), crossed).seconds == 21 > (2 + 1 + 2 + 4) + 2 * (1 + 4)

# %% [markdown]
# By count, rank 2 has half of all the work. A pipeline is as slow as its slowest stage, and all others wait for it. By
# cost, all stages are alike, and the bubble is that of the formula again. Where stages are not alike, the formula
# above no longer holds. If the same stage is the slowest forward and backward, GPipe takes (sum of the stages) + (m −
# 1) · (slowest stage), 54 s here, and 1F1B only 52: that is what virtual time is for.
#
# **Try it.** Make one layer so wide that no cut helps. What does the slowest stage cost then, compared with its share
# of a quarter?

# %%
mine = [64, 64, 64, 64, 64, 256, 64, 256]  # change it
costs = measure_costs(make_uneven(mine), torch.zeros(8, 64))
cut = layers_by_cost(mine, costs)
print(cut, f"{timed(costs, cut).bubble:.1%}")

# %% tags=["folded"]
# One way to do it
# A layer of 1,024 features
mine = [64, 64, 64, 64, 64, 1024, 64, 256]
costs = measure_costs(make_uneven(mine), torch.zeros(8, 64))
cut = layers_by_cost(mine, costs)
slowest = max(sum(costs[layer] for layer in stage) for stage in cut) / sum(costs)
print(
    cut, f"bubble {timed(costs, cut).bubble:.1%}, the slowest stage has {slowest:.0%}"
)
assert abs(slowest - 0.4) < 1e-9 and timed(costs, cut).bubble > 0.45

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# A single layer that is too large can't be helped by any cut *between* layers. To cut the layer itself is the subject
# of lesson 10. Or let several ranks share the work of the slowest stage, each with other microbatches. PipeDream does
# that.
#
# </details>
#
# ## On a clock
#
# All of that was virtual time. Now four real processes, and a network that is paced like a real one: 1 ms and 100
# MB/s. The ranks still sleep instead of computing, 20 ms forward and 40 ms backward, so that your machine need not
# have four idle cores. But the messages are real, and so are the waiting and the clock.

# %%
network = Link(latency=1e-3, bandwidth=100e6)
NAPS = Costs(forward=0.020, backward=0.040)
on_the_clock = {}
with World(4, network=network) as world:
    world.run(train, naive(4, 1))  # the first run starts the processes
    for name, make in [
        ("naive", naive),
        ("GPipe", gpipe),
        ("1F1B", one_forward_one_backward),
    ]:
        on_the_clock[name] = timing_of(world.run(train, make(4, 8), costs=NAPS))
print("schedule   measured   formula      bubble   formula")
for name, timing in on_the_clock.items():
    wanted = (8 * 4 if name == "naive" else 8 + 3) * 0.060
    bubble = 3 / 4 if name == "naive" else 3 / 11
    print(
        f"{name:8} {timing.seconds * 1e3:8.0f} ms {wanted * 1e3:6.0f} ms"
        f"  {timing.bubble:10.1%} {bubble:9.1%}"
    )

# %%
pipeline_timeline(on_the_clock, title="Four real processes, 8 microbatches, on a clock")

# %% [markdown]
# The measured times are longer than the formula, and differ from run to run: messages take time, and processes wait
# for a core. We show them, and assert nothing about them.
#
# **Try it.** Let the network have a latency of 20 ms, as long as a forward pass. Work out both times from what you
# know: GPipe waits for 6 latencies, 1F1B for 1.5 · 8 + 4 = 16. Then run.

# %%
network = Link(latency=1e-3, bandwidth=100e6)  # change the latency
with World(4, network=network) as world:
    world.run(train, naive(4, 1))
    for make in (gpipe, one_forward_one_backward):
        timing = timing_of(world.run(train, make(4, 8), costs=NAPS))
        print(f"{make.__name__:25} {timing.seconds * 1e3:4.0f} ms")

# %% tags=["folded"]
# One way to do it
# In virtual time, where it is always the same
slow = SimulatedWorld(4, Cluster.flat(4, Link(latency=20e-3, bandwidth=100e6)))
pair = [
    timing_of(slow.run(train, make(4, 8), costs=NAPS)).seconds
    for make in (gpipe, one_forward_one_backward)
]
print(f"GPipe {pair[0] * 1e3:.0f} ms, 1F1B {pair[1] * 1e3:.0f} ms")
assert abs(pair[0] - (11 * 0.060 + 6 * 0.020)) < 1e-3  # 780 ms
assert abs(pair[1] - (11 * 0.060 + 16 * 0.020)) < 1e-3  # 980 ms

# %% [markdown]
# ## When not to
#
# **When the model fits.** Then use data parallelism. Four ranks that each do a quarter of the samples with the whole
# model have no bubble. They pay with an all-reduce. A model of a billion parameters in 32 bits has 4 GB of gradients,
# so each rank of four sends 6 GB. How fast must the network be, so that this takes no longer than the bubble? Say that
# a batch is 512 texts of 2,048 tokens, that a token takes 2 operations per parameter forward and 4 backward, and that a
# device does 100 · 10¹² operations a second.

# %%
work = 6 * 1e9 * 512 * 2048 / (4 * 100e12)  # seconds of each of four ranks
bubble = 3 / 8 * work  # (p − 1)/m of the ideal time, with 8 microbatches
wire = 2 * 3 / 4 * 4e9
print(f"no bubble: {work:.1f} s; 1F1B, 8 microbatches: {bubble:.1f} s more")
print(f"{wire / 1e9} GB in {bubble:.1f} s: {wire / bubble / 1e9:.1f} GB/s")
small = wire / (bubble * 64 / 512)
print(f"with 64 texts: {small / 1e9:.1f} GB/s")
assert f"{work:.1f} {bubble:.1f} {wire / bubble / 1e9:.1f}" == "15.7 5.9 1.0"
assert abs(small - wire / (3 / 64 * work)) < 1  # as with 64 microbatches
assert f"{small / 1e9:.0f}" == "8" and timings["1F1B"].seconds / 24 - 1 == 3 / 8

# %% [markdown]
# Against 8 microbatches 1 GB/s is enough, and a part of it can hide behind the backward pass. With 64 texts it is 8
# GB/s, and so it is against 64 microbatches: the smaller the batch or the bubble, the faster the network must be.
# Where it is fast enough, a pipeline is not the best choice for a model that fits.
#
# **When the batch is small.** With $m = p$ a third (two ranks) to nearly half of the time is waiting. With fewer
# microbatches it is more, up to $(p-1)/p$ with one. A model that answers one question at a time is a pipeline with a
# single microbatch.

# %%
for p in (2, 4, 8, 16):
    print(f"{p:2} ranks, {p:2} microbatches: {time_schedule(gpipe(p, p)).bubble:.0%}")
    assert abs(time_schedule(gpipe(p, p)).bubble - (p - 1) / (2 * p - 1)) < 1e-9

# %% [markdown]
# **When one layer is too large**, or stages can't be made alike: the slowest stage sets the pace.
#
# **When layers look at the whole batch**, as batch norm does. In a pipeline it sees a microbatch only, and its result
# depends on how you cut. Then the run no longer equals one process. (Data parallelism has the same problem: there it
# sees the samples of one rank.)

# %%
norm = nn.BatchNorm1d(64).double()
whole = norm(images[:64])
pieces = torch.cat([norm(piece) for piece in images[:64].split(8)])
apart = (whole - pieces).abs().max().item()
print(f"largest difference {apart:.1f}")
assert apart > 0.1

# %% [markdown]
# ## In real frameworks
#
# torch has pipelines in `torch.distributed.pipelining`. A `PipelineStage` wraps the module of one stage, and a
# schedule class runs it. The names are those of this lesson. We run five of them on our four ranks, with the stages of
# our model, and compare the gradients with those of one process. `torch_distributed(comm)` gives torch a process group
# whose messages are this course's, so that they stand in the trace.

# %%
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)

THEIRS = [ScheduleGPipe, Schedule1F1B]
THEIRS += [ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble]
THEIRS += [ScheduleZBVZeroBubble]
Gradients = dict[str, torch.Tensor]


# %%
def stages_of_rank(kind: type, rank: int) -> list[int]:
    """The numbers of a rank's stages, on four ranks."""
    if kind is ScheduleZBVZeroBubble:
        return [rank, 7 - rank]
    return [rank, rank + 4] if "Interleaved" in kind.__name__ else [rank]


def with_torch(
    comm: Communicator, kind: type, steps: int = 1
) -> tuple[Gradients, list[float], list[str]]:
    """The gradients of this rank's stages, the losses of the microbatches, and what
    this rank did."""
    numbers = stages_of_rank(kind, comm.rank)
    cut = cut_model(4 * len(numbers))
    with torch_distributed(comm):
        device = torch.device("cpu")
        stages = [PipelineStage(cut[n], n, len(cut), device) for n in numbers]
        given = stages if len(stages) > 1 else stages[0]
        schedule = kind(given, n_microbatches=8, loss_fn=cross_entropy)
        losses: list[torch.Tensor] = []
        inputs = [images[:64]] if 0 in numbers else []
        last = len(cut) - 1 in numbers
        for _ in range(steps):
            schedule.step(
                *inputs, **dict(target=labels[:64], losses=losses) if last else {}
            )
    done = [str(action) for action in schedule.pipeline_order[comm.rank] if action]
    parameters = (pair for n in numbers for pair in cut[n].named_parameters())
    gradients = {name: parameter.grad for name, parameter in parameters}
    return gradients, [loss.item() for loss in losses], done


# %%
alone = make_model()
loss = cross_entropy(alone(images[:64]), labels[:64])
loss.backward()
orders = {}
with World(4) as world:
    for kind in THEIRS:
        by_rank = world.run(with_torch, kind)
        orders[kind.__name__] = [done for _, _, done in by_rank]
        found = {name: each for part, _, _ in by_rank for name, each in part.items()}
        gaps = [
            float((found[name] - parameter.grad).abs().max())
            for name, parameter in alone.named_parameters()
        ]
        losses = next(losses for _, losses, _ in by_rank if losses)
        gaps.append(abs(sum(losses) / 8 - loss.item()))
        print(f"{kind.__name__:30} largest difference to one process {max(gaps):.0e}")
        assert len(gaps) == 17 and max(gaps) < 1e-12

# %% [markdown]
# The same gradients, to rounding. Does torch also send what our `Pipeline` sends? We run one step and then two, with
# both, because the difference of these traces is the second step alone.

# %%
OURS = {ScheduleGPipe: gpipe, Schedule1F1B: one_forward_one_backward}
OURS |= {ScheduleInterleaved1F1B: interleaved_1f1b}
OURS |= {ScheduleZBVZeroBubble: zero_bubble_v}


def two_steps(run: Callable[..., object], schedule: object) -> list[torch.Tensor]:
    """What each rank sends in the first step, and in the second: [messages and bytes, ranks]."""
    sums = [torch.zeros(2, 4, dtype=torch.int64)]
    for steps in (1, 2):
        world.run(run, schedule, steps)
        sums.append(torch.tensor([world.trace.messages_sent, world.trace.bytes_sent]))
    return [sums[1] - sums[0], sums[2] - sums[1]]


# %%
sent = {}
print("the second step: messages of each rank, bytes, and what the first has on top")
with World(4) as world:
    for kind, make in OURS.items():
        ours, theirs = two_steps(train, make(4, 8)), two_steps(with_torch, kind)
        print(kind.__name__)
        for whose, (first, second) in {"ours": ours, "torch's": theirs}.items():
            messages, nbytes = map(str, second.tolist())
            more = int((first - second)[0].sum())
            print(f"{whose:>12}  {messages:16}  {nbytes:28}  {more:+3} messages")
        assert torch.equal(ours[1], theirs[1])
        sent[kind] = ours, theirs

# %% tags=["folded"]
# Checks of what is said below
boundaries = dict(zip(OURS, (3, 3, 7, 2 * 3), strict=True))
for kind, both in sent.items():
    for (first, second), more in zip(both, ((1,), (2, 6)), strict=True):
        only_first = int((first - second)[0].sum())  # torch 2.8 sends two
        assert only_first in [number * boundaries[kind] for number in more]
        assert int(second[0].sum()) == 2 * 8 * boundaries[kind]

# %% [markdown]
# In the second step, each rank sends as many messages and as many bytes with torch as with our `Pipeline`, in all four
# schedules. For GPipe and 1F1B the messages of all ranks add up to $2m(p-1) = 48$.
#
# The first step differs, because the ranks do not know the shapes yet. Our `Pipeline` sends one extra message across
# each boundary between two ranks, which carries the shapes. torch 2.13 sends six across each boundary: in each
# direction a vote on whether every stage knows its shapes, the length of a description, and the description itself.
#
# Now 13 samples in 5 microbatches, which can't all have the same size. Ours weighs each by its samples. What does
# torch do, on one rank, and on four?


# %%
def thirteen(comm: Communicator) -> float | None:
    schedule = one_forward_one_backward(4, 5)
    pipeline = Pipeline(comm, cut_model(4), schedule, cross_entropy)
    return pipeline.step(images[:13], labels[:13])


ours = ideal.run(thirteen)[-1]
wanted = cross_entropy(make_model()(images[:13]), labels[:13]).item()
print(f"13 samples in 5 microbatches: loss {ours:.6f}, in one process {wanted:.6f}")
assert abs(ours - wanted) < 1e-9


# %%
def thirteen_in_torch(comm: Communicator) -> Gradients:
    """torch's GPipe, one stage per rank: the gradients of this rank's stage."""
    stages, last = cut_model(comm.world_size), comm.world_size - 1
    module = stages[comm.rank]
    with torch_distributed(comm, "gloo"):
        stage = PipelineStage(module, comm.rank, len(stages), torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=5, loss_fn=cross_entropy)
        inputs = [images[:13]] if comm.rank == 0 else []
        schedule.step(*inputs, target=labels[:13] if comm.rank == last else None)
    return {name: parameter.grad for name, parameter in module.named_parameters()}


alone = make_model()
cross_entropy(alone(images[:13]), labels[:13]).backward()
with World(1) as world:
    (found,) = world.run(thirteen_in_torch)
off = max(
    float((found[name] - parameter.grad).abs().max())
    for name, parameter in alone.named_parameters()
)
print(f"torch on one rank: gradients off by {off:.3f}, and no error")
assert 0.02 < off < 0.03
with World(4) as world:
    try:
        world.run(thirteen_in_torch)
    except RankError as error:
        complaint = str(error).rpartition("rank 3 raised ")[2]
print("torch on four ranks:", complaint)
assert "batch_size (3)" in complaint and "batch_size (2)" in complaint

# %% [markdown]
# torch weighs all microbatches alike, and does not check that they are. On one rank its gradients are off by 0.03,
# without a word. On four the last rank notices it, when it computes a loss: what it received does not fit its labels.
#
# Is it the same schedule? torch writes down its actions in the notation that we use.

# %%
print("rank 2 of torch's 1F1B:", " ".join(orders["Schedule1F1B"][2]))
print("rank 2 of ours:        ", *one_forward_one_backward(4, 8)[2])

# %% tags=["folded"]
# Checks
# Action by action
ours = [[str(action) for action in row] for row in gpipe(4, 8)]
theirs = [row[:16] for row in orders["ScheduleGPipe"]]
assert theirs == ours
ours = [[str(action) for action in row] for row in one_forward_one_backward(4, 8)]
theirs = [row[:16] for row in orders["Schedule1F1B"]]
assert theirs[:3] == ours[:3] and theirs[3][0] == "3F1"
ours = [[str(action) for action in row] for row in interleaved_1f1b(4, 8)]
assert orders["ScheduleInterleaved1F1B"] == ours
ours = [[str(action) for action in row] for row in zero_bubble_v(4, 8)]
assert orders["ScheduleZBVZeroBubble"] == ours

# %% [markdown]
# The interleaved schedule and the ZB-V that torch runs are ours, action by action, on all four ranks. (Interleaved,
# that holds where $m$ is a multiple of $p$.) So are its listings of GPipe and of 1F1B, which are only for reading. (In
# torch 2.13 that of the *last* rank of 1F1B is off by one: it begins with microbatch 1. The code does rank 3 in the
# same order as ours.) `REDUCE_GRAD` finishes the gradients after the last microbatch. In real training you would also
# meet:
#
# - **Tracing.** `torch.distributed.pipelining.pipeline` follows the forward pass of a model that is not a list of
#   layers, and cuts it at points that you name.
# - **Megatron-LM** (1F1B, plain or interleaved) and **DeepSpeed** (1F1B), where large pipelines are mostly run today.
# - **TensorFlow and JAX** have no such schedule among their strategies. In JAX you would write it with `shard_map`
#   and `ppermute`, see [JAX](14_jax.ipynb).
#
# ## Fill the grid
#
# Now you write the schedules, and the clock grades them. Each level gives you ranks, microbatches, what each action
# takes, and how many microbatches a rank has room for. A schedule gets points for time and for memory. **Par** is 20
# points.
#
# A line is a rank. Write `F0` for the forward pass of microbatch 0 through that rank's stage, and `B0` for its
# backward pass. Dots may stand for waiting. They are for your eyes only: when an action runs follows from what it
# waits for. Your best grid of each level is kept in `work/my_games.json`, in your own folder. Nothing sends that file.
# `distlib board`, in a terminal, shows what is in it.


# %%
tried: list[Attempt] = []


def attempt(number: int, grid: Grid) -> Picture | None:
    """Check, time and draw a grid. What is wrong with it is printed."""
    print(level_of(number))
    try:
        tried.append(fill(number, grid))
    except ScheduleError as error:
        print(error)
        return None
    print(tried[-1])
    return pipeline_timeline(tried[-1].timing, title=f"My level {number}")


# %%
attempt(
    1,
    """
    rank 0  F0 .. .. .. B0 .. F1 .. .. .. B1 ..
    rank 1  .. F0 B0 .. .. .. .. F1 B1 .. .. ..
    """,
)

# %% [markdown]
# Points for time are 10 times par's time over yours; for memory likewise, with the microbatches that each rank keeps
# at most, added up. Points are rounded down. While you are slower than par, memory gives no more points than time: else
# waiting would pay.
#
# **Try it.** This grid is naive. Reach par: 20 points. Then beat it. Level 1 can be done with 23.

# %% tags=["folded"]
# One way to do it
# Rank 1 needs no second slot
best = """
rank 0  F0 F1 .. .. B0 .. .. B1 ..
rank 1  .. F0 B0 .. F1 B1 .. .. ..
"""
print(puzzle.fill(1, best))
assert puzzle.fill(1, best).points == 23

# %% [markdown]
# The other levels get harder. A grid may also be code: a list for each rank, of words such as `"F0"`. In levels 5 and 7
# you may cut backward passes: write `I0` and `W0` in place of `B0`. A microbatch takes room up to its W. In level 6
# messages take time: think of what you saw on the slow link. All grids here are naive. Improve one, and run its cell
# again.

# %%
attempt(2, [[f"{kind}{i}" for i in range(4) for kind in "FB"] for rank in range(3)])

# %%
attempt(3, [[f"{kind}{i}" for i in range(4) for kind in "FB"] for rank in range(3)])

# %%
attempt(4, [[f"{kind}{i}" for i in range(8) for kind in "FB"] for rank in range(4)])

# %%
attempt(5, [[f"{kind}{i}" for i in range(4) for kind in "FIW"] for rank in range(3)])

# %%
attempt(6, [[f"{kind}{i}" for i in range(8) for kind in "FB"] for rank in range(4)])

# %%
attempt(7, [[f"{kind}{i}" for i in range(8) for kind in "FIW"] for rank in range(4)])

# %%
print(score_card(tried))

# %% [markdown]
# ## In short
#
# - A pipeline makes a model fit. Many microbatches make it fast.
# - With equal stages, the bubble of GPipe and 1F1B is the same: (p − 1)/(m + p − 1).
# - 1F1B keeps at most p microbatches on a rank. GPipe keeps all m.
# - Interleaved stages, or a backward pass in two parts, shrink the bubble.
# - The slowest stage sets the pace of all.
#
# For $p$ ranks and $m$ microbatches; all stages are alike, and messages take no time. The bubble is a part of the total
# time of one step.
#
# | schedule | bubble | microbatches kept by rank $s$ | messages per step |
# |---|---|---|---|
# | naive | $(p-1)/p$ | 1 | $2m(p-1)$ |
# | GPipe | $(p-1)/(m+p-1)$ | $m$ | $2m(p-1)$ |
# | 1F1B | $(p-1)/(m+p-1)$ | $\min(m, p-s)$ | $2m(p-1)$ |
# | interleaved, $v$ stages per rank, $m$ a multiple of $p$ | $(p-1)/(vm+p-1)$ | more than 1F1B\* | $2m(vp-1)$ |
# | ZB-H1, F = I = W, $m \ge p$ | $(p-1)/(3m+p-1)$ | as 1F1B up to I, $p$ up to W | $2m(p-1)$ |
# | ZB-V, F = I = W, $m \ge 3p/2$ | $(p-1)/(6m+p-1)$ | $p$ up to W, on every rank\*\* | $4m(p-1)$ |
#
# \* If $m = p$, rank 0 keeps $p$, as many as with 1F1B; the other ranks keep more.
#
# \*\* Where $m \ge 2p-1$. With fewer microbatches the first ranks keep less.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - A pipeline makes a model fit. It is fast only with many microbatches.
# - Where stages are alike, 1F1B is not faster than GPipe. It keeps less. On a link with latency it is slower, and has a
#   best number of microbatches, as long as its warmup is the shortest. With a warmup that is long enough it keeps more,
#   and is as fast as GPipe.
# - A bubble can nearly vanish although no rank keeps more microbatches than the fullest one of 1F1B (ZB-V). Over many
#   steps none is left, unless all ranks wait for each other between them. It costs twice the messages. In bytes the
#   first is true only where little is kept between I and W: here it was as much as GPipe.
# - A pipeline that never drains has no bubble, but old weights, and up to $p$ versions of them on a rank.
# - Where stages are alike, recomputation costs at most a third more time, if a backward pass takes two forward passes
#   and is done in one piece.
# - With one stage per rank the slowest one sets the pace of all. Only another cut mends that, or more ranks for that
#   stage.
# - The bytes sent depend on activations, not on parameters. So a large batch can make a pipeline send more than data
#   parallelism does.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/09_pipeline/09_pipeline.ipynb) you write GPipe and 1F1B for any number of ranks, and
# the loop that runs one stage with send and receive. The tests look at what your ranks keep, and when.
#
# ## Further reading
#
# - Y. Huang et al., [GPipe](https://arxiv.org/abs/1811.06965), NeurIPS 2019. Microbatches, and recomputation with
#   them.
# - D. Narayanan et al., [PipeDream](https://doi.org/10.1145/3341301.3359646), SOSP 2019. 1F1B, in the form that never
#   drains the pipeline; and [Memory-Efficient Pipeline-Parallel DNN Training](https://arxiv.org/abs/2006.09503), ICML
#   2021, with the form used here.
# - D. Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
#   Clusters](https://arxiv.org/abs/2104.04473), SC 2021. Interleaving, and how pipelines are combined with the rest.
# - P. Qi et al., [Zero Bubble Pipeline Parallelism](https://arxiv.org/abs/2401.10241), 2023. I and W; ZB-H2, with more
#   memory, and ZB-V, without. [Pipeline Parallelism with Controllable Memory](https://arxiv.org/abs/2405.15362), 2024,
#   has more in a V, down to a third of 1F1B's memory.
# - Y. Zhuang et al., [On Optimizing the Communication of Model Parallelism](https://arxiv.org/abs/2211.05322), 2022.
#   The longer warmup.
# - T. Chen et al., [Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174), 2016.
#   Recomputation.
# - [torch.distributed.pipelining](https://docs.pytorch.org/docs/stable/distributed.pipelining.html), torch's manual.
