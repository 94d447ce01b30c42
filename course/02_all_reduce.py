# %% [markdown]
# # All-reduce
#
# A model of a billion parameters has 4 GB of gradients in float32, and in every training step 64 GPUs need the sum of
# all their gradients. If one GPU first collects all gradients and then sends the sum back, over links of 25 GB/s, this
# takes 20 seconds. If the GPUs pass pieces around a ring instead, over the same links, it takes a third of a second.
#
# > After this lesson you will be able to
# >
# > - say what an all-reduce does, and why data-parallel training needs one in every step,
# > - find the bottleneck of an all-reduce by counting bytes,
# > - follow a ring step by step, and say how many bytes it sends in how many rounds,
# > - argue that no other route needs fewer bytes, and say when a ring is slow all the same,
# > - tell a ring from an imitation.
# >
# > **Time:** about 50 minutes. **You need:** [Start here](00_start_here.ipynb) and [Messages](01_messages.ipynb). No
# > GPU.

# %% tags=["folded"]
# The imports
import math
from fractions import Fraction

import torch
import torch.distributed as dist
from torch import nn

from distlib import (
    Cluster,
    Communicator,
    Link,
    ReduceOp,
    SimulatedWorld,
    Trace,
    World,
    all_reduce,
    reduce,
    ring_all_reduce,
    ring_reduce_scatter,
    torch_distributed,
)
from distlib.draw import (
    before_and_after,
    bytes_per_rank,
    play_chunks,
    predict,
    sweep,
    watch_chunks,
    who_sends,
)

world = World(4)
MIB = 2**20
assert round(2 * 63 * 4 / 25) == 20 and 0.3 < 2 * 63 / 64 * 4 / 25 < 0.34  # seconds

# %% [markdown]
# ## One sum, on every rank
#
# In lesson 01, a reduce added up one tensor from each rank, and the root got the sum. In an **all-reduce**, every rank
# gets the sum. Here the ranks bring 1, 10, 100 and 1000, so that the digits of a sum show whose numbers are in it.


# %%
def sum_on_every_rank(comm: Communicator) -> tuple[list[float], list[float]]:
    tensor = torch.tensor([10.0**comm.rank])
    before = tensor.tolist()
    all_reduce(comm, tensor)  # in place: it overwrites the tensor
    return before, tensor.tolist()


# %% tags=["folded"]
# The same with a reduce, and the picture of both
def sum_on_the_root(comm: Communicator) -> tuple[list[float], list[float]]:
    tensor = torch.tensor([10.0**comm.rank])
    before = tensor.tolist()
    reduce(comm, tensor)
    return before, tensor.tolist() if comm.rank == 0 else []


panels = {}
for name, function in (("reduce", sum_on_the_root), ("all-reduce", sum_on_every_rank)):
    before, after = zip(*world.run(function), strict=True)
    panels[name] = before, after
assert panels["reduce"][1] == ([1111], [], [], [])
assert panels["all-reduce"] == (([1], [10], [100], [1000]), ([1111],) * 4)
before_and_after(panels, title="The sum on one rank, and the sum on every rank")

# %% [markdown]
# **An all-reduce gives every rank the sum of all tensors.** Other operations are possible, such as the average.
#
# Plain data-parallel training runs at least one all-reduce in every step. Each rank has a copy of the model and its own
# part of the batch, and computes a gradient on this part. Before any rank changes a weight, the ranks average their
# gradients. A gradient has a number for each parameter that is trained. At the end of this lesson you average real
# gradients.
#
# Because training waits for it so often, an all-reduce has to be fast. Two things can make it slow: the bytes that the
# busiest rank sends and receives, and the messages that have to go one after the other.
#
# ## Through a master
#
# The first idea of most people is a **master**: every rank sends its tensor to rank 0, which adds up the tensors and
# sends the sum back. The library calls this all-reduce "naive".

# %%
guess_1 = predict(
    "8 ranks. Of all bytes that are sent, what fraction does rank 0 send?",
    choices=["1/8", "1/7", "1/2", "7/8"],
)


# %%
def sum_ones(comm: Communicator, nbytes: int, algorithm: str) -> bool:
    tensor = torch.ones(nbytes // 4)
    all_reduce(comm, tensor, algorithm=algorithm)
    return bool((tensor == comm.world_size).all())


def trace_of(algorithm: str, ranks: int, nbytes: int = 24 * MIB) -> Trace:
    """All messages of an all-reduce in which each rank has a tensor of `nbytes`."""
    with World(ranks) as some_ranks:
        assert all(some_ranks.run(sum_ones, nbytes, algorithm))
        return some_ranks.trace


master = trace_of("naive", ranks=8)
part = Fraction(master.bytes_sent[0], sum(master.bytes_sent))
print(guess_1.compare(str(part)))

# %%
who_sends({"through a master": master}, title="All-reduce of 24 MiB, 8 ranks")

# %% tags=["folded"]
# Checks of the numbers above
assert part == Fraction(1, 2)
assert master.bytes_received[0] == master.bytes_sent[0] == 7 * 24 * MIB
assert master.bytes_received[1:] == master.bytes_sent[1:] == [24 * MIB] * 7
for ranks in (2, 5):
    small = trace_of("naive", ranks, nbytes=840)
    assert 2 * small.bytes_sent[0] == sum(small.bytes_sent) == 2 * (ranks - 1) * 840
    assert small.rounds == 2

# %% [markdown]
# Seven ranks send one tensor each, and rank 0 sends one tensor to each of the seven. With $N$ ranks, $N-1$ tensors come
# in through the master's link, and $N-1$ tensors go out.
#
# **The master sends as much as all other ranks together.**
#
# So the more GPUs you rent, the longer the all-reduce takes. One thing looks good: there are only two rounds, in and
# out, with any number of ranks. Whether this makes it fast is a question for later.
#
# ## The ring
#
# The trouble is not that the ranks send too much, but that one rank sends half of everything. Can all ranks carry the
# same share?
#
# Put the ranks in a ring, in which each rank sends only to the next rank and receives only from the previous rank. Each
# rank does both at the same time, with `exchange`, because ranks that all send first would wait in a circle.


# %%
def neighbors(comm: Communicator) -> tuple[int, int]:
    """The next and the previous rank on the ring."""
    return (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size


def one_step(comm: Communicator) -> float:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = torch.tensor([10.0**comm.rank]), torch.zeros(1)
    comm.exchange(outgoing, next_rank, incoming, previous_rank)
    return incoming.item()


assert world.run(one_step) == [1000, 1, 10, 100]
who_sends({"each to the next": world.trace}, title="One step of a ring")

# %% [markdown]
# Now cut each tensor into as many **chunks** as there are ranks. In each step, every rank sends one chunk and receives
# another chunk, so that every rank sends all the time. The chunks travel in two phases:
#
# 1. **Reduce-scatter.** Each chunk starts on one rank, and every rank that the chunk visits adds its own numbers. The
#    last rank on the way has the full sum of this chunk.
# 2. **All-gather.** The full sums go around the ring, and every rank on the way keeps a copy.
#
# The library has the two phases as `ring_reduce_scatter` and `ring_all_gather`.
#
# ### The first phase, with numbers
#
# As before, the place of a digit shows the rank. The digit itself now shows the chunk: it is 1 in chunk 0, 2 in chunk
# 1, and so on. Each chunk has a single number.
#
# | | chunk 0 | chunk 1 | chunk 2 | chunk 3 |
# |---|---:|---:|---:|---:|
# | rank 0 | 1 | 2 | 3 | 4 |
# | rank 1 | 10 | 20 | 30 | 40 |
# | rank 2 | 100 | 200 | 300 | 400 |
# | rank 3 | 1000 | 2000 | 3000 | 4000 |
#
# Follow chunk 0, the first column. It starts on rank 1 as 10. Rank 2 adds 100 and sends 110 on. Rank 3 adds 1000 and
# sends 1110 on. Rank 0 adds 1 and has the full sum, 1111. The other chunks travel at the same time: chunk 1 ends on
# rank 1, chunk 2 on rank 2, and chunk 3 on rank 3.

# %%
guess_2 = predict(
    "Which chunk does rank 2 send in the first step?",
    choices=["chunk 0", "chunk 1", "chunk 2", "chunk 3"],
)

# %% [markdown]
# `watch_chunks` runs the library's ring on our four ranks, and notes whose numbers are in which chunk after each step.

# %% tags=["folded"]
# Prints the numbers in all chunks
from distlib.draw import ChunkHistory


def number_in(history: ChunkHistory, step: int, rank: int, chunk: int) -> int:
    """The number in this chunk, when rank r brings (chunk + 1)·10^r."""
    counts = history.cell(step, rank, chunk).counts
    parts = (int(count) * 10**source for source, count in enumerate(counts))
    return (chunk + 1) * sum(parts)


def print_numbers(history: ChunkHistory) -> None:
    for step in range(len(history.states)):
        print(f"after step {step}" if step else "at the start")
        for rank in range(4):
            row = (number_in(history, step, rank, chunk) for chunk in range(4))
            print(f"    rank {rank}: " + "".join(f"{number:>7}" for number in row))


# %%
first_phase = watch_chunks(world, ring_reduce_scatter)
print_numbers(first_phase)
(first_of_rank_2,) = (m for m in first_phase.messages if (m.src, m.round) == (2, 1))
print(guess_2.compare(f"chunk {first_of_rank_2.chunks[0]}"))

# %% [markdown]
# Chunk 1 has to end on rank 1, so it starts on rank 2 and visits rank 1 last. Here is the same run as a
# picture. A cell is a chunk on a rank. It has a small field for each of the four ranks, and a field is filled when the
# numbers of this rank are in the chunk. Press **Play**, or click into the picture and step with → and ←.

# %%
play_chunks(first_phase, title="Phase 1: reduce-scatter")

# %% tags=["folded"]
# Checks of the numbers above
assert first_of_rank_2.chunks == (1,)
growing = [
    number_in(first_phase, step, rank, 0) for step, rank in enumerate([1, 2, 3, 0])
]
assert growing == [10, 110, 1110, 1111]
ends = [number_in(first_phase, 3, rank, rank) for rank in range(4)]
assert ends == [1111, 2222, 3333, 4444] and first_phase.full_sums == [0, 0, 0, 4]

# %% [markdown]
# After three steps every rank has the full sum of one chunk: rank $r$ has chunk $r$. The other cells hold numbers that
# nobody needs any more.
#
# **Try it.** Give the ring five ranks. How many steps does the first phase take now, and which rank gets the full sum
# of chunk 4?

# %%
with World(4) as ranks:  # how many?
    mine = watch_chunks(ranks, ring_reduce_scatter)
print(f"{len(mine.states) - 1} steps; full sums after each step: {mine.full_sums[1:]}")
play_chunks(mine)

# %% tags=["folded"]
# One way to do it
with World(5) as ranks:
    five = watch_chunks(ranks, ring_reduce_scatter)
print(f"{len(five.states) - 1} steps; full sums after each step: {five.full_sums[1:]}")
print("Rank 4 has the full sum of chunk 4:", five.cell(4, 4, 4).is_full)
assert len(five.states) - 1 == 4 and five.cell(4, 4, 4).is_full

# %% [markdown]
# ### The second phase
#
# Now the full sums go around the ring, and each rank overwrites its other chunks with them. Here are both phases:

# %%
history = watch_chunks(world, ring_all_reduce)
right_trace = world.trace
play_chunks(history, title="The ring: reduce-scatter, then all-gather")

# %% tags=["folded"]
# Checks
# Chunk 0 starts at rank 1, and each step of the second phase completes four more cells
senders = [message.src for message in history.messages if message.chunks == (0,)]
assert senders == [1, 2, 3, 0, 1, 2]
assert history.states[:4] == first_phase.states
assert history.full_sums == [0, 0, 0, 4, 8, 12, 16]

# %% [markdown]
# After three more steps, every rank has all four sums.
#
# **The first phase adds. The second phase copies.**
#
# **Try it.** Somebody confuses the two phases, and runs the first one twice. Add a line that does so. How many of the
# 16 cells hold a full sum at the end? Guess, then play it.


# %%
def adds_twice(comm: Communicator, tensor: torch.Tensor) -> None:
    ring_reduce_scatter(comm, tensor)
    # and once more


play_chunks(watch_chunks(world, adds_twice), title="The first phase, twice")


# %% tags=["folded"]
# One way to do it
def added_twice(comm: Communicator, tensor: torch.Tensor) -> None:
    ring_reduce_scatter(comm, tensor)
    ring_reduce_scatter(comm, tensor)


wrong = watch_chunks(world, added_twice)
print(
    "full sums after each step:",
    wrong.full_sums[1:],
    "instead of",
    history.full_sums[1:],
)
assert wrong.full_sums[-1] == 0
assert world.trace.messages_sent == right_trace.messages_sent
assert world.trace.bytes_sent == right_trace.bytes_sent
assert world.trace.rounds == right_trace.rounds == 6
play_chunks(wrong, title="The first phase, twice")

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# None. From step 4 on, numbers are added that are already in the chunk: "×2", "×3" or "×4" in a field says how often
# the numbers of this rank were added. Even the four sums that were full after step 3 are spoiled. There is no error and
# no deadlock, and the run sends as many messages of the same size as a correct ring. Only the values are wrong.
#
# </details>
#
# ## Count it
#
# To say what a rank sends, count the steps of both phases, and think of the size of a chunk.

# %%
guess_3 = predict(
    "A ring of 4 ranks, 24 MiB each. How much does each rank send in both phases?",
    unit="MiB",
)

# %%
ring = trace_of("ring", ranks=4)
print(guess_3.compare(ring.bytes_sent[0] / MIB))
print(f"{ring.rounds} rounds")

# %% tags=["folded"]
# Checks of the numbers above and below
assert ring.bytes_sent == ring.bytes_received == [36 * MIB] * 4 and ring.rounds == 6
for ranks in (1, 3, 8):
    small = trace_of("ring", ranks, nbytes=840 * 4)
    assert small.bytes_sent == [2 * (ranks - 1) * 840 * 4 // ranks] * ranks
    assert small.rounds == 2 * (ranks - 1)

# %% [markdown]
# Each phase has $N-1$ steps, and in each step every rank sends a chunk. Equal chunks of a tensor of $S$ bytes have
# $S/N$ bytes each. That makes
#
# $$2\,\frac{N-1}{N}\,S \text{ bytes from each rank, in } 2\,(N-1) \text{ rounds.}$$
#
# Now let the number of ranks grow. The ranks are simulated, and their tensors have a shape but no numbers (torch's
# "meta" device), because only the counts matter.


# %%
def without_numbers(comm: Communicator, nbytes: int, algorithm: str) -> None:
    all_reduce(comm, torch.empty(nbytes // 4, device="meta"), algorithm=algorithm)


sent = {"through a master": {}, "in a ring": {}}  # by the busiest rank, in tensors
for ranks in (2, 4, 8, 16, 32, 64):
    simulated = SimulatedWorld(ranks)
    for name, algorithm in zip(sent, ("naive", "ring"), strict=True):
        simulated.run(without_numbers, MIB, algorithm)
        sent[name][ranks] = max(simulated.trace.bytes_sent) / MIB
sweep(sent, along="ranks", title="How many tensors the busiest rank sends")

# %% tags=["folded"]
# Checks of the numbers above and below
assert sent["through a master"] == {ranks: ranks - 1 for ranks in (2, 4, 8, 16, 32, 64)}
assert all(1 <= tensors < 2 for tensors in sent["in a ring"].values())

# %% [markdown]
# The master's line keeps rising, while the ring's line stays below 2.
#
# **In a ring, no rank sends more than two tensors, however many ranks there are.**
#
# <details><summary>When the length does not divide</summary>
#
# Ten numbers do not make four equal chunks. Then some chunks have one number more than others, and the formula is off
# by a few bytes. [Lesson 02b](02b_rings_closer.ipynb) has the exact count.
#
# </details>
#
# ## Can any algorithm do better?
#
# Not in bytes, on a network that only carries full-size numbers, and does not add or copy them. Here is why, for a
# single number of the tensor.
#
# Look at the first moment at which any rank knows the full sum. If two messages arrive together, count either one as
# the earlier.
#
# - **By this moment,** each of the other $N-1$ ranks has sent a message that has arrived somewhere, because its number
#   is in the sum.
# - **After this moment,** a message still has to arrive at each of the other $N-1$ ranks, because they do not know the
#   sum yet.
#
# No message is counted twice, because a message arrives either by this moment or after it. So for every place in the
# tensor, at least $2(N-1)$ numbers are sent, and the ranks together send at least $2(N-1)\,S$ bytes. Some rank sends at
# least the average, which is this total divided by $N$.
#
# **On a network that only carries full-size numbers, some rank sends at least $2\frac{N-1}{N}S$ bytes.**
#
# A ring of equal chunks meets this bound. An all-reduce through a master sends the same total, byte for byte, but
# shares it badly:

# %%
ring_of_8 = trace_of("ring", ranks=8)
bytes_per_rank(
    compare={"through a master": master, "ring": ring_of_8},
    title="All-reduce of 24 MiB, 8 ranks",
)

# %% tags=["folded"]
# Checks of the numbers above
assert sum(master.bytes_sent) == sum(ring_of_8.bytes_sent) == 2 * 7 * 24 * MIB
assert max(ring_of_8.bytes_sent) == 2 * 7 * 24 * MIB / 8

# %% [markdown]
# <details><summary>What the argument assumes</summary>
#
# The messages may go in any order and along any route. But the argument assumes that numbers travel at their full size,
# and that the network only carries messages.
#
# | if … | then … |
# |---|---|
# | numbers are rounded or compressed, or zeros are left out | a number costs fewer bytes |
# | the network adds or copies, as some NVIDIA switches do (SHARP) | fewer messages are needed |
# | the length does not divide by N | a ring may send a few bytes more than the bound |
#
# </details>
#
# ## One number on 64 ranks
#
# Bytes are not everything. Each message also takes a **latency** $\alpha$, however small the message is, and then
# $\beta$ seconds for each of its bytes. In a step of the ring all ranks send at the same time, so a step takes as long
# as one message:
#
# $$T_\text{ring} = 2(N-1)\,\left(\alpha + \frac{S}{N}\,\beta\right)$$
#
# Now 64 ranks add up a single number, on links with 20 µs of latency. The ring needs 126 rounds, although all chunks
# except one are empty, and the master needs two.

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
# We run both, and a third all-reduce for comparison: the **tree** of lesson 01, as a reduce to rank 0 and a broadcast
# back.

# %%
RANKS, LINK = 64, Link(latency=20e-6, bandwidth=10e9)
fast_links = SimulatedWorld(RANKS, Cluster.flat(RANKS, LINK))


def milliseconds(nbytes: int, algorithm: str) -> float:
    fast_links.run(without_numbers, nbytes, algorithm)
    return fast_links.elapsed * 1e3


NAMES = {"through a master": "naive", "ring": "ring", "tree": "tree"}
SIZES = (4, 4_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
took = {
    name: {size: milliseconds(size, NAMES[name]) for size in SIZES} for name in NAMES
}
for name, by_size in took.items():
    print(f"one number, {name}: {by_size[4]:.2f} ms")
print(guess_4.compare("equally fast"))
sweep(took, along="bytes", title="An all-reduce on 64 ranks", subtitle="milliseconds")

# %% tags=["folded"]
# Checks of the numbers above and below
for name, by_size in took.items():
    steps = 2 * math.log2(RANKS) if name == "tree" else 2 * (RANKS - 1)
    for size, ms in by_size.items():
        in_a_step = size / RANKS if name == "ring" else size
        formula = 1e3 * steps * (LINK.latency + in_a_step / LINK.bandwidth)
        assert math.isclose(
            ms, formula, rel_tol=1e-3
        )  # chunks may differ by one number
assert round(took["ring"][4], 2) == round(took["through a master"][4], 2) == 2.52
assert 10 < took["ring"][4] / took["tree"][4] < 11 and 2 * math.log2(RANKS) == 12
assert all(took["through a master"][size] >= took["ring"][size] for size in SIZES)
assert took["tree"][1_000_000] < took["ring"][1_000_000]
assert took["tree"][100_000_000] > 5 * took["ring"][100_000_000]

# %% [markdown]
# They are equally fast, although the master has so few rounds. Rank 0 receives 63 messages one after the other, and
# then sends 63, so the master takes 126 steps, as many as the ring. In each step a whole tensor moves:
#
# $$T_\text{master} = 2(N-1)\,\left(\alpha + S\,\beta\right)$$
#
# Rounds count only who has to receive before sending, and not how much a busy rank has to do.
#
# **A ring waits for $2(N-1)$ latencies, however small the tensor is.**
#
# On 64 ranks, the tree is faster for small tensors, because it takes 12 steps instead of 126. For large tensors the
# ring is faster, because each step of the tree moves a whole tensor. The two lines cross, and [the next
# lesson](03_trees_and_grids.ipynb) asks where.
#
# <details><summary>Where these times stop being true</summary>
#
# | if … | then … |
# |---|---|
# | the master receives from all at once, and sends to all at once | it waits for two latencies instead of 126 |
# | the links are not equal | a ring is as slow as its slowest link |
# | the ranks share one computer, and there are no links | the ring gains little, or loses |
#
# [Lesson 02b](02b_rings_closer.ipynb) plays all three.
#
# </details>
#
# ## Is it a ring?
#
# Here is one more function. Its messages go around the ring, every rank talks only to its neighbors, and no rank ever
# waits in a circle.


# %%
def is_it_a_ring(comm: Communicator, tensor: torch.Tensor) -> None:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = tensor.clone(), torch.empty_like(tensor)
    for _step in range(comm.world_size - 1):
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
        tensor += incoming
        outgoing, incoming = incoming, outgoing  # what has come is sent on


def try_it(comm: Communicator) -> list[float]:
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0]) * 10**comm.rank
    is_it_a_ring(comm, tensor)
    return tensor.tolist()


for rank, sums in enumerate(world.run(try_it)):
    print(f"rank {rank}: {sums}")
    assert sums == [1111, 2222, 3333, 4444]

# %% [markdown]
# Take a minute before you answer: how many rounds does the function need, and how many bytes does a rank send?

# %%
guess_5 = predict(
    "The sums are right on every rank. Is it a ring all-reduce?",
    choices=[
        "yes",
        "no: too many messages",
        "no: its messages are too large",
        "no: too many rounds",
    ],
)

# %% [markdown]
# Ask the check of this lesson's exercise, which reads the messages as well as the sums.

# %%
from distlib.exercises import check_ring_all_reduce

try:
    check_ring_all_reduce(is_it_a_ring, world_sizes=(4,), lengths=(8,))
except AssertionError as error:
    print(error)
print(guess_5.compare("no: its messages are too large"))

# %%
eight = SimulatedWorld(8)
eight.run(lambda comm: is_it_a_ring(comm, torch.empty(24 * MIB // 4, device="meta")))
imitation = eight.trace
runs = {"through a master": master, "a ring": ring_of_8, "is_it_a_ring": imitation}
who_sends(runs, title="All-reduce of 24 MiB, 8 ranks")

# %% tags=["folded"]
# Checks of the numbers above and below
assert imitation.bytes_sent == [7 * 24 * MIB] * 8 and imitation.rounds == 7
assert imitation.bytes_sent[0] / ring_of_8.bytes_sent[0] == 8 / 2


def sum_of_floats(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
    mine = torch.randn(840)  # different on each rank
    theirs = mine.clone()
    is_it_a_ring(comm, theirs)
    all_reduce(comm, mine, algorithm="ring")
    return theirs, mine


(first, right), (second, also_right) = world.run(sum_of_floats)[:2]
assert (first != second).any() and torch.allclose(first, second, atol=1e-5)
assert torch.equal(right, also_right)

# %% [markdown]
# The arrows are the same as in the ring, but four times as thick, because there are half as many messages, each eight
# times as large. Each rank sends $(N-1)\,S$ bytes, as the master does.
#
# **Sent once around a ring, whole tensors give the right sums, but cost N/2 times as many bytes as chunks.**
#
# There is a second fault, but small whole numbers hide it. Each rank adds the tensors in its own order, so that with
# three or more ranks, their sums can differ in the last bits. In a ring of chunks all ranks get the same bits, because
# each of them has a copy of the same full sum.
#
# This is not made up. PyTorch's tutorial on distributed applications shows such a ring under "Our Own Ring-Allreduce",
# and leaves the chunks as an exercise. Until 2020 not even its sums were right ([issue
# 31572](https://github.com/pytorch/pytorch/issues/31572)). ARENA, a well-known course, published a reference solution
# that sends the whole tensor $2(N-1)$ times ([pull request
# 407](https://github.com/callummcdougall/ARENA_3.0/pull/407)). A test of the sums that allows for rounding cannot see
# the difference.
#
# **Try it.** Try to fool the check with another all-reduce that gets the sums right but is no ring. For example,
# change this copy of the function so that every rank sends its tensor directly to every other rank. What does the check
# say?


# %%
def impostor(comm: Communicator, tensor: torch.Tensor) -> None:
    mine, incoming = tensor.clone(), torch.empty_like(tensor)
    for _step in range(1, comm.world_size):
        dst, src = neighbors(comm)
        comm.exchange(mine, dst, incoming, src)
        tensor += incoming
        mine, incoming = incoming, mine


try:
    check_ring_all_reduce(impostor, world_sizes=(4,), lengths=(8,))
except AssertionError as error:
    print(error)


# %% tags=["folded"]
# One way to do it
def to_all_others(comm: Communicator, tensor: torch.Tensor) -> None:
    mine, incoming, size = tensor.clone(), torch.empty_like(tensor), comm.world_size
    for step in range(1, size):
        dst, src = (comm.rank + step) % size, (comm.rank - step) % size
        comm.exchange(mine, dst, incoming, src)
        tensor += incoming


try:
    check_ring_all_reduce(to_all_others, world_sizes=(4,), lengths=(8,))
except AssertionError as error:
    print(error)

# %% [markdown]
# ## In real frameworks
#
# In `torch.distributed` the operation has the same name. Here is the real thing: each of our four ranks computes the
# gradient of a small classifier on its quarter of 256 images. Then the ranks average their gradients, once with our
# all-reduce and once with torch's.

# %% tags=["folded"]
# The images, the model, and the gradient of a batch
from distlib.training import digits

train, _ = digits()
images, labels = train.images[:256].flatten(1), train.labels[:256]

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def gradient(
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """The gradient of the mean loss over these images, as one long vector."""
    loss = nn.functional.cross_entropy(model(images), labels, weight=weights)
    parts = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([part.flatten() for part in parts])


# %%
def averages(comm: Communicator, model: nn.Module) -> tuple[torch.Tensor, ...]:
    my_images = images.tensor_split(comm.world_size)[comm.rank]
    my_labels = labels.tensor_split(comm.world_size)[comm.rank]
    mine = gradient(model, my_images, my_labels)
    ours, theirs = mine.clone(), mine.clone()
    all_reduce(comm, ours, op=ReduceOp.AVG)
    with torch_distributed(comm, "gloo"):
        dist.all_reduce(theirs)  # gloo has no average
    return mine, ours, theirs / comm.world_size


whole_batch = gradient(model, images, labels)
results = world.run(averages, model)
for rank, found in enumerate(results):
    alone, ours, theirs = (float((each - whole_batch).abs().max()) for each in found)
    print(f"rank {rank}: alone off by {alone:.3f}, ", end="")
    print(f"our average by {ours:.0e}, torch's by {theirs:.0e}")

# %% tags=["folded"]
# Checks of the numbers above, and of the conditions below
for mine, ours, theirs in results:
    assert not torch.allclose(mine, whole_batch, atol=1e-3)
    assert torch.allclose(ours, whole_batch, rtol=1e-5, atol=1e-7)
    assert torch.allclose(theirs, whole_batch, rtol=1e-5, atol=1e-7)
    assert torch.equal(ours, results[0][1])

torch.manual_seed(0)
mixing = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, 10))
average = world.run(averages, mixing)[0][1]
assert not torch.allclose(average, gradient(mixing, images, labels), atol=1e-2)

weights = torch.ones(10)
weights[3] = 10
quarters = zip(images.tensor_split(4), labels.tensor_split(4), strict=True)
mean_of_parts = sum(gradient(model, *part, weights) for part in quarters) / 4
whole = gradient(model, images, labels, weights)
assert not torch.allclose(mean_of_parts, whole, atol=1e-3)

unequal = zip(
    images.split([200, 20, 20, 16]), labels.split([200, 20, 20, 16]), strict=True
)
mean_of_parts = sum(gradient(model, *part) for part in unequal) / 4
assert not torch.allclose(mean_of_parts, whole_batch, atol=1e-3)

# %% [markdown]
# The average of the four gradients is the gradient of the whole batch, up to rounding. After the all-reduce, our ranks
# agree to the last bit, so that weights that start equal stay equal.
#
# <details><summary>Where the average is another gradient</summary>
#
# | if … | then … |
# |---|---|
# | the ranks have unequally many images | the mean of the means is not the mean ([lesson 06](06_large_batches.ipynb)) |
# | the loss weights classes, or leaves out padding | each rank divides by a different sum of weights |
# | a layer mixes the images of a batch, as batch norm does | each rank mixes its own images only |
#
# </details>
#
# What runs underneath `dist.all_reduce`?
#
# - **gloo**, the backend for CPUs, uses [a ring](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc). It cuts
#   each chunk into smaller segments, so that it adds one segment while the next segment arrives.
# - **NCCL**, the backend for NVIDIA GPUs, has rings, trees and more. [It
#   chooses](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo) by the size of the tensor and
#   by how the machines are connected. [Its
#   benchmarks](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) contain the factor of this lesson:
#   the "bus bandwidth" of an all-reduce is $S$ divided by the measured time, times $2(N-1)/N$.
# - **DistributedDataParallel** starts the all-reduces for you while the backward pass is still running. In lesson 05
#   you build that.

# %%
world.close()

# %% [markdown]
# ## In short
#
# - The master sends as much as all other ranks together.
# - In a ring, no rank sends more than two tensors, however many ranks there are.
# - On a network that only carries full-size numbers, some rank sends at least $2\frac{N-1}{N}S$ bytes.
# - A ring waits for $2(N-1)$ latencies, however small the tensor is.
# - Sent once around a ring, whole tensors give the right sums, but cost N/2 times as many bytes as chunks.
#
# <details><summary>The same in formulas</summary>
#
# | with $N$ ranks and $S$ bytes | busiest rank sends | rounds | time on equal links |
# |---|---|---|---|
# | through a master | $(N-1)\,S$ | 2 | $2(N-1)\,(\alpha + S\beta)$ |
# | ring | $2\frac{N-1}{N}\,S$ | $2(N-1)$ | $2(N-1)\,(\alpha + \frac{S}{N}\beta)$ |
# | whole tensors around a ring | $(N-1)\,S$ | $N-1$ | $(N-1)\,(\alpha + S\beta)$ |
# | lower bound | $2\frac{N-1}{N}\,S$ | | |
#
# The ring's bytes are exact where $N$ divides the number of elements.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/02_all_reduce/02_all_reduce.ipynb) you write the all-reduce through a master, the two
# phases of the ring, and the ring. You play your own ring there, and if it is wrong, you see in which step. After that
# comes [Trees](03_trees_and_grids.ipynb): what to do when tensors are small, or when there are many ranks.
#
# [Lesson 02b](02b_rings_closer.ipynb) is a side road: a ring on a real clock, unequal links, lengths that do not
# divide, and when the ring of whole tensors wins.
#
# ## Further reading
#
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of
#   workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), Journal of Parallel and Distributed Computing
#   69(2), 2009. The lower bound, and the ring that meets it.
# - A. Gibiansky, [Bringing HPC Techniques to Deep
#   Learning](https://andrew.gibiansky.com/blog/machine-learning/baidu-allreduce/), 2017. The article that made the
#   ring known in deep learning.
# - A. Sergeev, M. Del Balso, [Horovod: fast and easy distributed deep learning in
#   TensorFlow](https://arxiv.org/abs/1802.05799), 2018. The ring as a library.
# - NVIDIA, [NCCL user guide](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html).
