# %% [markdown]
# # Pipeline
#
# Training a model takes 2.8 TB of memory, and a GPU has 80 GB. So you rent 48 GPUs, and give each GPU two of the 96
# layers. Now the model fits. How many of your 48 GPUs are computing at any moment, and how do you bring more of them to
# work?
#
# > After this lesson you will be able to
# >
# > - cut a model into stages on several ranks, and train it as one process would,
# > - say what share of the time the ranks wait, for any number of ranks and microbatches,
# > - read and write schedules: GPipe, 1F1B, interleaved, and say what each costs in time, memory and messages,
# > - say when a pipeline is the wrong choice,
# > - fill a grid of your own, and be graded by the clock.
# >
# > **Time:** about 55 minutes. **You need:** [Messages](01_messages.ipynb) and [DDP](05_ddp.ipynb). No GPU.

# %% tags=["folded"]
# The imports
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    World,
    torch_distributed,
)
from distlib.draw import (
    Picture,
    compare_costs,
    heat_map,
    pipeline_timeline,
    play_pipeline,
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
    check_schedule,
    digits,
    gpipe,
    interleaved_1f1b,
    most_live,
    naive,
    one_forward_one_backward,
    parse_schedule,
    stages_of,
    time_schedule,
)

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% [markdown]
# ## The model does not fit
#
# With Adam in mixed precision, training needs 16 bytes per parameter: for the parameter itself, its gradient and the
# state of the optimizer. The model above is as large as GPT-3, which has 175 billion parameters.

# %%
parameters, device = 175e9, 80e9
print(f"{16 * parameters / 1e12} TB fill {16 * parameters / device:.0f} devices")

# %% tags=["folded"]
# Checks of the numbers above
assert 16 * parameters == 2.8e12 and 16 * parameters / device == 35

# %% [markdown]
# Activations come on top. Data parallelism does not help, because each of its ranks keeps the whole model.
# [ZeRO](11_zero.ipynb), lesson 11, shards what data parallelism copies. This lesson cuts the model.
#
# Many deep models are lists of layers, in which each layer needs only the output of the layer before. So we cut the
# list into **stages**, and each rank takes one stage. Our model for images of digits has eight linear layers, with a
# Tanh between each two, and we cut it into four stages of two linear layers. The picture numbers each Tanh, too. The
# model computes in float64, so that rounding hides no mistake.

# %% tags=["folded"]
# The images
train_set, _ = digits()
images, labels = train_set.images.double().flatten(1), train_set.labels


# %%
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


# %% tags=["folded"]
# The picture of the stages
def layers_of(num_stages: int) -> dict[int, str]:
    """Stage → which layers it has."""
    names = [list(dict(stage.named_children())) for stage in cut_model(num_stages)]
    words = (
        ("layer " if len(each) == 1 else "layers ") + ", ".join(each) for each in names
    )
    return dict(enumerate(words))


stages_on_ranks([[0], [1], [2], [3]], layers_of(4), title="Four stages on four ranks")

# %% [markdown]
# In the forward pass, a stage sends its output, an activation, over the **boundary** to the next stage. In the backward
# pass, the stage receives the gradient of this output, and sends the gradient of its input to the stage before.
#
# **Stages send each other activations and their gradients, but no weights.**
#
# <details><summary>Where more is sent</summary>
#
# | case | what the ranks send in addition |
# |---|---|
# | two stages share a weight, such as an embedding | the two gradients of this weight, which are added up |
# | gradients are clipped by the norm of all of them | one number per rank, the sum of its squared gradients |
#
# </details>
#
# ## The batch in one piece
#
# `Pipeline` trains such stages by a **schedule**: for each rank, the list of its actions, in order. An action is
# written as stage, kind, number. For example, `2F0` is the forward pass through stage 2, and `2B0` the backward pass.
# The last number is the piece of the batch, here always 0.
#
# The first schedule is **naive**: the whole batch goes forward through all stages, and then backward.
# We let a forward pass through a stage take 1 s. A backward pass takes 2 s, because it computes two gradients, of the
# weights and of the input, and each gradient is about as much work as the forward pass.

# %%
guess_1 = predict(
    "One rank that holds all four stages needs 12 s for a step. Four ranks need …",
    choices=["a quarter of that", "about half of that", "as long"],
)

# %% [markdown]
# The ranks of this `SimulatedWorld` compute real tensors and losses, but the time is virtual: with `costs=`, each rank
# sleeps after an action. The network takes no time for now.

# %% tags=["folded"]
# What a run returns
Trained = tuple[StepRecord, list[float | None], dict[str, torch.Tensor]]


def timing_of(by_rank: Sequence[Trained]) -> Timing:
    """When each action ran, as the ranks noted it."""
    return Timing([record.spans for record, _, _ in by_rank])


# %%
def train(
    comm: Communicator,
    schedule: Schedule,
    steps: int = 1,
    costs: Costs | None = None,
) -> Trained:
    """The record of the last step, the losses, and the weights of this rank's stages."""
    num_stages = 1 + max(action.stage for actions in schedule for action in actions)
    stages = cut_model(num_stages)
    pipeline = Pipeline(comm, stages, schedule, cross_entropy, costs=costs, ahead=8)
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


# %%
FREE = Link(latency=0.0, bandwidth=float("inf"))
ideal = SimulatedWorld(4, Cluster.flat(4, FREE))
alone = timing_of(SimulatedWorld(1).run(train, naive(1, 1), costs=Costs(4, 8)))
four = timing_of(ideal.run(train, naive(4, 1), costs=Costs(1, 2)))
print(f"one rank {alone.seconds} s, four ranks {four.seconds} s")
print(guess_1.compare("as long" if four.seconds == alone.seconds else "another time"))
pipeline_timeline(four, title="Four ranks, one batch")

# %% tags=["folded"]
# Checks
assert alone.seconds == four.seconds == 12
assert f"{four.bubble:.4f}" == "0.7500"

# %% [markdown]
# A row is a rank, time goes to the right, and gray is waiting. At each moment a single rank computes, and three ranks
# wait.
#
# **With the batch in one piece, four ranks are no faster than one.**
#
# The share of the ranks' time that is waiting is called the **bubble**. Here the bubble is three quarters: you pay for
# four devices, and use a single device. Of the 48 GPUs above, 47 would wait.
#
# We train 10 steps, and compare the loss of every step and all weights at the end with one process.


# %% tags=["folded"]
# Ten steps in one process, and the difference to a run
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


# %%
found = distance(ideal.run(train, naive(4, 1), steps=10))
print(f"10 steps on 4 ranks: largest difference to one process {found:.1e}")
assert found < 1e-9

# %% [markdown]
# The result is that of one process, to rounding.
#
# ## Microbatches
#
# Rank 0 is idle until the whole batch comes back. So we cut the batch into **microbatches**. As soon as rank 0 has sent
# on the first microbatch, it goes on with the second, while rank 1 works on the first. The last number of an action is
# the microbatch: `2F5` is microbatch 5, forward, through stage 2.
#
# Each microbatch adds its share of the batch's gradient, and the optimizer takes one step at the end, so that the
# training step stays the same. The schedule that does all forward passes first, and then all backward passes, is called
# **GPipe**.
#
# From now on, 1 s and 2 s are the times of one *microbatch*, so that a single rank would need 96 s for eight
# microbatches.

# %%
guess_2 = predict(
    "4 ranks, 8 microbatches. What share of the time do the ranks wait now?",
    unit="%",
)

# %%
EVEN = Costs(forward=1.0, backward=2.0)
run = ideal.run(train, gpipe(4, 8), costs=EVEN)
print(guess_2.compare(100 * timing_of(run).bubble))
pipeline_timeline(timing_of(run), title="GPipe, 4 ranks, 8 microbatches")

# %% [markdown]
# The step takes 33 s instead of 96. Count in the picture: rank 3 waits 3 s at the beginning, and 6 s at the end, while
# the gradients travel back. Each rank waits as long as the other $p-1$ ranks need for one microbatch. So for $p$ ranks
# and $m$ microbatches:
#
# $$\text{bubble} = \frac{p-1}{m+p-1}\ \text{of the total time}$$
#
# Here are more runs:

# %%
bubbles = {}
for p in (2, 4, 8):
    ranks = SimulatedWorld(p, Cluster.flat(p, FREE))
    by_m = {m: ranks.run(train, gpipe(p, m), costs=EVEN) for m in (4, 8, 16, 32)}
    bubbles[p] = {m: timing_of(run).bubble for m, run in by_m.items()}
heat_map(
    bubbles,
    across="microbatches",
    down="ranks",
    title="The bubble of GPipe",
    show="{:.0%}".format,
)

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
for p, row in bubbles.items():
    for m, bubble in row.items():
        assert abs(bubble - (p - 1) / (m + p - 1)) < 1e-9
        relative = time_schedule(gpipe(p, m)).seconds / (3 * m) - 1
        assert abs(relative - (p - 1) / m) < 1e-9
for p in range(1, 9):
    for m in range(1, 17):
        for costs in (Costs(1, 2), Costs(1, 1), Costs(0.3, 0.7)):
            found = time_schedule(gpipe(p, m), costs).bubble
            assert abs(found - (p - 1) / (m + p - 1)) < 1e-9

# %% [markdown]
# **With more microbatches the bubble of GPipe shrinks.**
#
# With more ranks the bubble grows again. For a bubble of the same size, $m$ must grow as $p-1$: eight ranks need seven
# times as many microbatches as two ranks.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | stages that differ | the slowest stage sets the pace, and the others wait for it as well |
# | messages that take time | latency adds to the waiting; [lesson 09b](09b_faster_pipelines.ipynb) measures how much |
# | very small microbatches | a GPU does small matmuls less efficiently, so that computing itself takes longer |
# | a paper with another formula | Megatron-LM divides by the *ideal* time, without waiting, and gets $\frac{p-1}{m}$ |
#
# </details>
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
# ## How much memory?
#
# So take many microbatches. But with GPipe they save no memory. Because the backward pass of a layer needs the layer's
# input or output, each microbatch leaves **activations** behind on a rank until its backward pass is done. With GPipe
# all backward passes come last, so that each rank keeps the activations of the whole batch.
#
# The last rank could begin with the backward pass of microbatch 0 at once, because it has the loss. Then the
# activations of microbatch 0 are freed before this rank begins microbatch 1. This schedule is **1F1B**: one forward,
# one backward, in turn. In its **warmup**, before the turns begin, a rank does one forward pass for each later stage,
# so that all stages have work.

# %%
guess_3 = predict(
    "1F1B instead of GPipe, 4 ranks, 8 microbatches. A training step is …",
    choices=["faster", "just as fast", "slower"],
)

# %%
kept, timings, runs = {}, {}, {}
for name, make in {"GPipe": gpipe, "1F1B": one_forward_one_backward}.items():
    runs[name] = ideal.run(train, make(4, 8), costs=EVEN)
    timings[name] = timing_of(runs[name])
    kept[name] = [record.peak_bytes for record, _, _ in runs[name]]
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
# In bytes, rank 0 keeps half, rank 2 a quarter
assert kept["1F1B"][0] * 2 == kept["GPipe"][0]
assert kept["1F1B"][2] * 4 == kept["GPipe"][2]

# %% [markdown]
# 1F1B has the same bubble, only in other places. The difference is on the right of the picture. With GPipe each rank
# keeps all 8 microbatches. With 1F1B rank $s$ keeps at most $p - s$ of them, because after so many forward passes,
# each further forward pass comes after a backward pass.
#
# **1F1B keeps at most $p$ microbatches on a rank. GPipe keeps all $m$.**
#
# Play it. Each slot on the right is a microbatch whose activations are kept, and `Pipeline` measures their bytes: it
# counts the tensors that autograd holds. A forward pass fills a slot, a backward pass frees it, and the next microbatch
# takes the slot again. Step with → and ←; space plays.

# %%
play_pipeline(
    timings["1F1B"],
    title="1F1B: what each rank keeps",
    kept=[record.kept for record, _, _ in runs["1F1B"]],
)

# %% [markdown]
# The first rank keeps the most. To save more memory, a rank can keep only the *input* of its stage, and run the forward
# pass again right before the backward pass. Such **recomputation** trades time for memory.
#
# <details><summary>Where 1F1B is not as fast as GPipe</summary>
#
# | case | what happens |
# |---|---|
# | links with a long latency | 1F1B waits for each microbatch's gradient, so that it can be slower than GPipe |
# | stages that differ | the two schedules need not take equally long |
#
# [Lesson 09b](09b_faster_pipelines.ipynb) runs both cases, and measures what recomputation frees.
#
# </details>
#
# **Try it.** Write a schedule yourself. A line is a rank, and the lines below are 1F1B for two ranks and three
# microbatches. Change the order so that rank 0 keeps a single microbatch at a time. How much longer does a step take?
# Then break the schedule: let rank 1 do `1B0` before `1F0`.


# %% tags=["folded"]
# What draws a schedule, or says why nobody can execute it
def look_at(schedule: Schedule) -> Picture | None:
    try:
        return pipeline_timeline(time_schedule(schedule), title="My schedule")
    except ScheduleError as error:
        print(error)
        return None


# %%
mine = parse_schedule(
    [
        "0F0 0F1 0B0 0F2 0B1 0B2",
        "1F0 1B0 1F1 1B1 1F2 1B2",
    ]
)
look_at(mine)

# %% tags=["folded"]
# One way to do it
# Naive, 18 s instead of 12; and a schedule that nobody can execute
one_at_a_time = parse_schedule(["0F0 0B0 0F1 0B1 0F2 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"])
assert most_live(one_at_a_time) == [1, 1]
in_turn = one_forward_one_backward(2, 3)
assert time_schedule(in_turn).seconds == 12 and most_live(in_turn) == [2, 1]
assert time_schedule(one_at_a_time).seconds == 18
try:
    check_schedule(parse_schedule(["0F0 0B0", "1B0 1F0"]))
except ScheduleError as error:
    print(error)
    assert "1B0 waits for 1F0" in str(error)
look_at(one_at_a_time)

# %% [markdown]
# ## Several stages per rank
#
# So far each rank waits as long as the other ranks' stages need for one microbatch. Smaller stages need less time. So
# give each rank *two* stages of half the size. Two neighbors would make one large stage again. Therefore rank 0 takes
# stages 0 and 4, and a microbatch goes around twice. The schedule is called **interleaved**.

# %%
stages_on_ranks(
    [[0, 4], [1, 5], [2, 6], [3, 7]], layers_of(8), title="Eight stages on four ranks"
)

# %%
guess_4 = predict(
    "Interleaved, with two stages per rank. 4 ranks, 8 microbatches: "
    "what share of the time do the ranks wait?",
    unit="%",
)

# %%
HALF = Costs(forward=0.5, backward=1.0)  # a stage has half as many layers
run = ideal.run(train, interleaved_1f1b(4, 8), costs=HALF)
interleaved = timing_of(run)
interleaved_bytes = [record.peak_bytes for record, _, _ in run]
print(guess_4.compare(100 * interleaved.bubble))
compared = {"1F1B": timings["1F1B"], "interleaved": interleaved}
pipeline_timeline(compared, title="One stage per rank, and two")

# %% tags=["folded"]
# Checks of the numbers above and below
assert [sorted({action.stage for action in row}) for row in interleaved_1f1b(4, 8)] == [
    [rank, rank + 4] for rank in range(4)
]
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
# With $v$ stages per rank, the bubble is $\frac{p-1}{v m + p-1}$: as small as with $v$ times as many microbatches.
#
# **Interleaved stages shrink the bubble. They cost messages and memory.**
#
# Each microbatch now crosses seven boundaries instead of three. The warmup is longer, so that rank 1 keeps 4.5
# microbatches instead of 3, as the picture shows on the right. Each of its two stages counts half.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | $m$ is not a multiple of $p$ | the bubble is larger than the formula says; if $m = 1$, it is as large as with 1F1B |
# | bytes instead of microbatches | rank 1 keeps twice as much, not 1.5 times, because each stage keeps its input |
#
# </details>
#
# ## What a pipeline sends

# %%
guess_5 = predict(
    "GPipe cuts the same batch into 16 microbatches instead of 8. A step sends …",
    choices=["half as many bytes", "as many bytes as before", "twice as many bytes"],
)

# %% [markdown]
# Naive takes one microbatch after another. We count the second step of each schedule, because in the first step the
# ranks also tell each other shapes. Then each schedule trains 10 steps, and we compare the weights with one process.

# %%
SCHEDULES = {
    "naive": (naive(4, 8), EVEN),  # one microbatch after another
    "GPipe": (gpipe(4, 8), EVEN),
    "1F1B": (one_forward_one_backward(4, 8), EVEN),
    "interleaved": (interleaved_1f1b(4, 8), HALF),
    "GPipe, 16 microbatches": (gpipe(4, 16), HALF),  # half as large: half the time
}
costs_of, off = {}, {}
for name, (schedule, costs) in SCHEDULES.items():
    run, one = ideal.run(train, schedule, costs=costs), ideal.trace
    ideal.run(train, schedule, steps=2)
    nbytes = sum(ideal.trace.bytes_sent) - sum(one.bytes_sent)
    costs_of[name] = {
        "seconds": timing_of(run).seconds,
        "KiB kept by rank 0": run[0][0].peak_bytes / 1024,
        "messages": len(ideal.trace) - len(one),
        "KiB sent": nbytes / 1024,
    }
    off[name] = distance(ideal.run(train, schedule, steps=10))
ratio = costs_of["GPipe, 16 microbatches"]["KiB sent"] / costs_of["GPipe"]["KiB sent"]
words = {
    0.5: "half as many bytes",
    1.0: "as many bytes as before",
    2.0: "twice as many bytes",
}
print(guess_5.compare(words[ratio]))
print(f"10 steps: largest difference to one process {max(off.values()):.0e}")
compare_costs(costs_of, title="One step of the same batch on four ranks")

# %% tags=["folded"]
# Checks
# Each microbatch crosses each boundary forward and backward, as 32 float64 per sample
for name, found in costs_of.items():
    boundaries = 7 if name == "interleaved" else 3
    assert found["messages"] == 2 * (16 if "16" in name else 8) * boundaries
    assert found["KiB sent"] * 1024 == 2 * boundaries * 64 * 32 * 8
for name, (schedule, costs) in SCHEDULES.items():
    assert off[name] < 1e-9
    found = costs_of[name]["seconds"]
    assert abs(found - time_schedule(schedule, costs).seconds) < 1e-9

# %% [markdown]
# Over each boundary, the activations of the whole batch go forward, and as many bytes come back. A batch in more pieces
# takes more messages, but smaller ones. So a schedule changes the bytes only by its number of boundaries.
#
# **A pipeline sends activations and their gradients. Data parallelism sends gradients of weights.**
#
# These gradients are as many as the weights, while activations grow with the batch. Which are more? Take GPT-3 again,
# in 16 bits, with texts of 2,048 tokens:

# %%
# forward and backward, of one text: 12,288 numbers per token
boundary = 2 * 2048 * 12288 * 2
# in a large ring, a rank sends nearly twice the gradients
gradients = 2 * parameters * 2
print(f"pipeline, 1,560 texts: {1560 * boundary / 1e9:.0f} GB over each boundary")
print(f"data parallel: {gradients / 1e9:.0f} GB per rank")

# %% tags=["folded"]
# Checks of the numbers above and below
assert 100e6 < boundary < 101e6 and gradients == 700e9
assert f"{1560 * boundary / 1e9:.0f}" == "157" and 157 < 700 / 4
assert f"{gradients / boundary:.0f}" == "6954"

# %% [markdown]
# With about 1,560 texts per step, as in GPT-3's training, the pipeline sends less than a quarter of the bytes.
# Therefore a pipeline suits the slow links between machines. With some 7,000 texts per step the advantage is gone.
#
# ## On a clock
#
# So far time was virtual. Now we start four real processes, on a network slowed down to a latency of 1 ms and 100 MB/s.
# The ranks still sleep instead of computing, so that your machine need not have four idle cores. But the messages, the
# waiting and the clock are real.

# %%
network = Link(latency=1e-3, bandwidth=100e6)
NAPS = Costs(forward=0.020, backward=0.040)
MAKERS = {"naive": naive, "GPipe": gpipe, "1F1B": one_forward_one_backward}
with World(4, network=network) as world:
    world.run(train, naive(4, 1))  # the first run starts the processes
    on_the_clock = {
        name: timing_of(world.run(train, make(4, 8), costs=NAPS))
        for name, make in MAKERS.items()
    }

# %% tags=["folded"]
# The measured times, and the formulas
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
# **On a clock a step takes longer than its formula says**, because messages take time and processes wait for a core.
# The measured times differ from run to run.
#
# ## When not to
#
# **Use a pipeline for a model that does not fit.** In these cases something else is better:
#
# | case | why | better |
# |---|---|---|
# | the model fits, and the network is fast | without a cut there is no bubble | data parallelism |
# | no more microbatches than ranks | GPipe and 1F1B wait a third of the time or more | a larger batch, fewer stages |
# | one layer is too large | its stage sets the pace | a cut of the layer: [lesson 10](10_tensor_parallel.ipynb) |
# | BatchNorm | sees only a microbatch, so the cut changes the result | a norm per sample: LayerNorm |
#
# How fast the network must be for data parallelism is computed in [lesson 09b](09b_faster_pipelines.ipynb). The next
# cell checks the second row and the last row.

# %% tags=["folded"]
# As many microbatches as ranks; and BatchNorm of a whole batch, and of its microbatches
for p in (2, 4, 8, 16):
    print(f"{p:2} ranks, {p:2} microbatches: {time_schedule(gpipe(p, p)).bubble:.0%}")
    assert abs(time_schedule(gpipe(p, p)).bubble - (p - 1) / (2 * p - 1)) < 1e-9
norm = nn.BatchNorm1d(64).double()
whole = norm(images[:64])
pieces = torch.cat([norm(piece) for piece in images[:64].split(8)])
apart = (whole - pieces).abs().max().item()
print(f"BatchNorm, whole batch against microbatches: largest difference {apart:.1f}")
assert apart > 0.1

# %% [markdown]
# ## Fill the grid
#
# Now you write the schedules, and the clock grades them. A level gives you ranks, microbatches, the seconds of each
# action, and how many microbatches a rank has room for. **Par** is 20 points: 10 for the time of a known schedule, and
# 10 for its memory, the microbatches that the ranks keep at most, added up. Half of par's time gives twice the points,
# and so does half of par's memory. While you are slower than par, memory gives no more points than time.
#
# A line is a rank. Write `F0` for the forward pass of microbatch 0 through the rank's stage, and `B0` for its backward
# pass. Dots are optional: an action runs as soon as its inputs are there.
#
# **Try it.** This grid is naive. Reach par, and then beat it: level 1 can be done with 23 points.

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
attempt(
    1,
    """
    rank 0  F0 .. .. .. B0 .. F1 .. .. .. B1 ..
    rank 1  .. F0 B0 .. .. .. .. F1 B1 .. .. ..
    """,
)

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
# Levels 2 to 4 are larger. A grid may also be code: a list for each rank, of words such as `"F0"`. These grids are
# naive, too. Improve one, and run its cell again.

# %%
attempt(2, [[f"{kind}{i}" for i in range(4) for kind in "FB"] for rank in range(3)])

# %%
attempt(3, [[f"{kind}{i}" for i in range(4) for kind in "FB"] for rank in range(3)])

# %%
attempt(4, [[f"{kind}{i}" for i in range(8) for kind in "FB"] for rank in range(4)])

# %%
print(puzzle.score_card(tried))

# %% tags=["folded"]
# One way to do it
# Par: GPipe in level 2, 1F1B in levels 3 and 4
par = {2: gpipe(3, 4), 3: one_forward_one_backward(3, 4)}
for number, schedule in {**par, 4: one_forward_one_backward(4, 8)}.items():
    reached = puzzle.fill(number, schedule)
    print(reached)
    assert reached.points >= 20

# %% [markdown]
# Your best grid of each level is kept in `work/my_games.json`, in your own folder, and nothing sends this file.
# `distlib board`, in a terminal, shows it. Three more levels, with backward passes in two halves and slow links, are in
# [lesson 09b](09b_faster_pipelines.ipynb).
#
# ## In real frameworks
#
# PyTorch has pipelines in `torch.distributed.pipelining`. A `PipelineStage` wraps the module of one stage, and a
# schedule class runs it. We run two of these classes on our four ranks, with the stages of our model.
# With `torch_distributed(comm)`, PyTorch sends its messages through `comm`.

# %%
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

Gradients = dict[str, torch.Tensor]


def with_torch(
    comm: Communicator, kind: type
) -> tuple[Gradients, list[float], list[str]]:
    """This rank's gradients, the losses of the microbatches, and what the rank did."""
    module = cut_model(4)[comm.rank]
    with torch_distributed(comm):
        stage = PipelineStage(module, comm.rank, 4, torch.device("cpu"))
        schedule = kind(stage, n_microbatches=8, loss_fn=cross_entropy)
        losses: list[torch.Tensor] = []
        inputs = [images[:64]] if stage.is_first else []
        last = {"target": labels[:64], "losses": losses} if stage.is_last else {}
        schedule.step(*inputs, **last)
    done = [str(action) for action in schedule.pipeline_order[comm.rank] if action]
    gradients = {name: each.grad for name, each in module.named_parameters()}
    return gradients, [loss.item() for loss in losses], done


# %% tags=["folded"]
# The same gradients in one process, and how far a run is off
alone = make_model()
loss = cross_entropy(alone(images[:64]), labels[:64])
loss.backward()


def off_by(by_rank: Sequence[tuple[Gradients, list[float], list[str]]]) -> float:
    """The largest difference to one process, of a gradient or of the loss."""
    found = {name: each for part, _, _ in by_rank for name, each in part.items()}
    gaps = [
        float((found[name] - parameter.grad).abs().max())
        for name, parameter in alone.named_parameters()
    ]
    losses = next(losses for _, losses, _ in by_rank if losses)
    gaps.append(abs(sum(losses) / 8 - loss.item()))
    assert len(gaps) == 17 and max(gaps) < 1e-12
    return max(gaps)


# %%
OURS = {ScheduleGPipe: gpipe, Schedule1F1B: one_forward_one_backward}
orders = {}
with World(4) as world:
    for kind in OURS:
        by_rank = world.run(with_torch, kind)
        orders[kind.__name__] = [done for _, _, done in by_rank]
        print(
            f"{kind.__name__:13} largest difference to one process {off_by(by_rank):.0e}"
        )

# %% [markdown]
# The gradients are those of one process, to rounding. PyTorch writes down its actions in our notation.

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

# %% [markdown]
# The actions are the same, although torch's record counts the last rank's forward passes from 1. `REDUCE_GRAD` finishes
# the gradients after the last microbatch. [Lesson 09b](09b_faster_pipelines.ipynb) compares what is sent, runs
# PyTorch's other schedules, and a batch that can't be cut evenly. In real training you would also meet:
#
# - **Tracing.** `torch.distributed.pipelining.pipeline` cuts a model that is not a list of layers, at points that you
#   name.
# - **Megatron-LM** and **DeepSpeed**, two libraries for large models, both with 1F1B.
# - **TensorFlow and JAX** have no such schedule among their strategies. In [JAX](14_jax.ipynb) you would write one with
#   `shard_map` and `ppermute`.
#
# ## In short
#
# - With the batch in one piece, four ranks are no faster than one.
# - More microbatches shrink the bubble of GPipe: with equal stages to (p − 1)/(m + p − 1).
# - 1F1B keeps at most p microbatches on a rank. GPipe keeps all m.
# - Interleaved stages shrink the bubble. They cost messages and memory.
# - A pipeline sends activations and their gradients. Data parallelism sends gradients of weights.
#
# For $p$ ranks, $m$ microbatches, equal stages, and messages that take no time:
#
# | schedule | bubble | microbatches kept by rank $s$ | messages per step |
# |---|---|---|---|
# | naive | $(p-1)/p$ | 1 | $2m(p-1)$ |
# | GPipe | $(p-1)/(m+p-1)$ | $m$ | $2m(p-1)$ |
# | 1F1B | $(p-1)/(m+p-1)$ | $\min(m, p-s)$ | $2m(p-1)$ |
# | interleaved, $v$ stages per rank, $m$ a multiple of $p$ | $(p-1)/(vm+p-1)$ | more than 1F1B\* | $2m(vp-1)$ |
#
# \* Rank 0 as many, if $m = p$.
#
# ## Now you
#
# In [the exercise](../exercises/09_pipeline/09_pipeline.ipynb) you write GPipe and 1F1B for any number of ranks, and
# the loop that runs one stage with send and receive. The tests look at what your ranks keep, and when.
#
# [Lesson 09b](09b_faster_pipelines.ipynb) is a side road: slow links, recomputation, bubbles that nearly vanish,
# pipelines that never run empty, stages that cost the same, and PyTorch's other schedules. Its exercise is a step by
# PyTorch's own pipeline.
#
# ## Further reading
#
# - Y. Huang et al., [GPipe](https://arxiv.org/abs/1811.06965), NeurIPS 2019. Microbatches, and recomputation with them.
# - D. Narayanan et al., [Memory-Efficient Pipeline-Parallel DNN Training](https://arxiv.org/abs/2006.09503), ICML 2021.
#   1F1B in the form used here, there called PipeDream-Flush.
# - D. Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
#   Clusters](https://arxiv.org/abs/2104.04473), SC 2021. Interleaving, and how pipelines are combined with the rest.
# - [torch.distributed.pipelining](https://docs.pytorch.org/docs/stable/distributed.pipelining.html), PyTorch's manual.
