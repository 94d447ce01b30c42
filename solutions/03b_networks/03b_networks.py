# %% [markdown]
# # Exercise 03b: networks
#
# **This exercise is optional.** It is a side road: no later exercise needs it. You write an all-reduce on a grid, a
# function that predicts how long an all-reduce takes, and one that picks the fastest.
#
# - **Time:** about 135 minutes.
# - **Before:** read the lesson [Grids, two trees, many nodes](../../course/03b_networks.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `grid_all_reduce` | 3 | 3 |
# | 2 | `predict_time` | 3 | 3 |
# | 3 | `choose_algorithm` | 2 | 2 |
#
# That makes 16 points. Each part is graded by itself: when a test runs your `choose_algorithm`, it supplies a correct
# `predict_time`.

# %% [markdown]
# ## How to work
#
# The first function is an all-reduce, as in exercise 03: it works in place, and tests count its messages, bytes and
# rounds. The other two only compute. `comm` has one thing more than before:
#
# | | |
# |---|---|
# | `comm.split(color)` | a communicator over all ranks that give the same color; they are numbered anew |
#
# A tensor may be a transposed matrix, whose memory is not contiguous. `flat = tensor.reshape(-1)` is then a copy: write
# it back with `tensor.copy_(flat.view(tensor.shape))`.

# %% readonly="setup"
import math
from collections.abc import Sequence

import torch

# the two halves of the ring, from exercise 02
from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    World,
    ring_all_gather,
    ring_reduce_scatter,
)

four = World(4)  # four ranks to try things on

# %% [markdown]
# ## 1. Rows and columns: `grid_all_reduce`
#
# In a large ring a chunk takes a long way round. Put the ranks on a grid, and it takes a short way along a row, a short
# way along a column, and a short way along the row again. Rank r stands in row `r // columns` and column `r % columns`.
#
# 1. **A reduce-scatter along each row.** The tensor is cut into as many chunks as there are columns. Afterwards the
#    rank in column j has chunk j of the sum of its row.
# 2. **An all-reduce along each column**, of that chunk only. Afterwards this chunk is the sum over all ranks. It is cut
#    into as many pieces as there are rows, for a reduce-scatter and an all-gather.
# 3. **An all-gather along each row.** Now every rank has all chunks.
#
# With 4 ranks in 2 rows and 2 columns, ranks 0 and 1 are a row, and ranks 0 and 2 are a column. The two chunks have 2
# elements each. The sum is `[1111, 2222, 3333, 4444]`.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | at the start | `[1, 2, 3, 4]` | `[10, 20, 30, 40]` | `[100, 200, 300, 400]` | `[1000, 2000, 3000, 4000]` |
# | after part 1 | `[11, 22, -, -]` | `[-, -, 33, 44]` | `[1100, 2200, -, -]` | `[-, -, 3300, 4400]` |
# | after part 2 | `[1111, 2222, -, -]` | `[-, -, 3333, 4444]` | `[1111, 2222, -, -]` | `[-, -, 3333, 4444]` |
# | after part 3 | the sum | the sum | the sum | the sum |
#
# Every row and every column is a ring, in either direction. Its reduce-scatter and its all-gather may go round in
# different directions.
#
# **You need not write the rings again.** `ring_reduce_scatter(comm, tensor)` and `ring_all_gather(comm, tensor)` are
# correct versions of what you wrote in exercise 02, and the tests supply them. They work in place, on any
# communicator. `comm.split(color)` makes one for a row or a column: all ranks that give the same color are together, in
# the same order, numbered anew from 0. All ranks must call it.
#
# Of course you may write the rings yourself with `comm.exchange`, without `split`.


# %%
def show_split(comm: Communicator) -> str:
    parity = comm.split(comm.rank % 2)
    place = f"rank {parity.rank} of {parity.world_size}"
    return f"rank {comm.rank} is {place} among those with the same last bit"


print("\n".join(four.run(show_split, timeout=5)))


# %% solution="grid_all_reduce"
def grid_all_reduce(comm: Communicator, tensor: torch.Tensor, columns: int) -> None:
    """Add up the tensors of all ranks on a grid. Afterwards every rank's tensor holds the sum,
    in place.

    Rank r is in row r // columns and column r % columns. First a reduce-scatter along the rows,
    then an all-reduce of one chunk along the columns, then an all-gather along the rows.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Overwritten. Its chunks are
            torch.tensor_split(flat, columns), where flat is the flattened tensor. Along a
            column, the pieces of a chunk are torch.tensor_split(chunk, rows).
        columns: how many ranks are in a row. Divides the number of ranks.

    Cost for R rows, C columns, N = R * C ranks and a tensor of S bytes:
        2 (C - 1) + 2 (R - 1) rounds. Every rank sends 2 (C - 1) messages of about S / C bytes
        along its row, and 2 (R - 1) messages of about S / N bytes along its column: about
        2 (N - 1) / N * S bytes in all, as in a ring.
        With one rank: no message.
    """
    ### BEGIN SOLUTION
    row, column = divmod(comm.rank, columns)
    my_row, my_column = comm.split(row), comm.split(column)
    flat = tensor.reshape(-1)
    chunk = torch.tensor_split(flat, columns)[column]
    ring_reduce_scatter(my_row, flat)
    ring_reduce_scatter(my_column, chunk)
    ring_all_gather(my_column, chunk)
    ring_all_gather(my_row, flat)
    tensor.copy_(flat.view(tensor.shape))
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_grid(comm: Communicator) -> list[float]:
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0]) * 10**comm.rank
    grid_all_reduce(comm, tensor, columns=2)
    return tensor.tolist()


for rank, values in enumerate(four.run(try_grid, timeout=5)):
    print(f"rank {rank} holds {values}")
print(four.trace.summary())

# %% [markdown]
# **Visible test: 3 points.** `grids` are rows and columns.

# %% test="grid_all_reduce_visible" points=3
from distlib.exercises import check_grid_all_reduce

report = check_grid_all_reduce(
    grid_all_reduce,
    grids=((1, 1), (2, 2), (2, 3)),
    lengths=(12, 13),
)
assert report.trace(world_size=6, length=12).bytes_sent == [80] * 6  # 2 * 5/6 of 48 bytes
# 4 along its row, 2 along its column
assert report.trace(world_size=6, length=12).messages_sent == [6] * 6
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Up to 12 ranks on other grids, fewer elements than ranks, other dtypes and shapes, tensors
# that are not contiguous.

# %% test="grid_all_reduce_hidden" points=3
# The hidden tests of grid_all_reduce stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: other grids, some of one row or one column, short tensors, other dtypes, shapes and memory layouts.
import torch

from distlib.exercises import check_grid_all_reduce

report = check_grid_all_reduce(
    grid_all_reduce,
    grids=((1, 1), (1, 3), (3, 1), (3, 2), (2, 4), (4, 2), (3, 4)),
    lengths=(24, 17, 3, 0),
    seed=31,
)
assert len(report) == 28
assert report.trace(world_size=8, length=17, columns=4).rounds == 8
assert report.trace(world_size=8, length=17, columns=4).messages_sent == [8] * 8
assert sum(report.trace(world_size=8, length=17, columns=4).bytes_sent) == 2 * 7 * 68
assert sum(report.trace(world_size=8, length=17, columns=2).bytes_sent) == 2 * 7 * 68

report = check_grid_all_reduce(
    grid_all_reduce,
    grids=((2, 2),),
    lengths=(20,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=32,
)
assert len(report) == 16
assert report.trace(world_size=4, length=20, dtype=torch.float64).bytes_sent == [240] * 4

assert (
    len(
        check_grid_all_reduce(
            grid_all_reduce, grids=((2, 2),), lengths=(1,), layouts=("scalar",), seed=33
        )
    )
    == 1
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. How long does it take? `predict_time`
#
# A message of m bytes over a link of latency α and bandwidth B takes **α + m/B seconds**. An all-reduce is a number of
# steps. A step begins when the one before has ended, and takes as long as its slowest message. So you can predict its
# time: add up the steps.
#
# For N ranks and S bytes:
#
# | algorithm | steps | each message has |
# |---|---|---|
# | `"ring"` | 2(N − 1) | S/N bytes |
# | `"tree"` | 2 for each distance d = 1, 2, 4 … that is less than N | S bytes |
# | `"halving_doubling"` | 2 for each distance d = 1, 2, 4 … that is less than P | d · S/P bytes |
# | | 2 more if N is not a power of two | S bytes |
# | `"hierarchical"` | 2(G − 1) inside each node of G ranks, in a ring | S/G bytes |
# | | and then halving and doubling between the nodes | as above, but of S/G bytes in all |
#
# P is the largest power of two up to N. The hierarchical all-reduce is a grid whose rows are the nodes, except that
# its columns halve and double. There, N is the number of nodes, and a distance of 1 leads to the next node.
#
# **Which link?** A cluster has `nodes`, `ranks_per_node` and `world_size`, and two links: `intra` inside a node,
# `inter` between nodes. Rank r is on node `r // ranks_per_node`. With one node every message uses `intra`. With several
# nodes, the numbers of nodes and of ranks per node are powers of two here, and `inter` is never faster than `intra`.
# Then
#
# - in a ring some message leaves its node in every step;
# - in trees, halving and doubling, ranks at distance d talk. If d is less than `ranks_per_node`, all these pairs are
#   inside a node. Otherwise none are.
#
# **Units.** `link.latency` is in seconds and `link.bandwidth` in bytes per second. 1 MB is 1,000,000 bytes.
#
# An example: a tree of 8 ranks, 1,000 bytes, a latency of 5 µs, 1 GB/s. The distances are 1, 2 and 4, so there are 6
# steps. Each takes 5 µs + 1 µs.

# %%
link = Link(latency=5e-6, bandwidth=1e9)
a_message = link.latency + 1_000 / link.bandwidth
print(f"a message takes {a_message * 1e6:g} µs, the tree {6 * a_message * 1e6:g} µs")
assert math.isclose(6 * a_message, 36e-6)


# %% solution="predict_time"
def predict_time(algorithm: str, nbytes: int, cluster: Cluster) -> float:
    """Predict how long an all-reduce takes: the sum of its steps, each of
    latency + bytes / bandwidth.

    Args:
        algorithm: "ring", "tree", "halving_doubling" or "hierarchical".
        nbytes: size of the tensor in bytes. A multiple of the number of ranks.
        cluster: has `nodes`, `ranks_per_node`, `world_size`, and the links `intra` and `inter`,
            each with a `latency` in seconds and a `bandwidth` in bytes per second. With several
            nodes, `nodes` and `ranks_per_node` are powers of two.

    Returns:
        Seconds. With one rank: 0.
    """
    ### BEGIN SOLUTION
    ranks, per_node, nodes = cluster.world_size, cluster.ranks_per_node, cluster.nodes

    def step(message_bytes: float, distance: int) -> float:
        link = cluster.intra if distance < per_node else cluster.inter
        return link.latency + message_bytes / link.bandwidth

    def distances(count: int) -> list[int]:
        return [1 << number for number in range((count - 1).bit_length())]

    if algorithm == "ring":
        return 2 * (ranks - 1) * step(nbytes / ranks, ranks - 1)
    if algorithm == "tree":
        return 2 * sum(step(nbytes, distance) for distance in distances(ranks))
    if algorithm == "halving_doubling":
        power = 1 << (ranks.bit_length() - 1)
        outside = 2 * step(nbytes, ranks - 1) if ranks > power else 0.0
        return (
            2 * sum(step(distance * nbytes / power, distance) for distance in distances(power))
            + outside
        )
    chunk = nbytes / per_node
    between = 2 * sum(
        step(distance * chunk / nodes, distance * per_node) for distance in distances(nodes)
    )
    return 2 * (per_node - 1) * step(chunk, 1) + between
    ### END SOLUTION


# %% [markdown]
# **Try it** against the library's own all-reduce on simulated ranks. Nothing waits here: the clock is virtual.


# %%
def all_reduce_of(comm: Communicator, nbytes: int, algorithm: str) -> None:
    from distlib import all_reduce

    all_reduce(comm, torch.empty(nbytes, dtype=torch.uint8, device="meta"), algorithm=algorithm)


eight = SimulatedWorld(8, Cluster.flat(8, link))
for algorithm in ("ring", "tree", "halving_doubling"):
    eight.run(all_reduce_of, 8_000, algorithm)
    predicted = predict_time(algorithm, 8_000, eight.cluster)
    print(
        f"{algorithm:16} predicted {predicted * 1e6:6.1f} µs, "
        f"simulated {eight.elapsed * 1e6:6.1f} µs"
    )

# %% [markdown]
# **Visible test: 3 points.** It compares your predictions with simulated runs, to 9 digits: on one node with 1, 6 and
# 16 ranks, and on 4 nodes with 4 ranks each.

# %% test="predict_time_visible" points=3
from distlib.exercises import check_predict_time

slow, fast = Link(latency=5e-6, bandwidth=12.5e9), Link(latency=1e-6, bandwidth=200e9)
report = check_predict_time(
    predict_time,
    algorithms=("ring", "tree", "halving_doubling", "hierarchical"),
    nbytes=(0, 4_800, 48_000_000),
    clusters=(
        Cluster.flat(1, slow),
        Cluster.flat(6, slow),
        Cluster.flat(16, slow),
        Cluster(4, 4, fast, slow),
    ),
)
# a ring of 6 ranks, no bytes: 10 steps that only have latency
assert math.isclose(report.answers[12], 10 * 5e-6)
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Other latencies and bandwidths, up to 128 ranks, other numbers of nodes.

# %% test="predict_time_hidden" points=3
# The hidden tests of predict_time stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: each formula for other sizes, links and numbers of ranks, in one node and in several.
import math

from distlib import Cluster, Link
from distlib.exercises import check_predict_time

names = ("ring", "tree", "halving_doubling", "hierarchical")
ethernet, nvlink = Link(latency=50e-6, bandwidth=1.25e9), Link(latency=3e-6, bandwidth=300e9)
report = check_predict_time(
    predict_time,
    algorithms=names,
    nbytes=(73_920, 739_200_000),
    clusters=[Cluster.flat(ranks, ethernet) for ranks in (5, 7, 12, 33, 64, 3, 2, 1)],
)
assert len(report) == 64
assert math.isclose(report.answers[10], 6 * (50e-6 + 73_920 / 1.25e9))  # 7 ranks, a tree
assert math.isclose(report.answers[48], 2 * (50e-6 + 36_960 / 1.25e9))  # 2 ranks, a ring
# 64 ranks, halving and doubling
assert math.isclose(report.answers[36], 12 * 50e-6 + 2 * 63 * 1_155 / 1.25e9)

report = check_predict_time(
    predict_time,
    algorithms=names,
    nbytes=(1 << 14, 1 << 30),
    clusters=[
        Cluster(*shape, intra=nvlink, inter=ethernet)
        for shape in ((8, 2), (2, 8), (16, 1), (16, 8))
    ],
    drawn=4,
    seed=41,
)
assert len(report) == 32 + 16
# 2 nodes, a tree
assert math.isclose(
    report.answers[10], 6 * (3e-6 + 2**14 / 300e9) + 2 * (50e-6 + 2**14 / 1.25e9)
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Which one is fastest? `choose_algorithm`
#
# No all-reduce is the fastest for every tensor on every cluster. Libraries choose for each call, and no library has all
# of them. So your function is given the names that it may choose from.
#
# The answer is the name of the algorithm that takes the least time by the model of part 2. If two are equally fast,
# either is correct. A test that runs this function replaces your `predict_time` with a correct one, so a mistake there
# costs nothing here.
#
# A fixed limit, such as "a tree below 64 KiB", fits one cluster and is wrong on the next one.

# %%
for ranks in (8, 256):
    ring, tree = 2 * (ranks - 1), 2 * (ranks - 1).bit_length()
    print(
        f"{ranks:3} ranks: a ring takes {ring:3} steps of S/{ranks}, a tree {tree:2} steps of S"
    )
assert (2 * (256 - 1), 2 * (256 - 1).bit_length()) == (510, 16)


# %% solution="choose_algorithm"
def choose_algorithm(nbytes: int, cluster: Cluster, algorithms: Sequence[str]) -> str:
    """Choose the all-reduce that takes the least time.

    Args:
        nbytes: size of the tensor in bytes. A multiple of the number of ranks.
        cluster: as for `predict_time`.
        algorithms: the names to choose from, at least one; `predict_time` knows all of them.
            Not changed.

    Returns:
        One of `algorithms`. If several are equally fast, any of these.
    """
    ### BEGIN SOLUTION
    return min(algorithms, key=lambda algorithm: predict_time(algorithm, nbytes, cluster))
    ### END SOLUTION


# %% [markdown]
# **Visible test: 2 points.** `choices` are the names to choose from.

# %% test="choose_algorithm_visible" points=2
from distlib.exercises import check_choose_algorithm

slow, fast = Link(latency=5e-6, bandwidth=12.5e9), Link(latency=1e-6, bandwidth=200e9)
report = check_choose_algorithm(
    choose_algorithm,
    choices=(("ring", "tree"), ("ring", "tree", "halving_doubling", "hierarchical")),
    nbytes=(960, 96_000, 96_000_000),
    clusters=(Cluster.flat(6, slow), Cluster.flat(8, slow), Cluster(4, 8, fast, slow)),
)
assert report.answers[:3] == ["tree", "ring", "ring"]  # of ring and tree, with 6 ranks
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Other links, other numbers of ranks and nodes, other names to choose from.

# %% test="choose_algorithm_hidden" points=2
# The hidden tests of choose_algorithm stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: the fastest of those to choose from, where it depends on the size, the links and the nodes.
from distlib import Cluster, Link
from distlib.exercises import check_choose_algorithm

everything = ("hierarchical", "halving_doubling", "tree", "ring")
distant, near, bus, cable = (
    Link(2e-3, 1e9),
    Link(0.5e-6, 50e9),
    Link(1e-6, 400e9),
    Link(5e-6, 25e9),
)
report = check_choose_algorithm(
    choose_algorithm,
    choices=(everything, ("tree", "ring"), ("tree",), ("tree", "halving_doubling", "ring")),
    nbytes=(2_310, 231_000, 231_000_000),
    clusters=[Cluster.flat(ranks, link) for ranks in (1, 3, 21) for link in (distant, near)],
)
assert len(report) == 72
assert report.answers[51:54] == ["tree", "tree", "ring"]  # 21 ranks, distant
assert report.answers[63:66] == ["tree", "ring", "ring"]  # 21 ranks, near

three = (
    ("hierarchical", "tree", "ring"),
    ("tree", "ring", "hierarchical"),
    ("ring", "hierarchical", "halving_doubling"),
)

report = check_choose_algorithm(
    choose_algorithm,
    choices=(everything, ("halving_doubling", "hierarchical"), ("ring", "tree"), *three),
    nbytes=(1 << 10, 1 << 18, 1 << 28),
    clusters=[
        Cluster(*shape, intra=bus, inter=link)
        for shape in ((2, 8), (32, 8), (4, 16))
        for link in (distant, cable)
    ]
    + [Cluster(2, 8, intra=Link(1.5e-6, 20e9), inter=Link(5e-6, 10e9))],
    drawn=20,
    seed=51,
)
assert len(report) == 126 + 120
# in the last cluster two take nearly as long
assert report.answers[109] == report.answers[112] == "halving_doubling"
assert report.answers[54:57] == ["halving_doubling", "hierarchical", "hierarchical"]

report = check_choose_algorithm(  # each of them takes longer than a minute
    choose_algorithm,
    choices=(everything, ("ring", "tree")),
    nbytes=(6 << 10, 6 << 30),
    clusters=[Cluster.flat(6, Link(90.0, 1e5))],
)
assert len(report) == 4
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Real work: 64 ranks on 8 nodes
#
# This part gives no marks. The library's all-reduces run on 8 nodes with 8 ranks each, in virtual time. Do they take as
# long as you predict? The tensors have no values here, only a size.

# %%
cluster = Cluster(nodes=8, ranks_per_node=8, intra=Link(1e-6, 200e9), inter=Link(5e-6, 12.5e9))
sixty_four = SimulatedWorld(64, cluster)

for nbytes in (6_400, 64_000_000):
    for algorithm in ("tree", "halving_doubling", "hierarchical"):
        sixty_four.run(all_reduce_of, nbytes, algorithm)
        predicted = predict_time(algorithm, nbytes, cluster)
        print(
            f"{nbytes:>10,} bytes, {algorithm:16} predicted {predicted:.6f} s, "
            f"simulated {sixty_four.elapsed:.6f} s"
        )
        assert math.isclose(predicted, sixty_four.elapsed, rel_tol=1e-9), (
            "does predict_time pass its tests?"
        )

# %% [markdown]
# And what would you use for which tensor?

# %%
for nbytes in (640, 64_000, 6_400_000, 640_000_000):
    chosen = choose_algorithm(
        nbytes, cluster, ("ring", "tree", "halving_doubling", "hierarchical")
    )
    seconds = predict_time(chosen, nbytes, cluster)
    print(f"{nbytes:>11,} bytes: {chosen:16} {seconds * 1e3:8.3f} ms")

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 03b_networks` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("03b_networks")

# %%
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("03b_networks")
