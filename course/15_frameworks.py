# %% [markdown]
# # Frameworks: what your code becomes in Lightning, Accelerate, DeepSpeed, Ray, torchtitan
#
# **This lesson is optional.** It is a side road, which no lesson of the main road needs.
#
# You have written an all-reduce, DDP, and three stages of ZeRO. At work you will hardly write them again. You will meet
# a line such as `Trainer(devices=8, strategy="deepspeed_stage_2")`. What of your code is in it? How would you find out?
#
# After this lesson you will be able to
#
# - say what a framework does for you, and which part of it is an algorithm of this course,
# - count what it sends and what it keeps, and hold that against your own formulas,
# - notice the traps that cost people days, before they cost you one,
# - find an algorithm in a framework, by the name that it has there,
# - choose one for a use, and say what it costs to leave it again.
#
# **Time:** about 80 minutes. **You need:** [DDP](05_ddp.ipynb) and [ZeRO](11_zero.ipynb). No GPU, and no framework:
# where one is not installed, this lesson shows what was recorded with it, and says so. `make frameworks` installs
# them, into an environment of their own. Then the same cells run them, which takes a few minutes more.

# %%
import re
from collections import Counter

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from distlib import Communicator, World, torch_distributed
from distlib.draw import compare_costs, memory_parts, predict
from distlib.trainers import (
    ALGORITHMS,
    NOTHING,
    PROGRAMS,
    TRAPS,
    SideBySide,
    WideClassifier,
    algorithm_map,
    by_use,
    changed,
    is_there,
    loss_of,
    recorded_trap,
    recording,
    report,
    run_trap,
    sgd,
    sources,
    torchtitan_places,
    training_set,
)
from distlib.training import DistributedSampler, assign_buckets, digits

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% [markdown]
# ## The idea
#
# One model, one data set, one result. The model is the classifier of lesson 05 with one more, wide layer. Two
# processes train it for 60 steps, on 12 images each. Every framework gets the same `nn.Module`, the same optimizer
# and the same loss function, in a program of its own. (They are in `distlib/trainers/programs/`.)

# %%
for name, program in PROGRAMS.items():
    where = "runs here" if is_there(name) else "is shown as recorded"
    print(f"{name:12} {program.title:20} {where}")

# %% [markdown]
# This one needs no framework:

# %%
print(PROGRAMS["ddp"].source)

# %% [markdown]
# Three things in it are not in a program for one process: the group, the sampler, the wrapper. A framework offers to
# take these over. What is left to write?

# %%
guess_1 = predict(
    "How many lines stand in this program and not, letter for letter, in Fabric's?",
    unit="lines",
)

# %%
print(changed("fabric"))


def lines_that(sign: str, name: str) -> int:
    return sum(line.startswith(sign) for line in changed(name).splitlines())


print(guess_1.compare(lines_that("-", "fabric")))

# %% [markdown]
# Fabric makes the group, replaces the sampler and wraps the model. The loop stays yours, but for `backward`. Accelerate
# is much like it:

# %%
print(changed("accelerate"))

# %% [markdown]
# DeepSpeed has an *engine*. It wraps the model, but not in DDP, and takes the optimizer in as well. The stage of ZeRO
# is a number in a dictionary. (Two names need a word. `zero_allow_untested_optimizer` is asked for since torch's SGD
# is not on DeepSpeed's list of optimizers that it has tried with ZeRO. `GatheredParameters` makes each tensor whole
# again for the block below it: in stage 3 a rank has only its shards of the large ones.)

# %%
print(changed("deepspeed_2"))

# %% [markdown]
# Lightning's Trainer and Ray Train turn the program inside out. You hand over a class, or a function, and they call
# it.
#
# **Try it.** Print what changes for `lightning`, `ray`, and for `ours`, which is the DDP of lesson 05. In each, find
# the line that wraps the model, and the one that deals out the samples. One of the three has no line that wraps.

# %%
print(changed("ours"))  # and the others

# %% tags=["folded"]
# One way to do it
# The Trainer wraps the model itself. The sampler that deals out the samples stands in
# the last lines
print(changed("lightning"), "\n")
print(changed("ray"))
assert "prepare_model" in changed("ray") and "prepare_data_loader" in changed("ray")
assert "DistributedDataParallel(" not in PROGRAMS["lightning"].source


# %%
def lines_of(name: str) -> Counter:
    """The lines of a program without its first one, each without its indentation."""
    lines = PROGRAMS[name].source.splitlines()[1:]
    return Counter(line.strip() for line in lines if line.strip())


def lines_only_in(one: str, other: str) -> int:
    return (lines_of(one) - lines_of(other)).total()


CHANGED = ("ours", "fabric", "lightning", "accelerate", "deepspeed_2", "ray")
SideBySide(
    ["program", "lines that go", "lines that come", "lines in all"],
    [
        [
            PROGRAMS[name].title,
            str(lines_only_in("ddp", name)),
            str(lines_only_in(name, "ddp")),
            str(lines_of(name).total()),
        ]
        for name in CHANGED
    ],
)

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# (A line that is only indented further, or stands elsewhere, has not changed here.) Where the loop stays yours, seven
# or eight of plain torch's 19 lines go, whatever the framework; the Trainer, which takes the loop, takes 15.
#
# </details>

# %% tags=["folded"]
# Checks of the numbers above
gone = {name: lines_only_in("ddp", name) for name in CHANGED}
assert lines_of("ddp").total() == 19 and gone.pop("lightning") == 15
assert set(gone.values()) == {7, 8} and lines_that("-", "fabric") == gone["fabric"]
for name, program in PROGRAMS.items():
    if name not in ("ddp", "ours"):
        assert "DistributedDataParallel(" not in program.source
assert changed("deepspeed_2").replace('"stage": 2', "") == changed(
    "deepspeed_1"
).replace('"stage": 1', "")

# %% [markdown]
# ## Who starts the processes?
#
# Now all ten programs run, or their recordings are read. With all frameworks installed this takes a few minutes.
# Think about this meanwhile:

# %%
guess_2 = predict(
    "Two workers train with Ray. How many processes are there meanwhile?",
    choices=["2", "3 or 4", "more than 10"],
)

# %%
reports = {}


def run(*names: str) -> None:
    """Run these programs, or read their recordings; and say which of the two it was."""
    for name in names:
        reports[name] = report(name)
        print(f"{name:12} {reports[name].note or reports[name].origin}")


run("ddp", "ours", "fabric", "lightning")

# %%
run("accelerate", "deepspeed_0", "deepspeed_1")

# %%
run("deepspeed_2", "deepspeed_3", "ray")

# %%
there = reports["ray"].processes
print(
    guess_2.compare("2" if there == 2 else "3 or 4" if there <= 4 else "more than 10")
)
SideBySide(
    ["program", "command", "who starts the processes", "processes"],
    [
        [
            PROGRAMS[name].title,
            f"`{PROGRAMS[name].command}`",
            PROGRAMS[name].starts_processes,
            str(each.processes),
        ]
        for name, each in reports.items()
        if name not in ("deepspeed_0", "deepspeed_1", "deepspeed_3")
    ],
)

# %% [markdown]
# Somebody must start two processes, and tell each who it is. `torchrun` does it from outside. Fabric and the Trainer
# start your script *again*, with other environment variables: so your whole script runs in each process, also what
# stands above `launch` or `fit`. (Under `torchrun` they start nothing.) Ray has processes of its own on each machine,
# which wait for work. Its workers are two of them.
#
# Accelerate has a launcher of its own, too. Without a GPU you write:
#
#     accelerate launch --cpu --num_processes 2 train.py
#
# Our program hands Accelerate batches of 24 images, the whole of a step, and tells it to split them over the processes.

# %%
guess_3 = predict("How many processes train?", choices=["one", "two", "none: an error"])

# %%
launched = run_trap("accelerate_launch")
print(launched)
one = any(line.startswith("processes: 1") for line in launched.lines)
print(guess_3.compare("one" if one else "two"))

# %% [markdown]
# One. Accelerate does not warn of it: only our own line `processes: 1` tells. What does the loss say? One process
# gets all 24 images, and computes the mean that two would have computed together. So the loss is that of two
# processes, to the last digit shown. The result can't tell. That is the whole point of data parallelism. (By default
# a batch of Accelerate's is that of *one* rank. With batches of 12, one process would take 120 steps: a different
# training, and again without a word.)
#
# So print the world size *inside* the program, whatever the command says. In torch that is `dist.get_world_size()`; in
# Accelerate `accelerator.num_processes`. (In Accelerate 1.15 no branch of the launcher starts several processes for
# `--cpu`, unless MPI does. `torchrun` does.)

# %% tags=["folded"]
# Checks of the text above
seen = "\n".join(launched.lines)
assert f"{reports['ddp'].loss:.5f}"[:7] in seen
assert one == ("processes: 1" in seen)
assert "split_batches=True" in TRAPS["accelerate_launch"].program
assert recording("ray").processes > 10

# %% [markdown]
# ## One result
#
# Are the results equal, and how equal? After 60 steps we compare all 274,666 parameters with those of plain DDP.
#
# A detail first. `DistributedSampler` deals out single images: rank 0 gets images 0, 2, 4, … of the 24. Accelerate
# deals out whole batches: rank 0 gets 0 to 11.

# %%
guess_4 = predict(
    "After 60 steps, Accelerate's parameters and those of plain DDP are …",
    choices=["equal, to the last bit", "equal, up to rounding", "different"],
)

# %%
for each in reports.values():
    print(
        f"{each.name:12} loss {each.loss:.6f}   largest difference {each.difference:.1e}"
    )
how = (
    "equal, up to rounding"
    if reports["accelerate"].difference
    else "equal, to the last bit"
)
print(guess_4.compare(how))

# %% tags=["folded"]
# Checks of the numbers above
# Whatever the version
for each in reports.values():
    assert each.difference <= 1e-5

# %% [markdown]
# Every framework gives plain DDP's result. Most of them give it to the last bit, since their ranks add up the same
# numbers. With two ranks even DeepSpeed does: a sum of two has no order, and half of a float is exact. With three ranks
# it would round at other places. Accelerate's ranks have other images, so their sums are rounded differently: that is
# the 2e-7.
#
# How far does such a difference lead? Let us play both samplers in one process: it computes the two halves of each
# batch one after the other, and adds them up. Then we do it again with another start, and so on.

# %%
DEALT = {
    "singly": [slice(0, 24, 2), slice(1, 24, 2)],
    "in batches": [slice(12), slice(12, 24)],
}
train_set = digits()[0]


def weights_after(
    parts: list[slice],
    seed: int,
    dtype: torch.dtype = torch.float32,
    smooth: bool = False,
) -> torch.Tensor:
    """All weights after 60 steps, if two ranks had these parts of each batch."""
    torch.manual_seed(seed)
    model = WideClassifier().to(dtype)
    if smooth:  # the same layers, without a kink
        for layers in (model.look, model.decide):
            for place, layer in enumerate(layers):
                layers[place] = nn.GELU() if isinstance(layer, nn.ReLU) else layer
    optimizer = sgd(model)
    for step in range(60):
        batch = slice(24 * step, 24 * (step + 1))
        images, labels = train_set.images[batch].to(dtype), train_set.labels[batch]
        images = (images - 0.3) * 3  # as the programs above scale them
        optimizer.zero_grad()
        for part in parts:
            (cross_entropy(model(images[part]), labels[part]) / 2).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


# %%
guess_5 = predict(
    "Up to 200 starts: does one lead a hundred times as far as another?",
    choices=["no: it is only rounding", "yes"],
)


# %%
def difference(seed: int, **options: object) -> float:
    singly, in_batches = (
        weights_after(parts, seed, **options) for parts in DEALT.values()
    )
    return float((singly - in_batches).abs().max())


found = []
for seed in range(200):
    found.append(difference(seed))
    print(f"seed {seed}: {found[-1]:.0e}")
    if far := max(found) > 100 * min(found):
        break
print(guess_5.compare("yes" if far else "no: it is only rounding"))

# %% tags=["folded"]
# Checks of the numbers above
assert far and min(found) < 1e-6
for seed in {0, found.index(max(found))}:
    assert difference(seed, smooth=True) < 1e-6
    assert difference(seed, dtype=torch.float64) < 1e-12

# %% [markdown]
# Mostly the difference stays as small as rounding is. With some starts it grows a hundredfold or more, and nothing is
# wrong there, either. A ReLU has a kink: below zero its gradient is 0, above it is 1. If an input lies so close to zero
# that rounding decides on its sign, the gradient comes through in one run and not in the other. A single such step is
# enough, and which starts meet it is chance: on your machine it may be others than on ours. Two controls, folded above,
# say the same. With GELU, which has no kink, and in float64, where rounding hardly ever decides on a sign, the same
# starts stay together. So before you say that two frameworks train differently, change the order of the sums in one of
# them, and see how far *that* leads. Compare in float64, or after few steps.
#
# ## What is sent
#
# For each framework we counted every collective that a process asks torch for. Let us predict them first. The model has
# eight tensors.

# %%
sizes = [parameter.nbytes for parameter in WideClassifier().parameters()]
print(f"{sum(sizes):,} bytes:", " + ".join(f"{size:,}" for size in sizes))

# %% [markdown]
# torch's DDP closes its first bucket at 1 MiB, and later ones at 25 MiB. Buckets are filled from the last tensor to the
# first.

# %%
guess_6 = predict(
    "How many all-reduces does DDP take in each step after the first?",
    unit="all-reduces",
)

# %%
MIB = 1 << 20
buckets = assign_buckets(sizes, bucket_bytes=25 * MIB, first_bucket_bytes=MIB)
for bucket in buckets:
    print(f"parameters {bucket}: {sum(sizes[index] for index in bucket):,} bytes")
print("counted in plain DDP:", *reports["ddp"].step_calls, sep="\n    ")
print(guess_6.compare(sum(row.times for row in reports["ddp"].step_calls)))

# %% tags=["folded"]
# Checks of the numbers above
computed = [sum(sizes[index] for index in bucket) for bucket in buckets]
assert [row.bytes for row in recording("ddp").step_calls] == computed
assert [row.bytes for row in recording("ddp").first_step_calls] == [sum(sizes)]

# %% [markdown]
# Two, as lesson 05's function says. (The first step has only one. torch takes one bucket for all there, and looks in
# which order the gradients come. Then it makes the buckets.)
#
# DeepSpeed has no DDP in it. You know what each stage of ZeRO must send, from lesson 11: in units of the model's bytes
# times $(N-1)/N$, two for stages 0, 1 and 2, and three for stage 3.

# %%
guess_7 = predict(
    "Which of DeepSpeed's stages 1, 2 and 3 asks torch for the most bytes per step, "
    "counted before the network's library?",
    choices=["stages 1 and 2", "stage 3", "all the same"],
)

# %%
MODEL = sum(sizes)


def units(name: str) -> float:
    """What a rank sends in a step, if all goes around rings; 1 is the model · (N − 1)/N."""
    return sum(row.sent(2) for row in reports[name].step_calls) / (MODEL / 2)


for name, each in reports.items():
    calls = ", ".join(f"{row.times} {row.collective}" for row in each.step_calls[:4])
    more = ", …" if len(each.step_calls) > 4 else ""
    print(f"{name:12} {units(name):.2f} units   {calls}{more}")
by_name = {"deepspeed_3": "stage 3", "deepspeed_2": "stages 1 and 2"}
print(guess_7.compare(by_name[max(by_name, key=units)]))

# %% tags=["folded"]
# Checks of the numbers above and below
counted = {
    name: sum(row.sent(2) for row in recording(name).step_calls) / (MODEL / 2)
    for name in PROGRAMS
}
for name in ("ddp", "ours", "fabric", "lightning", "accelerate", "deepspeed_0", "ray"):
    assert abs(counted[name] - 2) < 1e-4, name
assert all(2.999 < counted[f"deepspeed_{stage}"] < 3.001 for stage in (1, 2))
assert 1.99 < counted["deepspeed_3"] < 2.01
carried_out = sum(row.sent(2) for row in recording("deepspeed_3").gloo_calls)
assert 2.9 < carried_out / (MODEL / 2) < 3.01
assert [row.times for row in recording("deepspeed_0").step_calls] == [1]
whole = [
    row for row in recording("deepspeed_3").step_calls if row.collective == "all_gather"
]
assert max(row.bytes for row in whole) == max(sizes)

# %% [markdown]
# Fabric, Lightning, Accelerate and Ray send what plain DDP sends, since it *is* torch's DDP. (The Trainer broadcasts
# eight more bytes: whether the job is to end.) So do we.
#
# DeepSpeed's numbers are not those of lesson 11. The reasons are settings of its own:
#
# - **Stages 1 and 2** send 3 units instead of 2. By default DeepSpeed 0.19 sums up a bucket with an *all-reduce*, and
#   each rank takes its shard out of it. Then come the new weights, with an all-gather: $2 + 1$. (With
#   `"use_multi_rank_bucket_allreduce": False` stage 1 sends each shard to its owner alone. We have tried it.)
# - **Stage 3** sends 2 instead of 3. It gathers the large matrix once, and not once more for the backward pass. By
#   default it keeps a gathered tensor if it is needed again within the next billion parameters of the pass. In a
#   small model that is always so between forward and backward; after the backward pass it is freed. That is our stage
#   3 with `reshard_after_forward=False`. (With `"stage3_max_live_parameters"` and `"stage3_max_reuse_distance"` at 0
#   it gathers twice. We have tried that, too.) Tensors of at most 100,000 numbers stay whole on each rank, and are
#   gathered after each step.
# - And what is asked for is not always what is done. torch 2.13 carries out a reduce-scatter as an all-reduce on
#   gloo. So here stage 3 costs 3 units as well. NCCL has a reduce-scatter.
#
# So a formula says what an algorithm *must* send. What a framework does send depends on its settings, and on the
# network's library. Count it.
#
# ## What is kept
#
# All parameters here are float32, and the optimizer is SGD with momentum: 4 bytes for the parameter, 4 for its
# gradient, 4 for its momentum. On two ranks, stage 3 should keep half of these 12 bytes.

# %%
guess_8 = predict(
    "On each of the two ranks: how many bytes per parameter do the shards of DeepSpeed's "
    "stage 3 take, just before the optimizer's step, without buffers?",
    unit="bytes",
)

# %%
KEPT = ("ddp", "deepspeed_1", "deepspeed_2", "deepspeed_3")
for name in KEPT:
    kept = {
        kind: size / (MODEL / 4) for kind, size in reports[name].state_bytes.items()
    }
    parts = " + ".join(f"{size:.1f} {kind}" for kind, size in kept.items() if size)
    print(f"{name:12} {sum(kept.values()):4.1f} bytes per parameter: {parts}")
print(guess_8.compare(round(sum(kept.values()), 1)))
memory_parts(
    {PROGRAMS[name].title: [reports[name].state_bytes] for name in KEPT},
    title="What rank 0 keeps, just before a step of the optimizer",
    subtitle="float32, SGD with momentum, two ranks; without buffers",
)

# %% tags=["folded"]
# Checks of the numbers above and below
per_parameter = {
    name: sum(recording(name).state_bytes.values()) / (MODEL / 4) for name in KEPT
}
assert [round(value, 1) for value in per_parameter.values()] == [12, 10, 10, 8]
assert recording("deepspeed_3").state_bytes["copies"] == MODEL / 2
small = [size for size in sizes if size / 4 <= 100_000]
assert len(small) == 7 and round(sum(small) / (MODEL / 4), 1) == 0.2

# %% [markdown]
# Eight, not six. DeepSpeed is made for mixed precision, where the optimizer needs a float32 copy of each parameter.
# With parameters in float32 it has that copy all the same: two bytes more per parameter here, on each of two ranks.
# (These are shards. The seven small tensors, which each rank holds whole as well, add 0.2.)
#
# No buffers are counted here. DDP's buckets are as large as all gradients, unless `gradient_as_bucket_view=True` puts
# the gradients into them. DeepSpeed reserves a bucket of `reduce_bucket_size` numbers, by default 500 million: 2 GB in
# float32, whatever the size of the model. Set it for a small one.
#
# Stages 1 and 2 look alike, for we look just before the parameters change. By then DeepSpeed's stage 1 has freed all
# gradients but its shard: 10 bytes, where the formula and the copy make 12. The difference is what is alive *during*
# the backward pass: lesson 11 draws it.
#
# ## What it costs to begin

# %%
guess_9 = predict(
    "Which of these takes longest from the command to the end of its first step?",
    choices=["plain torch", "Lightning Fabric", "DeepSpeed, ZeRO 3", "Ray Train"],
)

# %%
COSTS = ("ddp", "fabric", "lightning", "accelerate", "deepspeed_3", "ray")
same_hour = [reports[name] for name in COSTS]
if any(each.recorded for each in same_hour):  # do not compare two machines
    same_hour = [recording(name) for name in COSTS]
costs = {
    PROGRAMS[each.name].title: {
        "seconds to the first step": each.seconds_to_first_step,
        "MB on disk": each.megabytes,
        "processes": each.processes,
    }
    for each in same_hour
}
asked = ("plain torch", "Lightning Fabric", "DeepSpeed, ZeRO 3", "Ray Train")
slowest = max(asked, key=lambda title: costs[title]["seconds to the first step"])
print(guess_9.compare(slowest))
first = {title: row["seconds to the first step"] for title, row in costs.items()}
print(
    f"Ray took {first['Ray Train'] / first['plain torch']:.1f} times as long as plain torch"
)
compare_costs(
    costs,
    title="What it costs to begin",
    subtitle="two processes; MB: with what it installs besides torch; "
    "DeepSpeed's extension is compiled already",
)

# %% tags=["folded"]
# Checks of the text below
begun = {name: recording(name).seconds_to_first_step for name in COSTS}
assert begun["ray"] > 2 * begun["ddp"]
assert abs(begun["fabric"] - begun["lightning"]) < 0.1 * begun["fabric"]
assert all(recording(name).load > 1 for name in COSTS)

# %% [markdown]
# Seconds depend on the machine, and on what else it does. Each program ran once, and the recordings are of a busy
# machine: read only what is far apart. Ray's start is far from plain torch's. Fabric and the Trainer can't be told
# apart.
#
# What does not depend on the machine: Ray brings a small cluster along, with a scheduler and a store for objects. For
# one training run on one machine that is a lot. For a hundred runs on twenty machines it is what you would have to
# write yourself.
#
# ## Traps
#
# These are recorded. `print(run_trap(name))` runs one anew, if the framework is there. `print(TRAPS[name].program)`
# shows its program.
#
# ### Which images?
#
# The loader has no sampler and `shuffle=False`. The Trainer gets it, with two devices.

# %%
guess_10 = predict(
    "Which images does rank 0 see first?",
    choices=["0, 1, 2, 3", "0, 2, 4, 6", "shuffled ones"],
)

# %%
sampler = recorded_trap("lightning_sampler")
print(sampler)
shuffled = "first samples [0," not in str(sampler)
print(guess_10.compare("shuffled ones" if shuffled else "0, 2, 4, 6"))

# %% tags=["folded"]
# Checks of the text above and below
assert "DataLoader(training_set(), BATCH)" in TRAPS["lightning_sampler"].program
assert "RANKS, trainer.global_rank, shuffle=False" in PROGRAMS["lightning"].source
assert shuffled and f"{recording('ddp').loss:.6f}" not in str(sampler)

# %% [markdown]
# For training, the Trainer puts a `DistributedSampler` of its own in your loader, and that one shuffles, whether the
# loader did or not. (Fabric's shuffles only if the loader did.) Here the result is even a little better than plain
# DDP's, by chance, so nobody would complain. But two runs that you wanted to compare have had different images.
#
# The Trainer leaves alone a loader that already has torch's `DistributedSampler`. So the simplest cure is to hand it
# one with `shuffle=False`, as our program for the Trainer does. `use_distributed_sampler=False` leaves every loader
# alone. Then you must deal out the images yourself, or both ranks see all of them.
#
# ### Who divides?
#
# Two small batches make one step (lesson 06). The gradients add up. For the mean, somebody must divide the loss by
# two.

# %%
guess_11 = predict(
    "Accelerator(gradient_accumulation_steps=2), and you divide the loss by two "
    "yourself. The gradient is …",
    choices=["right", "half of what it should be", "twice what it should be"],
)

# %%
rows = []
for name in ("ddp", "fabric", "lightning", "accelerate", "deepspeed"):
    shown = recorded_trap(f"accumulation_{name}")
    times = re.search(r"([\d.]+) × the gradient", str(shown))[1]
    rows.append([name, times, TRAPS[f"accumulation_{name}"].why])
divides = dict(row[:2] for row in rows)["accelerate"] == "1.00"
print(guess_11.compare("half of what it should be" if divides else "right"))
SideBySide(["program", "undivided, it is", "so"], rows)

# %% tags=["folded"]
# Checks of the text above and below
assert [row[1] for row in rows] == ["2.00", "2.00", "1.00", "1.00", "1.00"]

# %% [markdown]
# If you move a loop from Fabric to Accelerate and leave your own division in, you train with half the gradient. For
# plain SGD that is half of the learning rate. Adam, without clipping or L2 decay, divides the factor out again, but for
# its `eps`, which is small against most gradients. So hardly anything shows.
#
# ### What a configuration leaves out
#
# This configuration of DeepSpeed gives the size of a batch, and nothing else.

# %%
guess_12 = predict(
    "Is the gradient's norm cut down to some limit?",
    choices=["no", "yes, to 1.0", "yes, to 5.0"],
)

# %%
clips = recorded_trap("deepspeed_clips")
print(clips)
limit = next(line for line in clips.lines if "gradient_clipping" in line).split()[1]
print(guess_12.compare("yes, to 1.0" if limit == "1.0" else "no"))

# %% tags=["folded"]
# Checks of the text above and below
assert limit == "1.0" and f"{recording('ddp').loss:.6f}" not in str(clips)
assert '"gradient_clipping": 0.0' in PROGRAMS["deepspeed_1"].source

# %% [markdown]
# To 1.0, unless you say otherwise (in 0.19.8). Here the loss even gets lower. But it is not plain DDP's training any
# more. The programs above have `"gradient_clipping": 0.0`.
#
# ### A new order in each epoch
#
# Lesson 05 said: do not forget `set_epoch`. Do the frameworks remember it?

# %%
rows = []
for name in ("ddp", "fabric", "lightning", "accelerate", "ray"):
    shown = recorded_trap(f"epochs_{name}")
    order = [
        re.search(rf"rank 1, epoch {epoch}: (\[.*?\])", str(shown))[1]
        for epoch in (0, 1)
    ]
    same = "the same order again" if order[0] == order[1] else "a new order"
    rows.append([name, *order, same])
SideBySide(["program", "rank 1, epoch 0", "rank 1, epoch 1", ""], rows)

# %% tags=["folded"]
# Checks of the text below
assert [row[0] for row in rows if row[1] == row[2]] == ["ddp", "ray"]

# %% [markdown]
# Fabric, the Trainer and Accelerate see to it. With plain torch and with Ray it is still your line to write. With
# DeepSpeed, too: its source never calls `set_epoch`. Without it no error appears.
#
# ### Whose checkpoint loads where
#
# Each program has saved the model in its framework's way. Does `load_state_dict` of the plain model take it?

# %%
rows = []
for name in ("ddp", "fabric", "lightning", "accelerate", "deepspeed"):
    text = str(recorded_trap(f"checkpoint_{name}"))
    so = TRAPS[f"checkpoint_{name}"].why
    for file, said in re.findall(r"plain torch, (.*?): (.*)", text):
        trouble = re.search("missing key|size mismatch", said, re.IGNORECASE)
        rows.append([name, file, f"no: {trouble[0].lower()}" if trouble else said, so])
        so = ""
SideBySide(["saved by", "file, or how it is read", "does it load?", "so"], rows)

# %% tags=["folded"]
# Checks of the text below
does = {(name, file): loads for name, file, loads, _ in rows}
assert "module.look" in str(recorded_trap("checkpoint_ddp"))
assert "model.look" in str(recorded_trap("checkpoint_lightning"))
assert does["ddp", "of_ddp.pt"] == does["lightning", "state.ckpt"] == "no: missing key"
assert (
    does["deepspeed", "after zero_to_fp32"] == does["fabric", "state.ckpt"] == "loads"
)

# %% [markdown]
# Plain DDP puts `module.` in front of each name, and the Trainer the name of your attribute, here `model.`. So save the
# model, not its wrapper: `ddp.module`, `accelerator.unwrap_model(model)`, `lit.model`. Accelerate's file is not one of
# torch's: it is made by the package safetensors. torch 2.13's `torch.load` hands a `.safetensors` file to that package,
# if it is installed.
#
# In stage 3 DeepSpeed's ranks save their shards. Afterwards the script `zero_to_fp32.py`, which it puts next to them,
# makes one file of them; before, `save_16bit_model` can, if the configuration allows it.
#
# **Try it.** There are more: a strategy that Fabric refuses on your machine; a result without numbers; a program that
# wants a compiler. Look at one, say what is behind it, and compare with `TRAPS[name].why`.

# %%
print(*TRAPS, sep=", ")
print(recorded_trap("fabric_fsdp"))  # or another

# %% tags=["folded"]
# One way to do it
# Each of these has cost somebody a day
for name in ("fabric_fsdp", "ray_metrics", "deepspeed_compiler"):
    print(f"{recorded_trap(name)}\n→ {TRAPS[name].why}\n")
assert (
    recorded_trap("fabric_fsdp").status and recorded_trap("deepspeed_compiler").status
)

# %% [markdown]
# ## The map
#
# Which framework has which lesson's algorithm, and under which name? A dash means that it has nothing of its own.
# Where you write the loop yourself, you may use torch's there, or your own. Two names in it need a word: Megatron-LM
# is NVIDIA's program for the training of large language models, and Ulysses is DeepSpeed's way to cut a sequence, by
# all-to-all (lesson 12b).

# %%
guess_13 = predict(
    "Which of these trains a pipeline of stages, by itself?",
    choices=["Lightning", "Accelerate", "DeepSpeed", "Ray Train"],
)

# %%
algorithm_map(["samples", "buckets", "compress", "accumulate", "local", "server"])

# %%
print(guess_13.compare("DeepSpeed"))
algorithm_map(["pipeline", "tensor", "zero1", "zero3", "hybrid", "mesh"])

# %%
algorithm_map(["sequence", "experts", "checkpoint", "start", "failure"])

# %% tags=["folded"]
# Checks of the map
pipeline = ALGORITHMS["pipeline"].entries
assert pipeline["lightning"].name == pipeline["ray"].name == NOTHING
assert "inference" in pipeline["accelerate"].name

# %% [markdown]
# The rows of lessons 05 and 11 you know. The others name the lesson that explains them. Three things stand out.
#
# - The data-parallel parts are torch's DDP and FSDP, or DeepSpeed's.
# - Tensors, stages, sequences, experts: only DeepSpeed and torchtitan have all four without another framework.
#   Accelerate hands stages and experts to Megatron-LM. torch has parts for the first three.
# - Two algorithms have no heir. A parameter server, a process that keeps the weights for all (lesson 07b), is built by
#   hand. Gossip, where ranks average with a few neighbors (lesson 08), has no row: it is in none of them.
#
# Names change from version to version. So each entry says where it was read:

# %%
sources("accumulate")

# %% [markdown]
# **Try it.** Take an entry of torch's, and open the file: it is below the folder that the cell prints. Find what lesson
# 05 or 11 calls it.

# %%
from pathlib import Path

print(Path(torch.__file__).parent)

# %% tags=["folded"]
# One way to do it
# The first bucket's limit in torch's DDP, and that there is only one bucket in the first step
file = Path(torch.__file__).parent / "nn/parallel/distributed.py"
for number, line in enumerate(file.read_text().splitlines(), 1):
    if "bucket_size_limits = [" in line:
        print(f"{number:5} │ {line.strip()}")
assert "bucket_cap_mb" in file.read_text()

# %% [markdown]
# ### torchtitan, read
#
# torchtitan is not a library that you call. It is a program for the training of large language models, by the people
# who make torch, from torch's own parts, and made for GPUs. So we read it. The rows of lessons 05 and 11 you know. The
# others name the lesson that explains them.

# %%
torchtitan_places()

# %% [markdown]
# (**Horovod** (2017, paper 2018) brought all-reduce, over a ring, to TensorFlow with a few changed lines. What it
# offered is in torch's DDP now; which algorithm sums is up to the library below.)
#
# ## Which one?
#
# *Offloading*, in the table, means that shards wait outside of the GPU: in the host's memory or on a disk.

# %%
by_use()

# %% [markdown]
# The last column is what people forget. What costs most to take back is not the changed lines, which you have counted.
# It is checkpoints of another shape, a launcher that all scripts rely on, and defaults that have become part of your
# results: shuffling, clipping, dividing.
#
# ## In real frameworks
#
# All of this lesson is real. What the programs stand on is a process group of torch's, in all but ours; and above it
# torch's DDP, in all but ours and DeepSpeed's. A last check: the same training on our ranks, with torch's DDP, and no
# framework.


# %%
def train(comm: Communicator) -> float:
    """The loss on the test images, of torch's DDP on ranks of a World."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = WideClassifier()
    optimizer = sgd(model)
    samples = training_set()
    loader = DataLoader(
        samples, 12, sampler=DistributedSampler(comm, samples, shuffle=False)
    )
    with torch_distributed(comm, "gloo"):
        ddp = nn.parallel.DistributedDataParallel(model)
        for batch in loader:
            optimizer.zero_grad()
            loss_of(ddp, batch).backward()
            optimizer.step()
    _, (images, labels) = digits()
    with torch.no_grad():
        return cross_entropy(model((images - 0.3) * 3), labels).item()


with World(2) as world:
    losses = world.run(train)
print(f"on our ranks {losses[0]:.6f}, by torchrun {reports['ddp'].loss:.6f}")
assert losses[0] == losses[1] and abs(losses[0] - reports["ddp"].loss) < 1e-5

# %% [markdown]
# ## In short
#
# - A framework takes over some of four jobs: start processes, deal out samples, wrap the model, move tensors.
# - The loss need not say how many processes train: print the world size inside the program.
# - Look up three defaults before you trust a result: who shuffles, who clips, who divides.
# - A setting can exchange one algorithm for another: count what is sent.
# - The price of leaving a framework is checkpoints and defaults more than lines of code.
#
# For the versions that the map names, and two processes on gloo:
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - A framework takes over some of four jobs: start the processes, deal out the samples, wrap the model, move tensors
#   to devices. Which ones, the tables say. With data parallelism as asked for here, Fabric, Lightning, Accelerate and
#   Ray Train wrap the model in torch's DDP; DeepSpeed has a reduction of its own.
# - They give one result, up to rounding, if all get the same start, the same images in each step in equal parts, the
#   same optimizer, the same clipping or none, the same division of accumulated losses, the same precision, and no layer
#   that draws numbers or looks at several images at once. How far rounding leads is chance where a model has kinks:
#   in 60 steps of ours it was less than 1e-6 with most starts, and with about one in ten at least a hundred times as
#   much.
# - The loss need not say how many processes train. Print the world size inside the program.
# - What is sent depends on the algorithm, on settings that exchange one algorithm for another, and on the network's
#   library. By default DeepSpeed's stages 1 and 2 asked for 3 units (an all-reduce and an all-gather), and stage 3
#   for 2, since our model was gathered once; gloo carried that out with 3.
# - What is kept just before an update (without buffers and activations; in shards) is the formula of lesson 11, and
#   what a framework keeps besides: DeepSpeed, in stages 1 to 3, its part of a copy of the parameters, also where they
#   are float32 already. (By that moment its stage 1 has let go of the gradients that are not its own.)
# - Look up three defaults before you trust a result: who shuffles, who clips, who divides.
# - The price of leaving is checkpoints and defaults more than lines.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/15_frameworks/15_frameworks.ipynb) you move a loop to Fabric and to Accelerate, so that
# it trains as it did, and count each sample once when you evaluate.
#
# ## Further reading
#
# - Lightning, [gradient accumulation with
#   Fabric](https://lightning.ai/docs/fabric/stable/advanced/gradient_accumulation.html): the loop stays yours, and so
#   does the division.
# - Accelerate, [gradient accumulation](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation).
# - Hugging Face, [DeepSpeed ZeRO](https://huggingface.co/docs/transformers/deepspeed): the stages as a configuration.
# - Ray, [the API of Ray Train](https://docs.ray.io/en/latest/train/api/api.html).
# - [torchtitan](https://github.com/pytorch/torchtitan), and W. Liang et al., [TorchTitan: One-stop PyTorch native
#   solution for production ready LLM pre-training](https://arxiv.org/abs/2410.06511), ICLR 2025.
# - A. Sergeev and M. Del Balso, [Horovod: fast and easy distributed deep learning in
#   TensorFlow](https://arxiv.org/abs/1802.05799), 2018.
