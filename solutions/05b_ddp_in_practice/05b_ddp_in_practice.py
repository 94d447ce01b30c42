# %% [markdown]
# # Exercise 05b: buckets and samplers
#
# **This exercise is optional.** It is a side road: no later exercise needs it. You write what DDP needs besides the
# averages: the rule by which parameters share an all-reduce, and the sampler that deals out the data.
#
# - **Time:** about 60 minutes.
# - **Before:** read the lesson [DDP in practice](../../course/05b_ddp_in_practice.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function or class | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `assign_buckets` | 2 | 2 |
# | 2 | `DistributedSampler` | 2 | 3 |
#
# That makes 9 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# Neither part sends a message. Each rank computes the answer by itself, and all ranks must arrive at answers that fit
# together. Of `comm`, the sampler needs `comm.rank` and `comm.world_size`; buckets need nothing of it.

# %% readonly="setup"
from collections.abc import Iterator, Sequence, Sized

import torch

from distlib import Communicator, SimulatedWorld, World

two = World(2)  # two ranks to try things on

# %% [markdown]
# ## 1. Which gradients travel together: `assign_buckets`
#
# One buffer of all gradients has a drawback. It is only complete when the backward pass is over. Nothing can be sent
# before, and then everybody waits.
#
# So there are several buffers: **buckets**. Backward goes from the last layer to the first, so the last parameters have
# their gradients first. They go into bucket 0. The rule:
#
# - Go through the parameters from the last one to the first, and put each into the bucket that is being filled.
# - A bucket is full when it holds **its limit or more**. Then the next parameter begins a new one.
# - The limit is `bucket_bytes`, except for bucket 0, whose limit is `first_bucket_bytes`. A small first bucket is full
#   soon, and communication begins early.
# - The last bucket need not be full.
#
# With parameters of 60, 10, 30, 25 and 15 bytes, `bucket_bytes=40` and `first_bucket_bytes=20`:
#
# | parameter | bytes | goes into | which then holds |
# |---:|---:|---|---|
# | 4 | 15 | bucket 0 | 15 bytes |
# | 3 | 25 | bucket 0 | 40 bytes: full, its limit is 20 |
# | 2 | 30 | bucket 1 | 30 bytes |
# | 1 | 10 | bucket 1 | 40 bytes: full, its limit is 40 |
# | 0 | 60 | bucket 2 | 60 bytes: full |
#
# The answer is `[[4, 3], [2, 1], [0]]`. No rank sends anything for this: every rank has the same model, and arrives at
# the same buckets.


# %% solution="assign_buckets"
def assign_buckets(
    nbytes: Sequence[int], bucket_bytes: int, first_bucket_bytes: int
) -> list[list[int]]:
    """Decide which parameters share an all-reduce. Only computes; sends no message.

    Args:
        nbytes: the size of each parameter in bytes, in the order of module.parameters(). Not
            changed.
        bucket_bytes: a bucket that holds this many bytes or more is full; at least 1.
        first_bucket_bytes: the same for the first bucket.

    Returns:
        A list of buckets. Each is a list of indices of parameters, from the last parameter to
        the first, also inside a bucket. Every parameter is in one bucket, and no bucket is
        empty.

    Cost: none. (In each training step, each bucket will take one all-reduce.)
    """
    ### BEGIN SOLUTION
    buckets: list[list[int]] = []
    held = limit = 0  # so the first parameter begins a bucket
    for index in reversed(range(len(nbytes))):
        if held >= limit:
            limit = bucket_bytes if buckets else first_bucket_bytes
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += nbytes[index]
    return buckets
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table, then with one bucket for everything and with one bucket per parameter.

# %%
sizes = [60, 10, 30, 25, 15]
print(assign_buckets(sizes, bucket_bytes=40, first_bucket_bytes=20))
print(assign_buckets(sizes, bucket_bytes=1000, first_bucket_bytes=1000))
print(assign_buckets(sizes, bucket_bytes=1, first_bucket_bytes=1))

# %% [markdown]
# **Visible test: 2 points.**

# %% test="assign_buckets_visible" points=2
from distlib.exercises import check_assign_buckets

report = check_assign_buckets(
    assign_buckets,
    questions=[
        ([60, 10, 30, 25, 15], 40, 20),
        ([8, 8, 8, 8], 16, 8),
        ([5, 5, 5], 100, 5),
        ([7], 100, 100),
    ],
)
assert list(map(list, report[0].results[0])) == [[4, 3], [2, 1], [0]]
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Other models, one of them without parameters.

# %% test="assign_buckets_hidden" points=2
# The hidden tests of assign_buckets stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: many random models and limits, empty ones, and first buckets that are larger than the others.
import random

from distlib.exercises import check_assign_buckets

draw = random.Random(52)
questions = [
    (
        [draw.randint(0, 60) for _ in range(draw.randint(1, 12))],
        draw.randint(1, 120),
        draw.randint(1, 60),
    )
    for _ in range(25)
]
questions += [
    ([], 10, 10),
    ([3, 4], 5, 50),
    ([9, 1, 1, 1, 9], 2, 100),
    ([0, 0, 4], 4, 4),
    ([10] * 30, 25, 5),
    ([2] * 101, 150, 9),
    ([7] * 130, 7, 7),
    ([1 << 20, 1 << 20, 5], 1 << 22, (1 << 20) + 9),
]
report = check_assign_buckets(assign_buckets, questions=questions, drawn=10, seed=52)
assert len(report) == 43
assert list(map(list, report[27].results[0])) == [[4, 3, 2, 1, 0]]
assert sum(len(bucket) for bucket in report[29].results[0]) == 30
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Who trains on what: `DistributedSampler`
#
# A sampler decides which samples a rank takes in an epoch. All ranks together should see the whole data set, each
# sample once, in an order that changes from epoch to epoch. No message is needed: if every rank shuffles **with the
# same seed**, every rank knows the whole order, and takes its own part of it.
#
# - **The order** is 0, 1, 2, … without shuffling. With shuffling it is random, and depends on the seed and the epoch,
#   and on nothing else.
# - **Rank r takes** the entries r, r + N, r + 2N, … of the order, with N ranks.
# - **Every rank takes equally many,** or one would wait forever in the all-reduce of a batch that the others don't
#   have. If the number of samples does not divide, the order goes on from its beginning until it does. With
#   `drop_last=True`, entries at the end are left out instead.
#
# 10 samples on 4 ranks, not shuffled:
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | samples | `0, 4, 8` | `1, 5, 9` | `2, 6, 0` | `3, 7, 1` |
# | with `drop_last=True` | `0, 4` | `1, 5` | `2, 6` | `3, 7` |
#
# For the shuffle, `torch.randperm(n, generator=generator)` gives the numbers from 0 to n − 1 in a random order. Make a
# generator of your own, `torch.Generator().manual_seed(…)`. The random numbers of the rest of the program, which
# dropout and new layers use, stay as they are.
#
# torch has a `DistributedSampler` of its own. Write yours without it: where yours is tested, torch's raises an error,
# also as a base class.


# %% solution="DistributedSampler"
class DistributedSampler:
    """The samples of one rank, for torch.utils.data.DataLoader(dataset, sampler=…).

    Args:
        comm: its rank and its number of ranks, N, are used. Nothing is sent.
        dataset: anything with a length L. It may be shorter than N.
        shuffle: whether the order is shuffled, anew for each epoch.
        seed: of the shuffle, the same on every rank.
        drop_last: leave out samples at the end so that N divides them; else repeat samples from
            the beginning.

    len(sampler): how many samples this rank takes: L / N, rounded down with drop_last, else
    rounded up.
    iter(sampler): their indices, as numbers: tensors won't do.

    Cost: no message.
    """

    def __init__(
        self,
        comm: Communicator,
        dataset: Sized,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        ### BEGIN SOLUTION
        self.rank, self.world_size, self.length = comm.rank, comm.world_size, len(dataset)
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        ### END SOLUTION

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. Before the first call it is 0."""
        ### BEGIN SOLUTION
        self.epoch = epoch
        ### END SOLUTION

    def __len__(self) -> int:
        ### BEGIN SOLUTION
        if self.drop_last:
            return self.length // self.world_size
        return -(-self.length // self.world_size)
        ### END SOLUTION

    def __iter__(self) -> Iterator[int]:
        ### BEGIN SOLUTION
        order = list(range(self.length))
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(self.length, generator=generator).tolist()
        total = len(self) * self.world_size
        repeated = [order[place % self.length] for place in range(total)]
        return iter(repeated[self.rank :: self.world_size])
        ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_sampler(comm: Communicator, drop_last: bool) -> list[int]:
    return list(DistributedSampler(comm, range(10), shuffle=False, drop_last=drop_last))


four = SimulatedWorld(4)
for drop_last in (False, True):
    print(f"drop_last={drop_last}: {four.run(try_sampler, drop_last)}")

# %% [markdown]
# **Visible test: 2 points.** It looks at four epochs and two seeds of each case.

# %% test="DistributedSampler_visible" points=2
from distlib.exercises import check_sampler

report = check_sampler(DistributedSampler, world_sizes=(1, 2, 3), lengths=(12, 10))
assert report[0].results[0]["lengths"] == [12, 12]
assert len(report) == 24
print(f"{report.function}: correct in all {len(report)} cases.")

# %% [markdown]
# **Hidden test: 3 points.** More ranks, data sets that are smaller than the number of ranks, large ones, later epochs.

# %% test="DistributedSampler_hidden" points=3
# The hidden tests of DistributedSampler stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 7 ranks, fewer samples than ranks, one sample, none, larger data sets, later epochs.
from distlib.exercises import check_sampler

report = check_sampler(
    DistributedSampler,
    world_sizes=(1, 2, 3, 4, 7),
    lengths=(29, 1003, 3, 1, 0),
    epochs=(2, 40, 41),
    seed=54,
)
assert len(report) == 100
# the second case of 4 ranks and 1003 samples is not shuffled
assert [result["indices"][0][0][:3] for result in report[65].results] == [
    [0, 4, 8],
    [1, 5, 9],
    [2, 6, 10],
    [3, 7, 11],
]

report = check_sampler(
    DistributedSampler,
    world_sizes=(3,),
    lengths=(40_000,),
    drop_last=(False,),
    shuffle=(True,),
    seed=55,
)
assert len(report) == 1
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Real work: digits, dealt out by your sampler
#
# This part gives no marks. Two real ranks train on handwritten digits. Your sampler gives each of them half of the
# images, in a new order in every epoch, and the library's DDP averages the gradients.

# %%
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from distlib.training import DistributedDataParallel, digits


def train_on_ranks(comm: Communicator, epochs: int) -> tuple[list[int], float]:
    """Runs on every rank. Returns the images of its last epoch, and its accuracy on the test
    images."""
    train, test = digits()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    parallel = DistributedDataParallel(comm, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    sampler = DistributedSampler(comm, train.labels)
    loader = DataLoader(TensorDataset(*train), batch_size=32, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            cross_entropy(parallel(images), labels).backward()
            optimizer.step()
    right = (model(test.images).argmax(1) == test.labels).float().mean()
    return list(sampler), float(right)


(first, accuracy), (second, _) = two.run(train_on_ranks, 8, timeout=120)
print(
    f"rank 0 took {len(first)} images, rank 1 {len(second)}, together {len({*first, *second})}"
)
print(f"accuracy on the test images: {accuracy:.1%}")
assert sorted([*first, *second]) == list(range(1_536)), "does your sampler pass its tests?"
assert accuracy > 0.85

# %% [markdown]
# And how many all-reduces does a step of a large model take? A GPT with 12 layers of width 768, and torch's own limits:

# %%
layer = [768, 768, 3 * 768 * 768, 3 * 768, 768 * 768, 768, 768, 768]
layer += [4 * 768 * 768, 4 * 768, 4 * 768 * 768, 768]
numbers = [50_257 * 768, 1_024 * 768, *12 * layer, 768, 768]
sizes = [4 * number for number in numbers]  # float32
for megabytes in (1, 25, 100):
    buckets = assign_buckets(sizes, megabytes * 2**20, first_bucket_bytes=2**20)
    largest = max(sum(sizes[index] for index in bucket) for bucket in buckets)
    print(
        f"{megabytes:3} MiB: {len(buckets)} buckets, the largest of {largest / 2**20:.0f} MiB"
    )
assert sizes[0] // 2**20 == 147

# %% [markdown]
# No limit makes the largest bucket smaller than the embedding, the first parameter, of 147 MiB: a parameter is never
# cut. Its gradient is the last to come, so that nothing hides its all-reduce.

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 05b_ddp_in_practice` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("05b_ddp_in_practice")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("05b_ddp_in_practice")
