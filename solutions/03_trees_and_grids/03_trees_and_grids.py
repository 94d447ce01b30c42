# %% [markdown]
# # Exercise 03: trees, and halving and doubling
#
# You write two more all-reduces: one with few steps, and one with few steps and few bytes.
#
# - **Time:** about 75 minutes.
# - **Before:** read the lesson [Trees](../../course/03_trees_and_grids.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `tree_all_reduce` | 3 | 3 |
# | 2 | `halving_doubling_all_reduce` | 4 | 4 |
#
# That makes 14 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# Both functions are all-reduces, as in exercise 02: at the end every rank's tensor holds the sum over all ranks. They
# write it into `tensor` and return nothing.
#
# | | |
# |---|---|
# | `comm.rank`, `comm.world_size` | which rank this is, and how many there are |
# | `comm.send(tensor, dst)` | send a tensor to rank `dst` |
# | `comm.recv(tensor, src)` | wait for a message from rank `src` and write it into `tensor` |
# | `comm.exchange(outgoing, dst, incoming, src)` | send and receive at the same time |
#
# A tensor may be a transposed matrix, whose memory is not contiguous. Work on a flat one and write it back:
#
# ```python
# flat = tensor.reshape(-1)
# ...                                      # work on flat
# tensor.copy_(flat.view(tensor.shape))    # write it back
# ```
#
# **Tests count messages, bytes and rounds, too.** Messages that need not wait for one another are in the same round. An
# algorithm with the right sums and the wrong messages is a different algorithm, and gets no marks.
#
# A test stops at the first case that goes wrong. Hidden tests run the same checks on other cases.

# %% readonly="setup"
import torch

from distlib import Cluster, Communicator, Link, SimulatedWorld, World
from distlib.draw import timeline

four = World(4)  # four ranks to try things on

# %% [markdown]
# ## 1. Up a tree and down again: `tree_all_reduce`
#
# In exercise 01 one tree took a tensor to all ranks in few steps, and another tree added up. Now put both together.
# First the sum goes up a tree to rank 0. Then rank 0 sends it down, and every rank that has it passes it on.
#
# Count **steps**: in one step a rank takes part in at most one message. With 4 ranks and 1 element:
#
# | | sends | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|---|
# | at the start | | `1` | `10` | `100` | `1000` |
# | step 1, up | 1 → 0, 3 → 2 | `11` | `10` | `1100` | `1000` |
# | step 2, up | 2 → 0 | `1111` | `10` | `1100` | `1000` |
# | step 3, down | 0 → 2 | `1111` | `10` | `1111` | `1000` |
# | step 4, down | 0 → 1, 2 → 3 | `1111` | `1111` | `1111` | `1111` |
#
# Each way takes ⌈log₂ N⌉ steps, for any number of ranks N. With 5 ranks that is 3: up 1 → 0 and 3 → 2, then 2 → 0, then
# 4 → 0. A rank whose partner would be rank 5 or higher has no partner in that step.
#
# Any tree with rank 0 at the top gets full marks if it takes no more than ⌈log₂ N⌉ steps up and as many down. Every
# message is the whole tensor. Every rank but rank 0 sends its sum up once, and receives the result once.


# %% solution="tree_all_reduce"
def tree_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    """Add up the tensors of all ranks by a binomial tree. Afterwards every rank's tensor holds
    the sum, in place.

    Up: a rank receives from all ranks below it, adds, and sends its sum to the rank above it.
    Rank 0 is at the top.
    Down: rank 0 sends the sum to the ranks below it, and these pass it on.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Overwritten.

    Cost for N ranks and a tensor of S bytes:
        2 ceil(log2(N)) steps, if a rank takes part in one message per step.
        2 (N - 1) messages of S bytes in all: every rank but rank 0 sends 1 up and receives 1 on
        the way down.
        With one rank: no message.
    """
    ### BEGIN SOLUTION
    rank, size = comm.rank, comm.world_size
    distances = [1 << step for step in range((size - 1).bit_length())]
    incoming = torch.empty_like(tensor)
    for distance in distances:
        if rank % (2 * distance) == distance:
            comm.send(tensor, dst=rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.recv(incoming, src=rank + distance)
            tensor += incoming
    for distance in reversed(distances):
        if rank % (2 * distance) == distance:
            comm.recv(tensor, src=rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.send(tensor, dst=rank + distance)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table, and see which rank waits for which. A cell like this one gives no marks.
# Change it as you like.


# %%
def try_tree(comm: Communicator) -> float:
    tensor = torch.tensor([1.0]) * 10**comm.rank
    tree_all_reduce(comm, tensor)
    return tensor.item()


for rank, value in enumerate(four.run(try_tree, timeout=5)):
    print(f"rank {rank} holds {value:g}")
print(four.trace.table())
timeline(four.trace)

# %% [markdown]
# **Visible test: 3 points.** It allows ⌈log₂ N⌉ steps up, and as many down.

# %% test="tree_all_reduce_visible" points=3
from distlib.exercises import check_tree_all_reduce

report = check_tree_all_reduce(
    tree_all_reduce,
    world_sizes=(1, 2, 3, 4, 5),
    lengths=(6,),
)
# 8 messages of 6 float32, which are 24 bytes
assert sum(report.trace(world_size=5, length=6).bytes_sent) == 8 * 24
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Up to 9 ranks, tensors of 1 element and of 0, other dtypes and shapes, tensors that are not
# contiguous.

# %% test="tree_all_reduce_hidden" points=3
# The hidden tests of tree_all_reduce stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: the steps of a tree on any number of ranks, short tensors, other dtypes, shapes and memory layouts.
import torch

from distlib.exercises import check_tree_all_reduce

report = check_tree_all_reduce(
    tree_all_reduce, world_sizes=(1, 2, 4, 6, 8, 9), lengths=(7, 1, 0), seed=11
)
assert len(report) == 18
assert sum(report.trace(world_size=8, length=7).messages_sent) == 14
assert sum(report.trace(world_size=8, length=7).bytes_sent) == 14 * 28
assert max(report.trace(world_size=8, length=7).messages_received) <= 4
assert report.trace(world_size=6, length=7).messages_received[0] <= 3

report = check_tree_all_reduce(
    tree_all_reduce,
    world_sizes=(3,),
    lengths=(12,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=12,
)
assert len(report) == 16
assert sum(report.trace(world_size=3, length=12, dtype=torch.float64).bytes_sent) == 4 * 96

assert (
    len(
        check_tree_all_reduce(
            tree_all_reduce, world_sizes=(1, 5), lengths=(1,), layouts=("scalar",), seed=13
        )
    )
    == 2
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The bytes of a ring in the steps of a tree: `halving_doubling_all_reduce`
#
# A tree takes few steps, but in each the whole tensor travels. A ring sends few bytes, but takes many steps. This
# algorithm has both: few steps and few bytes.
#
# **Halving.** In every step two ranks form a pair. One keeps the first half of what both work on, the other one keeps
# the second half. Each sends the half that it does *not* keep, and adds what it receives to the half that it keeps. In
# the next step it goes on with this half alone. After log₂ N steps every rank has 1/N of the sum.
#
# **Doubling.** The same pairs, from the last to the first. Each rank sends all that it has of the sum, and receives as
# much. After log₂ N steps everybody has everything.
#
# With 4 ranks and 4 elements. The sum is `[1111, 2222, 3333, 4444]`. In step 1 the ranks with distance 2 are pairs, in
# step 2 those with distance 1. A dash is a number that does not matter any more.
#
# | | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|
# | at the start | `[1, 2, 3, 4]` | `[10, 20, 30, 40]` | `[100, 200, 300, 400]` | `[1000, 2000, 3000, 4000]` |
# | step 1, halving | `[101, 202, -, -]` | `[1010, 2020, -, -]` | `[-, -, 303, 404]` | `[-, -, 3030, 4040]` |
# | step 2, halving | `[1111, -, -, -]` | `[-, 2222, -, -]` | `[-, -, 3333, -]` | `[-, -, -, 4444]` |
# | step 3, doubling | `[1111, 2222, -, -]` | `[1111, 2222, -, -]` | `[-, -, 3333, 4444]` | `[-, -, 3333, 4444]` |
# | step 4, doubling | the sum | the sum | the sum | the sum |
#
# Other pairs are correct as well, such as distance 1 first. So are other ways to cut an odd number of elements in two.
#
# ### When N is not a power of two
#
# Let P be the largest power of two up to N. With 6 ranks P is 4. **Before** the first step each rank r ≥ P sends
# its whole tensor to rank r − P, which adds it to its own. The first P ranks halve and double. **At the end** rank r
# gets the whole sum from rank r − P. With 6 ranks: 4 → 0 and 5 → 1 before, 0 → 4 and 1 → 5 at the end.
# This is the simplest way, and not the cheapest: see the lesson.
#
# ### Two tools
#
# `rank ^ distance` is the partner at distance 1, 2, 4 and so on: `^` flips one bit of the number. And
# `torch.tensor_split(part, 2)` cuts a flat tensor in two, even one of odd length. The halves are views: writing into
# a half writes into the tensor.

# %%
for distance in (2, 1):
    print(
        f"distance {distance}: "
        + ", ".join(f"rank {rank} with {rank ^ distance}" for rank in range(4))
    )
lower, upper = torch.tensor_split(torch.arange(7), 2)
print(lower.tolist(), upper.tolist())
assert [rank ^ 2 for rank in range(4)] == [2, 3, 0, 1]
assert (len(lower), len(upper)) == (4, 3)


# %% solution="halving_doubling_all_reduce"
def halving_doubling_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    """Add up the tensors of all ranks by halving and doubling. Afterwards every rank's tensor
    holds the sum, in place.

    With N ranks, P is the largest power of two up to N. Each rank r >= P first sends its tensor
    to rank r - P, and at the end receives the sum from there. The first P ranks exchange with
    one partner in each step: a half, a quarter, an eighth and so on of the tensor, each time
    adding what they receive; then the same sizes back.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Overwritten.

    Cost for N ranks and a tensor of S bytes:
        a power of two: 2 log2(N) rounds; in each every rank sends 1 message, about
        2 (N - 1) / N * S bytes in all.
        else: 2 log2(P) + 2 rounds. A rank r >= P sends 1 message, of S bytes. The first P ranks
        send 2 log2(P), and about 2 (P - 1) / P * S bytes; each one that serves a rank r >= P
        sends 1 more, of S bytes.
        With one rank: no message.
    """
    ### BEGIN SOLUTION
    rank, power = comm.rank, 1 << (comm.world_size.bit_length() - 1)
    if rank >= power:
        comm.send(tensor, dst=rank - power)
        comm.recv(tensor, src=rank - power)
        return
    flat = tensor.reshape(-1)
    if rank + power < comm.world_size:
        incoming = torch.empty_like(flat)
        comm.recv(incoming, src=rank + power)
        flat += incoming
    steps, part, distance = [], flat, power // 2
    while distance > 0:
        partner = rank ^ distance
        lower, upper = torch.tensor_split(part, 2)
        mine, theirs = (lower, upper) if rank < partner else (upper, lower)
        incoming = torch.empty_like(mine)
        comm.exchange(theirs, partner, incoming, partner)
        mine += incoming
        steps.append((partner, mine, theirs))
        part, distance = mine, distance // 2
    for partner, mine, theirs in reversed(steps):
        comm.exchange(mine, partner, theirs, partner)
    if rank + power < comm.world_size:
        comm.send(flat, dst=rank + power)
    tensor.copy_(flat.view(tensor.shape))
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table, and **watch it** step by step.


# %%
def try_halving_doubling(comm: Communicator) -> list[float]:
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0]) * 10**comm.rank
    halving_doubling_all_reduce(comm, tensor)
    return tensor.tolist()


for rank, values in enumerate(four.run(try_halving_doubling, timeout=5)):
    print(f"rank {rank} holds {values}")

# %%
from distlib.draw import play_chunks, watch_chunks

play_chunks(watch_chunks(four, halving_doubling_all_reduce, end="everywhere", timeout=5))

# %% [markdown]
# **Visible test: 4 points.** First powers of two, then other numbers of ranks.

# %% test="halving_doubling_all_reduce_visible" points=4
from distlib.exercises import check_halving_doubling_all_reduce

report = check_halving_doubling_all_reduce(
    halving_doubling_all_reduce,
    world_sizes=(1, 2, 4, 3, 5),
    lengths=(8, 10),
)
assert report.trace(world_size=4, length=8).bytes_sent == [48] * 4  # 2 * 3/4 of 32 bytes
# ranks 0 and 4 send a whole tensor, too
assert report.trace(world_size=5, length=8).messages_sent == [5, 4, 4, 4, 1]
# one before, 2 of halving, 2 of doubling, one at the end
assert report.trace(world_size=5, length=8).rounds == 6
print(report)

# %% [markdown]
# **Hidden test: 4 points.** Up to 11 ranks, fewer elements than ranks, other dtypes and shapes, tensors that are not
# contiguous.

# %% test="halving_doubling_all_reduce_hidden" points=4
# The hidden tests of halving_doubling_all_reduce stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: any number of ranks, fewer elements than ranks, other dtypes, shapes and memory layouts.
import torch

from distlib.exercises import check_halving_doubling_all_reduce

report = check_halving_doubling_all_reduce(
    halving_doubling_all_reduce,
    world_sizes=(1, 2, 4, 8, 16, 3, 5, 6, 11),
    lengths=(16, 13, 3, 0),
    seed=21,
)
assert len(report) == 36
assert sum(report.trace(world_size=8, length=13).bytes_sent) == 14 * 52
assert report.trace(world_size=8, length=13).rounds == 6
assert sum(report.trace(world_size=6, length=13).bytes_sent) == 2 * 3 * 52 + 4 * 52
assert report.trace(world_size=6, length=13).bytes_sent[4:] == [52, 52]
assert report.trace(world_size=11, length=13).messages_sent == [7] * 3 + [6] * 5 + [1] * 3

report = check_halving_doubling_all_reduce(
    halving_doubling_all_reduce,
    world_sizes=(3, 4),
    lengths=(20,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=22,
)
assert len(report) == 32
assert report.trace(world_size=4, length=20, dtype=torch.float64).bytes_sent == [240] * 4

report = check_halving_doubling_all_reduce(
    halving_doubling_all_reduce, world_sizes=(1, 3), lengths=(1,), layouts=("scalar",), seed=23
)
assert len(report) == 2
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Real work: your functions on 64 simulated ranks
#
# This part gives no marks. The functions that ran on real processes run unchanged on 8 nodes with 8 ranks each, in
# virtual time. Do they take as long as the formulas of the lesson say? The tensors have no values here, only a size.

# %%
from distlib import all_reduce_seconds

cluster = Cluster(nodes=8, ranks_per_node=8, intra=Link(1e-6, 200e9), inter=Link(5e-6, 12.5e9))
sixty_four = SimulatedWorld(64, cluster)
functions = {"tree": tree_all_reduce, "halving_doubling": halving_doubling_all_reduce}


def run_on(comm: Communicator, algorithm: str, nbytes: int) -> None:
    functions[algorithm](comm, torch.empty(nbytes, dtype=torch.uint8, device="meta"))


for nbytes in (6_400, 64_000_000):
    for algorithm in functions:
        sixty_four.run(run_on, algorithm, nbytes)
        formula = all_reduce_seconds(algorithm, cluster, nbytes, itemsize=1)
        print(
            f"{nbytes:>10,} bytes, {algorithm:16} formula {formula:.6f} s, "
            f"simulated {sixty_four.elapsed:.6f} s"
        )
        assert abs(formula / sixty_four.elapsed - 1) < 1e-9, (
            "do both functions pass their tests?"
        )

# %% [markdown]
# Which of the two would you use for which tensor? In [exercise 03b](../03b_networks/03b_networks.ipynb), a side road,
# you write the formulas, and a function that chooses by them.

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 03_trees_and_grids` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("03_trees_and_grids")

# %%
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("03_trees_and_grids")
