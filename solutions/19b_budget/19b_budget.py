# %% [markdown]
# # Exercise 19b: within a budget
#
# **This exercise is optional.** It is a side road: no later exercise needs it. You train within a budget on clusters
# that you have not seen, and write a report. Many ways lead there, and the fastest stand on a board.
#
# - **Time:** about 120 minutes.
# - **Before:** read the lesson [Capstone](../../course/19_capstone.ipynb), and do [exercise
#   19](../19_capstone/19_capstone.ipynb). What you need of earlier lessons: the ring (02), the critical batch and local
#   SGD (06), sharded states (11).
# - **Needs:** nothing but this environment. All times are virtual.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `train` | 4 | 6 |
# | 2 | the report, marked by hand | 10 | |
#
# That makes 20 points. Each part is graded by itself.

# %% [markdown]
# ## The job
#
# A small network learns to read digits: 64 pixels, 12 hidden units, 10 classes. All its 910 weights lie in **one flat
# tensor of float64**. Each rank is given a `job`:
#
# | | |
# |---|---|
# | `job.start()` | the weights to start with, a new tensor, the same on every rank |
# | `job.gradient(weights, samples)` | the **sum** of the gradients of these samples' losses, shape `[job.numbers]` |
# | `job.loss(weights)` | the mean loss on 512 images that nobody learns from, a float |
# | `job.optimizer(numbers)` | an Adam for that many numbers: `optimizer.step(weights, gradient, rate)`, in place |
# | `job.numbers` | 910 weights |
# | `job.samples` | the numbers of the samples that **this rank** has, a range |
# | `job.target`, `job.budget` | the loss to reach, and the virtual seconds to reach it in |
# | `job.memory` | the bytes that a rank may hold between two steps |
# | `job.cluster` | `link(src, dst)`, `stragglers`, `nodes`, `intra`, `inter` |
# | `job.seconds_per_sample` | of one sample's gradient on a rank that is not slow |
#
# **Who has which samples.** There are 1,024. Each rank has its own part of them, about equally many, in no order. So
# a rank alone gets there late, or not at all: `job.gradient` takes numbers in `job.samples` only.
#
# **What takes time.** `job.gradient` takes `seconds_per_sample` for each sample, on a slow rank
# `cluster.stragglers[rank]` times as long. `job.loss` takes as long as 5 samples. Messages take what the links say.
# All else takes no time.
#
# **What is not allowed.** Gradients come from `job.gradient`, each at the weights that its step starts from. What is
# learnt in another way does not count, be it from images that were worked out from gradients. The judge sees each call,
# evaluates the weights that you return by itself, and numbers pixels and classes anew each time: nothing that was
# learnt elsewhere is of use. After 400 calls of `gradient`, or of `loss`, on a rank, the job is stopped.
#
# **Functions of earlier exercises.** You may call the course's own `ring_reduce_scatter`, `ring_all_gather`,
# `all_reduce` and `broadcast`, which the next cell imports. Or paste your own: say so in the report. What has one of
# these four names is replaced by the course's during a test, so that a mistake in it costs nothing here. `comm` itself
# has `rank`, `world_size`, `send`, `recv`, `isend`, `irecv`, `exchange`, `barrier` and `split`, and no clock.

# %% readonly="setup"
import random
from collections.abc import Iterator
from typing import Any

import torch

from distlib import (
    Cluster,
    Communicator,
    Link,
    all_reduce,
    broadcast,
    ring_all_gather,
    ring_reduce_scatter,
)
from distlib.exercises import Challenge, rehearse

# what you may call
OF_THE_COURSE = (all_reduce, broadcast, ring_all_gather, ring_reduce_scatter)


def part_of(numbers: int, parts: int, index: int) -> slice:
    """Where part `index` lies, as torch.tensor_split and the ring cut: the first
    numbers % parts have one more."""
    short, longer = divmod(numbers, parts)
    start = index * short + min(index, longer)
    return slice(start, start + short + (index < longer))


# %% [markdown]
# ## 1. The whole training: `train`
#
# All ranks call `train(comm, job)`. Each returns the weights, the same on all of them up to 1e-9. Their loss, as the
# judge evaluates it, is at most `job.target`. When the last rank has returned, at most `job.budget` virtual seconds
# have passed. And between two steps no rank holds more than `job.memory` bytes: this is looked at when a rank calls
# `job.gradient` for the fourth time. All its tensors count then, also the gradient of the step before, if a name still
# leads to it. So keep what you keep in tensors, also states of an optimizer of your own. `float("inf")` means that
# there is no limit.
#
# These are five clusters. The visible test runs the first two. The hidden one runs clusters of all five kinds, and one
# of two kinds at once. They have other numbers and at most 8 ranks, and two have other targets. Their budgets, too,
# are at least half as long again as the course's own solution takes on average.

# %% readonly="clusters"
CLUSTERS = [
    Challenge("four alike", Cluster.flat(4, Link(2e-3, 1e7)), budget=3.2),
    Challenge("a slow network", Cluster.flat(4, Link(0.3, 1e6)), budget=24.0),
    Challenge(
        "little memory", Cluster.flat(4, Link(2e-3, 1e7)), budget=3.2, bytes_per_number=22
    ),
    Challenge("a slow rank", Cluster.flat(4, Link(2e-3, 1e7), stragglers={2: 6.0}), budget=4.8),
    Challenge("two nodes", Cluster(2, 4, Link(1e-3, 1e8), Link(4e-3, 1e7)), budget=4.6),
]

# %% [markdown]
# Things to think about:
#
# - **The batch.** Large batches need fewer steps, up to the critical size. From there on a step only takes longer. Very
#   small ones need many steps, and there the messages cost most. With $B$ samples it takes about $S\,(1 + B_c / B)$
#   steps; two runs are enough to find $S$ and $B_c$. Which $B$ is the best then depends on the network.
# - **The rate.** Each optimizer is an Adam: try 0.04 from 64 samples on, 0.03 for 32, and less for smaller batches. If
#   the loss wanders up and down near the target, the rate is too high for the batch.
# - **A slow network.** Here messages in every step take more time than the budget has. Does every step need them? Ranks
#   may take some steps on their own and average then.
# - **Memory.** `little memory` allows 22 bytes a weight. Weights and all states take 24; weights, the states of a
#   quarter and a gradient 20.
# - **A slow rank.** Who waits for whom? Shares need not be equal.
# - **When to stop.** All ranks have to stop in the same step. With equal weights `job.loss` is equal, too; or one
#   rank looks and tells the others. It costs as much as 5 samples, so not every step needs it.
# - **Which samples.** Each rank takes each of its samples once, in a random order, then anew. Or draws some each time.
#
# A rank knows the numbers of its own samples only. So the `train_step` of exercise 19, which wants the whole batch on
# every rank, is a model for `train` and not a part of it: take the same four lines with a list of the rank's own.
#
# `rehearse(train, setting)` runs your function on simulated ranks and shows what it took. You can add clusters of your
# own to the list. What the test draws differs from what a rehearsal draws: leave some room in the budget.
#
# **The board.** The best rehearsal of each of the five clusters that meets target, memory and budget is kept, and
# `distlib board` in a terminal shows it. The hidden test has six other clusters. If you pass all six, their virtual
# seconds go onto the board of the class when your work is graded, provided that you have chosen a name for it:
# `distlib board --as "Night Owl"`, then `distlib hand-in games`. They can't be compared with those of your rehearsals.
# The hand-in that was graded last counts. Par is two thirds of the budget, about what the course's own solution takes
# on a bad day.


# %% solution="train"
def train(comm: Communicator, job: Any) -> torch.Tensor:
    """Train until the target is reached, on all ranks. Returns the weights, the same on all of
    them.

    Args:
        comm: the communicator of this rank.
        job: see above.
    """

    ### BEGIN SOLUTION
    def shares_of(size: int) -> list[int]:
        """Shares such that ranks compute about equally long: each next sample goes to who is
        done first with it."""
        slowness = [job.cluster.stragglers.get(rank, 1.0) for rank in range(comm.world_size)]
        shares = [0] * comm.world_size
        for _ in range(size):
            first_done = min(
                range(comm.world_size), key=lambda rank: (shares[rank] + 1) * slowness[rank]
            )
            shares[first_done] += 1
        return shares

    def ring_seconds() -> float:
        """What the messages of a step take."""
        ranks = range(comm.world_size)
        links = [job.cluster.link(rank, (rank + 1) % comm.world_size) for rank in ranks]
        chunk = 8 * job.numbers / comm.world_size
        return 2 * (comm.world_size - 1) * max(link.seconds(chunk) for link in links)

    def seconds_with(size: int) -> float:
        """What a training with batches of this size takes, if it takes 20 (1 + 70 / size)
        steps."""
        shares = shares_of(size)
        computing = max(
            share * job.seconds_per_sample * job.cluster.stragglers.get(rank, 1.0)
            for rank, share in enumerate(shares)
        )
        return 20 * (1 + 70 / size) * (computing + ring_seconds())

    def samples_in_order() -> Iterator[int]:
        draw = random.Random(comm.rank)
        while True:
            yield from draw.sample(job.samples, len(job.samples))

    def with_steps_alone() -> torch.Tensor:
        """Eight steps on one's own, then the average of all ranks' weights."""
        weights, optimizer, samples = (
            job.start(),
            job.optimizer(job.numbers),
            samples_in_order(),
        )
        while True:
            for _ in range(8):
                mine = [next(samples) for _ in range(16)]
                optimizer.step(weights, job.gradient(weights, mine) / 16, 0.03)
            all_reduce(comm, weights)
            weights /= comm.world_size
            if job.loss(weights) <= job.target:
                return weights

    if ring_seconds() > 200 * job.seconds_per_sample:
        return with_steps_alone()
    size = min((32, 40, 48, 64, 96, 128, 192, 256), key=seconds_with)
    shares, samples = shares_of(size), samples_in_order()
    own = part_of(job.numbers, comm.world_size, comm.rank)
    weights, optimizer = job.start(), job.optimizer(own.stop - own.start)
    for step in range(1, 500):
        mine = [next(samples) for _ in range(shares[comm.rank])]
        gradient = job.gradient(weights, mine)
        ring_reduce_scatter(comm, gradient)
        optimizer.step(weights[own], gradient[own] / size, 0.03 if size < 64 else 0.04)
        ring_all_gather(comm, weights)
        if step > 14 and step % 4 == 0 and job.loss(weights) <= job.target:
            break
    return weights
    ### END SOLUTION


# %% [markdown]
# **Try it** on all clusters.

# %%
for setting in CLUSTERS:
    print(rehearse(train, setting))

# %% [markdown]
# **Visible test: 4 points.** Four alike, and a slow network.

# %% test="train_visible" points=4
from distlib.exercises import check_train

report = check_train(train, settings=CLUSTERS[:2])
assert len(report) == 2
assert all(sum(seen.trace.bytes_sent) > 0 for seen in report)
print(report)

# %% [markdown]
# **Hidden test: 6 points.** Clusters of all five kinds.

# %% test="train_hidden" points=6
# The hidden tests of train stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: three to eight ranks, other targets, a slow network, little memory, a slow rank, two nodes.
from distlib.exercises import check_train, tell_trainings, train_scores

report = check_train(
    train,
    settings=[
        Challenge("three alike", Cluster.flat(3, Link(3e-3, 1e7)), budget=6.0, target=0.23),
        Challenge("a slow network", Cluster.flat(3, Link(0.4, 2e6)), budget=33.0, target=0.22),
        Challenge(
            "little memory", Cluster.flat(4, Link(1e-3, 1e7)), budget=2.9, bytes_per_number=22
        ),
        Challenge(
            "a slow rank", Cluster.flat(4, Link(2e-3, 1e7), stragglers={1: 8.0}), budget=5.2
        ),
        Challenge("two nodes", Cluster(2, 3, Link(1e-3, 1e8), Link(4e-3, 1e7)), budget=4.6),
        Challenge(
            "a slow node",
            Cluster(2, 4, Link(1e-3, 1e8), Link(3e-3, 1e7), stragglers={0: 3.0}),
            budget=5.0,
        ),
    ],
    seed=193,
)
assert len(report) == 6
assert all(sum(seen.trace.bytes_sent) > 0 for seen in report)
tell_trainings(train_scores(report))
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The report
#
# The next cell computes the figures for it from runs of your function: how far a prediction of a step is from the run,
# the loss by virtual time on three clusters, and a picture of the run. Change it as you like, or add cells. It gives no
# marks. `PlannedStep` predicts a step as in exercise 19: for local steps, or for a rank that trains alone, put your own
# formula in its place.

# %% tags=["skip-execution"]
from distlib.draw import curves, timeline
from distlib.exercises import PlannedStep, bytes_between, simulated_seconds

runs = {
    setting.name: rehearse(train, setting)
    for setting in (CLUSTERS[0], CLUSTERS[1], CLUSTERS[3])
}
for name, run in runs.items():
    steps = run.computing()
    size = [
        round(run.samples(rank) / len(steps[rank])) if steps[rank] else 0
        for rank in range(len(steps))
    ]
    plan = PlannedStep(910, 0.002, run.setting.cluster, tuple(size))
    predicted, memory = simulated_seconds(plan), bytes_between(plan)
    between = (steps[0][-1][1] - steps[0][0][1]) / (len(steps[0]) - 1)
    print(
        f"{name}: shares {size}, a step takes {between:.4f} s, "
        f"predicted {predicted:.4f} s (both without job.loss?)"
    )
    print(
        f"    memory {run.memory:,} bytes, predicted between two steps {max(memory):,}; "
        f"{run.seconds:.2f} s in all"
    )

# %% tags=["skip-execution"]
curves(
    {name: run.curve() for name, run in runs.items()},
    along="virtual seconds",
    values="loss",
    title="My training on three clusters",
)

# %% tags=["skip-execution"]
run = runs["four alike"]
computing = [each[:3] for each in run.computing()]  # of the first three steps
until = max(end for each in run.computing() for _, end in each[3:4] or each[-1:])
timeline(
    run.trace.filter(lambda message: message.end <= until),
    "The first steps of my training on four ranks",
    computing=computing,
)

# %% [markdown]
# Write the report in the next cell: about one page. Ten points, two for each question:
#
# 1. **The plan.** Which ways did you consider, and why did you choose yours? Which functions are your own, and which
#    the course's?
# 2. **The prediction.** Predicted against run: seconds and bytes, with your figures. Where does the difference come
#    from?
# 3. **The critical batch.** With at least three sizes of batch: seconds a step and seconds until the target. Which is
#    the fastest a step, and which is there first?
# 4. **The cluster.** What did you do differently on a slow network, with little memory and with a slow rank, and what
#    did it save, in virtual seconds or bytes?
# 5. **What remains.** What does your training still lose time with, as the picture shows? What would you try next?
#
# *For whoever marks:* two points where figures of the student's own runs carry the answer and its condition is named;
# one where it is right but without figures, or where one condition is missing; none else. Virtual seconds need not be
# good: part 1 has marked those.

# %% [markdown] answer="report" points=10
# 1. **The plan.** Synchronous steps with sharded states (ZeRO, stage 1): as many bytes as an all-reduce, and it fits
#    wherever memory is short. On a slow network, averages of weights after 8 steps on one's own. The batch is chosen by
#    the model $20\,(1 + 70 / B)$ steps. The rings are the course's.
# 2. **The prediction.** It is within some percent of the run where `job.loss` is left out; looking at the loss adds 5
#    samples every other step. Memory is predicted to the byte, and the run holds a gradient besides.
# 3. **The critical batch.** On four alike, steps with 8 samples are the fastest, 16 ms, and need about 140 steps; with
#    48 it takes about half of that time in all, and with 1,024 more than three times.
# 4. **The cluster.** On a slow network the messages of a step take 1.8 s, and 25 steps with the best batch 40 s or
#    more; with steps on one's own, 7 averages are enough, and it takes 15 s. A slow rank gets a fourth of the others'
#    share: equal shares take about twice as long.
# 5. **What remains.** Ranks wait for messages in each step where the network is fast. On the slow one more steps on
#    one's own between two averages would save some more.

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes about a minute and gives no marks. In a terminal, `distlib check 19b_budget` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("19b_budget")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("19b_budget")
