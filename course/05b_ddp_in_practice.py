# %% [markdown]
# # DDP in practice: what a real run adds
#
# **This lesson is optional.** It goes on where [DDP](05_ddp.ipynb) ends. There, every rank had equally many images,
# every parameter a gradient, and the run never stopped. Here come the cases in which DDP hangs, complains, or
# goes wrong in silence, and the copy that keeps a GPU waiting.
#
# After this lesson you will be able to
#
# - deal out a data set with a distributed sampler, and shuffle it again in every epoch,
# - cope with ranks that run out of batches, and with parameters that get no gradient,
# - say what DDP does with buffers,
# - say what happens with only half of a pass inside `no_sync`, and when overlap wins nothing,
# - stop a run and resume it to the last bit,
# - say what page-locked memory is, and when copying batches to a GPU costs time,
# - say how torch chooses its buckets, look into them with a hook, and all-reduce them with a function of your own.
#
# **Time:** about 75 minutes. **You need:** [DDP](05_ddp.ipynb). No GPU; one cell uses yours if there is one.

# %% tags=["folded"]
# The imports
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.futures import Future
from torch.nn.functional import cross_entropy
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader, TensorDataset

from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    RankError,
    SimulatedWorld,
    World,
    torch_distributed,
)
from distlib.draw import predict, step_timeline
from distlib.training import (
    DistributedDataParallel,
    DistributedSampler,
    StepClock,
    StepTimes,
    assign_buckets,
    data_parallel_step,
    digits,
    load_checkpoint,
    save_checkpoint,
)

# %% tags=["folded"]
# The ranks, the digits, and the model
world, pair = World(4), World(2)
train_set, test_set = digits()
images, labels = train_set.images.double(), train_set.labels


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    first, second = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
    layers = [first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)]
    return nn.Sequential(*layers).double()


def with_dropout(seed: int) -> nn.Module:
    return make_model(seed).insert(5, nn.Dropout(0.5))


Batches = list[tuple[torch.Tensor, torch.Tensor]]


def batches_of(part: slice, steps: int) -> Batches:
    """Each batch is 64 images of the training set; `part` says which of the 64."""
    wholes = zip(images.split(64), labels.split(64), strict=True)
    firsts = itertools.islice(wholes, steps)
    return [(some[part], wanted[part]) for some, wanted in firsts]


def take_steps(model: nn.Module, batches: Batches) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch_images, batch_labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(batch_images), batch_labels).backward()
        optimizer.step()


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


# %% [markdown]
# ## Who takes which images
#
# The images must be dealt out: every image to some rank, equally many to each, and shuffled again in every epoch.
# `DistributedSampler` deals them out without a message. All ranks shuffle with the same seed, so they agree on the
# order. Rank r takes the entries r, r + N, r + 2N, … of it.


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

# %% tags=["folded"]
# Checks of the parts above
assert plain == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
assert first != second
assert [len(part) for part in first] == [3] * 4
assert [len(part) for part in dropped] == [2] * 4
assert sorted({index for part in first for index in part}) == list(range(10))

# %% [markdown]
# **A sampler deals out equal parts without a message.** 10 samples do not make 4 equal parts. Then two of them are used
# twice (ranks 2 and 3 got 0 and 1 in the first table), or two are left out. Both are slightly wrong, and both keep the
# ranks in step.
#
# Do not forget `set_epoch`. Without it every epoch has the order of epoch 0, and no error appears.
#
# **Try it.** How many samples may a data set of four ranks have so that none is used twice and none is left out? Deal
# out other numbers of samples, with and without `drop_last`.

# %%
mine = show("10 samples, epoch 0", 10, 0)  # other numbers, and drop_last=True

# %% tags=["folded"]
# One way to do it
# Multiples of four: then every part is equally long without a repair
for length in (8, 11, 12):
    padded = show(f"{length} samples", length, 0)
    cut = show(f"{length} samples, the rest dropped", length, 0, drop_last=True)
    assert (padded == cut) == (length % 4 == 0)

# %% [markdown]
# With torch's `DataLoader` the sampler is an argument: `sampler=` instead of `shuffle=True`.


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
# ## When ranks are not alike
#
# **A model has another shape on one rank.** DDP checks the shapes when it begins:


# %%
def different_models(comm: Communicator) -> None:
    DistributedDataParallel(comm, nn.Linear(64, 10 + comm.rank))


try:
    world.run(different_models)
except RankError as error:
    print(error)
    assert "rank 0 has the parameter 'weight' of shape (10, 64)" in str(error)

# %% [markdown]
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
guess_1 = predict(
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
print(guess_1.compare(f"{by_default[0]:g}"))
print("torch's Join, by default:                ", by_default[0])
print("with divide_by_initial_world_size=False: ", by_those_left[0])
print("ours:                                    ", by_default[1])
assert by_default == (2.0, 4.0) and by_those_left == (4.0, 4.0)

# %% [markdown]
# torch divides by the number of ranks at the start, also when fewer ranks bring a batch. So PyTorch keeps the weight of
# every *image* in the epoch equal, if all batches are equally large. Ours divides by the number of ranks that had a
# batch, so that every training *step* has a full-sized gradient. Neither is wrong; you must know which one you have.
#
# **A parameter gets no gradient**, because the loss does not depend on it. Then its bucket is never full. Every user of
# torch's DDP meets this error one day.

# %%
guess_2 = predict(
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
print(guess_2.compare(complaint[-2]))
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
# next forward pass finds the bucket unfinished, so the message speaks of "the prior iteration". Remember its wording;
# its cause is one step back. If only some ranks leave the layer out, only they get the message. The others wait in
# their backward pass for a bucket that does not come. Ours complains at the end of the backward pass and names the
# parameter.
#
# In both, `find_unused_parameters=True` allows it. A gradient that is missing on *some* ranks then counts as zeros on
# these ranks. A gradient that is missing on *all* ranks, as here, stays `None`, and the optimizer leaves the parameter
# alone, weight decay and all.


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
# **DDP averages gradients. It copies buffers from rank 0.** The copy is made before each forward pass; then each rank
# adds its own batch to its averages. So the ranks differ by one batch, and the value that counts is made from rank 0's
# images alone. The other ranks' images leave no trace in it. torch does the same.
#
# With `no_sync` some of the copies are left out, so that the ranks differ by several batches. Where this matters,
# `torch.nn.SyncBatchNorm` averages over all ranks, on GPUs only.
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
# They are, because the state of model and optimizer is all that this run remembers. **Resuming to the last bit takes
# all that the run remembers: weights, optimizer, random generators.** A dropout draws from a random generator, and our
# checkpoint does not hold the generator's state. Then the resumed run takes other steps. And a `DistributedSampler`
# needs the right `set_epoch` after the restart.

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
# ## One half outside of `no_sync`
#
# `no_sync` turns the communication off while gradients accumulate. torch decides in the *forward* pass whether the
# coming backward pass communicates, as its documentation of `no_sync` warns. Ours decides in the backward pass. In the
# next run the input is 1 on rank 0 and 2 on rank 1, so that a rank's own gradient is 1 or 2, and the average is 1.5.
# First only the backward pass is inside `no_sync`, then only the forward pass.


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


theirs, ours = zip(*pair.run(torchs_and_ours), strict=True)
print("only backward inside, only forward inside:")
print(f"    torch's DDP: rank 0 {theirs[0]}, rank 1 {theirs[1]}")
print(f"    ours:        rank 0 {ours[0]}, rank 1 {ours[1]}")
assert theirs == ((1.5, 1.0), (1.5, 2.0)) and ours == ((1.0, 1.5), (2.0, 1.5))

# %% [markdown]
# With torch, the first gradient is right, but its messages are not saved. The second gradient is wrong, because it was
# never averaged, and the ranks drift apart. No error tells you of either mistake.
#
# **Both passes belong inside `no_sync`, or both outside.**
#
# ## Overlap when ranks really compute
#
# In lesson 05 the layers slept for as long as they would compute, and sleeping leaves the cores free. Now the same 12
# layers really compute, with 512 rows on each rank. The folded cell measures the backward pass, and then chooses a
# network on which the messages take about as long.

# %% tags=["folded"]
# Ranks that really compute, on a paced network
ROWS, TWO = 512, ("flat", "overlapped")


class Layer(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs).relu()


def race(comm: Communicator, versions: tuple[str, ...], turns: int) -> dict[str, list]:
    """The steps of each version. They take turns, so that a busy moment meets both."""
    lanes = {}
    for version in versions:
        torch.manual_seed(0)
        model = nn.Sequential(*(Layer(256, 256) for _ in range(12)))
        clock = StepClock(comm, model)
        noted = clock.noted("ring")
        ddp = DistributedDataParallel(
            comm, model, version=version, algorithm=noted, bucket_bytes=512 << 10
        )
        lanes[version] = clock, ddp
    for _ in range(turns):
        for clock, ddp in lanes.values():
            comm.barrier()
            with clock.step():
                ddp(torch.ones(ROWS, 256)).sum().backward()
    return {version: clock.steps for version, (clock, _) in lanes.items()}


def middle(steps: list[StepTimes]) -> StepTimes:
    return sorted(steps, key=lambda step: step.seconds)[len(steps) // 2]


def median_gain(found: dict[str, list[StepTimes]]) -> float:
    pairs = zip(found["flat"], found["overlapped"], strict=True)
    return statistics.median(1 - new.seconds / old.seconds for old, new in pairs)


backward = sum(
    span.seconds
    for span in middle(pair.run(race, ("flat",), 5)[0]["flat"]).of("backward")
)
link = Link(1.5e-3, 12 * 257 * 1024 / backward)
with World(2, network=link) as paced:
    computed = paced.run(race, TWO, 9)[0]
print(f"the backward pass takes {backward * 1e3:.0f} ms")
print(f"on a link of {link.bandwidth / 1e6:.0f} MB/s", end=" ")
print(f"overlapped takes {median_gain(computed):.0%} off the step of flat")
if median_gain(computed) < 0.1:
    print("Little or nothing was hidden: ranks and other programs compete for cores.")
elif median_gain(computed) > 0.45:
    print("That is more than overlap can give: other programs disturbed the ranks.")

# %% [markdown]
# And without a network, as fast as this machine copies messages?

# %%
guess_3 = predict(
    "2 ranks on this machine, no network between them. Which version is faster?",
    choices=["flat", "overlapped"],
)

# %%
found = pair.run(race, TWO, 9)[0]
gain = median_gain(found)
print(guess_3.compare("overlapped" if gain > 0 else "flat"))
print(f"overlapped takes {gain:.0%} off the step of flat")
step_timeline(
    {version: middle(steps) for version, steps in found.items()},
    title="Two real ranks, as fast as this machine goes",
)

# %% tags=["folded"]
# Checks of the runs above
assert [len(steps) for steps in (*computed.values(), *found.values())] == [9] * 4

# %% [markdown]
# Run it again on a busy machine, and the answer may change. No network card carries these messages: a core copies them,
# and Python directs each copy. So the threads that communicate compete with the threads that compute.
#
# **Overlap pays most when something else carries the messages: a network card, or a copy engine.**
#
# ### `DataParallel` on this machine
#
# [Lesson 04](04_data_parallel.ipynb) counted what a step through a master costs. The folded cell measures it: with two
# GPUs or more, torch's own `nn.DataParallel`, and otherwise lesson 04's step on ranks that share this machine's cores.
# Change the number of images and run the cell again. When do several pay?

# %% tags=["folded"]
# One device against several
ROWS_OF_STEP = 256  # up to 1,536
gpus = torch.cuda.device_count()
batch = train_set.images[:ROWS_OF_STEP], train_set.labels[:ROWS_OF_STEP]


def wide_model() -> nn.Module:
    sizes = ((64, 700), (700, 700), (700, 10))
    layers = (nn.Linear(*size, bias=False) for size in sizes)
    return nn.Sequential(nn.Flatten(), *layers)


def seconds_of(step: Callable[[], object]) -> float:
    """The mean of five calls, after some that do not count. On one thread."""
    return Timer("step()", globals={"step": step}).timeit(5).mean


def on_ranks(comm: Communicator) -> float:
    model = wide_model()
    step = partial(data_parallel_step, comm, model, *batch, cross_entropy)
    return seconds_of(step)


def on_gpus(count: int) -> float:
    model = nn.DataParallel(wide_model().cuda(), device_ids=list(range(count)))
    some_images, wanted = (tensor.cuda() for tensor in batch)

    def step() -> None:
        cross_entropy(model(some_images), wanted).backward()
        torch.cuda.synchronize()  # until here the work is only in the GPU's queue

    return seconds_of(step)


counts = range(1, gpus + 1) if gpus >= 2 else (1, 2, 4)
worlds = {} if gpus >= 2 else {1: World(1), 2: pair, 4: world}
runs: dict[int, list[float]] = {count: [] for count in counts}
for _ in range(5):  # in turns, so that a busy moment does not hit one of them only
    for count in counts:
        taken = on_gpus(count) if gpus >= 2 else max(worlds[count].run(on_ranks))
        runs[count].append(taken)
if gpus < 2:
    worlds[1].close()
for count, times in runs.items():
    print(f"{count} {'GPU' if gpus >= 2 else 'rank'}{'s' * (count > 1)}:", end=" ")
    print(f"median {statistics.median(times) * 1e3:.1f} ms,", end=" ")
    print(f"between {min(times) * 1e3:.1f} and {max(times) * 1e3:.1f} ms")
fastest, second = sorted(runs, key=lambda count: statistics.median(runs[count]))[:2]
if max(runs[fastest]) > min(runs[second]):
    print(f"{fastest} or {second}: their times overlap, so this does not settle it.")
elif fastest == 1:
    print("One is the fastest: here splitting costs more than it saves.")
else:
    faster = statistics.median(runs[1]) / statistics.median(runs[fastest])
    print(f"{fastest} are the fastest, {faster:.1f} times as fast as one.")

# %% [markdown]
# ## The copy to the GPU
#
# Gradients are not the only thing to hide: the batch itself must be copied. It is in **host memory**, and the GPU has a
# memory of its own. A **copy engine** on the GPU fetches the batch. The engine reads physical addresses, without the
# CPU.
#
# The operating system may move the memory of an ordinary tensor at any moment, to other chips or to the disk. This
# memory is **pageable**, and the copy engine must not read it. So the driver first copies the tensor into a buffer that
# stays in place. Such a buffer is **page-locked**, also called **pinned**. Only then does the engine fetch the bytes,
# which therefore move twice.
#
# Pageable memory has a second price. A GPU works off its commands in queues, called **streams**, each in order. Before
# the driver copies a pageable tensor, it waits until the stream's earlier commands are done (NVIDIA's page on
# synchronization, below).
#
#     pageable                  ▒▒▒▒▒▓▓██████▒▒▒▒▒▓▓██████       ▒ the driver's copy
#     page-locked               ▓▓██████▓▓██████                 ▓ the engine's copy
#     page-locked, and ahead    ▓▓██████                         █ the GPU computes
#                                 ▓▓    ██████
#
# `DataLoader(…, num_workers=2, pin_memory=True)` makes the first copy early, in a thread of its own. Without workers,
# as by default, the training loop itself makes this copy. Then `batch.to("cuda", non_blocking=True)` only starts the
# engine and returns. One more thing is needed to fetch the next batch *while* this one computes: a second stream.
#
# How much is that? Take 256 images of 224 × 224 points in three colors, as is usual for ImageNet, 16 lanes of PCIe 4,
# and a CPU that copies 10 GB/s. The GPU computes for 15 ms per batch. Rank 0 plays the host, rank 1 the GPU.

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
guess_4 = predict(
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
print(guess_4.compare(100 * 15 / step_ms["pageable", 0.015]))

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
# Less than half of the time. The PCIe bus is not the culprit. Most of the loss is a hidden copy in host memory, which
# no line of the program mentions. Page-locking alone helps about as much as fetching ahead alone, and only both
# together keep the GPU busy. A GPU that computes for 300 ms per batch hardly notices any of it: 7 %.
#
# We let the driver copy the whole batch before the engine begins. A driver that copies in many small pieces lets the
# engine fetch one piece while it copies the next. Then both copies together take hardly more than the first, 15.4 ms
# instead of 21.6, and "ahead" alone is nearly enough.
#
# The first copy is not gone. The loader's thread makes it, and here it takes a little longer than the GPU computes:
# 15.4 ms. So the GPU waits for the loader. More workers do not help: torch's loader has one such thread.
#
# Page-locked memory has a price. Nobody else can use it, and locking it takes time. `batch.pin_memory().to("cuda")` in
# the training loop only moves the driver's copy into your own line. So let the loader do it. And without page-locked
# memory `non_blocking=True` is no error; it just need not be asynchronous.
#
# **Try it.** From how many milliseconds of computing per batch on does the first way, "pageable", keep the GPU busy for
# at least 90 % of the time?

# %%
for compute in (0.015, 0.3):  # more values
    machine.run(fetch_and_compute, *WAYS["pageable"], compute)
    print(f"{1e3 * compute:4.0f} ms: {compute * STEPS / machine.elapsed:.0%}")

# %% tags=["folded"]
# One way to do it
# Nine times as long as both copies together
for compute, enough in ((0.185, False), (0.2, True)):
    machine.run(fetch_and_compute, *WAYS["pageable"], compute)
    print(f"{1e3 * compute:4.0f} ms: {compute * STEPS / machine.elapsed:.1%}")
    assert (compute * STEPS / machine.elapsed >= 0.9) is enough

# %% [markdown]
# **Needs a GPU:** the next cell measures the copies on your GPU, or shows what was recorded. On your GPU it ends with
# the mistake that this invites. The engine reads the batch *after* `.to` has returned. If you refill the buffer before
# the copy has finished, you train on a mixture of two batches. On the card of the recording, all of the last 8 images
# were the later ones. The rule is that of `isend`: until the copy is done, the buffer belongs to somebody else.

# %% tags=["gpu"]
# Needs a GPU; without one it shows what was recorded on a card
from distlib import gpus


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
    gpus.recordings.show("copies")

# %% [markdown]
# ## In real frameworks
#
# `torch.nn.parallel.DistributedDataParallel` has hooks, `no_sync` and `join`, too. But its buckets are cleverer than
# ours. Ours follow the order of *registration*, backwards. What if a model uses its layers in a different order? Here
# is a model that uses them the other way around: the layer that is registered last runs first, so its gradient comes
# last. Six layers of 256 KiB, and buckets that are full at 0.5 MiB. A **communication hook** looks into the buckets:
# torch calls it with each bucket that is full, and all-reduces what the hook returns a promise of.

# %%
guess_5 = predict(
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
print(guess_5.compare(str(len(half[0]))))
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
# In its first step torch puts everything into **one** bucket (of each dtype). So the first step is "flat" and hides
# nothing. Meanwhile torch notes the order in which gradients arrive. Before the second forward pass it builds the
# buckets anew, in this order: layers 0 and 1 come first, because their gradients do. Ours waits for layers 5 and 4,
# whose gradients come last:


# %%
LINK = Link(latency=3e-4, bandwidth=16e6)  # a wireless link
simulated = SimulatedWorld(2, Cluster.flat(2, LINK), contexts="threads")


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
# your own all buckets have that cap. It is no upper bound: as with ours, the last parameter may go beyond it. With
# a cap of 0.5 MiB, layers of 0.4 MiB go in twos.
#
# In torch 2.13 you find this in `torch/nn/parallel/distributed.py`: `compute_bucket_size_limits` gives one limit,
# `sys.maxsize`, unless `find_unused_parameters` is set, and `first_bucket_bytes_cap` depends on `is_using_default`.

# %% [markdown]
# ### Torch's DDP above your all-reduce
#
# DDP hands each bucket to the process group, and the process group all-reduces it. Without `"gloo"`,
# `torch_distributed(comm)` gives torch a process group of this course, which sends our messages. With `all_reduce=` it
# takes an algorithm of your own. The next cell gives it a ring as you have written it in exercise 02.


# %% tags=["folded"]
# A ring
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

# %% tags=["folded"]
# The ranks are no longer needed
world.close()
pair.close()

# %% [markdown]
# ## In short
#
# - A sampler deals out equal parts without a message. It needs `set_epoch` in every epoch.
# - A rank that runs out of batches leaves the others waiting, unless all have agreed on what happens then.
# - DDP averages gradients. It copies buffers from rank 0.
# - Resuming to the last bit takes all that the run remembers: weights, optimizer, random generators.
# - A batch from page-locked memory reaches the GPU faster, and a second stream hides the copy.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - When the parts are not equal, the sampler uses some samples twice, or leaves some out.
# - torch's `Join` divides by the number of ranks at the start, by default. Ours divides by the number of ranks that had
#   a batch.
# - Buffers do not stay equal on the ranks: the ranks see other images.
# - torch reports a parameter without a gradient one step late, and ours at the end of the backward pass.
# - torch builds its buckets in the order in which gradients arrived in the first step, unless
#   `find_unused_parameters` is set.
# - A batch reaches the GPU faster from page-locked memory, and at the same time as the GPU computes only on a second
#   stream. Where the GPU computes for much longer than the copies take, little is gained: here 7 %.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/05b_ddp_in_practice/05b_ddp_in_practice.ipynb) you write the sampler, and decide which
# parameters share a bucket. Then go on with [Large batches](06_large_batches.ipynb).
#
# ## Further reading
#
# - [DDP communication hooks](https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html).
# - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/notes/ddp.html), torch's notes on its design.
# - M. Harris, [How to Optimize Data Transfers in CUDA
#   C/C++](https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/), 2012. Page-locked memory, measured.
# - V. Moens, [A guide on good usage of non_blocking and
#   pin_memory()](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html), with profiles of each way.
# - NVIDIA, [API synchronization behavior](https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html): which
#   copies wait for what.
