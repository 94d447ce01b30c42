# %% [markdown]
# # Capstone: one training, nine ways
#
# You have a small GPT, eight ranks and an afternoon. You know eight ways to train on several ranks, and one way on a
# single process. Which of the nine do you choose? Here all nine start from the same weights and see the same batches.
#
# > After this lesson you will be able to
# >
# > - say which ways give the model of one process, and which give another model,
# > - foresee what a way sends and keeps, and find it in the run,
# > - say what each way loses on slower links, and why,
# > - tell a fast step from a fast training,
# > - let a training go on after a kill.
# >
# > **Time:** about 60 minutes. **You need:** [DDP](05_ddp.ipynb), [Large batches](06_large_batches.ipynb),
# > [Without waiting](07_without_waiting.ipynb), [Pipeline](09_pipeline.ipynb), [Tensor
# > parallelism](10_tensor_parallel.ipynb), [ZeRO](11_zero.ipynb), [Hybrid](12_hybrid.ipynb) and
# > [Environments](16_environments.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import contextlib
import inspect
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import psutil
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from distlib import Cluster, Communicator, Link, SimulatedWorld, World, launch
from distlib.capstone import (
    MAX_NORM,
    WAYS,
    Additions,
    CapstonePlan,
    CommandOptions,
    StepCosts,
    Texts,
    TrainedModel,
    TrainingProgress,
    gpt_shape,
    loss_of_scores,
    manual,
    new_gpt,
    new_optimizer,
    set_rate,
    step_costs,
    train_alone,
    train_by,
    train_on_rank,
    with_ddp,
    with_zero,
    write,
)
from distlib.draw import compare_costs, curves, predict
from distlib.training import SmallTransformer

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% [markdown]
# ## A model that learns to add
#
# A sum is a text of ten characters. The answer has three digits, the last one first, as one adds on paper: 24+14 = 038
# is written `830`. Some sums are in no batch: they test the model later.

# %%
task = Additions(batch_size=64)
tokens, following = task.batch(0)
for row, last in zip(tokens[:4], following[:4, -1:], strict=True):
    print(task.characters.decode(torch.cat([row, last])))
print(f"{len(task.held_out):,} of 10,000 sums are in no batch")

# %% [markdown]
# The model is the transformer of lesson 12. Gradients are clipped to norm 1, the optimizer is AdamW, and the learning
# rate grows during the first 30 steps. For the comparison we compute in float64, so that rounding is tiny.

# %%
MODEL = SmallTransformer(vocabulary=16, features=32, hidden=128, heads=8, num_layers=6)
PLAN = CapstonePlan(task, MODEL, dtype=torch.float64)
RANKS, STEPS = 8, 32
FEW = 8  # steps show whether two models are the same
numbers = sum(each.numel() for each in new_gpt(PLAN.shape).parameters())
print(f"{numbers:,} parameters on {RANKS} ranks; {task.batch_size} sums in a step")

# %% [markdown]
# A **way** is a short function that gets a communicator and `PLAN`, and uses what you know from earlier lessons. This
# is DDP:

# %%
print(inspect.getsource(with_ddp))

# %% [markdown]
# Two lines deserve a look. A rank's loss is its *share*: the sum over its part of the batch, divided by the size of the
# whole batch, so that the shares add up to the loss. And gradients are clipped after the average, by the norm of the
# whole gradient.
#
# **Try it.** Print ZeRO 3 as well. Besides the model, only the line that clips is different. Why does ZeRO 3 not call
# `clip_grad_norm_`?

# %%
# print the source of with_zero

# %% tags=["folded"]
# One way to do it
# A rank has shards of the gradients: the norm of its own is not the norm of all
print(inspect.getsource(with_zero))
assert "model.clip_grad_norm(MAX_NORM)" in inspect.getsource(with_zero)

# %% [markdown]
# ## Which ways give the same model?
#
# All nine train eight steps. The parameter server is asynchronous, with seven workers. In local SGD each rank takes
# steps on its own, and after every fourth step the ranks average their models. In gossip each rank talks to two
# neighbors. The pipeline has eight stages and four microbatches, and the mesh is DP 2 × PP 2 × TP 2. All ranks are
# simulated, which takes some tens of seconds.

# %%
guess_1 = predict(
    "How many of the eight end with the weights of one process, to nine decimals?",
    unit="ways",
)

# %% tags=["folded"]
# The names of the ways, a box of eight ranks, and a training by a way
NAMES = {
    "alone": "one process",
    "ddp": "DDP",
    "local_sgd": "local SGD",
    "parameter_server": "parameter server",
    "gossip": "gossip",
    "pipeline": "pipeline",
    "tensor_parallel": "tensor parallel",
    "zero": "ZeRO 3",
    "mesh": "mesh 2 × 2 × 2",
}
INSIDE = Link(latency=2e-6, bandwidth=50e9)
BOX = Cluster(1, RANKS, INSIDE)
SPEED = 10e9  # operations per second of a rank
EVERY_FOURTH = {"local_sgd": {"round_steps": 4}}  # options of a way


@cache
def trained(
    way: str, steps: int = FEW, cluster: Cluster = BOX, **options: object
) -> TrainedModel:
    """The training by a way, on ranks of one box in virtual time, or of a cluster."""
    cluster = Cluster(1, 1) if way == "alone" else cluster
    ranks = cluster.world_size
    world = SimulatedWorld(ranks, cluster, record=False, contexts="threads")
    return world.run(train_by, way, PLAN.with_speed(SPEED), steps, **options)[0]


def weights_apart(one: TrainedModel, other: TrainedModel) -> float:
    """The largest difference of two weights."""
    return max(
        float((one.weights[k] - other.weights[k]).abs().max()) for k in one.weights
    )


# %%
results = {way: trained(way, **EVERY_FOURTH.get(way, {})) for way in WAYS}
one = results["alone"]
for way, found in results.items():
    print(
        f"{NAMES[way]:17} loss {found.losses[0]:.3f} → {found.losses[-1]:.6f}", end=""
    )
    print(f"   weights differ by {weights_apart(found, one):.0e}")
SAME = [
    way for way in WAYS if way != "alone" and weights_apart(results[way], one) < 1e-9
]
print(guess_1.compare(len(SAME)))

# %% tags=["folded"]
# Checks of the numbers above and below
assert all(results[way].losses[-1] < 0.95 * one.losses[0] for way in WAYS)
OTHERS = ["local_sgd", "parameter_server", "gossip"]
assert SAME == ["ddp", "pipeline", "tensor_parallel", "zero", "mesh"]
assert all(weights_apart(results[way], one) > 1e-4 for way in OTHERS)
for way in SAME:
    pairs = zip(results[way].losses, one.losses, strict=True)
    assert max(abs(a - b) for a, b in pairs) < 1e-9

# %%
longer = {
    way: trained(way, STEPS, **EVERY_FOURTH.get(way, {})) for way in ["alone", *OTHERS]
}
lines = {"one process": longer["alone"]}
lines |= {NAMES[way]: longer[way] for way in OTHERS}
curves(
    {n: list(enumerate(each.losses, start=1)) for n, each in lines.items()},
    along="steps",
    values="loss",
    title="Five ways train the model of one process, three train others",
    subtitle="the same start and the same batches; eight ranks, float64",
)

# %% [markdown]
# The three others lag a little; local SGD and gossip nearly coincide. The five are not drawn, because they would cover
# the line of one process. How far is each loss from that of one process? The next picture has a logarithmic scale, on
# which 1e-15 is rounding.

# %%
apart = {}
for way in [*OTHERS, "ddp", "pipeline", "zero", "mesh"]:
    pairs = zip(results[way].losses, one.losses, strict=True)
    gaps = [max(abs(a - b), 1e-17) for a, b in pairs]
    apart[NAMES[way]] = list(enumerate(gaps, start=1))[1:]  # all begin with one model
curves(
    apart,
    along="steps",
    values="distance of the loss from that of one process",
    title="Rounding, or another training",
    subtitle="float64; what is 0 is drawn as 1e-17; tensor parallelism is like the other four",
    show=lambda value: f"{value:.0e}",
)

# %% [markdown]
# There is a gap of many powers of ten. The ways below the gap add the same numbers in another order, so they differ by
# rounding. The ways above the gap are other trainings. In local SGD and gossip a rank steps along the gradient of its
# own part of the batch, and the server steps along gradients of parts, most of them old.
#
# **If each weight steps along the gradient of the whole batch, clipped as a whole, the model is that of one process.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | a rank has a part of the weights, as in ZeRO | it needs its part of the gradient, and the norm of the whole |
# | numbers are float32 | rounding moves some weights by 1e-5 in eight steps, so the gap is smaller |
# | the server waits for everybody, or has one worker | its model is that of one process, too |
# | local SGD averages after each step | with AdamW and clipping the model is still another |
#
# </details>
#
# **Try it.** What if local SGD averages after each step? Say what you expect, then set `round_steps` to 1. And what if
# the server waits for everybody, with `trained("parameter_server", bound=0)`?

# %%
tried = trained("local_sgd", round_steps=4)  # change this line
print(f"weights differ by {weights_apart(tried, one):.0e}")

# %% tags=["folded"]
# One way to do it
# AdamW divides each gradient by its size, as clipping does above norm 1: the average of
# eight such steps is not the step along the average. A server that waits averages before its step
each_step = trained("local_sgd", round_steps=1)
waits = trained("parameter_server", bound=0)
print(f"an average after each step: {weights_apart(each_step, one):.0e}")
print(f"a server that waits: {weights_apart(waits, one):.0e}")
assert weights_apart(each_step, one) > 1e-4 and weights_apart(waits, one) < 1e-9

# %% [markdown]
# ## What does a step cost?
#
# Now count a training step of each way in float32: the bytes that all ranks send, what the fullest rank keeps from step
# to step, and the time. Bytes and time of local SGD are means of four steps. A rank computes 10 billion operations per
# second. There are two clusters: one box with eight ranks and fast links, and two boxes of four ranks, where each rank
# has a slow link of its own to the other box: 50 µs and 125 MB/s.

# %%
guess_2 = predict(
    "Which way sends the most bytes per step, all eight ranks together?",
    choices=["DDP", "gossip", "parameter server", "tensor parallel", "ZeRO 3"],
)

# %% tags=["folded"]
# The cost of a step of each way, on each cluster
SINGLE = replace(PLAN, dtype=torch.float32)  # as one would train
TIMED = SINGLE.with_speed(SPEED)


@cache
def cost_of(way: str, cluster: Cluster, **options: int) -> StepCosts:
    """What a step costs there: a mean over a round of local steps, or one step of others."""
    return step_costs(way, TIMED, cluster, options.get("round_steps", 1), **options)


def costs_on(cluster: Cluster) -> dict[str, StepCosts]:
    """What a step costs there, by way."""
    where = {way: Cluster(1, 1) if way == "alone" else cluster for way in WAYS}
    return {way: cost_of(way, where[way], **EVERY_FOURTH.get(way, {})) for way in WAYS}


CLUSTERS = {
    "one box": BOX,
    "fast cluster": Cluster(2, 4, INSIDE, inter=Link(5e-6, 12.5e9)),
    "slow cluster": Cluster(2, 4, INSIDE, inter=Link(50e-6, 125e6)),
}
costs = costs_on(BOX)
times = {
    name: {way: each.seconds for way, each in costs_on(cluster).items()}
    for name, cluster in CLUSTERS.items()
}
slow, box = times["slow cluster"], times["one box"]
model_bytes = 4 * numbers
most = max(costs, key=lambda way: costs[way].nbytes)
order = sorted(WAYS, key=slow.get)

# %%
print(guess_2.compare(NAMES[most]))

# %%
guess_3 = predict(
    "Which way has the shortest step on two boxes?",
    choices=["DDP", "gossip", "local SGD", "mesh 2 × 2 × 2", "parameter server"],
)

# %%
print(guess_3.compare(NAMES[order[0]]))
compare_costs(
    {
        NAMES[way]: {
            "kB sent by all": round(cost.nbytes / 1e3),
            "kB kept at most": round(sum(cost.kept.values()) / 1e3),
            "ms, one box": round(1e3 * box[way], 2),
            "ms, two boxes": round(1e3 * slow[way], 2),
        }
        for way, cost in costs.items()
    },
    title="Nine ways, a training step",
    subtitle="eight ranks; kept: parameters, gradients and the optimizer's two states, in float32",
)

# %% tags=["folded"]
# Checks of the numbers above and below
in_models = {way: cost.most_sent / model_bytes for way, cost in costs.items()}
for way, wanted in (
    ("ddp", 1.75),
    ("local_sgd", 1.75 / 4),
    ("gossip", 2),
    ("parameter_server", 7),
    ("zero", 2.625),
):
    assert abs(in_models[way] - wanted) < 0.01, (way, in_models[way])
assert most == "tensor_parallel" and in_models[most] > 10
kept = {way: sum(cost.kept.values()) for way, cost in costs.items()}
assert kept["alone"] == kept["ddp"] == 16 * numbers
assert abs(kept["zero"] / kept["alone"] - 1 / 8) < 0.005
assert kept["parameter_server"] == kept["alone"]
assert 1 / 4 < kept["mesh"] / kept["alone"] < 0.3
assert min(kept, key=kept.get) == "zero"

# %% tags=["folded"]
# Checks of the numbers above and below
assert order[:4] == ["local_sgd", "mesh", "gossip", "ddp"] and order[-2:] == [
    "alone",
    "tensor_parallel",
]
assert box["pipeline"] > 2.5 * box["ddp"] and slow["pipeline"] < 1.2 * box["pipeline"]
assert (
    slow["mesh"] < 1.25 * box["mesh"]
    and slow["tensor_parallel"] > 8 * box["tensor_parallel"]
)
assert max(box["ddp"], box["zero"], box["gossip"]) < 1.06 * box["alone"] / 8
assert 1.2 < box["tensor_parallel"] / (box["alone"] / 8) < 1.35
assert abs(box["parameter_server"] / box["alone"] - 10 / 64) < 0.005
at_once = Cluster.flat(8, Link(0, INSIDE.bandwidth))
waiting = box["tensor_parallel"] - step_costs("tensor_parallel", TIMED, at_once).seconds
in_a_row = costs["tensor_parallel"].messages / 8
fast = {way: seconds / box[way] for way, seconds in times["fast cluster"].items()}
assert 1.3 < fast.pop("tensor_parallel") < 1.4 and max(fast.values()) < 1.06
assert 390 < in_a_row < 420 and abs(waiting - in_a_row * INSIDE.latency) < 5e-5

# %% [markdown]
# Read the poster by columns.
#
# - **Sent.** Tensor parallelism sends most: activations and their gradients, in four all-reduces per layer. For a layer
#   these are 4 × 576 tokens × 32 features = 74,000 numbers, while DDP sends the gradients of 12,000 weights. The
#   pipeline sends activations, too, but only from stage to stage. DDP sends $2(N-1)/N = 1.75$ models per rank. ZeRO 3
#   sends 1.5 times as much, and local SGD a quarter.
# - **Kept.** ZeRO 3 keeps an eighth of what one process keeps, and the mesh a little more than a quarter.
# - **One box.** The links are fast, so the time depends mostly on who computes. In the pipeline only six of eight
#   stages have a layer, and with four microbatches the bubble is large. TP shares the work evenly, but waits for some
#   400 messages in a row.
# - **Two boxes.** Slow links add time for the bytes on the busiest link between the boxes, and for messages that follow
#   one another. Tensor parallelism becomes slower than one process. The mesh hardly notices, because TP stays inside a
#   box.
#
# **What slow links cost depends on what crosses them: TP goes from 4 ms to 50, the mesh only from 4.4 to 5.1.**
#
# <details><summary>The details, and where they stop being true</summary>
#
# | what | detail |
# |---|---|
# | how time is counted | only matmuls with weights take time: 2 operations per weight and token forward, 4 backward |
# | the server | one of eight ranks computes nothing, and sends seven models in a step |
# | PP across the boxes instead of DP | the mesh takes about as long |
# | larger batches | DDP catches up with the mesh: it computes more, but sends no more bytes |
# | two boxes with links of 12.5 GB/s | nearly the times of one box, but TP takes a third longer |
#
# </details>
#
# **Try it.** Turn the mesh around, so that TP crosses between the boxes. How much slower does it become?

# %%
sizes = {"dp": 2, "pp": 2, "tp": 2}  # change this line: the last axis is the innermost
cost = step_costs("mesh", TIMED, CLUSTERS["slow cluster"], sizes=sizes)
print(f"{1e3 * cost.seconds:.2f} ms per step")

# %% tags=["folded"]
# One way to do it
around = {"tp": 2, "pp": 2, "dp": 2}
turned = step_costs("mesh", TIMED, CLUSTERS["slow cluster"], sizes=around)
print(f"tp between the boxes: {1e3 * turned.seconds:.2f} ms per step")
assert turned.seconds > 3 * slow["mesh"]

# %% [markdown]
# ## A fast step, a fast training
#
# Local SGD has the shortest step on the two boxes. But what one waits for is a loss, not a step. So we count the steps
# that each way needs until the loss stays below 1.7, and multiply them by its time for a step. The server's losses
# depend on the links, so it trains once more, on the two boxes.

# %%
guess_4 = predict(
    "Which way is the first below a loss of 1.7 on the two boxes?",
    choices=["local SGD", "mesh 2 × 2 × 2", "gossip", "DDP"],
)

# %%
TARGET = 1.7


def steps_to(losses: list[float], target: float = TARGET) -> int:
    """The first step after which no loss is above the target, or one more than there are."""
    return 1 + max(
        (step for step, loss in enumerate(losses, start=1) if loss > target), default=0
    )


longer["parameter_server"] = trained(
    "parameter_server", STEPS, CLUSTERS["slow cluster"]
)
needed = {way: steps_to(longer.get(way, longer["alone"]).losses) for way in WAYS}
arrival = {way: needed[way] * slow[way] for way in WAYS}
for way in sorted(WAYS, key=arrival.get):
    print(f"{NAMES[way]:17} {needed[way]:3} steps, {1e3 * arrival[way]:6.1f} ms")
first = min(arrival, key=arrival.get)
print(guess_4.compare(NAMES[first]))

# %% tags=["folded"]
# Checks of the numbers above and below
assert order[0] == "local_sgd" and first in ("local_sgd", "mesh")
assert needed["local_sgd"] > needed["alone"] and needed["gossip"] > needed["alone"]
assert 0.9 < arrival["local_sgd"] / arrival["mesh"] < 1.1
each_step = trained("local_sgd", needed["local_sgd"] + 2, round_steps=1)
assert abs(steps_to(each_step.losses) - needed["local_sgd"]) <= 1

# %% [markdown]
# Local SGD and the mesh arrive nearly together. Local SGD loses most of its lead because it needs more steps: a rank's
# gradient is noisier than that of the whole batch, and each rank clips and scales its gradient before anything is
# averaged. Which of the two is first depends on the seed and on the loss that one waits for. Trained on to a loss of
# 1.0, local SGD needs 1.5 times the steps, and the mesh is first.
#
# **The time to a loss is steps times the time of a step: count both.**
#
# <details><summary>What was measured besides</summary>
#
# | what | found |
# |---|---|
# | seeds 0 to 3, loss 1.7, while the rate still grows | local SGD arrives from 2 % before to 12 % after the mesh |
# | two seeds, loss 1.0, float32 | local SGD needs 1.46 and 1.51 times the steps |
# | an average after each step | as many steps as with an average after four |
#
# All of this is for one size of batch and one network.
#
# </details>
#
# **Try it.** Let local SGD go on for eight steps before it averages. Is the step shorter? Are more steps needed?

# %%
H = 4  # change this line
longer_rounds = trained("local_sgd", STEPS, round_steps=H)
cost = cost_of("local_sgd", CLUSTERS["slow cluster"], round_steps=H)
steps = steps_to(longer_rounds.losses)
print(
    f"{steps} steps of {1e3 * cost.seconds:.2f} ms: {1e3 * steps * cost.seconds:.1f} ms"
)

# %% tags=["folded"]
# One way to do it
# Hardly more steps are needed here, and each sends half as much
eight = trained("local_sgd", STEPS, round_steps=8)
cost = cost_of("local_sgd", CLUSTERS["slow cluster"], round_steps=8)
steps = steps_to(eight.losses)
print(
    f"{steps} steps of {1e3 * cost.seconds:.2f} ms: {1e3 * steps * cost.seconds:.1f} ms"
)
assert steps <= STEPS and steps * cost.seconds < arrival["mesh"]

# %% [markdown]
# ## The whole training
#
# Virtual seconds say what our model of a cluster does. The folded cell runs some of the ways on two real processes of
# this machine. The losses are the same, but two processes may well be slower than one, because the model is small.


# %% tags=["folded"]
# Some of the ways on real processes
def tokens_per_second(comm: Communicator, way: str) -> tuple[float, float]:
    """How many tokens all ranks train on in a second here, and the last loss."""
    torch.set_num_threads(1)
    began, steps = comm.time(), 8
    losses = train_by(comm, way, PLAN, steps).losses
    tokens = steps * task.batch_size * task.length
    return tokens / (comm.time() - began), losses[-1]


here = {}
for ranks, ways in (
    (1, ["alone"]),
    (2, ["ddp", "pipeline", "tensor_parallel", "zero"]),
):
    with World(ranks) as world:
        for way in ways:
            here[way] = world.run(tokens_per_second, way)[0]
            print(
                f"{NAMES[way]:17} {here[way][0]:7,.0f} tokens/s, loss {here[way][1]:.9f}"
            )
assert all(abs(loss - one.losses[7]) < 1e-9 for _, loss in here.values())

# %% [markdown]
# Now the model that really learns to add: 0.8 million parameters, batches of 128, one process. The loss falls soon, and
# then stands still for long. We also ask for the loss of each character of the answer. The training takes half a minute
# to two minutes.

# %%
guess_5 = predict(
    "After 300 steps, how many of the sums that it has never seen does it get right?",
    choices=["about 1 in 100", "about a quarter", "more than two thirds"],
)

# %%
whole_task = Additions(batch_size=128)
gpt = new_gpt(gpt_shape(whole_task.characters.vocabulary, whole_task.length))
by_character = {}  # step → of the unit, the ten, the hundred and the full stop


@torch.no_grad()
def progress(now: TrainingProgress) -> None:
    """Print how far it is, and keep the loss of each character of sums that are new."""
    print(now)
    rows = whole_task.held_out[:256]
    scores, answers = whole_task.counted(gpt(rows[:, :-1]), rows[:, 1:])
    each = cross_entropy(scores.flatten(0, 1), answers.flatten(), reduction="none")
    by_character[now.step] = each.view(answers.shape).mean(0).tolist()


losses = train_alone(gpt, whole_task, 300, every=25, on_progress=progress)
right = whole_task.accuracy(gpt)
print(guess_5.compare("more than two thirds" if right > 2 / 3 else "about a quarter"))
print(f"{right:.0%} are right")
for row in whole_task.held_out[1:4]:
    text = whole_task.characters.decode(row)
    question, answer = text.split("=")
    written = write(
        gpt, whole_task.characters, question + "=", 4, window=9, temperature=0.01
    )
    print(f"{question}: it says {written[6:9][::-1]}, right is {answer[:3][::-1]}")
for step in (75, 300):
    unit, ten, hundred, stop = by_character[step]
    print(f"loss after {step} steps: unit {unit:.2f}, ten {ten:.2f}, ", end="")
    print(f"hundred {hundred:.2f}, full stop {stop:.2f}")

# %% tags=["folded"]
# Checks of the numbers above and below
assert right > 0.7 and losses[-1] < 0.5
plateau = losses[30:75]
assert max(plateau) - min(plateau) < 0.15 and min(plateau) > 1.0
assert min(by_character[75][:2]) > 2.1 and max(by_character[75][2:]) < 0.3

# %% [markdown]
# The model soon knows the full stop, and whether the sum reaches 100. Then it stands still and guesses the two other
# digits: a guess among ten digits has the loss $\ln 10 = 2.30$. At last it finds out how to add.
#
# A model of the same kind can learn to write from Python's manual, which is on your machine. A hundred short steps
# teach it spaces and frequent letters, but hardly words. `python -m distlib.capstone text` in a terminal trains 0.8
# million parameters for some minutes, and then writes a page.

# %%
texts = Texts(manual(), length=32, batch_size=32)
writer = new_gpt(
    gpt_shape(
        texts.characters.vocabulary,
        texts.length,
        replace(MODEL, features=64, hidden=256, num_layers=2),
    )
)
train_alone(writer, texts, 100, every=50)
print(write(writer, texts.characters, texts.beginning, 200, window=texts.length))

# %% [markdown]
# ## A kill, and on it goes
#
# A way is a function of a communicator, so it runs on any communicator with a suitable number of ranks. This command
# takes the name of a way:
#
#     python -m distlib.capstone additions --way zero --ranks 4
#
# With `--checkpoints FOLDER`, every 25 steps each rank writes what it keeps, and the same command goes on from there.
# We take two ranks, a small model, and a checkpoint every four steps. We ask for a million steps, so that the kill
# comes first. When the second checkpoint is there, we kill the launcher, and its ranks end, too.

# %%
folder = Path(tempfile.mkdtemp())
COMMAND = """-m distlib.capstone additions --way zero --every 4
    --features 16 --layers 2 --batch-size 16""".split()


def start(*words: str) -> subprocess.Popen[str]:
    """The command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, *COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


killed = start("--ranks", "2", "--steps", "1000000", "--checkpoints", str(folder))
second = folder / "rank-1-of-2" / "00000008.checkpoint"
while killed.poll() is None and not second.exists():
    time.sleep(0.01)
family = psutil.Process(killed.pid).children(recursive=True)
os.killpg(killed.pid, signal.SIGKILL)
killed.communicate(timeout=60)
psutil.wait_procs(family, timeout=60)  # the ranks notice, and end
print(
    *sorted(str(path.relative_to(folder)) for path in folder.rglob("*.checkpoint")),
    sep="\n",
)

# %% [markdown]
# A second launch will go on for eight steps after the last checkpoint that *every* rank has. First we need losses to
# compare with: from the same function on simulated ranks, without a kill.

# %% tags=["folded"]
# The losses of a run without a kill
last = min(launch.steps_in(of_one_rank)[-1] for of_one_rank in folder.iterdir())
steps = last + 8
options = CommandOptions(
    "additions", way="zero", every=4, steps=steps, features=16, layers=2, batch_size=16
)
with contextlib.redirect_stdout(io.StringIO()) as printed:
    SimulatedWorld(2, contexts="threads").run(train_on_rank, options)
undisturbed = printed.getvalue()
print(undisturbed)

# %% [markdown]
# Now `torchrun` starts the ranks, as on a cluster. They get a copy of the folder, so that you can run the cell again.

# %%
copy = shutil.copytree(folder, Path(tempfile.mkdtemp()) / "copy")
TORCHRUN = f"""-m torch.distributed.run --nproc-per-node 2 --local-addr 127.0.0.1
    --rdzv-backend c10d --rdzv-endpoint {copy.parent}/meeting
    --rdzv-conf store_type=file""".split()
words = [sys.executable, *TORCHRUN, *COMMAND, "--checkpoints", str(copy)]
words += ["--steps", str(steps)]
resumed = subprocess.run(words, capture_output=True, text=True, timeout=150).stdout
print(resumed)


def losses_in(printed: str) -> dict[str, str]:
    """Step → loss, of the lines of progress."""
    return dict(re.findall(r"step +(\d+)  loss (\S+)", printed))


again, wanted = losses_in(resumed), losses_in(undisturbed)
assert list(wanted) == [str(step) for step in range(4, steps + 1, 4)]
assert list(again) == [str(last + 4), str(steps)]
assert all(wanted[step] == loss for step, loss in again.items())

# %% [markdown]
# The losses are those of the undisturbed run, although nothing of the first launch was alive.
#
# **A checkpoint must hold all the state that the next step needs, from each rank that has something of its own.**
#
# <details><summary>The command elsewhere, and where this stops being true</summary>
#
# | where | the command |
# |---|---|
# | here | `python -m distlib.capstone additions --way zero --ranks 4` |
# | some machines | on each: `torchrun --nnodes 2 --nproc-per-node 4 … -m distlib.capstone additions --way zero` |
# | Docker's cluster | `on-nodes torchrun --nproc-per-node 2 -m distlib.capstone additions --way ddp` |
# | Slurm | `srun --nodes 2 --ntasks-per-node 4 python -m distlib.capstone additions --way zero …` |
# | Slurm, longer than a job | the same in lesson 16b's script: the training exits with 75 before the job ends |
# | one GPU | `python -m distlib.capstone additions` takes it |
# | a GPU per rank | the same as here and under `torchrun`: NCCL is taken where each rank has a GPU of its own |
#
# Each rank goes on from its own checkpoint, so a launch with another number of ranks ends with an error. If the kill
# comes when only one rank has written a checkpoint, both ranks go on from the checkpoint before, or from the start.
#
# </details>
#
# A whole training in one file, to take home, is `distlib/capstone/train.py`: a GPT in plain torch, on any number of
# ranks.
#
# **Try it.** This command names no way. What does it say? Then give it ranks that a way can't use.

# %%
wrong = [sys.executable, "-m", "distlib.capstone", "additions", "--ranks", "2"]
print(subprocess.run(wrong, capture_output=True, text=True, timeout=150).stderr)

# %% tags=["folded"]
# One way to do it
wrong = [sys.executable, *COMMAND, "--way", "mesh", "--ranks", "3"]
told = subprocess.run(wrong, capture_output=True, text=True, timeout=150).stderr
print(told)
assert "expected a number of ranks that 4 divides" in told

# %% [markdown]
# ## In real frameworks
#
# The model is made of plain torch modules, so torch's own DDP can train it. Two processes share the same batches, and
# the mean of their losses is the loss of one process:


# %%
from distlib import torch_distributed


def by_torch(comm: Communicator, steps: int) -> list[float]:
    """This rank's losses, by torch's DDP."""
    torch.set_num_threads(1)
    model = PLAN.whole_model(comm)
    optimizer, found = new_optimizer(model.parameters()), []
    with torch_distributed(comm, "gloo"):
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        for step in range(steps):
            mine, answers = PLAN.part(comm, step)
            set_rate(optimizer, step)
            optimizer.zero_grad()
            loss = loss_of_scores(task, ddp(mine), answers)
            loss.backward()
            clip_grad_norm_(ddp.parameters(), MAX_NORM)
            optimizer.step()
            found.append(loss.item())
    return found


with World(2) as world:
    halves = world.run(by_torch, 8)
means = [sum(pair) / 2 for pair in zip(*halves, strict=True)]
gap = max(abs(a - b) for a, b in zip(means, one.losses, strict=False))
print(f"torch's DDP: the losses differ by {gap:.0e}")
assert gap < 1e-9

# %% [markdown]
# [Lesson 15](15_frameworks.ipynb) says what its frameworks call the other ways. Gossip is in none of them.
#
# ## In short
#
# - If each weight steps along the gradient of the whole batch, clipped as a whole, the model is that of one process.
# - Local SGD, gossip and an asynchronous server with several workers train other models.
# - What slow links cost depends on what crosses them: DDP sends per parameter, TP per token.
# - The time to a loss is steps times the time of a step: count both.
# - A checkpoint must hold all the state that the next step needs, from each rank with a part of its own.
#
# ## Now you
#
# In [the exercise](../exercises/19_capstone/19_capstone.ipynb) you write a step by all ranks, predict its time and its
# bytes, train a GPT with it, and write a training that goes on when ranks die. In [exercise
# 19b](../exercises/19b_budget/19b_budget.ipynb), a side road, you train within a budget of virtual seconds on clusters
# that you have not seen, and write a report.
#
# ## Further reading
#
# - A. Karpathy, [nanoGPT](https://github.com/karpathy/nanoGPT): a GPT and its training in two short files.
# - A. Power et al., [Grokking](https://arxiv.org/abs/2201.02177), 2022. A model on small arithmetic can stand still for
#   long, and then generalize.
# - T. Lin et al., [Don't Use Large Mini-Batches, Use Local SGD](https://arxiv.org/abs/1808.07217), ICLR 2020. When
#   local steps reach as good a model, and when not.
# - D. Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
#   Megatron-LM](https://arxiv.org/abs/2104.04473), SC 2021. Section 3: which axis belongs where.
