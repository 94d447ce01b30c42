# %% [markdown]
# # Faster pipelines
#
# **This lesson is optional.** It goes on where [Pipeline](09_pipeline.ipynb) ends. There, all stages were alike and
# messages took no time. Here messages take time, memory is short, stages differ, and the bubble nearly vanishes.
#
# After this lesson you will be able to
#
# - say what latency costs GPipe and 1F1B, and hide it at the price of memory,
# - trade memory for time with recomputation,
# - read and write zero-bubble schedules, and say what they cost in time, memory and messages,
# - say why pipelines are drained, and what weight stashing is for,
# - cut stages by what they cost,
# - compute how fast a network must be so that data parallelism beats a pipeline,
# - run PyTorch's schedules with several stages per rank, and say what they send.
#
# **Time:** about 75 minutes; a good place for a break is before "A pipeline that never drains". **You need:**
# [Pipeline](09_pipeline.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

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
    predict,
    stages_on_ranks,
)
from distlib.games import fill, puzzle
from distlib.training import (
    Costs,
    Pipeline,
    Schedule,
    ScheduleError,
    StepRecord,
    Timing,
    digits,
    execution_order,
    gpipe,
    interleaved_1f1b,
    measure_costs,
    most_live,
    naive,
    one_forward_one_backward,
    stages_of,
    time_schedule,
    zero_bubble,
    zero_bubble_v,
)

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% tags=["folded"]
# The model, and how it is trained, as in the lesson before
train_set, _ = digits()
images, labels = train_set.images.double().flatten(1), train_set.labels
Maker = Callable[[int, int], Schedule]
Trained = tuple[StepRecord, list[float | None], dict[str, torch.Tensor]]


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


# %% tags=["folded"]
# One process that trains alone, and the runs to compare with
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


FREE = Link(latency=0.0, bandwidth=float("inf"))
ideal = SimulatedWorld(4, Cluster.flat(4, FREE))
EVEN = Costs(forward=1.0, backward=2.0)
HALF = Costs(forward=0.5, backward=1.0)  # a stage has half as many layers
kept, timings = {}, {}
for name, make in {"GPipe": gpipe, "1F1B": one_forward_one_backward}.items():
    run = ideal.run(train, make(4, 8), costs=EVEN)
    timings[name] = timing_of(run)
    kept[name] = [record.peak_bytes for record, _, _ in run]

# %% [markdown]
# ## Smaller microbatches on a slow link
#
# There are two ways to get more microbatches. One is a larger batch. The other one leaves the batch as it is, and cuts
# it into more pieces. Each piece takes less time, and its messages are smaller. But there are more messages, and each
# has a latency.
#
# Say that a whole batch takes a stage 80 ms forward and 160 ms backward. The link has a latency of 5 ms, as between two
# cities. Several messages may be under way at once. One of the schedules below, "longer warmup", is 1F1B whose ranks do
# twice as many forward passes before their first backward pass.

# %%
guess_1 = predict(
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
kept_by_longer = most_live(longer_warmup(4, 16))

# %%
print("microbatches ", "".join(f"{m:7}" for m in MICROBATCHES))
for name, times in took.items():
    print(f"{name:13} {''.join(f'{ms:7.0f}' for ms in times.values())}  ms")
print("a longer warmup keeps, of 16 microbatches:", kept_by_longer)
faster = min((8, 32), key=took["1F1B, 5 ms"].__getitem__)
print(guess_1.compare(str(faster)))
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
# Eight. With 32 the formula promises a bubble of 8.6 %, and the step takes longer than with 8, because the formula
# knows nothing of messages. With this 1F1B there is a best number of microbatches: of those above, 8.
#
# **GPipe pays latency once per step, while 1F1B with its short warmup pays it again for each microbatch.**
#
# GPipe sends its messages one after another, and no rank waits for an answer. So it pays its $2(p-1)$ latencies once,
# however many microbatches there are, and goes on gaining with more of them.
#
# In 1F1B a rank that has done its warmup sends an activation and *waits* for a gradient before it goes on. At each time
# $p$ microbatches are under way, and each has to travel there and back: $2(p-1)$ messages. So each microbatch adds
# $2(p-1)/p$ latencies, 1.5 for four ranks. In all, for $m$ a multiple of four, four ranks wait for $1.5m + 4$
# latencies, where GPipe waits for 6.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | some hundreds of microbatches | our receives, posted 8 actions ahead, come too late for GPipe |
# | a longer warmup | 1F1B has work while the gradient travels |
# | small microbatches on a GPU | matmuls of small matrices are less efficient, which virtual time does not show |
#
# </details>
#
# ### A longer warmup
#
# Nothing forces a rank of 1F1B to wait. It can do more forward passes first, and has work while the gradient travels.
# The usual warmup has $p-s-1$ forward passes on rank $s$. The second line of the plot has twice as many.
#
# | 16 microbatches | one step | kept by ranks 0 to 3 |
# |---|---|---|
# | 1F1B | 425 ms | 4, 3, 2, 1 |
# | 1F1B, longer warmup | 315 ms | 7, 5, 3, 1 |
# | GPipe | 315 ms | 16 on every rank |
#
# With 32 microbatches each one is shorter, and the latency is not. Then it takes three times the usual warmup to be as
# fast as GPipe, and the ranks keep 10, 7, 4 and 1. With many microbatches it takes $1 + \lceil 2L/(t_F+t_B) \rceil$
# times the usual warmup, for a latency $L$.
#
# **A longer warmup hides latency, at the price of memory.** Where the latency is no longer than a few microbatches, the
# schedule still keeps less than GPipe. Zhuang et al. 2022 call it *eager* 1F1B, and you need it in level 6 of the game
# at the end.
#
# **Try it.** With 64 microbatches on the slow link, how many times the usual warmup makes 1F1B as fast as GPipe?
# `eager=1` doubles it.

# %%
m, eager = 64, 1  # change eager
late = Costs(0.08 / m, 0.16 / m, transfer=5e-3)
mine = one_forward_one_backward(4, m, eager=eager)
print(f"GPipe {1e3 * time_schedule(gpipe(4, m), late).seconds:.0f} ms")
took_ms = 1e3 * time_schedule(mine, late).seconds
print(f"mine  {took_ms:.0f} ms, keeps {most_live(mine)}")

# %% tags=["folded"]
# One way to do it
# The smallest that leaves no waiting for a gradient
m, eager = 64, math.ceil(2 * 5e-3 / (0.24 / 64))
late = Costs(0.08 / m, 0.16 / m, transfer=5e-3)
mine = one_forward_one_backward(4, m, eager=eager)
found = [time_schedule(each, late).seconds for each in (gpipe(4, m), mine)]
print(f"eager={eager}: {1e3 * found[1]:.0f} ms, keeps {most_live(mine)}")
assert eager == 3 and abs(found[0] - found[1]) < 1e-9
assert most_live(mine) == [13, 9, 5, 1]

# %% [markdown]
# ### The same on a clock
#
# Four real processes, 1 ms of latency and 100 MB/s, as in lesson 09. The ranks sleep instead of computing.
#
# **Try it.** Let the network have a latency of 20 ms, as long as a forward pass. Work out both times from what you
# know: GPipe waits for 6 latencies, 1F1B for 1.5 · 8 + 4 = 16. Then run.

# %%
network = Link(latency=1e-3, bandwidth=100e6)  # change the latency
NAPS = Costs(forward=0.020, backward=0.040)
with World(4, network=network) as world:
    world.run(train, naive(4, 1))  # the first run starts the processes
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
# ## Less memory: recompute
#
# What if 1F1B still keeps too much? Then a rank keeps only the *input* of its stage, for each microbatch, and runs the
# forward pass again right before the backward pass. A stage then keeps the activations of one microbatch, and inputs of
# the others.
#
# Rank 1 keeps three tensors of each microbatch: its input, and what its two `Tanh` return. Each has 2 KiB, so that rank
# 1 keeps 48 KiB with GPipe.

# %%
guess_2 = predict(
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
print(guess_2.compare(ways["GPipe, recomputed"][1] / 1024))
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
# It keeps 20 KiB: seven inputs, and all three tensors of the microbatch that is recomputed. The results are the same,
# to rounding.
#
# **Recomputation pays most where many microbatches are kept.** A stage that is recomputed as a whole frees at most
# $(k-1)/k$ of the memory of $k$ microbatches. Rank 3 of 1F1B keeps one microbatch, and gains nothing.
#
# The time is not measured: we put the second forward pass into the cost of B. One more forward pass is 1 of 3, so that
# a step takes a third more where stages are alike.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | stages of 2, 1 and 1 units, 3 microbatches, 1F1B | 28 units instead of 20, 40 % more |
# | a rank that recomputes while it waits | it may be less than a third more |
#
# In the first case the slowest rank does some forward passes while it would wait for a gradient anyway. So backward
# passes are more than two thirds of what a step takes, and only they get longer.
#
# </details>
#
# ## A smaller bubble: two halves of a backward pass
#
# Look at 1F1B once more. Rank 2 waits for a gradient from rank 3. Meanwhile rank 3 does a whole backward pass, which
# computes two gradients: the gradient of its input, for which rank 2 is waiting, and the gradient of its weights, for
# which nobody is waiting. So cut the backward pass in two: **I** for the input, **W** for the weights. The result of
# the first half is sent as soon as it is there. The second half can be done any time, best when the rank would wait.
# This is **zero bubble**, in the version that its authors call ZB-H1.

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
# A step takes 27 units instead of 33, and the bubble is 11.1 % instead of 27.3 %.
#
# **ZB-H1 fills the bubble at the end of a step with W.** Two triangles of the same size are left: before the first F,
# and before the first I.
#
# Now the memory. Look at the hatched bars: between I and W a rank still needs the inputs of its layers and the
# gradients of their outputs. The paper counts both parts: $M_B$ from F to I, and $M_W$ from I to W. In its transformer
# $M_W$ is smaller than $M_B$, so the fullest rank keeps no more than with 1F1B. But the other ranks do: *every* rank
# keeps 4 microbatches, counted up to W. With 1F1B only the first rank does. How much is it in bytes, in our pipeline?

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
# far from GPipe. A good part of it is due to our pipeline. For each layer that has weights, its input and the gradient
# of its output wait for W, and our pipeline keeps the output too. In the paper's transformer the peak is the same as
# with 1F1B.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | F, I and W that take different times, as in a real model | gaps return |
# | fewer microbatches than ranks | the bubble is larger than the formula in the table below |
#
# </details>
#
# Can the last triangles go, too? The paper has two answers. ZB-H2 fills them with more forward passes, and keeps nearly
# twice as much. The other answer is a question of *where* the stages are.
#
# ### A V of stages
#
# Look at the bars of 1F1B once more. Most memory is at the front: rank 0 keeps a microbatch for the longest time, the
# last rank for the shortest. So give each rank two stages again, of half the size, but now the second half comes back
# the same way, so that the loss is on rank 0:

# %%
stages_on_ranks(
    [[0, 7], [1, 6], [2, 5], [3, 4]], title="A V: down to rank 3, and up again"
)

# %% [markdown]
# Rank 0 has the first stage, which keeps a microbatch for long, and the last one, which keeps it for the shortest time.
# So all ranks keep the same. And rank 0 has a loss early, so that it has I and W early. This is **ZB-V**.

# %%
guess_3 = predict(
    "ZB-V, 4 ranks, 8 microbatches, two stages per rank: what share of the time do the ranks wait?",
    unit="%",
)

# %%
run = ideal.run(train, zero_bubble_v(4, 8), costs=HALF)
v_shaped = timing_of(run)
kept["ZB-V"] = [record.peak_bytes for record, _, _ in run]
print(guess_3.compare(100 * v_shaped.bubble))
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
# ZB-V waits 5.9 % of the time; with 16 microbatches, 3 %. What is left is the way of the first microbatch down the V.
# Over many steps even this way is hidden, because rank 0 finishes first and begins the next step at once.
#
# **A bubble can nearly vanish although the fullest rank keeps no more microbatches than with 1F1B.** No rank keeps more
# than the fullest rank of 1F1B. The price: the other ranks keep as much as the first, and there are twice as many
# messages, because every microbatch goes there and back.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | fewer than $3p/2$ microbatches | the bubble is larger; with $p$ or fewer it is no better than ZB-H1 |
# | all ranks meet between two steps, as for the norm of all gradients | each step pays the way down the V |
# | F, I and W that take different times | gaps return |
# | bytes, in our pipeline | rank 0 keeps 64 KiB instead of 32, and all ranks about as much as with GPipe |
#
# The reason of the last row is the same as for ZB-H1, and half stages have twice as many inputs.
#
# </details>
#
# ### All of them, compared
#
# Do they all train as one process does? We train 10 steps with each, and compare with one process. And we count the
# messages of one training step, in the trace of two steps less the trace of one.

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
# **A schedule changes what is sent only by its number of boundaries.** ZB-V has 8 stages and only 6 boundaries, because
# the two stages at the tip of the V are neighbors on the same rank.
#
# For $p$ ranks and $m$ microbatches; all stages are alike, and messages take no time. The bubble is a share of the
# total time of one step.
#
# | schedule | bubble | microbatches kept by rank $s$ | messages per step |
# |---|---|---|---|
# | 1F1B | $(p-1)/(m+p-1)$ | $\min(m, p-s)$ | $2m(p-1)$ |
# | ZB-H1, F = I = W, $m \ge p$ | $(p-1)/(3m+p-1)$ | as 1F1B up to I, $p$ up to W | $2m(p-1)$ |
# | ZB-V, F = I = W, $m \ge 3p/2$ | $(p-1)/(6m+p-1)$ | $p$ up to W, on every rank\* | $4m(p-1)$ |
#
# \* Where $m \ge 2p-1$. With fewer microbatches the first ranks keep less.
#
# ## A pipeline that never drains
#
# All schedules so far drain the pipeline at the end of a step, because the optimizer must see all gradients. With most
# of them the bubble is the price of the drain. What if nobody waits? Each stage takes a step of its own after every
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
# **With stashed weights it is a true gradient, of the loss at the weights which the forward pass met on its way.** On
# rank $s$ they are $p-s-1$ updates old, so only the last rank's are new. [Lesson 07](07_without_waiting.ipynb) shows
# what old weights do.
#
# Without stashing, it is the gradient at neither place: forward through one function, and back through another. Only
# ranks 3 and 2 are right. Between the two passes of rank 3 nothing happens, so what it hands back to rank 2 is right as
# well, and rank 2 has a single weight. A stage of several layers would go back through weights of its own that have
# changed.
#
# PyTorch stops you: it counts the changes of each weight, and the backward pass says that one "has been modified by an
# inplace operation". Whoever updates through `.data` sees no error. A model may still learn, since the error is small
# where weights move little between the two passes.
#
# Rank $s$ keeps $p - s$ versions of its weights. For a model of 175 billion parameters on four ranks, in 16 bits:

# %%
parameters = 175e9
versions = sum(4 - rank for rank in range(4))
print(f"one version of all weights: {2 * parameters / 1e9:.0f} GB")
print(f"with stashed ones: {versions * 2 * parameters / 4 / 1e9:.0f} GB")
assert (2 * parameters, versions * 2 * parameters / 4) == (350e9, 875e9)
live = most_live(one_forward_one_backward(4, 8))
assert live == [4, 3, 2, 1] and sum(live) == versions  # a version per microbatch

# %% [markdown]
# **Pipelines are drained today because the alternative costs copies of the weights, and old ones.** Every gradient is
# taken at weights that are old on all ranks except the last, so that the result is no longer the result of one process.
# GPipe and 1F1B with a flush need one version. (PipeDream-2BW, by some of the same authors, keeps two on every rank: it
# adds up gradients over at least $p$ microbatches before each update.)
#
# ## Stages that cost the same
#
# So far all stages were alike. But layers differ. Here is a model of seven layers; some are wide. How would you cut it?


# %%
def make_uneven(widths: Sequence[int]) -> nn.Sequential:
    pairs = zip(widths, widths[1:], strict=False)
    return nn.Sequential(*(nn.Linear(before, after) for before, after in pairs))


WIDTHS = [64, 64, 64, 64, 64, 256, 64, 256]
flops = measure_costs(make_uneven(WIDTHS), torch.zeros(8, 64))
print("thousands of operations:", [round(each / 1e3) for each in flops])

# %% [markdown]
# One strategy is "two layers per rank, and the last one for the last rank". The other strategy is by cost: cut so that
# the most expensive stage is as cheap as can be, as `stages_of` does. Without costs it takes the numbers of parameters.
# For linear layers this gives nearly always the same cut, although biases count, too: where layers are narrow the cut
# can differ. But a convolution uses its few parameters many times: there you need the measured costs.


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
# By count, rank 2 has half of all the work.
#
# **A pipeline is as slow as its slowest stage, and all others wait for it.** By cost, all stages are alike, and the
# bubble is that of the formula again.
#
# Where stages are not alike, the formula no longer holds. If the same stage is the slowest forward and backward, GPipe
# takes (sum of the stages) + (m − 1) · (slowest stage), 54 s here, and 1F1B only 52: that is what virtual time is for.
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
# of lesson 10. Or let several ranks share the work of the slowest stage, each with other microbatches, as PipeDream
# does.
#
# </details>
#
# ## When the model fits
#
# A model that fits can also be trained with data parallelism. Four ranks that each do a quarter of the samples with the
# whole model have no bubble, but they pay with an all-reduce. A model of a billion parameters in 32 bits has 4 GB of
# gradients, so that each rank of four sends 6 GB.
#
# How fast must the network be, so that these messages take no longer than the bubble? Say that a batch is 512 texts of
# 2,048 tokens. A token takes 2 operations per parameter forward and 4 backward. A device does 100 · 10¹² operations a
# second.

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
# Against a pipeline with 8 microbatches 1 GB/s is enough, and a part of the messages can hide behind the backward pass.
# With 64 texts it takes 8 GB/s, and equally with 64 microbatches.
#
# **The smaller the batch or the bubble, the faster the network of data parallelism must be.** Where it is fast enough,
# a pipeline is not the best choice for a model that fits.

# %% [markdown]
# ## Three more levels of the grid
#
# The game of [lesson 09](09_pipeline.ipynb) goes on. In levels 5 and 7 you may cut backward passes: write `I0` and `W0`
# for the two halves of `B0`. A microbatch takes room until its W is done. In level 6 messages take time, so that a rank
# needs work while its gradient travels.
#
# **Try it.** These grids are naive. Reach par, 20 points, in each level.

# %% tags=["folded"]
# The game
tried: list[puzzle.Attempt] = []


def attempt(number: int, grid: puzzle.Grid) -> Picture | None:
    """Check, time and draw a grid. What is wrong with it is printed."""
    print(puzzle.level_of(number))
    try:
        tried.append(fill(number, grid))
    except ScheduleError as error:
        print(error)
        return None
    print(tried[-1])
    return pipeline_timeline(tried[-1].timing, title=f"My level {number}")


# %%
attempt(5, [[f"{kind}{i}" for i in range(4) for kind in "FIW"] for rank in range(3)])

# %%
attempt(6, [[f"{kind}{i}" for i in range(8) for kind in "FB"] for rank in range(4)])

# %%
attempt(7, [[f"{kind}{i}" for i in range(8) for kind in "FIW"] for rank in range(4)])

# %%
print(puzzle.score_card(tried))

# %% tags=["folded"]
# One way to do it
# Par: the schedules of this lesson
par = {5: zero_bubble(3, 4), 6: longer_warmup(4, 8), 7: zero_bubble(4, 8)}
for number, schedule in par.items():
    reached = puzzle.fill(number, schedule)
    print(reached)
    assert reached.points >= 20

# %% [markdown]
# ## In real frameworks
#
# PyTorch has more schedules than the two of lesson 09. We run three more on our four ranks, each with two stages per
# rank, and compare the gradients with those of one process. `torch_distributed(comm)` gives PyTorch a process group
# whose messages are this course's, so that we find them in the trace.

# %%
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)

THEIRS = [ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble]
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
# The gradients are the same, to rounding. Does PyTorch also send what our `Pipeline` sends? We run one step and then
# two, with both, because the difference of these traces is the second step alone. The two schedules of lesson 09 are
# among the four.

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
# **In the second step, each rank sends as many messages and as many bytes with PyTorch as with our `Pipeline`, in all
# four schedules.** For GPipe and 1F1B the messages of all ranks add up to $2m(p-1) = 48$.
#
# The first step differs, because the ranks do not know the shapes yet. Our `Pipeline` sends one extra message across
# each boundary between two ranks, which carries the shapes. PyTorch 2.13 sends six across each boundary: in each
# direction a vote on whether every stage knows its shapes, the length of a description, and the description itself.
#
# Now 13 samples in 5 microbatches, which can't all have the same size. Ours weighs each by its samples. What does
# PyTorch do, on one rank, and on four?


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
# **PyTorch weighs all microbatches alike, and does not check that they are.** On one rank its gradients are off by
# 0.03, without a word. On four the last rank notices it, when it computes a loss: what it received does not fit its
# labels.
#
# Are the schedules the same? PyTorch writes down its actions in the notation that we use.

# %%
print("rank 2 of torch's ZB-V:", " ".join(orders["ScheduleZBVZeroBubble"][2]))
print("rank 2 of ours:        ", *zero_bubble_v(4, 8)[2])

# %% tags=["folded"]
# Checks
# Action by action
ours = [[str(action) for action in row] for row in interleaved_1f1b(4, 8)]
assert orders["ScheduleInterleaved1F1B"] == ours
ours = [[str(action) for action in row] for row in zero_bubble_v(4, 8)]
assert orders["ScheduleZBVZeroBubble"] == ours

# %% [markdown]
# The interleaved schedule and the ZB-V that PyTorch runs are ours, action by action, on all four ranks. For the
# interleaved one this holds where $m$ is a multiple of $p$. PyTorch's listings of GPipe and of 1F1B, which lesson 09
# shows, are only for reading. In torch 2.13 the listing of the *last* rank of 1F1B is off by one: it begins with
# microbatch 1. The code does rank 3 in the same order as ours.
#
# ## In short
#
# - GPipe pays latency once per step, 1F1B for each microbatch. A longer warmup hides it, at the price of memory.
# - Recomputation frees most where many microbatches are kept, and costs a second forward pass.
# - A backward pass in two halves shrinks the bubble. In a V of stages it nearly vanishes.
# - A pipeline that never drains has no bubble, but old weights, and several versions of them.
# - The slowest stage sets the pace of all.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - On a link with latency 1F1B is slower than GPipe, and has a best number of microbatches, as long as its warmup is
#   the shortest. With a warmup that is long enough it keeps more, and is as fast as GPipe.
# - A bubble can nearly vanish although no rank keeps more microbatches than the fullest one of 1F1B (ZB-V). Over many
#   steps none is left, unless all ranks wait for each other between them. It costs twice the messages. In bytes the
#   first is true only where little is kept between I and W: here it was as much as GPipe.
# - A pipeline that never drains has no bubble where stages are alike and messages take no time. It has up to $p$
#   versions of the weights on a rank.
# - Where stages are alike, recomputation costs at most a third more time, if a backward pass takes two forward passes
#   and is done in one piece.
# - With one stage per rank the slowest one sets the pace of all. Only another cut helps, or more ranks for this stage.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/09b_faster_pipelines/09b_faster_pipelines.ipynb) you take a batch through PyTorch's own
# pipeline.
#
# ## Further reading
#
# - D. Narayanan et al., [PipeDream](https://doi.org/10.1145/3341301.3359646), SOSP 2019. 1F1B, in the form that never
#   drains the pipeline; and [Memory-Efficient Pipeline-Parallel DNN Training](https://arxiv.org/abs/2006.09503), ICML
#   2021, with PipeDream-2BW.
# - P. Qi et al., [Zero Bubble Pipeline Parallelism](https://arxiv.org/abs/2401.10241), 2023. I and W; ZB-H2, with more
#   memory, and ZB-V, without. [Pipeline Parallelism with Controllable Memory](https://arxiv.org/abs/2405.15362), 2024,
#   has more in a V, down to a third of 1F1B's memory.
# - Y. Zhuang et al., [On Optimizing the Communication of Model Parallelism](https://arxiv.org/abs/2211.05322), 2022.
#   The longer warmup.
# - T. Chen et al., [Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174), 2016.
#   Recomputation.
# - [torch.distributed.pipelining](https://docs.pytorch.org/docs/stable/distributed.pipelining.html), PyTorch's manual.
