# %% [markdown]
# # DDP: gradients travel during the backward pass
#
# You rent 64 GPUs for 128 dollars an hour. In every training step, each GPU computes for 144 ms, and then it waits for
# 82 ms while gradients travel over the network. So you pay 46 dollars an hour for waiting. You cannot send less, and a
# faster network is not for sale. How do you get most of this money back?
#
# > After this lesson you will be able to
# >
# > - show that several ranks train the model that one process would train,
# > - say what a bucket is, and why gradients travel in buckets,
# > - read in the code of a DDP how a bucket leaves during the backward pass,
# > - measure how much communication is exposed, and what one slow rank costs,
# > - accumulate the gradients of several batches, and send them once,
# > - train with PyTorch's `DistributedDataParallel`.
# >
# > **Time:** about 50 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and
# > [Data parallel](04_data_parallel.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import inspect
import itertools
import statistics
import textwrap
from collections.abc import Callable

import torch
from IPython.display import Markdown
from torch import nn
from torch.nn.functional import cross_entropy

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
    before_and_after,
    buckets_over_layers,
    predict,
    step_timeline,
    sweep,
)
from distlib.training import (
    VERSIONS,
    DistributedDataParallel,
    PlainDDP,
    StepClock,
    StepTimes,
    assign_buckets,
    average_per_parameter,
    copy_from_rank_0,
    digits,
)

world = World(4)

# %% [markdown]
# ## Nobody is the master
#
# In lesson 04 rank 0 was the master: in every step it sent the model out and took all gradients in. **Distributed data
# parallel** training, DDP for short, has no master. Every rank keeps a replica of the model and its own optimizer. In
# each step, every rank
#
# 1. computes gradients on its part of the batch,
# 2. averages them with the gradients of all other ranks, in an all-reduce,
# 3. takes the optimizer's step by itself.
#
# The smallest example has one weight $w = 10$ and the loss $w\,x$, so that the gradient of a sample is $x$. Each of
# four ranks has one sample:

# %%
SAMPLES = torch.tensor([1.0, 3.0, 5.0, 7.0])


def one_step(comm: Communicator) -> tuple[float, float, float]:
    """This rank's gradient, the average of all ranks, and the weight after the step."""
    weight = torch.tensor([10.0], requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    (weight * SAMPLES[comm.rank]).sum().backward()
    mine = weight.grad.item()
    all_reduce(comm, weight.grad)  # the sum over all ranks
    weight.grad /= comm.world_size
    optimizer.step()
    return mine, weight.grad.item(), weight.item()


by_rank = world.run(one_step)
mine, average, stepped = ([[found[place]] for found in by_rank] for place in range(3))
before_and_after(
    {"the gradient": (mine, average), "the weight": ([[10.0]] * 4, stepped)},
    title="One step of DDP on four ranks",
    subtitle="a row is a rank; gradients before and after averaging, weights before and after",
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert (mine, average, stepped) == ([[1], [3], [5], [7]], [[4]] * 4, [[8]] * 4)
alone = torch.tensor([10.0], requires_grad=True)
(alone * SAMPLES).mean().backward()
assert alone.grad.item() == 4 and (alone - 0.5 * alone.grad).item() == 8

# %% [markdown]
# A single process with all four samples would compute the gradient of their mean loss. This gradient is also 4, and so
# the weight becomes 8 as well. The ranks sent gradients only. Their new weights are equal because their old weights
# were equal, and because every rank took the same step.
#
# **Equal weights that take equal steps stay equal, without being sent.**
#
# Now a real model: a small convolutional network that reads digits. Its training loop gets one new line:

# %% tags=["folded"]
# The digits and the model, in float64 so that rounding is tiny
train_set, _ = digits()
images, labels = train_set.images.double(), train_set.labels


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    first, second = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
    layers = [first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)]
    return nn.Sequential(*layers).double()


def nothing() -> None:
    """What a single process does between the backward pass and the step."""


Batches = list[tuple[torch.Tensor, torch.Tensor]]


def batches_of(part: slice, steps: int = 20) -> Batches:
    """Each batch is 64 images of the training set; `part` says which of the 64."""
    wholes = zip(images.split(64), labels.split(64), strict=True)
    firsts = itertools.islice(wholes, steps)
    return [(some[part], wanted[part]) for some, wanted in firsts]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


# %%
def take_steps(
    model: nn.Module, batches: Batches, after_backward: Callable[[], None] = nothing
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch_images, batch_labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(batch_images), batch_labels).backward()
        after_backward()  # the new line: average the gradients
        optimizer.step()


def train_on_ranks(comm: Communicator, same_start: bool = True) -> torch.Tensor:
    model = make_model(seed=comm.rank)  # a different model on each rank
    if same_start:
        copy_from_rank_0(comm, model)
    mine = batches_of(slice(comm.rank, None, comm.world_size))
    take_steps(model, mine, after_backward=lambda: average_per_parameter(comm, model))
    return weights(model)


alone = make_model(seed=0)
take_steps(alone, batches_of(slice(None)))
by_rank = world.run(train_on_ranks)
difference = max(float((found - weights(alone)).abs().max()) for found in by_rank)
print(f"20 steps on 4 ranks: largest difference to one process {difference:.0e}")

# %% tags=["folded"]
# Checks of the numbers above
assert difference < 1e-12
assert all(torch.equal(found, by_rank[0]) for found in by_rank)

# %% [markdown]
# Four ranks share each batch of 64 images, and end with the weights of the single process, up to rounding. The four
# ranks have *the same* weights, to the last bit.
#
# <details><summary>Where this stops being true</summary>
#
# | with … | then … |
# |---|---|
# | a loss that is a sum, or parts of unequal size | the average is not the gradient of the whole batch (lesson 06) |
# | batch norm, or dropout | each rank normalizes over its own images, or draws its own random numbers |
# | ranks that round differently | the weights drift apart by rounding errors |
#
# The folded cell below shows the second row for dropout. For the third row we let one rank of two use other
# instructions of its processor, with `ATEN_CPU_CAPABILITY=default`: after 2,000 steps the weights of torch's DDP were
# 2·10⁻⁷ apart.
#
# </details>


# %% tags=["folded"]
# The control: the same with a dropout
def with_dropout(seed: int) -> nn.Module:
    return make_model(seed).insert(5, nn.Dropout(0.5))


def train_with_dropout(comm: Communicator) -> torch.Tensor:
    model = with_dropout(seed=comm.rank)
    copy_from_rank_0(comm, model)
    mine = batches_of(slice(comm.rank, None, comm.world_size))
    take_steps(model, mine, after_backward=lambda: average_per_parameter(comm, model))
    return weights(model)


alone_dropping = with_dropout(seed=0)
take_steps(alone_dropping, batches_of(slice(None)))
dropping = world.run(train_with_dropout)
difference = float((dropping[0] - weights(alone_dropping)).abs().max())
print(f"with dropout: largest difference to one process {difference:.2f}")
assert difference > 0.01
assert all(torch.equal(found, dropping[0]) for found in dropping)

# %% [markdown]
# In a real run a `DistributedSampler` deals out the images. Call its `set_epoch` before each epoch, because otherwise
# every epoch has the order of epoch 0, and no error appears. [Lesson 05b](05b_ddp_in_practice.ipynb) shows the sampler
# at work.
#
# ### Equal at the start
#
# Each rank built a different model, and then `copy_from_rank_0` gave all ranks the weights of rank 0. What if you
# forget this line?

# %%
guess_1 = predict(
    "Without it the models of ranks 0 and 1 start apart. After 20 steps they are …",
    choices=["closer", "exactly as far apart", "farther apart"],
)

# %%
apart = world.run(train_on_ranks, same_start=False)
at_the_start = float((weights(make_model(0)) - weights(make_model(1))).abs().max())
at_the_end = float((apart[0] - apart[1]).abs().max())
print(guess_1.compare("exactly as far apart"))
print(f"largest difference of a weight: {at_the_start:.4f}, then {at_the_end:.4f}")
assert abs(at_the_start - at_the_end) < 1e-12

# %% [markdown]
# All ranks apply the same average, and with this optimizer equal gradients make equal steps. So the distance between
# their models stays. Each rank follows an average of gradients of different models, and no error appears. That is why
# DDP begins with this copy.
#
# ## Fewer, larger all-reduces
#
# `average_per_parameter` starts one all-reduce for each parameter. For counting and timing we use a stack of 12 equal
# layers, each with a weight of 256 KiB and a bias of 1 KiB. So half of the 24 all-reduces carry a tiny bias, and pay as
# much latency as the all-reduce of a weight.
#
# So put gradients together. One extreme is one all-reduce per parameter, which pays the latency 24 times. The other
# extreme is **one flat buffer** with all gradients, which pays the latency of one all-reduce but cannot leave before
# the last gradient is there. In between are **buckets**, each with the gradients of several parameters. Because the
# backward pass begins with the last layer, buckets are filled from the end of the list of parameters. Buckets have a
# limit in bytes: when a bucket reaches the limit, the next bucket begins. In the list, the weight of layer $n$ is
# parameter $2n$, and its bias is parameter $2n + 1$:

# %% tags=["folded"]
# The model
LAYERS, FEATURES = 12, 256


class Layer(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs).relu()


def make_stack() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Layer(FEATURES, FEATURES) for _ in range(LAYERS)))


# %%
KIB = 1024
sizes = [parameter.nbytes for parameter in make_stack().parameters()]
buckets = assign_buckets(sizes, bucket_bytes=512 * KIB)
for number, bucket in enumerate(buckets):
    nbytes = sum(sizes[index] for index in bucket)
    print(f"bucket {number}: parameters {bucket}, {nbytes // KIB} KiB")

# %% tags=["folded"]
# Checks of the numbers above
assert buckets[0] == [23, 22, 21, 20] and buckets[5] == [3, 2, 1, 0]
assert sizes == [256 * KIB, KIB] * 12


def train_version(comm: Communicator, version: str) -> torch.Tensor:
    ddp = DistributedDataParallel(
        comm, make_model(seed=comm.rank), version=version, bucket_bytes=8_000
    )
    take_steps(ddp, batches_of(slice(comm.rank, None, comm.world_size)))
    return weights(ddp)


for version in VERSIONS:
    for found in world.run(train_version, version):
        assert (found - weights(alone)).abs().max() < 1e-12

# %% [markdown]
# **Try it.** Which limit makes exactly three buckets? Which limit gives every parameter a bucket of its own?

# %%
mine = assign_buckets(sizes, bucket_bytes=512 * KIB)  # change the limit
print(len(mine), "buckets")

# %% tags=["folded"]
# One way to do it
# Four layers of 257 KiB are 1,028 KiB. A bias alone fills a bucket of 1 KiB
assert len(assign_buckets(sizes, bucket_bytes=1028 * KIB)) == 3
assert len(assign_buckets(sizes, bucket_bytes=KIB)) == 24
print("1028 * KIB, and KIB")

# %% [markdown]
# The library's `DistributedDataParallel` has four versions, which compute the same averages, up to rounding:
#
# | version | all-reduces in a step | when an all-reduce starts |
# |---|---|---|
# | `per_parameter` | one per parameter | after the backward pass |
# | `flat` | one | after the backward pass |
# | `bucketed` | one per bucket | after the backward pass |
# | `overlapped` | one per bucket | as soon as its bucket, and each bucket before it, is complete |
#
# A bucket is **complete** when all of its gradients are there.

# %%
guess_2 = predict(
    "Two ranks train for one step. Which version sends the most bytes?",
    choices=["per_parameter", "flat", "overlapped", "all the same"],
)

# %% tags=["folded"]
# Versions that train in turns on two ranks, in virtual time or on a clock
BUCKET = 512 * KIB
FORWARD = 4e-3  # seconds per layer; the backward pass takes twice as long
LINK = Link(latency=1.5e-3, bandwidth=40e6)
Steps = dict[str, list[StepTimes]]


def race(
    comm: Communicator,
    versions: tuple[str, ...] = VERSIONS,
    bucket_bytes: int = BUCKET,
    turns: int = 1,
) -> Steps:
    """The steps of each version. Layers sleep as long as they would compute."""
    limits = dict(bucket_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes)
    lanes = {}
    for version in versions:
        model = make_stack()
        clock = StepClock(comm, model, {str(n): FORWARD for n in range(LAYERS)})
        noted = clock.noted("ring")  # a timed ring
        ddp = DistributedDataParallel(
            comm, model, version=version, algorithm=noted, **limits
        )
        lanes[version] = clock, ddp
    inputs = torch.ones(1, FEATURES)
    for _ in range(turns):  # in turns, so that a busy moment meets all versions
        for clock, ddp in lanes.values():
            comm.barrier()
            with clock.step():
                ddp(inputs).sum().backward()
    return {version: clock.steps for version, (clock, _) in lanes.items()}


def simulate(
    versions: tuple[str, ...] = VERSIONS,
    link: Link = LINK,
    bucket_bytes: int = BUCKET,
) -> dict[str, StepTimes]:
    """One step of each version on rank 0 of two."""
    simulated = SimulatedWorld(2, Cluster.flat(2, link), contexts="threads")
    found = simulated.run(race, versions, bucket_bytes)[0]
    return {version: steps[0] for version, steps in found.items()}


# %%
simulated = SimulatedWorld(2, contexts="threads")
print("version        all-reduces   messages        bytes, per rank and step")
sent = {}
for version in VERSIONS:
    steps = simulated.run(race, (version,))[0][version]
    all_reduces = len(steps[0].of("communication"))
    both_ranks = simulated.trace.by_collective()["all_reduce"]
    sent[version] = all_reduces, both_ranks.messages // 2, both_ranks.nbytes // 2
    print(f"{version:14} {all_reduces:11} {sent[version][1]:10} {sent[version][2]:12,}")
print(guess_2.compare("all the same"))

# %% tags=["folded"]
# Checks of the numbers above
assert [found[0] for found in sent.values()] == [24, 1, 6, 6]
assert all(found[1:] == (2 * found[0], sum(sizes)) for found in sent.values())

# %% [markdown]
# In every version each gradient takes part in one all-reduce, so the bytes are equal. Buckets save messages, not bytes.
#
# **A bucket sends all of its gradients for the latency of one all-reduce.**
#
# ## Communicate while you compute
#
# The versions `bucketed` and `overlapped` send the same buckets, but at different times. When the backward pass has
# computed the gradients of the last layer, nothing in this backward pass changes these gradients any more. So their
# bucket can leave while the backward pass goes on to the other layers. Two tools make this possible:
#
# - **A hook.** After `parameter.register_post_accumulate_grad_hook(function)`, torch calls `function(parameter)` as
#   soon as the gradient of this parameter is complete, during the backward pass.
# - **An asynchronous all-reduce.** `all_reduce(comm, tensor, async_op=True)` starts the all-reduce and returns a handle
#   at once. A second thread of the rank sends the messages, and `handle.wait()` returns when the sum is there.
#
# `PlainDDP` is a DDP on one page, in the library's file `distlib/training/ddp/plain.py`. Here are its hook, and the
# function that sends a bucket off:

# %% tags=["folded"]
# Two methods of the class
heart = map(inspect.getsource, (PlainDDP._on_gradient, PlainDDP._begin))
source = textwrap.dedent("\n".join(heart)).replace("  # type: ignore[union-attr]", "")
Markdown(f"```python\n{source}```")

# %% [markdown]
# - `self.missing` has one set for each bucket: the parameters whose gradients have not come yet. The hook removes the
#   parameter that it is called for.
# - `self.begun` lists the buckets that have left, so `len(self.begun)` is the number of the next bucket. While the set
#   of the next bucket is empty, the loop sends this bucket off.
# - `_begin` copies the gradients of a bucket into one flat tensor, and `comm.start` starts its all-reduce.
#
# A complete bucket waits for the buckets before it, because all ranks must start their all-reduces in the same order.
# Otherwise bucket 1 of one rank could meet bucket 2 of another. After the backward pass, `finish()` waits for the
# handles, divides the sums by the number of ranks, and puts the averages back:


# %%
def train_plain(comm: Communicator) -> torch.Tensor:
    ddp = PlainDDP(comm, make_model(seed=comm.rank), bucket_bytes=8_000)
    mine = batches_of(slice(comm.rank, None, comm.world_size))
    take_steps(ddp, mine, after_backward=ddp.finish)
    return weights(ddp)


found = world.run(train_plain)[0]
difference = float((found - weights(alone)).abs().max())
print(f"PlainDDP, 20 steps: largest difference to one process {difference:.0e}")
assert difference < 1e-12

# %% [markdown]
# When does each bucket travel? We play a step of the 12 layers in virtual time, on two computers with a wireless link
# of 40 MB/s and 1.5 ms latency. A layer sleeps for as long as it would compute: 4 ms forward and 8 ms backward. The
# picture begins with the backward pass.

# %% tags=["folded"]
# The layers of each bucket
of_layers = [list(dict.fromkeys(str(n // 2) for n in bucket)) for bucket in buckets]

# %%
overlapped = simulate(("overlapped",))["overlapped"]
buckets_over_layers(of_layers, overlapped, title="Six buckets over twelve layers")

# %% tags=["folded"]
# Checks of the numbers in the picture
first, *_, last = overlapped.of("communication")
assert abs(first.seconds - 16.2e-3) < 1e-4
(done,) = [span.end for span in overlapped.of("backward") if span.name == "0"]
assert done <= last.start < done + 1e-3
assert overlapped.hidden > 0.99 * overlapped.hideable

# %% [markdown]
# Bucket 0 is complete when the backward pass has computed layers 11 and 10. While bucket 0 travels, the rank computes
# layers 9 and 8, which complete bucket 1, and so on. When bucket 5 is complete, nothing is left to compute.
#
# **A complete bucket can travel while the backward pass computes the gradients of later buckets.**
#
# ## How much does it hide?
#
# Communication is **hidden** while the rank computes, and **exposed** while the rank waits for it. Now all four
# versions run the same step on the same link.

# %%
guess_3 = predict("Order the versions, shortest step first.", order=VERSIONS)


# %% tags=["folded"]
# A table of times
def show_times(steps: dict[str, StepTimes]) -> None:
    print("version          step, ms   computing   communicating   hidden   exposed")
    for name, step in steps.items():
        exposed = step.communicating - step.hidden
        times = (step.seconds, step.computing, step.communicating, step.hidden, exposed)
        a, b, c, d, e = (1000 * each for each in times)
        print(f"{name:15} {a:9.0f} {b:11.0f} {c:15.0f} {d:8.0f} {e:9.0f}")


# %%
steps = simulate()
print(guess_3.compare(sorted(VERSIONS, key=lambda version: steps[version].seconds)))
show_times(steps)
step_timeline(steps, title="One training step on rank 0, four ways")

# %% tags=["folded"]
# Checks of the numbers above and below
flat, bucketed, overlapped = (
    steps[name] for name in ("flat", "bucketed", "overlapped")
)
assert [round(1e3 * step.seconds) for step in (flat, bucketed, overlapped)] == [
    226,
    241,
    161,
]
assert round(1e3 * steps["per_parameter"].seconds) == 295
assert (round(1e3 * flat.computing), round(1e3 * flat.communicating)) == (144, 82)
assert flat.communicating < bucketed.communicating
exposed = overlapped.communicating - overlapped.hidden
assert round(1e3 * exposed) == 17 and round(1e3 * bucketed.communicating) == 97
gain = 1 - overlapped.seconds / flat.seconds
assert 0.28 < gain < 0.29
assert (
    round(128 * 82 / 226) == 46 and round(flat.seconds / overlapped.seconds, 1) == 1.4
)

# %% [markdown]
# Buckets alone make the step *longer* than `flat`, because they pay more latencies and start no earlier. They can pay
# off when they leave during the backward pass. `flat` communicates for less time than `overlapped`, but its step is
# longer, because all of its communication is exposed.
#
# **Exposed communication costs time. Hidden communication costs little.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then hidden communication costs time, because … |
# |---|---|
# | ranks share the cores of one machine | the thread that sends takes cores from computing (measured in 05b) |
# | GPUs all-reduce with NCCL | it takes some of the GPU's processors from computing |
#
# NCCL [can be told to take
# fewer](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/flags.html) processors.
#
# </details>
#
# Back to your 64 GPUs. If they hide as much as these two ranks, 17 ms of a step are exposed instead of 82 ms. Then you
# pay 14 dollars an hour for waiting instead of 46, and an hour holds 1.4 times as many steps. How much does overlap
# save on other networks?

# %% tags=["folded"]
# Three networks to choose from
CHOICES = {
    2.5: "a very slow one",
    40: "one on which messages take about as long as the backward pass",
    640: "a very fast one",
}

# %%
guess_4 = predict(
    "On which network does `overlapped` save the largest part of the time of `flat`?",
    choices=list(CHOICES.values()),
)

# %%
TWO = ("flat", "overlapped")
saved = {}
for megabytes in (2.5, 10, 40, 160, 640):
    found = simulate(TWO, Link(LINK.latency, megabytes * 1e6))
    saved[megabytes] = 1 - found["overlapped"].seconds / found["flat"].seconds
print(guess_4.compare(CHOICES[max(saved, key=saved.get)]))
sweep(
    {"two ranks": saved},
    along="MB/s of the link",
    title="The part of a step that overlap saves",
    percent=True,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert abs(flat.communicating / 96e-3 - 0.85) < 0.02
assert saved[640] < 0.03 and saved[2.5] < 0.06

# %% [markdown]
# On a fast network there is little to hide. On a slow network the backward pass is short compared with the
# messages, so that it can hide only a small part of them.
#
# ### The best bucket
#
# Small buckets leave early, but they pay many latencies. Large buckets pay few latencies, but they leave late. Here the
# best size is in between:

# %%
by_size = {}
for kib in (1, 128, 256, 512, 1024, 2048, 4096):
    step = simulate(("overlapped",), bucket_bytes=kib * KIB)["overlapped"]
    by_size[kib] = 1e3 * step.seconds
sweep(
    {"overlapped": by_size},
    along="limit of a bucket, KiB",
    title="Time of a training step by the limit of the buckets",
    subtitle="ms, in virtual time",
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert min(by_size, key=by_size.get) == 512
assert by_size[1] > 1.2 * by_size[512] and by_size[4096] > 1.3 * by_size[512]
assert abs(by_size[4096] - 1e3 * flat.seconds) < 0.1

# %% [markdown]
# PyTorch's default limit, 25 MiB, is meant for larger models than ours, which has 3 MiB. By default PyTorch gives the
# first bucket a smaller limit, so that communication begins sooner.
#
# **Try it.** Which limit is best on a link with ten times the latency, `Link(15e-3, 40e6)`? Guess first: larger or
# smaller? There `flat` takes 253 ms: with which limits does overlap lose against it?

# %%
for kib in (256, 512, 1024, 2048):
    step = simulate(("overlapped",), LINK, kib * KIB)["overlapped"]  # change the link
    print(f"{kib:4} KiB: {step.seconds * 1e3:.0f} ms")

# %% tags=["folded"]
# One way to do it
# Larger, because each bucket now pays ten times as much. Up to 512 KiB overlap loses
slower = {}
for kib in (256, 512, 1024, 2048):
    step = simulate(("overlapped",), Link(15e-3, 40e6), kib * KIB)["overlapped"]
    slower[kib] = step.seconds
    print(f"{kib:4} KiB: {step.seconds * 1e3:.0f} ms")
assert min(slower, key=slower.get) > 512
assert slower[512] > 253e-3 > slower[1024]

# %% [markdown]
# ### On a clock
#
# Do real processes agree? `World(2, network=LINK)` sends real messages, and holds each message back until it would have
# arrived on that link. The layers still sleep, so that the result depends less on how busy your cores are.


# %%
with World(2, network=LINK) as paced:
    clocked = paced.run(race, TWO, BUCKET, 7)[0]
pairs = zip(clocked["flat"], clocked["overlapped"], strict=True)
measured = statistics.median(1 - new.seconds / old.seconds for old, new in pairs)
print(f"overlapped saves {measured:.0%} of the step; predicted: {gain:.0%}")
if abs(measured - gain) > 0.08:
    print("This machine was busy with something else. Run the cell again.")
assert [len(found) for found in clocked.values()] == [7, 7]

# %% [markdown]
# [Lesson 05b](05b_ddp_in_practice.ipynb) repeats this with layers that really compute.
#
# ## One slow rank
#
# An all-reduce cannot end before every rank has brought its gradients. Now rank 1 computes half as fast as rank 0.

# %%
guess_5 = predict(
    "Rank 1 needs twice the time to compute. How long is rank 0's step now?",
    choices=["hardly longer", "about 1.5 times as long", "nearly twice as long"],
)


# %%
def with_straggler(rank_0: float, rank_1: float) -> list[StepTimes]:
    """One step; each rank computes for this many times 144 ms."""
    cluster = Cluster.flat(2, LINK, stragglers={0: rank_0, 1: rank_1})
    found = SimulatedWorld(2, cluster, contexts="threads").run(race, ("overlapped",))
    return [steps["overlapped"][0] for steps in found]


slowed = with_straggler(1.0, 2.0)
longer = slowed[0].seconds / overlapped.seconds
print(guess_5.compare("nearly twice as long"))
both = {f"rank {rank}": slowed[rank] for rank in (0, 1)}
step_timeline(both, title="Rank 1 computes half as fast, and rank 0 waits for it")

# %% tags=["folded"]
# Checks of the numbers above and below
assert 1.85 < longer < 1.95
assert abs(slowed[0].seconds - slowed[1].seconds) < 1e-3

# %% [markdown]
# Rank 0 ends its backward pass in half of the time of rank 1. Then it waits, because every all-reduce needs the
# gradients of rank 1, too.
#
# **In every step, the other ranks wait for the slowest one.**
#
# One cure is to give the slow rank fewer images. Then gradients must be weighted ([lesson 06](06_large_batches.ipynb)).
# Another cure is not to wait for all ranks ([lesson 07](07_without_waiting.ipynb)).
#
# **Try it.** Rank 1 still needs twice the time per image. Move images from rank 1 to rank 0, so that both ranks compute
# for equally long. Which two multiples of 144 ms does `with_straggler` need, and how long is the step then?

# %%
mine = with_straggler(1.0, 2.0)  # change both
print(f"{mine[0].seconds * 1e3:.0f} ms")

# %% tags=["folded"]
# One way to do it
# Rank 0 takes two thirds of the images instead of a half: four thirds of the time.
# Rank 1 takes one third, two thirds of what it had, and needs twice as long for each
mine = with_straggler(4 / 3, 2 * 2 / 3)
print(f"{mine[0].seconds * 1e3:.0f} ms instead of {slowed[0].seconds * 1e3:.0f} ms")
assert round(mine[0].seconds * 1e3) == 208

# %% [markdown]
# ## Several batches, one all-reduce
#
# Sometimes the batch that you want does not fit into memory. Then **accumulate**: cut the batch into **microbatches**,
# make a forward and a backward pass for each, and let their gradients add up before the optimizer takes its step. The
# ranks need the average only once, after the last microbatch. `no_sync()` turns off the communication of all other
# microbatches:


# %%
def accumulate(comm: Communicator, microbatches: int) -> torch.Tensor:
    ddp = DistributedDataParallel(comm, make_model(0))
    mine = slice(comm.rank, 256, comm.world_size)
    parts = (tensor[mine].chunk(microbatches) for tensor in (images, labels))
    *others, (last_images, last_labels) = zip(*parts, strict=True)
    with ddp.no_sync():
        for some_images, some_labels in others:
            (cross_entropy(ddp(some_images), some_labels) / microbatches).backward()
    (cross_entropy(ddp(last_images), last_labels) / microbatches).backward()
    return torch.cat([parameter.grad.flatten() for parameter in ddp.parameters()])


gradients = {}
for microbatches in (1, 4):
    gradients[microbatches] = world.run(accumulate, microbatches)[0]
    messages = world.trace.by_collective(rank=0)["all_reduce"].messages
    print(f"backward passes: {microbatches}, messages of all-reduces: {messages}")
difference = float((gradients[1] - gradients[4]).abs().max())
print(f"largest difference of a gradient {difference:.0e}")
assert difference < 1e-12

# %% [markdown]
# In a ring all-reduce, each of four ranks sends six messages.
#
# **Inside `no_sync()` gradients add up on their rank. They travel with the next microbatch outside.**
#
# Put the forward pass inside `no_sync()`, too, because torch's DDP decides in the forward pass whether the backward
# pass communicates. [Lesson 05b](05b_ddp_in_practice.ipynb) shows what happens otherwise.
#
# <details><summary>Where this stops being true</summary>
#
# | with … | then … |
# |---|---|
# | microbatches of unequal size | dividing by their number weights some images more |
# | batch norm | its averages are taken over 16 images here, not over 64 |
#
# </details>
#
# ## In real frameworks
#
# `torch.nn.parallel.DistributedDataParallel` has what you have seen: the copy at the start, hooks, buckets, `no_sync`.
# Instead of a `comm` it uses torch's counterpart, the **process group**. On our ranks `torch_distributed(comm, "gloo")`
# opens one. In a script that `torchrun` starts, `torch.distributed.init_process_group("gloo")` does.


# %%
def train_with_torch(comm: Communicator) -> torch.Tensor:
    with torch_distributed(comm, "gloo"):
        ddp = nn.parallel.DistributedDataParallel(make_model(seed=comm.rank))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
        for some_images, wanted in batches_of(slice(comm.rank, None, comm.world_size)):
            optimizer.zero_grad()
            loss = cross_entropy(ddp(some_images), wanted)
            loss.backward()  # when it returns, the gradients are averages
            optimizer.step()
        return weights(ddp)


found = world.run(train_with_torch)[0]
difference = float((found - weights(alone)).abs().max())
print(f"torch's DDP, 20 steps: largest difference to one process {difference:.0e}")
assert difference < 1e-12

# %% [markdown]
# Without `"gloo"`, torch's DDP sends its messages through our `comm`. Then a trace shows its buckets, and you can give
# it an all-reduce of your own: see [lesson 05b](05b_ddp_in_practice.ipynb). TensorFlow's `MultiWorkerMirroredStrategy`
# all-reduces gradients, too ([lesson 13](13_tensorflow.ipynb)).

# %% tags=["folded"]
# The ranks are no longer needed
world.close()

# %% [markdown]
# ## In short
#
# - Equal weights that take equal steps stay equal, without being sent.
# - A complete bucket can travel while the backward pass computes the gradients of later buckets.
# - Exposed communication costs time. Hidden communication costs little.
# - In every step, the other ranks wait for the slowest one.
# - Inside `no_sync()` gradients add up on their rank. They travel with the next microbatch outside.
#
# ## Now you
#
# In [the exercise](../exercises/05_ddp/05_ddp.ipynb) you average gradients, write an overlapped DDP that also has
# `no_sync` and allows parameters without a gradient, and train with torch's DDP. The tests look at when your messages
# leave. After that comes [Large batches](06_large_batches.ipynb): more ranks mean larger batches, and larger batches
# train differently.
#
# [Lesson 05b](05b_ddp_in_practice.ipynb) is a side road: the sampler, ranks that run out of batches, parameters without
# a gradient, buffers, resuming to the last bit, overlap on a busy machine, the copy to the GPU, and how torch builds
# its buckets. In [its exercise](../exercises/05b_ddp_in_practice/05b_ddp_in_practice.ipynb) you write the sampler, and
# put parameters into buckets.
#
# ## Further reading
#
# - S. Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
#   Training](https://arxiv.org/abs/2006.15704), PVLDB 13(12), 2020. How torch's DDP is made, and what was measured.
# - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/notes/ddp.html), torch's notes on its design.
# - A. Sergeev, M. Del Balso, [Horovod: fast and easy distributed deep learning in
#   TensorFlow](https://arxiv.org/abs/1802.05799), 2018. "Tensor fusion" is its word for buckets, which it fills with
#   what is ready.
