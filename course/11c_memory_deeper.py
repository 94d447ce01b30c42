# %% [markdown]
# # Memory, deeper: what sharding leaves
#
# **This lesson is optional.** It goes on where [ZeRO and FSDP](11_zero.ipynb) ends. There, each rank kept a shard of
# all that ranks keep alike. Here you look at what is left: activations, whole units, the memory of a process that does
# not shrink, and the time that small messages take.
#
# After this lesson you will be able to
#
# - say why ZeRO cuts a flat buffer, and what it costs to deal out whole tensors instead,
# - read the plan of a step of stage 3, and count its all-gathers,
# - trade computing for memory with activation checkpointing, and say what it saves,
# - say why a process may still seem as large as before,
# - say when latency decides, and when to shard inside a node,
# - count to the byte what torch's `fully_shard` sends, and move a run to another number of ranks.
#
# **Time:** about 75 minutes. **You need:** [ZeRO and FSDP](11_zero.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu

from distlib import (
    Cluster,
    Communicator,
    Link,
    RankError,
    SimulatedWorld,
    World,
    all_reduce,
    gpus,
    torch_distributed,
)
from distlib.draw import memory_over_time, predict
from distlib.training import DistributedDataParallel, digits, zero

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread


# %% tags=["folded"]
# From the lesson before: the model, its data, its four stages, and one process that trains
class Block(nn.Module):
    """An MLP whose result is added to its input."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(gelu(self.up(x)))


class Reader(nn.Module):
    """[images, 64] → [images, 10]"""

    def __init__(self, features: int = 30, blocks: int = 4, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.below = nn.Linear(64, features)
        self.blocks = nn.ModuleList(Block(features) for _ in range(blocks))
        self.above = nn.Linear(features, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.below(images)
        for block in self.blocks:
            x = block(x)
        return self.above(x)


train_set, _ = digits()
images, labels = train_set.images.flatten(1), train_set.labels


def sharded(
    comm: Communicator, stage: int, model: nn.Module, **options: Any
) -> tuple[Any, Any]:
    """The model as it is called in this stage, and its optimizer."""
    if stage == 3:
        model = zero.FullyShardedModule(comm, model, units=model.blocks, **options)
        return model, torch.optim.AdamW(model.parameters(), lr=0.003)
    if stage == 0:
        model = DistributedDataParallel(comm, model)
        return model, torch.optim.AdamW(model.parameters(), lr=0.003)
    kind = zero.ShardedOptimizer if stage == 1 else zero.ShardedGradients
    optimizer = kind(
        comm, model, torch.optim.AdamW, units=model.blocks, lr=0.003, **options
    )
    return model, optimizer


def train(
    comm: Communicator, stage: int, steps: int = 10, batch: int = 60, **options: Any
) -> dict[str, torch.Tensor]:
    """The weights after some steps; each rank has its part of every batch."""
    model, optimizer = sharded(comm, stage, Reader().double(), **options)
    for step in range(steps):
        own = slice(step * batch + comm.rank, (step + 1) * batch, comm.world_size)
        optimizer.zero_grad()
        cross_entropy(model(images[own].double()), labels[own]).backward()
        optimizer.step()
    return {name: each.clone() for name, each in model.state_dict().items()}


one = Reader().double()
adamw = torch.optim.AdamW(one.parameters(), lr=0.003)
for step in range(10):
    batch = slice(step * 60, (step + 1) * 60)
    adamw.zero_grad()
    cross_entropy(one(images[batch].double()), labels[batch]).backward()
    adamw.step()


def off(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """The largest difference of any weight."""
    return max(float((found[name] - wanted[name]).abs().max()) for name in wanted)


def world_of(ranks: int) -> SimulatedWorld:
    return SimulatedWorld(ranks, contexts="threads")  # they send inside backward


numbers = sum(each.numel() for each in one.parameters())

# %% [markdown]
# ## Why not deal out whole tensors?
#
# Stage 1 cuts a flat buffer into equal pieces, so a shard may begin in the middle of a matrix. Adafactor and Muon can't
# work on such a piece. Why not deal out whole tensors instead, as one deals cards? Then any optimizer that looks at one
# tensor at a time could be sharded, and there would be no padding. GPT-2 has 148 tensors. We give each to the rank that
# has the least so far, the largest tensors first.

# %%
F = 768
attention = [F, F, F * 3 * F, 3 * F, F * F, F]  # with the norm before it
mlp = [F, F, F * 4 * F, 4 * F, 4 * F * F, F]
sizes = [50_257 * F, 1024 * F, *(attention + mlp) * 12, F, F]
print(f"{len(sizes)} tensors, {sum(sizes) / 1e6:.1f} million parameters")

# %%
guess_1 = predict(
    "Of GPT-2's 124 million parameters, 8 ranks should have 12.5 % each. "
    "The rank with the most has …",
    unit="percent",
)


# %%
def deal(sizes: Sequence[int], ranks: int) -> list[int]:
    """How many parameters each rank has, if whole tensors are dealt out."""
    loads = [0] * ranks
    for size in sorted(sizes, reverse=True):
        loads[loads.index(min(loads))] += size
    return loads


for ranks in (2, 4, 8, 16):
    loads = deal(sizes, ranks)
    shares = [load / sum(sizes) for load in loads]
    print(f"{ranks:2} ranks: from {min(shares):5.1%} to {max(shares):5.1%}")
shares = [load / sum(sizes) for load in deal(sizes, 8)]
print(guess_1.compare(round(max(shares) * 100, 1)))

# %% tags=["folded"]
# Checks of the numbers above and below
assert sum(sizes) == 124_439_808 and len(sizes) == 148
assert abs(max(shares) - 50_257 * F / sum(sizes)) < 1e-9 and 0.30 < max(shares) < 0.32

# %% [markdown]
# **Whoever gets the largest tensor keeps all of it, however many ranks there are.** The embedding of the words is one
# tensor, and it is 31 % of the model. Since a step takes as long as the slowest rank, ZeRO joins tensors to one flat
# buffer, cuts the buffer into $N$ equal pieces, and does not care where a tensor ends.
#
# **Try it.** Cut only the embedding of the words, into 8 pieces by rows, and deal out all other tensors whole. How many
# percent has the fullest of 8 ranks then? Guess first, then change the list.

# %%
pieces = [sizes[0]]  # change this: the embedding of the words
loads = deal([*pieces, *sizes[1:]], 8)
print(f"the fullest rank has {max(loads) / sum(loads):.1%}")

# %% tags=["folded"]
# One way to do it
pieces = [-(-50_257 // 8) * F] * 7 + [(50_257 - 7 * -(-50_257 // 8)) * F]
loads = deal([*pieces, *sizes[1:]], 8)
print(f"the fullest rank has {max(loads) / sum(loads):.1%}")
assert sum(pieces) == sizes[0] and 0.125 <= max(loads) / sum(loads) < 0.14

# %% [markdown]
# ## The plan of a step
#
# At stage 3 a unit is gathered, used and freed, in the forward pass and again in the backward pass. So how many
# all-gathers does a step make? The answer depends on one argument, which torch calls `reshard_after_forward`. It says
# whether a unit is freed after its forward pass. Ours has three of torch's values: `True`, `False`, and `None`, the
# default, which frees all units except the root's.

# %%
guess_2 = predict(
    "Five units, one of them the root's. How many all-gathers does a step make with the default?",
    unit="all-gathers",
)

# %%
WAYS = {"True": True, "None": None, "False": False}


def count(world: SimulatedWorld, kind: str) -> float:
    """How many such collectives rank 0 took part in, for units. A ring sends 3 messages
    from each of 4 ranks."""
    calls = [each.site.call or "" for each in world.trace if each.src == 0]
    return sum(call.startswith(f"{kind} of unit") for call in calls) / 3


world, gathers, scatters = world_of(4), {}, {}
for name, reshard in WAYS.items():
    world.run(train, 3, 1, reshard_after_forward=reshard)
    gathers[name] = count(world, "all_gather")
    scatters[name] = count(world, "reduce_scatter")
    print(
        f"{name:5}: {gathers[name]:2.0f} all-gathers, {scatters[name]:.0f} reduce-scatters"
    )
print(guess_2.compare(gathers["None"]))
assert list(gathers.values()) == [10, 9, 5] and set(scatters.values()) == {5}

# %% [markdown]
# Nine: two for each block, and one for the root, which is needed last in the forward pass and first in the backward
# pass. With `False` each unit stays whole from its forward pass to its backward pass, which takes one all-gather per
# unit. So with one backward pass per step, stage 3 *sends* then what stage 2 and DDP send. Between steps it *keeps*
# what stage 3 keeps.
#
# A step of stage 3 is so regular that it can be written down before it runs, as a list of actions. G begins to gather a
# unit, W waits for it, F and B compute, X frees, R begins a reduce-scatter, A waits for its average.

# %%
plan = zero.step_plan(3, reshard_after_forward=True)
print(*plan)
print("at most", zero.whole_units(plan), "units whole at the same time")
for units in (2, 3, 10, 50):
    for prefetch in (True, False):
        plan = zero.step_plan(units, reshard_after_forward=True, prefetch=prefetch)
        assert zero.whole_units(plan) == (2 if prefetch else 1)

# %% [markdown]
# **With prefetching two units are whole at the same time, however deep the model is.** They are the unit that computes
# and the next one. The root's unit, where there is one, is a third: it is whole from beginning to end of each pass.

# %% [markdown]
# ## The other axis: activations
#
# ZeRO shards what all ranks keep alike. Activations are not alike: each rank has those of its own samples. So ZeRO
# leaves them as they are. In lesson 11 we had 16 samples per rank. With more, activations are most of the memory.
#
# **Activation checkpointing** is the remedy for these. A block keeps its input and forgets all that it computes inside.
# In the backward pass it computes its forward pass once more. Memory is bought with computing.
#
# A backward pass computes about twice as much as a forward pass: for each matrix a product for the gradient of the
# inputs, and one for that of the weights.

# %% tags=["folded"]
# From the lesson before: the tensors that are alive at each moment of a step
WIDE = 120


def account_of(
    comm: Communicator,
    stage: int,
    make: Callable[[], nn.Module],
    batch: int = 16,
    limit: float | None = None,
) -> list[zero.Sample]:
    """What is alive on rank 0 in the second step."""
    model, optimizer = sharded(comm, stage, make())
    own = slice(comm.rank * batch, (comm.rank + 1) * batch)
    for step in range(2):
        optimizer.zero_grad()
        account = zero.MemoryAccount(comm, model, optimizer, limit=limit)
        watched = comm.rank == 0 and (step == 1 or limit is not None)
        with account if watched else nullcontext():
            loss = cross_entropy(model(images[own]), labels[own])
            account.phase("backward")
            loss.backward()
            account.phase("step")
            optimizer.step()
    return account.samples


# %%
guess_3 = predict(
    "All blocks are checkpointed. How much more does a step compute?", unit="percent"
)

# %%
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode


class CheckpointedReader(Reader):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.below(images)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.above(x)


# %% tags=["folded"]
# Count the operations of a step
def operations(model: nn.Module) -> int:
    """Floating-point operations of a forward and a backward pass, counted by torch."""
    with FlopCounterMode(display=False) as counter:
        cross_entropy(model(images[:16]), labels[:16]).backward()
    return counter.get_total_flops()


# %%
plain = operations(Reader(WIDE, 8))
more = operations(CheckpointedReader(WIDE, 8)) / plain - 1
with set_checkpoint_early_stop(False):
    all_again = operations(CheckpointedReader(WIDE, 8)) / plain - 1
print(guess_3.compare(round(more * 100)))
print(f"without stopping early: {all_again:.0%}")

# %% [markdown]
# A forward pass is a third of a step, so if all of it is done again, a step computes nearly a third more. But torch
# stops *early*: it computes a block again only until the last tensor is there that the backward pass needs. The
# backward pass of `down` needs its input, and not its output. So the second of the two products is not done again, and
# the price is one sixth. In a block whose last layer is small, the price would be nearer to a third.
#
# **Try it.** Checkpoint only every second block. How much more does a step compute then? Guess first.


# %%
class SomeCheckpointed(CheckpointedReader):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.below(images)
        for block in self.blocks:  # change the line below
            x = checkpoint(block, x, use_reentrant=False)
        return self.above(x)


print(f"{operations(SomeCheckpointed(WIDE, 8)) / plain - 1:.1%} more")


# %% tags=["folded"]
# One way to do it
class EverySecond(CheckpointedReader):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.below(images)
        for number, block in enumerate(self.blocks):
            x = block(x) if number % 2 else checkpoint(block, x, use_reentrant=False)
        return self.above(x)


half = operations(EverySecond(WIDE, 8)) / plain - 1
print(f"{half:.1%} more: half as much as with all blocks")
assert abs(half / more - 0.5) < 0.01

# %% [markdown]
# What does a checkpoint of every block save?

# %%
both = {}
for kind in (Reader, CheckpointedReader):
    make = partial(kind, WIDE, blocks=8)
    both[kind.__name__] = world_of(2).run(account_of, 3, make, 400)[0]
peaks_of = {name: max(each.total for each in samples) for name, samples in both.items()}
less = peaks_of["CheckpointedReader"] / peaks_of["Reader"]
print(f"peak: {less:.0%} as many bytes")
memory_over_time(
    both,
    title="Stage 3 with 400 samples per rank, without and with checkpoints",
    subtitle="rank 0 of 2",
)

# %% tags=["folded"]
# Checks of what is said above and below
assert 0.15 < more < 0.18 and 0.3 < all_again < 0.34
kinds = max(both["Reader"], key=lambda each: each.total).bytes
assert kinds["activations"] > 0.6 * sum(kinds.values())
assert 0.45 < less < 0.6

# %% [markdown]
# **Checkpointing halves the peak here, for a sixth more computing.** Without checkpoints the activations grow through
# the whole forward pass and shrink through the backward pass. With checkpoints they stay low, and a small hill for one
# block comes and goes.
#
# At stage 3, computing a block again needs its parameters, which are gathered for the backward pass anyway. Checkpoints
# around the same parts as the units cost no further all-gather.

# %% tags=["folded"]
# A count of the all-gathers, with and without checkpoints
gathered = {}
for kind in (Reader, CheckpointedReader):

    def one_step(comm: Communicator, kind: type[Reader] = kind) -> None:
        model, _ = sharded(comm, 3, kind())
        cross_entropy(model(images[:8]), labels[:8]).backward()

    world = world_of(4)
    world.run(one_step)
    gathered[kind.__name__] = count(world, "all_gather")
print(gathered)
assert gathered["CheckpointedReader"] == gathered["Reader"] == 9

# %% [markdown]
# ### A model that does not fit
#
# Now we put it together. Each rank may have 5.7 MB alive, and not a byte more. (Suppose that this is 80 GB.) The model
# has twelve blocks of 90 features. What a stage *keeps* can be computed before, and `first_stage_within` says the first
# stage that fits. Then we run all four.

# %%
LIMIT = 5.7e6
deep = partial(Reader, 90, blocks=12)
lengths = [
    sum(each.numel() for each in part)
    for part in [
        [*deep().below.parameters(), *deep().above.parameters()],
        *(list(block.parameters()) for block in deep().blocks),
    ]
]
keeps = zero.padded_bytes_by_stage(lengths, 4)
for stage, kinds in enumerate(keeps):
    print(f"stage {stage} keeps {sum(kinds.values()) / 1e6:5.2f} MB")
print("the first that fits: stage", zero.first_stage_within(LIMIT, keeps))

# %%
guess_4 = predict(
    "With a limit of 5.7 MB, which stages get through a step?",
    choices=["stage 3 alone", "stages 2 and 3", "stages 1, 2 and 3"],
)


# %%
def brief(error: RankError) -> str:
    """What rank 0 says."""
    return str(error).partition("alive, ")[2].partition(": parameters")[0]


got_through = []
for stage in range(4):
    try:
        world_of(4).run(account_of, stage, deep, limit=LIMIT)
        got_through.append(stage)
        print(f"stage {stage}: trains")
    except RankError as error:
        print(f"stage {stage}: {brief(error)}")
print(guess_4.compare("stage 3 alone"))
assert got_through == [3] and zero.first_stage_within(LIMIT, keeps) == 2

# %% [markdown]
# **A stage that keeps few enough bytes may still not fit.** Stage 2 fails in its first step, because activations,
# gradients on their way, and temporary numbers of the optimizer come on top. Stage 3 trains the same model on the same
# four ranks, with memory in which DDP does not even get through its first backward pass.
#
# And if stage 3 does not fit, either? Then there is the other axis. With 130 samples per rank the activations are too
# much. Checkpointed, the step gets through:

# %%
fits = {}
for kind in (Reader, CheckpointedReader):
    make = partial(kind, 90, blocks=12)
    try:
        world_of(4).run(account_of, 3, make, 130, limit=LIMIT)
        fits[kind.__name__] = True
        print(f"{kind.__name__}: trains")
    except RankError as error:
        fits[kind.__name__] = False
        print(f"{kind.__name__}: {brief(error)}")
assert fits == {"Reader": False, "CheckpointedReader": True}

# %% [markdown]
# ## The process does not give back
#
# So far we have counted tensors. Your system counts differently: it sees the memory of a process. You would expect that
# the two go together. Let us look at torch's own stage 3, `fully_shard`, in two real processes. The model has 12 layers
# of 4 MB. A rank's shards of weights, gradients and states are 100 MB. Two layers at a time are whole, 8 MB. DDP keeps
# 200 MB, and its buckets.
#
# The script runs with DDP, with `fully_shard`, and with `fully_shard` and `MALLOC_MMAP_THRESHOLD_=65536` in its
# environment.

# %% tags=["folded"]
# The script
SCRIPT = """
import json, sys, warnings
import psutil, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

warnings.simplefilter("ignore")
torch.set_num_threads(1)
dist.init_process_group("gloo")
process, found = psutil.Process(), {}
before = process.memory_info().rss
model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(12)))
if sys.argv[1] == "DDP":
    model = nn.parallel.DistributedDataParallel(model)
else:
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())

def note(moment):
    found[moment] = (process.memory_info().rss - before) / 1e6

note("made")
for step in (1, 2):
    loss = model(torch.ones(16, 1024)).square().mean()
    note(f"step {step}, forward")
    loss.backward()
    note(f"step {step}, backward")
    optimizer.step()
    note(f"step {step}, step")
    optimizer.zero_grad()
if dist.get_rank() == 0:
    print(json.dumps(found))
dist.barrier()
dist.destroy_process_group()
"""

# %%
guess_5 = predict(
    "fully_shard, after two steps: how many times as much has the process grown "
    "without that setting?",
    unit="times",
)


# %% tags=["folded"]
# How the script is run, and what it prints
def process_megabytes(way: str, **environment: str) -> dict[str, float]:
    """By how much the process of rank 0 has grown, at several moments, in MB."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT)
        meeting = f"--rdzv-endpoint={folder}/meeting --rdzv-conf=store_type=file"
        meeting += " --rdzv-backend=c10d --local-addr=127.0.0.1"
        run = subprocess.run(
            [*torchrun, *meeting.split(), str(script), way],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(run.stdout.splitlines()[-1])


# %%
in_ddp = process_megabytes("DDP")
usual = process_megabytes("fully_shard")
returned = process_megabytes("fully_shard", MALLOC_MMAP_THRESHOLD_="65536")
print("                       DDP   fully_shard   with the threshold")
for moment in usual:
    print(
        f"{moment:18} {in_ddp[moment]:4.0f} MB {usual[moment]:10.0f} MB"
        f" {returned[moment]:17.0f} MB"
    )
print(guess_5.compare(round(usual["step 2, step"] / returned["step 2, step"], 1)))

# %% tags=["folded"]
# Checks of what is said below, where the C library is glibc
if platform.libc_ver()[0] == "glibc":
    assert usual["step 2, step"] > 1.5 * returned["step 2, step"]
    assert returned["step 2, step"] < 0.7 * in_ddp["step 2, step"]
    assert usual["step 2, step"] > 0.8 * in_ddp["step 2, step"]
    assert returned["step 2, forward"] < returned["step 1, step"]

# %% [markdown]
# **On Linux with glibc, the process that shards has grown about as much as the one with DDP, or more.** The tensors
# that are alive are the same in the last two columns. On other systems these two columns may be alike. What happens?
#
#     tensor freed ──► malloc of the C library ──► the system
#                      keeps what is smaller than a threshold, for later
#
# A block above the threshold comes from the system and goes back to it. The threshold begins at 128 KiB. But whenever
# such a block is freed, glibc raises the threshold to its size, up to 32 MiB. So after the first layer was gathered and
# freed, layers come from a heap, one long piece of memory, which gets smaller at its end only. Units come, go, and
# leave holes. A threshold that is set stays as it is. In a running process `zero.return_large_blocks()` does the same.
#
# So believe neither number alone. Count tensors to see whether the *program* frees what it should, and look at the
# process to see what the *machine* must have.
#
# ### The same on a GPU
#
# On a GPU torch's own allocator keeps freed blocks, too. The difference between three numbers explains most "out of
# memory":
#
# - `torch.cuda.memory_allocated()`: the bytes of the tensors that are alive,
# - `torch.cuda.max_memory_allocated()`: the most that there were at once,
# - `torch.cuda.memory_reserved()`: what torch has taken from the GPU and keeps. `nvidia-smi` shows this one, and more.
#
# Freed tensors return to torch, not to the GPU, so `nvidia-smi` does not fall when you delete a tensor. And pieces of
# freed memory may be too small for the next tensor, although their sum is not.
# `torch.cuda.memory._record_memory_history()` and `torch.cuda.memory._dump_snapshot("snapshot.pickle")` write down each
# block and the line that asked for it; [pytorch.org/memory_viz](https://pytorch.org/memory_viz) draws it.
#
# The next cell measures a training step on your GPU, or shows what was recorded on a real one. The first row is room to
# work in, kept for the library that multiplies matrices.

# %%
gpus.recordings.show("memory")

# %% [markdown]
# More is reserved than allocated, because torch gives back only whole blocks of which no part is in use. The peak comes
# when the backward pass begins: all activations are still there, the derivative of the loss needs room for four more
# tensors of their size, and no weight has a gradient yet. The peak is a record, so it does not fall when the tensors
# are gone.
#
# ## What latency costs
#
# In lesson 11 the border was $s/b$ tokens per rank, because a unit's bytes and its computing both grow with its
# parameters. Small units pay something else as well: *latency*. A ring takes $N - 1$ rounds for each all-gather,
# whatever its size. On 32 ranks with 10 µs that is 0.3 ms, three times per unit and step. For units of 100,000
# parameters that is most of the time even with 100,000 tokens. So the border moves:

# %% tags=["folded"]
# From the lesson before: steps that are played in virtual time
SPEED, NETWORK, UNITS, UNIT = 200e12, Link(10e-6, 25e9), 24, 100_000_000


def seconds_of(kind: str, tokens: float, length: int = UNIT) -> float:
    """Of a unit's forward (F) or backward pass."""
    return {"F": 2, "B": 4}.get(kind, 0) * tokens * length / SPEED


def ddp_step(
    comm: Communicator, tokens: float, units: int, length: int, dtype: torch.dtype
) -> float:
    """A step of DDP: each unit's all-reduce begins as soon as its gradients are there."""
    began, under_way = comm.time(), []
    comm.sleep(units * seconds_of("F", tokens, length))
    for _ in range(units):
        comm.sleep(seconds_of("B", tokens, length))
        gradients = torch.empty(length, dtype=dtype, device="meta")
        under_way.append(comm.start(all_reduce, gradients, algorithm="ring"))
    for work in under_way:
        work.wait()
    return comm.time() - began


def stage_3_step(
    comm: Communicator, tokens: float, units: int, length: int, dtype: torch.dtype
) -> float:
    return zero.play_step(
        comm,
        zero.step_plan(units, reshard_after_forward=True),
        [length] * units,
        reduce_dtype=dtype,
        seconds=lambda action: seconds_of(action.kind, tokens, length),
    )


def step_seconds(
    ranks: int,
    tokens: float,
    units: int = UNITS,
    length: int = UNIT,
    link: Link = NETWORK,
    dtype: torch.dtype = torch.bfloat16,  # of the gradients that are sent
) -> dict[str, float]:
    """Seconds of a step: computing alone, DDP, stage 3."""
    found = {"computing": units * 6 * tokens * length / SPEED}
    for name, step in (("DDP", ddp_step), ("stage 3", stage_3_step)):
        world = SimulatedWorld(ranks, Cluster.flat(ranks, link))
        found[name] = max(world.run(step, tokens, units, length, dtype))
    return found


# %%
small = step_seconds(32, 100_000, units=6, length=100_000)
many = step_seconds(32, 1_000_000, units=6, length=100_000)
for tokens, found in ((100_000, small), (1_000_000, many)):
    ratio = found["stage 3"] / found["computing"]
    print(f"{tokens:9,} tokens: stage 3 takes {ratio:.2f} times as long as computing")
assert small["stage 3"] > 2 * small["computing"] and 0.3 < 31 * 10e-3 < 0.32
assert many["stage 3"] < 1.15 * many["computing"]

# %% [markdown]
# **The smaller the units, the more tokens it takes to hide their messages.**
#
# ### On a clock
#
# The same with real processes, whose messages are held back as on a link of 15 MB/s with a latency of 1 ms. Nothing
# here is asserted, because it is your machine's time. By their bytes alone DDP needs 374 ms for its messages, and stage
# 3 needs 559 ms: its root stays, so it sends a little less than three units.
#
# Expect something near 1.5 times, and more besides the bytes: four processes also compute on your cores, in DDP each of
# them updates the whole model, and at stage 3 they wait for the latency more often.


# %% tags=["folded"]
# What each rank does
wide = partial(Reader, WIDE, blocks=8)


def seconds_per_step(comm: Communicator, stage: int) -> float:
    torch.set_num_threads(1)
    model, optimizer = sharded(comm, stage, wide())
    times = []
    for _ in range(3):
        comm.barrier()
        began = comm.time()
        optimizer.zero_grad()
        cross_entropy(model(images[:16]), labels[:16]).backward()
        optimizer.step()
        times.append(comm.time() - began)
    return min(times)


# %%
with World(4, network=Link(1e-3, 15e6)) as paced:
    on_a_clock = {
        stage: max(paced.run(seconds_per_step, stage, timeout=100)) for stage in (0, 3)
    }
for stage, seconds in on_a_clock.items():
    print(f"stage {stage}: {seconds * 1e3:.0f} ms per step")
print(f"{on_a_clock[3] / on_a_clock[0]:.2f} times DDP's")
wide_bytes = sum(each.nbytes for each in wide().parameters())
assert round(2 * 3 / 4 * wide_bytes / 15e3) == 374
stays = sum(
    each.nbytes for name, each in wide().named_parameters() if "blocks" not in name
)
assert round(3 / 4 * (3 * wide_bytes - stays) / 15e3) == 559

# %% [markdown]
# ## Shard inside the node
#
# Often some links are much faster than others: those between the GPUs of one node. Then shard *inside* of a node, and
# keep a copy of all shards in each node. This is **hybrid sharding**. Between nodes only gradients travel, and of these
# each rank sends its shard. With our classes it takes two communicators:

# %%
NODES, PER_NODE = 2, 4
two_nodes = Cluster(NODES, PER_NODE, intra=Link(2e-6, 200e9), inter=Link(10e-6, 5e9))


def train_hybrid(comm: Communicator, steps: int) -> dict[str, torch.Tensor]:
    node = comm.split(comm.rank // PER_NODE)  # ranks of one node: 0 to 3, 4 to 7
    across = comm.split(comm.rank % PER_NODE)  # one rank of each node: 0 and 4, …
    model = Reader(seed=0).double()  # the same on every node
    model = zero.FullyShardedModule(node, model, units=model.blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for step in range(steps):
        own = slice(step * 64 + comm.rank, (step + 1) * 64, comm.world_size)
        optimizer.zero_grad()
        cross_entropy(model(images[own].double()), labels[own]).backward()
        for shard in model.parameters():  # the average of a node, so far
            all_reduce(across, shard.grad)
            shard.grad /= across.world_size
        optimizer.step()
    return {name: each.clone() for name, each in model.state_dict().items()}


# %% tags=["folded"]
# How it is measured
def between_nodes(world: SimulatedWorld) -> int:
    """Bytes that go from one node to another."""
    return sum(
        each.nbytes
        for each in world.trace
        if each.src // PER_NODE != each.dst // PER_NODE
    )


def of_three_steps(function: Callable[..., Any]) -> tuple[Any, int, float]:
    """The weights of rank 0, the bytes between nodes and the virtual seconds."""
    world = SimulatedWorld(8, two_nodes, contexts="threads")
    world.run(function, steps=0)
    before, began = between_nodes(world), world.elapsed
    weights = world.run(function, steps=3)[0]
    return weights, between_nodes(world) - before, world.elapsed - began


# %%
plain_weights, plain_bytes, plain_seconds = of_three_steps(
    partial(train, stage=3, batch=64, reshard_after_forward=True)
)
hybrid_weights, hybrid_bytes, hybrid_seconds = of_three_steps(train_hybrid)
print(f"the weights differ by {off(hybrid_weights, plain_weights):.0e}")
print(f"between nodes: {plain_bytes:,} bytes, hybrid {hybrid_bytes:,}")
print(f"communication takes {plain_seconds / hybrid_seconds:.1f} times as long without")
assert off(hybrid_weights, plain_weights) < 1e-9

# %% tags=["folded"]
# Checks of what is said below
psi = sum(sum(each.numel() for each in part.parameters()) for part in one.children())
assert psi == numbers
assert abs(plain_bytes / 3 / (2 * 3 * 7 / 8 * psi * 8) - 1) < 0.02
assert abs(hybrid_bytes / 3 / (2 * psi * 8) - 1) < 0.02
assert plain_seconds > 2 * hybrid_seconds

# %% [markdown]
# **Hybrid sharding sends less between the nodes, and each rank keeps more.** The weights are the same. The price is
# memory: each rank keeps a quarter of the model instead of an eighth.
#
# | strategy | what goes between the nodes in a step | models in all |
# |---|---|---|
# | shards over all eight ranks | the ring's two links between nodes carry $3 \cdot \frac78$ of a model each | 5.25 |
# | hybrid | two partners all-reduce their shard, a quarter of the model: each sends half of it twice | 2 |
#
# **Try it.** Take four nodes of two ranks. How many models go between the nodes then, in a step of the hybrid? Count on
# paper first, then change the two numbers.

# %%
NODES, PER_NODE = 2, 4  # change these
two_nodes = Cluster(NODES, PER_NODE, intra=Link(2e-6, 200e9), inter=Link(10e-6, 5e9))
_, nbytes, _ = of_three_steps(train_hybrid)
print(f"{nbytes / 3 / (psi * 8):.2f} models in a step")

# %% tags=["folded"]
# One way to do it
NODES, PER_NODE = 4, 2
two_nodes = Cluster(NODES, PER_NODE, intra=Link(2e-6, 200e9), inter=Link(10e-6, 5e9))
_, nbytes, _ = of_three_steps(train_hybrid)
print(f"{nbytes / 3 / (psi * 8):.2f} models in a step")
# Four partners all-reduce a half of the model: each sends 2 * 3/4 of it, eight ranks
assert abs(nbytes / 3 / (psi * 8) - 8 * 2 * 3 / 4 / 2) < 0.1

# %% [markdown]
# ## In real frameworks
#
# torch has stage 1 as `ZeroRedundancyOptimizer` and stage 3 as `fully_shard`, which its users call *FSDP*. With
# `reshard_after_forward=False` and one backward pass per step, `fully_shard` sends what stage 2 sends, but keeps
# between steps what stage 3 keeps. The older `FullyShardedDataParallel` calls this strategy `SHARD_GRAD_OP`. With $m$
# microbatches `fully_shard` sends $2m$ units where stage 2 sends $m + 1$, because it gathers for each microbatch.
# `set_reshard_after_backward(False)` on all microbatches except the last brings the $2m$ down to $m + 1$, and keeps the
# parameters whole meanwhile.
#
# First stage 1. You know two methods to shard: equal pieces of a flat buffer, and whole tensors.

# %%
guess_6 = predict(
    "So how does ZeroRedundancyOptimizer shard?",
    choices=["equal pieces of a flat buffer", "whole tensors"],
)

# %% tags=["folded"]
# What each rank does
from torch.distributed.optim import ZeroRedundancyOptimizer

Found = tuple[dict[str, torch.Tensor], list[int]]


def stage_1_of_torch(comm: Communicator) -> Found:
    """The weights after 10 steps, and the sizes of the tensors that this rank updates."""
    torch.set_num_threads(1)
    with torch_distributed(comm, "gloo"):
        model = nn.parallel.DistributedDataParallel(Reader().double())
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, lr=0.003
        )
        for step in range(10):
            own = slice(step * 60 + comm.rank, (step + 1) * 60, comm.world_size)
            optimizer.zero_grad()
            cross_entropy(model(images[own].double()), labels[own]).backward()
            optimizer.step()
        sizes = [each.numel() for each in optimizer.optim.param_groups[0]["params"]]
    return model.module.state_dict(), sizes


# %%
real = World(4)
by_rank = real.run(stage_1_of_torch, timeout=100)
for rank, (weights, sizes) in enumerate(by_rank):
    print(f"rank {rank}: {sum(sizes):5,} parameters, in tensors of {sizes}")
    assert off(weights, one.state_dict()) < 1e-9
print(guess_6.compare("whole tensors"))
assert sum(sum(sizes) for _, sizes in by_rank) == numbers

# %% [markdown]
# It deals out whole tensors, and gives each to the rank that has the least so far. Here the ranks get about as much
# each, since no tensor is large. And now `fully_shard`, as in lesson 11. `torch_distributed(comm)` without "gloo" gives
# torch a process group whose messages are this course's, so that they stand in the trace.

# %%
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

Built = tuple[nn.Module, torch.optim.Optimizer]


def shard_with_torch(model: Reader, **options: Any) -> Built:
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model, torch.optim.AdamW(model.parameters(), lr=0.003)


def torch_steps(comm: Communicator, built: Built, steps: range) -> None:
    model, optimizer = built
    for step in steps:
        own = slice(step * 60 + comm.rank, (step + 1) * 60, comm.world_size)
        optimizer.zero_grad()
        output = model(images[own].to(next(model.parameters()).dtype))
        cross_entropy(output, labels[own]).backward()
        optimizer.step()


def whole(model: nn.Module) -> dict[str, torch.Tensor]:
    """All weights, gathered."""
    return {name: each.full_tensor() for name, each in model.state_dict().items()}


# %%
def stage_3_of_torch(
    comm: Communicator, steps: int = 10, **options: Any
) -> dict[str, torch.Tensor]:
    """The weights after some steps."""
    warnings.filterwarnings("ignore", "Full backward hook|FSDP2-wrapped")  # its notes
    with torch_distributed(comm):
        built = shard_with_torch(Reader().double(), **options)
        torch_steps(comm, built, range(steps))
        return whole(built[0])


def sent_in_a_step(ranks: int, function: Callable[..., Any], **options: Any) -> Counter:
    """Messages and bytes of rank 0 in the second step, by the name of the call."""
    world, sums = world_of(ranks), [Counter(), Counter()]
    for steps, found in enumerate(sums, 1):
        world.run(function, steps=steps, **options)
        for call, sent in world.trace.by_collective(rank=0).items():
            found += {(call, ""): sent.messages, (call, "bytes"): sent.nbytes}
    return sums[1] - sums[0]


# %%
for name, reshard in WAYS.items():
    options = dict(reshard_after_forward=reshard)
    weights = world_of(4).run(stage_3_of_torch, **options)[0]
    counts = sent_in_a_step(4, stage_3_of_torch, **options)
    calls = {call: number // 3 for (call, what), number in counts.items() if not what}
    print(f"{name:5}: {calls}, {off(weights, one.state_dict()):.0e} off")
    assert list(calls.values()) == [gathers[name], scatters[name]]
    assert off(weights, one.state_dict()) < 1e-9

# %% [markdown]
# torch calls as many all-gathers as ours: ten, nine and five. The weights are those of one process. Are there equally
# many bytes? With `True` the formula says $3 \cdot \frac{N-1}{N}$ models.

# %%
sent_by, messages_by = {}, {}
print("ranks           all-gathers, bytes  reduce-scatters, bytes    in all")
for ranks in (4, 5):
    for name, run in {
        "ours": partial(train, stage=3),
        "torch's": stage_3_of_torch,
    }.items():
        counts = sent_in_a_step(ranks, run, reshard_after_forward=True)
        gather, gathered, scatter, scattered = counts.values()
        messages_by[ranks, name] = gather, scatter
        sent_by[ranks, name] = gathered + scattered
        each = f"{gather:11}, {gathered:7,}  {scatter:14}, {scattered:7,}"
        print(f"{ranks:5}  {name:7}  {each}   {gathered + scattered:7,}")
    formula = 3 * (ranks - 1) / ranks * numbers * 8
    print(f"{'':7}formula{'':47}{formula:7,.0f}")


# %% tags=["folded"]
# Checks of what is said below
def rows_padded(ranks: int) -> int:
    """Numbers of the model, where each tensor has a multiple of `ranks` rows."""
    return sum(
        -(-len(each) // ranks) * ranks * each[0].numel() for each in one.parameters()
    )


def made_by_torch(comm: Communicator) -> None:
    with torch_distributed(comm):
        shard_with_torch(Reader().double())


assert len(set(messages_by.values())) == 2  # one number for 4 ranks, and one for 5
assert sent_by[5, "ours"] == sent_by[5, "torch's"] == 3 * 4 * numbers * 8 // 5
assert sent_by[4, "torch's"] == 3 * 3 * rows_padded(4) * 8 // 4
assert sent_by[4, "ours"] - 3 * 3 * numbers * 8 // 4 == 3 * 3 * 2 * 4 * 8 // 4
world = world_of(4)
world.run(made_by_torch)
assert len(world.trace) == 0

# %% [markdown]
# torch sends as many messages as ours. On five ranks both send the formula's bytes exactly, because five divides the
# rows of every tensor. On four ranks torch sends 3.7 % more. It cuts each tensor by rows, and the messages of a
# collective must be equally long, so torch pads a tensor of 30 rows to 32. Ours pads once per unit, at the end of the
# flat buffer.
#
# When the model is wrapped, torch sends nothing, so `fully_shard` does not make the ranks' weights equal: they have to
# be equal before.
#
# Three more things that you will meet.
#
# - `MixedPrecisionPolicy(param_dtype=…, reduce_dtype=…)`, as the arguments of our classes. Shards, and so the
#   optimizer, stay in float32. If you give `param_dtype` alone, torch reduces the gradients in `param_dtype`, and
#   ours in the dtype of the model.
# - A *mesh* of two dimensions makes it hybrid: replicated along the first, sharded along the second.
# - `torch.distributed.checkpoint`, a checkpoint in shards. Each rank writes its own, and another number of ranks can
#   read them.


# %%
def hybrid_of_torch(comm: Communicator, steps: int = 10) -> dict[str, torch.Tensor]:
    with torch_distributed(comm):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))
        built = shard_with_torch(Reader().double(), mesh=mesh)
        torch_steps(comm, built, range(steps))
        return whole(built[0])


def mixed(comm: Communicator) -> list[torch.dtype]:
    """The dtype of outputs, of a shard, and of its gradient."""
    policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)
    with torch_distributed(comm, "gloo"):
        model, _ = shard_with_torch(Reader(), mp_policy=policy)
        output = model(images[:8])
        output.float().sum().backward()
        shard = next(model.parameters())
        return [output.dtype, shard.dtype, shard.grad.dtype]


weights = world_of(4).run(hybrid_of_torch)[0]
counts = sent_in_a_step(4, hybrid_of_torch)
messages = {call: number for (call, what), number in counts.items() if not what}
print(f"hybrid: {messages} messages, {off(weights, one.state_dict()):.0e} off")
assert off(weights, one.state_dict()) < 1e-9
dtypes = real.run(mixed, timeout=100)[0]
print("mixed:", dtypes)
assert dtypes == [torch.bfloat16, torch.float32, torch.float32]
assert messages["all_reduce"] == 5 * 2

# %% [markdown]
# The hybrid calls one more collective for each of the five units: an all-reduce that sums the gradients of a shard over
# the two copies. Each rank sends two messages in it.
#
# How does a run continue on another number of ranks? If there are two ranks, each has other rows than any rank of four
# had. So rank 0 saves whole tensors, and sends them to the other ranks when they are loaded, because the options say
# so. All ranks call the same functions, but only rank 0 hands in tensors. The other ranks hand in empty dicts.


# %%
SAVE = StateDictOptions(full_state_dict=True, cpu_offload=True)
LOAD = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def save_whole(comm: Communicator) -> tuple[dict, dict]:
    with torch_distributed(comm):
        built = shard_with_torch(Reader().double())
        torch_steps(comm, built, range(5))
        return get_state_dict(*built, options=SAVE)


def load_whole_and_go_on(
    comm: Communicator, weights: dict, states: dict
) -> dict[str, torch.Tensor]:
    with torch_distributed(comm):
        model, optimizer = built = shard_with_torch(Reader(seed=1).double())
        mine = (weights, states) if comm.rank == 0 else ({}, {})
        set_model_state_dict(model, mine[0], options=LOAD)
        set_optimizer_state_dict(model, optimizer, mine[1], options=LOAD)
        torch_steps(comm, built, range(5, 10))
        return whole(model)


saved = world_of(4).run(save_whole)
print("tensors of the model, by rank:", [len(weights) for weights, _ in saved])
resumed = world_of(2).run(load_whole_and_go_on, *saved[0])[0]
print(f"whole from 4, continued by 2: {off(resumed, one.state_dict()):.0e} off")
assert off(resumed, one.state_dict()) < 1e-9

# %% [markdown]
# **A run that four ranks have saved whole continues on two ranks, with the weights of a run without a break.** Here the
# training ends with the save. If it goes on, copy the state first, because some of its tensors are the optimizer's own,
# and the next step would change them: the count of steps, and on a single rank all tensors.
#
# A large model does not fit into the memory of rank 0. Then each rank writes its own shards:


# %%
def save(comm: Communicator, folder: str) -> None:
    with torch_distributed(comm, "gloo"):
        built = shard_with_torch(Reader().double())
        torch_steps(comm, built, range(5))
        model_state, optimizer_state = get_state_dict(*built)
        state = {"model": model_state, "optimizer": optimizer_state}
        dcp.save(state, checkpoint_id=folder)


def load_and_go_on(comm: Communicator, folder: str) -> dict[str, torch.Tensor]:
    with torch_distributed(comm, "gloo"):
        built = shard_with_torch(Reader(seed=1).double())  # other weights, so far
        model_state, optimizer_state = get_state_dict(*built)
        state = {"model": model_state, "optimizer": optimizer_state}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            *built,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        torch_steps(comm, built, range(5, 10))
        return whole(built[0])


with tempfile.TemporaryDirectory() as folder:
    real.run(save, folder, timeout=100)
    print(sorted(path.name for path in Path(folder).iterdir()))
    with World(2) as two:
        resumed = two.run(load_and_go_on, folder, timeout=100)[0]
print(f"saved by 4, continued by 2: {off(resumed, one.state_dict()):.0e} off")
assert off(resumed, one.state_dict()) < 1e-9
real.close()

# %% [markdown]
# Ours are `zero.save_shards` and `zero.load_shards`. Such a checkpoint needs a disk that all ranks see. Without one,
# save whole tensors.
#
# ## In short
#
# - Whoever gets the largest tensor keeps all of it: so ZeRO cuts a flat buffer.
# - With prefetching two units are whole at a time, however deep the model is.
# - Checkpointing recomputes activations: less memory, for up to a third more computing.
# - A process may keep the memory of freed tensors: count tensors, and look at the process.
# - Where links inside a node are faster, shard inside of it, if a node has the memory.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - torch's `ZeroRedundancyOptimizer` is a stage 1 of whole tensors: DDP all-reduces, then new weights are broadcast. So
#   it sends 3 units where stage 1 sends 2, and one rank keeps at least the states of the largest tensor.
# - On top of the shards come the units that are whole (two with prefetching, and the root's), gradients on their way,
#   and activations, which no stage shards.
# - Checkpointing makes activations smaller, for up to a third more computing; torch stops early, and in our blocks it
#   was a sixth.
# - A process does not always give back the memory of freed tensors. With glibc a process with `fully_shard` grew as
#   much as one with DDP, or more, until glibc's threshold was fixed. On other systems, look.
# - The border of $s/b$ tokens holds if there are many units, each large enough for latency not to count.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/11c_memory_deeper/11c_memory_deeper.ipynb) you shard gradients, write a module whose
# parameters are there only while they are used, and move a training run to another number of ranks.
#
# ## Further reading
#
# - T. Chen et al., [Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174), 2016. Activation
#   checkpointing.
# - Y. Zhao et al., [PyTorch FSDP: Experiences on Scaling Fully Sharded Data
#   Parallel](https://arxiv.org/abs/2304.11277), PVLDB 16(12), 2023. Units, prefetching, hybrid sharding, and the
#   allocator's part.
# - [mallopt(3)](https://man7.org/linux/man-pages/man3/mallopt.3.html), the manual page. `M_MMAP_THRESHOLD`, and how it
#   moves.
# - [torch.distributed.checkpoint](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html), torch's manual.
