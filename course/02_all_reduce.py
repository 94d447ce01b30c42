# %% [markdown]
# # All-reduce
#
# After this lesson you will be able to
#
# - say what an all-reduce does, and why data-parallel training runs one in every step,
# - count what it costs through a master, and find the bottleneck,
# - follow a ring all-reduce step by step, and say how many bytes and rounds it takes,
# - argue that no all-reduce can send fewer bytes, and say when a ring is still the wrong choice.
#
# **Time:** about 45 minutes. **You need:** [Start here](00_start_here.ipynb) and
# [Messages](01_messages.ipynb). No GPU.

# %%
import time
from fractions import Fraction

import torch
from torch import nn

from distlib import Communicator, DeadlockError, ReduceOp, Trace, World, all_reduce
from distlib.collectives import ring_all_reduce, ring_reduce_scatter
from distlib.draw import bytes_per_rank, play_chunks, predict, timeline, watch_chunks
from distlib.partition import chunk_lengths

world = World(4)

# %% [markdown]
# ## The idea
#
# Every rank has a tensor, all of the same shape. Afterwards every rank has the sum of them all. That is an
# **all-reduce**. "Reduce", because many tensors become one. "All", because everybody gets it.
#
# Here rank 0 brings ones, rank 1 tens, rank 2 hundreds, rank 3 thousands. The digits of the result tell who is in it.


# %%
def sum_of_all(comm: Communicator) -> torch.Tensor:
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0]) * 10**comm.rank
    all_reduce(comm, tensor)
    return tensor


for rank, tensor in enumerate(world.run(sum_of_all)):
    print(f"rank {rank}: {tensor.tolist()}")
    assert tensor.tolist() == [1111, 2222, 3333, 4444]

# %% [markdown]
# `all_reduce` works in place: it overwrites the tensor that it is given. Beside sums it computes averages, products,
# minima and maxima.
#
# ### Why training needs it
#
# In data-parallel training each rank has a copy of the model and its own part of the batch. Each computes a gradient
# on its part. If the parts are equally large, the gradient of the whole batch is the average of these. So the ranks
# must combine their gradients before anybody changes a weight. This happens in every step, with as many numbers as the
# model has parameters. At the end of this lesson you do it with a real model.
#
# So two questions matter, and you can answer both by counting: how many bytes must a rank move, and how many times
# must it wait for somebody else?
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
guess = predict("8 ranks, each with a tensor of 24 MiB. How much does rank 0 receive?", unit="MiB")

# %%
MIB = 2**20


def sum_ones(comm: Communicator, length: int, algorithm: str) -> tuple[float, float]:
    """Sum `length` float32 ones of every rank. Returns the smallest and the largest number of the result."""
    tensor = torch.ones(length)
    all_reduce(comm, tensor, algorithm=algorithm)
    return tensor.min().item(), tensor.max().item()


def run_and_trace(world_size: int, length: int, algorithm: str) -> Trace:
    """Run `sum_ones` on so many ranks, check the sums, and return the trace."""
    with World(world_size) as ranks:
        results = ranks.run(sum_ones, length, algorithm)
        assert results == [(world_size, world_size)] * world_size
        return ranks.trace


master = run_and_trace(8, 24 * MIB // 4, "naive")
print(guess.compare(master.bytes_received[0] / MIB))
assert master.bytes_received[0] == master.bytes_sent[0] == 7 * 24 * MIB
assert master.bytes_received[1:] == master.bytes_sent[1:] == [24 * MIB] * 7

# %%
bytes_per_rank(master, title="All-reduce of 24 MiB through a master, 8 ranks")

# %% [markdown]
# Seven ranks move their tensor once in each direction. Rank 0 moves seven tensors in and seven out, while the others
# have nothing to do for most of the time. With $N$ ranks and tensors of $S$ bytes, rank 0 receives and sends
# $(N-1)\,S$. Let us see that in the traces, for 2 to 8 ranks.

# %%
LENGTH = 840  # divides by every number of ranks from 1 to 8
SIZE = LENGTH * 4  # bytes of a float32 tensor of that length

naive = {n: run_and_trace(n, LENGTH, "naive") for n in range(2, 9)}

print("ranks   rank 0 sends   rank 1 sends   rounds")
for n, trace in naive.items():
    print(f"{n:5}   {trace.bytes_sent[0] / SIZE:10.2f} S   {trace.bytes_sent[1] / SIZE:10.2f} S   {trace.rounds:6}")
    assert trace.bytes_sent[0] == trace.bytes_received[0] == (n - 1) * SIZE
    assert trace.bytes_sent[1:] == trace.bytes_received[1:] == [SIZE] * (n - 1)
    assert trace.rounds == 2

# %% [markdown]
# The master's share grows with every rank that joins. With a thousand ranks, all gradients of a thousand ranks must
# pass through the network link of one. The more machines you buy, the longer each step takes.
#
# One thing is good about it: the rounds. There are only two, in and out, however many ranks there are. We come back to
# that.
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
#    part. At the end of its way it is the full sum. Each chunk starts at another rank, so each ends at another rank.
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
# and has the full sum: 1111. Three steps, and chunk 0 is complete on rank 0.
#
# Now the same from a run. `watch_chunks` runs the library's ring on the ranks and records after each round whose
# contributions every chunk has inside. These are the first three rounds.

# %%
history = watch_chunks(world, ring_all_reduce)
right_trace = world.trace


def value(step: int, rank: int, chunk: int) -> int:
    """The number that stands in this chunk, when rank r brings (chunk + 1)·10^r."""
    counts = history.cell(step, rank, chunk).counts
    return (chunk + 1) * sum(int(count) * 10**source for source, count in enumerate(counts))


for step in range(4):
    print(f"after round {step}" if step else "at the start")
    for rank in range(4):
        print(f"    rank {rank}: " + "".join(f"{value(step, rank, chunk):>7}" for chunk in range(4)))

assert [value(step, rank, 0) for step, rank in enumerate([1, 2, 3, 0])] == [10, 110, 1110, 1111]
assert [value(3, rank, rank) for rank in range(4)] == [1111, 2222, 3333, 4444]
assert history.full_sums[:4] == [0, 0, 0, 4]

# %% [markdown]
# Chunk 0 is only one of four. At the same time chunk 1 set out from rank 2, chunk 2 from rank 3, and chunk 3 from
# rank 0. In each step four chunks move, one from each rank to the next. The picture shows all of them. Four small
# fields in a cell stand for the four ranks, and a field is filled when that rank's part is inside.
#
# Click into it and step with → and ←; space plays it, Home and End go to the start and the end. The buttons do the
# same. Point at a cell to read what it holds, and at an arrow to read what is sent.

# %%
first_phase = watch_chunks(world, ring_reduce_scatter)
assert first_phase.states == history.states[:4]
play_chunks(first_phase, title="Phase 1: reduce-scatter")

# %% [markdown]
# Follow chunk 0 again, the first column: in round 1 an arrow leaves rank 1, in round 2 rank 2, in round 3 rank 3.
# After three steps every rank has one chunk that is complete: rank 0 has chunk 0, rank 1 has chunk 1, and so on. What
# the other cells hold is left over from the way. Nobody needs it.
#
# ### The second phase
#
# The complete chunks go around once more. Nothing is added: who receives a complete chunk puts it in the place of the
# left-over one. Here are both phases. The first three rounds you know; from round 4 on, look where a chunk is complete.

# %%
assert [message.src for message in history.messages if message.chunks == (0,)] == [1, 2, 3, 0, 1, 2]
assert history.full_sums[3:] == [4, 8, 12, 16]
play_chunks(history, title="The ring: reduce-scatter, then all-gather")

# %% [markdown]
# Three more steps, and everybody has everything. In each step, four more cells are complete.
#
# ### Count it
#
# Before you run the next cell, count: how many steps are there in both phases, and how large is one chunk?

# %%
guess = predict("A ring of 4 ranks, 24 MiB each. How much does each rank send in both phases?", unit="MiB")

# %%
ring = run_and_trace(4, 24 * MIB // 4, "ring")
print(guess.compare(ring.bytes_sent[0] / MIB))
print(ring.summary())
assert ring.bytes_sent == ring.bytes_received == [36 * MIB] * 4
assert ring.rounds == 6

# %%
timeline(ring, by="round", title="A ring of 4 ranks: everybody sends and receives in every round")

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
# The share of a rank grows from $S$ with 2 ranks towards $2S$, and never gets there. With a thousand ranks each still
# sends less than twice its tensor. The master would send it 999 times.

# %%
ranks = 1000
print(f"ring:   {2 * (ranks - 1) / ranks} S      master: {ranks - 1} S")
assert 2 * (ranks - 1) / ranks < 2

# %%
ring_of_8 = run_and_trace(8, 24 * MIB // 4, "ring")
assert ring_of_8.bytes_sent == [42 * MIB] * 8
bytes_per_rank(compare={"through a master": master, "ring": ring_of_8}, title="All-reduce of 24 MiB, 8 ranks")

# %% [markdown]
# ### When the length does not divide
#
# Ten numbers do not make four equal chunks. Then the first chunks get one number more, as `torch.tensor_split` cuts
# them.

# %%
print(chunk_lengths(10, 4))
assert chunk_lengths(10, 4) == [3, 3, 2, 2]
assert [len(chunk) for chunk in torch.tensor_split(torch.zeros(10), 4)] == [3, 3, 2, 2]

# %% [markdown]
# The formula is then off by a few bytes, but the exact number is easy. In the first phase a rank sends every chunk
# except the one that it completes, chunk $r$ on rank $r$. In the second phase it sends every chunk except the last one
# to arrive, which is the one its next rank completed. It holds even when there are fewer numbers than ranks, and some
# chunks are empty.


# %%
def exact_bytes(length: int, world_size: int) -> list[int]:
    """Bytes that each rank sends in a ring all-reduce of `length` float32 numbers, indexed by rank."""
    lengths = chunk_lengths(length, world_size)
    return [4 * (2 * length - lengths[r] - lengths[(r + 1) % world_size]) for r in range(world_size)]


for n, length in [(3, 10), (4, 10), (4, 1001), (5, 3), (7, 100)]:
    trace = run_and_trace(n, length, "ring")
    print(f"{n} ranks, {length:4} numbers: rank by rank {trace.bytes_sent}")
    assert trace.bytes_sent == exact_bytes(length, n)
    assert trace.rounds == 2 * (n - 1)

# %% [markdown]
# ## Can anybody do better?
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
# send, and that the network itself does not add. The bound and the ring that reaches it are from Patarasuk and Yuan
# (2009).
#
# The master meets the same total, byte for byte. It only shares it badly.

# %%
for n in range(2, 9):
    least = 2 * (n - 1) * SIZE
    assert sum(naive[n].bytes_sent) == sum(rings[n].bytes_sent) == least
    assert max(rings[n].bytes_sent) == least / n
    busiest = max(naive[n].bytes_sent), max(rings[n].bytes_sent)
    print(f"{n} ranks send {least:6,} bytes together. Busiest rank: master {busiest[0]:6,}, ring {busiest[1]:5,}.")

# %% [markdown]
# ## What the ring costs
#
# Bytes are not everything. A message takes time even when it is almost empty: until it is handed to the network, until
# it has traveled, until the other side notices. A simple model has two numbers:
#
# - the **latency** $\alpha$: seconds that each round takes, however small the message,
# - the **bandwidth** $1/\beta$: bytes per second through the link of a rank, in each direction, so that $\beta$ is
#   seconds per byte.
#
# $$T_\text{ring} = 2(N-1)\,\alpha + 2\,\frac{N-1}{N}\,S\,\beta \qquad
# T_\text{master} = 2\,\alpha + 2\,(N-1)\,S\,\beta$$
#
# The first part counts rounds, the second part bytes through the busiest link. In the ring, a rank sends and receives
# at the same time. Through the master, nothing can go out before everything has come in, so both directions count.
# (For the master this is kind: it assumes that rank 0 can take in the messages of all ranks without a pause.)
#
# Take 64 ranks, a latency of 20 µs and a bandwidth of 10 GB/s. They are numbers to think with, not of a certain
# machine.

# %%
guess = predict("How long does the ring need to add up a single float32 number?", unit="ms")

# %%
LATENCY = 20e-6  # α, seconds
BANDWIDTH = 10e9  # 1/β, bytes per second


def ring_seconds(world_size: int, size: float) -> float:
    return 2 * (world_size - 1) * LATENCY + 2 * (world_size - 1) / world_size * size / BANDWIDTH


def master_seconds(world_size: int, size: float) -> float:
    return 2 * LATENCY + 2 * (world_size - 1) * size / BANDWIDTH


print(guess.compare(ring_seconds(64, 4) * 1e3))
print(f"through a master: {master_seconds(64, 4) * 1e3:.2f} ms")
assert round(ring_seconds(64, 4) * 1e3, 2) == 2.52
assert round(master_seconds(64, 4) * 1e3, 2) == 0.04

# %% [markdown]
# 126 rounds for four bytes. The master does it in two. For large tensors it is the other way around.

# %%
assert 2 * (64 - 1) == 126

print("        bytes     ring, ms   master, ms   faster")
for size in [4, 4e3, 1e5, 1e6, 1e8, 1e9]:
    ring_ms, master_ms = ring_seconds(64, size) * 1e3, master_seconds(64, size) * 1e3
    faster = "ring" if ring_ms < master_ms else "master"
    print(f"{size:13,.0f} {ring_ms:12.2f} {master_ms:12.2f}   {faster}")

equal_size = LATENCY * BANDWIDTH * 64 * 62 / 63**2
print(f"equal at {equal_size:,.0f} bytes")
assert round(equal_size / 1e3) == 200
assert abs(ring_seconds(64, equal_size) - master_seconds(64, equal_size)) < 1e-12
assert ring_seconds(64, 1e9) < master_seconds(64, 1e9) / 50

# %% [markdown]
# Setting both times equal gives the size at which they meet: $S = \alpha/\beta \cdot N(N-2)/(N-1)^2$, here about
# 200 kB. Below it the rounds decide, above it the bytes.
#
# Gradients are large, and so the ring is used for them. Small tensors want fewer rounds. The next lesson,
# [Trees and grids](03_trees_and_grids.ipynb), has algorithms for them.
#
# And on your machine? Here the "network" is the memory of one computer, and four ranks may share fewer cores. So take
# these times as what they are: one machine, today.


# %%
def median_milliseconds(comm: Communicator, length: int, algorithm: str) -> float:
    tensor, seconds = torch.ones(length), []
    for _ in range(15):
        comm.barrier()
        start = time.perf_counter()
        all_reduce(comm, tensor, op=ReduceOp.MAX, algorithm=algorithm)  # the maximum: ones stay ones
        seconds.append(time.perf_counter() - start)
    return 1e3 * sorted(seconds)[len(seconds) // 2]


print("On this machine, today, 4 ranks:")
for length in [1, 1000, 1_000_000]:
    times = {name: max(world.run(median_milliseconds, length, name)) for name in ("ring", "naive")}
    print(f"{4 * length:10,} bytes   ring {times['ring']:7.2f} ms   through a master {times['naive']:7.2f} ms")

# %% [markdown]
# ## Two mistakes
#
# ### Everybody sends first
#
# In the ring, every rank sends and receives in the same step. Write that as a `send` followed by a `recv`, and see
# what happens.


# %%
def one_step(comm: Communicator) -> torch.Tensor:
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    comm.send(outgoing, next_rank)
    comm.recv(incoming, previous_rank)
    return incoming


try:
    world.run(one_step)
except DeadlockError as error:
    print(error)
    assert sorted(error.ranks) == [0, 1, 2, 3]

# %% [markdown]
# `send` returns when the other rank has taken the message. All four wait for that, around the whole ring, and nobody
# gets as far as `recv`.
#
# The ranks could take turns: even ranks send first, odd ranks receive first. That works. But the odd ranks then wait
# for a message before they send their own, so one step takes two rounds. With `comm.exchange`, which sends and
# receives at once, it takes one.


# %%
def one_step_in_turns(comm: Communicator) -> torch.Tensor:
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    if comm.rank % 2 == 0:
        comm.send(outgoing, next_rank)
        comm.recv(incoming, previous_rank)
    else:
        comm.recv(incoming, previous_rank)
        comm.send(outgoing, next_rank)
    return incoming


def one_step_at_once(comm: Communicator) -> torch.Tensor:
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    outgoing, incoming = torch.full((2,), float(comm.rank)), torch.zeros(2)
    comm.exchange(outgoing, next_rank, incoming, previous_rank)
    return incoming


for step_function, rounds in [(one_step_in_turns, 2), (one_step_at_once, 1)]:
    results = world.run(step_function)
    print(f"{step_function.__name__}: rounds {world.trace.rounds}")
    assert [tensor[0].item() for tensor in results] == [3, 0, 1, 2]
    assert world.trace.rounds == rounds

# %% [markdown]
# ### Adding when you should copy
#
# Both phases look alike. In the first, a rank adds what it receives. In the second, it copies. Run the first phase
# twice by mistake.


# %%
def wrong_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    ring_reduce_scatter(comm, tensor)
    ring_reduce_scatter(comm, tensor)  # this should be ring_all_gather


wrong = watch_chunks(world, wrong_all_reduce)
wrong_trace = world.trace
print("full sums after each round, right:", history.full_sums)
print("full sums after each round, wrong:", wrong.full_sums)
assert history.full_sums[-1] == 16 and wrong.full_sums[-1] == 0
play_chunks(wrong, title="The first phase, twice")

# %% [markdown]
# Go through it with →. In the first three rounds everything is as it should be. From round 4 on, parts are counted
# twice and more, and there is a warning. "×2" in a field says how often that part is inside. Point at an arrow of
# round 4: it was sent by line 3 of the cell, the call that should be another. In the end no sum is right.
#
# There was no error and no deadlock. The messages are as many and as large as in a right ring, and the rounds too.

# %%
assert {message.sent.site.line for message in wrong.messages if message.sent and message.round > 3} == {3}
assert wrong_trace.messages_sent == right_trace.messages_sent
assert wrong_trace.bytes_sent == right_trace.bytes_sent
assert wrong_trace.rounds == right_trace.rounds == 6

# %% [markdown]
# And with the master it was the other way around: the sums are right, and only the counts show the bottleneck. So an
# algorithm must be checked for both, its values and its messages. Your exercise is checked in this way.
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


def gradient(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean loss over these images, all parameters flattened into one vector."""
    loss = nn.functional.cross_entropy(model(images), labels)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


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
    print(f"rank {rank}: its own gradient is off by {(mine - whole_batch).abs().max():.4f}, "
          f"the average by {(average - whole_batch).abs().max():.1e}")  # fmt: skip
    assert not torch.allclose(mine, whole_batch, atol=1e-3)
    assert torch.allclose(average, whole_batch, rtol=1e-5, atol=1e-7)
    assert torch.equal(average, results[0][1])

# %% [markdown]
# The average of the four is the gradient of the whole batch, up to rounding: we allowed a relative error of 10⁻⁵ and
# an absolute one of 10⁻⁷. It need not be equal to the last bit, because float32 numbers were added in another order.
#
# Among each other the four ranks *are* equal to the last bit. Each chunk was summed up on one rank only, and the
# others have copies. That matters: models that drift apart by a bit in every step would soon be different models.
#
# One condition hides in "the average": every rank had equally many images. Lesson 05 deals with the rest.
#
# ## In real frameworks
#
# In `torch.distributed` the operation has the same name. We run it on the same four ranks and compare, first with
# whole numbers, where every order of adding gives the same sum, then with arbitrary ones.

# %%
import torch.distributed as dist

from distlib.process_group import torch_distributed


def both(comm: Communicator, whole_numbers: bool) -> tuple[torch.Tensor, torch.Tensor]:
    tensor = torch.randint(-99, 100, (1001,)).float() if whole_numbers else torch.randn(1001)
    ours, theirs = tensor.clone(), tensor.clone()
    all_reduce(comm, ours)
    with torch_distributed(comm):
        dist.all_reduce(theirs)
    return ours, theirs


assert all(torch.equal(ours, theirs) for ours, theirs in world.run(both, True))
assert all(torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5) for ours, theirs in world.run(both, False))
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

# %% [markdown]
# ## In short
#
# | with $N$ ranks and $S$ bytes | busiest rank sends | rounds |
# |---|---|---|
# | through a master | $(N-1)\,S$ | 2 |
# | ring | $2\frac{N-1}{N}\,S$ | $2(N-1)$ |
# | lower bound | $2\frac{N-1}{N}\,S$ | |
#
# ## Now you
#
# In [the exercise](../exercises/02_all_reduce/02_all_reduce.ipynb) you write all four parts yourself: the all-reduce
# through a master, the two phases of the ring, and the ring. You play your own ring there, as you played the
# library's here. A wrong one can be played, too: you see in which round it goes wrong. After that comes
# [Trees and grids](03_trees_and_grids.ipynb): what to do when there are many ranks, or when links are not equal.
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
# - NVIDIA, [NCCL user guide](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html).
