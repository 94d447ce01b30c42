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
# > - read and write schedules: GPipe, 1F1B, interleaved, and say what each costs in time, memory and messages,
# > - say when a pipeline is the wrong choice,
# > - fill a grid of your own, and be graded by the clock.
# >
# > **Time:** about 60 minutes. **You need:** [Messages](01_messages.ipynb) and [DDP](05_ddp.ipynb). No GPU.

# %% tags=["folded"]
# The imports
from collections.abc import Callable, Sequence

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
    memory_per_rank,
    pipeline_timeline,
    play_pipeline,
    predict,
)
from distlib.games.in_lessons import fill
from distlib.training.datasets import digits
from distlib.training.pipeline import Pipeline, StepRecord, stages_of
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
)
from distlib.training.schedules.puzzle import Attempt, Grid, level_of, score_card

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% [markdown]
# ## The model does not fit
#
# In data-parallel training every rank holds the whole model. So the model must fit on one device, together with its
# gradients and the state of the optimizer. With Adam in mixed precision the three need 16 bytes per parameter. Take a
# model of 175 billion parameters, such as GPT-3, and devices of 80 GB.

# %%
parameters, device = 175e9, 80e9
print(f"{16 * parameters / 1e12} TB, that is {16 * parameters / device:.0f} devices")
assert 16 * parameters == 2.8e12 and 16 * parameters / device == 35

# %% [markdown]
# The activations are not counted yet. Data parallelism does not help at all, because each of its ranks keeps the whole
# 2.8 TB. [ZeRO](11_zero.ipynb), lesson 11, shards what data parallelism copies. This lesson cuts the model.
#
# A deep model is a list of layers, and each layer needs only the output of the layer before. So rank 0 takes the first
# layers, rank 1 the next ones, and so on. The layers of a rank are its **stage**.
#
#     rank 0            ──activations──►  rank 1            ──►  …  ──►  rank 3
#     layers 0, 1, 2    ◄───gradient────  layers 3, 4, 5    ◄──     ◄──  last layers, loss
#
# In the forward pass, a rank sends the output of its stage to the next rank. In the backward pass, it sends the
# gradient of its stage's *input* to the previous rank.
#
# **Stages send each other activations and their gradients, but no weights.**
#
# <details><summary>Where more is sent</summary>
#
# | case | what the ranks send in addition |
# |---|---|
# | two stages share a weight, such as an embedding | the two gradients of this weight, which are added up |
# | gradients are clipped by the norm of all of them | one number per rank, of which the norm is made |
#
# </details>
#
# Here is a model for images of digits. It has eight linear layers, which we cut into four stages of two. It computes in
# float64, so that we see how exact it is.

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


for rank, stage in enumerate(cut_model(4)):
    count = sum(parameter.numel() for parameter in stage.parameters())
    names = ", ".join(dict(stage.named_children()))
    print(f"rank {rank}: layers {names}; {count:,} parameters")

# %% [markdown]
# ## One batch at a time
#
# `Pipeline` runs such stages. It needs a **schedule**, which lists for each rank what the rank does, in this order. The
# first schedule is the obvious one: the whole batch goes forward through all stages, then backward.
#
# We write an action as stage, kind, number: `2F0` is the forward pass through stage 2, `2B0` the backward pass. (You
# will soon see what the last number counts.)

# %%
print(schedule_grid(time_schedule(naive(4, 1))))

# %% [markdown]
# Rows are ranks, and columns are units of time. Dots are waiting, and dashes say that an action goes on. We say that a
# forward pass through a stage takes one unit. A backward pass takes two, because it computes two gradients, of the
# weights and of the input, and each of them is about as much work as the forward pass.

# %%
guess_1 = predict(
    "Four ranks, against one that could hold all. How many times as fast are the four?",
    unit="times",
)

# %% [markdown]
# The network of this `SimulatedWorld` takes no time for now, and computing takes none by itself. With `costs=`, each
# rank sleeps after an action, in virtual time, while the tensors and the losses are real.

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
    # receives are posted 8 actions early
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
print(guess_1.compare(alone.seconds / four.seconds))
pipeline_timeline(four, title="Four ranks, one batch")

# %% tags=["folded"]
# Checks
assert alone.seconds == four.seconds == 12
assert f"{four.bubble:.4f}" == "0.7500"

# %% [markdown]
# **With one batch at a time, four ranks are no faster than one.** At each moment one rank computes, and three wait for
# it. The share of the ranks' time that they wait is called the **bubble**, and here it is three quarters. You have
# bought four devices, and use one.
#
# At least the model fits now. Is the result right? We train 10 steps, and compare the loss of every step and all
# weights at the end with one process.


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
# The result is right, to rounding: the loss and the weights are those of one process.
#
# ## Microbatches
#
# Rank 0 waits because it has nothing to do until the whole batch comes back. So we cut the batch into **microbatches**.
# As soon as rank 0 has done the first microbatch, rank 1 can begin with it while rank 0 goes on with the second. The
# last number of an action is the microbatch's: `2F5` is microbatch 5, forward, through stage 2.
#
# The gradients of all microbatches are added up, and the optimizer takes one step at the end, so that it is still the
# same training step. This schedule is **GPipe**: all microbatches forward, then all backward.
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
# The step takes 33 units, 2.9 times as fast as one rank. Count in the picture: rank 3 waits 3 units at the beginning,
# and 6 more at the end while the gradients travel back. Each rank waits as long as the other $p-1$ ranks take for one
# microbatch. For $p$ ranks and $m$ microbatches:
#
# $$\text{bubble} = \frac{p-1}{m+p-1}\ \text{of the total time}$$
#
# **With more microbatches the bubble of GPipe shrinks.**
#
# Be careful when you compare numbers, because two definitions are in use. The GPipe paper divides by the total time, as
# we do. The Megatron-LM paper divides by the *ideal* time, without any waiting, and gets $\frac{p-1}{m}$ for the same
# run.

# %%
print("ranks  microbatches   of the total   relative to ideal")
for p in (2, 4, 8):
    ranks = SimulatedWorld(p, Cluster.flat(p, FREE))
    for m in (8, 16, 32):
        timing = timing_of(ranks.run(train, gpipe(p, m), costs=EVEN))
        relative = timing.seconds / (3 * m) - 1
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
# For the same bubble, $m$ must grow as $p - 1$: from 2 ranks to 4 three times as many microbatches. No speed appears in
# the formula.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | stages that differ | the slowest stage sets the pace, and the others wait for it as well |
# | messages that take time | latency adds to the waiting; [lesson 09b](09b_faster_pipelines.ipynb) measures how much |
# | very small microbatches | a GPU does small matmuls less efficiently, so that the computing itself takes longer |
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
# ## How much is kept
#
# So take many microbatches. A larger batch gives more of them, but it costs memory with GPipe, and it changes the
# training, see [Large batches](06_large_batches.ipynb). Smaller microbatches cost messages. We begin with the memory.
#
# For its backward pass a layer needs its input or its output of the forward pass. So each microbatch leaves
# **activations** behind, and they are kept until its backward pass is done. With GPipe all backward passes come after
# all forward passes, so that each rank keeps the activations of the whole batch.
#
# But the last rank could begin with the backward pass of microbatch 0 at once. Then a microbatch would be finished, and
# forgotten, before the last one has begun. This is **1F1B**: one forward, one backward, in turn. In its **warmup**, at
# the beginning, a rank does only as many forward passes as the later stages need to have work.

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
# 1F1B is just as fast: it has the same bubble, only in other places. The difference is on the right of the picture.
# With GPipe each rank keeps all 8 microbatches. With 1F1B rank $s$ keeps at most $p - s$, because then the first one
# comes back.
#
# **1F1B keeps at most $p$ microbatches on a rank, however many there are. GPipe keeps all $m$.**
#
# Play it. Each slot on the right is a microbatch whose activations are kept. `Pipeline` measures them: it counts the
# tensors that autograd holds. A forward pass fills a slot, a backward pass frees it, and the next microbatch takes the
# slot again. Step with → and ←; space plays.

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
# With 1F1B the first rank has the most to keep. If even this is too much, a rank can keep only the *input* of its
# stage, and run the forward pass again right before the backward pass. This is **recomputation**, which trades time for
# memory.
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | links with a long latency | 1F1B waits for each microbatch's gradient, so that it is slower than GPipe |
# | stages that differ | the two schedules need not take equally long |
#
# [Lesson 09b](09b_faster_pipelines.ipynb) runs both cases, and measures what recomputation frees.
#
# </details>
#
# **Try it.** Write a schedule yourself. A line is a rank. This one is 1F1B for two ranks and three microbatches. Change
# the order so that rank 0 keeps only one microbatch at a time. How much longer does it take? Then break it: let rank 1
# do `1B0` before `1F0`.

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
# ## A smaller bubble: several stages per rank
#
# The bubble is the time until the pipeline is full, plus the time until it is empty. It fills faster if stages are
# smaller. So give each rank *two* stages of half the size. They must not be neighbors: rank 0 has stages 0 and 4, rank
# 1 has 1 and 5, and so on, so that a microbatch goes around twice.

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
# times as many microbatches.
#
# **Interleaved stages shrink the bubble, and cost messages and memory.**
#
# Each microbatch crosses 7 boundaries instead of 3.
#
# On the right, rank 1 keeps 4.5 microbatches instead of 3. In bytes it keeps twice as much as before, because each
# stage also keeps its input, and now there are twice as many inputs.
#
# Another way is to cut the *backward pass* in two. With it the bubble can nearly vanish: see [lesson
# 09b](09b_faster_pipelines.ipynb).
#
# ## What a pipeline sends
#
# Do all four schedules train as one process does, and what do they send? We train 10 steps with each, and compare with
# one process. Then we count the messages of one step.

# %%
SCHEDULES = {
    "naive": (naive(4, 8), EVEN),
    "GPipe": (gpipe(4, 8), EVEN),
    "1F1B": (one_forward_one_backward(4, 8), EVEN),
    "interleaved": (interleaved_1f1b(4, 8), HALF),
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

# %% tags=["folded"]
# Checks
# Each microbatch crosses each boundary forward and backward, as 32 float64 per sample
for name, (messages, nbytes) in sent.items():
    boundaries = 7 if name == "interleaved" else 3
    assert messages == 2 * 8 * boundaries
    assert nbytes == 2 * boundaries * 64 * 32 * 8
for schedule, costs in SCHEDULES.values():
    assert distance(ideal.run(train, schedule, steps=10)) < 1e-9
    found = timing_of(ideal.run(train, schedule, costs=costs)).bubble
    assert abs(found - time_schedule(schedule, costs).bubble) < 1e-9

# %% [markdown]
# With $p$ stages there are $p - 1$ boundaries between ranks, and a step sends $2m$ messages over each of them. They
# carry the activations of the whole batch forward, and as many bytes backward. So neither the number of microbatches
# nor the order of the actions changes the bytes. Only the number of boundaries does.
#
# **What a pipeline sends depends on activations, while data parallelism sends gradients, one for each parameter.**
#
# Take the model of 175 billion parameters again. Its layers hand on 12,288 numbers for each of 2,048 positions of a
# text. It was trained with about 1,560 texts in a batch. In 16 bits:

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
# 157 GB is less than a quarter of 700 GB. Therefore a pipeline suits the links between machines, which are slower than
# the links inside. The larger the batch, the smaller is this advantage: with more than 6,954 texts the pipeline sends
# more.
#
# ## On a clock
#
# So far time was virtual. Now we start four real processes, and a network that is paced like a real one: 1 ms and 100
# MB/s. The ranks still sleep instead of computing, so that your machine need not have four idle cores. But the
# messages, the waiting and the clock are real.

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
# The measured times differ from run to run, so we show them and assert nothing about them.
#
# ## When not to
#
# **When the model fits and the network is fast, use data parallelism.** Four ranks that each do a quarter of the
# samples with the whole model have no bubble. They pay with an all-reduce instead, and [lesson
# 09b](09b_faster_pipelines.ipynb) computes how fast the network must be.
#
# **With as many microbatches as ranks, from a third to nearly half of the time is waiting.** With fewer microbatches it
# is more, up to $(p-1)/p$ with one. A model that answers one question at a time is a pipeline with a single microbatch.

# %%
for p in (2, 4, 8, 16):
    print(f"{p:2} ranks, {p:2} microbatches: {time_schedule(gpipe(p, p)).bubble:.0%}")
    assert abs(time_schedule(gpipe(p, p)).bubble - (p - 1) / (2 * p - 1)) < 1e-9

# %% [markdown]
# **When one layer is too large, no cut between layers helps**, because the slowest stage sets the pace of all. Lesson
# 10 cuts the layer itself, and [lesson 09b](09b_faster_pipelines.ipynb) cuts uneven models by what their layers cost.
#
# **A layer that looks at the whole batch, as batch norm does, sees only a microbatch.** Then its result depends on how
# you cut, and the run no longer equals one process. Data parallelism has the same problem, because there the layer sees
# the samples of one rank.

# %% tags=["folded"]
# Batch norm, of the whole batch and of its microbatches
norm = nn.BatchNorm1d(64).double()
whole = norm(images[:64])
pieces = torch.cat([norm(piece) for piece in images[:64].split(8)])
apart = (whole - pieces).abs().max().item()
print(f"largest difference {apart:.1f}")
assert apart > 0.1

# %% [markdown]
# ## In real frameworks
#
# PyTorch has pipelines in `torch.distributed.pipelining`. A `PipelineStage` wraps the module of one stage, and a
# schedule class runs it. We run two of these classes on our four ranks, with the stages of our model.
# `torch_distributed(comm)` gives PyTorch a process group whose messages are this course's, so that we find them in the
# trace.

# %%
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

Gradients = dict[str, torch.Tensor]


def with_torch(
    comm: Communicator, kind: type, steps: int = 1
) -> tuple[Gradients, list[float], list[str]]:
    """This rank's gradients, the losses of the microbatches, and what the rank did."""
    module = cut_model(4)[comm.rank]
    with torch_distributed(comm):
        stage = PipelineStage(module, comm.rank, 4, torch.device("cpu"))
        schedule = kind(stage, n_microbatches=8, loss_fn=cross_entropy)
        losses: list[torch.Tensor] = []
        inputs = [images[:64]] if stage.is_first else []
        last = {"target": labels[:64], "losses": losses} if stage.is_last else {}
        for _ in range(steps):
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
# The gradients are the same, to rounding. Does PyTorch also send what our `Pipeline` sends? We run one step and then
# two, with both, because the difference of these traces is the second step alone.


# %% tags=["folded"]
# What is sent in the first step, and in the second
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
            print(f"{whose:>9}  {messages:16}  {nbytes:28}  {more:+3} messages")
        sent[kind] = ours, theirs

# %% tags=["folded"]
# Checks of what is said below
for ours, theirs in sent.values():
    assert torch.equal(ours[1], theirs[1])
    for (first, second), more in zip((ours, theirs), ((1,), (2, 6)), strict=True):
        only_first = int((first - second)[0].sum())  # torch 2.8 sends two
        assert only_first in [number * 3 for number in more]
        assert int(second[0].sum()) == 2 * 8 * 3

# %% [markdown]
# **In the second step, each rank sends as many messages and as many bytes with PyTorch as with our `Pipeline`.** In the
# first step both send more, because the ranks do not know the shapes of the activations yet.
#
# Is it the same schedule? PyTorch writes down its actions in the notation that we use.

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
# The actions are the same. `REDUCE_GRAD` finishes the gradients after the last microbatch. [Lesson
# 09b](09b_faster_pipelines.ipynb) runs PyTorch's other schedules, and a batch that can't be cut evenly. In real
# training you would also meet:
#
# - **Tracing.** `torch.distributed.pipelining.pipeline` follows the forward pass of a model that is not a list of
#   layers, and cuts it at points that you name.
# - **Megatron-LM** (1F1B, plain or interleaved) and **DeepSpeed** (1F1B), where large pipelines are mostly run today.
# - **TensorFlow and JAX** have no such schedule among their strategies. In JAX you would write it with `shard_map` and
#   `ppermute`, see [JAX](14_jax.ipynb).
#
# ## Fill the grid
#
# Now you write the schedules, and the clock grades them. Each level gives you ranks, microbatches, what each action
# takes, and how many microbatches a rank has room for. A schedule gets points for time and for memory. **Par** is 20
# points.
#
# A line is a rank. Write `F0` for the forward pass of microbatch 0 through that rank's stage, and `B0` for its backward
# pass. Dots may mark the waiting, but only for your eyes: an action runs as soon as what it waits for is there. Your
# best grid of each level is kept in `work/my_games.json`, in your own folder, and nothing sends this file. `distlib
# board`, in a terminal, shows what is in it.

# %% tags=["folded"]
# The game
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
# Points for time are 10 times par's time over yours. Memory is scored likewise, with the microbatches that each rank
# keeps at most, added up. Points are rounded down. While you are slower than par, memory gives no more points than
# time, so that waiting does not pay.
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
# The other levels get harder. A grid may also be code: a list for each rank, of words such as `"F0"`. All grids here
# are naive. Improve one, and run its cell again.

# %%
attempt(2, [[f"{kind}{i}" for i in range(4) for kind in "FB"] for rank in range(3)])

# %%
attempt(3, [[f"{kind}{i}" for i in range(4) for kind in "FB"] for rank in range(3)])

# %% [markdown]
# There are four more levels. Level 4 is level 3 with more ranks and microbatches. In levels 5 and 7 you may cut
# backward passes: write `I0` and `W0` for the two halves of `B0`. The first half computes the gradient of the input,
# for which the rank before is waiting. The second half, for the weights, may wait, but a microbatch takes room until
# its W is done. In level 6 messages take time, so that a rank needs work while its gradient travels. [Lesson
# 09b](09b_faster_pipelines.ipynb) shows what helps in levels 5 to 7.

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
# - Interleaved stages shrink the bubble. They cost messages and memory.
# - What a pipeline sends depends on activations, not on the number of parameters.
#
# For $p$ ranks and $m$ microbatches; all stages are alike, and messages take no time. The bubble is a share of the
# total time of one step.
#
# | schedule | bubble | microbatches kept by rank $s$ | messages per step |
# |---|---|---|---|
# | naive | $(p-1)/p$ | 1 | $2m(p-1)$ |
# | GPipe | $(p-1)/(m+p-1)$ | $m$ | $2m(p-1)$ |
# | 1F1B | $(p-1)/(m+p-1)$ | $\min(m, p-s)$ | $2m(p-1)$ |
# | interleaved, $v$ stages per rank, $m$ a multiple of $p$ | $(p-1)/(vm+p-1)$ | more than 1F1B\* | $2m(vp-1)$ |
#
# \* If $m = p$, rank 0 keeps $p$, as many as with 1F1B; the other ranks keep more.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - A pipeline makes a model fit. It is fast only with many microbatches.
# - If stages are alike and messages take no time, 1F1B is as fast as GPipe. It keeps less.
# - The bytes that a pipeline sends depend on activations, not on parameters. So a large batch can make a pipeline send
#   more than data parallelism does.
# - With one stage per rank the slowest stage sets the pace of all.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/09_pipeline/09_pipeline.ipynb) you write GPipe and 1F1B for any number of ranks, and
# the loop that runs one stage with send and receive. The tests look at what your ranks keep, and when.
#
# [Lesson 09b](09b_faster_pipelines.ipynb) is a side road: slow links, recomputation, bubbles that nearly vanish,
# pipelines that never drain, stages that cost the same, and PyTorch's other schedules. Its exercise is a step by
# PyTorch's own pipeline.
#
# ## Further reading
#
# - Y. Huang et al., [GPipe](https://arxiv.org/abs/1811.06965), NeurIPS 2019. Microbatches, and recomputation with them.
# - D. Narayanan et al., [Memory-Efficient Pipeline-Parallel DNN Training](https://arxiv.org/abs/2006.09503), ICML 2021.
#   1F1B in the form used here, with a flush.
# - D. Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
#   Clusters](https://arxiv.org/abs/2104.04473), SC 2021. Interleaving, and how pipelines are combined with the rest.
# - [torch.distributed.pipelining](https://docs.pytorch.org/docs/stable/distributed.pipelining.html), PyTorch's manual.
