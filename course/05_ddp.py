# %% [markdown]
# # DDP: gradients that are averaged while they are computed
#
# After this lesson you will be able to
#
# - train one model on several ranks, and show that the result is that of one process,
# - say why one all-reduce a parameter is slow, and what buckets do about it,
# - explain how the communication hides behind the backward pass, and measure how much of it does,
# - deal out a data set, accumulate gradients, and cope with ranks that run out of batches,
# - put an all-reduce of your own into torch's `DistributedDataParallel`.
#
# **Time:** about 75 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and
# [Data parallel](04_data_parallel.ipynb). No GPU.

# %%
import time
from collections.abc import Callable

import torch
from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    RankError,
    SimulatedWorld,
    World,
    all_reduce,
)
from distlib.buckets import assign_buckets
from distlib.datasets import digits
from distlib.ddp import (
    VERSIONS,
    DistributedDataParallel,
    StepClock,
    StepTimes,
    all_reduce_hook,
    average_per_parameter,
    copy_from_rank_0,
)
from distlib.draw import predict, step_timeline, sweep
from distlib.process_group import torch_distributed
from distlib.sampler import DistributedSampler
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

world = World(4)

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
train_set, test_set = digits()
images, labels = train_set.images.double(), train_set.labels


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = [
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    ]
    return nn.Sequential(*layers).double()


def nothing() -> None:
    """What a single process does between the backward pass and the step."""


def take_steps(
    model: nn.Module,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    after_backward: Callable[[], None] = nothing,
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch_images, batch_labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(batch_images), batch_labels).backward()
        after_backward()
        optimizer.step()


def batches_of(part: slice, steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each batch is 64 images of the training set; `part` says which of the 64."""
    return [
        (
            images[64 * step : 64 * (step + 1)][part],
            labels[64 * step : 64 * (step + 1)][part],
        )
        for step in range(steps)
    ]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def train_on_ranks(
    comm: Communicator, steps: int, same_start: bool = True
) -> torch.Tensor:
    model = make_model(seed=comm.rank)  # another model on each rank
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
# Four ranks with 16 images each give the weights that one process gets from 64, up to rounding. And the four ranks
# have *the same* weights, to the last bit.
#
# ### Equal at the start
#
# `copy_from_rank_0` sends rank 0's weights to all. What if you forget it?

# %%
guess = predict(
    "Without it: after 20 steps, how far apart are the weights of ranks 0 and 1, at most?",
    unit="",
)

# %%
apart = world.run(train_on_ranks, 20, same_start=False)
at_the_start = float((weights(make_model(0)) - weights(make_model(1))).abs().max())
at_the_end = float((apart[0] - apart[1]).abs().max())
print(guess.compare(at_the_end))
print(f"at the start {at_the_start:.4f}, after 20 steps {at_the_end:.4f}")
assert abs(at_the_start - at_the_end) < 1e-12

# %% [markdown]
# Exactly as far as at the start. All ranks take the same steps, so the distance stays. Nothing fails, and every rank
# trains a model with gradients that were computed for other models. No error tells you. So DDP always begins with
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
# The images must be dealt out: every image to some rank, equally many to each, and mixed anew in every epoch.
# `DistributedSampler` does this without a message. All ranks mix with the same seed, so they agree on the order, and
# rank r takes the entries r, r + N, r + 2N, … of it.


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


plain = show("10 samples, not mixed", 10, 0, shuffle=False)
first = show("mixed, epoch 0", 10, 0)
second = show("mixed, epoch 1", 10, 1)
dropped = show("epoch 0, the rest dropped", 10, 0, drop_last=True)
assert plain == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
assert first != second
assert [len(part) for part in first] == [3] * 4 and [len(part) for part in dropped] == [
    2
] * 4
assert sorted({index for part in first for index in part}) == list(range(10))

# %% [markdown]
# 10 samples do not make 4 equal parts. Then two of them are used twice (ranks 2 and 3 got 0 and 1 in the first table),
# or two are left out. Both are wrong by a little, and both keep the ranks in step.
#
# Do not forget `set_epoch`. Without it every epoch has the order of epoch 0, and nothing tells you.
#
# With torch's `DataLoader` it looks like this: `sampler=` in the place of `shuffle=True`.


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
# ### Pinned memory
#
# `DataLoader` has two more options that matter with GPUs. `num_workers` loads the next batches in other processes while
# the GPU computes. `pin_memory=True` puts a batch into **page-locked** memory. The operating system may move ordinary
# memory to disk at any time, so a GPU can't read from it by itself: the driver first copies the data to a page-locked
# place. From page-locked memory the GPU copies directly, and with `tensor.to(device, non_blocking=True)` it does so
# while the program goes on. Without a GPU there is nothing to gain, and nothing to measure. The next cell measures
# where it can.

# %%
if torch.cuda.is_available():
    ordinary = torch.empty(64 << 20, dtype=torch.uint8)
    for name, source in (("ordinary", ordinary), ("pinned", ordinary.pin_memory())):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            source.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        print(
            f"{name:8} {10 * len(source) / (time.perf_counter() - start) / 1e9:6.1f} GB/s to the GPU"
        )
else:
    print("There is no GPU here, so pinned memory was not measured.")

# %% [markdown]
# ## Fewer, larger all-reduces
#
# `average_per_parameter` is one loop: an all-reduce for each parameter. Our model has six parameters. Each
# all-reduce is a ring.

# %%
model = make_model(0)
for name, parameter in model.named_parameters():
    print(f"{name:9} {str(tuple(parameter.shape)):15} {parameter.nbytes:6,} bytes")
total = sum(parameter.nbytes for parameter in model.parameters())
print(f"together {total:,} bytes")

# %%
guess = predict(
    "4 ranks, 6 parameters, one step: how many messages does each rank send?",
    unit="messages",
)

# %%
world.run(train_on_ranks, 1)
one = world.trace.messages_sent  # with the copy at the start
world.run(train_on_ranks, 2)
per_step = [b - a for a, b in zip(one, world.trace.messages_sent, strict=True)]
print(guess.compare(per_step[0]))
assert per_step == [6 * 2 * 3] * 4

# %% [markdown]
# 2(N − 1) = 6 messages for each of the six parameters. The smallest parameter has 8 numbers: with four ranks a chunk
# of it is 2 numbers. Lesson 02 has the reason why this is bad: every round costs a latency, however little is sent.
#
# So put gradients together. The two extremes:
#
# - **one all-reduce a parameter:** many rounds,
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
# The library has all of them in one class, `DistributedDataParallel(comm, model, version=…)`. The wrapped model is
# used like the model itself: after `backward()` the gradients are averaged. `train` below runs one version.


# %%
def train(comm: Communicator, version: str, steps: int, **options: int) -> torch.Tensor:
    ddp = DistributedDataParallel(
        comm, make_model(seed=comm.rank), version=version, **options
    )
    take_steps(ddp, batches_of(slice(comm.rank, None, comm.world_size), steps))
    return weights(ddp)


limits = dict(bucket_bytes=8_000, first_bucket_bytes=1_000)
print("version          messages   bytes a rank   rounds, all in one step")
for version in VERSIONS:
    world.run(train, version, 1, **limits)
    one = world.trace
    found = world.run(train, version, 2, **limits)
    two = world.trace
    messages = two.messages_sent[0] - one.messages_sent[0]
    nbytes = two.bytes_sent[0] - one.bytes_sent[0]
    print(f"{version:16} {messages:8} {nbytes:14,} {two.rounds - one.rounds:8}")
    all_reduces = {"per_parameter": 6, "flat": 1, "bucketed": 3, "overlapped": 3}[
        version
    ]
    assert messages == 6 * all_reduces
    assert sum(two.bytes_sent) - sum(one.bytes_sent) == 2 * 3 * total

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
# The gradients of the last layer are there long before those of the first. Nobody changes them any more. So why wait?
# As soon as a bucket is full, its all-reduce can start, and the backward pass goes on meanwhile.
#
#     backward         layer 4   layer 3   layer 2   layer 1 ┐
#     communication                bucket 0 ▒▒▒▒▒▒▒  bucket 1│▒▒▒▒▒▒▒  bucket 2 ▒▒▒▒▒▒▒ ┐
#                                                            └ only from here on does anybody wait
#
# Two tools make it possible.
#
# **A hook.** torch calls a function of ours when the gradient of a parameter is complete:
# `parameter.register_post_accumulate_grad_hook(function)`.
#
# **An all-reduce that is only started.** `all_reduce(comm, tensor, async_op=True)` returns a handle at once, and
# `handle.wait()` returns when the sum is there. Beside the thread that computes, each rank has one that communicates.
#
# Here is the order of events on one rank, with one bucket for each layer of a small network.


# %%
def watch_the_order(comm: Communicator) -> list[str]:
    events, works = [], []
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)
    )

    def gradient_is_there(name: str, parameter: nn.Parameter) -> None:
        events.append(f"gradient of {name}: all-reduce started")
        works.append(all_reduce(comm, parameter.grad, async_op=True))

    for name, parameter in network.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: gradient_is_there(name, p)
        )
    network(torch.ones(1, 8)).sum().backward()
    events.append("backward is over")
    for work in works:
        work.wait()
    events.append("all sums are there")
    return events


events = world.run(watch_the_order)[0]
print("\n".join(events))
assert "4." in events[0] and "4." in events[1] and "0." in events[5]
assert events[-2:] == ["backward is over", "all sums are there"]

# %% [markdown]
# Every rank must start its all-reduces in the same order, or the messages of different buckets would meet. Gradients
# may appear in another order on another rank. So a bucket is started only after those before it, also when it is full
# earlier.
#
# ### How much does it hide?
#
# We look at a step in virtual time: a network of 25 layers on four ranks, connected as four machines would be. Each
# layer has a computing time that follows from its size. `StepClock` notes when the rank computes and when gradients
# are under way.

# %%
WIDTHS = [64, *[128] * 24, 10]
BATCH = 64  # images a rank
SPEED = 20e9  # multiplications and additions a second, each counted
CLUSTER = Cluster.flat(4, Link(latency=100e-6, bandwidth=2e9))


def wide_model() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in zip(WIDTHS, WIDTHS[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def forward_seconds(model: nn.Module) -> dict[str, float]:
    """A linear layer multiplies and adds once for each weight and image."""
    return {
        name: 2 * BATCH * layer.weight.numel() / SPEED
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
    }


def timed_step(
    comm: Communicator, version: str, bucket_bytes: int, in_virtual_time: bool = True
) -> StepTimes:
    model = wide_model()
    clock = StepClock(comm, model, forward_seconds(model) if in_virtual_time else None)
    ddp = DistributedDataParallel(
        comm, model, version=version, bucket_bytes=bucket_bytes, first_bucket_bytes=min(bucket_bytes, 64 << 10),
        algorithm=clock.noted("ring"),
    )  # fmt: skip
    inputs, wanted = torch.randn(BATCH, 64), torch.randint(10, (BATCH,))
    for _ in range(1 if in_virtual_time else 5):
        comm.barrier()
        with clock.step():
            cross_entropy(ddp(inputs), wanted).backward()
    return sorted(clock.steps, key=lambda step: step.seconds)[len(clock.steps) // 2]


# %%
guess = predict(
    "Overlapped: what share of the communication is hidden behind the backward pass?",
    unit="%",
)

# %%
simulated = SimulatedWorld(4, CLUSTER, contexts="threads")
BUCKET = 256 << 10  # bytes
steps = {version: simulated.run(timed_step, version, BUCKET)[0] for version in VERSIONS}
overlapped = steps["overlapped"]
print(guess.compare(100 * overlapped.hidden / overlapped.communicating))

print("version          step, ms   computing   communicating   hidden")
for version, step in steps.items():
    print(
        f"{version:15} {step.seconds * 1e3:9.2f} {step.computing * 1e3:11.2f} {step.communicating * 1e3:15.2f} "
        f"{step.hidden * 1e3:8.2f}"
    )
shown = {version: steps[version] for version in ("flat", "bucketed", "overlapped")}
step_timeline(shown, title="One step on rank 0, three ways, in virtual time")

# %% [markdown]
# All four compute for the same time. (One all-reduce a parameter would not fit into the picture: it pays for 50
# all-reduces.) Only the overlapped version communicates while it computes. It starts its first bucket as soon as that
# is full, with the gradients of the last layers.
#
# It can't hide everything. The last bucket is full when the backward pass is over, and so it is waited for in any
# case. Of what *can* be hidden with these buckets, how much is?

# %%
assert len(steps["per_parameter"].of("communication")) == 50
share = overlapped.hidden / overlapped.hideable
print(
    f"hidden {overlapped.hidden * 1e3:.2f} ms of {overlapped.hideable * 1e3:.2f} ms that could be: {share:.0%}"
)
assert share >= 0.8
assert overlapped.seconds < min(
    step.seconds for version, step in steps.items() if version != "overlapped"
)
assert (
    steps["flat"].communicating
    < steps["bucketed"].communicating
    < steps["per_parameter"].communicating
)
assert all(
    abs(step.computing - overlapped.computing) < 1e-12 for step in steps.values()
)

# %% [markdown]
# Look at "flat" once more. It communicates for the shortest time of all and is still slower than "overlapped". What
# counts is not how long the messages take, but how long somebody waits for them.
#
# ### The best bucket
#
# Small buckets start early and pay many latencies. Large buckets pay few and start late. So there is a best size in
# between. Let us look for it.

# %%
KIB = [4 << power for power in range(0, 11)]  # 4 KiB to 4 MiB
whole = sum(parameter.nbytes for parameter in wide_model().parameters())
seconds = {
    kib: simulated.run(timed_step, "overlapped", kib << 10)[0].seconds for kib in KIB
}
best = min(seconds, key=seconds.get)
print(
    f"the model has {whole / 2**20:.1f} MiB; best bucket {best} KiB: {seconds[best] * 1e3:.2f} ms a step"
)
assert (
    KIB[-1] << 10 > whole
)  # the largest bucket holds everything but what is in the first one
assert KIB[0] < best < KIB[-1]
assert seconds[best] < 0.97 * min(seconds[KIB[0]], seconds[KIB[-1]])
sweep(
    {"overlapped": {kib: value * 1e3 for kib, value in seconds.items()}},
    along="KiB in a bucket",
    title="Time of a step by the size of the buckets",
    subtitle="ms, in virtual time",
)

# %% [markdown]
# torch's default is 25 MiB, with a first bucket of 1 MiB; further down we read both from torch. That is meant for
# models of hundreds of megabytes. With a model of a few megabytes only the first bucket overlaps.
#
# ### On this machine
#
# Now in real time. Be careful with what you see. The ranks share the cores of this computer, and so do the thread that
# computes and the one that communicates. Overlap pays when they do not compete: when a network card or a GPU does one
# of the two.

# %%
with World(2) as pair:
    real = {
        version: pair.run(timed_step, version, BUCKET, in_virtual_time=False)[0]
        for version in VERSIONS
    }
for version, step in real.items():
    print(
        f"{version:15} {step.seconds * 1e3:7.1f} ms, {step.communicating * 1e3:6.1f} ms of it with gradients under way"
    )
step_timeline(real, title="The same step on 2 real ranks: this machine, today")

# %% [markdown]
# ### One slow rank
#
# An all-reduce ends when the last rank has brought its gradients. What if one rank computes half as fast as the others?

# %%
guess = predict(
    "Rank 2 needs twice the time to compute. How much longer does the step of rank 0 take?",
    unit="%",
)

# %%
with_straggler = Cluster.flat(
    4, Link(latency=100e-6, bandwidth=2e9), stragglers={2: 2.0}
)
slowed = SimulatedWorld(4, with_straggler, contexts="threads").run(
    timed_step, "overlapped", BUCKET
)
longer = slowed[0].seconds / overlapped.seconds - 1
print(guess.compare(100 * longer))
print(
    f"rank 0 computes for {slowed[0].computing * 1e3:.2f} ms, its step takes {slowed[0].seconds * 1e3:.2f} ms"
)
assert (
    max(step.seconds for step in slowed) - min(step.seconds for step in slowed) < 0.2e-3
)
assert slowed[2].computing > 1.99 * slowed[0].computing
assert 0.8 < longer < 1.0
step_timeline(
    {f"rank {rank}": slowed[rank] for rank in (0, 2)},
    title="Rank 2 computes half as fast, and rank 0 waits for it",
)

# %% [markdown]
# Everybody is as slow as the slowest. The gradients of rank 0 are "under way" most of the time: they wait for those of
# rank 2. Synchronous training has no cure for that; lesson 07 has ways that do not wait.
#
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
# The same gradient, and not one message more.
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
# With `join` a rank that has no batch left goes on taking part. It brings zeros, and the gradient is averaged over
# those that had a batch.

# %%
assert world.run(uneven, True) == [3, 3, 3, 2]
print("steps with a batch:", world.run(uneven, True))

# %% [markdown]
# **A parameter gets no gradient**, because the loss does not depend on it in this step. Then its bucket is never full.
# DDP notices when the backward pass is over, and says which parameter it is. Where that is meant,
# `find_unused_parameters=True` allows it: a rank without a gradient brings zeros and says so.
#
# **A gradient is no number.** A loss of 0/0 on one rank makes the sum a NaN on all ranks, and with it all weights. It
# must be found before that, and the message must say whose it was:


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
# **Buffers** are not parameters. A batch norm keeps running averages of what it has seen, and every rank sees other
# images. Nobody averages them: rank 0's are copied to all before each forward pass. So after training all ranks have
# the buffers of rank 0, up to the last step.
#
# **Checkpoints.** All ranks have the same model, so rank 0 saves it alone, and rank 0 loads it and sends it to all:
# `save_checkpoint(comm, path, model, optimizer, epoch=3)` and `load_checkpoint(comm, path, model, optimizer)` of
# `distlib.ddp`.
#
# ## In real frameworks
#
# `torch.nn.parallel.DistributedDataParallel` does what you have seen: buckets in reverse order of registration, a
# smaller first one, hooks, `no_sync`, `join`. It can even be given another all-reduce, as a **communication hook**. So
# we put our ring into it, and compare three: torch's own, torch's with our ring inside, and ours.


# %%
def three_ways(comm: Communicator) -> tuple[dict[str, tuple[torch.Tensor, float]], int]:
    inputs, wanted = (
        images[comm.rank : 128 : comm.world_size],
        labels[comm.rank : 128 : comm.world_size],
    )
    found = {}
    with torch_distributed(comm):
        theirs = nn.parallel.DistributedDataParallel(make_model(0))
        with_our_ring = nn.parallel.DistributedDataParallel(make_model(0))
        with_our_ring.register_comm_hook(None, all_reduce_hook(comm, "ring"))
        ours = DistributedDataParallel(comm, make_model(0))
        for name, ddp in (
            ("torch's", theirs),
            ("torch's, our ring", with_our_ring),
            ("ours", ours),
        ):
            seconds = []
            for _ in range(12):
                ddp.zero_grad()
                comm.barrier()
                start = time.perf_counter()
                cross_entropy(ddp(inputs), wanted).backward()
                seconds.append(time.perf_counter() - start)
            gradient = torch.cat(
                [parameter.grad.flatten() for parameter in ddp.parameters()]
            )
            found[name] = gradient, sorted(seconds)[len(seconds) // 2]
    return found, theirs.bucket_bytes_cap


with World(2) as pair:
    compared, bucket_bytes = pair.run(three_ways)[0]
    calls = [
        message.site.call
        for message in pair.trace.messages
        if "all_reduce" in (message.site.call or "")
    ]
reference = compared["torch's"][0]
for name, (gradient, seconds_a_step) in compared.items():
    apart = float((gradient - reference).abs().max())
    print(
        f"{name:18} {seconds_a_step * 1e3:6.1f} ms forward and backward, largest difference {apart:.1e}"
    )
    assert apart < 1e-14
print(f"{len(calls)} messages of our all-reduces are in the trace")
assert (
    bucket_bytes == 25 << 20
    and torch.distributed._DEFAULT_FIRST_BUCKET_BYTES == 1 << 20
)
assert calls and set(calls) == {'all_reduce(op=SUM, algorithm="ring")'}

# %% [markdown]
# The same gradients to rounding. The times are those of a small model on this machine, today. torch's DDP is written in
# C++, ours in Python; the larger the model, the less that matters.
#
# TensorFlow's `MultiWorkerMirroredStrategy` works in the same way: one model a worker, gradients all-reduced in every
# step. Lesson 13 uses it.

# %%
world.close()

# %% [markdown]
# ## In short
#
# | version | all-reduces in a step | can start | waits for |
# |---|---|---|---|
# | one a parameter | as many as parameters | after backward | all of them, with every latency |
# | flat | 1 | after backward | all bytes |
# | buckets | bytes / bucket size | after backward | all bytes, some latencies |
# | overlapped | bytes / bucket size | when a bucket is full | the last bucket, and what did not fit behind backward |
#
# - Equal at the start, equal steps: the weights stay equal without being sent.
# - With N ranks each sends 2(N − 1)/N times the model's bytes in a step, in every version.
# - What counts is the time that somebody waits, not the time that messages take.
# - Everybody is as slow as the slowest rank.
#
# ## Now you
#
# In [the exercise](../exercises/05_ddp/05_ddp.ipynb) you average gradients, put parameters into buckets, write the
# overlapped DDP and the sampler. The tests look at when your messages leave. After that comes
# [Large batches](06_large_batches.ipynb): more ranks mean larger batches, and larger batches train differently.
#
# ## Further reading
#
# - S. Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
#   Training](https://arxiv.org/abs/2006.15704), PVLDB 13(12), 2020. How torch's DDP is made, and what was measured.
# - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/notes/ddp.html), torch's notes on its design.
# - [DDP communication hooks](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html).
# - A. Sergeev, M. Del Balso, [Horovod: fast and easy distributed deep learning in
#   TensorFlow](https://arxiv.org/abs/1802.05799), 2018. "Tensor fusion" is another word for buckets.
# - M. Harris, [How to Optimize Data Transfers in CUDA
#   C/C++](https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/), 2012. Page-locked memory, measured.
