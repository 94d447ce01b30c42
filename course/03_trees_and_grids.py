# %% [markdown]
# # Trees and grids
#
# After this lesson you will be able to
#
# - say what an all-reduce costs from four numbers: ranks, bytes, latency, bandwidth,
# - draw a tree, halving and doubling, two trees at once and a grid, and count their steps and bytes,
# - keep traffic off the slow links between nodes,
# - run an all-reduce on 4,096 simulated ranks and check it against its formula,
# - choose an algorithm for a cluster and a size, and say how far to trust the choice.
#
# **Time:** about 60 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU.

# %%
import statistics

import torch

from distlib import Cluster, Communicator, Link, SimulatedWorld, World, all_reduce, calibrate, choose_all_reduce
from distlib.calibration import compare
from distlib.collectives import double_tree_all_reduce, halving_doubling_all_reduce
from distlib.draw import (
    bytes_per_rank,
    explore_race,
    play_chunks,
    play_timeline,
    predict,
    predicted_and_measured,
    race,
    timeline,
    watch_chunks,
)
from distlib.network import ALL_REDUCES, all_reduce_seconds, crossover_bytes, crossover_nodes, traffic
from distlib.network.two_trees import two_trees
from distlib.trace import Trace

KIB, MIB = 2**10, 2**20

# %% [markdown]
# ## What one message costs
#
# The ring sends as few bytes as possible. Yet the last lesson had a case that it loses badly: small tensors on many
# ranks. To see why, take one message. It costs a latency $\alpha$, however small it is, and $\beta$ seconds for every
# byte.
#
# $$T(m) = \alpha + m\,\beta$$
#
# The bandwidth is $1/\beta$. For this lesson we take a network with $\alpha$ = 5 µs and a bandwidth of 10 GB/s. These
# are numbers to think with, not of a certain machine.

# %%
FAR = Link(latency=5e-6, bandwidth=10e9)

# %%
guess = predict("For which size of a message do its latency and its bytes take equally long?", unit="kB")


# %%
def one_message(comm: Communicator, nbytes: int) -> None:
    tensor = torch.zeros(nbytes // 4)
    if comm.rank == 0:
        comm.send(tensor, dst=1)
    else:
        comm.recv(tensor, src=0)


pair = SimulatedWorld(2, Cluster.flat(2, FAR))
print("     bytes   time, µs   of which latency")
for nbytes in [4, 5_000, 50_000, 500_000, 50_000_000]:
    pair.run(one_message, nbytes)
    print(f"{nbytes:10,} {pair.elapsed * 1e6:10,.1f} {FAR.latency / pair.elapsed:12.0%}")
    assert abs(pair.elapsed - (FAR.latency + nbytes / FAR.bandwidth)) < 1e-12

print(guess.compare(FAR.latency * FAR.bandwidth / 1e3))
assert round(FAR.latency * FAR.bandwidth) == 50_000

# %% [markdown]
# At $\alpha/\beta$ = 50 kB both cost the same. A message ten times smaller is almost only latency, one ten times larger
# almost only bytes. Remember this size. It decides what "small" means on a network.
#
# ## The ring, when there are many ranks
#
# A ring of $N$ ranks takes $2(N-1)$ steps, and in each step every rank sends a chunk of $S/N$ bytes:
#
# $$T_\text{ring} = 2(N-1)\,\alpha + 2\,\frac{N-1}{N}\,S\,\beta$$
#
# The second part hardly grows with $N$. The first part does.

# %%
guess = predict("1,024 ranks sum up a tensor of 4 KiB in a ring. How long does it take?", unit="ms")


# %%
def seconds(algorithm: str, cluster: Cluster, nbytes: int) -> float:
    """What the formula of an all-reduce of `nbytes` says."""
    return all_reduce_seconds(algorithm, cluster, nbytes // 4, itemsize=4)


def flat(world_size: int) -> Cluster:
    """Ranks that all have the same link to each other."""
    return Cluster.flat(world_size, FAR)


print(" ranks      tensor   time, ms   of which latency")
shares = {}
for n in [8, 64, 1024]:
    for name, nbytes in [("4 KiB", 4 * KIB), ("400 MiB", 400 * MIB)]:
        total, latency = seconds("ring", flat(n), nbytes), 2 * (n - 1) * FAR.latency
        shares[n, name] = latency / total
        print(f"{n:6,} {name:>11} {total * 1e3:10.2f} {latency / total:12.1%}")
        assert abs(total - (latency + 2 * (n - 1) / n * nbytes / FAR.bandwidth)) < 1e-12

print(guess.compare(seconds("ring", flat(1024), 4 * KIB) * 1e3))
assert 2 * (1024 - 1) == 2046 and 4 * KIB / 1024 == 4
assert shares[1024, "4 KiB"] > 0.999 and round(shares[1024, "400 MiB"], 2) == 0.11
assert shares[64, "400 MiB"] < 0.01

# %% [markdown]
# With 4 KiB and 1,024 ranks, a chunk is one number of 4 bytes. It waits through 2,046 latencies, one after the other:
# 10 ms, for a tensor that one message would carry in less than 6 µs. Even with 400 MiB, 11 % of the time is waiting.
#
# These times come from the formula. Is it true? We run the ring on simulated ranks and compare. The tensors here lie on
# torch's `meta` device. Such a tensor has a shape, but no numbers and no memory. Without it, 64 ranks with 400 MiB each
# would need 25 GiB.


# %%
def without_numbers(comm: Communicator, length: int, algorithm: str) -> None:
    all_reduce(comm, torch.empty(length, device="meta"), algorithm=algorithm)


def run_on(cluster: Cluster, nbytes: int, algorithm: str) -> SimulatedWorld:
    """Run an all-reduce on simulated ranks, for its time and its messages."""
    ranks = SimulatedWorld(cluster.world_size, cluster)
    ranks.run(without_numbers, nbytes // 4, algorithm)
    return ranks


assert 64 * 400 * MIB == 25 * 2**30
assert FAR.seconds(4 * KIB) < 6e-6
for n in [8, 64]:
    for nbytes in [4 * KIB, 400 * MIB]:
        ring = run_on(flat(n), nbytes, "ring")
        print(f"{n:2} ranks, {nbytes:11,} bytes: simulated {ring.elapsed * 1e3:.4f} ms, {ring.trace.rounds} rounds")
        assert abs(ring.elapsed / seconds("ring", flat(n), nbytes) - 1) < 1e-9
        assert ring.trace.rounds == 2 * (n - 1)

# %% [markdown]
# They agree to nine digits. So we may trust the formulas where a run would take too long.
#
# ## A tree: few steps
#
# In lesson 01 a broadcast went down a tree: who has the tensor can help to spread it, so the number of ranks that have
# it doubles in each step. A reduce goes up the same tree. One after the other they are an all-reduce.
#
#     up      1 ──► 0    3 ──► 2    5 ──► 4    7 ──► 6       distance 1
#             2 ───────► 0          6 ───────► 4             distance 2
#             4 ─────────────────► 0                         distance 4: rank 0 has the sum
#     down    0 ─────────────────► 4                         distance 4
#             …                                              and back through the same pairs
#
# A **step** is what it was in lesson 01: a rank takes part in one message, or in one exchange.

# %%
guess = predict("64 ranks, up the tree and down again. How many steps is that?", unit="steps")

# %%
tree = run_on(flat(64), 4 * KIB, "tree")
steps = tree.elapsed / FAR.seconds(4 * KIB)
print(guess.compare(round(steps)))
assert abs(steps - 12) < 1e-9 and 2 * (64 - 1).bit_length() == 12
assert abs(tree.elapsed - seconds("tree", flat(64), 4 * KIB)) < 1e-12

# %%
small_tree = run_on(flat(8), 4 * KIB, "tree")
assert sum(small_tree.trace.messages_sent) == 14 and small_tree.trace.rounds == 6
timeline(small_tree.trace, title="All-reduce by a tree: up to rank 0, and down again")

# %% [markdown]
# Up and down take $\lceil\log_2 N\rceil$ steps each. But in every step the whole tensor moves:
#
# $$T_\text{tree} = 2\,\lceil\log_2 N\rceil\,(\alpha + S\,\beta)$$
#
# Look at the picture again. Half of the ranks send once, at the start, and then wait until the end. With a large tensor
# that waiting is expensive.

# %%
print("64 ranks       ring         tree")
for name, nbytes in [("4 KiB", 4 * KIB), ("400 MiB", 400 * MIB)]:
    times = {algorithm: seconds(algorithm, flat(64), nbytes) * 1e3 for algorithm in ("ring", "tree")}
    print(f"{name:>8} {times['ring']:8.2f} ms {times['tree']:9.2f} ms")

assert seconds("ring", flat(64), 4 * KIB) > 9 * seconds("tree", flat(64), 4 * KIB)
assert seconds("tree", flat(64), 400 * MIB) > 6 * seconds("ring", flat(64), 400 * MIB)

# %% [markdown]
# For 4 KiB the tree is more than nine times as fast as the ring. For 400 MiB it is six times as slow. The ring has few
# bytes and many steps, the tree few steps and many bytes. Can one have both?
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
# Play it, on four real processes. As in the last lesson, space plays, ← and → go one step, and what you point at says
# what it is.

# %%
world = World(4)
history = watch_chunks(world, halving_doubling_all_reduce)
world.close()
assert history.full_sums == [0, 0, 4, 8, 16]
play_chunks(history, title="Halving (rounds 1 and 2), then doubling (rounds 3 and 4)")

# %% [markdown]
# In round 1 the partner is two ranks away, and half of the tensor moves: two of the four chunks. In round 2 the partner
# is next door, and one chunk moves. Then the same backwards: one chunk, two chunks.

# %%
guess = predict("8 ranks, 8 MiB each. How much does every rank send?", unit="MiB")

# %%
halving = run_on(flat(8), 8 * MIB, "halving_doubling")
print([message.nbytes / MIB for message in halving.trace if message.src == 0])
print(guess.compare(halving.trace.bytes_sent[0] / MIB))
assert [message.nbytes / MIB for message in halving.trace if message.src == 0] == [4, 2, 1, 1, 2, 4]
assert halving.trace.bytes_sent == [14 * MIB] * 8 == run_on(flat(8), 8 * MIB, "ring").trace.bytes_sent
assert halving.trace.rounds == 6

# %% [markdown]
# A half, a quarter, an eighth, and back. With $N$ ranks that adds up to $2\frac{N-1}{N}S$, exactly what a rank in the
# ring sends: the least possible (lesson 02). The steps are those of the tree.
#
# $$T_\text{halving-doubling} = 2\,\log_2 N\,\alpha + 2\,\frac{N-1}{N}\,S\,\beta$$

# %%
print("64 ranks       ring         tree   halving-doubling")
for name, nbytes in [("4 KiB", 4 * KIB), ("400 MiB", 400 * MIB)]:
    times = [seconds(algorithm, flat(64), nbytes) * 1e3 for algorithm in ("ring", "tree", "halving_doubling")]
    print(f"{name:>8} {times[0]:8.2f} ms {times[1]:9.2f} ms {times[2]:15.2f} ms")
    assert min(times) == times[2]

# %% [markdown]
# ### Now one rank more
#
# All that works for 2, 4, 8, 16 ranks, and so on. What if there are 65? One way is to make them 64: before the start
# the extra rank hands its whole tensor to a neighbor, which stands for both. At the end it gets the whole result back.

# %%
guess = predict("64 ranks need 83 ms for 400 MiB. How long do 65 ranks need?", unit="ms")

# %%
just_right, one_more = (run_on(flat(n), 400 * MIB, "halving_doubling").elapsed * 1e3 for n in (64, 65))
print(f"64 ranks: {just_right:.1f} ms, 65 ranks: {one_more:.1f} ms")
print(guess.compare(one_more))
assert round(just_right) == 83 and 2 < one_more / just_right < 2.1
assert abs(one_more / 1e3 - seconds("halving_doubling", flat(65), 400 * MIB)) < 1e-9

# %% [markdown]
# One rank more, and the all-reduce takes twice as long. The whole tensor goes in and out once more, and in the meantime
# nobody else does anything. With six ranks you see it. Ranks 0 and 2 hand over their tensors to 1 and 3, and wait.

# %%
six = run_on(flat(6), 48 * KIB, "halving_doubling")
assert six.trace.messages_sent == [1, 5, 1, 5, 4, 4]
timeline(six.trace, title="Halving and doubling with 6 ranks: 0 and 2 only watch")

# %% [markdown]
# Ranks 4 and 5 wait for the others before they can begin: the hatched bars. Which rank stands for which is a matter of
# choice; the exercise pairs them in another way.
#
# ## Two trees at once
#
# Back to trees, which take any number of ranks. How could a tree be fast with large tensors? Two ideas are needed.
#
# **Cut the tensor into blocks.** While a rank passes on one block, it can already receive the next. The tree fills like
# a pipeline, and all levels work at the same time.
#
# **Use a second tree.** In a tree in which inner ranks have two children, half of the ranks are leaves. On the way up a
# leaf only sends. On the way down it only listens. An inner rank meanwhile receives two whole tensors on the way up,
# and its link is what everybody waits for. So build another tree, in which the leaves of the first are the inner ranks,
# and give each tree half of the tensor.
#
#     tree 0, the first half      7              tree 1, the second half      0
#                                 │                                           │
#                                 3                                           4
#                               ╱   ╲                                       ╱   ╲
#                              1     5                                     2     6
#                             ╱ ╲   ╱ ╲                                   ╱ ╲   ╱ ╲
#                            0   2 4   6                                 1   3 5   7

# %%
trees = two_trees(8)
print("rank   children in tree 0   children in tree 1   receives on the way up")
for rank in range(8):
    first, second = trees.children[0][rank], trees.children[1][rank]
    received = (len(first) + len(second)) / 2  # each child brings half of the tensor
    print(f"{rank:4}   {str(first):>18}   {str(second):>18}   {received:20} S")
    assert not (first and second), "inner in one tree, leaf in the other"
    assert received <= 1

for children in trees.children:
    assert sum(not below for below in children) == 4
assert max(len(below) for below in trees.children[0]) == 2

# %% [markdown]
# Every rank is inner in one tree and a leaf in the other. An inner rank with two children receives two *halves*, so
# nobody receives more than $S$ on the way up, or sends more than $S$ on the way down.
#
# This is the **double binary tree** of Sanders, Speck and Träff (2009). Beside the trees they show an order in which no
# rank ever has to send two blocks at once, or to receive two. Here it is with two blocks for each half.


# %%
def in_two_trees(comm: Communicator, length: int, blocks: int) -> None:
    double_tree_all_reduce(comm, torch.empty(length, device="meta"), blocks=blocks)


eight = SimulatedWorld(8, flat(8))
eight.run(in_two_trees, MIB // 4, blocks=2)
timeline(eight.trace, title="Two trees, two blocks in each: up to ranks 7 and 0, and down again")

# %% [markdown]
# The gaps are smaller than in the picture of the single tree. Let us put a number to it: for how much of the time is a
# rank sending, on average?


# %%
def sending_share(trace: Trace) -> float:
    """Which part of the run a rank spends with sending, on average."""
    return sum(message.end - message.taken for message in trace) / (trace.world_size * trace.elapsed)


one_tree = run_on(flat(8), MIB, "tree")
print(f"one tree,               6 steps  {one_tree.elapsed * 1e6:4.0f} µs, sending {sending_share(one_tree.trace):.0%}")
assert round(one_tree.elapsed / FAR.seconds(MIB)) == 6
sending, times_by_blocks = {}, {}
for blocks in [1, 2, 4, 8]:
    eight.run(in_two_trees, MIB // 4, blocks=blocks)
    steps = round(eight.elapsed / FAR.seconds(MIB / (2 * blocks)))
    share = sending_share(eight.trace)
    print(f"two trees of {blocks} blocks, {steps:2} steps  {eight.elapsed * 1e6:4.0f} µs, sending {share:.0%}")
    sending[blocks], times_by_blocks[blocks] = share, eight.elapsed
    assert steps == 4 * blocks + 6
    assert max(eight.trace.bytes_sent) == max(eight.trace.bytes_received) == 2 * MIB

assert max(one_tree.trace.bytes_sent) == 3 * MIB
assert sending_share(one_tree.trace) < 0.3 < 0.7 < sending[8]
assert min(times_by_blocks, key=lambda blocks: times_by_blocks[blocks]) == 4

# %% [markdown]
# With $k$ blocks in each tree it takes $4k + c$ steps. The $c$ is for filling the trees: 6 with 8 ranks, and it grows
# as $4\log_2 N$. In each step a block of $S/2k$ bytes moves:
#
# $$T_\text{two trees} = (4k + c)\left(\alpha + \frac{S}{2k}\beta\right)$$
#
# With many blocks the bytes cost little more than $2S\beta$, as in a ring. With many ranks the steps grow as
# $\log_2 N$, as in a tree. But every block has its latency. Here 4 blocks were better than 8. The library computes the
# best number for each size.
#
# When is this worth it? On equal links not with 1,024 ranks: there halving and doubling wins. But take 997 of them,
# because some machines are broken. 997 is a prime number.

# %%
print("40 MiB        ring        tree   halving-doubling   two trees")
names = ("ring", "tree", "halving_doubling", "double_tree")
for n in [1024, 997]:
    times = {name: seconds(name, flat(n), 40 * MIB) * 1e3 for name in names}
    print(f"{n:6,} {times['ring']:8.1f} ms {times['tree']:8.1f} ms {times['halving_doubling']:15.1f} ms "
          f"{times['double_tree']:8.1f} ms")  # fmt: skip
    assert min(times, key=lambda name: times[name]) == ("halving_doubling" if n == 1024 else "double_tree")
    assert times["ring"] > 1.6 * times["double_tree"]

# %% [markdown]
# There is a second advantage, which the formula does not know. In halving and doubling a rank talks to $\log_2 N$
# others, and each needs a connection and buffers. In two trees a rank has at most four neighbors, however many ranks
# there are: two children and a parent in one tree, a parent in the other.

# %%
for n in [64, 1024, 4096]:
    trees = two_trees(n)
    neighbors = [
        {other for tree in (0, 1) for other in (trees.parents[tree][rank], *trees.children[tree][rank])} - {None}
        for rank in range(n)
    ]
    print(f"{n:5,} ranks: at most {max(map(len, neighbors))} neighbors in two trees, "
          f"{n.bit_length() - 1} partners in halving and doubling")  # fmt: skip
    assert max(map(len, neighbors)) == 4

talks_to = {message.dst for message in run_on(flat(64), 4 * KIB, "halving_doubling").trace if message.src == 0}
assert len(talks_to) == 6

# %% [markdown]
# NCCL, NVIDIA's library, used rings at first. Since version 2.4 it also has these two trees, between nodes. The reason
# is latency: in a ring it grows with the number of ranks, in a tree with its logarithm. Sources are at the end.
#
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
assert grid.trace.rounds == 6
columns = {number: all(m.src % 3 == m.dst % 3 for m in grid.trace if m.round == number) for number in range(1, 7)}
assert columns == {1: False, 2: False, 3: True, 4: True, 5: False, 6: False}
play_timeline(grid.trace, title="A grid of 2 rows and 3 columns: rows, columns, rows")

# %% [markdown]
# Rounds 1 and 2 stay inside the rows (ranks 0 to 2, ranks 3 to 5), 3 and 4 cross them, 5 and 6 stay inside again.

# %%
guess = predict("64 ranks in 8 rows and 8 columns. How many rounds does the grid need?", unit="rounds")

# %%
grid, ring = run_on(flat(64), MIB, "grid"), run_on(flat(64), MIB, "ring")
print(guess.compare(grid.trace.rounds))
print(f"grid {grid.elapsed * 1e3:.2f} ms, ring {ring.elapsed * 1e3:.2f} ms in {ring.trace.rounds} rounds")
assert grid.trace.rounds == 2 * (8 - 1) + 2 * (8 - 1) == 28 and ring.trace.rounds == 126
assert grid.trace.bytes_sent == ring.trace.bytes_sent
assert abs(grid.elapsed / seconds("grid", flat(64), MIB) - 1) < 1e-9

# %% [markdown]
# With $R$ rows and $C$ columns there are $2(C-1) + 2(R-1)$ rounds instead of $2(RC-1)$, and the bytes are the same, to
# the last one. A grid also suits machines whose cables form a grid, because everybody talks to neighbors only. But it
# needs a number of ranks that can be split well. 997 ranks make a grid of one row: a ring.

# %%
assert traffic.grid_all_reduce(1024, 2**20, 4, columns=32).rounds == 124
assert seconds("grid", flat(997), 40 * MIB) == seconds("ring", flat(997), 40 * MIB)

# %% [markdown]
# ## When links are not equal
#
# So far every link was as good as every other. In a real cluster, some GPUs sit in the same **node**, joined by fast
# links. Others are reached through the network only. Again numbers to think with: inside a node 1 µs and 100 GB/s,
# between nodes the 5 µs and 10 GB/s from before. Two nodes of 8 ranks each.

# %%
NEAR = Link(latency=1e-6, bandwidth=100e9)
cluster = Cluster(nodes=2, ranks_per_node=8, intra=NEAR, inter=FAR)
print(cluster)


def slow_messages(trace: Trace) -> Trace:
    """Only the messages from one node to another."""
    return trace.filter(lambda message: cluster.node_of(message.src) != cluster.node_of(message.dst))


ring = run_on(cluster, 8 * MIB, "ring")
slow = slow_messages(ring.trace)
print(f"ring: {ring.elapsed * 1e3:.2f} ms, {len(slow)} of {len(ring.trace)} messages leave their node")
assert (len(slow), len(ring.trace)) == (60, 480)
assert {(message.src, message.dst) for message in slow} == {(7, 8), (15, 0)}
timeline(slow, title="A ring through two nodes: only the messages between the nodes")

# %% [markdown]
# This picture shows only the traffic between the nodes. Ranks 7 and 15 send all the time, ranks 8 and 0 receive. The
# slow links of the other 12 ranks are never used. And because a ring is as fast as its slowest link, the fast links
# inside the nodes wait in every step.
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
# This is the **hierarchical** all-reduce. The library's uses rings inside, and halving and doubling between the nodes.

# %%
guess = predict("2 nodes of 8 ranks, 8 MiB. How much does rank 0 send over its slow link?", unit="MiB")

# %%
by_nodes = run_on(cluster, 8 * MIB, "hierarchical")
slow_by_nodes = slow_messages(by_nodes.trace)
print(guess.compare(slow_by_nodes.bytes_sent[0] / MIB))
print(f"hierarchical {by_nodes.elapsed * 1e3:.2f} ms, ring {ring.elapsed * 1e3:.2f} ms")
assert slow_by_nodes.bytes_sent == [MIB] * 16 and max(slow.bytes_sent) == 15 * MIB
assert 6 < ring.elapsed / by_nodes.elapsed < 6.5
timeline(slow_by_nodes, title="Hierarchical: only the messages between the nodes")

# %% [markdown]
# All 16 slow links carry the same, and only for two rounds. This is the whole run:

# %%
assert by_nodes.trace.rounds == 7 + 2 + 7
timeline(by_nodes.trace, title="Hierarchical: inside the nodes, between them, inside again")

# %%
bytes_per_rank(compare={"ring": slow, "hierarchical": slow_by_nodes}, title="Bytes over the slow links, 8 MiB")

# %% [markdown]
# ### One cable for eight
#
# We assumed that every rank has a network link of its own. Good machines are built so. If the ranks of a node share
# *one* link to the network, the picture changes. The simulator can do that.

# %%
shared = Cluster(nodes=2, ranks_per_node=8, intra=NEAR, inter=FAR, shared_uplink=True)
print("8 MiB               own links   one shared link")
by_links = {}
for name in ["ring", "hierarchical", "halving_doubling"]:
    by_links[name] = [run_on(links, 8 * MIB, name).elapsed * 1e3 for links in (cluster, shared)]
    print(f"{name:18} {by_links[name][0]:7.2f} ms {by_links[name][1]:14.2f} ms")

assert by_links["ring"][0] == by_links["ring"][1] > by_links["hierarchical"][1]
assert 3 < by_links["hierarchical"][1] / by_links["hierarchical"][0] < 4
assert by_links["halving_doubling"][0] < by_links["ring"][0] < by_links["halving_doubling"][1] / 3

# %% [markdown]
# The ring does not notice, because it used one link only. Halving and doubling falls behind: in its first and in its
# last step *every* rank sends half of its tensor to the other node. It was faster than the ring, now it is more than
# three times slower. The hierarchical all-reduce still wins, by less.
#
# So an algorithm is not fast or slow. It suits a network, or it does not.
#
# ## 4,096 ranks
#
# Now a machine that you probably do not have: 512 nodes of 8 ranks. Each rank has 16 KiB of real numbers, and we check
# the sums. It takes some seconds.

# %%
guess = predict("Halving and doubling on 4,096 ranks. How many rounds?", unit="rounds")


# %%
def sum_ones(comm: Communicator, length: int, algorithm: str) -> tuple[float, float]:
    """Sum `length` float32 ones of every rank. Returns the smallest and the largest number of the result."""
    tensor = torch.ones(length)
    all_reduce(comm, tensor, algorithm=algorithm)
    return tensor.min().item(), tensor.max().item()


large_cluster = Cluster(nodes=512, ranks_per_node=8, intra=NEAR, inter=FAR)
large = SimulatedWorld(4096, large_cluster)
print("4,096 ranks, 16 KiB   rounds    messages   simulated, µs   formula, µs")
rounds, messages = {}, {}
for name in ["halving_doubling", "tree", "hierarchical"]:
    assert set(large.run(sum_ones, 4096, name)) == {(4096, 4096)}
    formula = seconds(name, large_cluster, 16 * KIB)
    rounds[name], messages[name] = large.trace.rounds, sum(large.trace.messages_sent)
    print(f"{name:19} {rounds[name]:8} {messages[name]:11,} {large.elapsed * 1e6:15.2f} {formula * 1e6:13.2f}")
    assert abs(large.elapsed / formula - 1) < 1e-9

print(guess.compare(rounds["halving_doubling"]))
assert rounds == {"halving_doubling": 24, "tree": 24, "hierarchical": 32}
assert messages == {"halving_doubling": 98_304, "tree": 8_190, "hierarchical": 131_072}

# %% [markdown]
# The simulated times and the formulas agree to nine digits. (In a cluster with two kinds of links the formulas are
# upper bounds. For these three, with 512 nodes of 8 ranks, they are exact.)
#
# The ring is missing. It would need 33 million messages, and even on the simulated clock it is far behind.

# %%
ring_messages = sum(traffic.ring_all_reduce(4096, 4096, 4).messages)
ring_time, best_time = (seconds(name, large_cluster, 16 * KIB) for name in ("ring", "halving_doubling"))
print(f"ring: {ring_messages:,} messages, {ring_time * 1e3:.1f} ms")
assert ring_messages == 2 * 4095 * 4096 and round(ring_messages / 1e6, 1) == 33.5
assert ring_time > 300 * best_time

# %% [markdown]
# ## Who wins where
#
# Two formulas are equal at some size. Below it the one is faster, above it the other.

# %%
guess = predict("64 ranks on equal links: from which size on is the ring faster than the tree?", unit="kB")

# %%
meeting = crossover_bytes(flat(64), "tree", "ring")
assert meeting is not None
print(guess.compare(meeting / 1e3))
assert seconds("ring", flat(64), meeting) < seconds("tree", flat(64), meeting)
assert seconds("ring", flat(64), meeting - 4) >= seconds("tree", flat(64), meeting - 4)
by_hand = (63 - 6) * 50_000 / (6 - 63 / 64)
print(f"solved by hand: {by_hand / 1e3:.0f} kB")
assert abs(meeting / by_hand - 1) < 0.01

# %% [markdown]
# By hand: set $2\cdot63\,\alpha + 2\cdot\frac{63}{64}S\beta$ equal to $2\cdot6\,(\alpha + S\beta)$ and solve for $S$.
# The result contains the 50 kB from the beginning, $\alpha/\beta$. (The exact point lies a little off, because chunks
# are whole numbers of elements.)
#
# A picture of all three. Both axes are logarithmic. The band below says which is the fastest.

# %%
sizes = [2**power for power in range(10, 31)]
race(flat(64), sizes, ["ring", "tree", "halving_doubling"], title="64 ranks, equal links")

# %% [markdown]
# On the left everything is latency, and the lines are level. On the right everything is bytes, and they rise. Halving
# and doubling follows the lower one on both sides. Now the same with 997 ranks and all algorithms.

# %%
fastest = [choose_all_reduce(flat(997), size // 4, 4).algorithm for size in sizes]
assert fastest[0] == "halving_doubling" and fastest[-1] == "ring" and "double_tree" in fastest
race(flat(997), sizes, title="997 ranks, equal links")

# %% [markdown]
# Each of three has its own range. `grid` and `hierarchical` lie on the ring's line: one row, one node.
#
# At last by the number of ranks, with 4 MiB and nodes of 8. This picture has sliders. With each move the kernel
# computes all lines anew. The vertical line is where the sliders stand, and the times there are written below.

# %%
sixteen_nodes = Cluster(nodes=16, ranks_per_node=8, intra=NEAR, inter=FAR)
assert crossover_nodes("ring", "hierarchical", 4 * MIB, 8, NEAR, FAR) == 2
for power in range(1, 8):
    choice = choose_all_reduce(Cluster(2**power, 8, NEAR, FAR), MIB, 4)
    assert choice.algorithm == "hierarchical"

assert list(choice.seconds)[-2:] == ["ring", "naive"]  # with 128 nodes
explore_race(sixteen_nodes, 4 * MIB, along="ranks")

# %% [markdown]
# As soon as there are two nodes, hierarchical beats the ring, and here it beats everybody. At the right end the ring is
# the slowest but one, because its latencies take over. From how many nodes on does even the tree beat it?

# %%
tree_from = crossover_nodes("ring", "tree", 4 * MIB, 8, NEAR, FAR)
print(f"from {tree_from} nodes on")
assert tree_from is not None
for n, tree_wins in [(tree_from - 1, False), (tree_from, True)]:
    many = Cluster(n, 8, NEAR, FAR)
    assert (seconds("tree", many, 4 * MIB) < seconds("ring", many, 4 * MIB)) is tree_wins

# %% [markdown]
# Find that place in the picture. Then try the sliders:
#
# - Raise the latency between nodes to 10 µs. Where do ring and tree cross now?
# - Go back to 5 µs and 16 nodes, and press "over the size". Which algorithm is the fastest on the left? Where does it
#   lose the lead?
#
# The same, computed:

# %%
tree_from_by_latency = {}
for latency in [5e-6, 10e-6, 50e-6]:
    tree_from = crossover_nodes("ring", "tree", 4 * MIB, 8, NEAR, Link(latency, FAR.bandwidth))
    tree_from_by_latency[latency] = tree_from
    print(f"{latency * 1e6:2.0f} µs: the tree beats the ring from {tree_from} nodes on")
assert tree_from_by_latency == {5e-6: 57, 10e-6: 24, 50e-6: 2}

lead_from = crossover_bytes(sixteen_nodes, "halving_doubling", "hierarchical")
assert lead_from is not None and 16 * KIB < lead_from < 64 * KIB
assert choose_all_reduce(sixteen_nodes, 4 * KIB // 4, 4).algorithm == "halving_doubling"
print(f"16 nodes: halving and doubling leads up to {lead_from / KIB:.0f} KiB, then hierarchical")

# %% [markdown]
# ### Let the library choose
#
# If formulas are that good, a program can use them. `choose_all_reduce` evaluates all of them and takes the fastest.
# It also says why.

# %%
for nbytes in [4 * KIB, 4 * MIB]:
    print(choose_all_reduce(sixteen_nodes, nbytes // 4, itemsize=4), "\n")

assert choose_all_reduce(sixteen_nodes, KIB, 4).algorithm == "halving_doubling"
assert choose_all_reduce(sixteen_nodes, MIB, 4).algorithm == "hierarchical"

# %% [markdown]
# `all_reduce(comm, tensor, algorithm="auto")` does this for you. We check that it is as fast as the best of all.

# %%
for nbytes in [4 * KIB, 4 * MIB]:
    auto = run_on(sixteen_nodes, nbytes, "auto").elapsed
    chosen = choose_all_reduce(sixteen_nodes, nbytes // 4, itemsize=4).algorithm
    print(
        f"{nbytes:9,} bytes: auto {auto * 1e6:.1f} µs, {chosen} {seconds(chosen, sixteen_nodes, nbytes) * 1e6:.1f} µs"
    )
    assert abs(auto / min(seconds(name, sixteen_nodes, nbytes) for name in ALL_REDUCES) - 1) < 1e-9

# %% [markdown]
# It can only choose by what it knows. A simulated cluster knows its links, but the formulas leave out that links may be
# shared. A real `World` knows nothing about its links, so there it assumes a common network.
#
# ## How far does the model carry?
#
# Two numbers for a whole network: that cannot be all. So measure. `calibrate` lets two ranks on *your* machine exchange
# messages of several sizes, and fits $\alpha$ and $\beta$ to the times.

# %%
two = World(2)
measured = calibrate(two)
print(f"This machine, today: {measured.intra}")
print(f"latency and bytes are equal at {measured.intra.latency * measured.intra.bandwidth / 1e3:,.0f} kB")

# %% [markdown]
# Now the formulas predict what all-reduces take, by a ring and by a tree, from 64 KiB to 64 MiB. Then they are
# measured.

# %%
comparisons = {name: compare(two, measured, name) for name in ("ring", "tree")}
two.close()
for name, results in comparisons.items():
    print(f"{name}: median error {statistics.median(result.error for result in results):.0%}")
    assert [result.nbytes for result in results] == [64 * KIB * 4**power for power in range(6)]

predicted_and_measured(comparisons, title="This machine, today: the model and the clock")

# %% [markdown]
# Whatever stands there is the result of today. Nothing in this lesson depends on it, and if you run the cells again,
# other numbers may come out. Some reasons why the model errs:
#
# - **Your "network" is memory.** A small tensor stays in the processor's cache, a large one does not. So the bandwidth
#   is not one number.
# - **Adding takes time.** The model counts it as if it were part of sending.
# - **Others use the machine too.** Two ranks and a browser share its cores.
# - **Directions.** $\beta$ was measured with messages in both directions at once, as in a ring. The tree sends in one
#   direction at a time, and through memory that is often faster than predicted.
#
# Is a model with such errors of any use? For "how many milliseconds" only roughly. For "which algorithm" more often: in
# the races above the fastest and the slowest lie far apart, and where two lines meet, the choice matters little.
#
# ## In real frameworks
#
# All seven all-reduces of the library, and the one of torch, on the same six ranks: first whole numbers, where every
# order of adding gives the same sum, then arbitrary ones.

# %%
import torch.distributed as dist

from distlib.process_group import torch_distributed


def ours_and_theirs(comm: Communicator, whole_numbers: bool) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    tensor = torch.randint(-99, 100, (1001,)).float() if whole_numbers else torch.randn(1001)
    ours = {name: tensor.clone() for name in ALL_REDUCES}
    for name, copy in ours.items():
        all_reduce(comm, copy, algorithm=name)
    theirs = tensor.clone()
    with torch_distributed(comm):
        dist.all_reduce(theirs)
    return ours, theirs


with World(6) as six_ranks:
    for ours, theirs in six_ranks.run(ours_and_theirs, True):
        assert all(torch.equal(result, theirs) for result in ours.values())
    for ours, theirs in six_ranks.run(ours_and_theirs, False):
        assert all(torch.allclose(result, theirs, rtol=1e-5, atol=1e-5) for result in ours.values())

print("torch.distributed agrees with", ", ".join(ALL_REDUCES))
assert len(ALL_REDUCES) == 7

# %% [markdown]
# Which of them runs there?
#
# - **gloo** takes the ring unless told otherwise. It also contains
#   [another one](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc), a generalization of halving and doubling
#   to groups larger than pairs ("bcube"), and from older days
#   [halving and doubling](https://github.com/pytorch/gloo/blob/main/docs/algorithms.md) itself.
# - **NCCL** has rings and double trees, and algorithms that let switches do the adding. It estimates the time of each,
#   for the size at hand, and takes the smallest ([a maintainer](https://github.com/NVIDIA/nccl/issues/457)). The
#   [estimate](https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc) is of the kind you have seen here: a
#   latency for each step inside a node, another for each step between nodes, and bytes by bandwidth. The trees join
#   nodes; inside a node they are a chain ([a maintainer](https://github.com/NVIDIA/nccl/issues/919)). The second tree
#   is the first, mirrored or shifted by one
#   ([trees.cc](https://github.com/NVIDIA/nccl/blob/master/src/graph/trees.cc)), as ours. With
#   [NCCL_ALGO](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-algo) you can limit what it
#   chooses from.
# - **MPICH**, a library for MPI, chooses by size: for short tensors an algorithm of $\log_2 N$ steps in which whole
#   tensors move, for long ones halving and doubling (Thakur, Rabenseifner and Gropp, below).
#
# ## In short
#
# | N ranks, S bytes | steps | bytes a rank sends | good for |
# |---|---|---|---|
# | ring | $2(N-1)$ | $2\frac{N-1}{N}S$ | large tensors, few ranks |
# | tree | $2\lceil\log_2 N\rceil$ | up to $\lceil\log_2 N\rceil\,S$ | small tensors |
# | halving and doubling | $2\log_2 N$ | $2\frac{N-1}{N}S$ | powers of two, full networks |
# | two trees, $k$ blocks in each | $4k + c$, $c$ grows as $4\log_2 N$ | at most $2S$ | many ranks, any number of them |
# | grid, $R \times C$ | $2(R-1) + 2(C-1)$ | $2\frac{N-1}{N}S$ | large tensors, many ranks |
# | hierarchical, $n$ nodes of $G$ | $2(G-1) + 2\log_2 n$ | between nodes $2\frac{n-1}{n}\frac SG$ | unequal links |
#
# - $\alpha/\beta$ says which messages are small.
# - Below a crossover steps decide, above it bytes.
# - What a network shares, no formula of this kind knows. Measure.
#
# ## Now you
#
# In [the exercise](../exercises/03_trees_and_grids/03_trees_and_grids.ipynb) you write three of these all-reduces
# yourself: the tree, halving and doubling for any number of ranks, the grid. Then you write down what they cost, and
# choose.
#
# ## Further reading
#
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. The formulas of this lesson, and measurements.
# - R. Rabenseifner, [Optimization of Collective Reduction
#   Operations](https://doi.org/10.1007/978-3-540-24685-5_1), ICCS 2004. Halving and doubling, also for other numbers of
#   ranks.
# - P. Sanders, J. Speck, J. L. Träff, [Two-tree algorithms for full bandwidth broadcast, reduction and
#   scan](https://doi.org/10.1016/j.parco.2009.09.001), Parallel Computing 35(12), 2009. The double binary tree.
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of
#   workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), Journal of Parallel and Distributed Computing
#   69(2), 2009. The lower bound that ring, grid and halving and doubling meet.
# - S. Jeaugey, [Massively Scale Your Deep Learning Training with NCCL
#   2.4](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/), NVIDIA technical
#   blog, 2019. Two trees in practice.
# - H. Mikami et al., [Massively Distributed SGD: ImageNet/ResNet-50 Training in a
#   Flash](https://arxiv.org/abs/1811.05233), 2018. The grid.
# - X. Jia et al., [Highly Scalable Deep Learning Training System with Mixed-Precision: Training ImageNet in Four
#   Minutes](https://arxiv.org/abs/1807.11205), 2018. A hierarchical all-reduce.
# - R. W. Hockney, [The Communication Challenge for MPP: Intel Paragon and Meiko
#   CS-2](https://doi.org/10.1016/S0167-8191%2806%2980021-9), Parallel Computing 20(3), 1994. The two numbers, and
#   how to measure them.
