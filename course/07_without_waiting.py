# %% [markdown]
# # Without waiting
#
# You rent four GPUs to train four times as fast as with one. One of the four turns out to be four times slower than the
# others. In every step three GPUs wait for it, so that all four compute about as many gradients per second as one good
# GPU alone. You pay for four. What does it cost not to wait?
#
# > After this lesson you will be able to
# >
# > - say what one slow worker costs, with waiting and without,
# > - say how old a gradient is, and why momentum makes old gradients harmful,
# > - say whose images a training run never sees,
# > - say how fast ranks agree that talk to their neighbors only,
# > - say who trains without waiting today, and why most people wait.
# >
# > **Time:** about 50 minutes. **You need:** [DDP](05_ddp.ipynb) and [Large batches](06_large_batches.ipynb). No GPU.

# %% tags=["folded"]
# The imports, and the gradient of one worker
import statistics
from functools import partial

import torch
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from distlib import Cluster, Communicator, Link, SimulatedWorld, World
from distlib.draw import (
    compare_costs,
    gossip_graphs,
    gradient_timeline,
    image_answers,
    predict,
    sweep,
)
from distlib.training import (
    ASYNCHRONOUS,
    SYNCHRONOUS,
    ParameterClient,
    ServerLog,
    answers_of,
    decentralized_step,
    digit_classifier,
    digit_images,
    digits,
    flatten,
    gossip_average,
    images_of_steps,
    metropolis_weights,
    mixing,
    replay_digits,
    rounds_for,
    server_loop,
    shard_parameters,
    static_exponential,
    worker_loop,
)

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
images, labels, test_images, test_labels = digit_images()
Spans = list[tuple[float, float]]


def gradients_at(
    parameters: list[torch.Tensor], chosen: torch.Tensor
) -> list[torch.Tensor]:
    """The gradients of the mean loss of some images."""
    weights, bias, last_weights, last_bias = parameters
    hidden = torch.relu(images[chosen] @ weights.T + bias)
    loss = cross_entropy(hidden @ last_weights.T + last_bias, labels[chosen])
    return list(torch.autograd.grad(loss, parameters))


# %% [markdown]
# ## One slow worker
#
# To see who waits for whom, we give one rank a special role. The **server** keeps the parameters. A **worker** pulls
# them from the server, computes a gradient on 16 images of its own, and pushes the gradient to the server. Workers
# never talk to each other.
#
# Training is **synchronous** if the server answers a pull only when all gradients of the last step have been applied.
# Then all workers compute with the same parameters, as in DDP.


# %%
def train(
    comm: Communicator, steps: int, **mode: float
) -> tuple[ServerLog | None, Spans]:
    """Rank 0 is the server. A worker returns when it computed."""
    parameters = list(digit_classifier(0).parameters())
    # one server, so one shard: all parameters
    shards, workers = shard_parameters(parameters, 1), range(1, comm.world_size)
    if comm.rank == 0:
        mine = flatten(parameters, shards[0])
        return server_loop(comm, workers, mine, partial(SGD, lr=0.4), **mode), []

    # which 16 images this worker takes in each step
    chosen, spans = images_of_steps(0, len(workers), steps)[comm.rank - 1], []

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        start = comm.time()
        comm.sleep(10e-3)  # a gradient takes 10 ms
        gradients = gradients_at(parameters, chosen[step])
        spans.append((start, comm.time()))
        return gradients, 16

    worker_loop(ParameterClient(comm, [0], parameters, shards), compute, steps)
    return None, spans


# %% [markdown]
# We run it in virtual time with four workers. A gradient takes 10 ms, and at random up to a tenth longer. Worker 4 is a
# **straggler**: it needs four times as long as the others.

# %% tags=["folded"]
# A cluster, a run, and what we count
Run = tuple[ServerLog, dict[int, Spans]]


def cluster(workers: int, slow: dict[int, float] | None = None) -> SimulatedWorld:
    """A server and its workers. slow: worker → how many times longer it computes."""
    link = Link(latency=50e-6, bandwidth=1e9)
    machines = Cluster.flat(workers + 1, link, stragglers=slow or {}, jitter=0.1)
    return SimulatedWorld(workers + 1, machines)


def run(world: SimulatedWorld, steps: int, **mode: float) -> Run:
    """The server's log, and when each worker computed."""
    (log, _), *rest = world.run(train, steps, **mode)
    return log, {rank: spans for rank, (_, spans) in enumerate(rest, 1)}


def per_second(log: ServerLog) -> float:
    """Gradients applied per second, until the first worker has pushed its last."""
    last = {each.worker: u.time for u in log.updates for each in u.contributions}
    end = min(last.values())
    return sum(len(u.contributions) for u in log.updates if u.time <= end) / end


# %%
straggling = cluster(4, slow={4: 4.0})
waiting = run(straggling, steps=30, bound=SYNCHRONOUS)
alone = run(cluster(1), steps=30)
print(f"four workers, one of them slow: {per_second(waiting[0]):.0f} gradients/s")
print(f"one fast worker: {per_second(alone[0]):.0f} gradients/s")
gradient_timeline(
    {"synchronous": waiting},
    title="Three workers wait for the fourth",
    until=0.1,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert 0.85 < per_second(waiting[0]) / per_second(alone[0]) < 1.15
assert len(images) == 1536

# %% [markdown]
# **A synchronous step takes at least as long as its slowest worker.** With an all-reduce the three fast workers would
# wait as long, because every rank needs the sum, and the sum needs every rank.
#
# ## Nobody waits
#
# An **asynchronous** server answers every pull at once, and applies each gradient when it arrives. In our program only
# `bound` changes, from 0 to infinity (`ASYNCHRONOUS`): the number of gradients that a worker may be ahead of the
# slowest.

# %%
guess_1 = predict(
    "One fast worker computes about 95 gradients per second. "
    "How many per second do the four workers make now, if nobody waits?",
    unit="gradients",
)

# %%
free = run(straggling, steps=60, bound=ASYNCHRONOUS)
print(guess_1.compare(per_second(free[0])))
gradient_timeline(
    {"synchronous": waiting, "asynchronous": free},
    title="The same four workers, with waiting and without",
    until=0.1,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert 3.1 < per_second(free[0]) / per_second(alone[0]) < 3.4
assert free[0].waits == []

# %% [markdown]
# Three workers at full speed and one at a quarter make about 3¼ times the gradients of one worker.
#
# **Without waiting, a slow worker slows down only itself.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | messages take long compared with a gradient | workers wait for the server ([07b](07b_parameter_server.ipynb)) |
# | `bound` is only a few gradients | fast workers wait again |
#
# </details>
#
# ## Old gradients
#
# What is the price? We follow one gradient of worker 4:

# %%
gradient_timeline(
    {"asynchronous": free},
    title="A stale gradient",
    until=0.1,
    follow=(4, 2),
)

# %% tags=["folded"]
# Checks of the numbers above and below
found = {(c.worker, c.clock): c.staleness for c in free[0].contributions}
assert found[4, 2] == 12
early = [stale for (worker, clock), stale in found.items() if worker < 4 and clock > 1]
assert 2 < statistics.mean(early) < 2.6

# %% [markdown]
# Worker 4 reads version 10 of the parameters, whose box is too narrow for a number, and computes a gradient for 40 ms.
# Meanwhile the other workers change the parameters twelve times. The gradient says what would improve version 10, but
# the server applies it to version 22. The number of updates in between is the **staleness** of the gradient, here 12.
#
# If all four workers are fast, the mean staleness is about 3: while one worker computes, each of the three others
# pushes once.

# %%
guess_2 = predict(
    "One of four workers is four times slower, as in the picture. "
    "Compared with four fast workers, the mean staleness …",
    choices=["falls to about 1", "stays at about 3", "rises to about 12"],
)


# %%
def mean_staleness(log: ServerLog) -> float:
    """Of what was applied while all workers were there."""
    last = {each.worker: u.time for u in log.updates for each in u.contributions}
    there = [u for u in log.updates if u.time <= min(last.values())]
    return statistics.mean(c.staleness for u in there for c in u.contributions)


for slow in ({}, {4: 4.0}):
    log, _ = run(cluster(4, slow), steps=90, bound=ASYNCHRONOUS)
    print(f"slow workers: {slow or 'none'}, mean staleness {mean_staleness(log):.2f}")
print(guess_2.compare("stays at about 3"))

# %% tags=["folded"]
# Checks of the numbers above and below
for slow in ({}, {4: 4.0}, {2: 3.0, 3: 0.5}, {4: 10.0}):
    log, _ = run(cluster(4, slow), steps=120, bound=ASYNCHRONOUS)
    assert 2.7 < mean_staleness(log) <= 3.0, slow

# %% [markdown]
# Each update uses up one gradient and makes at most three others one update older: the gradients that the other workers
# are computing or have sent. So the 100 gradients that 100 updates use up are together at most 300 updates old, 3 on
# average, at any speeds.
#
# **With N asynchronous workers, each pushing before it pulls again, a gradient is on average at most N − 1 updates
# old.**
#
# **Try it.** Change the speeds in the loop above by up to ten times, such as `{2: 3.0, 3: 0.5}`. Can you move the mean
# away from 3?

# %% tags=["folded"]
# One way to do it
for slow in ({2: 3.0, 3: 0.5}, {1: 2.0, 2: 2.0, 3: 2.0}, {4: 10.0}):
    log, _ = run(cluster(4, slow), steps=90, bound=ASYNCHRONOUS)
    print(f"{slow}: mean staleness {mean_staleness(log):.2f}")  # about 3 each time

# %% [markdown]
# ## What an old gradient costs
#
# With 16 equally fast workers a gradient is about 15 updates old. We let both modes, waiting and not, apply 640
# gradients, at many learning rates. The server multiplies each gradient by 1/16 in both modes, so that 16 asynchronous
# updates of plain SGD move the model about as far as one synchronous step.
#
# The order of the pushes does not depend on the learning rate. So we run each mode once, keep the server's log, and
# replay it with other rates and other seeds.

# %%
crowd = {
    "waiting": run(cluster(16), steps=40, bound=SYNCHRONOUS)[0],
    "not waiting": run(cluster(16), steps=40, bound=ASYNCHRONOUS)[0],
}


def correct_at(log: ServerLog, rates: list[float], momentum: float) -> dict:
    """For each rate, the share of test images that five models classify correctly."""
    *_, (_, models) = replay_digits(log, rates, workers=16, momentum=momentum)
    right = (answers_of(models) == test_labels).float().mean(dim=1)
    return dict(zip(rates, right.view(len(rates), 5).tolist(), strict=True))


RATES = {0.0: [0.4, 0.8, 1.6, 3.2, 6.4, 9.0, 13.0]}
RATES[0.9] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
results = {
    f"{name}, {words}": correct_at(log, RATES[momentum], momentum)
    for momentum, words in ((0.0, "plain"), (0.9, "momentum"))
    for name, log in crowd.items()
}

# %% [markdown]
# The highest rate at which training still works is its **ceiling**. Plain SGD has a ceiling of about 9, with waiting
# and without. With momentum 0.9 a run that waits still works at a rate of 6.4.

# %%
guess_3 = predict(
    "With momentum 0.9 and without waiting, training works up to a rate of …",
    choices=["about 6, as with waiting", "about 10", "less than 1"],
)

# %%
print(guess_3.compare("less than 1"))
sweep(
    results,
    along="learning rate",
    title="16 workers: where training breaks",
    subtitle="correct test images after 640 gradients, plain SGD and momentum 0.9",
    percent=True,
)

# %% tags=["folded"]
# Checks of the numbers above and below
middle = {
    way: {rate: statistics.median(runs) for rate, runs in found.items()}
    for way, found in results.items()
}
for way in ("waiting, plain", "not waiting, plain"):
    assert middle[way][6.4] > 0.9 and middle[way][13.0] < 0.7, way
assert middle["waiting, plain"][9.0] > 0.9 and middle["not waiting, plain"][9.0] > 0.8
assert middle["waiting, momentum"][6.4] > 0.8
assert middle["not waiting, momentum"][0.4] > 0.9
assert middle["not waiting, momentum"][0.8] < 0.85
assert middle["not waiting, momentum"][1.6] < 0.4
ages = [each.staleness for each in crowd["not waiting"].contributions]
assert 13 < statistics.mean(ages) <= 15
half_slow = cluster(16, dict.fromkeys(range(9, 17), 4.0))
uneven = run(half_slow, steps=64, bound=ASYNCHRONOUS)[0]
count = torch.tensor([len(u.contributions) for u in uneven.updates]).cumsum(0)
uneven = ServerLog(uneven.updates[: int((count <= 640).sum())])
of_uneven = correct_at(uneven, [1.6], 0.9), correct_at(uneven, [13.0], 0.0)
assert statistics.median(of_uneven[0][1.6]) < 0.85
at_half = [correct_at(log, [9.0], 0.5)[9.0] for log in (crowd["waiting"], uneven)]
assert statistics.median(at_half[1]) > statistics.median(at_half[0])
assert statistics.median(of_uneven[1][13.0]) > 0.85

# %% [markdown]
# Momentum keeps moving in an old direction on purpose. A stale gradient does so by accident. Together they overshoot.
#
# **With momentum 0.9, old gradients lower the ceiling of the learning rate.**
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | plain SGD | the ceiling is about that of waiting; if half of the workers are slow, it is even higher |
# | momentum 0.5, half of the workers slow | the ceiling does not fall |
# | small rates | old gradients teach as much as new ones |
# | each gradient counts 1, not 1/16 | divide every rate in the picture by 16 |
#
# [Lesson 07b](07b_parameter_server.ipynb) finds the ceiling by formula, and says why unequal ages raise it.
#
# </details>
#
# ## Throw the late gradient away
#
# There is another cure for a slow worker, and it seems to have no price. Train in steps again, but with one **backup
# worker**: each step takes the first three of the four gradients, and drops the last. No gradient is old, and nobody
# waits for the slow worker. We give each mode 1.2 seconds:

# %%
MODES = {
    "synchronous": {"bound": SYNCHRONOUS},
    "1 backup": {"backups": 1},
    "asynchronous": {"bound": ASYNCHRONOUS},
}
logs = {mode: run(straggling, 116, **how)[0] for mode, how in MODES.items()}


def models_of(mode: str, by_digit: bool) -> torch.Tensor:
    """Five models, after 1.2 seconds at a rate of 3.2."""
    log = ServerLog([u for u in logs[mode].updates if u.time <= 1.2])
    counted = {"workers": 4, "backups": MODES[mode].get("backups", 0)}
    *_, (_, models) = replay_digits(log, [3.2], by_digit=by_digit, **counted)
    return models


for mode, log in logs.items():
    right = (answers_of(models_of(mode, by_digit=False)) == test_labels).float()
    gradients = sum(len(u.contributions) for u in log.updates if u.time <= 1.2)
    print(f"{mode:12}  {gradients} gradients, {right.mean():.0%} of the test correct")

# %% [markdown]
# The backup run is nearly as fast as the asynchronous run, and as good. Now we change one thing. So far every worker
# had images of all digits. But workers may have data of their own, in hospitals or on phones. So we sort the
# images before we deal them out, and worker 4, the slow one, gets all the 8s and 9s.

# %%
guess_4 = predict(
    "With 1 backup worker, what share of the 8s and 9s in the test does the model know?",
    unit="%",
)

# %%
is_late = test_labels >= 8
answers = {mode: answers_of(models_of(mode, by_digit=True)) for mode in MODES}
right = answers["1 backup"] == test_labels
print(guess_4.compare(100 * float(right[:, is_late].float().mean())))
print(f"answers of 8 or 9, in five runs: {(answers['1 backup'] >= 8).sum()}")

some = torch.cat([torch.nonzero(test_labels == digit)[:6, 0] for digit in (8, 9)])
image_answers(
    digits()[1].images[some, 0].tolist(),
    test_labels[some].tolist(),
    {mode: answers[mode][0, some].tolist() for mode in ("1 backup", "asynchronous")},
    title="The model that never saw an 8 or a 9",
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert (answers["1 backup"] >= 8).sum() == 0
of_others = float((answers["1 backup"] == test_labels)[:, ~is_late].float().mean())
assert of_others > 0.95
for mode in ("asynchronous", "synchronous"):
    assert (answers[mode] == test_labels)[:, is_late].float().mean() > 0.8, mode
refused = [each.worker for each in logs["1 backup"].refused]
assert set(refused) == {4} and len(refused) >= 29
mixed = {
    mode: float((answers_of(models_of(mode, False)) == test_labels).float().mean())
    for mode in MODES
}
assert abs(mixed["1 backup"] - mixed["asynchronous"]) < 0.02
applied = [
    c.worker
    for u in logs["asynchronous"].updates
    for c in u.contributions
    if u.time <= 1.2
]
assert 11 < len(applied) / applied.count(4) < 15

# %% [markdown]
# **This is the experiment to remember.** The model is not just bad at 8s and 9s. It does not know that they exist: in
# five runs it never says 8 or 9. On all other digits it is excellent, and it was trained as fast as before.
#
# **A worker whose gradients are always dropped teaches the model nothing.**
#
# What would have warned you? The speed would not, and the training loss of the three fast workers would not. The
# server's log would: every dropped gradient came from worker 4. So if you drop gradients, count whose.
#
# The asynchronous run knows most 8s and 9s, although only one gradient in 13 came from worker 4.
#
# <details><summary>Where backup workers are safe</summary>
#
# | if … | then … |
# |---|---|
# | all workers draw from the same images | the others have images like the dropped ones |
# | each worker is slow now and then | everybody is dropped sometimes, and nobody always |
#
# </details>
#
# **Try it.** Let worker 2 be the slow one. Which digits does the model hardly know now?

# %% tags=["folded"]
# One way to do it
log = run(cluster(4, slow={2: 4.0}), 60, backups=1)[0]
log = ServerLog([u for u in log.updates if u.time <= 0.6])
*_, (_, models) = replay_digits(log, [1.6], workers=4, backups=1, by_digit=True)
given = answers_of(models).flatten()
print("digit, and how often it is given as an answer:")
print({digit: int((given == digit).sum()) for digit in range(10)})

# %% [markdown]
# ## No server at all
#
# In **gossip** every rank has its own model and some neighbors. In each step a rank computes a gradient, sends its
# model to its neighbors, and replaces its model by a weighted mean of its own model and those that arrive. Then it
# applies its gradient.
#
# How fast does news travel in this way? We give rank 0 the number 16 and all others a 0, and let 16 ranks gossip for
# two rounds. `metropolis_weights` and `static_exponential` choose weights that keep the sum of 16, so when
# all ranks agree, each has 1.

# %%
GRAPHS = {
    "ring": metropolis_weights(mixing.ring(16)),
    "exponential": static_exponential(16),  # to those 1, 2, 4 and 8 places further on
    "complete": metropolis_weights(mixing.complete(16)),
}


def rumor(comm: Communicator, weights: torch.Tensor) -> float:
    """What this rank has after two rounds."""
    number = torch.tensor(16.0 if comm.rank == 0 else 0.0)
    gossip_average(comm, number, weights, rounds=2)
    return float(number)


sixteen = SimulatedWorld(16)
gossip_graphs(
    {name: weights.tolist() for name, weights in GRAPHS.items()},
    {name: sixteen.run(rumor, weights) for name, weights in GRAPHS.items()},
    title="Two rounds of gossip",
    subtitle="rank 0, at the top, began with 16; filled: the rank has heard of it",
    notes={
        name: f"99 % agreed by round {rounds_for(weights, 0.01)}"
        for name, weights in GRAPHS.items()
    },
)

# %% tags=["folded"]
# Checks of the numbers above and below
heard = {
    name: sum(each > 0 for each in sixteen.run(rumor, weights))
    for name, weights in GRAPHS.items()
}
assert heard == {"ring": 5, "exponential": 11, "complete": 16}
assert [rounds_for(weights, 0.01) for weights in GRAPHS.values()] == [89, 10, 1]
messages = [int((weights[:, 0] > 0).sum()) - 1 for weights in GRAPHS.values()]
assert messages == [2, 4, 15]

# %% [markdown]
# On the ring the news moves one place per round, in both directions. On the exponential graph each rank sends to four
# others, at distances that double, so that the news is everywhere after four rounds. On the complete graph all ranks
# agree after one round, but each rank sends 15 messages. The words below a graph say after how many rounds at most 1 %
# of the disagreement is left, whatever numbers the ranks begin with.
#
# Does it matter for training? We take the hard case again, images sorted by digit, so that each rank owns one or two
# digits. For comparison, one ring gets mixed images.


# %%
def train_by_gossip(comm: Communicator, weights: torch.Tensor, by_digit: bool) -> float:
    """After 60 steps, the share of test images that this rank's model knows."""
    model = digit_classifier(0)
    optimizer = SGD(model.parameters(), lr=2)
    loss = partial(cross_entropy, reduction="none")
    for step, chosen in enumerate(images_of_steps(0, 16, 60, by_digit)[comm.rank]):
        batch = images[chosen], labels[chosen]
        decentralized_step(comm, model, loss, batch, optimizer, weights, step)
    return float((model(test_images).argmax(dim=1) == test_labels).float().mean())


shares = {f"{name}, sorted": (GRAPHS[name], True) for name in GRAPHS}
shares["ring, mixed"] = GRAPHS["ring"], False
shares = {name: sixteen.run(train_by_gossip, *how) for name, how in shares.items()}
compare_costs(
    {
        name: {"test images right, on the median rank": 100 * statistics.median(found)}
        for name, found in shares.items()
    },
    title="Test images classified correctly after 60 steps of gossip",
    show="{:.0f} %".format,
)

# %% tags=["folded"]
# Checks of the numbers above and below
known = {name: statistics.median(found) for name, found in shares.items()}
assert known["ring, sorted"] < 0.5 * known["exponential, sorted"]
assert known["complete, sorted"] > 0.88 and known["ring, mixed"] > 0.88

# %% [markdown]
# With sorted images, neighbors on the ring have the same digit or the next one (after 9 comes 0), and the other digits
# are up to eight places away. When news of them arrives, it is diluted.
#
# **In gossip, the graph and its weights decide how fast the ranks agree.**
#
# <details><summary>When slow agreement does no harm</summary>
#
# | if … | then … |
# |---|---|
# | all ranks have images of all digits | the ring is nearly as good as any other graph |
# | ranks with different digits are neighbors | the same ring learns more ([lesson 08](08_decentralized.ipynb)) |
#
# </details>
#
# And does gossip wait? A rank waits for its neighbors only. Let rank 0 of the ring be four times slower.

# %%
guess_5 = predict(
    "Rank 0 of the ring is always four times slower. In a long run, "
    "how fast is rank 8, on the opposite side?",
    choices=["as fast as without rank 0", "about half as fast", "as slow as rank 0"],
)


# %%
def steps_in_time(comm: Communicator, steps: int) -> float:
    """When this rank is done."""
    model = torch.zeros(2410)  # our classifier's size
    for _ in range(steps):
        comm.sleep(10e-3)
        gossip_average(comm, model, GRAPHS["ring"])
    return comm.time()


for slow in ({}, {0: 4.0}):
    machines = Cluster.flat(16, Link(50e-6, 1e9), stragglers=slow)
    done = SimulatedWorld(16, machines).run(steps_in_time, 100)
    print(
        f"slow ranks {slow or 'none'}: rank 0 takes {done[0]:.1f} s, rank 8 {done[8]:.1f} s"
    )
print(guess_5.compare("as slow as rank 0"))

# %% tags=["folded"]
# Checks of the numbers above and below
assert 0.9 < done[8] / done[0] < 1
assert abs((done[0] - done[8]) / 30e-3 - 8) < 1

# %% [markdown]
# Rank 1 waits for rank 0, rank 2 waits for rank 1, and so on around the ring. Rank 8 gets a few steps ahead of rank 0,
# never more than eight, and then waits, too. So in this gossip a rank that is always slow slows down everybody.
# Delays that come and go cost less than with an all-reduce, because delays of ranks far apart can overlap ([lesson
# 08](08_decentralized.ipynb)).
#
# **Try it.** Pair up the ranks of the ring, to give each a third neighbor. If `neighbors` lists each rank's neighbors,
# after how many rounds does `rounds_for(metropolis_weights(neighbors), 0.01)` say that 99 % of the disagreement is
# gone?

# %% tags=["folded"]
# One way to do it
neighbors = [
    [(r - 1) % 16, (r + 1) % 16, (r + (5 if r % 2 else -5)) % 16] for r in range(16)
]
print(rounds_for(metropolis_weights(neighbors), 0.01), "rounds; the ring needs 89")

# %% [markdown]
# ## Who does this today?
#
# | who | do they wait? | why |
# |---|---|---|
# | language models in one data center | in every step | GPUs are equal, links fast, and a run can be repeated |
# | language models over slow links | every few hundred steps (DiLoCo) | links are slow |
# | reinforcement learning from a model's own answers | often not (AReaL) | short answers would wait for long ones |
# | some recommenders | no: servers keep huge tables (Monolith) | a step touches few rows of a table |
# | sensors, robots | for neighbors only: gossip | there is no center |
#
# So nearly all large language models in use were pretrained with waiting, as far as is published. People replace a slow
# machine, or they wait less often. If you do not wait, ask the two questions of this lesson: how old is what I use, and
# whose data do I lose?
#
# ## In real frameworks
#
# `torch.distributed` has no parameter server. But over gloo, not over NCCL, its `recv` without a source takes a message
# from anyone and says who sent it. An asynchronous server needs nothing more:

# %% tags=["folded"]
# torch's messages on our ranks
import torch.distributed as dist

from distlib import torch_distributed


# %%
def with_torch(comm: Communicator, steps: int) -> torch.Tensor | None:
    """An asynchronous server on rank 0, and workers."""
    parameters, gradient = torch.zeros(1000), torch.empty(1000)
    with torch_distributed(comm, "gloo"):
        if comm.rank > 0:
            dist.recv(parameters, 0)
            for step in range(steps):
                dist.send(made_up_gradient(comm.rank, step), 0)
                dist.recv(parameters, 0)
            return None
        for worker in range(1, comm.world_size):
            dist.send(parameters, worker)
        for _ in range(steps * (comm.world_size - 1)):
            worker = dist.recv(gradient)  # from anyone
            parameters -= gradient
            dist.send(parameters, worker)
    return parameters


# %% tags=["folded"]
# Gradients whose sum is the same in any order, and our server with them
def made_up_gradient(rank: int, step: int) -> torch.Tensor:
    return torch.full((1000,), float(rank + step))


def with_ours(comm: Communicator, steps: int) -> torch.Tensor | None:
    parameters = [torch.zeros(1000)]
    shards = shard_parameters(parameters, 1)
    if comm.rank == 0:
        mine, workers = flatten(parameters, shards[0]), range(1, comm.world_size)
        optimizer = partial(SGD, lr=len(workers))  # a gradient counts 1/N
        server_loop(comm, workers, mine, optimizer, bound=ASYNCHRONOUS)
        return mine
    client = ParameterClient(comm, [0], parameters, shards)
    worker_loop(client, lambda step: ([made_up_gradient(comm.rank, step)], 1), steps)
    return None


# %%
with World(5) as world:
    theirs, ours = world.run(with_torch, 6)[0], world.run(with_ours, 6)[0]
print(f"torch: {theirs[0]:.0f}, ours: {ours[0]:.0f}")
assert torch.equal(theirs, ours)

# %% [markdown]
# TensorFlow has a server ready-made, `ParameterServerStrategy` ([lesson 13](13_tensorflow.ipynb)). For gossip there is
# [BlueFog](https://github.com/Bluefog-Lib/bluefog), for training among volunteers
# [Hivemind](https://github.com/learning-at-home/hivemind).
#
# ## In short
#
# - A synchronous step takes at least as long as its slowest worker.
# - With N asynchronous workers, each pushing before it pulls again, a gradient is on average at most N − 1 updates old.
# - With momentum 0.9, old gradients lower the ceiling of the learning rate.
# - A worker whose gradients are always dropped teaches the model nothing.
# - In gossip, the graph and its weights decide how fast the ranks agree.
#
# ## Now you
#
# The next lesson of the main road is [Pipeline](09_pipeline.ipynb). Three side roads begin here:
#
# - [Lesson 07b](07b_parameter_server.ipynb): servers in full, and a game. In its
#   [exercise](../exercises/07b_parameter_server/07b_parameter_server.ipynb) you write the loops of server and worker.
# - [Lesson 07c](07c_servers_that_fail.ipynb): workers and servers that die, on real clocks.
# - [Lesson 08](08_decentralized.ipynb): gossip in full. In its
#   [exercise](../exercises/08_decentralized/08_decentralized.ipynb) you write the weights and the training step.
#
# ## Further reading
#
# - J. Chen et al., [Revisiting Distributed Synchronous SGD](https://arxiv.org/abs/1604.00981), 2016. Backup workers.
# - I. Mitliagkas et al., [Asynchrony begets Momentum](https://arxiv.org/abs/1605.09774), 2016.
# - X. Lian et al., [Can Decentralized Algorithms Outperform Centralized
#   Algorithms?](https://arxiv.org/abs/1705.09056), 2017. Training by gossip.
# - A. Douillard et al., [DiLoCo: Distributed Low-Communication Training of Language
#   Models](https://arxiv.org/abs/2311.08105), 2023. Eight workers that meet every 500 steps.
# - Z. Liu et al., [Monolith: Real Time Recommendation System With Collisionless Embedding
#   Table](https://arxiv.org/abs/2209.07663), 2022. Servers with tables, and training on them that never ends.
# - W. Fu et al., [AReaL: A Large-Scale Asynchronous Reinforcement Learning System for Language
#   Reasoning](https://arxiv.org/abs/2505.24298), 2025. Bounds on how old an answer may be.
