# %% [markdown]
# # Trees and grids
#
# All ranks have to agree on a single number, the norm of their gradients. On 1,024 ranks, a ring sends 2,046 messages
# one after another for these four bytes. At 5 µs each, every training step waits 10 ms for one number. A tree needs 20
# messages in a row.
#
# > After this lesson you will be able to
# >
# > - say what an all-reduce costs from four numbers: ranks, bytes, latency, bandwidth,
# > - draw a tree, halving and doubling, and a grid, and count their steps and bytes,
# > - predict which all-reduce is the fastest for a cluster and a size,
# > - check such a prediction on real processes, and say when not to trust it.
# >
# > **Time:** about 75 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU. Afterwards comes [the
# > exercise](../exercises/03_trees_and_grids/03_trees_and_grids.ipynb). [Lesson 03b](03b_networks.ipynb) goes on where
# > this one ends: with two trees at once, many nodes and 4,096 ranks. It is optional.

# %% tags=["folded"]
# The imports
import statistics
import textwrap
import time

import torch

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    World,
    all_reduce,
    calibrate,
    choose_all_reduce,
)
from distlib.collectives import (
    grid_all_reduce,
    halving_doubling_all_reduce,
    tree_all_reduce,
)
from distlib.draw import (
    play_chunks,
    play_timeline,
    predict,
    predicted_and_measured,
    race,
    timeline,
    watch_chunks,
)
from distlib.network import ALL_REDUCES, all_reduce_seconds, crossover_bytes
from distlib.worlds.calibration import compare

KIB, MIB = 2**10, 2**20
assert 2 * 1023 == 2046 and round(2046 * 5e-3) == 10  # messages in a row, and ms

# %% [markdown]
# ## What one message costs
#
# The ring sends as few bytes as possible. Yet it loses badly when a small tensor is summed over many ranks. To see why,
# take one message. It costs a latency $\alpha$, however small it is, and $\beta$ seconds for every byte.
#
# $$T(m) = \alpha + m\,\beta$$
#
# The bandwidth is $1/\beta$. For this lesson we take a network with $\alpha$ = 5 µs and a bandwidth of 10 GB/s. That is
# no particular machine. The numbers are easy to calculate with.

# %%
FAR = Link(latency=5e-6, bandwidth=10e9)

# %%
guess_1 = predict(
    "One message has 4 bytes, another one 5,000. How much longer does that one take?",
    choices=["10 %", "twice as long", "1,000 times as long"],
)


# %%
def one_message(comm: Communicator, nbytes: int) -> None:
    tensor = torch.zeros(nbytes // 4)
    if comm.rank == 0:
        comm.send(tensor, dst=1)
    else:
        comm.recv(tensor, src=0)


pair = SimulatedWorld(2, Cluster.flat(2, FAR))
taken = {}
print("     bytes   time, µs   of which latency")
for nbytes in [4, 5_000, 50_000, 500_000, 50_000_000]:
    pair.run(one_message, nbytes)
    taken[nbytes] = pair.elapsed
    share = FAR.latency / pair.elapsed
    print(f"{nbytes:10,} {pair.elapsed * 1e6:10,.1f} {share:12.0%}")

print(guess_1.compare("10 %"))

# %% tags=["folded"]
# Checks of the numbers above
assert all(abs(time - FAR.seconds(nbytes)) < 1e-12 for nbytes, time in taken.items())
assert round(taken[5_000] / taken[4], 2) == 1.1
assert round(FAR.latency * FAR.bandwidth) == 50_000 and taken[50_000] == 2 * FAR.latency

# %% [markdown]
# At $\alpha/\beta$ = 50 kB, latency and bytes cost the same. A message ten times smaller is almost only latency, one
# ten times larger almost only bytes. Remember this size. It decides what "small" means on a network.
#
# ## The ring, when there are many ranks
#
# A ring of $N$ ranks takes $2(N-1)$ steps, and in each step every rank sends a chunk of $S/N$ bytes:
#
# $$T_\text{ring} = 2(N-1)\,\alpha + 2\,\frac{N-1}{N}\,S\,\beta$$
#
# The second part hardly grows with $N$. The first part does. (*Step* and *round* mean what they meant in
# [lesson 01](01_messages.ipynb).)

# %%
guess_2 = predict(
    "1,024 ranks sum up 4 KiB in a ring. How long does it take?", unit="ms"
)


# %%
def seconds(algorithm: str, cluster: Cluster, nbytes: int) -> float:
    """What the formula of an all-reduce of `nbytes` says."""
    return all_reduce_seconds(algorithm, cluster, nbytes // 4, itemsize=4)


def flat(world_size: int, link: Link = FAR) -> Cluster:
    """Ranks that all have the same link to each other."""
    return Cluster.flat(world_size, link)


print(" ranks      tensor   time, ms   of which latency")
shares = {}
for n in [8, 64, 1024]:
    for name, nbytes in [("4 KiB", 4 * KIB), ("400 MiB", 400 * MIB)]:
        total, latency = seconds("ring", flat(n), nbytes), 2 * (n - 1) * FAR.latency
        shares[n, name] = latency / total
        print(f"{n:6,} {name:>11} {total * 1e3:10.2f} {shares[n, name]:12.1%}")

print(guess_2.compare(seconds("ring", flat(1024), 4 * KIB) * 1e3, source="the formula"))

# %% tags=["folded"]
# Checks of the numbers above and below
assert 2 * (1024 - 1) == 2046 and 4 * KIB / 1024 == 4 and FAR.seconds(4 * KIB) < 6e-6
assert round(seconds("ring", flat(1024), 4 * KIB) * 1e3) == 10
assert shares[1024, "4 KiB"] > 0.999 and round(shares[1024, "400 MiB"], 2) == 0.11
assert 64 * 400 * MIB == 25 * 2**30

# %% [markdown]
# With 4 KiB and 1,024 ranks, a chunk is one number of 4 bytes. It waits for 2,046 latencies, one after the other:
# 10 ms, for a tensor that one message would carry in less than 6 µs. Even with 400 MiB, 11 % of the time is waiting.
#
# These times come from the formula. Is it true? We run the ring on simulated ranks and compare. The tensors here are on
# torch's `meta` device: they have a shape, but no numbers and no memory. Otherwise 64 ranks with 400 MiB each would
# need 25 GiB.


# %%
def without_numbers(comm: Communicator, length: int, algorithm: str) -> None:
    all_reduce(comm, torch.empty(length, device="meta"), algorithm=algorithm)


def run_on(cluster: Cluster, nbytes: int, algorithm: str) -> SimulatedWorld:
    """Run an all-reduce on simulated ranks, for its time and its messages."""
    ranks = SimulatedWorld(cluster.world_size, cluster)
    ranks.run(without_numbers, nbytes // 4, algorithm)
    return ranks


for n in [8, 64]:
    for nbytes in [4 * KIB, 400 * MIB]:
        ring = run_on(flat(n), nbytes, "ring")
        formula = seconds("ring", flat(n), nbytes)
        times = f"simulated {ring.elapsed * 1e3:.4f} ms, formula {formula * 1e3:.4f} ms"
        print(f"{n:2} ranks, {nbytes:11,} bytes: {times}, {ring.trace.rounds} rounds")
        assert abs(ring.elapsed / formula - 1) < 1e-9
        assert ring.trace.rounds == 2 * (n - 1)

# %% [markdown]
# They agree to nine digits. Where all links are equal that holds for every formula of this lesson; a folded cell
# further down checks them all. So we may use the formulas where a run would take too long.
#
# **Try it.** For your 1,024 ranks and 4 KiB somebody sells you a better network: with ten times the bandwidth, or with
# half the latency. Change one number of `better`, run, then the other one. Which offer do you take?

# %%
better = Link(latency=5e-6, bandwidth=10e9)

old, new = (seconds("ring", flat(1024, link), 4 * KIB) * 1e3 for link in (FAR, better))
print(f"{old:.3f} ms before, {new:.3f} ms with the better network")

# %% tags=["folded"]
# One way to do it
ten_times_wider, half_the_latency = Link(5e-6, 100e9), Link(2.5e-6, 10e9)
for offer in (ten_times_wider, half_the_latency):
    new = seconds("ring", flat(1024, offer), 4 * KIB) * 1e3
    print(f"{offer}: {new:.3f} ms, {old / new:.2f} times as fast")
assert seconds("ring", flat(1024, ten_times_wider), 4 * KIB) * 1.001 > old / 1e3
assert round(old / new, 1) == 2.0

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# The wider network gains less than a thousandth. Bandwidth can be bought. Latency comes from distances, switches and
# software, and is much harder to get rid of. What we can change is how many latencies we wait for.
#
# </details>
#
# ## A tree: few steps
#
# In lesson 01 a broadcast went down a tree. Every rank that has the tensor can pass it on, so the number of ranks that
# have it doubles in each step. A reduce goes up the same tree. One after the other they are an all-reduce.
#
#     up      1 ──► 0    3 ──► 2    5 ──► 4    7 ──► 6       distance 1
#             2 ───────► 0          6 ───────► 4             distance 2
#             4 ─────────────────► 0                         distance 4: rank 0 has the sum
#     down    0 ─────────────────► 4                         distance 4
#             …                                              and back through the same pairs

# %%
small_tree = run_on(flat(8), 4 * KIB, "tree")
timeline(small_tree.trace, title="All-reduce by a tree: up to rank 0, and down again")

# %% tags=["folded"]
# Checks of the numbers around here
assert sum(small_tree.trace.messages_sent) == 14 and small_tree.trace.rounds == 6
for n in [8, 64, 65]:
    tree = run_on(flat(n), 4 * KIB, "tree")
    assert round(tree.elapsed / FAR.seconds(4 * KIB), 9) == 2 * (n - 1).bit_length()
    assert abs(tree.elapsed - seconds("tree", flat(n), 4 * KIB)) < 1e-12

# %% [markdown]
# Up and down take $\lceil\log_2 N\rceil$ steps each: 12 for 64 ranks, where the ring takes 126. But in every step the
# whole tensor moves:
#
# $$T_\text{tree} = 2\,\lceil\log_2 N\rceil\,(\alpha + S\,\beta)$$
#
# Half of the ranks send once, at the start, and then wait until the end.
#
# Three all-reduces, two sizes. For 4 KiB the tree is sure to win. What about a large tensor?

# %%
guess_3 = predict(
    "64 ranks, 400 MiB each. Order them, the fastest first.",
    order=["master", "ring", "tree"],
)

# %%
names = {"naive": "master", "ring": "ring", "tree": "tree"}
print("64 ranks       master         ring         tree")
for label, nbytes in [("4 KiB", 4 * KIB), ("400 MiB", 400 * MIB)]:
    times = {name: seconds(name, flat(64), nbytes) * 1e3 for name in names}
    print(f"{label:>8} " + " ".join(f"{time:9.2f} ms" for time in times.values()))

ordered = sorted(times, key=lambda name: times[name])
print(guess_3.compare([names[name] for name in ordered], source="the formula"))

# %% tags=["folded"]
# Checks of the numbers above and below
assert ordered == ["ring", "tree", "naive"]
assert seconds("ring", flat(64), 4 * KIB) > 9 * seconds("tree", flat(64), 4 * KIB)
assert seconds("tree", flat(64), 400 * MIB) > 6 * seconds("ring", flat(64), 400 * MIB)
assert seconds("naive", flat(64), 4 * KIB) > seconds("ring", flat(64), 4 * KIB)

# %% [markdown]
# For 4 KiB the tree is more than nine times as fast as the ring. For 400 MiB it takes more than six times as long. The
# master loses to the ring in both rows: it takes 126 steps as well, and each with the whole tensor.
#
# **Try it.** Five ranks sum up by a tree, and one of them comes too late. Change `late`. Which rank can be two steps
# late without anybody noticing? Look at the picture, guess, then run.

# %%
late = 1

STEP = FAR.seconds(4 * KIB)


def tree_with_a_late_rank(comm: Communicator, late: int | None) -> None:
    if comm.rank == late:
        comm.sleep(2 * STEP)
    tree_all_reduce(comm, torch.empty(KIB, device="meta"))


five = SimulatedWorld(5, flat(5))
five.run(tree_with_a_late_rank, None)
on_time = five.elapsed
five.run(tree_with_a_late_rank, late)
delay = (five.elapsed - on_time) / STEP
print(f"rank {late} is two steps late, the sum {delay:.1f} steps")
timeline(five.trace, title="A tree of five ranks, one of them late")

# %% tags=["folded"]
# One way to do it
delays = []
for rank in range(5):
    five.run(tree_with_a_late_rank, rank)
    delays.append(round((five.elapsed - on_time) / STEP, 6))
    print(f"rank {rank}: {delays[rank]:.1f} steps later")
print("Rank 4 has nobody below it, and its turn comes only in step 3.")
assert delays == [2, 2, 2, 2, 0]

# %% [markdown]
# The ring has few bytes and many steps, the tree few steps and many bytes. Can one have few of both?
#
# ## Halving and doubling: few steps and few bytes
#
# Let pairs of ranks share the work. Rank 0 and its partner each have a full tensor. Rank 0 gives away the second half
# and gets the partner's first half, which it adds to its own. Each is now responsible for one half. Then each finds
# another partner with the same half, and they share that. This is **halving**. When every rank is responsible for one
# chunk, the chunk is complete.
#
# Then they go back through the same partners, and each gives a copy of what it has. This is **doubling**.
#
# Play it, on four real processes. As in the last lesson, space plays, ← and → go one step, and when you point at
# something, you see what it is.

# %%
world = World(4)
history = watch_chunks(world, halving_doubling_all_reduce)
play_chunks(history, title="Halving (rounds 1 and 2), then doubling (rounds 3 and 4)")

# %% [markdown]
# In round 1 the partner is two ranks away, and half of the tensor moves: two of the four chunks. In round 2 the partner
# is next door, and one chunk moves. Then the same backwards: one chunk, two chunks.

# %%
guess_4 = predict(
    "8 ranks: 6 rounds instead of the ring's 14. How many bytes does a rank send?",
    choices=["fewer than in the ring", "as many", "more"],
)

# %%
halving = run_on(flat(8), 8 * MIB, "halving_doubling")
ring = run_on(flat(8), 8 * MIB, "ring")
print("MiB that rank 0 sends")
for name, run in [("halving and doubling", halving), ("ring", ring)]:
    parts = [message.nbytes / MIB for message in run.trace if message.src == 0]
    print(f"{name:20} {sum(parts):g} = " + " + ".join(f"{part:g}" for part in parts))

print(guess_4.compare("as many"))

# %% tags=["folded"]
# Checks of the numbers above
assert history.full_sums == [0, 0, 4, 8, 16]
halves = [message.nbytes / MIB for message in halving.trace if message.src == 0]
assert halves == [4, 2, 1, 1, 2, 4]
assert halving.trace.bytes_sent == ring.trace.bytes_sent == [14 * MIB] * 8
assert (halving.trace.rounds, ring.trace.rounds) == (6, 14)

# %% [markdown]
# A half, a quarter, an eighth, and back. With $N$ ranks that adds up to $2\frac{N-1}{N}S$, exactly what a rank in the
# ring sends: the least possible (lesson 02). The steps are those of the tree.
#
# $$T_\text{halving-doubling} = 2\,\log_2 N\,\alpha + 2\,\frac{N-1}{N}\,S\,\beta$$

# %%
print("64 ranks       ring         tree   halving-doubling")
for label, nbytes in [("4 KiB", 4 * KIB), ("400 MiB", 400 * MIB)]:
    names = ("ring", "tree", "halving_doubling")
    times = [seconds(name, flat(64), nbytes) * 1e3 for name in names]
    print(f"{label:>8} {times[0]:8.2f} ms {times[1]:9.2f} ms {times[2]:15.2f} ms")
    assert min(times) == times[2]

# %% [markdown]
# ### Now one rank more
#
# All that works for 2, 4, 8, 16 ranks, and so on. What if there are 65? The simplest way is a **fold**: before the
# start the extra rank hands its whole tensor to a neighbor, which stands in for both. At the end it gets the whole
# result back.

# %%
guess_5 = predict("64 ranks need 83 ms for 400 MiB. How long do 65 need?", unit="ms")

# %%
just_right = run_on(flat(64), 400 * MIB, "halving_doubling").elapsed * 1e3
one_more = run_on(flat(65), 400 * MIB, "halving_doubling").elapsed * 1e3
print(f"64 ranks: {just_right:.1f} ms, 65 ranks: {one_more:.1f} ms")
print(guess_5.compare(one_more))

# %% [markdown]
# One rank more, and the all-reduce takes twice as long. The whole tensor goes in and out once more, and in the meantime
# hardly any rank does anything. With six ranks you can see it. Ranks 0 and 2 hand over their tensors to 1 and 3, and
# wait. Ranks 4 and 5 wait for the others before they can begin: the hatched bars.

# %%
six = run_on(flat(6), 48 * KIB, "halving_doubling")
timeline(six.trace, title="Halving and doubling with 6 ranks: 0 and 2 only watch")

# %% tags=["folded"]
# Checks of the numbers above, and of every formula against the simulator
assert round(just_right) == 83 and 2 < one_more / just_right < 2.1
assert six.trace.messages_sent == [1, 5, 1, 5, 4, 4]
for name in ("naive", "ring", "tree", "halving_doubling", "grid"):
    for link in (FAR, Link(1e-3, 50e6), Link(1e-6, 100e9)):
        for n, nbytes in [(2, 4), (5, 4 * KIB), (8, MIB), (13, MIB + 12)]:
            expected = seconds(name, flat(n, link), nbytes)
            run = run_on(flat(n, link), nbytes, name)
            assert abs(run.elapsed / expected - 1) < 1e-9

# %% [markdown]
# Is that the price of every number that is not a power of two? No. It is the price of *this fold*, the simplest one,
# which you will write in the exercise (with other pairs). People have done better:
#
# - Rabenseifner and Träff (2004) halve the extra cost.
# - gloo's older version breaks 24 ranks up into blocks of 16 and 8, which [should still perform relatively
#   well](https://github.com/pytorch/gloo/blob/main/docs/algorithms.md) ("binary blocks").
# - Träff (2024) found partners for any number of ranks: 65 of them then need hardly longer than 64. Lesson 03b has it,
#   in twenty lines.
#
# **Try it.** 1 MiB on 64 and on 65 ranks. Change `latency` until the ring wins on 65 ranks. Is there a latency for
# which it wins on 64?

# %%
latency = 5e-6


def ring_and_halving(n: int, latency: float) -> tuple[float, float]:
    """Microseconds of both for 1 MiB on n ranks."""
    cluster = flat(n, Link(latency, bandwidth=10e9))
    ring = seconds("ring", cluster, MIB) * 1e6
    halving = seconds("halving_doubling", cluster, MIB) * 1e6
    print(f"{n} ranks: ring {ring:.0f} µs, halving and doubling {halving:.0f} µs")
    return ring, halving


for n in (64, 65):
    ring_and_halving(n, latency)

# %% tags=["folded"]
# One way to do it
for latency in (2e-6, 1.5e-6, 0.0):
    print(f"latency {latency * 1e6:g} µs")
    for n in (64, 65):
        ring, halving = ring_and_halving(n, latency)
        assert (ring < halving - 1e-9) == (n == 65 and latency < 1.8e-6)
print("On 64 ranks both send as many bytes, so without any latency they are equal.")

# %% [markdown]
# ## A grid: a ring in two dimensions
#
# Put the ranks into rows and columns. Reduce-scatter along each row: every rank has one chunk of its row's sum.
# All-reduce these chunks along each column: now they are complete. All-gather along each row. Every part is a ring, but
# a short one.
#
#     row 0    rank 0 ── rank 1 ── rank 2       1. reduce-scatter along the rows
#                │         │         │          2. all-reduce along the columns
#     row 1    rank 3 ── rank 4 ── rank 5       3. all-gather along the rows

# %%
grid = run_on(flat(6), 48 * KIB, "grid")
play_timeline(grid.trace, title="A grid of 2 rows and 3 columns: rows, columns, rows")

# %% [markdown]
# Rounds 1 and 2 stay inside the rows (ranks 0 to 2, ranks 3 to 5), 3 and 4 cross them, 5 and 6 stay inside again.

# %%
guess_6 = predict(
    "64 ranks (a grid of 8 × 8), 1 MiB. Order them, the fastest first.",
    order=["grid", "halving and doubling", "ring", "tree"],
)

# %%
names = ("grid", "halving_doubling", "ring", "tree")
runs = {name.replace("_", " and "): run_on(flat(64), MIB, name) for name in names}
for name, run in runs.items():
    sent, rounds = max(run.trace.bytes_sent) / MIB, run.trace.rounds
    steps = f"{rounds:3} rounds, at most {sent:.2f} MiB sent by a rank"
    print(f"{name:21} {run.elapsed * 1e3:.2f} ms, {steps}")

ordered = sorted(runs, key=lambda name: runs[name].elapsed)
print(guess_6.compare(ordered))

# %% tags=["folded"]
# Checks of the numbers above and below
across = {m.round for m in grid.trace if m.src % 3 == m.dst % 3}
assert across == {3, 4} and grid.trace.rounds == 6
assert ordered == ["halving and doubling", "grid", "ring", "tree"]
assert runs["grid"].trace.rounds == 2 * (8 - 1) + 2 * (8 - 1) == 28
assert runs["ring"].trace.rounds == 126
assert runs["grid"].trace.bytes_sent == runs["ring"].trace.bytes_sent
assert seconds("grid", flat(997), 40 * MIB) == seconds("ring", flat(997), 40 * MIB)

# %% [markdown]
# With $R$ rows and $C$ columns there are $2(C-1) + 2(R-1)$ rounds instead of $2(RC-1)$, and the bytes are the same, to
# the last one. A grid also suits machines whose cables form rings in two directions (a *torus*), because every rank
# talks to its neighbors only. But it needs a number of ranks that can be split well. 997 is a prime number: its grid
# has one row, and is a ring.
#
# ### Rows that are nodes
#
# So far every link was as good as every other one. In a real cluster some GPUs are in the same **node**, joined by fast
# links. Others are reached only over the network. Say 1 µs and 100 GB/s inside a node, and between nodes the 5 µs and
# 10 GB/s from before. Does that help the ring?

# %%
guess_7 = predict(
    "A ring of 16 slow links. Then 14 of them become 10 times as fast. The time?",
    choices=["about an eighth", "about half", "the same"],
)

# %%
NEAR = Link(latency=1e-6, bandwidth=100e9)
two_nodes = Cluster(nodes=2, ranks_per_node=8, intra=NEAR, inter=FAR)
all_slow = run_on(flat(16), 8 * MIB, "ring").elapsed * 1e3
two_slow = run_on(two_nodes, 8 * MIB, "ring").elapsed * 1e3
print(f"ring, 8 MiB: {all_slow:.3f} ms with slow links, {two_slow:.3f} ms on two nodes")
print(guess_7.compare("the same"))

# %% [markdown]
# A ring is as fast as its slowest link. In every step the fast links wait for the two slow ones, which carry 15 MiB
# each. The grid has the answer, if its *rows are the nodes*. Then the long part, along the rows, uses fast links only.
# What has to cross to the other node crosses in the columns, and all ranks share it: 1 MiB over each of 16 slow links.
# (On its own the library makes the grid as square as it can, here 4 × 4. `columns=8` makes the rows the nodes.)


# %%
def grid_without_numbers(comm: Communicator, length: int, columns: int) -> None:
    grid_all_reduce(comm, torch.empty(length, device="meta"), columns=columns)


sixteen = SimulatedWorld(16, two_nodes)
sixteen.run(grid_without_numbers, 2 * MIB, columns=8)
by_nodes = sixteen.elapsed * 1e3
gain = two_slow / by_nodes
print(f"grid, 8 MiB: {by_nodes:.3f} ms, {gain:.1f} times as fast as the ring")

# %% tags=["folded"]
# Checks of the numbers above
assert abs(all_slow - two_slow) < 1e-9
assert 6 < gain < 6.5
slow = [m for m in sixteen.trace if m.src // 8 != m.dst // 8]
assert {m.nbytes for m in slow} == {MIB // 2} and len(slow) == 2 * 16
assert run_on(two_nodes, 8 * MIB, "ring").trace.bytes_sent[7] == 15 * MIB
assert abs(by_nodes / 1e3 - seconds("hierarchical", two_nodes, 8 * MIB)) < 1e-12

# %% [markdown]
# If the columns halve and double instead of going round in rings, this is called **hierarchical**. With two nodes the
# two are the same. Lesson 03b looks at it closely, and exercise 03b has its formula.
#
# ## Which one, when?
#
# If one algorithm has fewer steps and the other sends fewer bytes, their formulas are equal at some size. Below it the
# first is faster, above it the second.

# %%
guess_8 = predict(
    "The bandwidth doubles. The size from which the ring beats the tree …",
    choices=["halves", "stays", "doubles"],
)

# %%
for link in (FAR, Link(FAR.latency, 2 * FAR.bandwidth)):
    meeting = crossover_bytes(flat(64, link), "tree", "ring")
    assert meeting is not None
    small = link.latency * link.bandwidth
    print(f"{link}: from {meeting / 1e3:,.0f} kB on, {meeting / small:.1f} times α/β")
print(guess_8.compare("doubles"))

# %% [markdown]
# On a faster network more tensors are "small", because the latency stays. By hand: set
# $2\cdot63\,\alpha + 2\cdot\frac{63}{64}S\beta$ equal to $2\cdot6\,(\alpha + S\beta)$ and solve for $S$. The result is
# $\alpha/\beta$, the 50 kB from the beginning, times a number that depends only on how many ranks there are.
#
# A picture of all three. Both axes are logarithmic. The band below says which is the fastest.

# %%
sizes = [2**power for power in range(10, 31)]
three = ["ring", "tree", "halving_doubling"]
race(flat(64), sizes, three, title="64 ranks, equal links")

# %% tags=["folded"]
# Checks of the numbers above and below
by_hand = (63 - 6) * 50_000 / (6 - 63 / 64)
for B, expected in [(10e9, by_hand), (20e9, 2 * by_hand)]:
    meeting = crossover_bytes(flat(64, Link(5e-6, B)), "tree", "ring")
    assert abs(meeting / expected - 1) < 0.01
assert crossover_bytes(flat(64), "halving_doubling", "ring") is None  # nowhere behind
for n, beaten in [(64, False), (65, True), (96, True), (128, False)]:
    best = {min(three, key=lambda name: seconds(name, flat(n), size)) for size in sizes}
    assert ("ring" in best) == beaten, (n, best)
    assert best >= {"halving_doubling"}

# %% [markdown]
# On the left everything is latency, and the lines are level. On the right everything is bytes, and they rise. Halving
# and doubling follows the lower one on both sides. With 65 or 96 ranks it would not: the fold costs it the right side.
#
# So an algorithm is not fast or slow. It suits a network, a number of ranks and a size, or it does not.
#
# **Try it.** Here the ring wins. Change the link until the tree wins, with the same 12 ranks and the same 1 MiB. Which
# of its two numbers can do that alone?

# %%
link = Link(latency=5e-6, bandwidth=10e9)

choice = choose_all_reduce(flat(12, link), MIB // 4, itemsize=4)
times = {name: round(choice.seconds[name] * 1e6) for name in ("ring", "tree")}
print(times, "µs: the", min(times, key=lambda name: times[name]), "wins")

# %% tags=["folded"]
# One way to do it
for link in (Link(60e-6, 10e9), Link(5e-6, 120e9)):
    ring, tree = (seconds(name, flat(12, link), MIB) * 1e6 for name in ("ring", "tree"))
    print(f"{link}: ring {ring:.0f} µs, tree {tree:.0f} µs")
    assert tree < ring
print("Either number alone: what counts is how large 1 MiB is compared with α/β.")
ring, tree = (seconds(name, flat(12), MIB) for name in ("ring", "tree"))
assert ring < tree

# %% [markdown]
# If formulas are that good, a program can use them. `choose_all_reduce` evaluates all of the library's and takes the
# fastest. It also says why. Where the links are known, as on simulated ranks, `all_reduce(comm, tensor,
# algorithm="auto")` asks it before it starts. (Elsewhere it follows a rule of thumb for processes of one machine.)

# %%
for nbytes in [4 * KIB, 8 * MIB]:
    choice = choose_all_reduce(two_nodes, nbytes // 4, itemsize=4)
    print(textwrap.fill(str(choice), 88), "\n")
    auto = run_on(two_nodes, nbytes, "auto").elapsed
    best = min(seconds(name, two_nodes, nbytes) for name in ALL_REDUCES)
    assert abs(auto / best - 1) < 1e-9

# %% [markdown]
# ## On a real clock
#
# So far the clock was virtual. Now four real processes, and seconds on the wall.
#
# ### Over a network that is slow enough to see
#
# `World(4, network=Link(…))` holds back every message until that network would have delivered it. Each rank has a link
# of its own: it sends one message after the other, and receives one after the other. The tensors, the processes and the
# waiting are real.

# %%
SLOW = Link(latency=1e-3, bandwidth=50e6)  # 1 ms and 50 MB/s
paced = World(4, network=SLOW)

# %%
guess_9 = predict(
    "4 real ranks, 4 MiB. Order them by the clock, the fastest first.",
    order=["master", "ring", "tree"],
)

# %%
SIZES = [4 * KIB, 64 * KIB, MIB, 4 * MIB]
said = {"naive": "master", "ring": "ring", "tree": "tree"}
clocked = {}
print("ms: model, clock" + "".join(f"{nbytes // KIB:>12,} KiB" for nbytes in SIZES))
for name in said:
    results = compare(paced, flat(4, SLOW), name, SIZES, repeats=3)
    pairs = [f"{r.predicted * 1e3:7.1f},{r.measured * 1e3:7.1f}" for r in results]
    print(f"{said[name]:15} " + " ".join(pairs))
    clocked[said[name]] = results

print(guess_9.compare(sorted(clocked, key=lambda name: clocked[name][-1].measured)))

# %%
predicted_and_measured(clocked, title="1 ms and 50 MB/s: the model and the clock")

# %% [markdown]
# On a machine that has little else to do the points are on the lines. Here the model must hold: every rank has a link
# of its own. If the ring's points are off, other programs hold its ranks up: in each of its six steps all four must be
# awake. Then run the cell again.
#
# One thing is left out. `compare` reads `comm.time()`, which in such a world is the clock of the network. It does not
# count the moments in which a message has arrived and Python is still waking up. The clock on the wall does. Here are
# both, from the first start to the last end of the same run:


# %%
def on_both_clocks(comm: Communicator, name: str) -> list[tuple[float, float]]:
    """Start and end of an all-reduce of 4 MiB: on the network's clock, on the wall."""
    tensor = torch.zeros(MIB)
    comm.barrier()
    start = comm.time(), time.perf_counter()
    all_reduce(comm, tensor, algorithm=name)
    return list(zip(start, (comm.time(), time.perf_counter()), strict=True))


for name in said:
    network_ms, wall_ms = (
        1e3 * (max(end for _, end in of_ranks) - min(start for start, _ in of_ranks))
        for of_ranks in zip(*paced.run(on_both_clocks, name), strict=True)
    )
    print(f"{said[name]:6} 4 MiB: network {network_ms:5.1f} ms, wall {wall_ms:5.1f} ms")
paced.close()

# %% [markdown]
# What the wall clock adds is a part of a millisecond for each message in a chain, and more on a busy machine.
#
# **Try it.** Four ranks and 64 KiB: the ring is a little faster than the tree. Change the network until the tree
# clearly wins, by the clock. (`with` closes the world again.)

# %%
network = Link(latency=1e-3, bandwidth=50e6)


def ring_and_tree(network: Link) -> None:
    with World(4, network=network) as ranks:
        for name in ("ring", "tree"):
            (result,) = compare(ranks, flat(4, network), name, [64 * KIB])
            model, clock = result.predicted * 1e3, result.measured * 1e3
            print(f"{name}: model {model:5.1f} ms, clock {clock:5.1f} ms")


ring_and_tree(network)

# %% tags=["folded"]
# One way to do it
ring_and_tree(Link(latency=20e-3, bandwidth=50e6))  # six latencies against four
meeting = crossover_bytes(flat(4, SLOW), "tree", "ring")
print(f"With 1 ms they meet at {meeting / 1e3:.0f} kB, with 20 ms at 20 times as much.")
later = crossover_bytes(flat(4, Link(20e-3, 50e6)), "tree", "ring")
assert 39e3 < meeting < 41e3 and abs(later / meeting - 20) < 0.01

# %% [markdown]
# ### As fast as the machine goes
#
# Now without a network: the four processes from above, as fast as they can. What are $\alpha$ and $\beta$ of *your*
# machine? `calibrate` lets neighboring ranks exchange messages of several sizes, and fits the two numbers to the times.

# %%
measured = calibrate(world)
print(f"This machine, today: {measured.intra}")
equal = measured.intra.latency * measured.intra.bandwidth
print(f"latency and bytes are equal at {equal / 1e3:,.0f} kB")

# %% [markdown]
# With these two numbers the formulas predict master, ring and tree, from 64 KiB to 16 MiB. Then they are measured.

# %%
LARGER = [64 * KIB * 4**power for power in range(5)]
today = {said[name]: compare(world, measured, name, LARGER, repeats=3) for name in said}
world.close()
for name, results in today.items():
    error = statistics.median(result.error for result in results)
    model = results[-1].predicted / today["ring"][-1].predicted
    clock = results[-1].measured / today["ring"][-1].measured
    times = f"16 MiB: model {model:.1f} times the ring's time, clock {clock:.1f}"
    print(f"{name:6} median error {error:4.0%}. {times}")

# %%
predicted_and_measured(today, title="This machine, today: the model and the clock")

# %% tags=["folded"]
# Checks of what is said above and below
assert seconds("naive", flat(4, SLOW), 4 * MIB) > 3.8 * seconds(
    "ring", flat(4, SLOW), 4 * MIB
)
assert seconds("ring", flat(4, SLOW), 64 * KIB) < seconds(
    "tree", flat(4, SLOW), 64 * KIB
)
for name in said:
    assert sum(run_on(flat(4), MIB, name).trace.bytes_sent) == 6 * MIB

# %% [markdown]
# By the model the master takes four times as long as the ring for 16 MiB. If the clock does not agree, and often even
# puts the master or the tree ahead, there is a reason: **the network of the model is not there.**
#
# - **There is no busiest link.** Your ranks are processes of one machine. All their messages go through the same
#   memory, copied by the same few cores. So the *total* of all bytes counts, and it is the same for all three:
#   $2(N-1)S$.
# - **There are fewer cores than ranks, perhaps.** Then the four take turns, and an algorithm in which all work in every
#   step has no advantage.
# - **Adding takes time.** The model has no term for it. `calibrate` adds too, so a part of it is in its $\beta$.
#
# So is the model wrong? It describes links, and says what happens where there are some. "Which algorithm" it answers
# better than "how many milliseconds": in the races above the fastest and the slowest are far apart, and where two lines
# meet, the choice matters little.
#
# ## In real frameworks
#
# The all-reduces of this lesson and the one of torch, on the same six ranks: first whole numbers, where every order of
# adding gives the same sum, then arbitrary ones.

# %%
import torch.distributed as dist

from distlib import torch_distributed

OURS = ("naive", "ring", "tree", "halving_doubling", "grid")


def ours_and_theirs(comm: Communicator, whole_numbers: bool) -> tuple:
    tensor = torch.randn(1001)
    tensor = (100 * tensor).round() if whole_numbers else tensor
    ours = {name: tensor.clone() for name in OURS}
    for name, copy in ours.items():
        all_reduce(comm, copy, algorithm=name)
    theirs = tensor.clone()
    with torch_distributed(comm, "gloo"):
        dist.all_reduce(theirs)
    return ours, theirs


with World(6) as six_ranks:
    for ours, theirs in six_ranks.run(ours_and_theirs, True):
        assert all(torch.equal(result, theirs) for result in ours.values())
    for ours, theirs in six_ranks.run(ours_and_theirs, False):
        for result in ours.values():
            assert torch.allclose(result, theirs, rtol=1e-5, atol=1e-5)

print("torch.distributed agrees with", ", ".join(OURS))

# %% [markdown]
# Which of them runs there?
#
# - **gloo** takes the ring unless told otherwise. It also contains
#   [another one](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc), a generalization of halving and doubling
#   to groups larger than pairs ("bcube"), and from older days
#   [halving and doubling](https://github.com/pytorch/gloo/blob/main/docs/algorithms.md) itself.
# - **NCCL** has rings and trees, and algorithms that let switches do the adding. It estimates the time of each for the
#   size at hand, and takes the lowest ([a maintainer](https://github.com/NVIDIA/nccl/issues/457)). The
#   [estimate](https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc) is of the kind you have seen here: a
#   latency for each step inside a node, another for each step between nodes, and bytes by bandwidth. With
#   [NCCL_ALGO](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo) you can limit what it
#   chooses from.
# - **MPICH**, a library for MPI, chooses by size: for short tensors an algorithm of $\log_2 N$ steps in which whole
#   tensors move, for long ones halving and doubling (Thakur, Rabenseifner and Gropp, below).
#
# ## In short
#
# - A message is small if it has fewer than α/β bytes: then its latency costs more than its bytes.
# - A tree takes few steps and sends more bytes. A ring sends few bytes and takes more steps.
# - Halving and doubling takes few steps and sends few bytes, but it wants a power of two and equal links.
# - A grid whose rows are nodes sends most bytes over the fast links.
# - Formulas assume private links. What ranks share, you must measure.
#
# | N ranks, S bytes | steps | bytes a rank sends | good for |
# |---|---|---|---|
# | ring | $2(N-1)$ | $2\frac{N-1}{N}S$ | large tensors, any number of ranks, two neighbors each |
# | tree | $2\lceil\log_2 N\rceil$ | up to $\lceil\log_2 N\rceil\,S$ | small tensors |
# | halving and doubling | $2\log_2 N$ | $2\frac{N-1}{N}S$ | powers of two, equal links (unequal ones: lesson 03b) |
# | grid, $R \times C$ | $2(R-1) + 2(C-1)$ | $2\frac{N-1}{N}S$ | large tensors, many ranks, rows that are nodes |
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - $\alpha/\beta$ says which messages are small.
# - Below a crossover steps decide, above it bytes: where all links are alike, and each is used by one message at a
#   time. Where they are not, use the fast ones more (the grid, lesson 03b).
# - What ranks share, no formula of this kind knows. Measure.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/03_trees_and_grids/03_trees_and_grids.ipynb) you write two of these all-reduces
# yourself: the tree, and halving and doubling for any number of ranks.
#
# [Lesson 03b](03b_networks.ipynb) is a side road: two trees at once, many nodes, 4,096 ranks. In [its
# exercise](../exercises/03b_networks/03b_networks.ipynb) you write the grid, the formulas, and a function that chooses.
#
# ## Further reading
#
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. The formulas of this lesson, and measurements.
# - R. Rabenseifner, [Optimization of Collective Reduction
#   Operations](https://doi.org/10.1007/978-3-540-24685-5_1), ICCS 2004. Halving and doubling, also for other numbers of
#   ranks.
# - R. Rabenseifner, J. L. Träff, [More Efficient Reduction Algorithms for Non-Power-of-Two Number of Processors in
#   Message-Passing Parallel Systems](https://fs.hlrs.de/projects/rabenseifner/publ/myreduce_pvmmpi2004_talk.pdf),
#   EuroPVM/MPI 2004. The better fold: 3Sβ instead of 4Sβ.
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of
#   workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), Journal of Parallel and Distributed Computing
#   69(2), 2009. The lower bound that ring, grid and halving and doubling meet.
# - H. Mikami et al., [Massively Distributed SGD: ImageNet/ResNet-50 Training in a
#   Flash](https://arxiv.org/abs/1811.05233), 2018. The grid.
# - R. W. Hockney, [The Communication Challenge for MPP: Intel Paragon and Meiko
#   CS-2](https://doi.org/10.1016/S0167-8191%2806%2980021-9), Parallel Computing 20(3), 1994. The two numbers, and
#   how to measure them.
