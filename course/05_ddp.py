# %% [markdown]
# # DDP: gradients that are averaged while they are computed
#
# While your GPUs send gradients, they do not compute, and while they compute, the network is idle. You pay for both all
# the time. PyTorch's DDP does both at once: the first gradients travel while the GPUs still compute the others. In this
# lesson you build DDP yourself.
#
# > After this lesson you will be able to
# >
# > - train one model on several ranks, and show that the result is that of one process,
# > - say why one all-reduce per parameter is slow, and what buckets do about it,
# > - explain how communication hides behind the backward pass, and measure the exposed rest on a clock,
# > - say how much one slow rank costs,
# > - accumulate the gradients of several batches, and send them once,
# > - train with PyTorch's `DistributedDataParallel`, with an all-reduce of your own below it.
# >
# > **Time:** about 60 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and
# > [Data parallel](04_data_parallel.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import itertools
import statistics
from collections.abc import Callable

import torch
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
)

# %% [markdown]
# ## The idea
#
# In lesson 04 one rank was the master: it sent the model out in every step and took all gradients in. Now nobody is
# the master.
#
#     rank 0   images 0, 4, 8, …   ──► model ──► gradients ─┐                ┌─► the same step
#     rank 1   images 1, 5, 9, …   ──► model ──► gradients ─┤   all-reduce   ├─► the same step
#     rank 2   images 2, 6, 10, …  ──► model ──► gradients ─┤  the average   ├─► the same step
#     rank 3   images 3, 7, 11, …  ──► model ──► gradients ─┘                └─► the same step
#
# Every rank keeps a replica of the model and an optimizer of its own. In each step, every rank computes gradients on
# its own images, the ranks average their gradients, and each rank takes the step by itself. Because the models start
# equal and every rank applies the same average, the models stay equal. No weights are sent after the start. This is
# **distributed data parallel** training, DDP for short.
#
# **Equal weights that take equal steps stay equal, without being sent.**
#
# The model is a small convolutional network, in float64 so that rounding is tiny. A training step has one new line,
# between the backward pass and the optimizer's step:

# %% tags=["folded"]
# The ranks, the digits, and the model
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


def batches_of(part: slice, steps: int) -> Batches:
    """Each batch is 64 images of the training set; `part` says which of the 64."""
    wholes = zip(images.split(64), labels.split(64), strict=True)
    firsts = itertools.islice(wholes, steps)
    return [(some[part], wanted[part]) for some, wanted in firsts]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


# %%
def take_steps(
    model: nn.Module,
    batches: Batches,
    after_backward: Callable[[], None] = nothing,
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch_images, batch_labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(batch_images), batch_labels).backward()
        after_backward()  # the new line: average the gradients
        optimizer.step()


# %% [markdown]
# Each rank starts with the weights of rank 0, takes its part of every batch, and averages:


# %%
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

# %% tags=["folded"]
# Checks of the numbers above
assert difference < 1e-12
assert all(torch.equal(found, by_rank[0]) for found in by_rank)

# %% [markdown]
# Four ranks with 16 images each end with the weights that one process gets from batches of 64, up to rounding. The four
# ranks have *the same* weights, to the last bit.
#
# <details><summary>Where this stops being true</summary>
#
# | with … | then … |
# |---|---|
# | a loss that is a sum, or parts of unequal size | the average is not the gradient of the whole batch (lesson 06) |
# | batch norm, or dropout | each rank normalizes over its own images, or draws random numbers of its own |
# | ranks that round differently | the weights come apart by rounding errors |
#
# The second row has its control in the folded cell below. For the third row we let one rank of two use other
# instructions of its processor, with `ATEN_CPU_CAPABILITY=default`. After 2,000 steps the weights of torch's DDP were
# 2·10⁻⁷ apart.
#
# </details>


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
# **Who takes which images?** `DistributedSampler` deals the data set out without a message. All ranks shuffle with the
# same seed, so that they agree on the order, and rank r takes the entries r, r + N, r + 2N, … of it. Call
# `set_epoch` before each epoch, because otherwise every epoch has the order of epoch 0, and no error appears. [Lesson
# 05b](05b_ddp_in_practice.ipynb) shows the sampler at work, and what it does when the parts are not equal.
#
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
# Exactly as far as at the start. With this optimizer all ranks take the same steps, so the distance stays. Every rank
# trains a model with gradients that were computed for other models, and no error appears. That is why DDP always begins
# with this copy.
#
# <details><summary>Where this stops being true</summary>
#
# | with … | then … |
# |---|---|
# | weight decay | the steps depend on the weights, too, so the distance changes |
# | models of different shapes | our DDP refuses to begin (lesson 05b) |
#
# </details>
#
# ## Fewer, larger all-reduces
#
# `average_per_parameter` is one loop with one all-reduce per parameter, and each all-reduce is a ring. Our model has
# six parameters.

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

# %% tags=["folded"]
# Checks of the numbers above, and below
assert per_step == [6 * 2 * 3] * 4
assert min(parameter.numel() for parameter in model.parameters()) == 8

# %% [markdown]
# A ring sends 2(N − 1) = 6 messages for each of the six parameters. The smallest parameter has 8 numbers, so each of
# its messages carries 2 numbers. Lesson 02 has the reason why this is bad: every round costs a latency, however little
# is sent.
#
# So put gradients together. One extreme is one all-reduce per parameter, with many rounds. The other extreme is **one
# flat buffer** with all gradients: it takes as few rounds as possible, but it can start only when the last gradient is
# there. In between are **buckets**:
#
# - Gradients appear from the last layer to the first, so a bucket takes parameters from the end of the list.
# - A bucket is full as soon as it holds at least its limit. Then the next bucket begins.
# - The first bucket may have a smaller limit, so that communication can begin early.
#
# **A bucket sends all of its gradients for the latency of one all-reduce.**

# %%
sizes = [parameter.nbytes for parameter in model.parameters()]
buckets = assign_buckets(sizes, bucket_bytes=8_000, first_bucket_bytes=1_000)
for number, bucket in enumerate(buckets):
    in_bucket = sum(sizes[index] for index in bucket)
    print(f"bucket {number}: parameters {bucket}, {in_bucket:,} bytes")
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
sent = {}
print("version          messages   bytes per rank   rounds, all in one training step")
for version in VERSIONS:
    world.run(train, version, 1, **limits)
    one = world.trace
    world.run(train, version, 2, **limits)
    two = world.trace
    messages = two.messages_sent[0] - one.messages_sent[0]
    nbytes = two.bytes_sent[0] - one.bytes_sent[0]
    print(f"{version:16} {messages:8} {nbytes:16,} {two.rounds - one.rounds:8}")
    sent[version] = messages, sum(two.bytes_sent) - sum(one.bytes_sent)
print(guess_2.compare("all the same"))

# %% tags=["folded"]
# Checks of the numbers above
all_reduces = {"per_parameter": 6, "flat": 1, "bucketed": 3, "overlapped": 3}
for version, (messages, in_all) in sent.items():
    assert messages == 6 * all_reduces[version]
    assert in_all == 2 * 3 * total

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
# The versions "bucketed" and "overlapped" send the same buckets. They differ in *when* they send.
#
# The gradients of the last layer are complete long before the gradients of the first layer, and nothing changes them
# any more. So why wait? As soon as a bucket is full, its all-reduce can start, while the backward pass goes on.
#
#     backward         layer 4   layer 3   layer 2   layer 1 ┐
#     communication                bucket 0 ▒▒▒▒▒▒▒  bucket 1│▒▒▒▒▒▒▒  bucket 2 ▒▒▒▒▒▒▒ ┐
#                                                            └ only from here on does the rank wait
#
# **A bucket of gradients travels while the backward pass computes the next ones.** Two tools make it possible.
#
# - **A hook:** torch calls a function of ours when the gradient of a parameter is complete:
#   `parameter.register_post_accumulate_grad_hook(function)`.
# - **An all-reduce that is only started:** `all_reduce(comm, tensor, async_op=True)` returns a handle at once, and
#   `handle.wait()` returns when the sum is there. Each rank has a second thread for the messages, so that one thread
#   computes while the other communicates.
#
# Here is the order of events on one rank, with one all-reduce for each parameter of a small network.


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
# Every rank must start its all-reduces in the same order, because otherwise the messages of different buckets would
# meet. But gradients may appear in a different order on another rank. So DDP starts a bucket only after the buckets
# before it, even when it is full earlier.
#
# ### How much does it hide?
#
# The answer depends on the network. Take one where waiting hurts: two computers with a wireless link, 0.3 ms and
# 16 MB/s. The model has 25 layers and 1.5 MiB. The computing time of a layer follows from its size, and its backward
# pass takes twice as long as its forward pass. First we look in virtual time. `StepClock` notes when the rank computes
# and when gradients are on their way. Communication that is not hidden behind computing is called **exposed
# communication**.

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
# `race`, in the folded cell, trains with several versions that take turns, so that a disturbance on this machine meets
# all of them. With `pretend` the layers *sleep* for their computing time, as virtual time needs it.

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
    print("version          step, ms   computing   communicating   hidden   exposed")
    for name, step in steps.items():
        exposed = step.communicating - step.hidden
        times = (step.seconds, step.computing, step.communicating, step.hidden, exposed)
        a, b, c, d, e = (1000 * each for each in times)
        print(f"{name:15} {a:9.1f} {b:11.1f} {c:15.1f} {d:8.1f} {e:9.1f}")


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

# %% tags=["folded"]
# The picture of three of the steps
shown = {version: steps[version] for version in ("flat", "bucketed", "overlapped")}
step_timeline(shown, title="One training step on rank 0, three ways, in virtual time")

# %% [markdown]
# Buckets alone make the step *longer* than "flat", because "bucketed" pays more latencies and starts no earlier.
# Buckets pay off only because they can leave during the backward pass. Then a third of the step is gone.
#
# Look at "flat" once more. It communicates for the shortest time of all and is still slower than "overlapped", because
# all of its communication is exposed.
#
# **Exposed communication costs time. Hidden communication costs little.**
#
# Could we gain more? The last bucket is full only when the backward pass is over, so every rank has to wait for it. Of
# the communication that *can* be hidden with these buckets, how much is?

# %%
share = overlapped.hidden / overlapped.hideable
hidden_ms, at_best = overlapped.hidden * 1e3, overlapped.hideable * 1e3
print(f"hidden {hidden_ms:.1f} of {at_best:.1f} ms: {share:.0%}")
in_flight = flat.communicating / flat.seconds
print(f"all hidden would take {in_flight:.0%} off the step of flat")

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
for step in steps.values():  # a step computes, and then waits for what is exposed
    exposed = step.communicating - step.hidden
    assert abs(step.seconds - step.computing - exposed) < 1e-3

# %% [markdown]
# How much overlap gains depends on how long communication takes compared with the backward pass. Here is the same
# model on other networks, and on more ranks:

# %%
TWO = ("flat", "overlapped")
gains = {}
for ranks, bandwidth in ((2, 4e6), (2, 16e6), (2, 64e6), (2, 1e9), (4, 16e6)):
    cluster = Cluster.flat(ranks, Link(3e-4, bandwidth))
    found = SimulatedWorld(ranks, cluster, contexts="threads").run(race, TWO)[0]
    seconds = {version: found[version][0].seconds for version in TWO}
    gained = gains[ranks, bandwidth] = 1 - seconds["overlapped"] / seconds["flat"]
    print(f"{ranks} ranks, {bandwidth / 1e6:5.0f} MB/s: gain {gained:4.0%}")

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
# On a fast network there is little to hide. On a slow network there is little computing to hide the messages behind.
# With 4 ranks instead of 2, each rank sends 1.5 times as many bytes, and each bucket takes more rounds. More bytes and
# more rounds each cost about half of what is lost.
#
# ### The best bucket
#
# Small buckets start early and pay many latencies. Large buckets pay few latencies and start late. So here the
# best size is in between:

# %% tags=["folded"]
# The time of a step by the size of the buckets
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
# Here it is safer to err on the small side: the latency is short, and a bucket never holds less than one whole weight,
# which is 64 KiB in most of the layers. PyTorch's default, 25 MiB, suits models of hundreds of megabytes. On ours it
# gains 13 % instead of 34 %.
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
# Now we take real processes and real messages. `World(2, network=LINK)` holds messages back, so that they take as long
# as on that link. The layers still sleep for their computing time, so that the result does not depend on how busy your
# cores are. The step should take as long as virtual time has predicted.


# %% tags=["folded"]
# The step in the middle, and the gain in the middle
def middle(steps: list[StepTimes]) -> StepTimes:
    return sorted(steps, key=lambda step: step.seconds)[len(steps) // 2]


def median_gain(found: Steps) -> float:
    pairs = zip(found["flat"], found["overlapped"], strict=True)
    return statistics.median(
        1 - after.seconds / before.seconds for before, after in pairs
    )


# %%
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
# Sleeping is easy to hide behind. Does it work with *computing*, too? In the next cell, which is folded, the ranks
# really compute, with 1,024 images each. It measures the backward pass first and then chooses the bandwidth so that
# communication takes about as long.


# %% tags=["folded"]
# Ranks that really compute, on a paced network
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
step_timeline(typical, title="The same on 2 real ranks, as fast as this machine goes")

# %% tags=["folded"]
# What the sign of the gain says
if measured > 0:
    print(f"Today overlapped gains {measured:.0%}: there were cores to spare.")
else:
    print(
        f"Today overlapped loses {-measured:.0%}: its all-reduces took cores from backward."
    )

# %% [markdown]
# Be careful with what you see here. No network card carries these messages: a core copies them, and Python directs
# every one of them. So the threads that communicate compete with the threads that compute, and hiding the work does not
# make it vanish. Overlap pays when *something else* does the work: a network card, or the copy engine of a GPU.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | NCCL all-reduces, as it is by default | it takes some of the GPU's own processors from computing |
# | ranks share one machine | there is little to hide, because copying inside one machine is fast |
#
# NCCL [can be told to take
# fewer](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/flags.html) processors.
#
# </details>
#
# A GPU has something else to hide: the copy of the next batch into its memory. [Lesson
# 05b](05b_ddp_in_practice.ipynb) plays and measures it.
#
# ## One slow rank
#
# An all-reduce ends when the last rank has brought its gradients. What if one rank computes half as fast as the other?

# %%
guess_5 = predict(
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
print(guess_5.compare(100 * longer))
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
# **In every step, all ranks wait for the slowest rank.** The gradients of rank 0 are "on their way" most of the time,
# because they wait for the gradients of rank 1.
#
# Fewer images for the slow rank are one cure. With two thirds of the images on rank 0, the step takes 207 ms instead of
# 304 ms, but then the gradients must be weighted (lesson 06). [Lesson 07](07_without_waiting.ipynb) is about methods
# that do not wait for all ranks.
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
# Sometimes the batch that you want does not fit into memory. Then **accumulate**: cut the batch into **microbatches**,
# make one backward pass for each, and let their gradients add up before the optimizer takes its step. The ranks need
# the average only once, at the end. `no_sync()` turns the communication off for all microbatches but the last.


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
    gradient = world.run(accumulate, microbatches)[0]
    messages = world.trace.messages_sent[0]
    print(f"{microbatches} backward passes: rank 0 sends {messages} messages")
    results[microbatches] = gradient, messages

# %% tags=["folded"]
# Checks of what is said below
assert torch.allclose(results[1][0], results[4][0], atol=1e-12)
assert results[1][1] == results[4][1]

# %% [markdown]
# The gradient is the same, and rank 0 sends not one message more.
#
# **Gradients of several backward passes add up on their rank, and travel once.**
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
# **The forward pass must be inside, too.** torch decides in the *forward* pass whether the coming backward pass
# communicates, as its documentation of `no_sync` warns. Ours decides in the backward pass. In the next
# run the input is 1 on rank 0 and 2 on rank 1, so the gradient is 1 or 2 before averaging and 1.5 after it. First
# only the backward pass is inside `no_sync`, then only the forward pass.


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


# %% tags=["folded"]
# The run, with torch's DDP and with ours
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
# With torch, nothing is wrong with the first gradient, but nothing is saved either. The second gradient is wrong,
# because it was never averaged, and the ranks drift apart. No error tells you of either mistake. Write both passes
# inside, or both outside.
#
# ## In real frameworks
#
# `torch.nn.parallel.DistributedDataParallel` has what you have seen: the copy at the start, hooks, buckets, `no_sync`.
# It needs no `comm`, because it finds the **process group** that the program has opened. DDP hands each bucket over to
# the process group, and the process group all-reduces it. In `with_gloo` below, the process group is gloo, which comes
# with torch.
#
# If you leave out `"gloo"`, `torch_distributed(comm)` gives torch a process group of this course. Our process group
# sends our messages, so that the trace has them and the world names a mistake by rank and line. With `all_reduce=` it
# takes an algorithm of your own.
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


# %% tags=["folded"]
# The three gradients, and how many bytes the trace has of each
def bytes_of_all_reduces() -> int:
    sent = world.trace.by_collective()
    return sent["all_reduce"].nbytes if "all_reduce" in sent else 0


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
# - Gradients of several backward passes add up on their rank, and travel once.
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
# - The result is that of one process if all ranks have equally many images, the loss is their mean, and layers treat
#   each image by itself (no batch norm) and draw no random numbers (no dropout). With unequal parts some images count
#   more (lesson 06).
# - With a ring and N ranks each sends, on average, 2(N − 1)/N times the model's bytes in a step, in every version.
# - What counts is the time that somebody waits, not the time that messages take.
# - Everybody is as slow as the slowest rank. It helps to give that rank fewer images.
# - Overlap pays most when communication takes about as long as backward and something else carries the messages. On a
#   much faster network there is little to hide, on a much slower one little to hide it behind.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/05_ddp/05_ddp.ipynb) you average gradients, write the overlapped DDP, and train with
# torch's DDP. The tests look at when your messages leave. When they pass, compare your class with `PlainDDP`, in the
# library's file `ddp/plain.py`: the real one is in the files next to it. After that comes [Large
# batches](06_large_batches.ipynb): more ranks mean larger batches, and larger batches train differently.
#
# [Lesson 05b](05b_ddp_in_practice.ipynb) is a side road: the sampler, ranks that run out of batches, parameters without
# a gradient, buffers, resuming to the last bit, the copy to the GPU, and how torch builds its buckets. In [its
# exercise](../exercises/05b_ddp_in_practice/05b_ddp_in_practice.ipynb) you write the sampler, and put parameters into
# buckets.
#
# ## Further reading
#
# - S. Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
#   Training](https://arxiv.org/abs/2006.15704), PVLDB 13(12), 2020. How torch's DDP is made, and what was measured.
# - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/notes/ddp.html), torch's notes on its design.
# - A. Sergeev, M. Del Balso, [Horovod: fast and easy distributed deep learning in
#   TensorFlow](https://arxiv.org/abs/1802.05799), 2018. "Tensor fusion" is its word for buckets, which it fills with
#   what is ready.
