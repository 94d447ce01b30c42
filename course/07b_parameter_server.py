# %% [markdown]
# # Parameter servers
#
# **This lesson is optional.** It is a side road, which no lesson of the main road needs.
# [Lesson 07](07_without_waiting.ipynb) is the tour; this is the whole story.
#
# After this lesson you will be able to
#
# - train with a server that has the parameters and workers that push gradients, synchronously or not,
# - predict what one slow worker costs in each mode, and say what a bound on the workers' lead helps against,
# - say how stale gradients are where computing takes nearly all the time, and what that does to the learning rate,
# - say whose images a way to train never sees, and what the model then does not know,
# - find the busiest link, and push and pull only the rows of a table that a step touches.
#
# **Time:** about 130 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and
# [Large batches](06_large_batches.ipynb). No GPU.
#
# [Lesson 07c](07c_servers_that_fail.ipynb) goes on where this one ends: on real clocks, and when workers and servers
# die, or come later. It is optional.

# %% tags=["folded"]
# What this lesson uses
import math
import random
import statistics
from collections import Counter
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    Trace,
    World,
    all_reduce,
)
from distlib.draw import compare_costs, curves, histogram, predict, timeline
from distlib.games import server_race
from distlib.training import (
    ASYNCHRONOUS,
    GRADIENT,
    PARAMETERS,
    REQUEST,
    SYNCHRONOUS,
    Contribution,
    ParameterClient,
    ServerLog,
    Update,
    answers_of,
    digits,
    flatten,
    losses_of,
    replay,
    replay_digits,
    server_loop,
    shard_parameters,
    worker_loop,
)

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %%
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
# (In the paper on stale-synchronous training, Ho et al. 2013, updates are applied at once, and only reading waits.)
#
# This is the program that each rank runs. The library has the two loops, `server_loop` and `worker_loop`. You write
# your own in the exercise. A worker's images are a quarter of all images if there are four workers, and its 16 images
# of each step are chosen at random, once and for all: with the same seed, every run in this lesson gives a worker the
# same images in the same step. `by_digit` is for later.


# %%
def images_of_steps(
    seed: int, workers: int, steps: int, by_digit: bool = False
) -> torch.Tensor:
    """Which images each worker takes in each of its steps, [workers, steps, 16]."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    if by_digit:
        order = order[labels[order].argsort(stable=True)]
    own = torch.stack(order.split(len(labels) // workers)[:workers])
    chosen = torch.randint(own.shape[1], (workers, steps, EACH), generator=generator)
    return own.gather(1, chosen.flatten(1)).view_as(chosen)


def forward(inputs: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
    weights, bias, last_weights, last_bias = parameters
    return torch.relu(inputs @ weights.T + bias) @ last_weights.T + last_bias


# %%
SECONDS = 10e-3  # that a gradient takes, in virtual time
Spans = list[tuple[float, float]]


def train(
    comm: Communicator,
    steps: int,
    servers: int = 1,
    slow_at_times: float = 1.0,
    **options: object,
) -> ServerLog | tuple[Spans, list[torch.Tensor]]:
    """Servers come first. A worker returns when it computed, and what it has learnt."""
    parameters = list(make_model(0).parameters())
    shards = shard_parameters(parameters, servers)
    workers = range(servers, comm.world_size)
    if comm.rank < servers:
        mine = flatten(parameters, shards[comm.rank])
        return server_loop(
            comm, workers, mine, partial(torch.optim.SGD, lr=0.4), **options
        )

    number = comm.rank - servers
    chosen = images_of_steps(0, len(workers), steps)[number]
    hiccup = torch.rand(steps, generator=torch.Generator().manual_seed(number)) < 0.1
    spans = []

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        begin = comm.time()
        comm.sleep(SECONDS * (slow_at_times if hiccup[step] else 1))
        loss = cross_entropy(
            forward(images[chosen[step]], parameters), labels[chosen[step]]
        )
        gradients = torch.autograd.grad(loss, parameters)
        spans.append((begin, comm.time()))
        return list(gradients), EACH

    worker_loop(
        ParameterClient(comm, range(servers), parameters, shards), compute, steps
    )
    return spans, [parameter.detach() for parameter in parameters]


# %% [markdown]
# ## One slow worker
#
# A server (rank 0) and four workers (ranks 1 to 4), in virtual time. A gradient takes 10 ms, and up to a tenth longer
# at random, as on any real machine. The network is fast: 50 µs and 1 GB/s. Rank 4 is a **straggler**: it takes four
# times as long as the others.

# %%
FAST = Link(latency=50e-6, bandwidth=1e9)


def virtual(
    ranks: int, slow: dict[int, float] | None = None, link: Link = FAST, **more: object
) -> SimulatedWorld:
    """A simulated cluster. slow: rank → how many times longer it computes."""
    cluster = Cluster.flat(ranks, link, stragglers=slow or {}, jitter=0.1)
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

# %% tags=["folded"]
# The picture of a run
KINDS = {GRADIENT: "gradient", PARAMETERS: "parameters"}


def show_start(world: SimulatedWorld, results: list, title: str) -> object:
    """The timeline of the first 90 ms, without the small requests."""
    end = 0.09
    early = world.trace.filter(lambda m: m.tag != REQUEST and m.end < end)
    spans = [[]]
    for computing, _ in results[1:]:
        spans.append([(a, min(b, end)) for a, b in computing if a < end])
    return timeline(early, title, color_by=lambda m: KINDS[m.tag], computing=spans)


# %%
show_start(
    straggling, synchronous["straggler"], "Synchronous, rank 4 four times slower"
)

# %%
guess_2 = predict(
    "Now asynchronous, with the same slow worker. "
    "What percentage of the throughput of four equal workers is lost?",
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
    "One worker is always 4 times slower. Compared with asynchronous training, "
    "what throughput does a bound of 4 give?",
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

# %% [markdown]
# Against a worker that is *always* slow, a bound does not help: after a few steps the fast ones have used it up, and
# from then on they go as fast as the slowest. In the long run a bounded training is as fast as its slowest worker,
# whatever the bound is. Against slowness that comes and goes within a few steps the bound helps a lot: somebody who
# fell behind catches up before the others have used up their lead. If it lasts longer, they wait here, too.
#
# A backup throws away a quarter of the gradients even when all are equal. Chen et al. add the backups to the workers
# that are needed anyway: 96 workers and 4 backups, say. Against slowness that moves from worker to worker it gains
# something here, with other random delays sometimes nearly nothing: a late worker is missing for several steps, and
# whoever is late in the meantime is waited for. A bound of 4 gains far more against such short delays. Against a worker
# that is always slow it is as fast as three workers alone, because it *is* three workers alone. Keep that in mind: it
# will matter.

# %% tags=["folded"]
# Checks of the numbers above
slow, hiccups = speeds["one always slow"], speeds["all slow at times"]
assert slow["bound of 4"] < 0.45 * slow["asynchronous"]
assert slow["1 backup"] > 2.5 * slow["synchronous"]
log = straggling.run(train, 40, backups=1)[0]
all_there = [update for update in log.updates if update.time < 40 * SECONDS]
used = Counter(each.worker for update in all_there for each in update.contributions)
refused = Counter(refusal.worker for refusal in log.refused)
assert used[4] == 0 < refused[4] and min(used[rank] for rank in (1, 2, 3)) > 30
gain = hiccups["1 backup"] / hiccups["synchronous"]
assert 0.9 < gain < 1.3 < hiccups["bound of 4"] / hiccups["synchronous"]

# %% [markdown]
# ## How stale is a gradient?
#
# An asynchronous worker computes its gradient with the parameters that it has pulled. Meanwhile others push, and the
# server changes its parameters. When the gradient arrives it belongs to a model that no longer exists. How many
# updates there were in between is its **staleness**. The server writes it down for every gradient.

# %%
guess_4 = predict(
    "With four equal workers the mean staleness is about 3: while I compute once, "
    "each of the other three pushes once. "
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
# In the long run the mean is $N-1$ for $N$ workers, however fast or slow each of them is. (A gradient that has not
# arrived is not counted yet: a worker that is a thousand times slower may not show at all.) Here is why. Take any one
# update. Each of the $N-1$ other workers is just then computing one gradient, and for each of these the update counts
# as one. So every update adds $N-1$ to the sum of all stalenesses. This holds if computing takes nearly all of the
# time, as it does here. If not, some workers wait for new parameters just then, and the mean is lower: we shall see
# that on a slow network.
#
# A bound of 4 is not a bound of 4 on this staleness. The bound counts how many gradients of its own a worker is ahead,
# staleness counts the updates of everybody.
#
# The argument needs no messages, only times. The next cell works out who pushes when from the speeds alone.
#
# **Try it.** Change the speeds: as many workers as you like, some of them ten times slower, one faster than all
# others. Can you move the mean away from $N-1$?


# %%
def log_of_speeds(
    seconds: list[float], updates: int = 1500, hiccups: float = 0.0
) -> ServerLog:
    """Who pushes when, asynchronously: worker i needs seconds[i] for a gradient,
    messages take no time.

    hiccups: the share of the gradients, chosen at random, that take 4 times as long.
    """
    chance = random.Random(0)
    done = [0] * len(seconds)  # gradients of each worker
    pulled = [0] * len(seconds)  # the version that it computes with
    due = [each * (number + 1) / len(seconds) for number, each in enumerate(seconds)]
    log = ServerLog()
    for version in range(updates):
        worker = due.index(min(due))
        done[worker] += 1
        stale = version - pulled[worker]
        one = Contribution(worker + 1, done[worker], stale, samples=EACH)
        log.updates.append(Update(due[worker], (one,)))
        pulled[worker] = version + 1
        due[worker] += seconds[worker] * (4 if chance.random() < hiccups else 1)
    return log


my_speeds = [1.0, 1.0, 1.0, 4.0]
log = log_of_speeds(my_speeds)
mean = statistics.mean(each.staleness for each in log.contributions)
print(f"{len(my_speeds)} workers: mean staleness {mean:.2f}")

# %% tags=["folded"]
# One way to do it
for some_speeds in (
    [1.0, 10.0],
    [1.0] * 8,
    [2.0, 7.0, 0.5, 1, 1, 1, 1, 1],
    [1.0] * 15 + [10.0],
):
    log = log_of_speeds(some_speeds)
    mean = statistics.mean(each.staleness for each in log.contributions)
    print(f"{len(some_speeds)} workers: mean staleness {mean:.2f}")
    assert abs(mean - (len(some_speeds) - 1)) < 0.1 * (len(some_speeds) - 1)

# %% tags=["folded"]
# Checks of the numbers above
assert all(abs(mean - 3) < 0.15 for mean in means.values())
counts = Counter(staleness["one 4 times slower"])
assert 11 <= max(counts) <= 13 and counts[2] > counts[3] > counts[4]
assert Counter(staleness["four equal workers"]).most_common(1)[0][0] == 3
unseen = log_of_speeds([1.0, 1.0, 1.0, 1000.0])  # a gradient of the last never comes
assert 1.9 < statistics.mean(each.staleness for each in unseen.contributions) < 2.1
for workers, slow_ranks in (
    (2, {}),
    (8, {1: 2.0, 2: 7.0, 3: 0.5}),
):  # with messages, too
    log = virtual(workers + 1, slow_ranks).run(train, 45, bound=ASYNCHRONOUS)[0]
    middle = [u for u in log.updates if 0.1 < u.time < 0.3]
    mean = statistics.mean(c.staleness for u in middle for c in u.contributions)
    assert abs(mean - (workers - 1)) < 0.15 * (workers - 1)

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
# Many trainings are needed: modes, rates, seeds. There is a trick. Who pushes when depends on the *clock* and not on
# the numbers in a gradient. So we run each mode once, in virtual time, keep the server's log, and *replay* it: in the
# same order, with the same staleness, for all rates and seeds at once. The library has `replay` for that. Our `trial`
# calls it with the digits: `trial(log, workers, rates)` returns the losses, and the trained models. Its code is folded.
# It checks itself: the replay of a run arrives where the run has arrived, stale gradients and all.

# %% tags=["folded"]
# A replay on our digits, many models at once
# Each row of `numbers` is a model
Point = tuple[float, torch.Tensor]  # a time, and the losses [rates, seeds] then


def trial(
    log: ServerLog,
    workers: int,
    rates: list[float],
    *,
    backups: int = 0,
    momentum: float = 0.0,
    by_digit: bool = False,
    seeds: int = 5,
    servers: int = 1,
    every: float = math.inf,
) -> tuple[list[Point], torch.Tensor]:
    """Train a model for each rate and seed in the order of a log.

    Returns points in time, one every so many virtual seconds and at the end, and the
    final parameters, [rates, seeds, 2410].
    """
    how = {"servers": servers, "backups": backups, "momentum": momentum}
    models = replay_digits(
        log, rates, workers=workers, by_digit=by_digit, seeds=seeds, **how
    )
    points, last = [], log.updates[-1].time
    for time, numbers in models:
        if time == last or time >= every * (len(points) + 1):
            points.append((time, losses_of(numbers).view(len(rates), seeds)))
    return points, numbers.view(len(rates), seeds, NUMBERS)


def is_right(numbers: torch.Tensor) -> torch.Tensor:
    """Whether each model classifies each test image correctly, [models, 261], as 0 or 1."""
    return (answers_of(numbers) == test_labels).float()


results = equal.run(train, 30, bound=ASYNCHRONOUS)
_, replayed = trial(results[0], 4, [0.4])
last = max((results[rank] for rank in (1, 2, 3, 4)), key=lambda result: result[0][-1])
found = torch.cat([parameter.flatten() for parameter in last[1]])
assert torch.allclose(replayed[0, 0], found, rtol=1e-3, atol=1e-5)
assert not torch.allclose(replayed[0, 1], found, rtol=1e-3, atol=1e-5)  # another seed

# %% [markdown]
# Three logs of 640 gradients: synchronous, asynchronous with equal workers, and asynchronous with 8 of the 16 workers
# four times slower.

# %% tags=["folded"]
# The beginning of a log
CROWD, BUDGET = 16, 640


def first_gradients(log: ServerLog, number: int) -> ServerLog:
    """The log until that many gradients have been applied."""
    sizes = torch.tensor([len(update.contributions) for update in log.updates])
    return ServerLog(log.updates[: int((sizes.cumsum(0) <= number).sum())])


# %%
half_slow = {rank: 4.0 for rank in range(9, 17)}
crowd_logs = {
    "synchronous": virtual(CROWD + 1).run(train, 40)[0],
    "asynchronous": virtual(CROWD + 1).run(train, 40, bound=ASYNCHRONOUS)[0],
    "half are slow": virtual(CROWD + 1, half_slow).run(train, 64, bound=ASYNCHRONOUS)[
        0
    ],
}
crowd_logs = {name: first_gradients(log, BUDGET) for name, log in crowd_logs.items()}
for name, log in crowd_logs.items():
    mean = statistics.mean(each.staleness for each in log.contributions)
    counts = f"{len(log.contributions)} gradients, {len(log.updates):3} updates"
    print(f"{name:13}  {counts}, mean staleness {mean:4.1f}")

# %%
guess_5 = predict(
    "The best rate of the synchronous training is about 6.4. "
    "Somebody changes to asynchronous training, "
    "without the division by 16: each gradient moves the parameters by 6.4 times "
    "itself. What happens?",
    choices=["it learns faster", "about the same", "it breaks"],
)

# %%
RATES = [1.6, 4.8, 6.4, 8.0, 9.0, 11.0, 13.0]


def losses_at(
    name: str, rates: list[float], momentum: float = 0.0
) -> dict[float, float]:
    """The loss at the end at each rate, median of seven seeds."""
    points, _ = trial(crowd_logs[name], CROWD, rates, momentum=momentum, seeds=7)
    return dict(zip(rates, points[-1][1].median(dim=1).values.tolist(), strict=True))


undivided = losses_at("asynchronous", [16 * 6.4])[16 * 6.4]
print(f"asynchronous with 6.4 for each gradient: loss {undivided:.3g}")
print(guess_5.compare("it breaks"))
final = {name: losses_at(name, RATES) for name in ("synchronous", "asynchronous")}
print("loss at rate ", "  ".join(f"{rate:5}" for rate in RATES))
for name, found in final.items():
    print(f"{name:13}", "  ".join(f"{found[rate]:5.3f}" for rate in RATES))

# %% [markdown]
# The first comparison was a straw man, and an easy mistake: "asynchronous training diverges". With the same rate *per
# update* it moves 16 times as far for the same gradients. A loss of 2.3 would mean guessing. (Zhang et al. 2016 divide
# each gradient by its staleness, about $N-1$. That is nearly our $1/N$.)
#
# Now compare the two rows fairly, column by column. Up to a rate of 4.8 they are nearly the same, although the
# gradients of the second row are 15 updates old. Why does that not hurt? Because the 15 updates in between are small
# ones: each moves the parameters by a sixteenth. Together they are one synchronous step. A worker of the synchronous
# training also computes with parameters that do not know the other 15 gradients yet. It only uses them before they
# get old.
#
# At the high rates the rows differ: with most seeds the asynchronous training breaks earlier.
#
# Those were 16 equal workers. But who would choose asynchronous training then? It is there for *unequal* workers. In
# the third log half of the workers are four times slower. The mean staleness is the same.

# %%
guess_6 = predict(
    "Half of the workers are four times slower, the mean staleness is the same. "
    "At which rate does it break?",
    choices=[
        "lower than with equal workers",
        "the same",
        "higher, but below the synchronous one",
        "above the synchronous one",
    ],
)

# %%
final["half are slow"] = losses_at("half are slow", RATES)
print("loss at rate ", "  ".join(f"{rate:5}" for rate in RATES))
for name, found in final.items():
    print(f"{name:13}", "  ".join(f"{found[rate]:5.3f}" for rate in RATES))
print(guess_6.compare("above the synchronous one"))
ages = {
    name: [c.staleness for c in crowd_logs[name].contributions]
    for name in list(final)[1:]
}
histogram(
    ages,
    along="staleness",
    title="The same mean, a different spread",
    subtitle="asynchronous, 16 workers; dotted: the mean",
)

# %% [markdown]
# With unequal workers the asynchronous training tolerates a *higher* rate than the synchronous one. Staleness of the
# same mean, and the opposite effect. Look at the histogram. Four of five gradients come from the fast workers, and they
# are about 9 updates old, not 15. The old gradients, about 38 updates, are few. Whether it is this spread that helps,
# we ask below, with a control.

# %% tags=["folded"]
# Checks of the numbers above
by_rate = {name: [found[rate] for rate in (1.6, 4.8)] for name, found in final.items()}
for name in ("asynchronous", "half are slow"):
    pairs = zip(by_rate[name], by_rate["synchronous"], strict=True)
    assert all(abs(math.log(one / other)) < 0.3 for one, other in pairs)
assert not undivided < 2.3
times = [final["asynchronous"][r] / final["synchronous"][r] for r in (8.0, 9.0)]
assert max(times) > 1.4 and min(times) > 0.8
assert final["half are slow"][11.0] < 0.15 < 0.6 < final["synchronous"][11.0]
assert all(13.5 < statistics.mean(found) < 15 for found in ages.values())
fresh = [each for each in ages["half are slow"] if each < 20]
assert 0.78 < len(fresh) / BUDGET < 0.82 and 8 < statistics.mean(fresh) < 10
old = [each for each in ages["half are slow"] if each >= 30]
assert 34 < statistics.mean(old) < 40

# %% [markdown]
# ### Where is the ceiling?
#
# Lesson 06 found a ceiling of the rate, and [lesson 06b](06b_how_large_a_batch.ipynb) explains it: on a parabola of
# curvature $\lambda$, plain gradient descent breaks above $\eta\lambda = 2$. A parabola has no noise and no end of
# training, so there the ceiling is sharp. Let $w$ be the distance to its lowest point; the gradient there is
# $\lambda w$. If every gradient is exactly $\tau$ updates old:
#
# $$w_{t+1} = w_t - a\,w_{t-\tau}, \qquad a = \frac{\eta\lambda}{N}, \qquad \tau = N - 1$$
#
# In theory (the roots of $z^{\tau+1} = z^\tau - a$ must lie inside the unit circle) the ceiling of $\eta\lambda$ is
# $2N \sin\frac{\pi}{2(2\tau+1)}$. We find it by trying. `replay` takes a parabola as well as digits, and any log.


# %%
def ceiling(log: ServerLog, momentum: float = 0.0, share: int = 0) -> float:
    """The largest rate at which w goes to 0 on a parabola of curvature 1, in the order of a log.

    A gradient counts 1/share of the rate, or if that is 0, one over the number of workers.
    """
    workers = share or max(each.worker for each in log.contributions)
    rates = torch.logspace(math.log10(0.03), math.log10(8), 350)
    start = torch.ones(len(rates), 1, dtype=torch.float64)
    steps = replay(
        log, start, lambda w, worker, clock: w, rates, share=workers, momentum=momentum
    )
    latest = torch.stack([w.abs().squeeze(1) for _, w in steps][-4 * workers :])
    settled = latest.amax(dim=0) < 1
    return float(rates[int(settled.long().argmin()) - 1])


# %%
guess_7 = predict(
    "With 1 worker the ceiling is at 2. "
    "Where is it with 64 equal workers and gradients that are 63 updates old?"
)

# %%
print("equal workers   found   theory")
ceilings = {}
for workers in (1, 2, 4, 16, 64):
    ceilings[workers] = ceiling(log_of_speeds([1.0] * workers, 200 * max(workers, 4)))
    theory = 2 * workers * math.sin(math.pi / (2 * (2 * workers - 1)))
    print(f"{workers:13}   {ceilings[workers]:5.2f}   {theory:6.2f}")
    assert abs(ceilings[workers] / theory - 1) < 0.05
print(guess_7.compare(ceilings[64]))
mixtures = {
    "equal": [1.0] * 16,
    "one is 4 times slower": [1.0] * 15 + [4.0],
    "a quarter is": [1.0] * 12 + [4.0] * 4,
    "half are": [1.0] * 8 + [4.0] * 8,
}
by_mixture = {
    name: ceiling(log_of_speeds(mixture, 3000)) for name, mixture in mixtures.items()
}
print(
    "16 workers:",
    ", ".join(f"{name} {found:.2f}" for name, found in by_mixture.items()),
)

# %%
# Two controls. 16 equally fast workers with hiccups: their ages differ, too
hiccuping = ceiling(log_of_speeds([1.0] * 16, 3000, hiccups=0.1))
print(f"16 equally fast ones, slow at times: {hiccuping:.2f}")
# And only the 8 fast workers, each gradient still counts 1/16
together = [tuple(Contribution(w, t, 0, EACH) for w in range(1, 9)) for t in range(200)]
fast_alone = {
    "synchronous": ServerLog([Update(t, each) for t, each in enumerate(together)]),
    "asynchronous": log_of_speeds([1.0] * 8, 3000),
}
fast_alone = {name: ceiling(log, share=16) for name, log in fast_alone.items()}
print("8 fast ones:", ", ".join(f"{mode} {x:.2f}" for mode, x in fast_alone.items()))

# %% [markdown]
# With equal workers it is not 64 times lower, and not even twice: with many workers it goes to $\pi/2 = 1.57$, and no
# further. So staleness takes away up to a fifth of the ceiling, with many workers (with 4 it is a tenth), if every
# gradient counts $1/N$ and *all are equally old*.
#
# If half of the workers are slow the ceiling is above 2: higher than that of synchronous training, as on the digits. Do
# the different ages help? By themselves, says the first control: 16 equally fast workers, of which each takes four
# times as long in one gradient out of ten, have a ceiling of 2.4, with the same mean age. So nobody's images count
# less.
#
# But slow workers help in a second way, says the other control. The 8 fast workers *alone*, each gradient still $1/16$,
# have a ceiling of 4 in synchronous training: a step of 8 such gradients moves only half as far. Asynchronously it is
# 3.3, a fifth less, as for equal workers. The slow ones, added to them, take a little more away. So most gradients meet
# fewer others on their way: while a fast worker computes one, about 9 others arrive and not 15. The price is that the
# slow workers' images count less. We come back to that.
#
# No mixture of speeds that we have tried is clearly worse than equal ones. A few are worse by some percent, if all
# times are exact; with random delays that is gone.
#
# **Try it.** Look for a mixture of speeds, of as many workers as you like, whose ceiling is lower than that of equally
# many equal workers. `ceiling(log_of_speeds([1.0, 1.0, 3.0], 1000))`

# %%
print(
    f"{ceiling(log_of_speeds([1.0, 1.0, 3.0], 1000)):.2f}, equal: "
    f"{ceiling(log_of_speeds([1.0] * 3, 1000)):.2f}"
)

# %% tags=["folded"]
# One way to do it
for mixture in (
    [1.0, 9.0],
    [1.0, 1.0, 1.0, 8.0],
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    [5.0] * 7 + [1.0],
    [1.0, 1.5, 3.0],
    [1.5, 3.0, 1.0],
):
    mixed = ceiling(log_of_speeds(mixture, 2000))
    same = ceiling(log_of_speeds([1.0] * len(mixture), 2000))
    print(f"{mixture}: {mixed:.2f}, equal: {same:.2f}")
    assert mixed > 0.95 * same
# One of them is a little lower. In another order (the last row) it is much higher:
# exact times decide
jittered = [
    virtual(4, slow).run(train, 100, bound=ASYNCHRONOUS)[0]
    for slow in ({2: 1.5, 3: 3.0}, {})
]
mixed, same = (ceiling(first_gradients(log, 200)) for log in jittered)
print(f"[1.0, 1.5, 3.0] with random delays: {mixed:.2f}, equal: {same:.2f}")
assert mixed > 0.99 * same

# %% tags=["folded"]
# Checks of the numbers above
falling = list(ceilings.values())
assert ceilings[1] > 1.9 and 1.5 < ceilings[64] < 1.65
assert all(a >= b for a, b in zip(falling, falling[1:], strict=False))
rising = list(by_mixture.values())
assert all(a < b for a, b in zip(rising, rising[1:], strict=False))
assert by_mixture["equal"] < 1.7 and 0.85 < ceilings[4] / 2 < 0.93
uneven = log_of_speeds([1.0] * 16, 3000, hiccups=0.1)
assert 2.2 < hiccuping < 2.5
assert 14.5 < statistics.mean(each.staleness for each in uneven.contributions) < 15
counts = Counter(each.worker for each in uneven.contributions)
assert max(counts.values()) < 1.3 * min(counts.values())
uneven = first_gradients(uneven, BUDGET)  # and on the digits
on_digits = trial(uneven, CROWD, [11.0], seeds=7)[0][-1][1].median()
print(f"digits, rate 11, equally fast and slow at times: loss {on_digits:.3f}")
assert on_digits < 0.3 < 0.5 < final["synchronous"][11.0]
assert 3.8 < fast_alone["synchronous"] < 4.1
assert 2.5 < by_mixture["half are"] < fast_alone["asynchronous"] < 3.5

# %% [markdown]
# ### And with momentum?
#
# Do not take this for "staleness is harmless". Asynchrony acts like additional momentum (Mitliagkas et al. 2016). What
# if the optimizer has momentum, too?

# %%
guess_8 = predict(
    "Digits, 16 equal workers, momentum 0.9. Synchronous training is best at a rate of about 1. "
    "How many times lower is the best asynchronous rate?"
)

# %%
SMALLER = [0.1, 0.2, 0.4, 0.8, 1.2, 2.4, 3.6, 6.4]
heavy = {name: losses_at(name, SMALLER, momentum=0.9) for name in list(crowd_logs)[:2]}
tenfold = losses_at("asynchronous", [10 * rate for rate in SMALLER])
heavy["plain, 10 times"] = {rate: tenfold[10 * rate] for rate in SMALLER}
print("loss at rate    ", "  ".join(f"{rate:5}" for rate in SMALLER))
for name, found in heavy.items():
    print(f"{name:16}", "  ".join(f"{found[rate]:5.3f}" for rate in SMALLER))
best = {name: min(found, key=found.get) for name, found in heavy.items()}
print(guess_8.compare(best["synchronous"] / best["asynchronous"]))
on_parabola = (
    ceiling(log_of_speeds([1.0], 800), 0.9),
    ceiling(log_of_speeds([1.0] * 16, 3000), 0.9),
)
print(
    f"ceiling on a parabola: synchronous {on_parabola[0]:.1f}, asynchronous {on_parabola[1]:.2f}"
)

# %% [markdown]
# And where does it break? That depends on what one calls broken. Here are the lowest rates, of a ladder in steps of
# 15 %, at which the loss at the end is above a limit.

# %%
ladders = {
    "synchronous": [3.0 * 1.15**k for k in range(10)],
    "asynchronous": [0.5 * 1.15**k for k in range(6)],
}
climbed = {name: losses_at(name, rates, 0.9) for name, rates in ladders.items()}
earlier = {}
for limit in (0.25, 0.5, 1.0):
    first = [
        min(rate for rate, loss in found.items() if loss > limit)
        for found in climbed.values()
    ]
    earlier[limit] = first[0] / first[1]
    print(
        f"loss above {limit:4}: synchronous at {first[0]:4.1f}, asynchronous at {first[1]:.2f}, "
        f"{earlier[limit]:.0f} times earlier"
    )

# %% [markdown]
# In this run of 40 steps on the digits the best rate is 2 to 3 times lower, and training breaks 6 to 10 times earlier.
# On the parabola, with 16 workers, the ceiling is 30 times lower: no noise, no end of training, and all gradients
# equally old.
#
# But look at the small rates. There the asynchronous training has *learned more* from the same gradients. The third row
# of the table says why. It is asynchronous training *without* momentum, at ten times the rate, and up to 0.4 it has
# about the same losses. Momentum of 0.9 remembers about 10 updates. In synchronous training these are 160 gradients,
# and it takes 10 of the 40 steps until the velocity has built up. In asynchronous training they are 10 gradients, fewer
# than the 16 of one step. A memory that short only makes each gradient count $1/(1-0.9) = 10$ times.
#
# So the lead is an effect of the start, in a run of only 40 steps. In a run of 160 steps it is gone from a rate of 0.1
# on. There the best rate of the asynchronous training is about 5 times lower than that of the synchronous one, and each
# at its own best rate, it ends with a far higher loss.
#
# So after a change of mode, tune rate and momentum again. And remember that our model is small and easy.

# %% tags=["folded"]
# Checks of the numbers above
assert 1.5 <= best["synchronous"] / best["asynchronous"] <= 6.1
assert heavy["asynchronous"][0.8] > 0.25 > heavy["synchronous"][3.6]
assert heavy["synchronous"][6.4] > 0.25 > heavy["asynchronous"][0.4]
assert all(
    heavy["asynchronous"][small] < 0.95 * heavy["synchronous"][small]
    for small in (0.1, 0.2)
)
for small in (0.1, 0.2, 0.4):
    assert abs(heavy["asynchronous"][small] / heavy["plain, 10 times"][small] - 1) < 0.2
assert 24 < on_parabola[0] / on_parabola[1] < 36
assert min(earlier.values()) > 4.5 and max(earlier.values()) < 12
in_step = [
    Update(t, tuple(Contribution(w, t, 0, EACH) for w in range(1, CROWD + 1)))
    for t in range(1, 161)
]
for_long = ServerLog(in_step), log_of_speeds([1.0] * CROWD, 160 * CROWD)
after_160 = []
for log, rates in zip(for_long, ([0.1, 1.2, 2.4], [0.1, 0.5, 0.8]), strict=True):
    points, _ = trial(log, CROWD, rates, momentum=0.9, seeds=3)
    after_160.append(points[-1][1].median(dim=1).values.tolist())
    print(
        f"momentum 0.9, 160 steps, rates {rates}:", [f"{x:.4f}" for x in after_160[-1]]
    )
in_steps, one_by_one = after_160
assert in_steps[2] < in_steps[1] and one_by_one[1] < min(one_by_one[0], one_by_one[2])
assert 10 * in_steps[2] < one_by_one[1]
assert 0.85 < one_by_one[0] / in_steps[0] < 1.15

# %% [markdown]
# ## Per time, and on whose images
#
# Now per *time*: 4 workers, one of them always 4 times slower, 1.2 virtual seconds. Two *controls* need no server,
# and without them the rest would mean little. In one the slow worker is sent home, and three train synchronously. In
# the other worker 1 trains alone, on its quarter of the images, and never talks to anybody.
#
# Each way gets five rates, and keeps the one whose median loss at the end is lowest. (An all-reduce of all four would
# make the same updates as the synchronous server, at nearly the same times.)

# %%
guess_9 = predict(
    "1.2 virtual seconds, one of 4 workers 4 times slower. Which way has learned most?",
    choices=[
        "asynchronous, by far",
        "1 backup, by far",
        "these two, with hardly a difference",
        "synchronous, by far",
    ],
)

# %%
END = 1.2  # virtual seconds


def until(end: float, log: ServerLog) -> ServerLog:
    """The part of a log up to a time."""
    return ServerLog([update for update in log.updates if update.time <= end])


STEPS_OF = {"synchronous": 30, "bound of 4": 36}  # the others: as many as fit
logs = {
    mode: straggling.run(train, STEPS_OF.get(mode, 116), **options)[0]
    for mode, options in MODES.items()
}
refused = {(each.worker, each.reason) for each in logs["1 backup"].refused}
logs["3 workers"] = virtual(4).run(train, 116)[0]
own_times = [0.0105 * step for step in range(1, 121)]  # 10 ms, half a jitter more
logs["alone"] = ServerLog(
    [Update(t, (Contribution(1, k + 1, 0, EACH),)) for k, t in enumerate(own_times)]
)
logs = {way: until(END, log) for way, log in logs.items()}
NOT_COUNTED = {
    "1 backup": 1,
    "3 workers": 1,
    "alone": 3,
}  # of 4: each gradient counts 1/3, or 1


def at_its_best(
    way: str, by_digit: bool = False
) -> tuple[list[tuple[float, float]], list[float], torch.Tensor]:
    """At the best of five rates: the median loss over time, the losses at the end, and
    the final parameters."""
    backups, rates = NOT_COUNTED.get(way, 0), [0.8, 1.6, 3.2, 4.8, 6.4]
    points, numbers = trial(
        logs[way], 4, rates, backups=backups, by_digit=by_digit, every=END / 15
    )
    best = int(points[-1][1].median(dim=1).values.argmin())
    line = [(when, float(losses[best].median())) for when, losses in points]
    return line, sorted(points[-1][1][best].tolist()), numbers[best]


# %%
mixed = {way: at_its_best(way) for way in logs}
print("                gradients   loss (five seeds)        test accuracy")
for way, (_, losses, numbers) in mixed.items():
    low, middle, high = losses[0], losses[2], losses[4]
    accuracy = float(is_right(numbers).mean(dim=1).median())
    print(
        f"{way:14}  {len(logs[way].contributions):9}   {middle:.3f} ({low:.3f} to "
        f"{high:.3f})   {accuracy:13.1%}"
    )
print(guess_9.compare("these two, with hardly a difference"))
curves(
    {way: line for way, (line, _, _) in mixed.items() if way != "3 workers"},
    along="virtual seconds",
    values="loss",
    title="The loss on all training images, with one worker 4 times slower",
    subtitle="at the best rate, median of five seeds; 3 workers: as 1 backup",
)

# %% [markdown]
# Two ways win by far: they have used three times the gradients of the others. Between these two the seeds make more
# difference than the way. (Chen et al. claim more: that with backups large image models end with a better accuracy than
# asynchronously. Our small models can't decide that.) But look at the controls. Sending the slow worker home does what
# the backup does. And worker 1 alone is nearly as good as four workers who wait for the slowest.
#
# Is "asynchronous" the same as "1 backup", then? So far the images were *mixed*: all workers have images of the same
# kind. Real workers often have data of their own: a hospital, a phone, a language.
#
# Sort the images by digit before they are given out. Worker 4, the slow one, then owns all the 8s and 9s, and a few of
# the 7s. Everything else stays: the same logs, the same rates.

# %%
guess_10 = predict(
    "Images sorted by digit, the slow worker owns the 8s and 9s. "
    "What share of the 8s and 9s does the training with 1 backup classify correctly at the end?",
    unit="%",
)

# %%
EIGHT_OR_NINE = test_labels >= 8
in_order = {
    way: at_its_best(way, by_digit=True)
    for way in ("synchronous", "1 backup", "asynchronous")
}
shares = {}
for name, found in (("mixed", mixed), ("sorted", in_order)):
    for way in in_order:
        right = is_right(found[way][2])
        shares[f"{way}, {name}"] = {
            "digits 0 to 7": 100 * float(right[:, ~EIGHT_OR_NINE].mean(dim=1).median()),
            "digits 8 and 9": 100 * float(right[:, EIGHT_OR_NINE].mean(dim=1).median()),
        }
whole = {
    way: float(is_right(in_order[way][2]).mean(dim=1).median()) for way in in_order
}
print(
    "sorted, test accuracy:",
    ", ".join(f"{way} {share:.1%}" for way, share in whole.items()),
)
by_slow = sum(each.worker == 4 for each in logs["asynchronous"].contributions)
print(
    f"asynchronous: {by_slow} of {len(logs['asynchronous'].contributions)} gradients "
    "are the slow worker's"
)
print("1 backup, refused gradients (worker, why):", refused)
print(guess_10.compare(shares["1 backup, sorted"]["digits 8 and 9"]))
compare_costs(
    shares,
    title="Test images classified correctly",
    subtitle="median of five seeds",
    show="{:.0f} %".format,
)

# %% [markdown]
# **This is the experiment to remember.** The backup's model does not know one 8 or 9. It is not worse at them: it has
# never seen any. It has never seen a quarter of the *mixed* images either, but there the other three workers have
# images of the same kind.
#
# What warns? Not the throughput, and nothing that was measured on mixed images: there the two ways look equal. A test
# on images of all kinds does: 79 % of them are right, and 95 % after asynchronous training. And the server's log does
# before any test: all gradients that it refused are worker 4's. So look at whose gradients are used.
#
# Asynchronous training has used only a few gradients of the slow worker, and knows these digits nearly as well as the
# others.
#
# So a worker that is always slow can be sent home *if the others have data like its own*. Chen et al. made sure of
# that: all their workers draw from all images.
#
# The asynchronous way has a milder form of the same fault: it takes a slow worker's images less often, here one
# gradient in 13. That was enough. Is it still enough if the worker is 20 times slower? And what about the 16 workers
# from above, half of them slow, on sorted images?

# %%
very_slow = log_of_speeds([0.0105] * 3 + [20 * 0.0105], 1800)  # 20 times slower
known, came = {}, {}
for slower, end, log in (
    (4, 0.3, logs["asynchronous"]),
    (4, END, logs["asynchronous"]),
    (20, END, very_slow),
    (20, 6.0, very_slow),
):
    log = until(end, log)
    _, numbers = trial(log, 4, [3.2], by_digit=True)
    right = is_right(numbers[0])[:, EIGHT_OR_NINE]
    known[slower, end] = 100 * float(right.mean(dim=1).median())
    came[slower, end] = sum(each.worker == 4 for each in log.contributions)
    print(
        f"{slower:2} times slower, after {end} s: {came[slower, end]:2} gradients of worker 4, "
        f"{known[slower, end]:.0f} % of the 8s and 9s"
    )

# %%
best_sorted = {}
for name, log in crowd_logs.items():
    points, _ = trial(log, CROWD, [4.8, 6.4, 8.0], by_digit=True)
    best_sorted[name] = float(points[-1][1].median(dim=1).values.min())
    print(
        f"16 workers, sorted, {name:13} loss {best_sorted[name]:.3f} at the best of three rates"
    )

# %% [markdown]
# In 1.2 seconds the worker that is 20 times slower has pushed 5 gradients: too few. After 6 seconds they are about as
# many as the other one's after 1.2 seconds, and the model knows about 80 % of its digits. And what a worker that is 4
# times slower has pushed in 0.3 seconds is too few as well. So it is not the slowness alone that decides, but how many
# of its gradients have come. Asynchronous training learns a slow worker's digits *late*, a backup *never*.
#
# With half of the 16 workers slow, the loss is higher than that of synchronous training after as many gradients. The
# digits of the slow ones count a quarter, and none of these rates mends that.
# So what we found about rates further above holds for mixed images.
#
# **Try it.** Which digits get lost if another worker is slow? Make worker 2 four times slower and run the backup
# again, on sorted images.

# %%
slow_worker = 4
log = until(0.6, virtual(5, {slow_worker: 4.0}).run(train, 60, backups=1)[0])
_, numbers = trial(log, 4, [1.6], backups=1, by_digit=True)
right = is_right(numbers[0])
print("digit   ", "  ".join(f"{digit:4}" for digit in range(10)))
print(
    "correct ",
    "  ".join(f"{right[:, test_labels == digit].mean():4.0%}" for digit in range(10)),
)

# %% tags=["folded"]
# One way to do it
log = until(0.6, virtual(5, {2: 4.0}).run(train, 60, backups=1)[0])
_, numbers = trial(log, 4, [1.6], backups=1, by_digit=True)
right = is_right(numbers[0])
of_digit = [float(right[:, test_labels == digit].mean()) for digit in range(10)]
print("correct ", "  ".join(f"{share:4.0%}" for share in of_digit))
assert max(of_digit[3:5]) < 0.2 < 0.6 < min(of_digit[:2] + of_digit[5:7] + of_digit[8:])

# %% tags=["folded"]
# Checks of the numbers above
last_losses = {way: losses for way, (_, losses, _) in mixed.items()}
fast = ("asynchronous", "1 backup", "3 workers")
assert all(
    last_losses[one][2] < 0.6 * last_losses[other][0]
    for one in fast
    for other in last_losses
    if other not in fast
)
low, high = last_losses["asynchronous"][0], last_losses["asynchronous"][-1]
assert low < last_losses["1 backup"][2] < high
counts = {way: len(log.contributions) for way, log in logs.items()}
assert 2.8 < counts["asynchronous"] / counts["synchronous"] < 3.6
assert counts["bound of 4"] < 0.5 * counts["asynchronous"]
assert abs(last_losses["3 workers"][2] / last_losses["1 backup"][2] - 1) < 0.1
assert 0.6 < last_losses["alone"][2] / last_losses["synchronous"][2] < 2
bounded = [each.staleness for each in logs["bound of 4"].contributions]
assert 0.3 < statistics.mean(bounded) < 0.5
lost_digits = {name: found["digits 8 and 9"] for name, found in shares.items()}
assert lost_digits["1 backup, sorted"] < 2 and lost_digits["1 backup, mixed"] > 80
assert (
    lost_digits["asynchronous, sorted"] > 75 and lost_digits["synchronous, sorted"] > 75
)
assert (
    whole["1 backup"] < 0.82
    and whole["asynchronous"] > 0.92
    and whole["synchronous"] > 0.88
)
assert abs(by_slow / counts["asynchronous"] - 1 / 13) < 0.01
assert refused == {(4, "late")}
assert came[20, END] == 5 and abs(came[20, 6.0] - came[4, END]) <= 3
assert known[20, END] < 30 and known[4, 0.3] < 65
assert known[20, 6.0] > 70 and known[4, END] > 75
assert (
    best_sorted["half are slow"]
    > 1.3 * best_sorted["synchronous"]
    > 0.9 * best_sorted["asynchronous"]
)
sorted_labels = labels.sort().values[-len(labels) // 4 :]
assert sorted_labels.unique().tolist() == [7, 8, 9] and int(
    (sorted_labels >= 8).sum()
) == int((labels >= 8).sum())

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
guess_11 = predict(
    "16 synchronous workers. Through the busiest rank of 1 server go how many times "
    "the bytes of a ring all-reduce?"
)

# %%
SLOW_LINK = Link(latency=100e-6, bandwidth=10e6)
STEPS = 6


def busiest(trace: Trace) -> float:
    """What goes in and out of the rank with the most bytes, per step, in units of P."""
    both = zip(trace.bytes_sent, trace.bytes_received, strict=True)
    return max(sent + received for sent, received in both) / STEPS / (4 * NUMBERS)


def all_reduce_times(comm: Communicator, steps: int) -> float:
    """The same work without a server: when the last step was done."""
    for _ in range(steps):
        comm.sleep(SECONDS)
        all_reduce(comm, torch.zeros(NUMBERS))
    return comm.time()


traffic, rate_of, stale_of = {}, {}, {}
for servers in (1, 2, 4, 16):
    for mode, bound in (("sync", SYNCHRONOUS), ("async", ASYNCHRONOUS)):
        world = virtual(servers + CROWD, link=SLOW_LINK)
        log = world.run(train, STEPS, servers=servers, bound=bound)[0]
        traffic[servers, mode] = busiest(world.trace)
        rate_of[servers, mode] = throughput(log)
        half = log.updates[len(log.updates) // 4 : -len(log.updates) // 4]
        stale_of[servers, mode] = statistics.mean(
            c.staleness for u in half for c in u.contributions
        )
world = virtual(CROWD, link=SLOW_LINK)
rate_of[0, "sync"] = CROWD * STEPS / world.run(all_reduce_times, STEPS)[0]
traffic[0, "sync"] = busiest(world.trace)

# %%
print("                    P per step, busiest rank   gradients per second   staleness")
for (servers, mode), speed in rate_of.items():
    name = f"servers: {servers}" if servers else "all-reduce"
    link, stale = traffic[servers, mode], stale_of.get((servers, mode), 0)
    print(f"{name:12} {mode:5}   {link:23.2f}   {speed:20.0f}   {stale:9.1f}")
print(guess_11.compare(traffic[1, "sync"] / traffic[0, "sync"]))

# %% [markdown]
# - **One server** has to move $2 \cdot 16 = 32$ times $P$ in each step (and once more, at the end, the last pull). The
#   ring needs $4 \cdot 15/16 = 3.75\,P$, in and out together.
# - **$S$ servers** divide that by $S$. With 16 of them the busiest link carries $2P$: about half of what it carries in
#   the ring, where each rank sends and receives $P$ nearly twice. But that takes twice the machines. Altogether the
#   bytes are about the same, $2NP$ with servers and $2(N-1)P$ in the ring. The ring spreads them over the workers' own
#   links, without an extra machine. A server *on* each worker's machine would come to the ring's figure,
#   $4(N-1)/N \cdot P$: what it has of its own worker needs no link.
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
    rounds = (2 * STEPS + 1) / STEPS  # one pull more than pushes
    for mode in ("sync", "async"):
        assert abs(traffic[servers, mode] / (CROWD * rounds / servers) - 1) < 0.12
    assert rate_of[servers, "async"] > 1.03 * rate_of[servers, "sync"]
assert abs(traffic[0, "sync"] / 3.75 - 1) < 0.05
assert rate_of[2, "sync"] > 1.2 * rate_of[1, "sync"]
assert rate_of[0, "sync"] > rate_of[4, "sync"]
assert rate_of[1, "async"] > 1.3 * rate_of[1, "sync"]
assert 11 < stale_of[1, "async"] < 13 and stale_of[2, "async"] < 14
assert traffic[16, "sync"] < traffic[0, "sync"]

# %% [markdown]
# ## Only the rows that a step touches
#
# What are parameter servers for today, then? For models most of which a step does not need. A shop has a row of numbers
# for each article and each customer, a search engine one for each word. The **table** of these rows (the *embeddings*)
# may have billions of rows. A step touches those of its own samples: a few thousand.
#
# Then a worker pulls **only the touched rows**, and pushes only their gradients. All other rows have a gradient of 0.
# Each server has a **key range**: rows 0 to 9,841, say. A worker sends it the *keys* of the rows that it needs there.
# `sparse_server_loop` and `SparseClient` in the library do that, asynchronously, with plain SGD. A gradient counts
# whole here, not $1/N$: another worker seldom touches the same row.
#
# A small example with real data: guess the next letter. The last three letters choose a row of 27 numbers, a score for
# each letter that might follow (and for the space). There are $27^3 = 19{,}683$ rows. The text is what Python's own
# `help()` shows.

# %% tags=["folded"]
# The text: which row each place of it chooses, and which letter follows
from pydoc_data.topics import topics

from distlib.training import SparseClient, key_ranges, sparse_server_loop

words = "".join(
    sign if "a" <= sign <= "z" else " " for sign in " ".join(topics.values()).lower()
).split()
text = torch.tensor([ord(sign) - 96 if sign != " " else 0 for sign in " ".join(words)])
ROWS, WIDTH = 27**3, 27
row_of = 27**2 * text[:-3] + 27 * text[1:-2] + text[2:-1]  # by the three letters before
following = text[3:]
print(f"{len(text):,} letters, {len(row_of.unique()):,} of {ROWS:,} rows ever come up")


def places_of_steps(worker: int, steps: int, samples: int) -> torch.Tensor:
    """Which places of the text a worker takes in each step, [steps, samples]."""
    generator = torch.Generator().manual_seed(worker)
    return torch.randint(len(following), (steps, samples), generator=generator)


# %%
def train_sparse(
    comm: Communicator, servers: int, steps: int, samples: int = 64
) -> tuple | int:
    """A server returns its rows and its log, a worker how many bytes the formula says
    that it moves."""
    ranges = key_ranges(ROWS, servers)
    if comm.rank < servers:
        rows = torch.zeros(len(ranges[comm.rank]), WIDTH)
        workers = range(servers, comm.world_size)
        return rows, sparse_server_loop(
            comm, workers, rows, ranges[comm.rank].start, rate=32.0
        )
    client = SparseClient(comm, range(servers), ROWS, WIDTH)
    by_formula = 0
    for places in places_of_steps(comm.rank, steps, samples):
        keys, where = row_of[places].unique(return_inverse=True)
        rows = client.pull(keys).requires_grad_()
        comm.sleep(SECONDS)
        loss = cross_entropy(rows[where], following[places])
        client.push(keys, torch.autograd.grad(loss, rows)[0])
        asked = sum(
            bool(((keys >= part.start) & (keys < part.stop)).any()) for part in ranges
        )
        by_formula += 32 * asked + (16 + 8 * WIDTH) * len(keys)
    client.leave()
    return by_formula


# %% tags=["folded"]
# The control: the same messages as if the table were a dense model
def whole_table(comm: Communicator, steps: int) -> None:
    table = [torch.zeros(ROWS, WIDTH)]
    shards = shard_parameters(table, 2)
    if comm.rank < 2:
        server_loop(
            comm,
            range(2, 6),
            flatten(table, shards[comm.rank]),
            partial(torch.optim.SGD, lr=0.0),
        )
        return
    client = ParameterClient(comm, [0, 1], table, shards)
    for _ in range(steps):
        client.pull()
        client.push(table, 1)
    client.leave()


# %%
guess_12 = predict(
    "2 servers, 4 workers, 64 letters per step. "
    "Pulling and pushing the whole table moves 4.3 MB per worker and step. "
    "How many times fewer bytes is that with only the touched rows?"
)

# %%
world = virtual(6)
results = world.run(train_sparse, 2, 50)
sparse_bytes = sum(world.trace.bytes_sent) / (4 * 50)
dense_world = virtual(6)
dense_world.run(whole_table, 2)
dense_bytes = sum(dense_world.trace.bytes_sent) / (4 * 2)
print(
    f"per worker and step: dense {dense_bytes:,.0f} bytes, sparse {sparse_bytes:,.0f}"
)
table = torch.cat([rows for rows, _ in results[:2]])
loss = float(cross_entropy(table[row_of], following))
print(f"loss after 50 steps: {loss:.2f}; at the start {math.log(27):.2f}")
changed = [sum(log.changed) for _, log in results[:2]]
pushed = [sum(count for _, count in log.pushed) for _, log in results[:2]]
print(
    f"of {sum(pushed):,} pushed rows, {sum(changed) / sum(pushed):.0%} had changed "
    "since they were pulled"
)
print(guess_12.compare(dense_bytes / sparse_bytes))

# %% [markdown]
# Count for one step. Let it touch $k$ rows of $d$ numbers, on $m$ of the servers. Twice it sends a request of 16 bytes
# to each of these servers, and $k$ keys of 8 bytes. Once the rows come, once their gradients go, 4 bytes each number:
#
# $$\text{sparse} = 32\,m + 16\,k + 8\,k\,d \qquad\qquad \text{dense} = 32\,S + 8\,R\,d$$
#
# The number of rows $R$ is not in the first formula. A table of a billion rows costs a step no more bytes, only more
# servers to keep it.
#
# There is a second gain. The workers of a dense model all change the same numbers. Here two steps collide only where
# they touch the same row. Of the rows that a step pushes, about a quarter had been changed meanwhile by one of the
# other three workers: those of the most frequent letters. With 16 workers it is more than half. So staleness, which
# counts updates, exaggerates here, the less the more workers there are (Niu et al. 2011 made an algorithm of this:
# Hogwild).
#
# Both gains have their condition: a step touches *few* rows. With larger steps more rows are touched, up to all that
# ever come up. If a step touched all rows, the keys would be bytes on top, 16 for each row. And the optimizer must
# leave untouched rows alone. Plain SGD does. Momentum, weight decay and Adam move every row in every step; their
# sparse forms (`torch.optim.SparseAdam`) move only touched rows, and that is another algorithm.

# %% tags=["folded"]
# Checks of the numbers above
leaving = 4 * 2 * 16  # each worker tells each server at the end
assert sum(world.trace.bytes_sent) == sum(results[2:]) + leaving
assert (
    sum(dense_world.trace.bytes_sent) == 4 * 2 * (32 * 2 + 8 * ROWS * WIDTH) + leaving
)
assert 4.2e6 < dense_bytes < 4.3e6 and 250 < dense_bytes / sparse_bytes < 350
assert (
    loss < 2.3
    and 0.15 < sum(changed) / sum(pushed) < 0.35
    and key_ranges(ROWS, 2)[0] == range(0, 9842)
)
touched = [
    len(row_of[places_of_steps(2, 1, samples)[0]].unique())
    for samples in (64, 1024, 16384)
]
assert (
    50 < touched[0] <= 64
    and 400 < touched[1] < 700
    and 1500 < touched[2] < len(row_of.unique()) < ROWS
)
crowded = [log for _, log in virtual(18).run(train_sparse, 2, 10)[:2]]
of_16 = sum(sum(log.changed) for log in crowded)
of_16 /= sum(count for log in crowded for _, count in log.pushed)
print(f"16 workers: {of_16:.0%} of the pushed rows had changed")
assert 0.5 < of_16 < 0.7
per_letter = {}
for samples in (16, 1024):  # letters that share a row share its bytes
    larger = virtual(6)
    larger.run(train_sparse, 2, 10, samples)
    per_letter[samples] = sum(larger.trace.bytes_sent) / samples
assert per_letter[1024] < 0.7 * per_letter[16]

# %% [markdown]
# ## In real frameworks
#
# torch.distributed has no parameter server built in. It has `send` and `recv`, and with them a synchronous one is a
# few lines. Ours and this one compute the same.

# %%
import torch.distributed as dist

from distlib import torch_distributed


def with_torch(comm: Communicator, steps: int) -> torch.Tensor | None:
    """A synchronous server on rank 0, by torch's send and recv alone."""
    parameters = list(make_model(0).parameters())
    flat = nn.utils.parameters_to_vector(parameters).detach()
    workers = range(1, comm.world_size)
    with torch_distributed(comm, "gloo"):
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
                loss = cross_entropy(
                    forward(images[chosen], parameters), labels[chosen]
                )
                gradients = torch.autograd.grad(loss, parameters)
                dist.send(nn.utils.parameters_to_vector(gradients), 0)
    return flat if comm.rank == 0 else None


with World(3) as world:
    theirs = world.run(with_torch, 20)[0]
    ours = torch.cat([part.flatten() for part in world.run(train, 20)[1][1]])
print(f"largest difference after 20 steps: {float((ours - theirs).abs().max()):.0e}")
assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)

# %% [markdown]
# Of the sparse kind, torch has the gradient: `nn.Embedding(…, sparse=True)` gives one that has only the touched rows.
# Its keys are what our workers push.

# %% tags=["folded"]
# The keys of a sparse gradient of torch
layer = nn.Embedding(ROWS, WIDTH, sparse=True)
places = places_of_steps(2, 1, 64)[0]
cross_entropy(layer(row_of[places]), following[places]).backward()
gradient = layer.weight.grad.coalesce()
print(f"{gradient.indices().shape[1]} of {ROWS:,} rows")
assert torch.equal(gradient.indices()[0], row_of[places].unique())

# %% [markdown]
# TensorFlow has a server ready-made: `tf.distribute.ParameterServerStrategy`, with a coordinator that hands out steps
# to workers. Lesson 13 uses it.
#
# **When is which used today?**
#
# - **Dense models**, such as language and image models, on equal machines with fast links: all-reduce, and the sharded
#   forms of it (a lesson to come). Every step needs every parameter, all ranks are about equally fast, and a
#   synchronous step is the same as in one process, so that a run can be repeated and understood.
# - **Sparse models**: recommender systems with tables of billions of rows that don't fit on one machine anyway. Here
#   parameter servers are at home, often asynchronous. They have a rival without a server: the tables are cut over the
#   workers themselves, and in each step the workers exchange the touched rows, and then their gradients, each with
#   each. That is an *all-to-all*, and synchronous. TorchRec does it, on GPUs with fast links.
# - **Unreliable or unequal workers**: machines that are rented by the minute and taken away, or phones. Federated
#   learning has a server for the same reason, though its rounds are more like lesson 06b's local SGD. Its workers'
#   data are never mixed: remember the 8s and 9s.
#
# A third way has neither a server nor an all-reduce: each rank averages with a few neighbors. That is **gossip**, and
# lesson 08.

# %% [markdown]
# ## A game
#
# Nine ranks on the slow network of 10 MB/s. Rank 8, a worker, is 4 times slower. You decide how many of the ranks are
# servers; the others work. You choose the mode: a bound, or a number of backup workers. And you choose the rate. The
# goal is a loss of 0.1 on all training images, as the median of five seeds, in as little *virtual* time as possible.
# Everything is deterministic, so you can compare yours with others'. Each worker takes up to 60 steps.
#
# `race` plays it, with the training and the replay of this lesson. Your best race is kept in `work/my_games.json`, in
# your own folder. Nothing sends that file. `distlib board`, in a terminal, shows what is in it.

# %%
from distlib.games import race

# %% tags=["folded"]
# Checks of the game


def with_own_functions(rate: float, servers: int, **mode: float) -> float:
    """Virtual seconds until a loss of 0.1."""
    world = virtual(9, {8: 4.0}, link=SLOW_LINK)
    log = world.run(train, 60, servers=servers, **mode)[0]
    points, _ = trial(log, 9 - servers, [rate], servers=servers, every=0.005)
    return next(when for when, losses in points if losses.median() <= 0.1)


known = server_race.race(rate=6.4, servers=2, bound=ASYNCHRONOUS)
assert known.seconds == with_own_functions(6.4, 2, bound=ASYNCHRONOUS)

# %% [markdown]
# **Try it.** Change the arguments, and try to get below half a second. `bound=math.inf` is asynchronous, `backups=1`
# synchronous with one backup worker, `bound=0` synchronous. Then do it again with `by_digit=True`: who wins now?

# %%
print(race(rate=3.2, servers=1, bound=0))

# %% tags=["folded"]
# The best that we know of
best_known = known.seconds
with_backup = server_race.race(rate=4.8, servers=2, backups=1).seconds
print(
    f"asynchronous, two servers: {best_known:.3f}; with a backup {with_backup:.3f} virtual seconds"
)
never = server_race.race(rate=1.6, servers=2, backups=1, by_digit=True).seconds
late = server_race.race(rate=3.2, servers=2, bound=ASYNCHRONOUS, by_digit=True).seconds
print(f"sorted: asynchronous {late:.3f}, with a backup {never}")
assert best_known < with_backup < 0.6 and best_known < 0.45 and late < never == math.inf

# %% [markdown]
# ## In short
#
# - One rule, how far a worker may be ahead, makes training synchronous, bounded or asynchronous.
# - Synchronous training waits for the slowest worker. Asynchronous training uses old weights.
# - With N asynchronous workers, each pushing before it pulls again, a gradient is on average at most N − 1 updates
#   old.
# - Momentum makes old gradients more harmful: take a smaller rate.
# - A worker whose gradients are always dropped teaches the model nothing.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - A server need not wait. One rule, how far a worker may be ahead of the slowest, makes it synchronous, bounded or
#   asynchronous.
# - One worker 4 times slower makes a synchronous training 4 times slower, if computing takes nearly all of the time. An
#   asynchronous one loses what that worker does not do. A bound helps against slowness that comes and goes within a few
#   steps, not against a worker that is always slow.
# - Where computing takes nearly all of the time, the mean staleness is $N-1$ in the long run, whatever the speeds. On a
#   busy link it is lower.
# - Compare modes per gradient and per time, each at its own best rate, with enough seeds, and with each gradient
#   counting $1/N$.
# - Then, for plain SGD on mixed images, staleness lowers the ceiling of the rate by up to a fifth if all gradients are
#   about equally old (a tenth with 4 workers). If their ages differ widely, the ceiling rises, even above that of
#   synchronous training: so it does with equally fast workers that are slow at times.
# - If half of the workers are 4 times slower, it rises further: while a fast worker computes, fewer other gradients
#   arrive. The fast workers alone would have a higher one still. The price: the images of the slow ones count less.
# - Momentum of 0.9 remembers ten updates: with 16 equal asynchronous workers less than one step. At small rates it then
#   acts as ten times the rate. In a run of 40 steps that is a lead over synchronous training, after 160 steps it is
#   gone from a rate of 0.1 on. On the digits the best rate is 2 to 3 times lower than the synchronous one after 40
#   steps, and the breaking point 6 to 10 times. After 160 steps the best rate is about 5 times lower, and at it the
#   loss is far higher than at the synchronous best. On a parabola the ceiling is 30 times lower.
# - A worker that is always slow can be sent home only if the others have data like its own. One backup worker on images
#   sorted by digit: 0 % of the slow worker's digits, however long one trains. Asynchronous training learns them late:
#   what counts is how many gradients of the slow worker have come.
# - Throughput and mixed images do not show that. A test on images of all kinds does, and the log of whose gradients
#   were refused.
# - A server's link carries $2NP$ bytes in each step, in a ring each link nearly $4P$. $S$ servers divide $2NP$ by $S$.
#   With as many servers as workers the busiest link carries $2P$, about half of what it carries in the ring, but that
#   takes twice the machines.
# - Of a table of which a step touches few rows, only these are pulled and pushed: the bytes don't depend on the table's
#   size. That, and unequal workers, is what servers are used for today.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/07b_parameter_server/07b_parameter_server.ipynb) you write the server's loop, the
# worker's loop, the rule between them, and the cut of the parameters. What happens when workers or servers die is in
# [lesson 07c](07c_servers_that_fail.ipynb).
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
# - F. Niu et al., [Hogwild: A Lock-Free Approach to Parallelizing Stochastic Gradient
#   Descent](https://arxiv.org/abs/1106.5730), NIPS 2011. Steps that touch few numbers hardly collide.
# - PyTorch, [Distributed communication](https://docs.pytorch.org/docs/stable/distributed.html), for `send` and `recv`,
#   and [TorchRec](https://docs.pytorch.org/torchrec/high-level-arch.html): tables that are cut over the workers.
# - TensorFlow, [Parameter server training](https://www.tensorflow.org/tutorials/distribute/parameter_server_training).
