# %% [markdown]
# # Rings, closer
#
# You time a ring on your laptop against the master that it should beat by far, and the two are nearly equal. Perhaps
# the ring even loses. There is no mistake in the ring. Your laptop has no network between its ranks.
#
# **This lesson is optional.** It is a side road, which no lesson of the main road needs. It goes on where
# [All-reduce](02_all_reduce.ipynb) ends.
#
# > After this lesson you will be able to
# >
# > - say what the order of sends and receives costs in a ring,
# > - count the bytes of a ring exactly, also where the length does not divide,
# > - say what a slow link does to a ring and to a master,
# > - say when a cleverer master or a ring of whole tensors is faster,
# > - measure an all-reduce on real processes, and say what the clock can show.
# >
# > **Time:** about 45 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU.

# %% tags=["folded"]
# The imports, and what this lesson takes from the one before
import math
import time

import torch
import torch.distributed as dist

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
    chunk_lengths,
    ring_reduce_scatter,
    torch_distributed,
)
from distlib.draw import bytes_per_rank, play_chunks, predict, sweep, watch_chunks

world = World(4)
RANKS, LATENCY, BANDWIDTH = 64, 20e-6, 10e9  # 20 µs, 10 GB/s
fast_links = SimulatedWorld(RANKS, Cluster.flat(RANKS, Link(LATENCY, BANDWIDTH)))


def neighbors(comm: Communicator) -> tuple[int, int]:
    """The next and the previous rank on the ring."""
    return (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size


def without_numbers(comm: Communicator, nbytes: int, algorithm: str) -> None:
    all_reduce(comm, torch.empty(nbytes // 4, device="meta"), algorithm=algorithm)


def milliseconds(nbytes: int, algorithm: str) -> float:
    """On the 64 fast links."""
    fast_links.run(without_numbers, nbytes, algorithm)
    return fast_links.elapsed * 1e3


def sum_ones(comm: Communicator, length: int, algorithm: str) -> bool:
    tensor = torch.ones(length)
    all_reduce(comm, tensor, algorithm=algorithm)
    return bool((tensor == comm.world_size).all())


def trace_of(algorithm: str, ranks: int, length: int) -> Trace:
    """All messages of an all-reduce in which each rank has a tensor of this length."""
    with World(ranks) as some_ranks:
        assert all(some_ranks.run(sum_ones, length, algorithm))
        return some_ranks.trace


def is_it_a_ring(comm: Communicator, tensor: torch.Tensor) -> None:
    next_rank, previous_rank = neighbors(comm)
    outgoing, incoming = tensor.clone(), torch.empty_like(tensor)
    for _step in range(comm.world_size - 1):
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
        tensor += incoming
        outgoing, incoming = incoming, outgoing  # what has come is sent on


# %% [markdown]
# ## Somebody has to receive first
#
# In a step of a ring, every rank sends and receives. Suppose somebody writes this as a `send` followed by a `recv`:


# %%
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

# %% [markdown]
# `send` returns when the other rank has taken the message. All four ranks wait for that, around the whole ring, and no
# rank gets as far as `recv`.
#
# **Try it.** Break the circle: let only *one* rank receive first. Is that enough? These ranks are simulated, and each
# message takes one second, so that you see when each rank is done.


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


found = SimulatedWorld(8, SLOW).run(only_rank_0_receives_first)
print("seconds until each rank is done:", [round(each) for each in found])
assert round(max(found)) == 8

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# It is enough, but it is slow: with 8 ranks, one step takes 8 seconds instead of 1. Rank 7 can receive only after rank
# 0 has taken its message, rank 6 can receive only after rank 7 has taken its message, and so on, once around the ring.
#
# </details>
#
# The ranks could also take turns: even ranks send first, and odd ranks receive first.

# %%
guess_1 = predict(
    "8 ranks take turns. A message takes 1 s. How long does a step take?",
    choices=["1 s", "2 s", "4 s", "8 s"],
)


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


slowest = {}
for function in (one_step_in_turns, one_step_at_once):
    results = SimulatedWorld(8, SLOW).run(function)
    assert [received for _, received in results] == [7, 0, 1, 2, 3, 4, 5, 6]
    slowest[function.__name__] = round(max(seconds for seconds, _ in results))
    print(f"{function.__name__}: {slowest[function.__name__]} s")
print(guess_1.compare(f"{slowest['one_step_in_turns']} s"))

# %% tags=["folded"]
# Checks of the numbers above and below
assert slowest == {"one_step_in_turns": 2, "one_step_at_once": 1}
seven = SimulatedWorld(7, Cluster.flat(7, Link(latency=1, bandwidth=1e9)))
assert round(max(seconds for seconds, _ in seven.run(one_step_in_turns))) == 3

# %% [markdown]
# In turns a step takes two messages in a row, because an odd rank sends only after it has received. With an odd number
# of ranks it takes three, because two neighbors both send first.
#
# **In a short step of the ring, every rank sends and receives at the same time.** You can write it with `exchange`, or
# with `isend` and `irecv`.
#
# ## A length that does not divide
#
# Ten numbers do not make four equal chunks. Then the first chunks get one number more, as `torch.tensor_split` cuts
# them:

# %%
print(chunk_lengths(10, 4))

# %% [markdown]
# In the first phase, rank $r$ sends every chunk except chunk $r$, whose sum it completes. In the second phase it sends
# every chunk except the last chunk to arrive, which is chunk $r+1$.

# %%
guess_2 = predict(
    "10 numbers on 4 ranks. Which rank sends the most?",
    choices=["rank 0", "rank 1", "rank 2", "rank 3", "all the same"],
)

# %%
ten = trace_of("ring", ranks=4, length=10)
print(guess_2.compare(f"rank {ten.bytes_sent.index(max(ten.bytes_sent))}"))
bytes_per_rank(ten, title="A ring all-reduce of 10 float32 numbers, 4 ranks")


# %% tags=["folded"]
# The exact number of bytes, for any length and any number of ranks
def exact_bytes(length: int, world_size: int) -> list[int]:
    """Bytes that each rank sends when a ring sums `length` float32 numbers."""
    sizes = [4 * chunk for chunk in chunk_lengths(length, world_size)]
    return [
        8 * length - sizes[r] - sizes[(r + 1) % world_size] for r in range(world_size)
    ]


for ranks, length in [(3, 10), (4, 10), (4, 1001), (5, 3), (7, 100)]:
    trace = trace_of("ring", ranks, length)
    print(f"{ranks} ranks, {length:4} numbers: {trace.bytes_sent}")
    assert trace.bytes_sent == exact_bytes(length, ranks)
    assert max(trace.bytes_sent) <= 2 * 4 * length
    assert trace.rounds == 2 * (ranks - 1)
assert chunk_lengths(10, 4) == [3, 3, 2, 2]
assert [len(chunk) for chunk in torch.tensor_split(torch.zeros(10), 4)] == [3, 3, 2, 2]
assert ten.bytes_sent == [56, 60, 64, 60]

# %% [markdown]
# Rank 2 twice leaves out a short chunk, so it sends the most. Chunks differ by one number at most, so the ranks differ
# by two numbers at most.
#
# **A ring takes any length. Its ranks send the same, up to two numbers.**
#
# A ring does not look at the numbers either.
#
# **Try it.** Let only rank 0 bring something, and all other ranks zeros: watch `only_rank_0`. Is any cell full at the
# end, and do the ranks send less?


# %%
def only_rank_0(comm: Communicator, tensor: torch.Tensor) -> None:
    tensor *= comm.rank == 0  # all other ranks bring zeros
    ring_reduce_scatter(comm, tensor)


history = watch_chunks(world, ring_reduce_scatter)  # watch only_rank_0 instead
print("full sums after each step:", history.full_sums[1:])
print("bytes that each rank sends:", world.trace.bytes_sent)
play_chunks(history)

# %% tags=["folded"]
# One way to do it
watch_chunks(world, ring_reduce_scatter)
sent_by_all = world.trace.bytes_sent
zeros = watch_chunks(world, only_rank_0)
print("full sums after each step:", zeros.full_sums[1:])
print("bytes that each rank sends:", world.trace.bytes_sent, "before:", sent_by_all)
assert zeros.full_sums == [0] * 4 and world.trace.bytes_sent == sent_by_all

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# No cell is ever full, because the parts of the other ranks are missing. But the arrows and the bytes are the same: the
# ring does not know that it sends zeros.
#
# </details>
#
# ## A master that takes all messages at once
#
# The master of lesson 02 calls `recv` 63 times, and waits each time. Can a cleverer master do better?
#
# **Try it.** Let this master ask for all messages at once, with `irecv`, and then wait for them. Then let it do the
# same with what it sends. How much does it save at each size, and where does that matter?


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


SIZES = (4, 4_000, 100_000, 1_000_000, 100_000_000)
for size in SIZES:
    fast_links.run(my_master, size // 4)
    print(f"{size:11,} bytes: {fast_links.elapsed * 1e3:8.2f} ms", end="")
    print(f", a tree {milliseconds(size, 'tree'):6.2f} ms")

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
assert fast_links.elapsed * 1e3 < milliseconds(4, "tree")
fast_links.run(master_at_once, 250_000)
assert round(fast_links.elapsed * 1e3, 1) == 12.6

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# All 63 messages then wait at the same time, and the latency counts once in each direction: $2\,\alpha +
# 2(N-1)\,S\,\beta$. That saves 124 latencies, or 2.48 ms, at every size. For one number this is nearly everything: 0.04
# ms are left, less than a tree needs. For 1 MB it is a sixth of the time, because the bytes pass through one link as
# before.
#
# Do not trust the 0.04 ms too far. In this model all of $\alpha$ is waiting, and waiting costs nobody anything. On a
# real machine a part of it is work that the processor of rank 0 does for every single message. The LogP model of
# Culler and others calls this part the overhead, and it adds up 63 times.
#
# </details>
#
# **Waiting for messages at once hides latencies. It does not hide bytes.**
#
# ## One slow link
#
# So far all links were alike. Now one of four links is slow: it has ten times the latency, and a tenth of the
# bandwidth.


# %%
class OneSlowLink(Cluster):
    def link(self, src: int, dst: int) -> Link:
        return SLOW_LINK if (src, dst) == (0, 1) else FAST_LINK

    def uniform_link(self) -> None:
        """There is no link that stands for all."""


FAST_LINK, SLOW_LINK = Link(1e-5, 1e9), Link(1e-4, 1e8)
clusters = {
    "four fast links": Cluster.flat(4, FAST_LINK),
    "one slow link": OneSlowLink.flat(4, FAST_LINK),
}

# %%
guess_3 = predict(
    "A ring of 4 ranks, 1 MiB. One link of the four is ten times slower. The all-reduce takes …",
    choices=["nearly as long", "about 3 times as long", "10 times as long"],
)

# %%
took = {}
for name, cluster in clusters.items():
    ranks = SimulatedWorld(4, cluster)
    ranks.run(without_numbers, 1 << 20, "ring")
    took[name] = ranks.elapsed * 1e3
    print(f"{name}: {took[name]:.2f} ms")
factor = took["one slow link"] / took["four fast links"]
print(guess_3.compare(f"{factor:.0f} times as long"))

# %% [markdown]
# In each step every rank waits for the message of the rank before it, so the slow link delays the whole ring, step by
# step.
#
# **A ring is as slow as its slowest link.**
#
# A master uses a slow link only for the ranks behind it. So here it can win, although it never wins on equal links:

# %%
MACHINES = Cluster(2, 4, intra=Link(1e-6, BANDWIDTH), inter=Link(LATENCY, BANDWIDTH))
two_machines = SimulatedWorld(8, MACHINES)
print("2 machines of 4 ranks, one number:")
for name in ("ring", "naive"):
    two_machines.run(without_numbers, 4, name)
    took[name] = two_machines.elapsed * 1e6
    print(f"    {name:5} {took[name]:.0f} µs")

# %% tags=["folded"]
# Checks of the numbers above
assert 9.9 < factor < 10.1
assert took["naive"] < 0.7 * took["ring"]
for ranks in (3, 7, 12):  # on equal links it never wins
    for link in (Link(LATENCY, BANDWIDTH), Link(1e-3, 1e6)):
        seconds = {}
        for name in ("ring", "naive"):
            other = SimulatedWorld(ranks, Cluster.flat(ranks, link))
            other.run(without_numbers, ranks * 4000, name)
            seconds[name] = other.elapsed
            in_a_step = 4000 if name == "ring" else 4000 * ranks
            formula = 2 * (ranks - 1) * (link.latency + in_a_step / link.bandwidth)
            assert math.isclose(other.elapsed, formula)
        assert seconds["naive"] > seconds["ring"]

# %% [markdown]
# [Lesson 03b](03b_networks.ipynb) has better algorithms for such machines.
#
# ## When the ring of whole tensors wins
#
# The ring of whole tensors takes $(N-1)\,(\alpha + S\beta)$. That is half as many steps as a ring of chunks, with
# larger messages.
#
# **Try it.** Compare it with the ring on the 64 fast links, for small and for large tensors. Where do the two meet?


# %%
def whole_without_numbers(comm: Communicator, length: int) -> None:
    is_it_a_ring(comm, torch.empty(length, device="meta"))


for size in (4_000,):  # add sizes
    fast_links.run(whole_without_numbers, size // 4)
    whole_ms, ring_ms = fast_links.elapsed * 1e3, milliseconds(size, "ring")
    print(f"{size:11,} bytes: {whole_ms:.2f} ms, ring {ring_ms:.2f} ms")

# %% tags=["folded"]
# One way to do it
whole, ring = {}, {}
for size in (4, 4_000, 100_000, 200_000, 400_000, 1_000_000):
    fast_links.run(whole_without_numbers, size // 4)
    whole[size], ring[size] = fast_links.elapsed * 1e3, milliseconds(size, "ring")
    assert (whole[size] < ring[size]) == (size <= 200_000)
    formula = (RANKS - 1) * (LATENCY + size / BANDWIDTH)
    assert math.isclose(whole[size], 1e3 * formula)
assert 206e3 < RANKS / (RANKS - 2) * LATENCY * BANDWIDTH < 207e3
sweep(
    {"whole tensors": whole, "chunks": ring},
    along="bytes",
    title="Two rings on 64 ranks",
    subtitle="milliseconds",
)

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# For small tensors it is twice as fast as the ring of chunks, because it has half the steps. A tree is faster still.
# The two rings meet at $S = \frac{N}{N-2}\,\frac{\alpha}{\beta}$, here a little above 200 kB.
#
# </details>
#
# **Small tensors want few steps, and large tensors want small messages.**
#
# ## On a real clock
#
# Your computer has no network between its ranks, so we give it one: `World(4, network=…)` holds every message back for
# as long as the link would need. The processes, the tensors and the clock are real. The links are slow, with 10 ms and
# 20 MB/s, so that the delays of the computer itself matter little.


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


PACED = Link(latency=10e-3, bandwidth=20e6)
STEPS = {"ring": 6, "naive": 6, "tree": 4}  # on 4 ranks


def formula_ms(length: int, name: str) -> float:
    in_a_step = 4 * length / (4 if name == "ring" else 1)
    return 1e3 * STEPS[name] * (PACED.latency + in_a_step / PACED.bandwidth)


with World(4, network=PACED) as paced:
    for length in (1, 100_000, 500_000):
        print(f"{4 * length:9,} bytes:")
        for name in STEPS:
            ms = max(paced.run(median_ms, length, name, 3))
            print(
                f"    {name:5} {ms:5.0f} ms, formula {formula_ms(length, name):3.0f} ms"
            )

# %% [markdown]
# Compare each time with its formula. For one number ring and master are equally fast, and the tree is faster. For 2 MB
# the ring is far ahead of both. If your computer is busy, the times are longer, most of all for the ring, because each
# of its steps waits for all four ranks.
#
# Without `network=`, messages go as fast as the computer moves them:

# %%
real = {
    (length, name): max(world.run(median_ms, length, name, 15))
    for length in (1, 10_000, 1_000_000)
    for name in STEPS
}
for length in (1, 10_000, 1_000_000):
    times = "   ".join(f"{name} {real[length, name]:7.2f} ms" for name in STEPS)
    print(f"{4 * length:9,} bytes:   {times}")

here = real[1_000_000, "naive"] / real[1_000_000, "ring"]
slow = formula_ms(1_000_000, "naive") / formula_ms(1_000_000, "ring")
print(f"At 4 MB the master takes {here:.1f} times as long as the ring here.")
print(f"On the slow links it would take {slow:.1f} times as long.")

# %% tags=["folded"]
# Checks of the numbers above and below
assert round(slow, 1) == 3.5
messages = {name: len(trace_of(name, 4, 1_000_000).messages) for name in STEPS}
assert (messages["naive"], messages["ring"]) == (6, 24)

# %% [markdown]
# The factor here is usually smaller than on the slow links, and where it is less than 1, the master is faster. The
# formula asks for the busiest *link*, but here there are no links, because all four ranks share one memory and the same
# few cores. In total, ring and master move the same bytes, so the ring can gain only as much as your cores can work at
# the same time. And the ring sends 24 messages where the master sends 6. Each message costs the processor some work,
# and in each of its six steps the ring waits until every rank has had its turn on a core.
#
# **A laptop without a network cannot show that a ring is fast. A network can: simulated, paced or real.**
#
# ## In real frameworks
#
# `dist.all_reduce` takes any length, as ours does. Its halves differ: `dist.reduce_scatter` takes a list of chunks,
# which may have different lengths. `dist.reduce_scatter_tensor`, which FSDP uses, wants a length that divides by the
# number of ranks, so FSDP pads what it shards with numbers that nobody reads.


# %%
def ten_numbers(comm: Communicator) -> tuple[list[float], list[float], list[float]]:
    tensor = torch.arange(10.0) * 10**comm.rank
    ours, whole = tensor.clone(), tensor.clone()
    chunks = list(torch.tensor_split(tensor, comm.world_size))
    mine = torch.empty_like(chunks[comm.rank])
    all_reduce(comm, ours, algorithm="ring")
    with torch_distributed(comm, "gloo"):
        dist.all_reduce(whole)
        dist.reduce_scatter(mine, chunks)
    return ours.tolist(), whole.tolist(), mine.tolist()


for rank, (ours, whole, mine) in enumerate(world.run(ten_numbers)):
    print(f"rank {rank} keeps {mine}")
    assert ours == whole == [1111.0 * number for number in range(10)]
    assert len(mine) == chunk_lengths(10, 4)[rank]

# %%
world.close()

# %% [markdown]
# ## In short
#
# - In a short step of the ring, every rank sends and receives at the same time.
# - A ring takes any length. Its ranks send the same, up to two numbers.
# - A ring is as slow as its slowest link.
# - Small tensors want few steps, and large tensors want small messages.
# - A laptop without a network cannot show that a ring is fast.
#
# ## Now you
#
# In [the exercise](../exercises/02_all_reduce/02_all_reduce.ipynb) your ring has to take lengths that do not divide.
# Then go on with [Trees](03_trees_and_grids.ipynb).
#
# ## Further reading
#
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. When to use which algorithm, with the same α–β model.
# - D. Culler and others, [LogP: towards a realistic model of parallel
#   computation](https://doi.org/10.1145/155332.155333), PPoPP 1993. Tells the time that a message is under way from the
#   time that it costs a processor.
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of
#   workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), Journal of Parallel and Distributed Computing
#   69(2), 2009. What a ring needs of a network, so that its messages do not share a link.
