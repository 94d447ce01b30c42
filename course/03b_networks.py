# %% [markdown]
# # Grids, two trees, many nodes
#
# On 1,024 GPUs the all-reduce of your gradients takes 8.5 ms. At night some machines break, and the job starts again on
# 997 GPUs. Now the same all-reduce takes twice as long, with fewer ranks, the same tensor and the same links. What went
# wrong?
#
# **This lesson is optional.** It goes on where [Trees](03_trees_and_grids.ipynb) ends, and no later lesson needs it.
#
# > After this lesson you will be able to
# >
# > - add up on a grid, and say when a grid is better than a ring,
# > - say what NCCL's double binary tree is, and show the order in which its blocks move,
# > - write an all-reduce with few steps and few bytes for *any* number of ranks,
# > - keep traffic off the slow links between nodes, and see what a shared link or a bad numbering of ranks costs,
# > - run an all-reduce on 4,096 simulated ranks, and find places where the formulas mislead,
# > - check a prediction on real processes, and say when not to trust it.
# >
# > **Time:** about 85 minutes; a good place for a break is before "When links are not equal". **You need:**
# > [Trees](03_trees_and_grids.ipynb). No GPU. Afterwards comes [the
# > exercise](../exercises/03b_networks/03b_networks.ipynb).

# %% tags=["folded"]
# The imports
import statistics
import textwrap
from collections.abc import Callable
from time import perf_counter

import torch

from distlib import (
    ALL_REDUCES,
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    Trace,
    World,
    all_reduce,
    all_reduce_seconds,
    calibrate,
    choose_all_reduce,
    compare,
    crossover_bytes,
    crossover_nodes,
    double_tree_all_reduce,
    duration,
    grid_all_reduce,
    halving_doubling_all_reduce,
    hierarchical_all_reduce,
    moves_up,
    ring_all_reduce,
    traffic,
    two_trees,
)
from distlib.draw import (
    explore_race,
    play_timeline,
    predict,
    predicted_and_measured,
    race,
    timeline,
)

# %% tags=["folded"]
# Links, what the formulas say, and runs on simulated ranks, as in the lesson before
KIB, MIB = 2**10, 2**20
FAR = Link(latency=5e-6, bandwidth=10e9)
NEAR = Link(latency=1e-6, bandwidth=100e9)


def flat(world_size: int, link: Link = FAR) -> Cluster:
    """Ranks that all have the same link to each other."""
    return Cluster.flat(world_size, link)


def seconds(algorithm: str, cluster: Cluster, nbytes: int) -> float:
    """What the formula of an all-reduce of `nbytes` says."""
    return all_reduce_seconds(algorithm, cluster, nbytes // 4, itemsize=4)


def without_numbers(comm: Communicator, length: int, algorithm: str) -> None:
    all_reduce(comm, torch.empty(length, device="meta"), algorithm=algorithm)


def run_on(cluster: Cluster, nbytes: int, algorithm: str) -> SimulatedWorld:
    """Run an all-reduce on simulated ranks, for its time and its messages."""
    ranks = SimulatedWorld(cluster.world_size, cluster)
    ranks.run(without_numbers, nbytes // 4, algorithm)
    return ranks


# %% [markdown]
# ## A grid: a ring in two dimensions
#
# A large ring has many messages in a row. If the ranks are put into rows and columns, the rings become short. First
# reduce-scatter along each row, so that every rank has one chunk of its row's sum. Then all-reduce these chunks along
# each column, so that they are complete. At last all-gather along each row.
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
guess_1 = predict(
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
print(guess_1.compare(ordered))

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
# ## Two trees at once
#
# A tree takes any number of ranks, and few steps. How could it be fast with large tensors? Two ideas are needed.
#
# **Cut the tensor into blocks.** While a rank passes on one block, it can already receive the next. The tree fills like
# a pipeline, and all levels work at the same time.
#
# **Use a second tree.** In a tree in which inner ranks have two children, half of the ranks are leaves. On the way up a
# leaf only sends. An inner rank meanwhile receives two whole tensors, and its link is what everybody waits for. So
# build another tree, in which the leaves of the first are the inner ranks, and give each tree half of the tensor.
#
#     tree 0, the first half      7              tree 1, the second half      0
#                                 │                                           │
#                                 3                                           4
#                               ╱   ╲                                       ╱   ╲
#                              1     5                                     2     6
#                             ╱ ╲   ╱ ╲                                   ╱ ╲   ╱ ╲
#                            0   2 4   6                                 1   3 5   7
#
# This is the **double binary tree** of Sanders, Speck and Träff (2009).

# %%
guess_2 = predict(
    "Both trees at once, on the way up: which ranks receive the most bytes?",
    choices=[
        "the two roots",
        "the two ranks below the roots",
        "six ranks, all the same",
    ],
)

# %%
trees = two_trees(8)
received = []
print("rank   children in tree 0   children in tree 1   receives on the way up")
for rank in range(8):
    first, second = trees.children[0][rank], trees.children[1][rank]
    received.append((len(first) + len(second)) / 2)  # each child brings half of it
    print(f"{rank:4}   {str(first):>18}   {str(second):>18}   {received[rank]:20} S")

print(guess_2.compare("six ranks, all the same", source="the table"))

# %% tags=["folded"]
# Checks of the numbers above
assert sorted(received) == [0.5, 0.5, 1, 1, 1, 1, 1, 1]
for rank in range(8):
    inner = [bool(children[rank]) for children in trees.children]
    assert sum(inner) == 1
for children in trees.children:
    assert sum(not below for below in children) == 4 and max(map(len, children)) == 2
for n in (5, 6, 13, 64, 65):
    in_both = zip(*two_trees(n).children, strict=True)
    assert sum(not first and not second for first, second in in_both) == n % 2

# %% [markdown]
# With an even number of ranks, each is inner in one tree and a leaf in the other. (With an odd number, one rank is a
# leaf in both.) An inner rank with two children receives two *halves*. So no rank receives more than $S$ on the way up,
# or sends more than $S$ on the way down.
#
# ### The order that makes it work
#
# Two blocks could arrive at a rank at the same moment, and one would have to wait. The paper gives each edge one of two
# colors to prevent this. The two edges on which a rank sends have different colors, and so do the two on which it
# receives. Edges of one color work in even steps, edges of the other color in odd steps.
#
# Rank 1, for example, has four edges. In tree 0 they lead to its children 0 and 2 and to its parent 3; in tree 1, to
# its parent 2. Here is the way up, with two blocks in each tree:


# %%
def print_way_up(world_size: int, blocks: int) -> None:
    everybody = [moves_up(rank, world_size, blocks) for rank in range(world_size)]
    print(" step  tree 0                   tree 1")
    for number, hops in enumerate(zip(*everybody, strict=True)):
        sent = {0: [], 1: []}
        for rank, (to_parent, _) in enumerate(hops):
            if to_parent is not None:
                sent[to_parent.tree].append(f"{rank}→{to_parent.peer}")
        print(f"{number:5}  {'  '.join(sent[0]):23}  {'  '.join(sent[1])}")


print_way_up(8, blocks=2)

# %% tags=["folded"]
# Checks
# No rank sends or receives twice in a step; only complete blocks move up
for n, blocks in [(8, 2), (13, 3), (64, 4)]:
    trees, everybody = two_trees(n), [moves_up(rank, n, blocks) for rank in range(n)]
    arrived = set()
    for turn in range(trees.rounds(blocks)):
        hops = [(rank, moves[turn][0]) for rank, moves in enumerate(everybody)]
        sends = [(rank, hop) for rank, hop in hops if hop]
        assert len({hop.peer for _, hop in sends}) == len(sends)
        for rank, hop in sends:
            below = trees.children[hop.tree][rank]
            assert all((hop.tree, hop.block, child) in arrived for child in below)
        arrived |= {(hop.tree, hop.block, rank) for rank, hop in sends}
    assert len(arrived) == 2 * blocks * (n - 1)

# %% [markdown]
# Read a row: each rank appears at most once on the left of an arrow, and at most once on the right. Now the run, with
# the way down: the same table read backwards, with all arrows turned around.


# %%
def in_two_trees(comm: Communicator, length: int, blocks: int) -> None:
    double_tree_all_reduce(comm, torch.empty(length, device="meta"), blocks=blocks)


trees, eight = two_trees(8), SimulatedWorld(8, flat(8))
eight.run(in_two_trees, MIB // 4, blocks=2)
timeline(
    eight.trace,
    color_by="tree",
    title="Two trees: up to ranks 7 and 0, and down again",
)

# %% [markdown]
# 8 steps up and 8 down would be 16. The run takes 14: no rank waits for a step of the table to end, and where it has
# nothing to do in one, it goes on at once. How well are the links used? For how much of the time is a rank sending, on
# average?


# %%
def sending_share(trace: Trace) -> float:
    """Which part of the run a rank spends with sending, on average."""
    busy = sum(message.end - message.taken for message in trace)
    return busy / (trace.world_size * trace.elapsed)


tree = run_on(flat(8), MIB, "tree")
share = sending_share(tree.trace)
print(f"one tree               {tree.elapsed * 1e6:4.0f} µs, sending {share:.0%}")
shares, times = {}, {}
for blocks in [1, 2, 4, 8]:
    eight.run(in_two_trees, MIB // 4, blocks=blocks)
    shares[blocks], times[blocks] = sending_share(eight.trace), eight.elapsed
    taken = f"{times[blocks] * 1e6:4.0f} µs, sending {shares[blocks]:.0%}"
    print(f"two trees of {blocks} blocks  {taken}")
    assert round(eight.elapsed / FAR.seconds(MIB / (2 * blocks))) == 4 * blocks + 6

# %% tags=["folded"]
# Checks of the numbers above and below
assert max(eight.trace.bytes_sent) == max(eight.trace.bytes_received) == 2 * MIB
assert round(tree.elapsed / FAR.seconds(MIB)) == 6
assert trees.rounds(2) == 8 and round(times[2] / FAR.seconds(MIB / 4)) == 14
assert max(tree.trace.bytes_sent) == 3 * MIB
assert sending_share(tree.trace) < 0.3 < 0.7 < shares[8]
assert min(times, key=lambda blocks: times[blocks]) == 4

# %% [markdown]
# With $k$ blocks in each tree it takes $4k + c$ steps. The $c$ is for filling the trees: 6 with 8 ranks, and it grows
# as $4\log_2 N$. In each step a block of $S/2k$ bytes moves:
#
# $$T_\text{two trees} = (4k + c)\left(\alpha + \frac{S}{2k}\beta\right)$$
#
# With many blocks the bytes cost little more than $2S\beta$, as in a ring. With many ranks the steps grow as
# $\log_2 N$, as in a tree. But every block has its latency: here 4 blocks were better than 8.
#
# **Try it.** How many blocks are best for a tensor of 16 MiB? Change the list. What does the formula say: how does the
# best $k$ grow with $S$?

# %%
for blocks in [1, 4]:
    eight.run(in_two_trees, 16 * MIB // 4, blocks=blocks)
    print(f"{blocks:3} blocks: {eight.elapsed * 1e6:5.0f} µs")

# %% tags=["folded"]
# One way to do it
best = {}
for mib in (1, 4, 16, 64):
    times = {}
    for blocks in range(1, 60):
        times[blocks] = (4 * blocks + 6) * FAR.seconds(mib * MIB / (2 * blocks))
    best[mib] = min(times, key=lambda blocks: times[blocks])
    print(f"{mib:2} MiB: {best[mib]:2} blocks, {times[best[mib]] * 1e6:,.0f} µs")
print("k grows as the square root of S: four times the bytes, about twice the blocks.")
eight.run(in_two_trees, 16 * MIB // 4, blocks=best[16])
expected = (4 * best[16] + 6) * FAR.seconds(8 * MIB / best[16])
assert abs(eight.elapsed / expected - 1) < 1e-3
assert best == {1: 4, 4: 8, 16: 16, 64: 32}

# %% [markdown]
# ## 997 ranks
#
# When is this worth it? Back to the 1,024 ranks with equal links, of which 997 are left. Because 997 is a prime number,
# a grid is a ring.

# %%
guess_3 = predict(
    "997 ranks, 40 MiB: which is the fastest?",
    choices=["ring", "tree", "halving and doubling", "two trees"],
)

# %%
spoken = {"ring": "ring", "tree": "tree"}
spoken |= {"halving_doubling": "halving and doubling", "double_tree": "two trees"}
print("40 MiB  " + " ".join(f"{name:>20}" for name in spoken.values()))
for n in [1024, 997]:
    times = {name: seconds(name, flat(n), 40 * MIB) * 1e3 for name in spoken}
    print(f"{n:6,}  " + " ".join(f"{time:17.1f} ms" for time in times.values()))

winner = min(times, key=lambda name: times[name])
print(guess_3.compare(spoken[winner], source="the formula"))

# %% tags=["folded"]
# Checks of the numbers above and below
choices = [choose_all_reduce(flat(997), 2**power // 4, 4) for power in range(10, 31)]
best = [choice.algorithm for choice in choices]
assert best[0] == "halving_doubling" and best[-1] == "ring" and "double_tree" in best
powers = {name: seconds(name, flat(1024), 40 * MIB) for name in spoken}
assert winner == "double_tree"
assert round(powers["halving_doubling"] * 1e3, 1) == 8.5
assert 1.9 < times["halving_doubling"] / 1e3 / powers["halving_doubling"] < 2.1
assert times["ring"] > 1.6 * times["double_tree"]
assert min(powers, key=lambda name: powers[name]) == "halving_doubling"

# %%
sizes = [2**power for power in range(10, 31)]
race(flat(997), sizes, title="997 ranks, equal links")

# %% [markdown]
# With 1,024 ranks halving and doubling wins. With 997 each of three has its own range. (`grid` and `hierarchical` lie
# on the ring's line: one row, one node.)
#
# So is it the number 997 that decides? Attack that conclusion. Halving and doubling lost because of its *fold*: it
# makes 512 ranks out of 997, and the whole tensor goes in and out once more.
#
# People have done better than this fold:
#
# - Rabenseifner and Träff (2004) halve its cost.
# - gloo's older version breaks 24 ranks up into blocks of 16 and 8, which [should still perform relatively
#   well](https://github.com/pytorch/gloo/blob/main/docs/algorithms.md) ("binary blocks").
# - Träff (2024) needs no fold, as you will see.
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
# ### Any number of ranks
#
# Träff (2024) gives up the pairs. In each step a rank sends to one rank and receives from another one, as in a ring,
# but over large distances: half of the ranks, rounded up, then half of that, and so on. With 65 ranks the distances are
# 33, 17, 9, 5, 3, 2, 1. A rank keeps the nearer chunks and sends away the farther ones, for the rank at that distance
# to add. After the last step it has one chunk, its own. Then everything goes backwards.


# %%
def any_number(comm: Communicator, chunks: list[torch.Tensor]) -> None:
    """All-reduce in place. chunks[i], all of one length, is the chunk of rank + i."""
    size, rows = comm.world_size, torch.stack(chunks)
    kept = [size]  # how many chunks a rank is still responsible for
    while kept[-1] > 1:
        kept.append((kept[-1] + 1) // 2)
    steps = list(zip(kept, kept[1:], strict=False))
    for many, few in steps:
        ahead, behind = (comm.rank + few) % size, (comm.rank - few) % size
        incoming = torch.empty_like(rows[few:many])
        comm.exchange(rows[few:many], ahead, incoming, behind)
        rows[: many - few] += incoming
    for many, few in reversed(steps):
        ahead, behind = (comm.rank + few) % size, (comm.rank - few) % size
        comm.exchange(rows[: many - few], behind, rows[few:many], ahead)
    for chunk, row in zip(chunks, rows, strict=True):
        chunk.copy_(row)


def sum_up(comm: Communicator, chunk_length: int, device: str = "cpu") -> torch.Tensor:
    numbers = torch.arange(comm.world_size * chunk_length, device=device)
    numbers = numbers.float() % 7 + comm.rank
    chunks = list(numbers.chunk(comm.world_size))
    any_number(comm, chunks[comm.rank :] + chunks[: comm.rank])
    return numbers


# %% [markdown]
# Does it add up, on any number of ranks? And what does it cost?

# %%
for n in [2, 3, 5, 8, 13]:
    ranks = SimulatedWorld(n, flat(n))
    expected = n * (torch.arange(2 * n).float() % 7) + sum(range(n))
    assert all(torch.equal(result, expected) for result in ranks.run(sum_up, 2))
    assert set(ranks.trace.bytes_sent) == {2 * (n - 1) * 2 * 4}, "as few as in a ring"
print("The sums are correct, and every rank sends as few bytes as in a ring.")

# %%
guess_4 = predict(
    "64 ranks need 8.3 ms for 40 MiB, 65 with the fold 16.7 ms. And 65 in this way?",
    unit="ms",
)

# %%
print("40 MiB   fold, ms   any number, ms   steps")
without_fold = {}
for n in [64, 65, 96, 127]:
    ranks = SimulatedWorld(n, flat(n))
    ranks.run(sum_up, 10 * MIB // n, "meta")
    without_fold[n], steps = ranks.elapsed, ranks.trace.rounds
    fold = seconds("halving_doubling", flat(n), 40 * MIB)
    print(f"{n:6} {fold * 1e3:10.2f} {ranks.elapsed * 1e3:16.2f} {steps:7}")
    formula = steps * FAR.latency + 2 * (n - 1) * 4 * (10 * MIB // n) / FAR.bandwidth
    assert steps == 2 * (n - 1).bit_length() and abs(ranks.elapsed / formula - 1) < 1e-9

print(guess_4.compare(without_fold[65] * 1e3))

# %% tags=["folded"]
# Checks of the numbers above and below
assert without_fold[65] < 1.002 * without_fold[64]
assert round(seconds("halving_doubling", flat(65), 40 * MIB) * 1e3, 1) == 16.7
steps, chunk = 2 * 10, 40 * MIB / 997
for_997 = steps * FAR.latency + 2 * 996 * chunk / FAR.bandwidth
assert for_997 < 0.8 * times["double_tree"] / 1e3

# %% [markdown]
# 65 ranks take less than 0.2 % longer than 64. By the formula of this method,
#
# $$T = 2\,\lceil\log_2 N\rceil\,\alpha + 2\,\frac{N-1}{N}\,S\,\beta$$
#
# it would also beat two trees on 997 ranks. So what you have seen about 65 and about 997 ranks was true of our fold,
# not of halving and doubling, and not of 997. A model compares the algorithms that you give it, and no others.
#
# ### Then why two trees?
#
# There is something that the formula does not know. In halving and doubling a rank talks to $\log_2 N$ others, near and
# far, and in our order the farthest gets half of everything. Each needs a connection and buffers, and a network that is
# as good between all ranks as between neighbors. In two trees a rank has at most four neighbors, however many ranks
# there are.

# %%
for n in [64, 1024, 4096]:
    trees = two_trees(n)
    most = 0
    for rank in range(n):
        above = {trees.parents[tree][rank] for tree in (0, 1)} - {None}
        below = {child for tree in (0, 1) for child in trees.children[tree][rank]}
        most = max(most, len(above | below))
    partners = n.bit_length() - 1
    print(f"{n:5,} ranks: {most} neighbors in two trees, or {partners} partners")
    assert most == 4

# %% [markdown]
# NCCL, NVIDIA's library, used only rings at first. Since version 2.4 it has these two trees, too, between nodes. The
# reason is latency: in a ring it grows with the number of ranks, in a tree with its logarithm. Sources are at the end.
#
# ## When links are not equal
#
# Two nodes of 8 ranks: 1 µs and 100 GB/s inside a node, 5 µs and 10 GB/s between nodes. In lesson 03 the ring did not
# profit from the fast links. This picture shows why: it has only the messages that leave their node.

# %%
two_nodes = Cluster(nodes=2, ranks_per_node=8, intra=NEAR, inter=FAR)


def slow_messages(trace: Trace) -> Trace:
    """Only the messages from one node to another."""
    node_of = two_nodes.node_of
    return trace.filter(lambda message: node_of(message.src) != node_of(message.dst))


ring = run_on(two_nodes, 8 * MIB, "ring")
slow = slow_messages(ring.trace)
print(f"ring: {ring.elapsed * 1e3:.2f} ms")
print(f"{len(slow)} of {len(ring.trace)} messages leave their node")
timeline(slow, title="A ring through two nodes: only the messages between them")

# %% [markdown]
# Ranks 7 and 15 send all the time, ranks 8 and 0 receive. The slow links of the other 12 ranks are never used. (That is
# one ring. NCCL builds several, its *channels*, if the links inside a node are fast enough. Each enters and leaves a
# node by a network card of its own, so the cards that one ring leaves idle are busy in the next: [a
# maintainer](https://github.com/NVIDIA/nccl/issues/412).)
#
# ### Inside, between, inside
#
# The grid has the answer, if its rows are the nodes:
#
# 1. Reduce-scatter inside each node, over fast links. Rank 0 of each node now has chunk 0 of its node's sum, and so on.
# 2. All-reduce between the nodes: all ranks with chunk 0 among themselves, all with chunk 1, … Each uses its own slow
#    link, and all of them work at the same time.
# 3. All-gather inside each node.
#
# This is the **hierarchical** all-reduce of lesson 03. The library's has rings inside the nodes, and halves and doubles
# between them. A grid differs from it in its columns only, which are rings: with two nodes the two are the same. (On
# its own the library makes a grid as square as it can, here 4 × 4. `columns=8` makes the rows the nodes.)

# %%
guess_5 = predict(
    "4 nodes instead of 2, still 8 MiB. The hierarchical all-reduce takes …",
    choices=["half as long", "a fifth longer", "twice as long"],
)

# %%
by_nodes = run_on(two_nodes, 8 * MIB, "hierarchical")
slow_by_nodes = slow_messages(by_nodes.trace)
four_nodes = run_on(Cluster(4, 8, NEAR, FAR), 8 * MIB, "hierarchical")
both = f"hierarchical {by_nodes.elapsed * 1e3:.2f} ms, ring {ring.elapsed * 1e3:.2f} ms"
print(f"2 nodes: {both}")
print(f"4 nodes: hierarchical {four_nodes.elapsed * 1e3:.2f} ms")
print(guess_5.compare("a fifth longer"))
timeline(by_nodes.trace, title="Hierarchical: inside, between the nodes, inside")

# %% tags=["folded"]
# Checks of the numbers above
assert (len(slow), len(ring.trace)) == (60, 480)
assert {(message.src, message.dst) for message in slow} == {(7, 8), (15, 0)}
assert slow_by_nodes.bytes_sent == [MIB] * 16 and max(slow.bytes_sent) == 15 * MIB
assert 6 < ring.elapsed / by_nodes.elapsed < 6.5
assert 1.2 < four_nodes.elapsed / by_nodes.elapsed < 1.25
assert by_nodes.trace.rounds == 7 + 2 + 7


def grid_of_nodes(comm: Communicator, length: int) -> None:
    grid_all_reduce(comm, torch.empty(length, device="meta"), columns=8)


sixteen = SimulatedWorld(16, two_nodes)
sixteen.run(grid_of_nodes, 2 * MIB)
assert abs(sixteen.elapsed - by_nodes.elapsed) < 1e-12

# %% [markdown]
# ### One cable for eight
#
# We assumed that every rank has a network link of its own. Good machines are built so. What if the ranks of a node
# share *one* link to the network?

# %%
guess_6 = predict(
    "One shared link per node, 8 MiB. Order them, the fastest first.",
    order=["halving and doubling", "hierarchical", "ring"],
)

# %%
shared = Cluster(2, 8, intra=NEAR, inter=FAR, shared_uplink=True)
print("8 MiB                  own links   one shared link")
by_links = {}
for name in ["ring", "hierarchical", "halving_doubling"]:
    said = name.replace("_", " and ")
    runs = [run_on(links, 8 * MIB, name) for links in (two_nodes, shared)]
    by_links[said] = [run.elapsed * 1e3 for run in runs]
    print(f"{said:21} {by_links[said][0]:7.2f} ms {by_links[said][1]:14.2f} ms")

print(guess_6.compare(sorted(by_links, key=lambda name: by_links[name][1])))

# %% tags=["folded"]
# Checks of the numbers above and below
assert by_links["ring"][0] == by_links["ring"][1] > by_links["hierarchical"][1]
assert 3 < by_links["hierarchical"][1] / by_links["hierarchical"][0] < 4
halving = by_links["halving and doubling"]
assert halving[0] < by_links["ring"][0] < halving[1] / 3
names = ("ring", "hierarchical", "tree", "halving_doubling")
small = {name: run_on(shared, 4 * KIB, name).elapsed for name in names}
ahead = sorted(small, key=lambda name: small[name])[:2]
assert ahead == ["tree", "halving_doubling"]
three = Cluster(3, 8, intra=NEAR, inter=FAR, shared_uplink=True)
in_three = {name: run_on(three, 8 * MIB, name).elapsed for name in names}
assert min(in_three, key=lambda name: in_three[name]) == "ring"

twenty_four = SimulatedWorld(24, three)
twenty_four.run(grid_of_nodes, 2 * MIB)
assert 1.4 < in_three["ring"] / twenty_four.elapsed < 1.5

# %% [markdown]
# The ring does not notice, because it used one link only. Halving and doubling falls behind. It begins and ends with
# the partner that is farthest away, so in its first and in its last step *every* rank sends half of its tensor to the
# other node. It was faster than the ring, now it takes more than three times as long. The hierarchical all-reduce still
# wins, by less.
#
# How general is that? With 4 KiB the tree and halving and doubling stay ahead, on a shared link as well. And with three
# nodes the ring beats it at 8 MiB: between the nodes our hierarchical all-reduce halves and doubles, and pays for its
# fold. A grid whose rows are the nodes has no fold. There it needs less time than both.
#
# **Try it.** The order of ranks was kind to the ring: neighbors were mostly on the same node. A scheduler may also deal
# them out like cards: 0 to node 0, 1 to node 1, 2 to node 0, … `comm.split` renumbers ranks by `key`. Change `key` to
# that order. What happens to the ring with links of their own, what on a shared link? Then put
# `halving_doubling_all_reduce` in its place.


# %%
def ring_in_order(comm: Communicator, length: int) -> None:
    key = comm.rank  # the place in the new order: 0 to 15, first node 0, then node 1
    renumbered = comm.split(color=0, key=key)
    ring_all_reduce(renumbered, torch.empty(length, device="meta"))


for name, links in [("own links", two_nodes), ("one shared link", shared)]:
    sixteen = SimulatedWorld(16, links)
    sixteen.run(ring_in_order, 2 * MIB)
    slow = len(slow_messages(sixteen.trace))
    print(f"{name:15} {sixteen.elapsed * 1e3:6.2f} ms, {slow:3} slow messages")

# %% tags=["folded"]
# One way to do it


def in_cards_order(comm: Communicator, length: int, all_reduce: Callable) -> None:
    node, place = divmod(comm.rank, 8)
    renumbered = comm.split(color=0, key=2 * place + node)
    all_reduce(renumbered, torch.empty(length, device="meta"))


dealt, leaving = {}, {}
both = {"ring": ring_all_reduce, "halving and doubling": halving_doubling_all_reduce}
for said, algorithm in both.items():
    print(said)
    dealt[said] = []
    for name, links in [("own links", two_nodes), ("one shared link", shared)]:
        sixteen = SimulatedWorld(16, links)
        sixteen.run(in_cards_order, 2 * MIB, algorithm)
        dealt[said].append(sixteen.elapsed * 1e3)
        leaving[said] = len(slow_messages(sixteen.trace))
        print(f"  {name:15} {dealt[said][-1]:5.2f} ms, {leaving[said]} slow messages")
assert leaving == {"ring": 480, "halving and doubling": 32}
assert abs(dealt["ring"][0] / by_links["ring"][0] - 1) < 0.01
assert dealt["ring"][1] > 7 * by_links["ring"][1]
for here, hierarchical in zip(
    dealt["halving and doubling"], by_links["hierarchical"], strict=True
):
    assert 0.95 < here / hierarchical < 1

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# Every message of the ring leaves its node now. With own links it is as fast as before. On a shared link eight messages
# queue up in every step.
#
# Halving and doubling gains: on both kinds of links it now takes a little less than the hierarchical one. A rank's
# first partner is on the same node, and so are the second and the third. When its turn comes to send to the other node,
# a sixteenth of the tensor is left, where it was a half. So what was said above holds for *our* order of partners, the
# farthest first. One may as well begin with the nearest, [as gloo's
# does](https://github.com/pytorch/gloo/blob/main/docs/algorithms.md).
#
# </details>

# %% [markdown]
# ## 4,096 ranks
#
# Now a machine that you probably do not have: 512 nodes of 8 ranks. Each rank has 16 KiB of real numbers, and we check
# the sums. It takes some seconds.

# %%
guess_7 = predict(
    "4,096 ranks, 16 KiB. Order them by the number of messages, the fewest first.",
    order=["halving and doubling", "hierarchical", "tree"],
)


# %%
def sum_ones(comm: Communicator, length: int, algorithm: str) -> tuple[float, float]:
    """Sum the ones of all ranks. Returns the least and the largest of the result."""
    tensor = torch.ones(length)
    all_reduce(comm, tensor, algorithm=algorithm)
    return tensor.min().item(), tensor.max().item()


large_cluster = Cluster(nodes=512, ranks_per_node=8, intra=NEAR, inter=FAR)
large = SimulatedWorld(4096, large_cluster)
print("4,096 ranks, 16 KiB    rounds    messages   simulated, µs   formula, µs")
rounds, messages = {}, {}
for name in ["halving_doubling", "tree", "hierarchical"]:
    assert set(large.run(sum_ones, 4096, name)) == {(4096, 4096)}
    formula, said = seconds(name, large_cluster, 16 * KIB), name.replace("_", " and ")
    rounds[said], messages[said] = large.trace.rounds, sum(large.trace.messages_sent)
    counted = f"{said:20} {rounds[said]:8} {messages[said]:11,}"
    print(f"{counted} {large.elapsed * 1e6:15.2f} {formula * 1e6:13.2f}")
    assert abs(large.elapsed / formula - 1) < 1e-9

print(guess_7.compare(sorted(messages, key=lambda name: messages[name])))

# %% tags=["folded"]
# Checks of the numbers above and below
assert rounds == {"halving and doubling": 24, "tree": 24, "hierarchical": 32}
assert list(messages.values()) == [98_304, 8_190, 131_072]
ring_messages = sum(traffic.ring_all_reduce(4096, 4096, 4).messages)
assert ring_messages == 2 * 4095 * 4096 and round(ring_messages / 1e6, 1) == 33.5
halving_time = seconds("halving_doubling", large_cluster, 16 * KIB)
assert seconds("ring", large_cluster, 16 * KIB) > 300 * halving_time

# %% [markdown]
# The ring is missing. It would need more than 33 million messages, and even on the simulated clock it would take more
# than 300 times as long as halving and doubling.
#
# ## From two nodes to 128
#
# With 4 MiB and nodes of 8. This picture has sliders. With each move the kernel computes all lines anew. The vertical
# line is where the sliders are, and the times there are written below.

# %%
sixteen_nodes = Cluster(nodes=16, ranks_per_node=8, intra=NEAR, inter=FAR)
explore_race(sixteen_nodes, 4 * MIB, along="ranks")

# %% [markdown]
# **Try it.** Move the sliders. Where do ring and tree cross? Raise the latency between nodes to 10 µs: where now? Then
# go back to 5 µs and 16 nodes, and choose "over the size". Which is the fastest on the left, and where does it lose the
# lead? In the cell below, check what you have found.

# %%
microseconds = 5

slower = Link(microseconds * 1e-6, 10e9)
tree_from = crossover_nodes("ring", "tree", 4 * MIB, 8, NEAR, slower)
print(f"{microseconds} µs: the tree first beats the ring on {tree_from} nodes")

# %% tags=["folded"]
# One way to do it
found = {}
for microseconds in (5, 10, 50):
    slower = Link(microseconds * 1e-6, 10e9)
    nodes = crossover_nodes("ring", "tree", 4 * MIB, 8, NEAR, slower)
    print(f"{microseconds:2} µs: the tree first beats the ring on {nodes} nodes")
    found[microseconds] = nodes
assert found == {5: 57, 10: 24, 50: 2}
lost = []
for nodes in range(57, 129):
    of_8 = Cluster(nodes, 8, NEAR, FAR)
    if seconds("ring", of_8, 4 * MIB) <= seconds("tree", of_8, 4 * MIB):
        lost.append(nodes)
print("5 µs: the ring is ahead once more on", lost, "nodes: the tree has a level more")
assert lost == [65, 66, 67]
leads = {}
for size in (4, 16, 64):
    leads[size] = choose_all_reduce(sixteen_nodes, size * KIB // 4, 4).algorithm
print("16 nodes, over the size:", leads)
assert leads == {4: "halving_doubling", 16: "halving_doubling", 64: "hierarchical"}

# %% [markdown]
# In the picture hierarchical is the fastest at every point. But the points are powers of two. Attack that conclusion,
# too. And attack the grid's line, which jumps at 128 ranks: the library makes its grid as square as it can, there of
# eight rows and sixteen columns, so that a row is *two* nodes. What if a row is always one node?

# %%
fastest = {}
for nodes in range(2, 17):
    of_8 = Cluster(nodes, 8, NEAR, FAR)
    times = {name: seconds(name, of_8, 4 * MIB) for name in ("hierarchical", "grid")}
    times["grid of nodes"] = duration.grid_all_reduce(of_8, MIB, itemsize=4, columns=8)
    best = min(times, key=lambda name: times[name])  # among equals, the first of them
    fastest.setdefault(best, []).append(nodes)
    taken = [f"{name} {time * 1e6:.0f} µs" for name, time in times.items()]
    print(f"{nodes:2} nodes: " + ", ".join(taken))
print("fastest:", fastest)

# %% tags=["folded"]
# Checks of the numbers around here
assert fastest["grid of nodes"] == [3, 9, 10, 11, 12, 13, 14]
assert fastest["grid"] == [5, 6, 7]  # where the squarest grid is one of nodes
assert fastest["hierarchical"] == [2, 4, 8, 15, 16]
for nodes in (3, 13):
    world_of_nodes = SimulatedWorld(8 * nodes, Cluster(nodes, 8, NEAR, FAR))
    world_of_nodes.run(grid_of_nodes, MIB)
    expected = duration.grid_all_reduce(
        Cluster(nodes, 8, NEAR, FAR), MIB, itemsize=4, columns=8
    )
    assert abs(world_of_nodes.elapsed / expected - 1) < 1e-9
for power in range(1, 8):
    choice = choose_all_reduce(Cluster(2**power, 8, NEAR, FAR), MIB, 4)
    assert choice.algorithm == "hierarchical"
for nodes, nbytes, wins in [
    (3, 256 * KIB, True),
    (5, 256 * KIB, False),
    (127, 64 * MIB, True),
]:
    of_8 = Cluster(nodes, 8, NEAR, FAR)
    time = duration.grid_all_reduce(of_8, nbytes // 4, itemsize=4, columns=8)
    others = choose_all_reduce(of_8, nbytes // 4, 4).seconds
    assert (time < min(others.values())) == wins

# %% [markdown]
# With 4 MiB, a grid of nodes wins from 3 to 14 nodes, except where the number of nodes is a power of two. The reason is
# the fold again: the grid connects its nodes in a ring, and a ring takes any number of nodes without a fold. With more
# nodes, the latencies of this ring cost more than a fold.
#
# The size decides how many nodes are too many. With 256 KiB, 5 nodes are too many; with 64 MiB, a grid of 127 nodes
# still wins. `choose_all_reduce` does not consider a grid of nodes, unless it is also the squarest grid.
#
# ### Let a program choose
#
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
# ## Where the formulas mislead
#
# With equal links the formulas are exact (two trees: but for blocks of unequal size). With two kinds of links they are
# upper bounds: each step counts with the slowest link that some rank uses in it. How far off can they be? We run seven
# shapes of clusters and compare.

# %%
print("8 MiB, simulated / formula")
shapes = [(2, 8), (4, 4), (3, 4), (5, 8), (16, 2), (6, 5), (2, 7)]
heads = [f"{nodes:>5} × {ranks}" for nodes, ranks in shapes]
print(f"{'nodes × ranks':18}" + "".join(heads))
ratios = {}
for name in ["ring", "tree", "hierarchical", "grid", "double_tree", "halving_doubling"]:
    ratios[name] = []
    for cluster in [Cluster(*shape, NEAR, FAR) for shape in shapes]:
        run, formula = run_on(cluster, 8 * MIB, name), seconds(name, cluster, 8 * MIB)
        ratios[name].append(run.elapsed / formula)
    print(f"{name:18}" + "".join(f"{ratio:9.2f}" for ratio in ratios[name]))

# %% tags=["folded"]
# Checks of what is said below
assert all(ratio < 1 + 1e-9 for row in ratios.values() for ratio in row)
for name in ("halving_doubling", "double_tree", "tree"):
    assert 0.35 < min(ratios[name]) < 0.6
for name in ("ring", "hierarchical", "grid"):
    assert min(ratios[name]) > 0.999
assert min(ratios["tree"][:6]) > 0.999  # only with 7 ranks per node
five_nodes = Cluster(5, 8, NEAR, FAR)
assert choose_all_reduce(five_nodes, 9 * KIB // 4, 4).algorithm == "tree"
tree = run_on(five_nodes, 9 * KIB, "tree").elapsed
halving = run_on(five_nodes, 9 * KIB, "halving_doubling").elapsed
assert 1.1 < tree / halving < 1.15
for name in ("ring", "halving_doubling"):
    assert seconds(name, shared, 8 * MIB) == seconds(name, two_nodes, 8 * MIB)

# %% [markdown]
# Ring, grid and hierarchical are as predicted. Two trees, a folded halving and doubling, and a tree on nodes of 7 can
# take half of what their formula says: many of their messages stay inside a node, and the formula counts them as slow.
# So a choice by formula can be wrong. On 5 nodes of 8 ranks with 9 KiB it takes the tree, which needs more than 10 %
# longer than halving and doubling. And no formula here knows that a link is shared: it says the same for both.
#
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
guess_8 = predict(
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

print(guess_8.compare(sorted(clocked, key=lambda name: clocked[name][-1].measured)))

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
    start = comm.time(), perf_counter()
    all_reduce(comm, tensor, algorithm=name)
    return list(zip(start, (comm.time(), perf_counter()), strict=True))


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
# Now without a network: four processes, as fast as they can. What are $\alpha$ and $\beta$ of *your*
# machine? `calibrate` lets neighboring ranks exchange messages of several sizes, and fits the two numbers to the times.

# %%
world = World(4)
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
# Our double tree, the hierarchical all-reduce, `any_number`, and the one of torch, on the same six real ranks. They get
# whole numbers, so that every order of adding gives the same sum.

# %%
import torch.distributed as dist

from distlib import torch_distributed


def ours_and_theirs(comm: Communicator) -> list[torch.Tensor]:
    tensor = torch.arange(60.0) % 7 + comm.rank
    ours = [tensor.clone() for _ in range(3)]
    all_reduce(comm, ours[0], algorithm="double_tree")
    hierarchical_all_reduce(comm, ours[1], ranks_per_node=2)
    chunks = list(ours[2].chunk(comm.world_size))
    any_number(comm, chunks[comm.rank :] + chunks[: comm.rank])
    with torch_distributed(comm, "gloo"):
        dist.all_reduce(tensor)
    return [*ours, tensor]


with World(6) as six_ranks:
    for *ours, theirs in six_ranks.run(ours_and_theirs):
        assert all(torch.equal(result, theirs) for result in ours)
print("torch.distributed agrees with all three.")

# %% [markdown]
# Inside **NCCL** the trees join nodes; inside a node they are a chain ([a
# maintainer](https://github.com/NVIDIA/nccl/issues/919)). The second tree is the first one, mirrored or shifted by one
# ([trees.cc](https://github.com/NVIDIA/nccl/blob/master/src/graph/trees.cc)), like ours.
#
# ## In short
#
# - A grid sends the ring's bytes in far fewer steps, if the number of ranks splits well.
# - Two trees, cut into blocks, need few steps, few bytes and at most four neighbors.
# - A model compares what you give it: our fold was bad, not the number 997.
# - On a cluster, keep bytes off the slow links, and keep all slow links at work.
# - Shared links and the numbering of ranks can matter more than the algorithm.
#
# | N ranks, S bytes | steps | bytes a rank sends | good for |
# |---|---|---|---|
# | grid, $R \times C$ | $2(R-1) + 2(C-1)$ | $2\frac{N-1}{N}S$ | large tensors, many ranks |
# | two trees, $k$ blocks in each | $4k + c$, $c$ grows as $4\log_2 N$ | at most $2S$ | many ranks, few neighbors |
# | any number (Träff) | $2\lceil\log_2 N\rceil$ | $2\frac{N-1}{N}S$ | any number of ranks, equal links |
# | hierarchical, $n$ nodes of $G$ | $2(G-1) + 2\log_2 n$ | between nodes $2\frac{n-1}{n}\frac SG$ | unequal links |
#
# ## Now you
#
# In [the exercise](../exercises/03b_networks/03b_networks.ipynb) you write the grid, predict what ring,
# tree, halving and doubling and the hierarchical all-reduce take on a cluster, and choose the fastest.
#
# ## Further reading
#
# - P. Sanders, J. Speck, J. L. Träff, [Two-tree algorithms for full bandwidth broadcast, reduction and
#   scan](https://doi.org/10.1016/j.parco.2009.09.001), Parallel Computing 35(12), 2009. The double binary tree.
# - S. Jeaugey, [Massively Scale Your Deep Learning Training with NCCL
#   2.4](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/), NVIDIA technical
#   blog, 2019. Two trees in practice.
# - J. L. Träff, [Optimal, Non-pipelined Reduce-scatter and Allreduce
#   Algorithms](https://arxiv.org/abs/2410.14234), 2024. The way for any number of ranks.
# - X. Jia et al., [Highly Scalable Deep Learning Training System with Mixed-Precision: Training ImageNet in Four
#   Minutes](https://arxiv.org/abs/1807.11205), 2018. A hierarchical all-reduce.
# - H. Mikami et al., [Massively Distributed SGD: ImageNet/ResNet-50 Training in a
#   Flash](https://arxiv.org/abs/1811.05233), 2018. The grid.
# - R. Rabenseifner, J. L. Träff, [More Efficient Reduction Algorithms for Non-Power-of-Two Number of Processors in
#   Message-Passing Parallel Systems](https://fs.hlrs.de/projects/rabenseifner/publ/myreduce_pvmmpi2004_talk.pdf),
#   EuroPVM/MPI 2004. The better fold: 3Sβ instead of 4Sβ.
# - R. W. Hockney, [The Communication Challenge for MPP: Intel Paragon and Meiko
#   CS-2](https://doi.org/10.1016/S0167-8191%2806%2980021-9), Parallel Computing 20(3), 1994. The two numbers, and
#   how to measure them.
