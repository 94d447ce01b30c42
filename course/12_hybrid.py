# %% [markdown]
# # Hybrid: three cuts at once
#
# Two engineers rent 64 GPUs, eight to a node, and start the same run: eight replicas of a model, with every layer cut
# over eight GPUs. One of them describes the ranks as `{"dp": 8, "tp": 8}`, the other as `{"tp": 8, "dp": 8}`. Both runs
# compute the same and send equally many bytes, but one of them takes much longer. Which one, and why?
#
# > After this lesson you will be able to
# >
# > - say which ranks form which group of a mesh,
# > - say what each axis sends, and which axis belongs inside a node,
# > - clip gradients that are spread over a mesh,
# > - choose a layout for a model and a cluster, and defend your choice.
# >
# > **Time:** about 55 minutes. **You need:** [Pipeline](09_pipeline.ipynb),
# > [Tensor parallelism](10_tensor_parallel.ipynb) and [ZeRO and FSDP](11_zero.ipynb). No GPU.

# %% tags=["folded"]
# The imports, and a picture of the two runs
import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    World,
    all_reduce,
    torch_distributed,
)
from distlib.draw import (
    compare_costs,
    mesh_cube,
    mesh_on_nodes,
    predict,
    step_timeline,
    sweep,
)
from distlib.training import (
    HybridTrainer,
    Mesh,
    SmallTransformer,
    Span,
    StepTimes,
    mesh as meshes,
    one_forward_one_backward,
    plain_layers,
    plain_state,
    stages_of,
    vocabulary_parallel_cross_entropy,
)

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64
TP_INSIDE, TP_ACROSS = {"dp": 8, "tp": 8}, {"tp": 8, "dp": 8}
mesh_on_nodes(
    {str(sizes).replace("'", '"'): sizes for sizes in (TP_INSIDE, TP_ACROSS)},
    ranks_per_node=8,
    title="The same axes, in two orders",
)

# %% [markdown]
# Each dot is a GPU. An orange line joins the eight GPUs that share the layers of one replica, a TP group. A blue line
# joins eight GPUs that average their gradients, a DP group. In the left run the TP groups are inside the nodes, in the
# right run the DP groups are.
#
# ## Three cuts multiply
#
# You know three ways to spread a training run over several GPUs, and each of them has a limit:
#
# | axis | what it cuts | its limit |
# |---|---|---|
# | data parallel, DP | the batch | a batch cannot grow forever ([06](06_large_batches.ipynb)) |
# | pipeline, PP | the list of layers | more stages make a larger bubble ([09](09_pipeline.ipynb)) |
# | tensor parallel, TP | every layer | a large group waits for slow links ([10](10_tensor_parallel.ipynb)) |
#
# Because the three cut different things, you can use all of them at once. Then their sizes multiply: DP 2 × PP 2 × TP 2
# needs eight ranks. The ranks form a grid, the **mesh**, in which every rank has one coordinate per axis. Ranks are
# numbered row by row, as in a tensor, so ranks 0 and 1 are neighbors along the last axis, TP.

# %%
guess_1 = predict(
    "On the mesh DP 2 × PP 2 × TP 2, which rank is at DP 1, PP 1, TP 0?",
    choices=["3", "5", "6"],
)

# %%
CUBE = {"dp": 2, "pp": 2, "tp": 2}
print(guess_1.compare(str(meshes.rank_at({"dp": 1, "pp": 1, "tp": 0}, CUBE))))
mesh_cube(CUBE, title="Eight ranks on three axes")

# %% tags=["folded"]
# Checks of the numbers above and below
assert meshes.rank_at({"dp": 1, "pp": 1, "tp": 0}, CUBE) == 6
assert meshes.mesh_groups(CUBE, "tp") == [[0, 1], [2, 3], [4, 5], [6, 7]]
assert meshes.mesh_groups(CUBE, "pp") == [[0, 2], [1, 3], [4, 6], [5, 7]]
assert meshes.mesh_groups(CUBE, "dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]

# %% [markdown]
# A step along TP adds 1 to the rank, a step along PP adds 2, and a step along DP adds 4. Each rank is in one **group**
# per axis: the ranks that differ from it along this axis only. In this picture, a group is a line.
#
# **The groups of the last axis are consecutive ranks, and consecutive ranks usually share a node.**
#
# <details><summary>When they do not share a node</summary>
#
# | if … | then … |
# |---|---|
# | the launcher deals ranks out over the nodes one by one | consecutive ranks are on different nodes |
# | the last axis does not fit evenly into a node | some groups of this axis cross nodes |
#
# </details>
#
# **Try it.** Draw the mesh with the axes in the opposite order, TP first. Which rank is in the TP group of rank 0 now?

# %% tags=["folded"]
# One way to do it
turned = {"tp": 2, "pp": 2, "dp": 2}
assert meshes.mesh_groups(turned, "tp")[0] == [0, 4]  # its partner along DP before
mesh_cube(turned, title="The same axes in the opposite order")

# %% [markdown]
# ## One step on eight ranks
#
# Now we train a small transformer on the cube. You built the parts before, so each axis takes a line or two:


# %%
def make_trainer(comm: Communicator, sizes: dict[str, int]) -> HybridTrainer:
    """One rank's part of the training."""
    mesh = Mesh(comm, sizes)  # a communicator for each axis
    layers = MODEL.layers(mesh["tp"], dtype=DOUBLE)  # TP cuts every layer
    stages = stages_of(layers, sizes["pp"])  # PP cuts the list of layers
    schedule = one_forward_one_backward(sizes["pp"], 2)  # 2 microbatches
    loss = partial(vocabulary_parallel_cross_entropy, mesh["tp"])
    return HybridTrainer(mesh, stages, schedule, loss, AdamW, lr=0.01)  # DP averages


# %% [markdown]
# In one step, rank 0
#
# 1. runs its layers forward on each microbatch, with all-reduces along TP, and sends the result along PP,
# 2. receives the gradient along PP, and runs its layers backward, again with all-reduces along TP,
# 3. averages its gradients along DP after the last microbatch, and updates its weights.
#
# For comparison, a single process trains the same model on the same data.

# %% tags=["folded"]
# The model, its data, and the training in a single process
MODEL = SmallTransformer(vocabulary=16, features=16, hidden=64, heads=4, num_layers=4)
SAMPLES, SEQUENCE, STEPS = 8, 12, 10


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token numbers [samples, sequence], and those that follow."""
    torch.manual_seed(step)
    starts = torch.randint(MODEL.vocabulary, (SAMPLES, 1))
    tokens = (starts + torch.arange(SEQUENCE + 1)) * 5 % MODEL.vocabulary
    return tokens[:, :-1], tokens[:, 1:]


def train_alone(comm: Communicator) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses of ten steps, and the weights after them."""
    layers, losses = MODEL.layers(comm, dtype=DOUBLE), []
    optimizer = AdamW(layers.parameters(), lr=0.01)
    for step in range(STEPS):
        tokens, following = batch(step)
        optimizer.zero_grad()
        loss = vocabulary_parallel_cross_entropy(comm, layers(tokens), following)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, layers.state_dict()


def train_on_mesh(
    comm: Communicator, sizes: dict[str, int], whole: dict[str, torch.Tensor]
) -> tuple[list[float | None], float, int]:
    """Its losses, how far its parameters are off at the end, and how many it has."""
    trainer = make_trainer(comm, sizes)
    losses = [trainer.step(*batch(step)) for step in range(STEPS)]
    wanted = {}
    for stage in trainer.stages.values():
        wanted |= meshes.own_parts(stage, whole)
    found = trainer.state_dict()
    off = max(float((found[name] - wanted[name]).abs().max()) for name in wanted)
    return losses, off, sum(each.numel() for each in found.values())


# %%
losses, whole = SimulatedWorld(1).run(train_alone)[0]
with World(8) as real:
    by_rank = real.run(train_on_mesh, CUBE, whole)
furthest = max(off for _, off, _ in by_rank)
print(f"one process: {STEPS} steps of AdamW, loss {losses[0]:.2f} → {losses[-1]:.2f}")
print(f"eight ranks: the largest difference of a parameter is {furthest:.0e}")

# %% tags=["folded"]
# Checks of the numbers above and below
ends = [found for found, _, _ in by_rank if found[0] is not None]
means = [sum(each) / len(each) for each in zip(*ends, strict=True)]
assert max(abs(o - w) for o, w in zip(means, losses, strict=True)) < 1e-9
assert furthest < 1e-9 and losses[-1] < 0.6 * losses[0]
kept, numbers = sum(count for *_, count in by_rank), MODEL.numbers_cut
assert kept == 2 * (numbers + 2 * MODEL.numbers_copied)
assert 0.25 < kept / 8 / (numbers + MODEL.numbers_copied) < 0.27

# %% [markdown]
# **The mesh changes who computes what. It does not change the result.** Only rounding differs, and float64 keeps it
# small.
#
# <details><summary>Where this stops being true</summary>
#
# | with … | the result changes, because … |
# |---|---|
# | padding | microbatches hold unequally many tokens, so the mean of their means is not the mean over all tokens |
# | BatchNorm | each microbatch normalizes over its own samples |
# | dropout | each rank draws its own mask, so the masks differ from those of a single process |
#
# </details>
#
# Each rank keeps about a quarter of the parameters, because a replica is cut into two stages and each layer into two
# halves. It keeps slightly more, because LayerNorm and some biases are not cut: every rank of a TP group has a copy of
# them. These parameters are **replicated** along TP.
#
# ## Three cuts, three bills
#
# Each axis pays for something different:
#
# - **DP pays per parameter:** without ZeRO, one average of all gradients per step, however many tokens the batch has.
# - **TP pays per token and layer:** four all-reduces of the activations in every layer.
# - **PP pays per token and boundary:** each rank before a boundary sends the whole activation forward, and each rank
#   after it the gradient back.
#
# Take a model of 6.9 billion parameters, 32 layers of 4,096 features. It runs on 256 GPUs, DP 8 × PP 4 × TP 8, with
# 1,024 sequences of 2,048 tokens per step, and two bytes per number.

# %%
guess_2 = predict(
    "Along which axis does a GPU send the most bytes in a step? And which is last?",
    order=["DP", "PP", "TP"],
)

# %%
LARGE = SmallTransformer(
    vocabulary=51_200, features=4096, hidden=16_384, heads=32, num_layers=32
)
batch_of = {"samples": 1024, "sequence": 2048, "num_microbatches": 64, "itemsize": 2}
bill = meshes.step_traffic(LARGE, {"dp": 8, "pp": 4, "tp": 8}, **batch_of)
gigabytes = {name.upper(): each.nbytes / 256 / 1e9 for name, each in bill.items()}
gigabytes = dict(sorted(gigabytes.items(), key=lambda each: -each[1]))
print(guess_2.compare(list(gigabytes)))
compare_costs(
    {name: {"sent per GPU and step": sent} for name, sent in gigabytes.items()},
    title="What each axis sends",
    show="{:.1f} GB".format,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert 6.8e9 < LARGE.numbers_cut + LARGE.numbers_copied < 7.0e9
assert 1024 * 2048 > 2e6
assert list(gigabytes) == ["TP", "PP", "DP"]
assert (
    gigabytes["TP"] > 100 * gigabytes["DP"] and gigabytes["TP"] > 30 * gigabytes["PP"]
)
few = {**batch_of, "num_microbatches": 1}
for samples, wanted in ((128, False), (256, True)):
    wide = {"dp": 32, "pp": 4, "tp": 2}
    of_few = meshes.step_traffic(LARGE, wide, **{**few, "samples": samples})
    assert (of_few["tp"].nbytes > of_few["dp"].nbytes) == wanted

# %% [markdown]
# PP sends little, because the model has 32 layers but only three boundaries. DP sends little, because a GPU averages
# the gradients of its own 32nd of the model, once per step.
#
# **With many tokens per replica TP sends by far the most, because every token pays in every layer.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | TP is small, with few tokens per replica | DP sends more than TP: DP 32 × PP 4 × TP 2, 128 sequences per step |
# | ZeRO 3 is used with many microbatches | DP gathers the parameters again for every microbatch |
#
# </details>
#
# ## Which axis goes inside the node?
#
# Back to the two engineers. Each GPU of their cluster has two kinds of links:
#
# | link | GB/s per GPU | latency | for example |
# |---|---:|---:|---|
# | inside a node | 300 | 2 µs | **NVLink** |
# | between nodes | 25 | 10 µs | **InfiniBand** |
#
# We simulate a step of two layers, with 8,192 tokens per replica. A GPU computes by sleeping as long as the operations
# would take, and a tensor has a shape but no numbers. After each attention and each MLP, the ranks of a TP group add up
# their activations. At the end of the step, the DP groups average the gradients:


# %%
def play_step(
    comm: Communicator, sizes: dict[str, int], tokens: int, how: str = "ring"
) -> StepTimes:
    """When this rank computes and communicates in a step of two layers."""
    mesh, clock = Mesh(comm, sizes), Clock(comm)
    computing, activations, gradients = sizes_of(sizes, tokens)
    for direction, times in (("forward", 1), ("backward", 2)):
        for _ in range(2 * LAYERS):  # attention, then an MLP
            with clock.note(direction):
                comm.sleep(times * computing)
            with clock.note("communication", "TP"):
                all_reduce(mesh["tp"], activations)
    for _ in range(LAYERS):
        with clock.note("communication", "DP"):
            all_reduce(mesh["dp"], gradients, algorithm=how)
    return clock.times()


# %% tags=["folded"]
# The cluster, the sizes of the model, and a clock
LAYERS, FEATURES, FLOPS = 2, 4096, 4e14  # operations per second
TOKENS = 8 * 8192  # in a batch
INSIDE, BETWEEN = Link(2e-6, 300e9), Link(10e-6, 25e9)
NODES = Cluster(nodes=8, ranks_per_node=8, intra=INSIDE, inter=BETWEEN)


def sizes_of(
    sizes: dict[str, int], tokens: int
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Seconds of half a layer forward; a replica's activations; a rank's gradients."""
    tokens, parameters = tokens // sizes["dp"], 12 * FEATURES**2 // sizes["tp"]
    activations, gradients = (
        torch.empty(length, dtype=torch.bfloat16, device="meta")
        for length in (tokens * FEATURES, parameters)
    )
    return 2 * parameters * tokens / FLOPS / 2, activations, gradients


class Clock:
    """Notes what a rank does and when."""

    def __init__(self, comm: Communicator) -> None:
        self.comm, self.spans = comm, []

    @contextmanager
    def note(self, kind: str, name: str = "") -> Iterator[None]:
        start = self.comm.time()
        yield
        self.spans.append(Span(kind, name, start, self.comm.time()))

    def times(self) -> StepTimes:
        return StepTimes(self.spans[0].start, self.spans[-1].end, self.spans)


def milliseconds(step: StepTimes) -> dict[str, float]:
    """By what the rank does."""
    found = {"computing": step.computing, "TP": 0.0, "DP": 0.0}
    for span in step.of("communication"):
        found[span.name] += span.seconds
    return {name: 1e3 * each for name, each in (*found.items(), ("step", step.seconds))}


def show(name: str, step: StepTimes) -> None:
    """A line with the milliseconds of a step."""
    found = ", ".join(f"{k} {ms:.1f} ms" for k, ms in milliseconds(step).items())
    print(f"{name}: {found}")


# %%
world = SimulatedWorld(64, NODES)
inside = world.run(play_step, TP_INSIDE, TOKENS)[0]
show("TP inside the nodes", inside)
sent = meshes.traffic_by_axis(world.trace, TP_INSIDE)
print("GB that a GPU sends:", {k: round(v.nbytes / 64e9, 2) for k, v in sent.items()})

# %% [markdown]
# DP takes twice as long as TP. If the axes change places, DP gets the fast links.

# %%
guess_3 = predict(
    "With DP inside the nodes and TP across them, the step is …",
    choices=["shorter", "about as long", "longer"],
)

# %%
across = SimulatedWorld(64, NODES).run(play_step, TP_ACROSS, TOKENS)[0]
show("TP across the nodes", across)
factor = across.seconds / inside.seconds
print(
    guess_3.compare(
        ["shorter", "about as long", "longer"][(factor > 0.9) + (factor > 1.1)]
    )
)
step_timeline({"TP inside": inside, "TP across": across}, "The same step, two orders")

# %% tags=["folded"]
# Checks of the numbers above and below
in_ms, across_ms = milliseconds(inside), milliseconds(across)
assert 2.1 < in_ms["DP"] / in_ms["TP"] < 2.3 and 2.6 < factor < 2.8
assert across_ms["DP"] < in_ms["DP"] / 10 and across_ms["TP"] > 10 * in_ms["TP"]
assert 5 < sent["tp"].nbytes / sent["dp"].nbytes < 6


def across_over_inside(dp: int, tp: int, tokens: int) -> float:
    """How many times as long the order takes that has TP across."""
    world = SimulatedWorld(dp * tp, Cluster(dp * tp // 8, 8, INSIDE, BETWEEN))
    one, other = (
        world.run(play_step, sizes, tokens)[0].seconds
        for sizes in ({"dp": dp, "tp": tp}, {"tp": tp, "dp": dp})
    )
    return other / one


assert across_over_inside(8, 8, TOKENS // 8) < 0.9
assert across_over_inside(8, 8, TOKENS // 4) > 1.2

# %% [markdown]
# DP took longer only because its links were slower. TP sends five times as many bytes, so after the swap the larger
# amount travels over the slower links.
#
# TP is also harder to hide. Its all-reduces are on the **critical path**, because the next layer cannot start before
# the sum has arrived. Gradients can travel while the backward pass goes on, as in [lesson 05](05_ddp.ipynb), so that
# only a part of DP's time remains as exposed communication. Our simulated step hides nothing.
#
# **With many tokens per replica, TP belongs inside the node: it sends the most, and the next layer waits for it.**
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | an eighth of the tokens | DP sends more than TP, and the step is shorter with DP inside |
# | **collective matmul** | one piece of a matmul travels while the next is computed, which hides a part of TP |
#
# [Lesson 12c](12c_layouts.ipynb) plays more cases, such as nodes whose GPUs share one cable.
#
# </details>
#
# **Try it.** With faster links between the nodes, the two orders differ less. From how many GB/s on do their steps
# differ by less than 10 %?

# %% tags=["folded"]
# One way to do it
for bandwidth in (25e9, 100e9, 200e9, 265e9):
    cluster = Cluster(8, 8, intra=INSIDE, inter=Link(10e-6, bandwidth))
    one, other = (
        SimulatedWorld(64, cluster).run(play_step, sizes, TOKENS)[0].seconds
        for sizes in (TP_INSIDE, TP_ACROSS)
    )
    print(f"{bandwidth / 1e9:3.0f} GB/s: {other / one:.2f} times as long")
assert 1.09 < other / one < 1.1  # so about 265 GB/s, nearly as fast as inside

# %% [markdown]
# ## Count every gradient once
#
# Large models are usually trained with clipped gradients: if the norm of *all* gradients is above a limit, every
# gradient is scaled down. In lesson 11 each rank had a shard of the gradients, so it added up the squares of its shard,
# and an all-reduce added up the sums. Let us do the same on the cube:


# %%
def add_up_all_squares(
    comm: Communicator, sizes: dict[str, int]
) -> tuple[float, float]:
    """This norm, and the norm by which the trainer clips."""
    trainer = make_trainer(comm, sizes)
    trainer.step(*batch(0), max_norm=1e9)  # so large that nothing is clipped
    squares = torch.zeros(1, dtype=DOUBLE)
    for parameter in trainer.pipeline.parameters():
        squares += parameter.grad.square().sum()
    all_reduce(comm, squares)  # over all ranks of the mesh
    return float(squares.sqrt()), trainer.norm


# %%
guess_4 = predict(
    "How good is this norm, compared with the norm of a single process?",
    choices=[
        "it is right",
        "it is too large, by the same factor on every mesh",
        "it is too large, by a factor that depends on the mesh",
    ],
)

# %% tags=["folded"]
# The norm of a single process
threads = SimulatedWorld(8, contexts="threads")


def norm_alone(comm: Communicator) -> float:
    """Of all gradients of the first step."""
    layers = MODEL.layers(comm, dtype=DOUBLE)
    tokens, following = batch(0)
    vocabulary_parallel_cross_entropy(comm, layers(tokens), following).backward()
    return float(torch.nn.utils.get_total_norm([p.grad for p in layers.parameters()]))


def meshes_in_words(sizes: dict[str, int]) -> str:
    return " × ".join(f"{name.upper()} {size}" for name, size in sizes.items())


(right,) = SimulatedWorld(1).run(norm_alone)
print(f"the norm of a single process: {right:.3f}")

# %%
factors = set()
for sizes in (CUBE, {"dp": 1, "pp": 2, "tp": 4}, {"dp": 4, "pp": 1, "tp": 2}):
    everything, by_trainer = threads.run(add_up_all_squares, sizes)[0]
    factors.add(round(everything / right, 2))
    print(f"{meshes_in_words(sizes)}: all squares give {everything:.3f}, ", end="")
    print(
        f"{everything / right:.2f} times too large; the trainer says {by_trainer:.3f}"
    )
    assert abs(by_trainer - right) < 1e-9
depends = "it is too large, by a factor that depends on the mesh"
print(guess_4.compare(depends if len(factors) > 1 else "by the same factor"))

# %% tags=["folded"]
# Checks of the numbers above and below
of_cube = threads.run(add_up_all_squares, CUBE)[0][0] / right
assert 2**0.5 < of_cube < 2 and len(factors) == 3

# %% [markdown]
# Several ranks hold the same gradient, so its square is added several times. On the cube:
#
# | parameter | which ranks hold it | its square is added |
# |---|---|---:|
# | cut along TP | 2 ranks, one in each replica | 2 times |
# | replicated along TP | 4 ranks, two in each replica | 4 times |
#
# So on the cube the norm is too large by a factor between √2 and √4, which grows with the gradients of the replicated
# parameters. Other sizes of DP or TP give another factor, so adding replicas would silently change how strongly the
# same limit clips.
#
# **Count every gradient once:** divide each square by the number of ranks that hold the parameter.
#
# ## The same batch on more GPUs
#
# What happens if we keep the batch and add nodes? This is called **strong scaling**. We keep TP 8 inside each node and
# let DP grow. With eight times as many GPUs, a replica gets an eighth of the tokens, so computing takes an eighth of
# the time, and TP somewhat more because of latency. The gradient of a replica stays as large as it was.

# %%
SCALES = (8, 64, 256, 1024)


def scale(ranks: int, how: str = "ring") -> dict[str, float]:
    """Milliseconds of a step on this many GPUs."""
    cluster = Cluster(ranks // 8, 8, intra=INSIDE, inter=BETWEEN)
    sizes = {"dp": ranks // 8, "tp": 8}
    step = SimulatedWorld(ranks, cluster).run(play_step, sizes, TOKENS, how)[0]
    return milliseconds(step)


scaled = {ranks: scale(ranks) for ranks in SCALES}
for ranks, found in scaled.items():
    shrinks = found["computing"] + found["TP"]
    print(f"{ranks:5,} GPUs: computing and TP {shrinks:4.1f} ms, ", end="")
    print(f"DP {found['DP']:4.1f} ms, step {found['step']:4.1f} ms")

# %% [markdown]
# From 256 to 1,024 GPUs the step gets slower, because DP grows by more than computing and TP shrink.

# %%
guess_5 = predict(
    "From 256 to 1,024 GPUs, what makes the ring all-reduce of DP take longer?",
    choices=[
        "each replica sends many more bytes",
        "more messages follow one another",
        "the links between nodes get slower",
    ],
)

# %%
replicas = {ranks: ranks // 8 for ranks in SCALES}
times = {ranks: 2 * (n - 1) / n for ranks, n in replicas.items()}  # its gradient
in_a_row = {ranks: 2 * (n - 1) for ranks, n in replicas.items()}
for ranks in (256, 1024):
    print(
        f"{replicas[ranks]} replicas: each sends {times[ranks]:.2f} times its gradient, ",
        end="",
    )
    print(f"in {in_a_row[ranks]} messages, one after another")
more_bytes = times[1024] / times[256] > 1.1
print(
    guess_5.compare(
        ("more messages follow one another", "each replica sends many more bytes")[
            more_bytes
        ]
    )
)
sweep(
    {
        name: {ranks: found[name] for ranks, found in scaled.items() if found[name]}
        for name in ("DP", "TP", "computing", "step")
    },
    along="GPUs",
    title="The same batch on more GPUs",
    subtitle="milliseconds of a step, and what a GPU does in them",
)

# %% tags=["folded"]
# Checks of the numbers above and below
steps = {ranks: found["step"] for ranks, found in scaled.items()}
assert steps[8] > steps[64] > steps[256] < steps[1024]
DP = {ranks: found["DP"] for ranks, found in scaled.items()}
assert 3.5 < DP[1024] - DP[256] < 4.5  # ms
assert times[1024] / times[256] < 1.03 and times[1024] < 2
assert (in_a_row[256], in_a_row[1024]) == (62, 254)
latency = (254 - 62) * BETWEEN.latency * 1e3 * LAYERS
assert abs(latency - (DP[1024] - DP[256])) < 0.4, latency

# %% [markdown]
# However many replicas there are, none sends more than twice its gradient. But the ring has more messages in a row.
# Each message adds the latency of a link, 10 µs, in both DP all-reduces of the step.
#
# **More replicas for the same batch: computing shrinks, gradients do not.**
#
# **Try it.** [Lesson 03](03_trees_and_grids.ipynb) has an all-reduce with fewer messages in a row. With `scale(1024,
# "halving_doubling")`, is a step on 1,024 GPUs still slower than on 256?

# %% tags=["folded"]
# One way to do it
halved = {ranks: scale(ranks, "halving_doubling")["step"] for ranks in (256, 1024)}
print({ranks: f"{step:.1f} ms" for ranks, step in halved.items()})
assert halved[1024] < halved[256]

# %% [markdown]
# ## Let the numbers choose
#
# So far the model was cut. Does it have to be? [ZeRO](11_zero.ipynb) makes a model fit, too, and every GPU still
# computes all layers: ZeRO 3 shards what the GPUs of a DP group keep, and sends the parameters of a layer while the
# layer before it computes.
#
# You know what every part of a layout costs, so a program can do the sums:
#
# | part | what it costs | lesson |
# |---|---|---|
# | computing | 6 operations per parameter and token | 11 |
# | TP | four all-reduces per layer and microbatch | 10 |
# | bubble | the time of PP − 1 more microbatches | 09 |
# | DP, with or without ZeRO | what computing does not hide | 05, 11 |
# | memory | 16 bytes per parameter, sharded or not, plus activations | 11 |
#
# `choose_strategy` lists the layouts, leaves out those that do not fit into memory, and sorts the others by time. We
# ask it about a model of 6.7 billion parameters on a node of eight 80 GB GPUs, with 64 sequences per step. At 16 bytes
# each, the parameters do not fit into one GPU.
#
# The next tables are in seconds. Their last column is **MFU**, model FLOPs utilization: the part of the GPUs' peak that
# the model uses, recomputing not counted. Here it is at most half, because a matmul reaches half of the peak.

# %% tags=["folded"]
# The best layout of some sizes, and a line for each
from distlib.training import StepPrediction, StrategyChoice


def best(choice: StrategyChoice, sizes: tuple[int, int, int]) -> StepPrediction:
    """The fastest of the layouts with these sizes: dp, pp, tp."""
    return next(
        each
        for each in choice.ranked
        if (each.layout.dp, each.layout.pp, each.layout.tp) == sizes
    )


def show_layouts(
    choice: StrategyChoice, layouts: dict[str, tuple[int, int, int]]
) -> dict[str, float]:
    """A line for each layout, in seconds. Returns the seconds of a step."""
    found = {name: best(choice, sizes) for name, sizes in layouts.items()}
    peak = (
        choice.best.seconds * choice.utilization
    )  # as long as it would take at the peak
    print(f"{'':19}  computing  exposed TP  bubble, PP  exposed DP   step   MFU")
    for name, each in found.items():
        parts = each.parts
        computing = parts["compute"] + parts["recompute"]
        row = (computing, parts["tp"], parts["bubble"] + parts["pp"], parts["dp"])
        numbers = "".join(f"{abs(seconds):12.2f}" for seconds in row)
        print(f"{name:18}{numbers} {each.seconds:6.2f} {peak / each.seconds:5.0%}")
    return {name: each.seconds for name, each in found.items()}


# %%
guess_6 = predict(
    "Which of these layouts takes the shortest step on one node?",
    choices=["DP 8 with ZeRO", "PP 8", "TP 8"],
)

# %%
from distlib.training import Device, TransformerShape, choose_strategy

MODEL_7B = TransformerShape(
    layers=32, features=4096, hidden=16_384, heads=32, vocabulary=51_200, sequence=2048
)
GPU = Device(peak=312e12, memory=80e9, reached=0.5)  # matmuls reach half the peak
one_node = choose_strategy(MODEL_7B, GPU, Cluster(1, 8, intra=INSIDE), 64)
layouts = {"DP 8 with ZeRO": (8, 1, 1), "PP 8": (1, 8, 1), "TP 8": (1, 1, 8)}
steps = show_layouts(one_node, layouts)
print(guess_6.compare(min(steps, key=steps.get)))

# %% [markdown]
# All three solve the memory problem. Almost all of ZeRO's messages hide behind computing. TP's all-reduces are exposed.
# PP has a bubble, and its last stage is the slowest, because of the output layer: the table shows how long this
# stage computes.
#
# The same model on eight such nodes, with 512 sequences, and with 25 or 1.25 GB/s between the nodes:

# %%
layouts = {"DP 64 with ZeRO": (64, 1, 1), "DP 8 × TP 8": (8, 1, 8)}
layouts["DP 2 × PP 8 × TP 4"] = (2, 8, 4)
eight_nodes = {}
for speed, between in (("25", BETWEEN), ("1.25", Link(30e-6, 1.25e9))):
    cluster = Cluster(8, 8, intra=INSIDE, inter=between)
    eight_nodes[speed] = choose_strategy(MODEL_7B, GPU, cluster, 512)
    print(f"{speed} GB/s between the nodes")
    show_layouts(eight_nodes[speed], layouts)

# %% tags=["folded"]
# Checks of the numbers above and below
assert 6.6e9 < MODEL_7B.parameters < 6.8e9 and 16 * MODEL_7B.parameters > GPU.memory
chosen = {"8": one_node, **eight_nodes}
found = [(each.dp, each.pp, each.tp) for each in (c.layout for c in chosen.values())]
assert found == [(8, 1, 1), (64, 1, 1), (2, 8, 4)], found
assert one_node.layout.stage == eight_nodes["25"].layout.stage == 3
assert eight_nodes["1.25"].layout.axes[-1] == "tp"
assert [round(100 * each.utilization) for each in chosen.values()] == [50, 47, 35]
waits = {
    name: best(eight_nodes["1.25"], sizes).parts["dp"]
    for name, sizes in layouts.items()
}
alone = best(eight_nodes["1.25"], (64, 1, 1)).layout
assert (alone.stage, alone.microbatches, alone.recompute) == (1, 1, "full")
assert 16 < waits["DP 64 with ZeRO"] < 17 and waits["DP 2 × PP 8 × TP 4"] < 0.5
cut = best(one_node, (4, 1, 2))
assert cut == next(each for each in one_node.ranked if each.layout.dp < 8)
assert 1.02 < cut.seconds / one_node.best.seconds < 1.04
few = choose_strategy(MODEL_7B, GPU, Cluster(8, 8, INSIDE, BETWEEN), 64)
assert (few.layout.dp, few.layout.pp, few.layout.tp) == (8, 1, 8)

# %% [markdown]
# With 25 GB/s most of ZeRO's messages still hide. With 1.25 GB/s they do not: each GPU sends gradients of the whole
# model over slow links. DP 64 even recomputes activations, so that all sequences of a GPU fit into one microbatch,
# whose long backward pass hides more messages. In the third layout a GPU holds about a 32nd of the model, so it sends
# few gradients. Cutting the model makes DP cheaper, too.
#
# **Start with DP and ZeRO. Cut the model when it does not fit, when messages do not hide, or when the batch is too
# small.**
#
# With one sequence per GPU there is too little computing to hide messages behind. Then the fastest layout at 25 GB/s is
# DP 8 × TP 8, the run of the first engineer.
#
# These are formulas. On one node the best layout with TP 2 is only 3 % slower than ZeRO, so simulate or
# measure both before you decide. [Lesson 12c](12c_layouts.ipynb) compares the formulas with a simulator and with
# published runs.
#
# ## A game: lay out the cluster
#
# `play_cluster(2)` opens the second of five levels, each with a model, a cluster and a memory limit. You choose the
# layout, and the simulator plays your step. The time of `choose_strategy`'s layout is called **par**, and reaching par
# gives 10 points. Your best layouts are kept in `work/my_games.json`, and only there.

# %%
from distlib.games import lay_out, play_cluster

play_cluster(2)

# %% tags=["folded"]
# The same game in code
from distlib.games import cluster_game

attempts = [
    lay_out(1, tp=4),
    lay_out(2, tp=8),
    lay_out(3, dp=4, stage=3, recompute="full"),
    lay_out(4, tp=8, recompute="full"),
    lay_out(5, dp=2, tp=2),
]
print(cluster_game.score_card(attempts))

# %% [markdown]
# ## In real frameworks
#
# PyTorch has all three axes. Each rank builds its stage like this: PP picks the layers of the stage, TP cuts the
# transformer layers, and then `fully_shard` shards the rank's pieces over DP.

# %% tags=["folded"]
# The imports, which layer is cut how, and the loss
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

PLAN = dict.fromkeys(("queries", "keys", "values", "up"), ColwiseParallel())
PLAN |= dict.fromkeys(("output", "down"), RowwiseParallel())


def loss_of(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return cross_entropy(scores.flatten(0, 1), following.flatten())


def quiet() -> None:
    """torch warns of what is meant to be so here: whole tensors are gathered."""
    warnings.simplefilter("ignore")
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)


def furthest_from(stage: nn.Module, wanted: dict[str, torch.Tensor]) -> float:
    """How far the parameters of a stage are off."""
    found = {name: each.full_tensor() for name, each in stage.named_parameters()}
    return max(float((found[name] - wanted[name]).abs().max()) for name in found)


# %%
def stage_on(mesh: DeviceMesh, layers: nn.Sequential) -> nn.Sequential:
    """This rank's stage, cut three ways."""
    pp = mesh.get_local_rank("pp")
    stage = copy.deepcopy(layers[3:] if pp else layers[:3])
    for name, layer in stage.named_children():
        if name.startswith("layer"):
            parallelize_module(layer, mesh["tp"], PLAN)  # TP first
        fully_shard(layer, mesh=mesh["dp"], reshard_after_forward=False)  # then DP
    return fully_shard(stage, mesh=mesh["dp"], reshard_after_forward=False)


# %% tags=["folded"]
# The rest of the program: the pipeline, ten steps, and an attempt to clip
def train_by_torch(
    comm: Communicator, layers: nn.Sequential, wanted: dict[str, torch.Tensor]
) -> tuple[float, str]:
    """How far its parameters are off at the end, and what clipping then says."""
    quiet()
    with torch_distributed(comm):
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "pp", "tp"))
        dp, pp = mesh.get_local_rank("dp"), mesh.get_local_rank("pp")
        stage, group = stage_on(mesh, layers), mesh.get_group("pp")
        place = PipelineStage(stage, pp, 2, torch.device("cpu"), group=group)
        schedule = Schedule1F1B(place, n_microbatches=2, loss_fn=loss_of)
        optimizer = AdamW(stage.parameters(), lr=0.01)
        for step in range(STEPS):
            tokens, following = (part.tensor_split(2)[dp] for part in batch(step))
            optimizer.zero_grad()
            if pp == 0:
                schedule.step(tokens)
            else:
                schedule.step(target=following)
            optimizer.step()
        return furthest_from(stage, wanted), try_to_clip(stage)


def try_to_clip(stage: nn.Module) -> str:
    try:
        nn.utils.clip_grad_norm_(stage.parameters(), 1.0)
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).partition(', but')[0]}"
    return "clipped"


# %% [markdown]
# The folded cell puts the stage into PyTorch's own pipeline, trains it for ten steps on our ranks, and then calls
# `clip_grad_norm_`.

# %%
(start,) = SimulatedWorld(1).run(
    lambda comm: MODEL.layers(comm, dtype=DOUBLE).state_dict()
)
by_torch = threads.run(train_by_torch, plain_layers(MODEL, start), plain_state(whole))
print(f"no parameter is off by more than {max(off for off, _ in by_torch):.0e}")
print("clip_grad_norm_:", by_torch[0][1])

# %% tags=["folded"]
# Checks of what is said above and below
assert max(off for off, _ in by_torch) < 1e-9


def norm_without_tp(comm: Communicator, layers: nn.Sequential) -> float:
    """What torch clips by on DP 2 × PP 2."""
    quiet()
    with torch_distributed(comm):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
        dp, pp = mesh.get_local_rank("dp"), mesh.get_local_rank("pp")
        stage = copy.deepcopy(layers[3:] if pp else layers[:3])
        fully_shard(stage, mesh=mesh["dp"])
        group = mesh.get_group("pp")
        place = PipelineStage(stage, pp, 2, torch.device("cpu"), group=group)
        schedule = Schedule1F1B(place, n_microbatches=2, loss_fn=loss_of)
        tokens, following = (part.tensor_split(2)[dp] for part in batch(0))
        schedule.step(tokens) if pp == 0 else schedule.step(target=following)
        norm = nn.utils.clip_grad_norm_(stage.parameters(), 1.0)
        return float(norm.full_tensor())


four = SimulatedWorld(4, contexts="threads")
first, last = four.run(norm_without_tp, plain_layers(MODEL, start))[:2]
assert abs(first - last) > 0.01 and abs((first**2 + last**2) ** 0.5 - right) < 1e-9

# %% [markdown]
# The ten steps agree with the single process. Clipping fails, because the norm is over all parameters, but they are not
# spread over the same ranks: a matrix that TP has cut is sharded over DP × TP, and the weights of LayerNorm are sharded
# over DP alone.
#
# Here you are lucky, because the run stops. On DP × PP, without TP, the same call succeeds, and each pipeline stage
# clips by the norm of its own layers. The repair is the rule from above: count every gradient once, over all stages.
# You write it in [exercise 12c](../exercises/12c_layouts/12c_layouts.ipynb).
#
# ## In short
#
# - DP pays per parameter, TP per token and layer, PP per token and boundary.
# - With many tokens per replica TP belongs inside the node: it sends the most, and layers wait for it.
# - Count every gradient once, or clipping depends on the mesh.
# - More replicas for the same batch: computing shrinks, gradients do not.
# - Start with DP and ZeRO. Cut the model when it does not fit, messages do not hide, or the batch is too small.
#
# ## Now you
#
# In [the exercise](../exercises/12_hybrid/12_hybrid.ipynb) you find the groups of a mesh, compute the bytes and the
# seconds of a layout, and choose the layout for a cluster. After that comes [Experts and long
# sequences](12b_experts.ipynb), with two more axes.
#
# [Lesson 12c](12c_layouts.ipynb) is a side road: ZeRO inside a pipeline, more clusters, how far to trust the formulas,
# and what people have trained with. In its exercise you train a model that is cut three ways.
#
# ## Further reading
#
# - D. Narayanan et al., [Efficient Large-Scale Language Model Training on GPU Clusters Using
#   Megatron-LM](https://arxiv.org/abs/2104.04473), SC 2021. Section 3: how the three sizes play together.
# - A. Grattafiori et al., [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783), 2024. Section 3.3: four axes,
#   their order, and why. The fourth is context parallelism, which cuts sequences.
# - S. Wang et al., [Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning
#   Models](https://doi.org/10.1145/3567955.3567959), ASPLOS 2023: collective matmul.
# - [torch.distributed.device_mesh](https://docs.pytorch.org/docs/stable/distributed.html#devicemesh), PyTorch's manual.
