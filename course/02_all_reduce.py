# %% [markdown]
# # All-reduce
#
# A model of a billion parameters has 4 GB of gradients, and in every training step all GPUs need their sum. If 64 GPUs
# send their gradients to a master over a link of 25 GB/s and get the sum back, a step waits for 20 seconds. A ring of
# the same 64 GPUs needs a third of a second.
#
# > After this lesson you will be able to
# >
# > - say what an all-reduce does, and why data-parallel training runs one in every step,
# > - count what it costs through a master, and find the bottleneck,
# > - follow a ring all-reduce step by step, and say how many bytes and rounds it takes,
# > - argue that no all-reduce can send fewer bytes, and say when a ring is still the wrong choice,
# > - tell a ring from something that only looks like one.
# >
# > **Time:** about 90 minutes. **You need:** [Start here](00_start_here.ipynb) and [Messages](01_messages.ipynb). No
# > GPU.

# %% tags=["folded"]
# The imports
import time
from fractions import Fraction

import torch
from torch import nn

from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    ReduceOp,
    SimulatedWorld,
    Trace,
    World,
    all_reduce,
)
from distlib.collectives import ring_all_reduce, ring_reduce_scatter
from distlib.draw import bytes_per_rank, play_chunks, predict, timeline, watch_chunks
from distlib.partition import chunk_lengths

world = World(4)
assert round(2 * 63 * 4 / 25) == 20 and 0.3 < 2 * 63 / 64 * 4 / 25 < 0.34  # seconds

# %% [markdown]
# ## The idea
#
# Every rank has a tensor, all of the same shape. Afterwards every rank has the sum of them all. That is an
# **all-reduce**. "Reduce", because many tensors become one. "All", because every rank gets it.
#
# Here rank 0 brings ones, rank 1 tens, rank 2 hundreds, rank 3 thousands. The digits of the result show whose numbers
# are in it.


# %%
def sum_of_all(comm: Communicator) -> torch.Tensor:
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0]) * 10**comm.rank
    all_reduce(comm, tensor)
    return tensor


for rank, tensor in enumerate(world.run(sum_of_all)):
    print(f"rank {rank}: {tensor.tolist()}")
    assert tensor.tolist() == [1111, 2222, 3333, 4444]

# %% [markdown]
# `all_reduce` works in place: it overwrites the tensor that it is given. It can also compute averages, products,
# minima and maxima.
#
# ### Why training needs it
#
# In data-parallel training each rank has a copy of the model and its own part of the batch. Each computes a gradient on
# its part. If the loss is the mean over the images, the model treats each image by itself, and the parts are equally
# large, the gradient of the whole batch is the average of these. So the ranks must combine their gradients before any
# of them changes a weight. This happens in every training step, with as many numbers as the model has parameters. At
# the end of this lesson you do it with a real model.
#
# So two questions matter, and you can answer both by counting: how many bytes must a rank move, and how many times
# must it wait for another one?
#
# ## Through a master
#
# The first idea of most people: everybody sends the tensor to rank 0. Rank 0 adds them up and sends the sum back.
#
#     rank 1 ──┐                 ┌──► rank 1
#     rank 2 ──┼──► rank 0 (+) ──┼──► rank 2
#     rank 3 ──┘                 └──► rank 3
#
# The library has it under the name "naive".

# %%
guess_1 = predict(
    "8 ranks. Of all bytes that are sent, what fraction does rank 0 send?",
    choices=["1/8", "1/7", "1/2", "7/8"],
)

# %%
MIB = 2**20


def sum_ones(comm: Communicator, length: int, algorithm: str) -> tuple[float, float]:
    """Sum `length` ones of every rank; the smallest and the largest number of the sum."""
    tensor = torch.ones(length)
    all_reduce(comm, tensor, algorithm=algorithm)
    return tensor.min().item(), tensor.max().item()


def run_and_trace(world_size: int, length: int, algorithm: str) -> Trace:
    """Run `sum_ones` on `world_size` ranks, check the sums, and return the trace."""
    with World(world_size) as ranks:
        results = ranks.run(sum_ones, length, algorithm)
        assert results == [(world_size, world_size)] * world_size
        return ranks.trace


master = run_and_trace(8, 24 * MIB // 4, "naive")
part = Fraction(master.bytes_sent[0], sum(master.bytes_sent))
print(guess_1.compare(str(part)))

# %% tags=["folded"]
# Checks of the numbers above
assert master.bytes_received[0] == master.bytes_sent[0] == 7 * 24 * MIB
assert master.bytes_received[1:] == master.bytes_sent[1:] == [24 * MIB] * 7
assert part == Fraction(1, 2)

# %%
bytes_per_rank(master, title="All-reduce of 24 MiB through a master, 8 ranks")

# %% [markdown]
# Here each rank has 24 MiB. Seven ranks send their tensor once and receive the sum once. Rank 0 receives seven tensors
# and sends seven, as many as all others together, and the others are idle most of the time. With $N$ ranks and tensors
# of $S$ bytes, rank 0 receives and sends $(N-1)\,S$. Let us see that in the traces, for 2 to 8 ranks.

# %%
LENGTH = 840  # divides by every number of ranks from 1 to 8
SIZE = LENGTH * 4  # bytes of a float32 tensor of that length

naive = {n: run_and_trace(n, LENGTH, "naive") for n in range(2, 9)}

print("ranks   rank 0 sends   rank 1 sends   rounds")
for n, trace in naive.items():
    shares = [sent / SIZE for sent in trace.bytes_sent]
    print(f"{n:5}   {shares[0]:10.2f} S   {shares[1]:10.2f} S   {trace.rounds:6}")
    assert trace.bytes_sent[0] == trace.bytes_received[0] == (n - 1) * SIZE
    assert trace.bytes_sent[1:] == trace.bytes_received[1:] == [SIZE] * (n - 1)
    assert trace.rounds == 2
    assert 2 * trace.bytes_sent[0] == sum(trace.bytes_sent)

# %% [markdown]
# What the master has to send grows with every rank that joins. With a thousand ranks, all gradients of a thousand ranks
# must pass through the network link of one. The more machines you buy, the longer the all-reduce takes.
#
# One thing looks good about it: the rounds. There are only two, in and out, however many ranks there are. Whether that
# makes it fast is a question for later. Keep your guess in mind.
#
# ## The ring
#
# The trouble is not that too much is sent. It is that one rank sends half of it. Can all ranks carry the same share?
#
# Put the ranks in a ring. Each rank sends only to the next, and receives only from the previous one.
#
#     rank 0 ──► rank 1
#       ▲           │
#       │           ▼
#     rank 3 ◄── rank 2
#
# Cut the tensor into as many **chunks** as there are ranks. In every step, every rank sends one chunk and receives
# another one at the same time: a step is one round. So the links of all ranks are busy in every step, and each carries
# only a small part.
#
# It goes around twice:
#
# 1. **Reduce-scatter.** Each chunk starts on one rank and travels along the ring. Every rank on its way adds its own
#    part. At the end of its way it is the full sum. Each chunk starts at a different rank, so each ends at a different
#    rank.
# 2. **All-gather.** Each full sum travels on along the ring. Now every rank on its way only keeps a copy.
#
# ### The first phase, with numbers
#
# Four ranks, four chunks of one number each. As before, rank 0 brings ones, rank 1 tens, rank 2 hundreds, rank 3
# thousands. Follow chunk 0, the first column.
#
# | | chunk 0 | chunk 1 | chunk 2 | chunk 3 |
# |---|---:|---:|---:|---:|
# | rank 0 | 1 | 2 | 3 | 4 |
# | rank 1 | 10 | 20 | 30 | 40 |
# | rank 2 | 100 | 200 | 300 | 400 |
# | rank 3 | 1000 | 2000 | 3000 | 4000 |
#
# It sets out from rank 1 as 10. Rank 2 adds 100 and passes on 110. Rank 3 adds 1000 and passes on 1110. Rank 0 adds 1
# and has the full sum: 1111. Three steps, and chunk 0 is complete on rank 0. All chunks do the same at the same time,
# each from its own starting point, so that no two of them need the same link in the same step.

# %%
guess_2 = predict(
    "Which chunk does rank 2 send in the first step?",
    choices=["chunk 0", "chunk 1", "chunk 2", "chunk 3"],
)

# %% [markdown]
# Now the same from a run. `watch_chunks` runs the library's ring on the ranks and records after each round whose
# contributions are in which chunk. These are the first three rounds.

# %%
history = watch_chunks(world, ring_all_reduce)
right_trace = world.trace


def value(step: int, rank: int, chunk: int) -> int:
    """The number that stands in this chunk, when rank r brings (chunk + 1)·10^r."""
    counts = history.cell(step, rank, chunk).counts
    return (chunk + 1) * sum(
        int(count) * 10**source for source, count in enumerate(counts)
    )


for step in range(4):
    print(f"after round {step}" if step else "at the start")
    for rank in range(4):
        values = "".join(f"{value(step, rank, chunk):>7}" for chunk in range(4))
        print(f"    rank {rank}: {values}")

first_of_rank_2 = next(message for message in history.messages if message.src == 2)
print(guess_2.compare(f"chunk {first_of_rank_2.chunks[0]}"))

# %% tags=["folded"]
# Checks of the numbers above
assert first_of_rank_2.chunks == (1,) and first_of_rank_2.round == 1
growing = [value(step, rank, 0) for step, rank in enumerate([1, 2, 3, 0])]
assert growing == [10, 110, 1110, 1111]
assert [value(3, rank, rank) for rank in range(4)] == [1111, 2222, 3333, 4444]
assert history.full_sums[:4] == [0, 0, 0, 4]

# %% [markdown]
# Chunk 0 set out from rank 1, one place after the rank where it has to end. So chunk 1 set out from rank 2, chunk 2
# from rank 3, and chunk 3 from rank 0. In each step four chunks move, one from each rank to the next. The picture
# shows all of them. Four small fields in a cell stand for the four ranks, and a field is filled when that rank's part
# is inside.
#
# Click into it and step with → and ←; space plays it, Home and End go to the start and the end. The buttons do the
# same. Point at a cell to read what it holds, and at an arrow to read what is sent.

# %%
first_phase = watch_chunks(world, ring_reduce_scatter)
assert first_phase.states == history.states[:4]
play_chunks(first_phase, title="Phase 1: reduce-scatter")

# %% [markdown]
# Follow chunk 0 again, the first column: in round 1 an arrow leaves rank 1, in round 2 rank 2, in round 3 rank 3.
# After three steps every rank has one chunk that is complete: rank 0 has chunk 0, rank 1 has chunk 1, and so on. The
# other cells hold partial sums, which are no longer needed.
#
# **Try it.** Let the ring have five ranks. How many steps does the first phase take now, and which rank completes
# chunk 4? Then let only rank 0 bring something: change `ring_reduce_scatter` to `only_rank_0` and play it. Is less
# sent?


# %%
def only_rank_0(comm: Communicator, tensor: torch.Tensor) -> None:
    tensor *= comm.rank == 0  # all other ranks bring zeros
    ring_reduce_scatter(comm, tensor)


with World(4) as ranks:  # how many?
    mine = watch_chunks(ranks, ring_reduce_scatter)
    sent = ranks.trace.bytes_sent
print(f"{len(mine.states) - 1} steps, full sums after each: {mine.full_sums}")
print("bytes sent by each rank:", sent)
play_chunks(mine)

# %% tags=["folded"]
# One way to do it
# And what follows
with World(5) as ranks:
    five = watch_chunks(ranks, ring_reduce_scatter)
    five_sent = ranks.trace.bytes_sent
    zeros = watch_chunks(ranks, only_rank_0)
    zeros_sent = ranks.trace.bytes_sent
print(f"{len(five.states) - 1} steps, full sums after each: {five.full_sums}")
print("rank 4 completes chunk 4:", five.cell(4, 4, 4).is_full)
print("only rank 0:", zeros.full_sums, "bytes sent:", five_sent, zeros_sent)
assert len(five.states) - 1 == 4 and five.cell(4, 4, 4).is_full
assert zeros.full_sums == [0] * 5 and zeros_sent == five_sent

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# With $N$ ranks it takes $N-1$ steps, and rank $r$ completes chunk $r$. With `only_rank_0` no cell is ever full, since
# the parts of the other ranks are missing. But the arrows and the bytes are the same: the ring does not know that it
# sends zeros.
#
# </details>
#
# ### The second phase
#
# The complete chunks go around once more. Nothing is added: a rank that receives a complete chunk overwrites its
# leftover with it. Here are both phases. The first three rounds you know; from round 4 on, look where a chunk is
# complete.

# %%
play_chunks(history, title="The ring: reduce-scatter, then all-gather")

# %% tags=["folded"]
# Checks
# Chunk 0 starts at rank 1, and each later step completes four more cells
senders = [message.src for message in history.messages if message.chunks == (0,)]
assert senders == [1, 2, 3, 0, 1, 2]
assert history.full_sums[3:] == [4, 8, 12, 16]

# %% [markdown]
# Three more steps, and everybody has everything. In each step, four more cells are complete.
#
# ### Count it
#
# Before you run the next cell, count: how many steps are there in both phases, and how large is one chunk?

# %%
guess_3 = predict(
    "A ring of 4 ranks, 24 MiB each. How much does each rank send in both phases?",
    unit="MiB",
)

# %%
ring = run_and_trace(4, 24 * MIB // 4, "ring")
print(guess_3.compare(ring.bytes_sent[0] / MIB))
print(ring.summary())

# %% tags=["folded"]
# Checks of the numbers above
assert ring.bytes_sent == ring.bytes_received == [36 * MIB] * 4
assert ring.rounds == 6

# %%
timeline(
    ring,
    by="round",
    title="A ring of 4 ranks: everybody sends and receives in every round",
)

# %% [markdown]
# Each phase has $N-1$ steps, and in each step every rank sends one chunk of $S/N$ bytes. That makes
#
# $$2\,\frac{N-1}{N}\,S \text{ bytes sent by each rank, in } 2\,(N-1) \text{ rounds.}$$
#
# Check both for every number of ranks from 1 to 8.

# %%
rings = {n: run_and_trace(n, LENGTH, "ring") for n in range(1, 9)}

print("ranks   each rank sends   rounds")
for n, trace in rings.items():
    share = Fraction(2 * (n - 1), n)
    print(f"{n:5}   {float(share):13.2f} S   {trace.rounds:6}")
    assert trace.bytes_sent == trace.bytes_received == [share * SIZE] * n
    assert trace.messages_sent == [2 * (n - 1)] * n
    assert trace.rounds == 2 * (n - 1)

# %% [markdown]
# What one rank sends grows from $S$ with 2 ranks towards $2S$, and never gets there. With a thousand ranks each still
# sends less than twice its tensor. The master would send it 999 times.

# %%
ranks = 1000
print(f"ring:   {2 * (ranks - 1) / ranks} S      master: {ranks - 1} S")
assert 2 * (ranks - 1) / ranks < 2

# %%
ring_of_8 = run_and_trace(8, 24 * MIB // 4, "ring")
assert ring_of_8.bytes_sent == [42 * MIB] * 8
bytes_per_rank(
    compare={"through a master": master, "ring": ring_of_8},
    title="All-reduce of 24 MiB, 8 ranks",
)

# %% [markdown]
# ### When the length does not divide
#
# Ten numbers do not make four equal chunks. Then the first chunks get one number more, as `torch.tensor_split` cuts
# them. The formula is then off by a few bytes. If you want the exact number, open the folded cell.

# %%
print(chunk_lengths(10, 4))
assert chunk_lengths(10, 4) == [3, 3, 2, 2]
assert [len(chunk) for chunk in torch.tensor_split(torch.zeros(10), 4)] == [3, 3, 2, 2]


# %% tags=["folded"]
# The exact number of bytes, for any length and any number of ranks
# In the first phase rank r sends every chunk except chunk r, which it completes.
# In the second phase it sends every chunk except the last one to arrive, chunk r + 1.
def exact_bytes(length: int, world_size: int) -> list[int]:
    """Bytes that each rank sends when a ring sums `length` float32 numbers."""
    sizes = [4 * chunk for chunk in chunk_lengths(length, world_size)]
    return [
        8 * length - sizes[r] - sizes[(r + 1) % world_size] for r in range(world_size)
    ]


for n, length in [(3, 10), (4, 10), (4, 1001), (5, 3), (7, 100)]:
    trace = run_and_trace(n, length, "ring")
    print(f"{n} ranks, {length:4} numbers: {trace.bytes_sent}")
    assert trace.bytes_sent == exact_bytes(length, n)
    assert trace.rounds == 2 * (n - 1)

# %% [markdown]
# ## Can any algorithm do better?
#
# Not in bytes. Here is why, for one single number of the tensor.
#
# Look at the moment when the first rank knows its full sum. Before that, each of the other $N-1$ ranks must have sent
# something that carried its own part, and it has arrived. After that, each of the other $N-1$ ranks must still receive
# something, because it does not know the sum yet.
#
# These are different messages: the first kind arrived before that moment, the second kind arrives later. So every
# number of the tensor is sent at least $2(N-1)$ times, and all ranks together send at least $2(N-1)\,S$ bytes. They
# cannot all be below the average. **In every all-reduce some rank sends at least $2\frac{N-1}{N}S$ bytes**, and some
# rank receives as many.
#
# The argument allows any order and any route. It assumes only that a number, or a partial sum, costs its full size to
# send, that each message goes to one rank, and that the network itself does not add. (Switches with NVIDIA's SHARP do
# add on the way.) The bound and the ring that reaches it are from Patarasuk and Yuan (2009).
#
# The master meets the same total, byte for byte. It only shares it badly.

# %%
for n in range(2, 9):
    least = 2 * (n - 1) * SIZE
    assert sum(naive[n].bytes_sent) == sum(rings[n].bytes_sent) == least
    assert max(rings[n].bytes_sent) == least / n
    busiest = max(naive[n].bytes_sent), max(rings[n].bytes_sent)
    print(f"{n} ranks send {least:6,} bytes together.", end=" ")
    print(f"Busiest rank: master {busiest[0]:6,}, ring {busiest[1]:5,}.")

# %% [markdown]
# ## What the ring costs
#
# Bytes are not everything. A message takes time even when it is almost empty: until it is handed to the network, until
# it has traveled, until the other side notices. A simple model has two numbers:
#
# - the **latency** $\alpha$: seconds that each message takes, however small it is,
# - the **bandwidth** $1/\beta$: bytes per second through the link of a rank, in each direction, so that $\beta$ is
#   seconds per byte.
#
# A message of $m$ bytes then takes $\alpha + m\,\beta$ seconds. Several messages can wait out their latency at the same
# time. But their bytes go through a link one after the other.
#
# In each of its $2(N-1)$ steps the ring sends one chunk. All ranks send at the same time, so a step takes as long as
# one message:
#
# $$T_\text{ring} = 2(N-1)\,\left(\alpha + \frac{S}{N}\,\beta\right)$$
#
# And the master? It has only two rounds. Take 64 ranks that sum up a single float32 number, on links of 20 µs and
# 10 GB/s. The ring needs 126 rounds for these four bytes.

# %%
guess_4 = predict(
    "64 ranks sum up one number. 126 rounds in the ring, 2 through a master. Which is faster?",
    choices=[
        "the master, about 60 times",
        "the master, about 2 times",
        "equally fast",
        "the ring",
    ],
)

# %% [markdown]
# We let both run, on 64 simulated ranks with these links, and look at the clock. A third one runs with them: the
# **tree** of lesson 01, up to rank 0 and down again. The tensors have a shape and no contents (torch's "meta" device),
# since here we only want to know the time.

# %%
RANKS, LATENCY, BANDWIDTH = 64, 20e-6, 10e9  # 20 µs, 10 GB/s
fast_links = SimulatedWorld(RANKS, Cluster.flat(RANKS, Link(LATENCY, BANDWIDTH)))


def without_contents(comm: Communicator, length: int, algorithm: str) -> None:
    all_reduce(comm, torch.empty(length, device="meta"), algorithm=algorithm)


def simulated_ms(size: int, algorithm: str) -> float:
    fast_links.run(without_contents, size // 4, algorithm)
    return fast_links.elapsed * 1e3


NAMES = ("ring", "naive", "tree")
SIZES = (4, 4_000, 100_000, 1_000_000, 100_000_000)
simulated = {(size, name): simulated_ms(size, name) for size in SIZES for name in NAMES}

print("      bytes    ring, ms   master, ms   tree, ms")
for size in SIZES:
    ring_ms, master_ms, tree_ms = (simulated[size, name] for name in NAMES)
    print(f"{size:11,} {ring_ms:11.2f} {master_ms:12.2f} {tree_ms:10.2f}")
print(guess_4.compare("equally fast"))

# %% [markdown]
# For one number the master is exactly as fast as the ring, although it has two rounds and the ring 126. A round of the
# master is long: rank 0 takes one message after the other, 63 in and 63 out. That makes 126 steps too, and each of them
# moves the whole tensor:
#
# $$T_\text{master} = 2(N-1)\,\left(\alpha + S\,\beta\right)$$
#
# The two formulas differ in one place only, $S/N$ or $S$. So on equal links this master never wins, whatever the
# size. Rounds count who had to wait for whom. They do not count how busy the busiest rank is. Time needs both.
#
# On unequal links it can win. Every step of the ring is as slow as its slowest link. The master uses a slow link only
# for the ranks that are far away. With 2 machines of 4 ranks, and links of 1 µs inside a machine, it is faster for one
# number. ([Lesson 03b](03b_networks.ipynb) has better algorithms for that case.)
#
# What beats the ring for small tensors, from 4 ranks on, is the tree: $2\lceil\log_2 N\rceil$ steps, here 12 instead of
# 126, each with the whole tensor. For one number it is ten times as fast. For large tensors it sends too much. So there
# is a size from which on the ring is faster, somewhere between two lines of the table. With 64 ranks and these links
# even the gradient of a small model is below it. The next lesson, [Trees](03_trees_and_grids.ipynb), finds
# the size.

# %% tags=["folded"]
# Checks
# Each formula against each run, and the sentences above
import math

for (size, name), ms in simulated.items():
    steps, bytes_in_step = {
        "ring": (2 * (RANKS - 1), size / RANKS),
        "naive": (2 * (RANKS - 1), size),
        "tree": (2 * math.log2(RANKS), size),
    }[name]
    formula = 1e3 * steps * (LATENCY + bytes_in_step / BANDWIDTH)
    # In the ring the chunks differ by one number where the length does not divide by 64.
    assert math.isclose(ms, formula, rel_tol=1e-3 if name == "ring" else 1e-9), (
        size,
        name,
    )
    if name == "naive":
        assert ms >= simulated[size, "ring"]
assert round(simulated[4, "ring"], 2) == round(simulated[4, "naive"], 2) == 2.52
for n in (3, 7, 12):  # also for other numbers of ranks, on other links
    for link in (Link(LATENCY, BANDWIDTH), Link(1e-3, 1e6)):
        seconds = {}
        for name in ("ring", "naive"):
            other = SimulatedWorld(n, Cluster.flat(n, link))
            other.run(without_contents, n * 1000, name)
            seconds[name] = other.elapsed
            in_a_step = 4000 if name == "ring" else 4000 * n
            formula = 2 * (n - 1) * (link.latency + in_a_step / link.bandwidth)
            assert math.isclose(other.elapsed, formula)
        assert seconds["naive"] > seconds["ring"]
machines = Cluster(2, 4, intra=Link(1e-6, BANDWIDTH), inter=Link(LATENCY, BANDWIDTH))
unequal = SimulatedWorld(8, machines)
unequal.run(without_contents, 1, "ring")
ring_seconds = unequal.elapsed
unequal.run(without_contents, 1, "naive")
assert unequal.elapsed < 0.7 * ring_seconds
assert 10 < simulated[4, "ring"] / simulated[4, "tree"] < 11
assert simulated[1_000_000, "tree"] < simulated[1_000_000, "ring"]
assert simulated[100_000_000, "tree"] > 5 * simulated[100_000_000, "ring"]

# %% [markdown]
# **Try it.** Can a cleverer master do better? This one calls `recv` 63 times, and waits each time. Let it ask for all
# messages at once, with `irecv`, and then wait for them. Then do the same with what it sends. How much does it save at
# each size, and where does that matter?


# %%
def my_master(comm: Communicator, length: int) -> None:
    whole = torch.empty(length, device="meta")
    if comm.rank > 0:
        comm.send(whole, 0)
        comm.recv(whole, 0)
        return
    for src in range(1, comm.world_size):
        comm.recv(torch.empty_like(whole), src)
    for dst in range(1, comm.world_size):
        comm.send(whole, dst)


for size in SIZES:
    fast_links.run(my_master, size // 4)
    print(f"{size:11,} bytes: {fast_links.elapsed * 1e3:8.2f} ms")

# %% tags=["folded"]
# One way to do it


def master_at_once(comm: Communicator, length: int) -> None:
    whole, others = torch.empty(length, device="meta"), range(1, comm.world_size)
    if comm.rank > 0:
        comm.send(whole, 0)
        comm.recv(whole, 0)
        return
    for work in [comm.irecv(torch.empty_like(whole), src) for src in others]:
        work.wait()
    for work in [comm.isend(whole, dst) for dst in others]:
        work.wait()


for size in SIZES:
    fast_links.run(master_at_once, size // 4)
    at_once = fast_links.elapsed
    print(f"{size:11,} bytes: {at_once * 1e3:8.2f} ms")
    assert math.isclose(at_once, 2 * LATENCY + 2 * (RANKS - 1) * size / BANDWIDTH)
fast_links.run(master_at_once, 1)
assert round(fast_links.elapsed * 1e3, 2) == 0.04
assert fast_links.elapsed * 1e3 < simulated[4, "tree"]
fast_links.run(master_at_once, 250_000)
assert round(fast_links.elapsed * 1e3, 1) == 12.6

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# All 63 messages then wait at the same time, and the latency counts once in each direction: $2\,\alpha +
# 2(N-1)\,S\,\beta$. That saves 124 latencies, or 2.48 ms, at every size. For one number it is nearly all: 0.04 ms are
# left, less than the tree needs. For 1 MB it is a sixth of the time, and 12.6 ms are left, since the bytes pass through
# one link as before.
#
# Do not trust the 0.04 ms too far. In this model all of $\alpha$ is waiting, and waiting costs nobody anything. On a
# real machine a part of it is work that the processor of rank 0 does for every single message (the LogP model of
# Culler and others calls it the overhead). That part adds up 63 times.
#
# </details>

# %% [markdown]
# ### On a real clock
#
# Now on real processes. Your computer has no network between its ranks. So we give it one: `World(4, network=…)` holds
# every message back for as long as that link would need. The processes, the tensors and the clock are real. Only the
# links are made slow: 10 ms and 20 MB/s, slow enough that the delays of the computer itself hardly matter. (If it is
# busy with something else, they do, most of all in the ring: each of its steps waits for all four ranks.)


# %%
def median_ms(comm: Communicator, length: int, algorithm: str, times: int) -> float:
    """The middle one of several all-reduces, in milliseconds."""
    tensor, seconds = torch.ones(length), []
    for _ in range(times):
        comm.barrier()
        start = time.perf_counter()
        all_reduce(comm, tensor, op=ReduceOp.MAX, algorithm=algorithm)  # ones stay ones
        seconds.append(time.perf_counter() - start)
    return 1e3 * sorted(seconds)[len(seconds) // 2]


SLOW_LINK = Link(latency=10e-3, bandwidth=20e6)
STEPS = {"ring": 6, "naive": 6, "tree": 4}  # on 4 ranks
LENGTHS = (1, 100_000, 500_000)


def formula_ms(length: int, name: str) -> float:
    in_a_step = 4 * length / (4 if name == "ring" else 1)
    return 1e3 * STEPS[name] * (SLOW_LINK.latency + in_a_step / SLOW_LINK.bandwidth)


with World(4, network=SLOW_LINK) as slow_links:
    for length in LENGTHS:
        print(f"{4 * length:9,} bytes:", end="")
        for name in NAMES:
            ms = max(slow_links.run(median_ms, length, name, 3))
            print(
                f"   {name} {ms:5.0f} ms (formula {formula_ms(length, name):3.0f})",
                end="",
            )
        print()

# %% [markdown]
# Compare each time with its formula. For one number ring and master are equally fast and the tree is faster. For 2 MB
# the ring is far ahead of both. You can read it off a clock now.
#
# ### As fast as this computer goes
#
# Without `network=`, messages go as fast as the computer moves them.

# %%
real = {
    (length, name): max(world.run(median_ms, length, name, 15))
    for length in (1, 10_000, 1_000_000)
    for name in NAMES
}
for length in (1, 10_000, 1_000_000):
    times = "   ".join(f"{name} {real[length, name]:7.2f} ms" for name in NAMES)
    print(f"{4 * length:9,} bytes:   {times}")

here = real[1_000_000, "naive"] / real[1_000_000, "ring"]
slow = formula_ms(1_000_000, "naive") / formula_ms(1_000_000, "ring")
print(f"At 4 MB the master takes {here:.1f} times as long as the ring here.")
print(f"On the slow links it would take {slow:.1f} times as long.")

# %% [markdown]
# The factor is not what the formula says, and it can be less than 1: then the master is faster. The formula asks for
# the busiest *link*, and here there is none. All four ranks share one memory and the same few cores. In total, ring
# and master move the same bytes, as you saw above. So the ring can gain only as much as your cores can work at the
# same time. And it sends 24 messages where the master sends 6. Each of them costs the processor some work, and the
# ring waits in each of its six steps until every rank has had its turn on a core. For one number this is all that
# counts.
#
# So a laptop without a network can't show you that a ring is fast. A network can, simulated, paced or real.

# %% tags=["folded"]
# Checks of the numbers above
assert round(slow, 1) == 3.5
world.run(sum_ones, 1_000_000, "naive")
assert len(world.trace.messages) == 6
world.run(sum_ones, 1_000_000, "ring")
assert len(world.trace.messages) == 24

# %% [markdown]
# ## Two mistakes
#
# ### Everybody sends first
#
# In the ring, every rank sends and receives in the same step. Suppose somebody writes that as a `send` followed by a
# `recv`.

# %%
guess_5 = predict(
    "Every rank sends to the next, then receives from the previous. What happens?",
    choices=["correct, in one round", "correct, but late", "a deadlock"],
)


# %%
def neighbors(comm: Communicator) -> tuple[int, int]:
    """The next and the previous rank on the ring."""
    return (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size


def one_step(comm: Communicator) -> torch.Tensor:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    comm.send(outgoing, next_rank)
    comm.recv(incoming, previous_rank)
    return incoming


try:
    world.run(one_step)
except DeadlockError as error:
    print(error)
    print(guess_5.compare("a deadlock"))

# %% [markdown]
# `send` returns when the other rank has taken the message. All four wait for that, around the whole ring, and no rank
# gets as far as `recv`.
#
# **Try it.** Break the circle: let *one* rank receive first. Is that enough? The ranks below are simulated, and each
# message takes one second, so that you see when each of them is done.


# %%
def one_step_at_last(comm: Communicator) -> float:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    if True:  # change this line
        comm.send(outgoing, next_rank)
        comm.recv(incoming, previous_rank)
    else:
        comm.recv(incoming, previous_rank)
        comm.send(outgoing, next_rank)
    return comm.time()


SLOW = Cluster.flat(8, Link(latency=1, bandwidth=1e9))
try:
    seconds = SimulatedWorld(8, SLOW).run(one_step_at_last)
    print("seconds until each rank is done:", [round(each) for each in seconds])
except DeadlockError as error:
    print(error)

# %% tags=["folded"]
# One way to do it
# `if comm.rank != 0:`, so that only rank 0 receives first


def only_rank_0_receives_first(comm: Communicator) -> float:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    if comm.rank != 0:
        comm.send(outgoing, next_rank)
        comm.recv(incoming, previous_rank)
    else:
        comm.recv(incoming, previous_rank)
        comm.send(outgoing, next_rank)
    return comm.time()


seconds = [
    round(each) for each in SimulatedWorld(8, SLOW).run(only_rank_0_receives_first)
]
print("seconds until each rank is done:", seconds)
assert max(seconds) == 8

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# It is enough, and it is slow: with 8 ranks, one step takes 8 seconds instead of 1. Rank 7 can only receive after rank
# 0 has taken its message, rank 6 after that, and so on, once around the ring.
#
# The ranks could take turns: even ranks send first, odd ranks receive first. But the odd ranks then wait for a message
# before they send their own, so one step takes 2 seconds (and 3 with an odd number of ranks, where two neighbors both
# send first). With `comm.exchange`, which sends and receives at once, it takes 1.
#
# </details>


# %%
def one_step_in_turns(comm: Communicator) -> tuple[float, float]:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    if comm.rank % 2 == 0:
        comm.send(outgoing, next_rank)
        comm.recv(incoming, previous_rank)
    else:
        comm.recv(incoming, previous_rank)
        comm.send(outgoing, next_rank)
    return comm.time(), incoming[0].item()


def one_step_at_once(comm: Communicator) -> tuple[float, float]:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    comm.exchange(outgoing, next_rank, incoming, previous_rank)
    return comm.time(), incoming[0].item()


for step_function, needed in [(one_step_in_turns, 2), (one_step_at_once, 1)]:
    results = SimulatedWorld(8, SLOW).run(step_function)
    slowest = max(round(seconds) for seconds, _ in results)
    print(f"{step_function.__name__}: {slowest} s")
    assert slowest == needed
    assert [received for _, received in results] == [7, 0, 1, 2, 3, 4, 5, 6]

# %% [markdown]
# ### Adding when you should copy
#
# Both phases look alike. In the first, a rank adds what it receives. In the second, it copies. Suppose somebody runs
# the first phase twice.

# %%
guess_6 = predict(
    "The first phase, twice, on 4 ranks. How many of the 16 chunks hold a full sum in the end?",
)


# %%
def wrong_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    ring_reduce_scatter(comm, tensor)
    ring_reduce_scatter(comm, tensor)  # this should be ring_all_gather


wrong = watch_chunks(world, wrong_all_reduce)
wrong_trace = world.trace
print("full sums after each round, right:", history.full_sums)
print("full sums after each round, wrong:", wrong.full_sums)
print(guess_6.compare(wrong.full_sums[-1]))
play_chunks(wrong, title="The first phase, twice")

# %% [markdown]
# Go through it with →. In the first three rounds everything is as it should be. From round 4 on, parts are counted
# twice and more, and there is a warning. "×2" in a field says how often that part is inside. Point at an arrow of
# round 4: it was sent by line 3 of the cell, the call that should be `ring_all_gather`. In the end no sum is correct,
# not even those that were complete half-way.
#
# There was no error and no deadlock. The messages are as many and as large as in a correct ring, in as many rounds.

# %% tags=["folded"]
# Checks of the sentences above
assert history.full_sums[-1] == 16 and wrong.full_sums[-1] == 0
assert {
    message.sent.site.line
    for message in wrong.messages
    if message.sent and message.round > 3
} == {3}
assert wrong_trace.messages_sent == right_trace.messages_sent
assert wrong_trace.bytes_sent == right_trace.bytes_sent
assert wrong_trace.rounds == right_trace.rounds == 6

# %% [markdown]
# ## Is it a ring?
#
# With the master it was the other way around: the sums are correct, and only the counts show the bottleneck. Here is
# one more function. It sends around a ring, every rank only talks to its neighbors, and it never deadlocks.


# %%
def is_it_a_ring(comm: Communicator, tensor: torch.Tensor) -> None:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = tensor.clone(), torch.empty_like(tensor)
    for _step in range(comm.world_size - 1):
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
        tensor += incoming
        outgoing, incoming = incoming, outgoing  # what has come is sent on


def try_it(comm: Communicator) -> torch.Tensor:
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0]) * 10**comm.rank
    is_it_a_ring(comm, tensor)
    return tensor


results = world.run(try_it)
print(
    results[0].tolist(),
    "on every rank:",
    all(torch.equal(results[0], each) for each in results),
)

# %%
guess_7 = predict(
    "The sums are correct on every rank. Is it a ring all-reduce?",
    choices=[
        "yes",
        "no: too many messages",
        "no: its messages are too large",
        "no: too many rounds",
    ],
)

# %% [markdown]
# Before you go on, take a minute. How many rounds does it need, and how many bytes does a rank send? Then ask the check
# of your exercise, which reads the messages too.

# %%
from distlib.exercises.all_reduce.checks import check_ring_all_reduce

try:
    check_ring_all_reduce(is_it_a_ring, world_sizes=(4,), lengths=(8,))
except AssertionError as error:
    print(error)
print(guess_7.compare("no: its messages are too large"))

# %% [markdown]
# It has even fewer rounds than a ring all-reduce: $N-1$. But every message is the whole tensor. Each rank sends
# $(N-1)\,S$, as much as the master does, and now *every* rank sends that much. The chunks are what makes a ring
# all-reduce fast.
#
# There is a second fault, and whole numbers hide it. Each rank adds in an order of its own, so with arbitrary floats
# three ranks or more don't agree to the last bit.

# %%
with World(8) as ranks:
    ranks.run(sum_ones, LENGTH, "ring")
    ring_bytes = ranks.trace.bytes_sent[0]
    ranks.run(lambda comm: is_it_a_ring(comm, torch.ones(LENGTH)))
    whole_bytes, whole_rounds = ranks.trace.bytes_sent[0], ranks.trace.rounds
print(f"8 ranks: each sends {whole_bytes / SIZE} S instead of {ring_bytes / SIZE} S")


def sum_of_floats(comm: Communicator) -> torch.Tensor:
    tensor = torch.randn(LENGTH)  # different on each rank
    is_it_a_ring(comm, tensor)
    return tensor


sums = world.run(sum_of_floats)
differ = (sums[0] != sums[1]).sum()
print(f"ranks 0 and 1 differ in {differ} of {LENGTH} sums")

# %% tags=["folded"]
# Checks of the numbers above
assert whole_bytes == 7 * SIZE and ring_bytes == 7 * SIZE // 4 and whole_rounds == 7
assert differ > 0 and torch.allclose(sums[0], sums[1], atol=1e-5)

# %% [markdown]
# This is not made up. A well-known tutorial and a well-known course have published rings of whole tensors. PyTorch's
# tutorial on distributed applications has one under "Our Own Ring-Allreduce". Until 2020 not even the sums were correct
# ([issue 31572](https://github.com/pytorch/pytorch/issues/31572)). The tutorial says itself that the chunks are
# missing, and leaves them as an exercise. ARENA's chapter on distributed training published a reference solution that
# sends the whole tensor $2(N-1)$ times ([pull request 407](https://github.com/callummcdougall/ARENA_3.0/pull/407)). The
# sums are complete after half of it, and correct. So a test that only looks at sums can't see it.
#
# So an algorithm must be checked for both, its values and its messages. Your exercise is checked in this way.
#
# **Try it.** When does the whole-tensor ring win? Its formula is $(N-1)(\alpha + S\beta)$. Compare it with the ring
# on the 64 fast links, for small and for large tensors.


# %%
def whole_without_contents(comm: Communicator, length: int) -> None:
    is_it_a_ring(comm, torch.empty(length, device="meta"))


for size in (4_000,):  # add sizes
    fast_links.run(whole_without_contents, size // 4)
    whole_ms, ring_ms = fast_links.elapsed * 1e3, simulated_ms(size, "ring")
    print(f"{size:11,} bytes: {whole_ms:.2f} ms, ring {ring_ms:.2f} ms")

# %% tags=["folded"]
# One way to do it
for size in (4, 4_000, 100_000, 200_000, 1_000_000):
    fast_links.run(whole_without_contents, size // 4)
    whole_ms, ring_ms = fast_links.elapsed * 1e3, simulated_ms(size, "ring")
    print(f"{size:11,} bytes: {whole_ms:.2f} ms, ring {ring_ms:.2f} ms")
    assert (whole_ms < ring_ms) == (size <= 200_000)
    assert math.isclose(whole_ms, 1e3 * (RANKS - 1) * (LATENCY + size / BANDWIDTH))

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# For small tensors it wins over the ring, by a factor of two, since it has half the steps. (The tree is better
# still.) With these links they meet a little above 200 kB. So it is not a bad algorithm everywhere. It is bad for
# what rings are used for.
#
# </details>
#
# ## The real thing: averaging gradients
#
# A small classifier for images of handwritten digits, 8 by 8 pixels. First the gradient of one batch of 256 images,
# computed here in the notebook.

# %%
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.data[:256] / 16, dtype=torch.float32)
labels = torch.tensor(digits.target[:256])

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def gradient(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """The gradient of the mean loss over these images, as one long vector."""
    loss = nn.functional.cross_entropy(model(images), labels)
    return torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]
    )


whole_batch = gradient(model, images, labels)
print(f"{whole_batch.numel():,} numbers")
assert whole_batch.numel() == 64 * 32 + 32 + 32 * 10 + 10

# %% [markdown]
# Now on four ranks. Each takes a quarter of the batch, 64 images, and computes the gradient of its own mean loss. Then
# one all-reduce.


# %%
def averaged_gradient(
    comm: Communicator, model: nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    my_images = images.tensor_split(comm.world_size)[comm.rank]
    my_labels = labels.tensor_split(comm.world_size)[comm.rank]
    mine = gradient(model, my_images, my_labels)
    average = mine.clone()
    all_reduce(comm, average, op=ReduceOp.AVG)
    return mine, average


results = world.run(averaged_gradient, model, images, labels)
for rank, (mine, average) in enumerate(results):
    alone, together = ((each - whole_batch).abs().max() for each in (mine, average))
    print(
        f"rank {rank}: its own gradient is off by {alone:.4f}, the average by {together:.1e}"
    )
    assert not torch.allclose(mine, whole_batch, atol=1e-3)
    assert torch.allclose(average, whole_batch, rtol=1e-5, atol=1e-7)
    assert torch.equal(average, results[0][1])

# %% tags=["folded"]
# Checks of the conditions that are named below
# Batch norm mixes the images; weights of classes make some images count more
torch.manual_seed(0)
mixing = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, 10))
average = world.run(averaged_gradient, mixing, images, labels)[0][1]
assert not torch.allclose(average, gradient(mixing, images, labels), atol=1e-2)

weights = torch.ones(10)
weights[3] = 10


def weighted(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    loss = nn.functional.cross_entropy(model(images), labels, weight=weights)
    return torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]
    )


of_parts = [
    weighted(model, *part)
    for part in zip(images.tensor_split(4), labels.tensor_split(4), strict=True)
]
mean_of_parts = sum(of_parts) / 4
assert not torch.allclose(mean_of_parts, weighted(model, images, labels), atol=1e-3)

# %% [markdown]
# The average of the four is the gradient of the whole batch, up to rounding: we allowed a relative error of 10⁻⁵ and
# an absolute one of 10⁻⁷. It need not be equal to the last bit, because float32 numbers were added in a different
# order.
#
# The four ranks do agree with one another to the last bit. Each chunk was summed up on one rank only, and the others
# have copies. That is worth having. No rank's model can drift away from the others, and whether all are still the same
# is a plain comparison.
#
# Conditions hide in "the average". Every rank had equally many images: [lesson 06](06_large_batches.ipynb) shows what
# goes wrong when they don't. Each image counts the same in the mean: weights of classes would change that. And no layer
# mixes the images of a batch: batch norm would ([lesson 04](04_data_parallel.ipynb)).
#
# ## In real frameworks
#
# In `torch.distributed` the operation has the same name. We run it on the same four ranks and compare, first with
# whole numbers, where every order of adding gives the same sum, then with arbitrary ones.

# %%
import torch.distributed as dist

from distlib import torch_distributed


def both(comm: Communicator, whole_numbers: bool) -> tuple[torch.Tensor, torch.Tensor]:
    tensor = (
        torch.randint(-99, 100, (1001,)).float() if whole_numbers else torch.randn(1001)
    )
    ours, theirs = tensor.clone(), tensor.clone()
    all_reduce(comm, ours)
    with torch_distributed(comm, "gloo"):
        dist.all_reduce(theirs)
    return ours, theirs


assert all(torch.equal(ours, theirs) for ours, theirs in world.run(both, True))
assert all(
    torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    for ours, theirs in world.run(both, False)
)
print("Ours and torch's agree.")

# %% [markdown]
# What runs underneath `dist.all_reduce`?
#
# - **gloo**, the backend for CPUs, uses a ring unless told otherwise, and torch does not tell it
#   ([gloo/allreduce.cc](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc)). Its ring runs the other way
#   around, from rank $r$ to rank $r-1$, and each chunk is cut into smaller segments, so that adding one overlaps with
#   receiving the next.
# - **NCCL**, the backend for NVIDIA GPUs, has rings, trees and more. Unless told otherwise it chooses by itself, from
#   how the machines are connected
#   ([NCCL_ALGO](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo)) and from an estimate of
#   the time for the size at hand ([a maintainer's answer](https://github.com/NVIDIA/nccl/issues/457)). Its benchmarks
#   contain the number of this lesson: the "bus bandwidth" that they report for an all-reduce is $S/T$ times $2(N-1)/N$
#   ([nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)).
# - **DistributedDataParallel** calls it for you while the backward pass is still running. In lesson 05 you build that.

# %%
world.close()

# %% tags=["folded"]
# A check of what follows about unequal links
# Four ranks, and the link from rank 0 to rank 1 is ten times as slow
FAST, SLOW = Link(latency=1e-5, bandwidth=1e9), Link(latency=1e-4, bandwidth=1e8)


class OneSlowLink(Cluster):
    def link(self, src: int, dst: int) -> Link:
        return SLOW if (src, dst) == (0, 1) else FAST

    def uniform_link(self) -> None:
        """There is no link that stands for all."""


def ring_of_a_mebibyte(comm: Communicator) -> None:
    all_reduce(comm, torch.empty(1 << 18, device="meta"), algorithm="ring")


ring_seconds = []
for cluster in (Cluster.flat(4, FAST), OneSlowLink.flat(4, FAST)):
    ranks = SimulatedWorld(4, cluster)
    ranks.run(ring_of_a_mebibyte)
    ring_seconds.append(ranks.elapsed)
assert 9.9 < ring_seconds[1] / ring_seconds[0] < 10.1

# %% [markdown]
# ## In short
#
# - In a ring all-reduce each rank sends less than two tensors, however many ranks there are.
# - Among ranks alone, no all-reduce gets by with fewer bytes on its busiest rank.
# - A master's link carries N − 1 tensors in and N − 1 tensors out.
# - A "ring" of whole tensors gets the sum right and sends N/2 times as much. Count the bytes.
# - For small tensors the latencies decide, and a ring pays 2(N − 1) of them.
#
# | with $N$ ranks and $S$ bytes | busiest rank sends | rounds | time |
# |---|---|---|---|
# | through a master | $(N-1)\,S$ | 2 | $2(N-1)\,(\alpha + S\beta)$ |
# | ring | $2\frac{N-1}{N}\,S$ | $2(N-1)$ | $2(N-1)\,(\alpha + \frac{S}{N}\beta)$ |
# | whole tensors around a ring | $(N-1)\,S$ | $N-1$ | $(N-1)\,(\alpha + S\beta)$ |
# | lower bound | $2\frac{N-1}{N}\,S$ | | |
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - The counts hold on any network. (Those of the ring are exact where $N$ divides the number of elements.) The times
#   hold where all links are alike, nobody else uses them, all ranks start at the same time, and the master handles one
#   message at a time. In a ring every step waits for the slowest link: let one have ten times the latency and a tenth
#   of the bandwidth, and the all-reduce takes ten times as long.
# - The bound is about bytes. For small tensors the latencies decide. A ring pays $2(N-1)$ of them, as this master does.
#   A tree pays as many with 2 or 3 ranks, and far fewer with many (lesson 03).
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/02_all_reduce/02_all_reduce.ipynb) you write all four parts yourself: the all-reduce
# through a master, the two phases of the ring, and the ring. You play your own ring there, as you played the
# library's here. A wrong one can be played, too: you see in which round it goes wrong. After that comes
# [Trees](03_trees_and_grids.ipynb): what to do when there are many ranks, or when links are not equal.
#
# ## Further reading
#
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of
#   workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), Journal of Parallel and Distributed Computing
#   69(2), 2009. The lower bound, and the ring that meets it.
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. When to use which algorithm, with the same α–β model.
# - A. Gibiansky, [Bringing HPC Techniques to Deep
#   Learning](https://andrew.gibiansky.com/blog/machine-learning/baidu-allreduce/), 2017. The article that made the
#   ring known in deep learning.
# - A. Sergeev, M. Del Balso, [Horovod: fast and easy distributed deep learning in
#   TensorFlow](https://arxiv.org/abs/1802.05799), 2018. The ring as a library.
# - D. Culler and others, [LogP: towards a realistic model of parallel
#   computation](https://doi.org/10.1145/155332.155333), PPoPP 1993. Tells the time that a message is under way from the
#   time that it costs a processor.
# - NVIDIA, [NCCL user guide](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html).
