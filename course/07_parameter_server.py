# %% [markdown]
# # Parameter servers
#
# After this lesson you will be able to
#
# - train with a server that has the parameters and workers that push gradients, synchronously or not,
# - predict what one slow worker costs in each mode, and say what a bound on the workers' lead helps against,
# - say how stale gradients are where computing takes nearly all the time, and what that does to the learning rate,
# - find the busiest link, and share its load among several servers,
# - let a training survive the death of a worker, and of the server.
#
# **Time:** about 100 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and
# [Large batches](06_large_batches.ipynb). No GPU.

# %%
import math
import statistics
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import (
    Cluster,
    Communicator,
    Link,
    PeerLost,
    RankError,
    ReduceOp,
    SimulatedWorld,
    Trace,
    World,
    all_reduce,
)
from distlib.draw import curves, histogram, predict, timeline
from distlib.training.datasets import digits
from distlib.training.parameter_server import (
    ASYNCHRONOUS,
    GRADIENT,
    PARAMETERS,
    REQUEST,
    SYNCHRONOUS,
    Contribution,
    ParameterClient,
    ServerLog,
    Update,
    keep_in_file,
    keep_on_replica,
    read_checkpoint,
    replica_loop,
    server_loop,
    worker_loop,
)
from distlib.training.shards import flatten, shard_parameters

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

train_set, test_set = digits()
average_image = train_set.images.mean(dim=0)
images = (train_set.images - average_image).flatten(1)
test_images = (test_set.images - average_image).flatten(1)
labels, test_labels = train_set.labels, test_set.labels


def make_model(seed: int) -> nn.Module:
    """A small classifier. The seed decides its first weights."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


NUMBERS = sum(parameter.numel() for parameter in make_model(0).parameters())
EACH = 16  # images of a gradient
print(f"{len(labels):,} images, {NUMBERS:,} parameters, {4 * NUMBERS:,} bytes")

# %% tags=["folded"]
# Checks of the numbers above
assert len(labels) == 1536 and NUMBERS == 2410

# %% [markdown]
# ## The idea
#
# In the lessons so far all ranks were equal: each had the model, and an all-reduce kept the copies the same. Now one
# rank is different. The **server** has the parameters. A **worker** asks for them (it *pulls*), computes a gradient on
# images of its own, sends that to the server (it *pushes*), and begins again. The server applies the gradients. No
# worker knows any other.
#
#     worker 1   pull ◄─ parameters   compute   push gradient ─►   pull ◄─ …        ┐
#     worker 2   pull ◄─ parameters   compute      push gradient ─►   pull ◄─ …     ┼─►  server
#     worker 3   pull ◄─ parameters   compute            push gradient ─►           ┘
#
# An all-reduce needs everybody at the same time. A server need not wait for anybody. All of this lesson follows from
# that, the good and the bad.
#
# When the server answers a pull is one rule. It counts how many gradients each worker has pushed: that is the worker's
# *clock*. A worker that is more than `bound` gradients ahead of the slowest one must wait for its parameters.
#
# | `bound` | name | |
# |---|---|---|
# | 0 | synchronous | everybody waits for everybody, in every step |
# | $s$ | stale-synchronous | the fastest may be $s$ steps ahead |
# | infinity | asynchronous | nobody waits |
#
# The same rule says when a gradient is applied: as soon as its worker may go on, in one update with all others of
# which that is true. So a synchronous update has a gradient of every worker, an asynchronous one a single gradient.
# (In the paper on stale-synchronous training, Ho et al. 2013, updates are applied at once, and only reading waits.
# Because ours wait, too, the bound of 4 has a mean staleness of only 0.4 further below.)
#
# This is the program that each rank runs. The library has the two loops, `server_loop` and `worker_loop`. You write
# your own in the exercise. A worker's images are a quarter of all images if there are four workers, and its 16 images
# of each step are chosen at random, once and for all: with the same seed, every run in this lesson gives a worker the
# same images in the same step.


# %%
def images_of_steps(seed: int, workers: int, steps: int) -> torch.Tensor:
    """Which images each worker takes in each of its steps, [workers, steps, 16]."""
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randperm(len(labels), generator=generator)
    own = torch.stack(mixed.split(len(labels) // workers)[:workers])
    chosen = torch.randint(own.shape[1], (workers, steps, EACH), generator=generator)
    return own.gather(1, chosen.flatten(1)).view_as(chosen)


SECONDS = 10e-3  # that a gradient takes, in virtual time
Spans = list[tuple[float, float]]


def train(
    comm: Communicator,
    steps: int,
    rate: float = 0.4,
    seed: int = 0,
    servers: int = 1,
    slow_at_times: float = 1.0,
    late: float = 0.0,
    **options: object,
) -> ServerLog | tuple[Spans, list[torch.Tensor]]:
    """The first ranks serve, the others work. A worker returns when it computed, and the parameters at the end."""
    parameters = list(make_model(seed).parameters())
    shards = shard_parameters(parameters, servers)
    workers = range(servers, comm.world_size)
    if comm.rank < servers:
        mine = flatten(parameters, shards[comm.rank])
        optimizer = partial(torch.optim.SGD, lr=rate)
        expected = workers[:-1] if late else workers
        return server_loop(comm, expected, mine, optimizer, **options)

    number = comm.rank - servers
    if late and comm.rank == workers[-1]:
        comm.sleep(late)  # it joins later
    chosen = images_of_steps(seed, len(workers), steps)[number]
    hiccup = torch.rand(steps, generator=torch.Generator().manual_seed(number)) < 0.1
    spans = []

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        begin = comm.time()
        comm.sleep(SECONDS * (slow_at_times if hiccup[step] else 1))
        outputs = forward(images[chosen[step]], parameters)
        loss = cross_entropy(outputs, labels[chosen[step]])
        gradients = torch.autograd.grad(loss, parameters)
        spans.append((begin, comm.time()))
        return list(gradients), EACH

    client = ParameterClient(comm, range(servers), parameters, shards)
    worker_loop(client, compute, steps)
    return spans, [parameter.detach() for parameter in parameters]


def forward(inputs: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
    weights, bias, last_weights, last_bias = parameters
    return torch.relu(inputs @ weights.T + bias) @ last_weights.T + last_bias


# %% [markdown]
# ## One slow worker
#
# A server (rank 0) and four workers (ranks 1 to 4), in virtual time. A gradient takes 10 ms, and up to a tenth longer
# at random, as on any real machine. The network is fast: 50 µs and 1 GB/s. Rank 4 is a **straggler**: it takes four
# times as long as the others.

# %%
FAST = Link(latency=50e-6, bandwidth=1e9)


def virtual(
    ranks: int, slow: dict[int, float] | None = None, **more: object
) -> SimulatedWorld:
    """A simulated cluster. slow: rank → how many times longer it computes."""
    cluster = Cluster.flat(
        ranks, more.pop("link", FAST), stragglers=slow or {}, jitter=0.1
    )
    return SimulatedWorld(ranks, cluster, **more)


def throughput(log: ServerLog) -> float:
    """Gradients applied per second, until the first worker has done its last."""
    last = {each.worker: u.time for u in log.updates for each in u.contributions}
    end = min(last.values())
    return sum(len(u.contributions) for u in log.updates if u.time <= end) / end


# %%
guess_1 = predict(
    "Synchronous training. Rank 4 of 4 workers takes 4 times as long as the others. "
    "How many times fewer gradients per second are applied?"
)

# %%
equal, straggling = virtual(5), virtual(5, {4: 4.0})
synchronous = {
    name: world.run(train, 30)
    for name, world in (("equal", equal), ("straggler", straggling))
}
per_second = {name: throughput(results[0]) for name, results in synchronous.items()}
for name, rate in per_second.items():
    print(f"{name:9}  {rate:5.1f} gradients per second")
slowdown = per_second["equal"] / per_second["straggler"]
print(guess_1.compare(slowdown))

# %% [markdown]
# Every step takes as long as its slowest worker. (Not quite 4 times as long as before: among four equal workers, too,
# each step waits for the largest of four random delays.) Here are the first 90 ms. Blue on a lane is computing, a
# bare line is waiting. The rounds that the subtitle counts are messages of which each needs the one before.

# %%
KINDS = {GRADIENT: "gradient", PARAMETERS: "parameters"}


def show_start(world: SimulatedWorld, results: list, title: str) -> object:
    """The timeline of the first 90 ms, without the small requests."""
    end = 0.09
    early = world.trace.filter(lambda m: m.tag != REQUEST and m.end < end)
    spans = [[]]
    for computing, _ in results[1:]:
        spans.append([(a, min(b, end)) for a, b in computing if a < end])
    return timeline(early, title, color_by=lambda m: KINDS[m.tag], computing=spans)


show_start(
    straggling, synchronous["straggler"], "Synchronous, rank 4 four times slower"
)

# %%
guess_2 = predict(
    "Now asynchronous, with the same slow worker. What percentage of the throughput of four equal workers is lost?",
    unit="%",
)

# %%
asynchronous = {
    name: world.run(train, 30, bound=ASYNCHRONOUS)
    for name, world in (("equal", equal), ("straggler", straggling))
}
free = {name: throughput(results[0]) for name, results in asynchronous.items()}
lost = 1 - free["straggler"] / free["equal"]
print(f"{free['equal']:.1f} and {free['straggler']:.1f} gradients per second")
print(guess_2.compare(100 * lost))

# %%
show_start(
    straggling, asynchronous["straggler"], "Asynchronous, rank 4 four times slower"
)

# %% [markdown]
# Three workers at full speed and one at a quarter make $3\tfrac14$ of 4: 19 % are lost, and that is the work that the
# slow worker does not do. Nobody waits for it.

# %% tags=["folded"]
# Checks of the numbers above
assert 3.6 < slowdown < 4.1
assert 0.15 < lost < 0.25 and abs(free["equal"] / per_second["equal"] - 1) < 0.1
assert abs(1 - 3.25 / 4 - 0.19) < 0.01
assert asynchronous["straggler"][0].waits == []
waited = Counter(worker for worker, _ in synchronous["straggler"][0].waits)
assert min(waited[rank] for rank in (1, 2, 3)) >= 29

# %% [markdown]
# ### A bound, and backup workers
#
# Is there something between the two? A bound of $s$ lets the fast workers run ahead, but only so far. Another way
# (Chen et al. 2016) stays synchronous and has *backup workers*: the server takes the first 3 gradients of 4 in each
# step and throws the late one away.
#
# And there are different kinds of slowness. Rank 4 may be *always* slow: an older machine. Or *everybody is slow at
# times*: garbage is collected, somebody else uses the machine, a disk is busy. In the third row below each worker
# takes four times as long in one gradient out of ten.

# %%
guess_3 = predict(
    "One worker is always 4 times slower. Compared with asynchronous training, what throughput does a bound of 4 give?",
    choices=["nearly the same", "about two thirds", "about one third"],
)

# %%
MODES = {
    "synchronous": {"bound": SYNCHRONOUS},
    "bound of 4": {"bound": 4},
    "1 backup": {"backups": 1},
    "asynchronous": {"bound": ASYNCHRONOUS},
}
CONDITIONS = {
    "all equal": (equal, {}),
    "one always slow": (straggling, {}),
    "all slow at times": (equal, {"slow_at_times": 4.0}),
}
speeds = {
    condition: {
        mode: throughput(world.run(train, 40, **options, **extra)[0])
        for mode, options in MODES.items()
    }
    for condition, (world, extra) in CONDITIONS.items()
}
print("gradients per second  ", "  ".join(f"{mode:>12}" for mode in MODES))
for condition, found in speeds.items():
    print(f"{condition:20}  ", "  ".join(f"{found[mode]:12.0f}" for mode in MODES))
print(guess_3.compare("about one third"))
log = straggling.run(train, 40, backups=1)[0]
all_there = [update for update in log.updates if update.time < 40 * SECONDS]
used = Counter(each.worker for update in all_there for each in update.contributions)
refused = Counter(refusal.worker for refusal in log.refused)
print(
    f"1 backup, one always slow: gradients used {dict(used)}, refused {dict(refused)}"
)

# %% [markdown]
# Against a worker that is *always* slow, a bound does not help: after a few steps the fast ones have used it up, and
# from then on they go as fast as the slowest. In the long run a bounded training is as fast as its slowest worker,
# whatever the bound is. Against slowness that comes and goes the bound helps a lot: somebody who fell behind catches
# up before the others have to wait.
#
# A backup throws away a quarter of the gradients even when all are equal. Against a worker that is *always* slow it
# does what sending that worker home would do: not one gradient of rank 4 is used, and its quarter of the images is
# never seen. Backups are meant for slowness that moves from worker to worker. In our third row they gain something, but
# a bound gains far more. Chen et al. add the backups to the workers that are needed anyway: 96 workers and 4 backups,
# say.

# %% tags=["folded"]
# Checks of the numbers above
slow, hiccups = speeds["one always slow"], speeds["all slow at times"]
assert slow["bound of 4"] < 0.45 * slow["asynchronous"]
assert slow["1 backup"] > 2.5 * slow["synchronous"]
assert used[4] == 0 < refused[4] and min(used[rank] for rank in (1, 2, 3)) > 30
gain = hiccups["1 backup"] / hiccups["synchronous"]
assert 0.9 < gain < 1.3 < hiccups["bound of 4"] / hiccups["synchronous"]
assert hiccups["bound of 4"] > 0.85 * hiccups["asynchronous"]
assert hiccups["synchronous"] < 0.75 * hiccups["asynchronous"]
assert 0.65 < speeds["all equal"]["1 backup"] / speeds["all equal"]["synchronous"] < 0.8

# %% [markdown]
# **Try it.** How large must the bound be, so that a training of 60 steps with one worker that is always slow loses at
# most a tenth against asynchronous training? First think: how far ahead is a fast worker at its end?

# %%
for bound in (4, 16):
    found = throughput(straggling.run(train, 60, bound=bound)[0])
    print(f"bound {bound:2}: {found:5.0f} gradients per second")

# %% tags=["folded"]
# One way to do it: at the end of its 60 steps a fast worker is 45 ahead
tried = {b: throughput(straggling.run(train, 60, bound=b)[0]) for b in (30, 45)}
print({bound: round(found) for bound, found in tried.items()})
assert tried[30] < 0.9 * slow["asynchronous"] < tried[45]

# %% [markdown]
# ## How stale is a gradient?
#
# An asynchronous worker computes its gradient with the parameters that it has pulled. Meanwhile others push, and the
# server changes its parameters. When the gradient arrives it belongs to a model that no longer exists. How many
# updates there were in between is its **staleness**. The server writes it down for every gradient.

# %%
guess_4 = predict(
    "With four equal workers the mean staleness is about 3: while I compute once, each of the other three pushes once. "
    "Now one worker becomes 4 times slower. What happens to the mean staleness?",
    choices=["it falls", "it stays at about 3", "it rises"],
)

# %%
staleness = {}
for name, world in (("four equal workers", equal), ("one 4 times slower", straggling)):
    log = world.run(train, 80, bound=ASYNCHRONOUS)[0]
    end = 80 * SECONDS  # the fast ones have just begun to leave: all are still there
    staleness[name] = [
        each.staleness for u in log.updates if u.time < end for each in u.contributions
    ]
means = {name: statistics.mean(found) for name, found in staleness.items()}
print({name: round(mean, 2) for name, mean in means.items()})
print(guess_4.compare("it stays at about 3"))

# %%
histogram(
    staleness,
    along="staleness",
    title="How many updates came between pull and push",
    subtitle="asynchronous, 4 workers; dotted: the mean",
)

# %% [markdown]
# The shape changes, the mean does not. The slow worker's gradients are 12 updates old, because each of three others
# pushes four times meanwhile. The fast ones are a little fresher than before, because one of their three neighbors
# pushes rarely.
#
# The mean is $N-1$ for $N$ workers, however fast or slow each of them is. Here is why. Take any one update. Each of the
# $N-1$ other workers is just then computing one gradient, and for each of these the update counts as one. So every
# update adds $N-1$ to the sum of all stalenesses. This holds if computing takes nearly all of the time, as it does
# here. If not, some workers wait for new parameters just then, and the mean is lower: we shall see that on a slow
# network.
#
# A bound of 4 is not a bound of 4 on this staleness. The bound counts how many gradients of its own a worker is ahead,
# staleness counts the updates of everybody.
#
# Check it with other numbers of workers, and with any mixture of speeds.

# %%
for workers, slow_ranks in ((2, {}), (8, {}), (8, {1: 2.0, 2: 7.0, 3: 0.5})):
    log = virtual(workers + 1, slow_ranks).run(train, 45, bound=ASYNCHRONOUS)[0]
    middle = [u for u in log.updates if 0.1 < u.time < 0.3]
    mean = statistics.mean(c.staleness for u in middle for c in u.contributions)
    print(f"{workers} workers, {slow_ranks or 'all equal'}: mean staleness {mean:.2f}")
    assert abs(mean - (workers - 1)) < 0.15 * (workers - 1)

# %% tags=["folded"]
# Checks of the numbers above
assert all(abs(mean - 3) < 0.15 for mean in means.values())
counts = Counter(staleness["one 4 times slower"])
assert 11 <= max(counts) <= 13 and counts[2] > counts[3] > counts[4]
assert Counter(staleness["four equal workers"]).most_common(1)[0][0] == 3

# %% [markdown]
# ## What does staleness cost?
#
# It costs learning, one would think: a stale gradient points in the direction that was downhill a while ago. To
# measure it, take 16 workers. Then gradients are 15 updates old, and that should hurt. The question is only fair if
# both modes have the *same number of gradients* and *each the learning rate that suits it*.
#
# A synchronous step averages the 16 gradients: each counts 1/16 of the rate. Our server keeps that weight in every
# mode. An asynchronous update, of a single gradient, moves the parameters by 1/16 of the rate, and there are 16 times
# as many.
#
# Many trainings are needed: two modes, rates, seeds. There is a trick. Who pushes when depends on the *clock* and not
# on the numbers in a gradient. So we run each mode once, in virtual time, keep the server's log, and *replay* it: in
# the same order, with the same staleness, for all rates and seeds at once.


# %%
Point = tuple[float, torch.Tensor]  # a time, and the losses of all models


def replay(
    log: ServerLog,
    workers: int,
    rates: list[float],
    every: float = math.inf,
    backups: int = 0,
    num_seeds: int = 5,
) -> tuple[list[Point], torch.Tensor]:
    """Train a model for each rate and seed in the order of a log.

    Returns points in time, one every so many virtual seconds and at the end, each with
    the losses on all training images, [rates, seeds]; and the final parameters,
    [rates · seeds, 2410].
    """
    seeds = list(range(num_seeds)) * len(rates)
    rate = torch.tensor(rates).repeat_interleave(num_seeds)[:, None]
    rate = rate / (workers - backups)  # as the server does
    steps = max(each.clock for each in log.contributions)
    chosen = torch.stack([images_of_steps(seed, workers, steps) for seed in seeds])
    versions = {0: torch.stack([first_numbers(seed) for seed in seeds])}
    oldest = max(each.staleness for each in log.contributions)
    points, next_look = [], every
    for version, update in enumerate(log.updates):
        total = torch.zeros_like(versions[version])
        for each in update.contributions:
            batch = chosen[:, each.worker - 1, each.clock - 1]
            stale = versions[version - each.staleness]
            total += gradients_of(stale, images[batch], labels[batch])
        versions[version + 1] = versions[version] - rate * total
        versions.pop(version - oldest, None)
        if update.time >= next_look or update is log.updates[-1]:
            losses = losses_of(versions[version + 1]).view(len(rates), -1)
            points.append((update.time, losses))
            next_look = max(next_look, update.time - every) + every
    return points, versions[len(log.updates)]


# %% tags=["folded"]
# Many models at once: each row of `numbers` is a model
SHAPES = [tuple(parameter.shape) for parameter in make_model(0).parameters()]


def first_numbers(seed: int) -> torch.Tensor:
    parts = [
        parameter.detach().flatten() for parameter in make_model(seed).parameters()
    ]
    return torch.cat(parts)


def outputs_of(numbers: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """[models, 2410] and [models, samples, 64] → [models, samples, 10]"""
    parts = numbers.split([math.prod(shape) for shape in SHAPES], dim=1)
    weights, bias, last_weights, last_bias = (
        part.view(-1, *shape) for part, shape in zip(parts, SHAPES, strict=True)
    )
    hidden = torch.relu(inputs @ weights.mT + bias[:, None])
    return hidden @ last_weights.mT + last_bias[:, None]


def gradients_of(
    numbers: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """For each model the gradient of the mean loss of its own samples."""
    numbers = numbers.clone().requires_grad_()
    outputs = outputs_of(numbers, inputs).flatten(0, 1)
    loss = cross_entropy(outputs, targets.flatten(), reduction="sum")
    return torch.autograd.grad(loss / targets.shape[1], numbers)[0]


def losses_of(numbers: torch.Tensor) -> torch.Tensor:
    """For each model the mean loss on all training images."""
    outputs = outputs_of(numbers, images.expand(len(numbers), -1, -1))
    return torch.stack([cross_entropy(each, labels) for each in outputs])


def accuracies_of(numbers: torch.Tensor) -> list[float]:
    """For each model the share of the test images that it classifies correctly."""
    outputs = outputs_of(numbers, test_images.expand(len(numbers), -1, -1))
    return (outputs.argmax(dim=-1) == test_labels).float().mean(dim=1).tolist()


# The replay of a run arrives where the run itself has arrived, stale gradients and all.
results = equal.run(train, 30, bound=ASYNCHRONOUS)
_, replayed = replay(results[0], 4, [0.4])
last = max((results[rank] for rank in (1, 2, 3, 4)), key=lambda result: result[0][-1])
found = torch.cat([parameter.flatten() for parameter in last[1]])
assert torch.allclose(replayed[0], found, rtol=1e-3, atol=1e-5)
assert not torch.allclose(replayed[1], found, rtol=1e-3, atol=1e-5)  # another seed

# %%
CROWD = 16
RATES = [0.4, 1.6, 3.2, 4.8, 5.6, 6.4, 7.2, 8.0, 9.0]
crowd = virtual(CROWD + 1)
crowd_logs = {
    mode: crowd.run(train, 40, bound=bound)[0]
    for mode, bound in (("synchronous", SYNCHRONOUS), ("asynchronous", ASYNCHRONOUS))
}
for mode, log in crowd_logs.items():
    mean = statistics.mean(each.staleness for each in log.contributions)
    counts = f"{len(log.contributions)} gradients, {len(log.updates):3} updates"
    print(f"{mode:12}  {counts}, mean staleness {mean:4.1f}")

# %%
guess_5 = predict(
    "The best rate of the synchronous training is about 6.4. Somebody changes to asynchronous training, "
    "without the division by 16: each gradient moves the parameters by 6.4 times itself. What happens?",
    choices=["it learns faster", "about the same", "it breaks"],
)

# %%
final = {}
for mode, log in crowd_logs.items():
    rates = RATES if mode == "synchronous" else [*RATES, 16 * 6.4]
    points, _ = replay(log, CROWD, rates, num_seeds=11)
    for rate, losses in zip(rates, points[-1][1].tolist(), strict=True):
        final.setdefault(mode, {})[rate] = statistics.median(losses)
undivided = final["asynchronous"].pop(16 * 6.4)
print("loss at rate ", "  ".join(f"{rate:5}" for rate in RATES))
for mode, found in final.items():
    print(f"{mode:13}", "  ".join(f"{found[rate]:5.3f}" for rate in RATES))
print(f"asynchronous with 6.4 for each gradient: {undivided:.3g}")
print(guess_5.compare("it breaks"))

# %% [markdown]
# That comparison was a straw man, and an easy mistake: "asynchronous training diverges". With the same rate *per
# update* it moves 16 times as far for the same gradients. A loss of 2.3 would mean guessing. (Zhang et al. 2016 divide
# each gradient by its staleness, about $N-1$. That is nearly our $1/N$.)
#
# Now compare the two rows fairly, column by column. Up to a rate of 4.8 they are nearly the same, although the
# gradients of the second row are 15 updates old. Why does that not hurt? Because the 15 updates in between are small
# ones: each moves the parameters by a sixteenth. Together they are one synchronous step. A worker of the synchronous
# training also computes with parameters that do not know the other 15 gradients yet. It only uses them before they
# get old.
#
# At the high rates the rows differ: the asynchronous training breaks earlier. At 7.2 it is about where the synchronous
# one is at 9.0, a fifth earlier. That, too, can be computed.

# %% tags=["folded"]
# Checks of the numbers above
smooth = [rate for rate in RATES if rate <= 4.8]
assert all(
    abs(math.log(final["asynchronous"][r] / final["synchronous"][r])) < 0.25
    for r in smooth
)
best = {mode: min(found, key=found.get) for mode, found in final.items()}
print(best)
assert all(4.8 <= rate <= 8.0 for rate in best.values())
assert not undivided < 2.3
at = {mode: [found[rate] for rate in (6.4, 7.2, 8.0)] for mode, found in final.items()}
assert at["asynchronous"][0] < final["synchronous"][9.0] < at["asynchronous"][2]
assert final["asynchronous"][9.0] > 1.5 * final["synchronous"][9.0]
async_log = crowd_logs["asynchronous"]
assert 13 < statistics.mean(each.staleness for each in async_log.contributions) < 15

# %% [markdown]
# ### How much lower is the ceiling?
#
# Lesson 06 found a ceiling of the rate: on a parabola of curvature $\lambda$, plain gradient descent breaks above
# $\eta\lambda = 2$. Let $w$ be the distance to the parabola's lowest point. The gradient there is $\lambda w$. Now let
# every gradient be $\tau$ updates old, and count $1/N$:
#
# $$w_{t+1} = w_t - a\,w_{t-\tau}, \qquad a = \frac{\eta\lambda}{N}, \qquad \tau = N - 1$$
#
# We find the ceiling by trying: the largest $\eta\lambda$ at which $w$ still goes to 0. In theory (the roots of
# $z^{\tau+1} = z^\tau - a$ must lie inside the unit circle) the ceiling of $\eta\lambda$ is
# $2N \sin\frac{\pi}{2(2\tau+1)}$.


# %%
def still_converges(rate: float, workers: int, momentum: float = 0.0) -> bool:
    """Whether w goes to 0 on a parabola of curvature 1, if gradients are N − 1 updates old."""
    old, velocity = [1.0] * workers, 0.0
    for step in range(400 * workers):
        now, before = step % workers, (step - 1) % workers
        velocity = momentum * velocity + rate / workers * old[now]
        old[now] = old[before] - velocity
        if abs(old[now]) > 1e6:
            return False
    return max(map(abs, old)) < 0.5


def ceiling(workers: int, momentum: float = 0.0) -> float:
    """The largest rate that still converges."""
    low, high = 0.05, 4.0
    for _ in range(13):
        middle = (low + high) / 2
        if still_converges(middle, workers, momentum):
            low = middle
        else:
            high = middle
    return low


# %%
guess_6 = predict(
    "With 1 worker the ceiling is at 2. "
    "Where is it with 64 workers and gradients that are 63 updates old?"
)

# %%
ceilings = {workers: ceiling(workers) for workers in (1, 2, 4, 16, 64)}
print("workers   found   theory")
for workers, found in ceilings.items():
    theory = 2 * workers * math.sin(math.pi / (2 * (2 * workers - 1)))
    print(f"{workers:7}   {found:5.3f}   {theory:5.3f}")
    assert abs(found / theory - 1) < 0.03
print(guess_6.compare(ceilings[64]))
with_momentum = {(n, m): ceiling(n, m) for m in (0.5, 0.9) for n in (1, 4, 16)}
for m in (0.5, 0.9):
    found = "  ".join(f"{with_momentum[n, m]:5.2f}" for n in (1, 4, 16))
    print(f"momentum {m}, 1, 4 and 16 workers:  {found}")

# %% [markdown]
# Without momentum it is not 64 times lower, and not even twice: with many workers it goes to $\pi/2 = 1.57$, and no
# further. So on a parabola staleness takes away about a fifth of the ceiling, if every gradient counts $1/N$. That
# agrees with our two rows.
#
# Do not take this for "staleness is harmless". With momentum 0.9 the ceiling is about 30 times lower than that of one
# worker: 0.13 instead of 3.8. Asynchrony acts like additional momentum (Mitliagkas et al. 2016), and both together are
# too much: rate and momentum have to be tuned again. And our model is small and easy.

# %% tags=["folded"]
# Checks of the numbers above
assert ceilings[1] > 1.99 and 24 < with_momentum[1, 0.9] / with_momentum[16, 0.9] < 34
assert 3.7 < with_momentum[1, 0.9] < 3.9 and 0.11 < with_momentum[16, 0.9] < 0.14
assert 1.5 < ceilings[64] < 1.62
falling = list(ceilings.values())
assert all(a >= b for a, b in zip(falling, falling[1:], strict=False))

# %% [markdown]
# ## Everything against everything
#
# Now put it together: 4 workers, one of them always 4 times slower, seven ways to train. Three of them need no server:
# lesson 02's all-reduce, and two *controls*, without which the rest would mean little. In one, the slow worker is sent
# home, and three workers do an all-reduce. In the other, worker 1 trains alone, on its quarter of the images, and never
# talks to anybody.
#
# Each way gets five rates, and keeps the one whose median loss at the end is lowest. All have the same virtual time.

# %%
guess_7 = predict(
    "1.2 virtual seconds, one of 4 workers 4 times slower. Which way has learned most?",
    choices=[
        "asynchronous, by far",
        "1 backup, by far",
        "these two, with hardly a difference",
        "all-reduce, by far",
    ],
)

# %%
END = 1.2  # virtual seconds


def all_reduce_log(world: SimulatedWorld, steps: int) -> ServerLog:
    """When an all-reduce does what a synchronous server does: the same updates, at other times."""
    workers = range(1, world.world_size + 1)
    updates = [
        Update(when, tuple(Contribution(worker, step, 0, EACH) for worker in workers))
        for step, when in enumerate(world.run(all_reduce_times, steps)[0], start=1)
    ]
    return ServerLog(updates)


def all_reduce_times(comm: Communicator, steps: int) -> list[float]:
    """The same work without a server: when each step was done."""
    gradient, done = torch.zeros(NUMBERS), []
    for _ in range(steps):
        comm.sleep(SECONDS)
        all_reduce(comm, gradient, ReduceOp.AVG)
        done.append(comm.time())
    return done


def until(end: float, log: ServerLog) -> ServerLog:
    """The part of a log up to a time."""
    return ServerLog([update for update in log.updates if update.time <= end])


STEPS_OF = {"synchronous": 30, "bound of 4": 36}  # the others: as many as fit
logs = {
    mode: straggling.run(train, STEPS_OF.get(mode, 116), **options)[0]
    for mode, options in MODES.items()
}
logs["all-reduce"] = all_reduce_log(virtual(4, {3: 4.0}), 30)
logs["3 workers, all-reduce"] = all_reduce_log(virtual(3), 116)
own_times = [0.0105 * step for step in range(1, 121)]  # 10 ms, half a jitter more
logs["alone"] = ServerLog(
    [Update(t, (Contribution(1, k + 1, 0, EACH),)) for k, t in enumerate(own_times)]
)
logs = {way: until(END, log) for way, log in logs.items()}

# %%
CANDIDATES = [0.8, 1.6, 3.2, 4.8, 6.4]
lines, chosen_rate, end_loss, end_share = {}, {}, {}, {}
for way, log in logs.items():
    factor = (
        4 if way == "alone" else 1
    )  # its gradient is the whole update, not a quarter
    backups = int(
        way in ("1 backup", "3 workers, all-reduce")
    )  # three gradients count 1/3
    rates = [factor * rate for rate in CANDIDATES]
    points, numbers = replay(log, 4, rates, every=END / 30, backups=backups)
    medians = points[-1][1].median(dim=1).values
    index = int(medians.argmin())
    chosen_rate[way] = CANDIDATES[index]
    lines[way] = [(when, float(losses[index].median())) for when, losses in points]
    end_loss[way] = sorted(points[-1][1][index].tolist())
    shares = accuracies_of(numbers)[5 * index : 5 * index + 5]
    end_share[way] = statistics.median(shares)

print(f"{'':22} rate   gradients   staleness   loss (five seeds)        test accuracy")
for way, log in logs.items():
    stale = statistics.mean(each.staleness for each in log.contributions)
    low, middle, high = (end_loss[way][i] for i in (0, 2, 4))
    print(
        f"{way:22} {chosen_rate[way]:4}   {len(log.contributions):9}   {stale:9.1f}   "
        f"{middle:.3f} ({low:.3f} to {high:.3f})   {end_share[way]:13.1%}"
    )
print(guess_7.compare("these two, with hardly a difference"))

# %%
the_same = ("all-reduce", "3 workers, all-reduce")
curves(
    {way: line for way, line in lines.items() if way not in the_same},
    along="virtual seconds",
    values="loss",
    title="The loss on all training images, with one worker 4 times slower",
    subtitle="at the best rate, median of five seeds; synchronous = all-reduce, 1 backup = 3 workers",
)

# %% [markdown]
# Per *time* two ways win by far: they have used three times the gradients of the others. Between these two the seeds
# make more difference than the way. Chen et al. (2016) claim more: that with backups a synchronous training of large
# image models is faster than an asynchronous one, and ends with a better accuracy. Our small models can't decide that.
# But look at the control. Sending the slow worker home does what the backup does, to the digit: the same updates at
# nearly the same times. The bound of 4 and the all-reduce are as slow as the slow worker. (The losses of the all-reduce
# are the synchronous ones by construction: we replay the same updates.)
#
# And per *gradient*? The gradients of the slow worker are 12 updates old. Is the asynchronous way worse after as many
# gradients as the synchronous server has applied? Five seeds could not tell. Take 15, and a finer grid of rates.

# %%
same = len(logs["synchronous"].contributions)
after_same, quartiles = {}, {}
for way in ("synchronous", "asynchronous", "1 backup", "bound of 4"):
    cut, total = [], 0
    for update in logs[way].updates:
        total += len(update.contributions)
        if total <= same:
            cut.append(update)
    backups = int(way == "1 backup")
    points, _ = replay(
        ServerLog(cut), 4, [3.2, 4.0, 4.8, 5.6], backups=backups, num_seeds=15
    )
    losses = points[-1][1]
    best = losses[losses.median(dim=1).values.argmin()].sort().values.tolist()
    after_same[way], quartiles[way] = best[7], (best[3], best[11])
    low, high = quartiles[way]
    print(
        f"{way:12}  loss {best[7]:.3f}, half of the seeds between {low:.3f} and {high:.3f}"
    )

# %% [markdown]
# Synchronous and asynchronous do not differ by anything that these seeds can show. The rate is low enough for a
# staleness of 3.
#
# And worker 1 alone? It is nearly as good as four workers with an all-reduce: its 114 steps on a quarter of the images
# are worth nearly as much as 28 steps of four workers, one of them slow. An all-reduce that is held up by a straggler
# gains almost nothing over one worker alone. The ways that don't wait have a loss 3 to 4 times lower than either. The
# *times* hold for any model, as long as computing takes nearly all of the time; the losses are those of digits.

# %% tags=["folded"]
# Checks of the numbers above
middle = {way: losses[2] for way, losses in end_loss.items()}
fast = ("asynchronous", "1 backup", "3 workers, all-reduce")
assert all(
    end_loss[one][2] < 0.6 * end_loss[other][0]
    for one in fast
    for other in middle
    if other not in fast
)
assert abs(math.log(middle["asynchronous"] / middle["1 backup"])) < 0.6
assert end_loss["asynchronous"][0] < middle["1 backup"] < end_loss["asynchronous"][-1]
counts = {way: len(log.contributions) for way, log in logs.items()}
assert 2.8 < counts["asynchronous"] / counts["synchronous"] < 3.6
assert abs(counts["all-reduce"] / counts["synchronous"] - 1) < 0.1
assert counts["bound of 4"] < 0.5 * counts["asynchronous"]
assert 0.85 < counts["1 backup"] / counts["asynchronous"] < 1
apart = math.log(after_same["asynchronous"] / after_same["synchronous"])
assert abs(apart) < 0.2
assert quartiles["asynchronous"][0] < quartiles["synchronous"][1]
assert quartiles["synchronous"][0] < quartiles["asynchronous"][1]
assert middle["3 workers, all-reduce"] == middle["1 backup"]
bounded = [each.staleness for each in logs["bound of 4"].contributions]
assert 0.3 < statistics.mean(bounded) < 0.5
assert 2.5 < middle["all-reduce"] / middle["asynchronous"] < 5
assert 2.5 < middle["alone"] / middle["asynchronous"] < 6
assert end_share["synchronous"] - 0.04 < end_share["alone"] < end_share["asynchronous"]
assert counts["alone"] == 114 and len(logs["synchronous"].updates) == 28

# %% [markdown]
# ## The busiest link
#
# A gradient has as many bytes as the parameters, $P$. In each round, $N$ workers pull and push: $2NP$ bytes go
# through the server's port, and $2P$ through each worker's. You know this picture: it is the master of lesson 02.
# Lesson 02 solved it with a ring. Here there is another remedy: **several servers**, each with a part of the
# parameters. `shard_parameters` cuts the large tensors into pieces and gives each server about the same number of
# *bytes*. Each worker talks to all servers at the same time.
#
# Sixteen workers, and a slower network: 10 MB/s. Computing still takes 10 ms.

# %%
SLOW_LINK = Link(latency=100e-6, bandwidth=10e6)


def busiest(trace: Trace) -> int:
    """The bytes in and out of the rank with the most of them (the two directions do not hinder each other)."""
    both = zip(trace.bytes_sent, trace.bytes_received, strict=True)
    return max(sent + received for sent, received in both)


# %%
guess_8 = predict(
    "16 synchronous workers. Through the busiest rank of 1 server go how many times the bytes of a ring all-reduce?"
)

# %%
STEPS = 6
traffic, rate_of, stale_of = {}, {}, {}
for servers in (1, 2, 4, 16):
    for mode, bound in (("sync", SYNCHRONOUS), ("async", ASYNCHRONOUS)):
        world = virtual(servers + CROWD, link=SLOW_LINK)
        log = world.run(train, STEPS, servers=servers, bound=bound)[0]
        name = f"{servers} server{'s' * (servers > 1)}"
        traffic[name, mode] = busiest(world.trace) / STEPS / (4 * NUMBERS)
        rate_of[name, mode] = throughput(log)
        half = log.updates[len(log.updates) // 4 : -len(log.updates) // 4]
        each = [each.staleness for update in half for each in update.contributions]
        stale_of[name, mode] = statistics.mean(each)
world = virtual(CROWD, link=SLOW_LINK)
done = world.run(all_reduce_times, STEPS)[0]
traffic["all-reduce", "sync"] = busiest(world.trace) / STEPS / (4 * NUMBERS)
rate_of["all-reduce", "sync"] = CROWD * STEPS / done[-1]

print("                  P per step, busiest rank   gradients per second   staleness")
for way, speed in rate_of.items():
    stale = stale_of.get(way, 0)
    print(
        f"{way[0]:10} {way[1]:5}   {traffic[way]:23.2f}   {speed:20.0f}   {stale:9.1f}"
    )
print(guess_8.compare(traffic["1 server", "sync"] / traffic["all-reduce", "sync"]))

# %% [markdown]
# - **One server** has to move $2 \cdot 16 = 32$ times $P$ in each step (and once more, at the end, the last pull). The
#   ring needs $4 \cdot 15/16 = 3.75\,P$, in and out together.
# - **$S$ servers** divide that by $S$. With 16 of them the busiest link carries $2P$: less than in the ring, where each
#   rank sends and receives $P$ nearly twice. But the machines are twice as many. Altogether the bytes are about the
#   same, $2NP$ with servers and $2(N-1)P$ in the ring. The ring spreads them over the workers' own links, without an
#   extra machine. A server *on* each worker's machine would come to the ring's figure, $4(N-1)/N \cdot P$: what it has
#   of its own worker needs no link.
# - **Asynchronous** training moves the same bytes and is faster here: parameters go out while gradients come in.
#   Synchronous workers all pull, then all compute, then all push, and each direction of a server's link is idle for
#   most of a step.
# - The **staleness** is below $N-1 = 15$ here. From when its gradient has arrived until its next pull is answered, a
#   worker has no parameters that could become stale. Here it waits then: in the server's queue, or for its other
#   messages.
#
# So for a dense model on equal machines servers have nothing to offer, unless there are machines to spare: as many
# servers without a GPU take load off the links of those with one. BytePS (Jiang et al. 2020) is built on this.

# %% tags=["folded"]
# Checks of the numbers above
for servers in (1, 2, 4, 16):
    name = f"{servers} server{'s' * (servers > 1)}"
    rounds = (2 * STEPS + 1) / STEPS  # one pull more than pushes
    for mode in ("sync", "async"):
        assert abs(traffic[name, mode] / (CROWD * rounds / servers) - 1) < 0.12
    assert rate_of[name, "async"] > 1.03 * rate_of[name, "sync"]
assert abs(traffic["all-reduce", "sync"] / 3.75 - 1) < 0.05
assert rate_of["2 servers", "sync"] > 1.2 * rate_of["1 server", "sync"]
assert rate_of["all-reduce", "sync"] > rate_of["4 servers", "sync"]
assert rate_of["1 server", "async"] > 1.3 * rate_of["1 server", "sync"]
assert 11 < stale_of["1 server", "async"] < 13 and stale_of["2 servers", "async"] < 14
assert traffic["16 servers", "sync"] < traffic["all-reduce", "sync"]

# %% [markdown]
# ## The same on real processes
#
# So far this was virtual time. Now real processes, real clocks, and a network that is paced to 20 MB/s. We send 400
# kB in each direction, for 3 steps, and compute nothing: only the links count.


# %%
def only_messages(comm: Communicator, servers: int, steps: int) -> float:
    """Pull and push 400 kB; seconds per step. Without servers: an all-reduce."""
    parameters = [torch.zeros(100_000)]
    comm.barrier()
    start = comm.time()
    if servers == 0:
        for _ in range(steps):
            all_reduce(comm, parameters[0])
        return (comm.time() - start) / steps
    shards = shard_parameters(parameters, servers)
    if comm.rank < servers:
        workers = range(servers, comm.world_size)
        optimizer = partial(torch.optim.SGD, lr=0.0)
        server_loop(comm, workers, flatten(parameters, shards[comm.rank]), optimizer)
        return 0.0
    client = ParameterClient(comm, range(servers), parameters, shards)
    for _ in range(steps):
        client.pull()
        client.push(parameters, 1)
    seconds = (comm.time() - start) / steps
    client.leave()
    return seconds


PACED = Link(latency=1e-3, bandwidth=20e6)

# %%
guess_9 = predict(
    "4 workers and 1 server: 400 kB take 20 ms on such a link. How long does a step take?",
    unit="ms",
)

# %%
clock, fastest, expected = {}, {}, {}
for servers in (1, 2, 0):
    name = f"{servers} server{'s' * (servers > 1)}" if servers else "all-reduce"
    with World(4 + servers, network=PACED) as world:
        world.run(only_messages, servers, 1)  # the first run makes connections
        runs = [max(world.run(only_messages, servers, 3)) for _ in range(5)]
        clock[name], fastest[name] = statistics.median(runs), min(runs)
    simulated = SimulatedWorld(4 + servers, Cluster.flat(4 + servers, PACED))
    expected[name] = max(simulated.run(only_messages, servers, 3))
    real, ideal = 1e3 * clock[name], 1e3 * expected[name]
    print(f"{name:10}  {real:5.0f} ms on the clock, {ideal:5.0f} ms in virtual time")
print(guess_9.compare(1e3 * clock["1 server"]))

# %% [markdown]
# The busiest link decides, on a clock as well. Four times the parameters go out through one server's link: 80 ms. The
# first gradients come in meanwhile, and the last one takes 20 ms more. Two servers need less, but not half: each
# worker's own link carries the two halves one after the other. The rest is latency, and on the clock also what virtual
# time leaves out: copying, and waking another process for each message. If your machine is busy, this shows most in
# the ring, with six rounds in which every rank waits for its neighbor.

# %% tags=["folded"]
# Checks of the numbers above
assert fastest["1 server"] > fastest["2 servers"]  # the least disturbed of five
assert 1.3 < expected["1 server"] / expected["2 servers"] < 1.7
assert 0.1 < expected["1 server"] < 0.12 and expected["all-reduce"] < 0.05

# %% [markdown]
# And the slow worker of the beginning, on a clock? Four workers sleep 40 ms for each gradient instead of computing
# one. Rank 4 sleeps four times as long, or not. Of two runs we keep the faster: it was disturbed less.


# %%
def asleep(comm: Communicator, bound: float, slow: float) -> ServerLog | None:
    """Pull, sleep and push. If nobody waits for rank 4, it does what it can until the others are done."""
    parameters = [torch.zeros(NUMBERS)]
    shards = shard_parameters(parameters, 1)
    if comm.rank == 0:
        mine, optimizer = (
            flatten(parameters, shards[0]),
            partial(torch.optim.SGD, lr=0.0),
        )
        return server_loop(comm, range(1, 5), mine, optimizer, bound=bound)

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(0.04 * (slow if comm.rank == 4 else 1))
        return parameters, 1

    steps = 6 if bound == SYNCHRONOUS else 12 // slow if comm.rank == 4 else 12
    worker_loop(ParameterClient(comm, [0], parameters, shards), compute, int(steps))
    return None


def per_second_after_the_first(log: ServerLog) -> float:
    """Gradients per second, from the first update until the first worker is done."""
    end = min({c.worker: u.time for u in log.updates for c in u.contributions}.values())
    first, *others = [update for update in log.updates if update.time <= end]
    return sum(len(u.contributions) for u in others) / (others[-1].time - first.time)


on_a_clock: dict[tuple[str, int], float] = {}
in_virtual_time: dict[tuple[str, int], float] = {}
simulated = SimulatedWorld(5, Cluster.flat(5, PACED))
with World(5, network=PACED) as world:
    for mode, bound in (("synchronous", SYNCHRONOUS), ("asynchronous", ASYNCHRONOUS)):
        for slow in (1, 4):
            runs = [world.run(asleep, bound, slow)[0] for _ in range(2)]
            on_a_clock[mode, slow] = max(map(per_second_after_the_first, runs))
            log = simulated.run(asleep, bound, slow)[0]
            in_virtual_time[mode, slow] = per_second_after_the_first(log)
print("gradients per second    all equal   rank 4 slow")
for mode in ("synchronous", "asynchronous"):
    for where, found in (("clock", on_a_clock), ("virtual", in_virtual_time)):
        print(f"{mode:12}  {where:8}  {found[mode, 1]:9.0f}  {found[mode, 4]:12.0f}")

# %% [markdown]
# In virtual time the synchronous server is three times as fast with equal workers as with a slow one. (Not four times:
# the messages take as long as before, and they belong to each step.) The asynchronous one loses about a fifth. On a
# machine that does nothing else the clock says the same. How close did yours come?

# %% tags=["folded"]
# Checks of the numbers above
assert 3 < in_virtual_time["synchronous", 1] / in_virtual_time["synchronous", 4] < 4
assert (
    0.75
    < in_virtual_time["asynchronous", 4] / in_virtual_time["asynchronous", 1]
    < 0.85
)

# %% [markdown]
# ## Somebody dies
#
# A cluster of a thousand machines loses one every few hours or days. What then?
#
# A simulated world can end a rank at a virtual time: `deaths={2: 0.3}`. Whoever waits for a dead rank gets a
# `PeerLost`. So does a rank that receives from anyone, once for each rank that dies: this is how a server learns of
# it.
#
# ### A worker
#
# Worker 2 of four equal workers dies after 0.3 seconds. We count gradients per second before and after. Then the same
# with an all-reduce.

# %%
guess_10 = predict(
    "One of 4 equal workers dies. What does the synchronous server lose of its gradients per second?",
    choices=["nothing", "a quarter", "half", "everything"],
)


# %%
def between(log: ServerLog, start: float, end: float) -> float:
    """Gradients per second in a stretch of time, from its first update to its last."""
    inside = [update for update in log.updates if start <= update.time < end]
    gradients = sum(len(update.contributions) for update in inside[1:])
    return gradients / (inside[-1].time - inside[0].time)


DEATH = 0.3
crash = {}
BEFORE, AFTER = (0.02, DEATH), (DEATH + 0.04, DEATH + 0.29)
for mode in MODES:
    results = virtual(5, deaths={2: DEATH}).run(train, 60, **MODES[mode])
    log = results[0]
    assert isinstance(results[2], PeerLost) and [rank for rank, _ in log.lost] == [2]
    crash[mode] = between(log, *BEFORE), between(log, *AFTER)
crash["all-reduce"] = between(all_reduce_log(virtual(4), 60), *BEFORE), 0.0
try:
    virtual(4, deaths={1: DEATH}).run(all_reduce_times, 60)
except RankError as error:
    print("all-reduce:", str(error).partition(";")[0])
    broken = True

print("               before   after, in gradients per second")
for way, (before, after) in crash.items():
    print(f"{way:12}   {before:6.0f}   {after:5.0f}")
print(guess_10.compare("a quarter"))

# %% [markdown]
# Synchronous or not, a server loses what the dead worker did, and not more. It forgets the clock of the dead worker,
# so nobody waits for it. (With 1 backup it is a third: of the three that are left, one is still the backup.) The dead
# worker's images are never seen again: nobody takes over its quarter. The all-reduce ends with an error: no ring is
# complete without a rank. To go on, the survivors would have to find each other and form a new group. (Elastic training
# does that: lesson 16.)
#
# Each gradient still counts a *quarter* of the rate, although there are only three now. A step of three gradients is
# then shorter: fewer images, smaller step. That is the linear rule of lesson 06, and after the same number of
# *images* the model has gone as far as without the death.
#
# The same question comes with the learning rate's schedule. "Halve the rate after 48 steps" means something else when
# there are fewer images in a step. So the server counts images. Images seen, divided by all images, are **virtual
# epochs**, and a schedule takes them instead of steps: `server_loop(schedule=…)` gets the number of samples applied
# so far. (They count examples, not passes: our images are drawn at random, so some come twice and some never.)


# %%
def halve(samples: int) -> float:
    """The rate's factor: half of it after each virtual epoch."""
    return 0.5 ** (samples // len(labels))


epochs = {}
for name, deaths in (("all live", {}), ("one dies", {2: DEATH})):
    log = virtual(5, deaths=deaths).run(train, 60, schedule=halve)[0]
    images_after_48 = sum(c.samples for u in log.updates[:48] for c in u.contributions)
    epochs[name] = images_after_48 / len(labels)
    print(f"{name}: 48 steps are {epochs[name]:.2f} virtual epochs")

# %% tags=["folded"]
# Checks of the numbers above
assert broken
for mode, left in zip(MODES, (0.75, 0.75, 2 / 3, 0.75), strict=True):
    before, after = crash[mode]
    assert abs(after / before - left) < 0.04, mode
assert epochs["all live"] == 2 and epochs["one dies"] < 1.85

# %% [markdown]
# ### A worker that comes later
#
# No other worker knows it, so nothing has to be set up again: its first pull is enough. Its clock begins at that of
# the slowest, else the others would have to wait until it has caught up with all their steps. One thing is off: the
# server began with three workers, so each gradient counts a third. Four of them move the parameters by 4/3 of the rate.

# %%
log = virtual(5).run(train, 60, late=0.3)[0]
print("joined:", [(rank, f"{when:.2f} s") for rank, when in log.joined])
print(
    f"{between(log, *BEFORE):.0f} gradients per second, then {between(log, *AFTER):.0f}"
)

# %% tags=["folded"]
# Checks of the numbers above
assert [rank for rank, _ in log.joined] == [4]
assert abs(between(log, *AFTER) / between(log, *BEFORE) - 4 / 3) < 0.06

# %% [markdown]
# ### The server
#
# And if rank 0 dies?

# %%
guess_11 = predict(
    "The server dies after 0.3 s. What do the four workers have then?",
    choices=[
        "the newest parameters",
        "parameters they last pulled, and nobody who applies their gradients",
        "nothing changes for them",
    ],
)

# %%
try:
    virtual(5, deaths={0: DEATH}).run(train, 60, bound=ASYNCHRONOUS)
except RankError as error:
    print("The run has ended:", str(error).partition(";")[0])
    ended = True
print(
    guess_11.compare(
        "parameters they last pulled, and nobody who applies their gradients"
    )
)

# %% [markdown]
# The server is a **single point of failure**. There are two remedies.
#
# **A checkpoint.** The server writes its state to a file after every 20 updates: parameters, momentum, images so far.
# When it dies, everything is started again from the file. What came after the last checkpoint is lost, and so is the
# time to start again.

# %%
DEATHS = (0.25, DEATH, 0.35)
path, lost_images = Path(tempfile.mkdtemp()) / "server.pt", {}
for death in DEATHS:
    world = virtual(5, deaths={0: death})
    keep = keep_in_file(path, every=20)
    try:
        world.run(train, 60, bound=ASYNCHRONOUS, keep=keep)
    except RankError:
        saved = read_checkpoint(path)
    arrived = sum(m.tag == GRADIENT and m.end <= death for m in world.trace)
    lost_images[death] = EACH * arrived - saved.samples
    print(
        f"dead after {death} s: version {saved.version} is on disk, "
        f"{saved.samples:,} images; {lost_images[death]} images are lost"
    )

restarted = virtual(5).run(train, 35, bound=ASYNCHRONOUS, start=saved)
print(f"after the restart: {restarted[0].samples:,} images in all")

# %% [markdown]
# (One simplification: our workers begin their steps from 0 again, so they meet the batches of their first steps a
# second time. A real training keeps the state of its random numbers as well.)
#
# **A replica.** A second server gets the state after each update, before any worker does. When the first one dies,
# the workers turn to the second one, and it goes on from there. Only the gradients that the first one had taken and
# not yet applied are lost. The price is on the link: the parameters go out once more for each update. An asynchronous
# update is one pull, so that should double what the server sends. A synchronous one is $N$ pulls: a factor of about
# $1 + 1/N$.


# %%
def train_with_replica(
    comm: Communicator, steps: int, bound: float = ASYNCHRONOUS
) -> ServerLog | list[torch.Tensor] | None:
    """Rank 0 serves, rank 1 is its replica, the others work."""
    parameters = list(make_model(0).parameters())
    shards = shard_parameters(parameters, 1)
    workers, optimizer = range(2, comm.world_size), partial(torch.optim.SGD, lr=0.4)
    mine = flatten(parameters, shards[0])
    if comm.rank == 0:
        keep = keep_on_replica(comm, 1)
        return server_loop(comm, workers, mine, optimizer, bound=bound, keep=keep)
    if comm.rank == 1:
        return replica_loop(comm, 0, workers, mine, optimizer, bound=bound)

    chosen = images_of_steps(0, len(workers), steps)[comm.rank - 2]

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(SECONDS)
        outputs = forward(images[chosen[step]], parameters)
        loss = cross_entropy(outputs, labels[chosen[step]])
        return list(torch.autograd.grad(loss, parameters)), EACH

    client = ParameterClient(comm, [0], parameters, shards, replicas={0: 1})
    worker_loop(client, compute, steps)
    return [parameter.detach() for parameter in parameters]


envelope = len(saved.to_bytes()) - 4 * NUMBERS
print(f"around the parameters in each state: {envelope:,} bytes")
times_as_much = {}
for mode, bound in (("synchronous", SYNCHRONOUS), ("asynchronous", ASYNCHRONOUS)):
    guarded, plain = virtual(6), virtual(5)
    guarded.run(train_with_replica, 30, bound)
    plain.run(train, 30, bound=bound)
    times_as_much[mode] = guarded.trace.bytes_sent[0] / plain.trace.bytes_sent[0]
    print(f"{mode}: the server sends {times_as_much[mode]:.2f} times as much")

lost_gradients = {}
for death in DEATHS:
    results = virtual(6, deaths={0: death}).run(train_with_replica, 60)
    lost_gradients[death] = 4 * 60 - results[1].samples // EACH
    print(f"dead after {death} s: {lost_gradients[death]} of 240 gradients are lost")

# %% [markdown]
# What is above 2 and above 1¼ is the file format around the parameters, with the names of their tensors. For a model of
# some size it would not show.

# %% tags=["folded"]
# Checks of the numbers above
assert ended and saved.version % 20 == 0 and saved.samples == saved.version * EACH
assert restarted[0].samples == saved.samples + 4 * 35 * EACH
assert all(0 <= images < 20 * EACH for images in lost_images.values())
share = 1 + envelope / (4 * NUMBERS)  # of a state, in P
assert abs(times_as_much["asynchronous"] - 1 - share) < 0.1
assert abs(times_as_much["synchronous"] - 1 - share / 4) < 0.06
assert isinstance(results[0], PeerLost)
assert all(0 <= gradients <= 4 for gradients in lost_gradients.values())
test_outputs = forward(test_images, results[2])
assert float((test_outputs.argmax(dim=1) == test_labels).float().mean()) > 0.8

# %% [markdown]
# ## The table
#
# Everything that you have run, in one table, and one more way: two servers, asynchronous. What each column is measured
# on:
#
# - *per second*: gradients with 4 equal workers on the fast network,
# - *staleness* and the *losses*: one of 4 workers 4 times slower, at the best rate, after 1.2 virtual seconds, and
#   after as many gradients as the synchronous server has then,
# - *slow worker*, *dead worker*: the part of the gradients per second that it costs, with 4 workers,
# - *server dies*: what has to be kept elsewhere for the training to go on,
# - *busiest link*: bytes in and out per step with 16 workers, which do not depend on the mode.

# %%
two_logs = {
    name: virtual(6, **more).run(train, 60, servers=2, bound=ASYNCHRONOUS)[0]
    for name, more in (
        ("equal", {}),
        ("straggler", {"slow": {5: 4.0}}),
        ("crash", {"deaths": {3: DEATH}}),
    )
}
two_speed = {name: throughput(two_logs[name]) for name in ("equal", "straggler")}
two_crash = [between(two_logs["crash"], *stretch) for stretch in (BEFORE, AFTER)]
early = until(0.5, two_logs["straggler"])  # while all are there
two_stale = statistics.mean(each.staleness for each in early.contributions)
even, slow = speeds["all equal"], speeds["one always slow"]


def of_server(mode: str) -> list[float]:
    before, after = crash[mode]
    stale = statistics.mean(each.staleness for each in logs[mode].contributions)
    return [
        even[mode], stale, end_loss[mode][2], after_same[mode], 1 - slow[mode] / even[mode],
        1 - after / before, traffic["1 server", "sync"],
    ]  # fmt: skip


nothing = math.nan  # not measured
ring_equal = crash["all-reduce"][0]
ring_slow = between(logs["all-reduce"], 0, END)
table = {f"1 server, {mode}": of_server(mode) for mode in MODES}
table["2 servers, asynchronous"] = [
    two_speed["equal"], two_stale,
    nothing, nothing, 1 - two_speed["straggler"] / two_speed["equal"],
    1 - two_crash[1] / two_crash[0], traffic["2 servers", "async"],
]  # fmt: skip
table["all-reduce"] = [
    ring_equal, 0, end_loss["all-reduce"][2], after_same["synchronous"],
    1 - ring_slow / ring_equal, 1.0, traffic["all-reduce", "sync"],
]  # fmt: skip
print(f"{'':24}   per   stale-  loss after the same   slow    dead    server   busiest")
print(f"{'':24}second   ness     time   gradients   worker  worker   dies     link")
for way, (speed, stale, timed, same_many, straggler, dead, link) in table.items():
    losses = f"{timed:9.3f}  {same_many:8.3f}".replace("nan", "  –")
    costs = f"{straggler:8.0%}  {dead:6.0%}"
    dies = "has none" if way == "all-reduce" else "its state"
    print(
        f"{way:24}{speed:6.0f}  {stale:5.1f}  {losses}  {costs}  {dies:>9}  {link:6.1f} P"
    )

# %% [markdown]
# - With equal workers that don't die, the all-reduce is about as fast as any server, has the least on its busiest link,
#   and no server to lose.
# - With a worker that is always slow, "asynchronous" and "1 backup" have the lowest losses after the same time, by a
#   factor of 3 to 4. The backup pays with a quarter of the gradients where all are equal, and never uses the slow
#   worker. (An all-reduce of the three others does the same.)
# - When a worker dies, every server goes on with what is left. Only the all-reduce ends.
# - After the same number of gradients the ways with four workers are close together. What differs is the time.

# %% tags=["folded"]
# Checks of the numbers above
assert (
    table["1 server, asynchronous"][4] <= 0.25
    and table["2 servers, asynchronous"][4] <= 0.25
)
best_two = sorted((row[2], way) for way, row in table.items() if row[2] == row[2])[:2]
assert {way for _, way in best_two} == {"1 server, asynchronous", "1 server, 1 backup"}
assert table["1 server, 1 backup"][4] < 0.05
assert abs(ring_equal / even["synchronous"] - 1) < 0.05
assert table["1 server, synchronous"][4] > 0.7 and table["all-reduce"][4] > 0.7
assert abs(table["2 servers, asynchronous"][5] - 0.25) < 0.08
assert min(table, key=lambda way: table[way][6]) == "all-reduce"
assert 2.5 < table["2 servers, asynchronous"][1] < 3.5

# %% [markdown]
# ## Live, on real processes
#
# Now everything at once, on real processes and real clocks: a server and three workers, on a paced network. Worker 3
# is four times slower. Worker 2 is killed half way, by the operating system: it gets no chance to say goodbye. The
# server prints a line after every 60 updates, while it goes on. `deaths={}` lets a world go on when a process dies.

# %%
import os
import signal


def report(log: ServerLog) -> None:
    """A line after every 60 updates."""
    number = len(log.updates)
    if number % 60 == 0:
        by_worker = Counter(each.worker for each in log.contributions)
        stale = [c.staleness for u in log.updates[-60:] for c in u.contributions]
        bar = "█" * (number // 20)
        print(
            f"{log.updates[-1].time - log.updates[0].time:5.1f} s  {bar:13} {number:3} updates, by worker "
            f"{by_worker[1]:3} {by_worker[2]:3} {by_worker[3]:3}, staleness {statistics.mean(stale):.1f}",
            flush=True,
        )


def live(comm: Communicator, steps: int) -> ServerLog | list[torch.Tensor]:
    torch.set_num_threads(1)
    parameters = list(make_model(0).parameters())
    shards = shard_parameters(parameters, 1)
    if comm.rank == 0:
        mine, optimizer = (
            flatten(parameters, shards[0]),
            partial(torch.optim.SGD, lr=1.6),
        )
        return server_loop(
            comm, (1, 2, 3), mine, optimizer, bound=ASYNCHRONOUS, after_update=report
        )
    chosen = images_of_steps(0, 3, steps)[comm.rank - 1]

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        if comm.rank == 2 and step == steps // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.sleep(8 * SECONDS if comm.rank == 3 else 2 * SECONDS)
        outputs = forward(images[chosen[step]], parameters)
        loss = cross_entropy(outputs, labels[chosen[step]])
        return list(torch.autograd.grad(loss, parameters)), EACH

    client = ParameterClient(comm, [0], parameters, shards)
    worker_loop(client, compute, steps if comm.rank < 3 else steps // 2)
    return [parameter.detach() for parameter in parameters]


# %%
guess_12 = predict(
    "How many of the test images are classified correctly at the end?", unit="%"
)

# %%
with World(4, network=PACED, deaths={}) as world:
    results = world.run(live, 120)
log = results[0]
outputs = forward(test_images, results[1])
correct = float((outputs.argmax(dim=1) == test_labels).float().mean())
for rank, when in log.lost:
    print(
        f"lost: rank {rank}, {when - log.updates[0].time:.1f} s after the first update"
    )
print(guess_12.compare(100 * correct))

# %% tags=["folded"]
# Checks of the numbers above
assert [rank for rank, _ in log.lost] == [2] and isinstance(results[2], PeerLost)
applied = Counter(each.worker for each in log.contributions)
assert applied == {1: 120, 2: 60, 3: 60}
assert correct > 0.88


# %% [markdown]
# ## In real frameworks
#
# ### torch
#
# torch.distributed has no parameter server built in. It has `send` and `recv`, and with them a synchronous one is a
# few lines. Ours and this one compute the same.

# %%
import torch.distributed as dist

from distlib.worlds.real.process_group import torch_distributed


def with_torch(comm: Communicator, steps: int) -> torch.Tensor | None:
    """A synchronous server on rank 0, by torch's send and recv alone."""
    parameters = list(make_model(0).parameters())
    flat = nn.utils.parameters_to_vector(parameters).detach()
    workers = range(1, comm.world_size)
    with torch_distributed(comm):
        for step in range(steps):
            if comm.rank == 0:
                total, gradient = torch.zeros_like(flat), torch.empty_like(flat)
                for worker in workers:
                    dist.send(flat, worker)
                for worker in workers:
                    dist.recv(gradient, worker)
                    total += gradient
                flat -= 0.4 * total / len(workers)
            else:
                dist.recv(flat, 0)
                nn.utils.vector_to_parameters(flat.clone(), parameters)
                chosen = images_of_steps(0, len(workers), steps)[comm.rank - 1, step]
                outputs = forward(images[chosen], parameters)
                loss = cross_entropy(outputs, labels[chosen])
                gradients = torch.autograd.grad(loss, parameters)
                dist.send(nn.utils.parameters_to_vector(gradients), 0)
    return flat if comm.rank == 0 else None


with World(3) as world:
    theirs = world.run(with_torch, 20)[0]
    ours = torch.cat([part.flatten() for part in world.run(train, 20)[1][1]])
print(f"largest difference after 20 steps: {float((ours - theirs).abs().max()):.0e}")
assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)

# %% [markdown]
# For an asynchronous server, `dist.recv(tensor)` without a source takes from anyone (over gloo, not over NCCL), and
# returns the sender's rank. The other way is `torch.distributed.rpc`: a worker calls a method of an object that lives
# on the server. There are PyTorch tutorials of a parameter server built on it, but they are no longer developed.
#
# ### TensorFlow
#
# TensorFlow has one ready-made: `tf.distribute.ParameterServerStrategy`, with a coordinator that hands out steps to
# workers. When a worker dies, it gives that step to another worker; a step may then run more than once. Lesson 13
# uses it.
#
# ### When is it used today?
#
# - **Dense models**, such as language and image models, on equal machines with fast links: all-reduce, and the sharded
#   forms of it in lesson 11. Every step needs every parameter, all ranks are about equally fast, and a synchronous step
#   is the same as in one process, so that a run can be repeated and understood. Servers pay only where machines are to
#   spare whose links are idle (BytePS).
# - **Sparse models**: recommender systems with tables of billions of rows. A step touches a few thousand of them. A
#   worker pulls and pushes only those, and the tables don't fit on one machine anyway. Here parameter servers are at
#   home, often asynchronous.
# - **Unreliable or unequal workers**: machines that are rented by the minute and taken away, or phones. Federated
#   learning has a server for the same reason, though its rounds are more like lesson 06's local SGD.
#
# A third way has neither a server nor an all-reduce: each rank averages with a few neighbors. That is **gossip**, and
# lesson 08.

# %% [markdown]
# ## A game
#
# Nine ranks on a slow network of 10 MB/s. Rank 8, a worker, is 4 times slower. You decide how many of the ranks are
# servers; the others work. You choose the mode: a bound, or a number of backup workers. And you choose the rate. The
# goal is a loss of 0.1 on all training images, as the median of five seeds, in as little *virtual* time as possible.
# Everything is deterministic: the same choice gives the same time on every machine, so you can compare yours with
# others'.

# %%
GOAL = 0.1


def attempt(rate: float, servers: int = 1, **mode: float) -> float:
    """Virtual seconds until the goal; infinity if 60 steps per worker are not enough."""
    world = virtual(9, {8: 4.0}, link=SLOW_LINK)
    log = world.run(play, 60, servers=servers, **mode)[0]
    backups = int(mode.get("backups", 0))
    points, _ = replay(log, 9 - servers, [rate], every=0, backups=backups)
    reached = [when for when, losses in points if losses.median() <= GOAL]
    return min(reached, default=math.inf)


# %% tags=["folded"]
# The messages and the clock of a training whose gradients are left out: the replay computes them
def renumbered(update: Update, less: int) -> Update:
    """Workers numbered from 1, as with one server."""
    of = [replace(each, worker=each.worker - less) for each in update.contributions]
    return replace(update, contributions=tuple(of))


def play(
    comm: Communicator, steps: int, servers: int, **mode: float
) -> ServerLog | None:
    parameters = [torch.zeros(NUMBERS)]
    shards = shard_parameters(parameters, servers)
    workers = range(servers, comm.world_size)
    if comm.rank < servers:
        mine, optimizer = flatten(parameters, shards[comm.rank]), torch.optim.SGD
        log = server_loop(comm, workers, mine, partial(optimizer, lr=0.0), **mode)
        return ServerLog([renumbered(update, servers - 1) for update in log.updates])

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(SECONDS)
        return parameters, EACH

    worker_loop(
        ParameterClient(comm, range(servers), parameters, shards), compute, steps
    )
    return None


# %% [markdown]
# **Your turn.** Change the arguments, and try to get below half a second. `bound=math.inf` is asynchronous,
# `backups=1` synchronous with one backup worker, `bound=0` synchronous.

# %%
mine = attempt(rate=3.2, servers=1, bound=0)
print(f"goal reached after {mine:.3f} virtual seconds")

# %% tags=["folded"]
# The best that we know of: asynchronous, two servers
best_known = attempt(rate=6.4, servers=2, bound=ASYNCHRONOUS)
one_server = attempt(rate=6.4, servers=1, bound=ASYNCHRONOUS)
with_backup = attempt(rate=4.8, servers=2, backups=1)
print(f"best known: {best_known:.3f} virtual seconds")
print(f"with one server {one_server:.3f}, synchronous with a backup {with_backup:.3f}")
assert best_known < one_server < 0.6 and best_known < with_backup < 0.6
assert best_known < 0.45

# %% [markdown]
# ## In short
#
# - A server need not wait. One rule, how far a worker may be ahead of the slowest, makes it synchronous, bounded or
#   asynchronous.
# - One worker 4 times slower costs a synchronous training 4 times its speed, an asynchronous one what that worker does
#   not do. A bound helps against slowness that comes and goes, not against a worker that is always slow.
# - Where computing takes nearly all of the time, the mean staleness is $N-1$, whatever the speeds. On a busy link it is
#   lower.
# - Compare modes per gradient and per time, each at its own best rate, with enough seeds, and with each gradient
#   counting $1/N$. Then, for plain SGD, staleness lowers the ceiling of the rate by a fifth, not by a factor of $N$.
#   With momentum 0.9 it is lowered about 30 times.
# - Backup workers are meant for slowness that moves from worker to worker. A worker that is always slow can as well be
#   sent home.
# - A server's link carries $2NP$ bytes in each step, in a ring each link nearly $4P$. $S$ servers divide $2NP$ by $S$;
#   with $N$ extra machines that is half of the ring's.
# - A dead worker costs what it did. A dead server ends the training, unless its state is kept elsewhere.
# - Count images, not steps.
#
# ## Now you
#
# In [the exercise](../exercises/07_parameter_server/07_parameter_server.ipynb) you write the server's loop, the
# worker's loop, the rule between them, and the cut of the parameters.
#
# ## Further reading
#
# - M. Li et al., [Scaling Distributed Machine Learning with the Parameter
#   Server](https://www.usenix.org/conference/osdi14/technical-sessions/presentation/li_mu), OSDI 2014. Several servers,
#   ranges of keys, replicas.
# - J. Dean et al., [Large Scale Distributed Deep
#   Networks](https://papers.nips.cc/paper/2012/hash/6aca97005c68f1206823815f66102863-Abstract.html), NIPS 2012.
#   Asynchronous training of large networks: Downpour SGD.
# - Q. Ho et al., [More Effective Distributed ML via a Stale Synchronous Parallel Parameter
#   Server](https://papers.nips.cc/paper/2013/hash/b7bb35b9c6ca2aee2df08cf09d7016c2-Abstract.html), NIPS 2013. The
#   bound.
# - J. Chen et al., [Revisiting Distributed Synchronous SGD](https://arxiv.org/abs/1604.00981), 2016. Backup workers.
# - Y. Jiang et al., [A Unified Architecture for Accelerating Distributed DNN Training in Heterogeneous GPU/CPU
#   Clusters](https://www.usenix.org/conference/osdi20/presentation/jiang), OSDI 2020. BytePS: servers on machines to
#   spare, as fast as or faster than all-reduce.
# - W. Zhang et al., [Staleness-aware Async-SGD for Distributed Deep Learning](https://arxiv.org/abs/1511.05950),
#   IJCAI 2016. A rate that is divided by the staleness.
# - I. Mitliagkas et al., [Asynchrony begets Momentum, with an Application to Deep
#   Learning](https://arxiv.org/abs/1605.09774), 2016.
# - PyTorch, [Distributed communication](https://docs.pytorch.org/docs/stable/distributed.html), for `send` and `recv`,
#   and [RPC](https://docs.pytorch.org/docs/stable/rpc.html).
# - TensorFlow, [Parameter server training](https://www.tensorflow.org/tutorials/distribute/parameter_server_training).
