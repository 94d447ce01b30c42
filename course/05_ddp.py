# %% [markdown]
# # DDP: gradients that are averaged while they are computed
#
# While your GPUs send gradients, they do not compute, and while they compute, the network is idle. You pay for both all
# the time. PyTorch's DDP does both at once, so that most of the communication is hidden behind the backward pass. In
# this lesson you build DDP yourself.
#
# > After this lesson you will be able to
# >
# > - train one model on several ranks, and show that the result is that of one process,
# > - say why one all-reduce per parameter is slow, and what buckets do about it,
# > - explain how the communication hides behind the backward pass, and measure how much of it does, on a clock,
# > - say what page-locked memory is, and when copying batches to a GPU costs time,
# > - deal out a data set, accumulate gradients, and cope with ranks that run out of batches,
# > - stop a training and resume it to the last bit,
# > - say what torch's `DistributedDataParallel` does differently, and put an all-reduce of your own into it.
# >
# > **Time:** about 130 minutes; a good place for a break is before "Several batches, one all-reduce". **You need:**
# > [All-reduce](02_all_reduce.ipynb) and [Data parallel](04_data_parallel.ipynb). No GPU; one cell uses yours if there
# > is one.

# %% tags=["folded"]
# The imports
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.futures import Future
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    RankError,
    SimulatedWorld,
    World,
    all_reduce,
    torch_distributed,
)
from distlib.draw import predict, step_timeline, sweep
from distlib.training.buckets import assign_buckets
from distlib.training.datasets import digits
from distlib.training.ddp import (
    VERSIONS,
    DistributedDataParallel,
    StepClock,
    StepTimes,
    average_per_parameter,
    copy_from_rank_0,
    load_checkpoint,
    save_checkpoint,
)
from distlib.training.sampler import DistributedSampler

# %% [markdown]
# ## The idea
#
# In lesson 04 one rank was the master. It sent the model out in every step and took all gradients in. Now nobody is
# the master.
#
#     rank 0   images 0, 4, 8, …   ──► model ──► gradients ─┐                ┌─► the same step
#     rank 1   images 1, 5, 9, …   ──► model ──► gradients ─┤   all-reduce   ├─► the same step
#     rank 2   images 2, 6, 10, …  ──► model ──► gradients ─┤  the average   ├─► the same step
#     rank 3   images 3, 7, 11, …  ──► model ──► gradients ─┘                └─► the same step
#
# Every rank keeps the model and an optimizer of its own. The models start out equal. In each step every rank computes
# gradients on its own images, the ranks average the gradients, and each takes the step by itself. Equal models that
# take equal steps stay equal. So no weights are ever sent again after the start. This is **distributed data parallel**
# training, DDP for short.
#
# Here it is in one function. The model is a small convolutional network, in float64 so that we see how exact it is.

# %%
world = World(4)
train_set, test_set = digits()
images, labels = train_set.images.double(), train_set.labels


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    first, second = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
    layers = [first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)]
    return nn.Sequential(*layers).double()


def nothing() -> None:
    """What a single process does between the backward pass and the step."""


Batches = list[tuple[torch.Tensor, torch.Tensor]]


def take_steps(
    model: nn.Module,
    batches: Batches,
    after_backward: Callable[[], None] = nothing,
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch_images, batch_labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(batch_images), batch_labels).backward()
        after_backward()
        optimizer.step()


# %% [markdown]
# A rank takes its part of every batch, and averages its gradients before each step:


# %%
def batches_of(part: slice, steps: int) -> Batches:
    """Each batch is 64 images of the training set; `part` says which of the 64."""
    wholes = zip(images.split(64), labels.split(64), strict=True)
    firsts = itertools.islice(wholes, steps)
    return [(some[part], wanted[part]) for some, wanted in firsts]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def train_on_ranks(
    comm: Communicator,
    steps: int,
    same_start: bool = True,
) -> torch.Tensor:
    model = make_model(seed=comm.rank)  # a different model on each rank
    if same_start:
        copy_from_rank_0(comm, model)
    mine = batches_of(slice(comm.rank, None, comm.world_size), steps)
    take_steps(model, mine, after_backward=lambda: average_per_parameter(comm, model))
    return weights(model)


alone = make_model(seed=0)
take_steps(alone, batches_of(slice(None), 20))

by_rank = world.run(train_on_ranks, 20)
difference = max(float((found - weights(alone)).abs().max()) for found in by_rank)
print(f"20 steps on 4 ranks: largest difference to one process {difference:.1e}")
assert difference < 1e-12
assert all(torch.equal(found, by_rank[0]) for found in by_rank)

# %% [markdown]
# Four ranks with 16 images each give the weights that one process gets from 64, up to rounding. And the four ranks have
# *the same* weights, to the last bit. (That they train like one process takes four things. A loss that is the mean over
# the images: of sums, the average over four ranks is a quarter. Parts of equal size: see lesson 06. Layers that treat
# each image by itself: see "Buffers" below. And layers that draw no random numbers: with dropout each rank drops other
# numbers than one process does. Ranks agree to the last bit only if they round alike. With
# `ATEN_CPU_CAPABILITY=default`, other instructions of the processor, on one rank of two, weights of torch's DDP were
# 2·10⁻⁷ apart after 2,000 steps.)


# %% tags=["folded"]
# The control: the same with a dropout
def with_dropout(seed: int) -> nn.Module:
    return make_model(seed).insert(5, nn.Dropout(0.5))


def train_with_dropout(comm: Communicator, steps: int) -> torch.Tensor:
    model = with_dropout(seed=comm.rank)
    copy_from_rank_0(comm, model)
    mine = batches_of(slice(comm.rank, None, comm.world_size), steps)
    take_steps(model, mine, after_backward=lambda: average_per_parameter(comm, model))
    return weights(model)


alone_dropping = with_dropout(seed=0)
take_steps(alone_dropping, batches_of(slice(None), 20))
dropping = world.run(train_with_dropout, 20)
difference = float((dropping[0] - weights(alone_dropping)).abs().max())
print(f"with dropout: largest difference to one process {difference:.2f}")
assert difference > 0.01
assert all(torch.equal(found, dropping[0]) for found in dropping)

# %% [markdown]
# ### Equal at the start
#
# `copy_from_rank_0` sends rank 0's weights to all. What if you forget it?

# %%
guess_1 = predict(
    "Without it the models of ranks 0 and 1 start apart. After 20 steps they are …",
    choices=["closer", "exactly as far apart", "farther apart"],
)

# %%
apart = world.run(train_on_ranks, 20, same_start=False)
at_the_start = float((weights(make_model(0)) - weights(make_model(1))).abs().max())
at_the_end = float((apart[0] - apart[1]).abs().max())
print(guess_1.compare("exactly as far apart"))
print("largest difference of a weight:")
print(f"at the start {at_the_start:.4f}, after 20 steps {at_the_end:.4f}")
assert abs(at_the_start - at_the_end) < 1e-12

# %% [markdown]
# Exactly as far as at the start. With this optimizer all ranks take the same steps, so the distance stays. (With weight
# decay the steps would also depend on the weights.) Nothing fails, and every rank
# trains a model with gradients that were computed for other models. No error appears. So DDP always begins with
# that copy, and checks that the models have the same shapes.


# %%
def different_models(comm: Communicator) -> None:
    DistributedDataParallel(comm, nn.Linear(64, 10 + comm.rank))


try:
    world.run(different_models)
except RankError as error:
    print(error)
    assert "rank 0 has the parameter 'weight' of shape (10, 64)" in str(error)

# %% [markdown]
# ## Who takes which images
#
# The images must be dealt out: every image to some rank, equally many to each, and shuffled again in every epoch.
# `DistributedSampler` does this without a message. All ranks shuffle with the same seed, so they agree on the order.
# Rank r takes the entries r, r + N, r + 2N, … of it.


# %%
def dealt_out(
    comm: Communicator, length: int, epoch: int, **options: bool
) -> list[int]:
    sampler = DistributedSampler(comm, range(length), seed=1, **options)
    sampler.set_epoch(epoch)
    return list(sampler)


def show(title: str, *arguments: int, **options: bool) -> list[list[int]]:
    parts = world.run(dealt_out, *arguments, **options)
    print(title)
    for rank, indices in enumerate(parts):
        print(f"    rank {rank}: {indices}")
    return parts


plain = show("10 samples, not shuffled", 10, 0, shuffle=False)
first = show("shuffled, epoch 0", 10, 0)
second = show("shuffled, epoch 1", 10, 1)
dropped = show("epoch 0, the rest dropped", 10, 0, drop_last=True)
assert plain == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
assert first != second
assert [len(part) for part in first] == [3] * 4 and [len(part) for part in dropped] == [
    2
] * 4
assert sorted({index for part in first for index in part}) == list(range(10))

# %% [markdown]
# 10 samples do not make 4 equal parts. Then two of them are used twice (ranks 2 and 3 got 0 and 1 in the first table),
# or two are left out. Both are slightly wrong, and both keep the ranks in step.
#
# Do not forget `set_epoch`. Without it every epoch has the order of epoch 0, and no error appears.
#
# With torch's `DataLoader` it looks like this: `sampler=` instead of `shuffle=True`.


# %%
def one_epoch(comm: Communicator, epoch: int) -> list[int]:
    data = TensorDataset(torch.arange(len(labels)), images, labels)
    sampler = DistributedSampler(comm, data)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    sampler.set_epoch(epoch)
    return [index for indices, _, _ in loader for index in indices.tolist()]


parts = world.run(one_epoch, 0)
assert sorted(index for part in parts for index in part) == list(range(1536))
print(f"{len(parts[0])} images on each rank, {sum(map(len, parts))} in all, none twice")
assert len(parts[0]) == 384

# %% [markdown]
# ## Fewer, larger all-reduces
#
# `average_per_parameter` is one loop: one all-reduce per parameter. Our model has six parameters. Each
# all-reduce is a ring.

# %%
model = make_model(0)
for name, parameter in model.named_parameters():
    print(f"{name:9} {str(tuple(parameter.shape)):15} {parameter.nbytes:6,} bytes")
total = sum(parameter.nbytes for parameter in model.parameters())
print(f"together {total:,} bytes")

# %%
world.run(train_on_ranks, 1)
one = world.trace.messages_sent  # with the copy at the start
world.run(train_on_ranks, 2)
per_step = [b - a for a, b in zip(one, world.trace.messages_sent, strict=True)]
print(f"messages that each rank sends in one training step: {per_step}")
assert per_step == [6 * 2 * 3] * 4

# %% [markdown]
# 2(N − 1) = 6 messages for each of the six parameters. The smallest parameter has 8 numbers: with four ranks a chunk
# of it is 2 numbers. Lesson 02 has the reason why this is bad: every round costs a latency, however little is sent.
#
# So put gradients together. The two extremes:
#
# - **one all-reduce per parameter:** many rounds,
# - **one flat buffer** with all gradients: as few rounds as possible, but it can start only when the last gradient is
#   there.
#
# In between are **buckets**. Gradients appear from the last layer to the first, so a bucket takes parameters from the
# end of the list. It is full as soon as it holds at least its limit; then the next one begins. The first may have a
# smaller limit, so that communication can begin early.

# %%
sizes = [parameter.nbytes for parameter in model.parameters()]
buckets = assign_buckets(sizes, bucket_bytes=8_000, first_bucket_bytes=1_000)
for number, bucket in enumerate(buckets):
    print(
        f"bucket {number}: parameters {bucket}, {sum(sizes[index] for index in bucket):,} bytes"
    )
assert buckets == [[5, 4], [3, 2], [1, 0]]

# %% [markdown]
# **Try it.** Change the limits so that the same six parameters make *two* buckets. Then try to put parameters 0 and 1
# into a bucket of their own and all others into the other. Which of the two limits matters?

# %%
mine = assign_buckets(sizes, bucket_bytes=8_000, first_bucket_bytes=1_000)
print(mine)

# %% tags=["folded"]
# One way to do it
# The first limit decides where bucket 1 begins
mine = assign_buckets(sizes, bucket_bytes=30_000, first_bucket_bytes=1_000)
print(mine, "- the first bucket is full with the large weight of the last layer")
assert mine == [[5, 4], [3, 2, 1, 0]]
mine = assign_buckets(sizes, bucket_bytes=8_000, first_bucket_bytes=25_000)
print(mine, "- parameters 0 and 1 apart")
assert mine == [[5, 4, 3, 2], [1, 0]]

# %% [markdown]
# The library has all of them in one class, `DistributedDataParallel(comm, model, version=…)`. The wrapped model is
# used like the model itself: after `backward()` the gradients are averaged. `train` below runs one version.


# %%
def train(comm: Communicator, version: str, steps: int, **options: int) -> torch.Tensor:
    ddp = DistributedDataParallel(
        comm, make_model(seed=comm.rank), version=version, **options
    )
    take_steps(ddp, batches_of(slice(comm.rank, None, comm.world_size), steps))
    return weights(ddp)


# %%
guess_2 = predict(
    "Which version sends the most bytes?",
    choices=["one all-reduce per parameter", "flat", "overlapped", "all the same"],
)

# %%
limits = dict(bucket_bytes=8_000, first_bucket_bytes=1_000)
print("version          messages   bytes per rank   rounds, all in one training step")
for version in VERSIONS:
    world.run(train, version, 1, **limits)
    one = world.trace
    found = world.run(train, version, 2, **limits)
    two = world.trace
    messages = two.messages_sent[0] - one.messages_sent[0]
    nbytes = two.bytes_sent[0] - one.bytes_sent[0]
    print(f"{version:16} {messages:8} {nbytes:16,} {two.rounds - one.rounds:8}")
    all_reduces = {"per_parameter": 6, "flat": 1, "bucketed": 3, "overlapped": 3}[
        version
    ]
    assert messages == 6 * all_reduces
    assert sum(two.bytes_sent) - sum(one.bytes_sent) == 2 * 3 * total
print(guess_2.compare("all the same"))

# %% [markdown]
# The bytes are the same, the messages are not. Are the results? All four, 20 steps, against the one process from
# above:

# %%
for version in VERSIONS:
    found = world.run(train, version, 20, **limits)
    difference = max(float((each - weights(alone)).abs().max()) for each in found)
    print(f"{version:16} largest difference to one process {difference:.1e}")
    assert difference < 1e-12
    assert all(torch.equal(each, found[0]) for each in found)

# %% [markdown]
# ## Communicate while you compute
#
# The versions "bucketed" and "overlapped" send the same buckets. They differ in *when*.
#
# The gradients of the last layer are there long before those of the first. Nothing changes them any more. So why wait?
# As soon as a bucket is full, its all-reduce can start, and the backward pass goes on meanwhile.
#
#     backward         layer 4   layer 3   layer 2   layer 1 ┐
#     communication                bucket 0 ▒▒▒▒▒▒▒  bucket 1│▒▒▒▒▒▒▒  bucket 2 ▒▒▒▒▒▒▒ ┐
#                                                            └ only from here on does the rank wait
#
# Two tools make it possible.
#
# **A hook.** torch calls a function of ours when the gradient of a parameter is complete:
# `parameter.register_post_accumulate_grad_hook(function)`.
#
# **An all-reduce that is only started.** `all_reduce(comm, tensor, async_op=True)` returns a handle at once, and
# `handle.wait()` returns when the sum is there. Each rank has a second thread for it: one
# computes, the other communicates.
#
# Here is the order of events on one rank, with one bucket for each layer of a small network.


# %%
def watch_the_order(comm: Communicator) -> list[str]:
    events, works = [], []
    torch.manual_seed(0)
    layers = [nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)]
    network = nn.Sequential(*layers)
    names = {parameter: name for name, parameter in network.named_parameters()}

    def gradient_is_there(parameter: nn.Parameter) -> None:
        events.append(f"gradient of {names[parameter]}: all-reduce started")
        works.append(all_reduce(comm, parameter.grad, async_op=True))

    for parameter in names:
        parameter.register_post_accumulate_grad_hook(gradient_is_there)
    network(torch.ones(1, 8)).sum().backward()
    events.append("backward is over")
    for work in works:
        work.wait()
    events.append("all sums are there")
    return events


events = world.run(watch_the_order)[0]
print("\n".join(events))

# %% tags=["folded"]
# Checks of the order above
assert "4." in events[0] and "4." in events[1] and "0." in events[5]
assert events[-2:] == ["backward is over", "all sums are there"]

# %% [markdown]
# Every rank must start its all-reduces in the same order, or the messages of different buckets would meet. Gradients
# may appear in a different order on another rank. So a bucket is started only after those before it, even when it is
# full earlier.
#
# ### How much does it hide?
#
# It depends on the network. Take one where waiting hurts: two computers with a wireless link, 0.3 ms and 16 MB/s. The
# model has 25 layers and 1.5 MiB. Each layer has a computing time that follows from its size; backward takes twice as
# long as forward. First we look in virtual time. `StepClock` notes when the rank computes and when gradients are on
# their way.

# %% tags=["folded"]
# The model, and how long its layers take
WIDTHS = [64, *[128] * 24, 10]
BATCH = 256  # images per rank
SPEED = 4e9  # multiplications and additions per second, each counted
LINK = Link(latency=3e-4, bandwidth=16e6)
BUCKET, FIRST = 128 << 10, 64 << 10  # bytes


def wide_model() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(WIDTHS):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def forward_seconds(model: nn.Module) -> dict[str, float]:
    """A linear layer multiplies and adds once for each weight and image."""
    linear = {
        n: part for n, part in model.named_modules() if isinstance(part, nn.Linear)
    }
    return {n: 2 * BATCH * part.weight.numel() / SPEED for n, part in linear.items()}


# %% [markdown]
# `race`, in the folded cell, lets several versions take turns, so that a disturbance on this machine meets all of
# them. With `pretend` the layers *sleep* for their computing time. That is what virtual time needs, and it will also be
# useful on real ranks.

# %% tags=["folded"]
# The machinery: versions that take turns, and a table of their times
Steps = dict[str, list[StepTimes]]


def race(
    comm: Communicator,
    versions: tuple[str, ...] = VERSIONS,
    *,
    turns: int = 1,
    bucket_bytes: int = BUCKET,
    first_bucket_bytes: int = FIRST,
    pretend: bool = True,
) -> Steps:
    """The steps of each version; with `pretend` layers sleep, otherwise they compute."""
    limits = dict(bucket_bytes=bucket_bytes, first_bucket_bytes=first_bucket_bytes)
    lanes = {}
    for version in versions:
        model = wide_model()
        clock = StepClock(comm, model, forward_seconds(model) if pretend else None)
        noted = clock.noted("ring")
        ddp = DistributedDataParallel(
            comm, model, version=version, algorithm=noted, **limits
        )
        lanes[version] = clock, ddp
    inputs = torch.randn(1 if pretend else 4 * BATCH, 64)
    wanted = torch.zeros(len(inputs), dtype=torch.int64)
    for _ in range(turns):
        for clock, ddp in lanes.values():
            comm.barrier()
            with clock.step():
                cross_entropy(ddp(inputs), wanted).backward()
    return {version: clock.steps for version, (clock, _) in lanes.items()}


def show_times(steps: dict[str, StepTimes]) -> None:
    print("version          step, ms   computing   communicating   hidden")
    for name, step in steps.items():
        times = (step.seconds, step.computing, step.communicating, step.hidden)
        a, b, c, d = (1000 * each for each in times)
        print(f"{name:15} {a:9.1f} {b:11.1f} {c:15.1f} {d:8.1f}")


# %%
guess_3 = predict("Order them, shortest training step first.", order=VERSIONS)

# %%
simulated = SimulatedWorld(2, Cluster.flat(2, LINK), contexts="threads")
steps = {version: found[0] for version, found in simulated.run(race)[0].items()}
print(guess_3.compare(sorted(VERSIONS, key=lambda version: steps[version].seconds)))
show_times(steps)
overlapped, flat = steps["overlapped"], steps["flat"]
gain = 1 - overlapped.seconds / flat.seconds
print(f"overlapped takes {gain:.0%} off the step of flat")
shown = {version: steps[version] for version in ("flat", "bucketed", "overlapped")}
step_timeline(shown, title="One training step on rank 0, three ways, in virtual time")

# %% [markdown]
# Buckets alone make it *worse* than "flat": "bucketed" pays more latencies and starts no earlier. (It still beats one
# all-reduce per parameter.) Against "flat", buckets pay only because they can leave during the backward pass. Then a
# third of the step is gone.
#
# Could more be gained? The best overlap hides all communication. That would take 40 % off this step. But the last
# bucket is full only when the backward pass is over, so every rank has to wait for it. Of what *can* be hidden with
# these buckets, how much is?

# %%
share = overlapped.hidden / overlapped.hideable
print(
    f"hidden {overlapped.hidden * 1e3:.1f} of {overlapped.hideable * 1e3:.1f} ms: {share:.0%}"
)
print(
    f"all hidden would take {flat.communicating / flat.seconds:.0%} off the step of flat"
)

# %% tags=["folded"]
# Checks of the numbers above
assert sorted(steps, key=lambda version: steps[version].seconds)[:2] == [
    "overlapped",
    "flat",
]
assert 0.3 < gain < 0.4 and share >= 0.8
assert abs(flat.communicating / flat.seconds - 0.4) < 0.005
assert [
    len(steps[version].of("communication")) for version in ("per_parameter", "flat")
] == [50, 1]
assert flat.communicating < steps["bucketed"].communicating
assert flat.seconds < steps["bucketed"].seconds < steps["per_parameter"].seconds
assert steps["bucketed"].communicating < steps["per_parameter"].communicating
assert all(abs(step.computing - overlapped.computing) < 1e-9 for step in steps.values())

# %% [markdown]
# Look at "flat" once more. It communicates for the shortest time of all and is still slower than "overlapped". What
# counts is not how long the messages take, but how long somebody waits for them.
#
# The gain is not a property of the algorithm. It depends on how long communication takes compared with the backward
# pass. The same model on other networks, and on more ranks:

# %%
TWO = ("flat", "overlapped")
gains = {}
for ranks, bandwidth in ((2, 4e6), (2, 16e6), (2, 64e6), (2, 1e9), (4, 16e6)):
    cluster = Cluster.flat(ranks, Link(3e-4, bandwidth))
    found = SimulatedWorld(ranks, cluster, contexts="threads").run(race, TWO)[0]
    seconds = {version: found[version][0].seconds for version in TWO}
    gains[ranks, bandwidth] = 1 - seconds["overlapped"] / seconds["flat"]
    print(
        f"{ranks} ranks, {bandwidth / 1e6:5.0f} MB/s: gain {gains[ranks, bandwidth]:4.0%}"
    )

# %% tags=["folded"]
# Checks of the numbers above
# Most is gained where both take about equally long
assert max(gains, key=gains.get) == (2, 16e6)
assert gains[2, 1e9] < 0.05 and gains[2, 4e6] < 0.25
cluster = Cluster.flat(4, Link(3e-4, 1.5 * 16e6))  # 1.5 times the bytes take no longer
found = SimulatedWorld(4, cluster, contexts="threads").run(race, TWO)[0]
seconds = {version: found[version][0].seconds for version in TWO}
only_rounds = 1 - seconds["overlapped"] / seconds["flat"]
print(f"4 ranks, {1.5 * 16:5.0f} MB/s: gain {only_rounds:4.0%}")
assert gains[4, 16e6] + 0.02 < only_rounds < gains[2, 16e6] - 0.02

# %% [markdown]
# On a fast network there is little to hide. On a slow one there is little to hide it behind. With 4 ranks instead of 2
# each link carries more, 1.5 times the model instead of once, and each bucket takes more rounds, so that small buckets
# become expensive. Each of the two does about half of the harm here.
#
# ### The best bucket
#
# Small buckets start early and pay many latencies. Large buckets pay few and start late. So the best size is in
# between, unless the latency is next to nothing, or longer than all the rest. Let us look for it.

# %%
KIB = [4 << power for power in range(0, 11)]  # 4 KiB to 4 MiB
whole = sum(parameter.nbytes for parameter in wide_model().parameters())
seconds = {}
for kib in KIB:
    limits = dict(bucket_bytes=kib << 10, first_bucket_bytes=min(kib << 10, FIRST))
    seconds[kib] = simulated.run(race, ("overlapped",), **limits)[0]["overlapped"][
        0
    ].seconds
best = min(seconds, key=seconds.get)
print(f"the model has {whole / 2**20:.1f} MiB")
print(f"best bucket {best} KiB: {seconds[best] * 1e3:.1f} ms per step")
sweep(
    {"overlapped": {kib: value * 1e3 for kib, value in seconds.items()}},
    along="KiB in a bucket",
    title="Time of a training step by the size of the buckets",
    subtitle="ms, in virtual time",
)

# %% tags=["folded"]
# Checks of the numbers above
assert KIB[-1] << 10 > whole  # the largest bucket holds all but what is in the first
assert KIB[0] < best < KIB[-1]
assert seconds[KIB[0]] > 1.01 * seconds[best] and seconds[KIB[-1]] > 1.3 * seconds[best]
wide_sizes = [parameter.nbytes for parameter in wide_model().parameters()]
buckets_of = {
    kib: len(assign_buckets(wide_sizes, kib << 10, min(kib << 10, FIRST)))
    for kib in KIB
}
print("buckets by KiB:", buckets_of)
assert buckets_of[4] - 1 == buckets_of[8] == buckets_of[64] == 24
assert wide_sizes.count(64 << 10) == 23 and buckets_of[512] < 5
limits = dict(bucket_bytes=25 << 20, first_bucket_bytes=1 << 20)
assert len(assign_buckets(wide_sizes, **limits)) == 2
found = simulated.run(race, ("overlapped",), **limits)[0]["overlapped"][0]
print(f"torch's default gains {1 - found.seconds / flat.seconds:.0%}, not {gain:.0%}")
assert f"{1 - found.seconds / flat.seconds:.0%}, {gain:.0%}" == "13%, 34%"

# %% [markdown]
# Here a bucket that is too large costs much more than one that is too small. There are two reasons: the latency is
# short, and a bucket holds at least one whole parameter. Of the 25 weights 23 have 64 KiB, so from there
# downwards there are hardly more buckets: 24, and 25 at 4 KiB. torch's default is 25 MiB, and 1 MiB for the first
# bucket. That is meant for models of hundreds of megabytes. It cuts ours in two, and gains 13 % on "flat" in place of
# 34 %.
#
# **Try it.** Make the latency ten times as long, `Link(3e-3, 16e6)`. Which bucket size is best now? Guess first: larger
# or smaller? Then try other sizes of the first bucket. How much do they matter?

# %%
slower = SimulatedWorld(2, Cluster.flat(2, LINK), contexts="threads")  # change the link
for kib in (64, 128, 256, 512):
    mine = slower.run(race, ("overlapped",), bucket_bytes=kib << 10)[0]["overlapped"][0]
    print(f"{kib:4} KiB: {mine.seconds * 1e3:.1f} ms")

# %% tags=["folded"]
# One way to do it
# And what follows: larger, since each bucket now pays ten times as much
slower = SimulatedWorld(2, Cluster.flat(2, Link(3e-3, 16e6)), contexts="threads")
tried = {}
for kib in (64, 128, 256, 512):
    mine = slower.run(race, ("overlapped",), bucket_bytes=kib << 10)[0]["overlapped"][0]
    tried[kib] = mine.seconds
    print(f"{kib:4} KiB: {mine.seconds * 1e3:.1f} ms")
assert min(tried, key=tried.get) > best
for first in (8, 128, 256, 1024):  # a smaller one hardly matters, a larger one does
    limits = dict(bucket_bytes=256 << 10, first_bucket_bytes=first << 10)
    mine = slower.run(race, ("overlapped",), **limits)[0]["overlapped"][0]
    longer = mine.seconds / tried[256] - 1
    print(f" 256 KiB, first bucket {first:4} KiB: {mine.seconds * 1e3:.1f} ms")
    assert abs(longer) < 0.02 if first <= 256 else longer > 0.1

# %% [markdown]
# ### On a clock
#
# Now real processes and real messages. `World(2, network=LINK)` holds messages back, so that they take as long as on
# that link. The layers sleep for their computing time, as above: so nothing depends on how busy your cores are. The
# step should take what virtual time has predicted.


# %%
def middle(steps: list[StepTimes]) -> StepTimes:
    return sorted(steps, key=lambda step: step.seconds)[len(steps) // 2]


def median_gain(found: Steps) -> float:
    pairs = zip(found["flat"], found["overlapped"], strict=True)
    return statistics.median(
        1 - after.seconds / before.seconds for before, after in pairs
    )


with World(2, network=LINK) as paced:
    on_a_clock = paced.run(race, TWO, turns=7)[0]
show_times({version: middle(each) for version, each in on_a_clock.items()})
measured = median_gain(on_a_clock)
print(f"overlapped gains {measured:.0%}; predicted {gain:.0%}")
if abs(measured - gain) < 0.08:
    print("The clock agrees with the prediction.")
else:
    print(
        "The clock disagrees: this machine was busy with something else. Run the cell again."
    )
assert all(len(each) == 7 for each in on_a_clock.values())

# %%
drawn = {version: middle(each) for version, each in on_a_clock.items()}
step_timeline(drawn, title="The same step on 2 real ranks, over a paced network")

# %% [markdown]
# Sleeping is easy to hide behind. Does it work with *computing*, too? Now the ranks really compute, 1,024 images each.
# How long backward takes here is measured first; then the bandwidth is chosen so that communication takes about as
# long.


# %%
def backward_alone(comm: Communicator) -> float:
    found = race(comm, ("flat",), turns=5, pretend=False)["flat"]
    return statistics.median(
        sum(span.seconds for span in step.of("backward")) for step in found
    )


with World(2) as pair:
    backward = max(pair.run(backward_alone))
link = Link(LINK.latency, whole / backward)
with World(2, network=link) as paced:
    computed = paced.run(race, TWO, turns=9, pretend=False)[0]
print(
    f"backward takes {backward * 1e3:.0f} ms; a link of {link.bandwidth / 1e6:.1f} MB/s"
)
show_times({version: middle(each) for version, each in computed.items()})
measured = median_gain(computed)
print(f"overlapped gains {measured:.0%}")
if measured > 0.42:
    print("That is more than overlap can give: other programs disturbed the ranks.")
elif measured > 0.1:
    print("The messages hide behind real computing, too.")
else:
    print(
        "Little or nothing was hidden: the ranks and other programs compete for the cores."
    )

# %% [markdown]
# ### As fast as the machine goes
#
# And without a paced network? Guess, and then look.

# %%
guess_4 = predict(
    "2 ranks on this machine, no network between them. Faster?", choices=TWO
)

# %%
with World(2) as pair:
    real = pair.run(race, VERSIONS, turns=5, pretend=False)[0]
typical = {version: middle(each) for version, each in real.items()}
measured = median_gain(real)
print(guess_4.compare("overlapped" if measured > 0 else "flat"))
show_times(typical)
if measured > 0:
    print(f"Today overlapped gains {measured:.0%}: there were cores to spare.")
else:
    print(
        f"Today overlapped loses {-measured:.0%}: its all-reduces took cores from backward."
    )
step_timeline(typical, title="The same on 2 real ranks, as fast as this machine goes")

# %% [markdown]
# Be careful with what you see here. No network card carries these messages: a core copies them, and Python directs
# every one of them. So the threads that communicate compete with those that compute. Hiding work does not make it
# vanish. And there is little to hide, since copying inside one machine is fast. Overlap pays when *something else* does
# the work: a network card, or the copy engine of a GPU. (By default NCCL's all-reduce takes some of the GPU's own
# processors, too. [It can be told to take
# fewer](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/flags.html).)
#
# ### The copy to the GPU
#
# There is a second thing to hide: the batch itself. It lies in the memory of the computer, and the GPU has a memory of
# its own. A **copy engine** on the GPU fetches it. It reads physical addresses, without the processor.
#
# An operating system may move an ordinary tensor to other chips, or to the disk, at any moment. Its memory is
# **pageable**. So the engine must not read it. The driver first copies it into a buffer of its own that stays where it
# is: **page-locked** memory, also called **pinned**. Only then does the engine fetch it. The bytes move twice. And with
# pageable memory the driver first waits until what was given to the same **stream** is done (NVIDIA's page on
# synchronization, below). What is given to one stream is done one after the other.
#
#     pageable                  ▒▒▒▒▒▓▓██████▒▒▒▒▒▓▓██████       ▒ the driver's copy
#     page-locked               ▓▓██████▓▓██████                 ▓ the engine's copy
#     page-locked, and ahead    ▓▓██████                         █ the GPU computes
#                                 ▓▓    ██████
#
# `DataLoader(…, num_workers=2, pin_memory=True)` makes the first copy early, in a thread of its own. (Without workers,
# as by default, the training loop itself makes it.) Then `batch.to("cuda", non_blocking=True)` only starts the engine
# and returns. One more thing is needed to fetch the next batch *while* this one computes: a second stream.
#
# How much is that? Take 256 images of 224 × 224 points in three colors, as is usual for ImageNet, 16 lanes of PCIe 4,
# and a processor that copies 10 GB/s. The GPU computes for 15 ms per batch. Rank 0 plays the computer, rank 1 the GPU.

# %%
PCIE = Link(latency=10e-6, bandwidth=25e9)
MEMORY = 10e9  # bytes/s from memory to memory
STEPS = 20


def computer(
    comm: Communicator, batch: torch.Tensor, pageable: bool, ahead: bool
) -> None:
    for _ in range(STEPS):
        if pageable and not ahead:
            comm.barrier()  # until the only stream is done
        if pageable:
            comm.sleep(batch.nbytes / MEMORY)
        comm.send(batch, dst=1)


def gpu(
    comm: Communicator, batch: torch.Tensor, pageable: bool, ahead: bool, compute: float
) -> None:
    for step in range(STEPS):
        if pageable and not ahead:
            comm.barrier()
        if step == 0 or not ahead:
            coming = comm.irecv(batch, src=0)
        coming.wait()
        if ahead and step + 1 < STEPS:
            coming = comm.irecv(batch, src=0)  # a second buffer, a second stream
        comm.sleep(compute)


def fetch_and_compute(
    comm: Communicator, pageable: bool, ahead: bool, compute: float
) -> None:
    batch = torch.empty(256, 3, 224, 224, device="meta")  # a shape without numbers
    if comm.rank == 0:
        computer(comm, batch, pageable, ahead)
    else:
        gpu(comm, batch, pageable, ahead, compute)


# %%
guess_5 = predict(
    "With pageable memory: which part of the time does the GPU compute?", unit="%"
)

# %%
machine = SimulatedWorld(2, Cluster.flat(2, PCIE))
WAYS = {
    "pageable": (True, False),
    "pageable, and ahead": (True, True),
    "page-locked": (False, False),
    "page-locked, and ahead": (False, True),
}
step_ms = {}
for compute in (0.015, 0.3):
    for name, way in WAYS.items():
        machine.run(fetch_and_compute, *way, compute)
        step_ms[name, compute] = 1e3 * machine.elapsed / STEPS
        share = 1e3 * compute / step_ms[name, compute]
        print(
            f"{name:22} {step_ms[name, compute]:6.1f} ms, it computes for {share:.0%}"
        )
print(guess_5.compare(100 * 15 / step_ms["pageable", 0.015]))

# %% tags=["folded"]
# Checks of the numbers above
# First the copies one after the other, then the longer of both
batch_bytes = 256 * 3 * 224 * 224 * 4
staged, fetched = 1e3 * batch_bytes / MEMORY, 1e3 * batch_bytes / PCIE.bandwidth
for compute in (15, 300):
    expected = (
        staged + fetched + compute,
        max(staged + fetched, compute) + min(staged + fetched, compute) / STEPS,
        fetched + compute,
        max(fetched, compute) + fetched / STEPS,
    )
    for name, wanted in zip(WAYS, expected, strict=True):
        assert abs(step_ms[name, compute / 1e3] - wanted) < 0.1
assert staged > 2 * fetched
assert step_ms["pageable", 0.015] > 2.3 * step_ms["page-locked, and ahead", 0.015]
assert 1.06 < step_ms["pageable", 0.3] / step_ms["page-locked, and ahead", 0.3] < 1.08
alone = [step_ms[way, 0.015] for way in ("pageable, and ahead", "page-locked")]
assert 0.9 < alone[0] / alone[1] < 1.1 and staged > 15
assert abs(staged - 15.4) < 0.05 and abs(staged + fetched - 21.6) < 0.05

# %% [markdown]
# Less than half of the time. The larger part of the loss is not the famous bus, but the copy inside the computer that
# no line of the program mentions. Either cure alone does about as much as the other, here, and only both together keep
# the GPU busy. A GPU that computes for 300 ms per batch hardly notices any of it: 7 %.
#
# We let the driver copy the whole batch before the engine begins. One that copies in many small pieces lets the engine
# fetch a piece while it copies the next. Then both copies together take hardly more than the first, 15.4 ms in place of
# 21.6, and "ahead" alone is nearly enough.
#
# The first copy is not gone. The loader's thread does it, and here it takes a little longer than the GPU computes:
# 15.4 ms. So the GPU waits for the loader. More workers do not help: torch's loader has one such thread.
#
# Page-locked memory has a price. Nobody else can use it, and locking it takes time. `batch.pin_memory().to("cuda")` in
# the training loop only moves the driver's copy into your own line. So let the loader do it. And
# without page-locked memory `non_blocking=True` is no error; it just need not be asynchronous.
#
# **Needs a GPU:** the next cell measures it on yours, or shows what was recorded. On yours it ends with the mistake
# that this invites. The engine reads the batch *after* `.to` has returned. Who fills the same buffer with the next
# batch before that, trains on a mixture. (On the card of the recording, all of the last 8 images were the later ones.)
# It is the rule of `isend`: until the copy is done, the buffer belongs to somebody else.

# %% tags=["gpu"]
# Needs a GPU; without one it shows what was recorded on a card
from distlib.gpus import recordings


def copy_ms(batch: torch.Tensor, non_blocking: bool) -> tuple[float, float]:
    """Until `.to` returns, and until the batch is there."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    batch.to("cuda", non_blocking=non_blocking)
    returned = time.perf_counter()
    torch.cuda.synchronize()
    return 1e3 * (returned - start), 1e3 * (time.perf_counter() - start)


if torch.cuda.is_available():
    pageable = torch.ones(256, 3, 224, 224)
    locked = pageable.pin_memory()
    for name, batch in {"pageable": pageable, "page-locked": locked}.items():
        for non_blocking in (False, True):
            copy_ms(batch, non_blocking)  # the first one reserves memory on the GPU
            returned, there = copy_ms(batch, non_blocking)
            print(
                f"{name:11} {non_blocking=}: returns after {returned:.2f} ms,", end=" "
            )
            print(f"there after {there:.2f} ms, {batch.nbytes / there / 1e6:.0f} GB/s")
    on_gpu = locked.to("cuda", non_blocking=True)
    locked[-8:].zero_()  # too early: the engine reads the last images last
    torch.cuda.synchronize()
    zeros = (on_gpu[-8:] == 0).float().mean()
    print(f"{zeros:.0%} of the last 8 images are the zeros that came later")
else:
    recordings.show("copies")

# %% [markdown]
# ### One slow rank
#
# An all-reduce ends when the last rank has brought its gradients. What if one rank computes half as fast as the other?

# %%
guess_6 = predict(
    "Rank 1 needs twice the time to compute. How much longer is the step of rank 0?",
    unit="%",
)


# %%
def with_straggler(factor: float, other: float = 1.0) -> list[StepTimes]:
    cluster = Cluster.flat(2, LINK, stragglers={0: other, 1: factor})
    found = SimulatedWorld(2, cluster, contexts="threads").run(race, ("overlapped",))
    return [steps["overlapped"][0] for steps in found]


slowed = with_straggler(2.0)
longer = slowed[0].seconds / overlapped.seconds - 1
print(guess_6.compare(100 * longer))
print(f"rank 0 computes for {slowed[0].computing * 1e3:.0f} ms,")
print(f"its step takes {slowed[0].seconds * 1e3:.0f} ms")
both = {f"rank {rank}": slowed[rank] for rank in (0, 1)}
step_timeline(both, title="Rank 1 computes half as fast, and rank 0 waits for it")

# %% tags=["folded"]
# Checks of the numbers above
assert abs(slowed[0].seconds - slowed[1].seconds) < 1e-3
assert slowed[1].computing > 1.99 * slowed[0].computing
assert 0.8 < longer < 1.0
dealt = with_straggler(2 * 2 / 3, other=4 / 3)  # 4 images of 6 to rank 0, 2 to rank 1
print(f"images dealt by speed: {dealt[0].seconds * 1e3:.0f} ms")
assert round(dealt[0].seconds * 1e3) == 207 and round(slowed[0].seconds * 1e3) == 304

# %% [markdown]
# Everybody is as slow as the slowest. The gradients of rank 0 are "on their way" most of the time: they wait for those
# of rank 1. Nothing cures that, as long as all have equally many images and wait for all. With two thirds of the images
# on rank 0 the step takes 207 ms in place of 304, but then the gradients must be weighted (lesson 06). Lesson 07 has
# ways that do not wait for all.
#
# **Try it.** Rank 1 is only 10 % slower, as a warm laptop might be. Does the communication hide that? Change the
# factor and compare.

# %%
mine = with_straggler(2.0)  # change the factor
print(f"{mine[0].seconds / overlapped.seconds - 1:.1%} longer")

# %% tags=["folded"]
# One way to do it
# A part of it. Backward is longer, so that it hides more of the messages
mine = with_straggler(1.1)
print(f"{mine[0].seconds / overlapped.seconds - 1:.1%} longer")
assert 0.05 < mine[0].seconds / overlapped.seconds - 1 < 0.08

# %% [markdown]
# ## Several batches, one all-reduce
#
# Sometimes the batch that you want does not fit into memory. Then **accumulate**: several backward passes, one after
# the other, add up their gradients, and only then comes the step. The sum needs to be averaged over the ranks only
# once, at the end. `no_sync()` turns the communication off for the passes before.


# %%
def accumulate(comm: Communicator, microbatches: int) -> torch.Tensor:
    ddp = DistributedDataParallel(comm, make_model(0))
    my_images, my_labels = images[comm.rank : 256 : 4], labels[comm.rank : 256 : 4]
    pieces = list(
        zip(my_images.chunk(microbatches), my_labels.chunk(microbatches), strict=True)
    )
    with ddp.no_sync():
        for some_images, some_labels in pieces[:-1]:
            (cross_entropy(ddp(some_images), some_labels) / microbatches).backward()
    (cross_entropy(ddp(pieces[-1][0]), pieces[-1][1]) / microbatches).backward()
    return torch.cat([parameter.grad.flatten() for parameter in ddp.parameters()])


results = {}
for microbatches in (1, 4):
    results[microbatches] = world.run(accumulate, microbatches)[0]
    print(
        f"{microbatches} backward passes: rank 0 sends {world.trace.messages_sent[0]} messages"
    )
    results[microbatches, "messages"] = world.trace.messages_sent
assert torch.allclose(results[1], results[4], atol=1e-12)
assert results[1, "messages"] == results[4, "messages"]

# %% [markdown]
# The same gradient, and not one message more. Two warnings. Dividing by the number of pieces is correct only if the
# pieces are equally large. And a batch norm sees the pieces, not the batch: its averages are taken over 16 images here,
# not over 64.
#
# **The forward pass must be inside, too.** torch's documentation of `no_sync` warns of it: torch decides in the
# *forward* pass whether the coming backward pass communicates. Ours decides in the backward pass. Here the input is 1
# on rank 0 and 2 on rank 1, so the gradient is 1 or 2 before averaging and 1.5 after it. First only the backward pass
# is inside, then only the forward pass.


# %%
def half_inside(
    comm: Communicator, make: Callable[[nn.Module], nn.Module]
) -> tuple[float, float]:
    ddp, inputs = make(nn.Linear(1, 1, bias=False)), torch.full((1, 1), 1.0 + comm.rank)
    weight = next(ddp.parameters())
    loss = ddp(inputs).sum()  # forward outside
    with ddp.no_sync():
        loss.backward()  # backward inside
    backward_inside = weight.grad.item()
    ddp.zero_grad()
    with ddp.no_sync():
        loss = ddp(inputs).sum()  # forward inside
    loss.backward()  # backward outside
    return backward_inside, weight.grad.item()


def torchs_and_ours(comm: Communicator) -> list[tuple[float, float]]:
    with torch_distributed(comm, "gloo"):
        theirs = half_inside(comm, nn.parallel.DistributedDataParallel)
    return [
        theirs,
        half_inside(comm, lambda model: DistributedDataParallel(comm, model)),
    ]


pair = World(2)
theirs, ours = zip(*pair.run(torchs_and_ours), strict=True)
print("only backward inside, only forward inside:")
print(f"    torch's DDP: rank 0 {theirs[0]}, rank 1 {theirs[1]}")
print(f"    ours:        rank 0 {ours[0]}, rank 1 {ours[1]}")
assert theirs == ((1.5, 1.0), (1.5, 2.0)) and ours == ((1.0, 1.5), (2.0, 1.5))

# %% [markdown]
# So with torch nothing is wrong with the first gradient, but nothing is saved either. The second is wrong: it was never
# averaged, and the ranks drift apart. No error tells you of either. Write both passes inside, or both outside.
#
# ## When ranks are not alike
#
# **A rank runs out of batches.** Rank 3 has two batches, the others three. Rank 3 leaves the loop, and the others wait
# for it:


# %%
def uneven(comm: Communicator, with_join: bool) -> int:
    ddp = DistributedDataParallel(comm, make_model(0))
    batches = batches_of(slice(comm.rank, None, 4), steps=3 - (comm.rank == 3))
    steps = 0
    for batch_images, batch_labels in ddp.join(batches) if with_join else batches:
        cross_entropy(ddp(batch_images), batch_labels).backward()
        steps += 1
    return steps


try:
    world.run(uneven, False)
except DeadlockError as error:
    print(error)
    assert "rank 3" in str(error)

# %% [markdown]
# With `join` a rank that has no batch left goes on taking part. It brings zeros.

# %%
joined = world.run(uneven, True)
print("steps with a batch:", joined)
assert joined == [3, 3, 3, 2]

# %% [markdown]
# By what is the sum divided then? Two ranks; every gradient is 4. Rank 0 has two batches, rank 1 has one. In the second
# step rank 0 brings 4 and rank 1 zero.

# %%
guess_7 = predict(
    "With torch's Join, as it is by default: rank 0's gradient in the second step?",
    choices=["4", "2"],
)


# %%
def last_gradient(comm: Communicator, **options: bool) -> tuple[float, float]:
    four, mine = torch.full((1, 1), 4.0), range(2 - comm.rank)
    with torch_distributed(comm, "gloo"):
        theirs = nn.parallel.DistributedDataParallel(nn.Linear(1, 1, bias=False))
        with Join([theirs], **options):
            for _ in mine:
                theirs.zero_grad()
                theirs(four).sum().backward()
    ours = DistributedDataParallel(comm, nn.Linear(1, 1, bias=False))
    for _ in ours.join(mine):
        ours.zero_grad()
        ours(four).sum().backward()
    return theirs.module.weight.grad.item(), ours.module.weight.grad.item()


by_default = pair.run(last_gradient)[0]
by_those_left = pair.run(last_gradient, divide_by_initial_world_size=False)[0]
print(guess_7.compare(f"{by_default[0]:g}"))
print("torch's Join, by default:                ", by_default[0])
print("with divide_by_initial_world_size=False: ", by_those_left[0])
print("ours:                                    ", by_default[1])
assert by_default == (2.0, 4.0) and by_those_left == (4.0, 4.0)

# %% [markdown]
# torch divides by the number of ranks at the start, also when fewer bring a batch. Then every *image* has the same
# weight in the epoch, if all batches are equally large. Ours divides by the ranks that had a batch. Then every training
# step has a full-sized gradient. Neither is wrong; you must know which one you have.
#
# **A parameter gets no gradient**, because the loss does not depend on it. Then its bucket is never full. Every user of
# torch's DDP meets that error one day.

# %%
guess_8 = predict(
    "A layer is never used. When does torch's DDP complain?",
    choices=["first forward", "first backward", "second forward", "second backward"],
)


# %%
class WithUnused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.used(inputs)


def two_steps(ddp: nn.Module) -> list[str]:
    events = []
    try:
        for step in ("first", "second"):
            events.append(f"{step} forward")
            loss = ddp(torch.ones(1, 4)).sum()
            events.append(f"{step} backward")
            loss.backward()
    except RuntimeError as error:
        events.append(str(error))
    return events


def with_torch(comm: Communicator) -> list[str]:
    with torch_distributed(comm, "gloo"):
        return two_steps(nn.parallel.DistributedDataParallel(WithUnused()))


def with_ours(comm: Communicator, **options: bool) -> list[str]:
    return two_steps(DistributedDataParallel(comm, WithUnused(), **options))


with World(2) as two:
    complaint = two.run(with_torch)[0]
print(guess_8.compare(complaint[-2]))
print("\n  ".join(complaint[:-1]), "\n ", complaint[-1].split(". ")[0])
print("\nOurs:", *pair.run(with_ours)[0], sep="\n  ")
allowed = pair.run(with_ours, find_unused_parameters=True)[0]
print("\nOurs, with find_unused_parameters=True:", *allowed, sep="\n  ")

# %% tags=["folded"]
# Checks of what was said above
famous = (
    "Expected to have finished reduction in the prior iteration before starting a new"
)
assert complaint[:3] == ["first forward", "first backward", "second forward"]
assert complaint[3].startswith(famous)
assert pair.run(with_ours)[0][1] == "first backward" and len(allowed) == 4
assert "unused.weight" in pair.run(with_ours)[0][2]

# %% [markdown]
# torch lets the first backward pass end: the bucket with the missing gradients is still waiting, and nobody looks. The
# next forward pass finds it unfinished. So the message speaks of "the prior iteration". Remember its wording; its cause
# is one step back. (If only some ranks leave the layer out, only they get the message. The others wait in that backward
# pass, for a bucket that does not come.) Ours complains at the end of the backward pass and names the parameter. In
# both, `find_unused_parameters=True` allows it. A gradient that is missing on *some* ranks then counts as zeros there.
# One that is missing on *all* ranks, as here, stays `None`, and the optimizer leaves that parameter alone, weight decay
# and all.


# %% tags=["folded"]
# Both cases, with torch's and ours
# `unused` is used nowhere, `some` on rank 0 only
class PartlyUsed(WithUnused):
    def __init__(self) -> None:
        super().__init__()
        self.some = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor, with_some: bool) -> torch.Tensor:
        return self.used(inputs) + (self.some(inputs) if with_some else 0)


def missing_gradients(comm: Communicator, ddp: nn.Module) -> tuple[bool, float, float]:
    """Whether `unused` has no gradient, how far AdamW moves it, and the gradient of `some`."""
    before = ddp.module.unused.weight.detach().clone()
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.1, weight_decay=0.5)
    ddp(torch.ones(1, 4), comm.rank == 0).sum().backward()
    optimizer.step()
    moved = (ddp.module.unused.weight.detach() - before).abs().max().item()
    gradient = ddp.module.some.weight.grad
    return ddp.module.unused.weight.grad is None, moved, gradient[0, 0].item()


def both_missing(comm: Communicator) -> list[tuple[bool, float, float]]:
    options = dict(find_unused_parameters=True)
    with torch_distributed(comm, "gloo"):
        theirs = nn.parallel.DistributedDataParallel(PartlyUsed(), **options)
        ours = DistributedDataParallel(comm, PartlyUsed(), **options)
        return [missing_gradients(comm, ddp) for ddp in (theirs, ours)]


for by_torch_and_us in pair.run(both_missing):
    assert by_torch_and_us == [(True, 0.0, 0.5)] * 2  # 0.5: the mean of 1 and 0

# %% [markdown]
# **A gradient is NaN.** A loss of 0/0 on one rank makes the sum NaN on all ranks, and with it all weights. torch's DDP
# does not look for that. Ours does, and names the rank it came from:


# %%
def nan_on_rank_1(comm: Communicator) -> None:
    ddp = DistributedDataParallel(comm, make_model(0))
    my_images = images[comm.rank : 8 : 4] / (0.0 if comm.rank == 1 else 1.0)
    cross_entropy(ddp(my_images), labels[comm.rank : 8 : 4]).backward()


try:
    world.run(nan_on_rank_1)
except RankError as error:
    print(error)
    assert "on rank 1 (" in str(error)

# %% [markdown]
# ## Buffers
#
# A batch norm keeps running averages of what it has seen: **buffers**, not parameters. Every rank sees other images.
# DDP averages gradients; what does it do with buffers?


# %%
def running_mean(comm: Communicator, steps: int, torchs: bool = False) -> float:
    model = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 10)).double()
    if torchs:
        ddp = nn.parallel.DistributedDataParallel(model)
    else:
        ddp = DistributedDataParallel(comm, model)
    for some_images, wanted in batches_of(
        slice(comm.rank, None, comm.world_size), steps
    ):
        cross_entropy(ddp(some_images.flatten(1)), wanted).backward()
    return model[0].running_mean.mean().item()


def torchs_running_mean(comm: Communicator, steps: int) -> float:
    with torch_distributed(comm, "gloo"):
        return running_mean(comm, steps, torchs=True)


alone = nn.BatchNorm1d(64).double()
for some_images, _ in batches_of(slice(0, None, 4), 10):
    alone(some_images.flatten(1))
by_rank = world.run(running_mean, 10)
with_torch_by_rank = world.run(torchs_running_mean, 10)
print("running mean on each rank:        ", [f"{each:.5f}" for each in by_rank])
print(
    "with torch's DDP:                 ", [f"{each:.5f}" for each in with_torch_by_rank]
)
print(f"of a process with rank 0's images: {alone.running_mean.mean().item():.5f}")

# %% tags=["folded"]
# Checks of the numbers above
assert len({f"{each:.5f}" for each in by_rank}) == 4
pairs = zip(by_rank, with_torch_by_rank, strict=True)
assert all(abs(ours - theirs) < 1e-12 for ours, theirs in pairs)
assert abs(by_rank[0] - alone.running_mean.mean().item()) < 1e-12

# %% [markdown]
# Nothing is averaged. Before each forward pass rank 0's buffers are copied to all; then each rank adds its own batch.
# So the ranks differ by one batch, and the value that counts is made from rank 0's images alone. The other ranks'
# images leave no trace in it. (torch does the same. With `no_sync` some of the copies are left out, and the ranks
# differ by several batches. Where it matters, `torch.nn.SyncBatchNorm` averages over all ranks, on GPUs only.)
#
# ## Stop and resume
#
# All ranks have the same model. So rank 0 saves it alone; after a restart it loads the file and sends it to all. Four
# ranks train 6 steps. Then once more: 3 steps, save, a *new* job, load, 3 steps. Are the weights the same?


# %%
def train_and_save(
    comm: Communicator,
    steps: range,
    load: Path | None,
    save: Path | None,
    make: Callable[[int], nn.Module] = make_model,
) -> torch.Tensor:
    ddp = DistributedDataParallel(comm, make(0))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    if load is not None:
        steps = range(load_checkpoint(comm, load, ddp, optimizer)["step"], steps.stop)
    batches = batches_of(slice(comm.rank, None, comm.world_size), steps.stop)
    for some_images, wanted in batches[steps.start :]:
        optimizer.zero_grad()
        cross_entropy(ddp(some_images), wanted).backward()
        optimizer.step()
    if save is not None:
        save_checkpoint(comm, save, ddp, optimizer, step=steps.stop)
    return weights(ddp)


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "after_3_steps.pt"
    straight = world.run(train_and_save, range(6), None, None)
    world.run(train_and_save, range(3), None, file)
    with World(4) as restarted:
        resumed = restarted.run(train_and_save, range(6), file, None)
    saved = torch.load(file)
print(
    "saved:",
    list(saved),
    "- equal to the last bit:",
    torch.equal(resumed[3], straight[3]),
)
assert all(torch.equal(each, straight[0]) for each in resumed)

# %% [markdown]
# They are, since the state of model and optimizer is all that this training remembers. A dropout draws from a random
# generator, whose state is not in our checkpoint. Then the resumed training goes another way. And a
# `DistributedSampler` needs the right `set_epoch` after the restart.

# %% tags=["folded"]
# The same with a dropout
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "after_3_steps.pt"
    unbroken = world.run(train_and_save, range(6), None, None, with_dropout)[0]
    world.run(train_and_save, range(3), None, file, with_dropout)
    again = world.run(train_and_save, range(6), file, None, with_dropout)[0]
print(f"with dropout: largest difference {float((again - unbroken).abs().max()):.1e}")
assert (again - unbroken).abs().max() > 1e-3

# %% [markdown]
# **Try it.** A checkpoint without the optimizer's state is a common mistake. Leave it out: load only
# `saved["module"]` into a model, start with a fresh optimizer, and take steps 3, 4 and 5 in one process, each with 64
# images. How far off are the weights?

# %%
fresh = make_model(seed=0)
take_steps(fresh, batches_of(slice(None), 6)[3:])  # what is missing before this line?
print(f"largest difference {float((weights(fresh) - straight[0]).abs().max()):.1e}")

# %% tags=["folded"]
# One way to do it
# The momentum is missing, and nothing fails
fresh = make_model(seed=0)
fresh.load_state_dict(saved["module"])
take_steps(fresh, batches_of(slice(None), 6)[3:])
off = float((weights(fresh) - straight[0]).abs().max())
print(f"largest difference {off:.1e}")
assert off > 1e-3

# %% [markdown]
# ## In real frameworks
#
# `torch.nn.parallel.DistributedDataParallel` has what you have seen: buckets, hooks, `no_sync`, `join`. But its buckets
# are cleverer than ours. Ours follow the order of *registration*, backwards. What if a model uses its layers in a
# different order? Here is one that uses them the other way around: the layer that is registered last runs first, so its
# gradient comes last. Six layers of 256 KiB, and buckets that are full at 0.5 MiB.

# %%
guess_9 = predict(
    "Into how many buckets does torch put the gradients in the very first step?",
    choices=["1", "3", "6"],
)


# %%
class OtherWayAround(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256, bias=False) for _ in range(6))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in reversed(self.layers):
            inputs = layer(inputs)
        return inputs


def torchs_buckets(comm: Communicator, **options: float) -> list[list[list[int]]]:
    """For each of three steps, for each bucket, which layers are in it."""
    steps: list[list[list[int]]] = []
    with torch_distributed(comm, "gloo") as dist:
        ddp = nn.parallel.DistributedDataParallel(OtherWayAround(), **options)
        number = {layer.weight: index for index, layer in enumerate(ddp.module.layers)}

        def note(
            state: object, bucket: torch.distributed.GradBucket
        ) -> Future[torch.Tensor]:
            steps[-1].append([number[parameter] for parameter in bucket.parameters()])
            mean = bucket.buffer().div_(comm.world_size)
            done = dist.all_reduce(mean, async_op=True).get_future()
            return done.then(lambda future: future.value()[0])

        ddp.register_comm_hook(None, note)
        for _ in range(3):
            steps.append([])
            ddp(torch.ones(1, 256)).sum().backward()
    return steps


# %%
def show_buckets(title: str, **options: float) -> list[list[list[int]]]:
    found = pair.run(torchs_buckets, **options)[0]
    print(title)
    for step, in_step in enumerate(found):
        mib = [len(layers) / 4 for layers in in_step]
        print(f"    step {step}: layers {in_step}, {mib} MiB")
    return found


half = show_buckets("bucket_cap_mb=0.5", bucket_cap_mb=0.5)
default = show_buckets("default")
print(guess_9.compare(str(len(half[0]))))
ours = assign_buckets([256 << 10] * 6, bucket_bytes=512 << 10)
print("ours, in every step:", ours)

# %% tags=["folded"]
# Checks of what was said above
assert [sorted(layers) for layers in half[0]] == [list(range(6))]
assert half[1] == half[2] and [set(layers) for layers in half[1]] == [
    {0, 1},
    {2, 3},
    {4, 5},
]
assert [len(layers) for layers in default[1]] == [4, 2]
assert ours == [[5, 4], [3, 2], [1, 0]]

# %% [markdown]
# In its first step torch puts everything into **one** bucket (of each dtype). It is "flat", and hides nothing.
# Meanwhile it notes the order in which gradients arrive. Before the second forward pass it builds the buckets anew, in
# that order: layers 0 and 1 come first, because their gradients do. Ours waits for layers 5 and 4, whose gradients come
# last:


# %%
def what_ours_hides(comm: Communicator, model: nn.Module, limit: int) -> float:
    clock = StepClock(comm, model, {f"layers.{index}": 0.01 for index in range(6)})
    limits = dict(bucket_bytes=limit, first_bucket_bytes=limit)
    ddp = DistributedDataParallel(comm, model, algorithm=clock.noted("ring"), **limits)
    with clock.step():
        ddp(torch.ones(1, 256)).sum().backward()
    return clock.steps[0].hidden / clock.steps[0].communicating


class InOrder(OtherWayAround):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


for model in (InOrder(), OtherWayAround()):
    hidden = simulated.run(what_ours_hides, model, 512 << 10)[0]
    print(f"{type(model).__name__:15} ours hides {hidden:.0%} of its communication")
    assert hidden > 0.5 if type(model) is InOrder else hidden == 0

# %% [markdown]
# So with ours, register layers in the order in which you use them. Torch's rebuilding makes that unnecessary.
#
# The smaller first bucket, 1 MiB, comes only with the default cap: 1.0 and 0.5 MiB in the second table. With a cap of
# your own all buckets have that cap. (It is no upper bound: as with ours, the last parameter may go beyond it. With
# this cap of 0.5 MiB layers of 0.4 MiB go in twos.) In torch 2.13 you find it in `torch/nn/parallel/distributed.py`:
# `compute_bucket_size_limits` gives one limit, `sys.maxsize`, unless `find_unused_parameters` is set, and
# `first_bucket_bytes_cap` depends on `is_using_default`.
#
# ### Your ring in torch's DDP
#
# torch's DDP leaves its messages to a **process group**: it hands each bucket over, and the process group all-reduces
# the bucket. So far the process group was gloo. If you leave out `"gloo"`, `torch_distributed(comm)` gives torch a
# process group of this course. This process group sends our messages, so that the trace has them and the world names a
# mistake by rank and line. With `all_reduce=` it takes an algorithm of your own.
#
# Here is a ring as you have written it in exercise 02. torch's DDP sums up its buckets with this ring, and divides by
# the number of ranks itself.


# %%
def my_ring(comm: Communicator, tensor: torch.Tensor) -> None:
    """Sums up a flat tensor over all ranks, in place."""
    size, rank = comm.world_size, comm.rank
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.tensor_split(size)
    for step in range(size - 1):  # reduce-scatter
        mine = chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(chunks[(rank - step) % size], right, incoming, left)
        mine += incoming
    for step in range(size - 1):  # all-gather
        outgoing = chunks[(rank - step + 1) % size]
        comm.exchange(outgoing, right, chunks[(rank - step) % size], left)


# %%
def a_gradient(comm: Communicator, ddp: nn.Module) -> torch.Tensor:
    mine = slice(comm.rank, 128, comm.world_size)
    cross_entropy(ddp(images[mine]), labels[mine]).backward()
    return torch.cat([each.grad.flatten() for each in ddp.parameters()])


def with_gloo(comm: Communicator) -> torch.Tensor:
    with torch_distributed(comm, "gloo"):
        return a_gradient(comm, nn.parallel.DistributedDataParallel(make_model(0)))


def with_my_ring(comm: Communicator) -> torch.Tensor:
    with torch_distributed(comm, all_reduce=my_ring):
        return a_gradient(comm, nn.parallel.DistributedDataParallel(make_model(0)))


def with_our_ddp(comm: Communicator) -> torch.Tensor:
    return a_gradient(comm, DistributedDataParallel(comm, make_model(0)))


def bytes_of_all_reduces() -> int:
    sent = world.trace.by_collective()
    return sent["all_reduce"].nbytes if "all_reduce" in sent else 0


# %%
reference, sent = None, {}
for train in (with_gloo, with_my_ring, with_our_ddp):
    gradient = world.run(train)[0]
    sent[train] = bytes_of_all_reduces()
    reference = gradient if reference is None else reference
    apart = float((gradient - reference).abs().max())
    print(
        f"{train.__name__:13} differs by {apart:.0e}, "
        f"{sent[train]:9,} bytes of all-reduces in the trace"
    )
    assert apart < 1e-14
assert sent[with_gloo] == 0 and sent[with_my_ring] == sent[with_our_ddp] > 0

# %% [markdown]
# The three gradients agree to rounding. gloo's messages are torch's own, so the trace has none of them. The other two
# rows show the same number of bytes, because both DDPs all-reduce each gradient once, and both in a ring.
#
# TensorFlow's `MultiWorkerMirroredStrategy` works in the same way: one model on each device of each worker, gradients
# all-reduced in every training step. Lesson 13 uses it.

# %%
world.close()

# %% [markdown]
# ## In short
#
# - Equal weights that take equal steps stay equal, without being sent.
# - A bucket of gradients travels while the backward pass computes the next ones.
# - Exposed communication costs time. Hidden communication costs little.
# - In every step, all ranks wait for the slowest rank.
# - A rank that runs out of batches leaves the others waiting, unless all have agreed on what happens then.
#
# | version | all-reduces in a training step | can start | waits for |
# |---|---|---|---|
# | one per parameter | as many as parameters | after backward | all of them, with every latency |
# | flat | 1 for each dtype | after backward | all bytes |
# | buckets | about bytes / bucket size, at most one per parameter | after backward | all bytes, some latencies |
# | overlapped | the same | when a bucket is full | the last bucket, and what did not fit behind backward |
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - Equal at the start, equal steps: the weights stay equal without being sent, to the last bit if ranks round alike.
#   Buffers do not: the ranks see other images.
# - The result is that of one process if all ranks have equally many images, the loss is their mean, and layers treat
#   each image by itself (no batch norm) and draw no random numbers (no dropout). With unequal parts some images count
#   more (lesson 06).
# - With a ring and N ranks each sends, on average, 2(N − 1)/N times the model's bytes in a step, in every version.
# - What counts is the time that somebody waits, not the time that messages take.
# - Everybody is as slow as the slowest rank. It helps to give that one fewer images.
# - Overlap pays most when communication takes about as long as backward and something else carries the messages. On a
#   much faster network there is little to hide, on a much slower one little to hide it behind.
# - torch builds its buckets in the order in which gradients arrived in the first step, unless
#   `find_unused_parameters` is set.
# - A batch reaches the GPU faster from page-locked memory, and at the same time as the GPU computes only on a second
#   stream. Where the GPU computes for much longer than the copies take, little is gained: here 7 %.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/05_ddp/05_ddp.ipynb) you average gradients, put parameters into buckets, write the
# overlapped DDP and the sampler, and train with torch's DDP. The tests look at when your messages leave. When they
# pass, compare your class with `PlainDDP`, in the library's file `ddp/plain.py`: the real one is in the files next to
# it. After that comes [Large batches](06_large_batches.ipynb): more ranks mean larger batches, and larger batches train
# differently.
#
# ## Further reading
#
# - S. Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
#   Training](https://arxiv.org/abs/2006.15704), PVLDB 13(12), 2020. How torch's DDP is made, and what was measured.
# - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/notes/ddp.html), torch's notes on its design.
# - [DDP communication hooks](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html).
# - A. Sergeev, M. Del Balso, [Horovod: fast and easy distributed deep learning in
#   TensorFlow](https://arxiv.org/abs/1802.05799), 2018. "Tensor fusion" is its word for buckets, which it fills with
#   what is ready.
# - M. Harris, [How to Optimize Data Transfers in CUDA
#   C/C++](https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/), 2012. Page-locked memory, measured.
# - V. Moens, [A guide on good usage of non_blocking and
#   pin_memory()](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html), with profiles of each way.
# - NVIDIA, [API synchronization behavior](https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html): which
#   copies wait for what.
