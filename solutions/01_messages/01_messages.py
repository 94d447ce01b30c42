# %% [markdown]
# # Exercise 01: messages
#
# You write three functions. Each moves tensors between ranks in a pattern with a name, and every framework has it.
#
# - **Time:** about 50 minutes.
# - **Before:** read the lesson [Messages](../../course/01_messages.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `shift` | 2 | 2 |
# | 2 | `broadcast` | 3 | 3 |
# | 3 | `reduce` | 3 | 3 |
#
# That makes 16 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# All ranks call your function at the same time, each with a `tensor` of its own. `comm` is how a rank talks to the
# others:
#
# | | |
# |---|---|
# | `comm.rank`, `comm.world_size` | which rank this is, and how many there are |
# | `comm.send(tensor, dst)` | send a tensor to rank `dst`; returns when that rank has taken it |
# | `comm.recv(tensor, src)` | wait for a message from rank `src`, and write it into `tensor` |
# | `comm.exchange(outgoing, dst, incoming, src)` | send and receive at the same time |
#
# **The functions work in place.** They write the result into `tensor` and return nothing. `tensor += x` and
# `tensor.copy_(x)` write into the tensor; `tensor = x` only rebinds the name, and the caller never sees it. Both work
# with any shape, as `torch.empty_like(tensor)` does; `tensor[:]` fails for a single number.
#
# **Tests look at the messages, too.** Right values with the wrong messages get no marks. A test stops at the smallest
# case that goes wrong. Hidden tests run the same checks on other cases.

# %% readonly="setup"
import torch

from distlib import Communicator, World

three = World(3)  # three ranks to try things on
four = World(4)

# %% [markdown]
# ## 1. Everybody to the next: `shift`
#
# Every rank hands its tensor to the next rank, all at the same time. The last rank hands its tensor to rank 0.
#
# With 3 ranks and 2 elements:
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | at the start | `[1, 2]` | `[10, 20]` | `[100, 200]` |
# | at the end | `[100, 200]` | `[1, 2]` | `[10, 20]` |
#
# **At the same time** means in one round: no rank receives a message before it sends its own. (The lesson defines
# rounds and steps.) If every rank sends first, none receives, and all wait for ever. If they take turns, it takes two
# rounds or more. The lesson has the way out.
#
# The incoming tensor must not overwrite the one that is still going out. Receive into a separate buffer.


# %% solution="shift"
def shift(comm: Communicator, tensor: torch.Tensor) -> None:
    """Hand every rank's tensor to the next rank. Afterwards rank r's tensor holds what rank
    r - 1 had, in place.

    Rank 0 gets what the last rank had.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Overwritten.

    Cost for N ranks and a tensor of S bytes:
        1 round; every rank sends 1 message of S bytes. With one rank: no message.
    """
    ### BEGIN SOLUTION
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (
        (comm.rank + 1) % comm.world_size,
        (comm.rank - 1) % comm.world_size,
    )
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, next_rank, incoming, previous_rank)
    tensor.copy_(incoming)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.


# %%
def try_shift(comm: Communicator) -> list[float]:
    tensor = torch.tensor([1.0, 2.0]) * 10**comm.rank
    shift(comm, tensor)
    return tensor.tolist()


for rank, values in enumerate(three.run(try_shift, timeout=5)):
    print(f"rank {rank} holds {values}")
print(three.trace.summary())

# %% [markdown]
# **Visible test: 2 points.** `messages` says how many messages each rank sends when there are `n` ranks, `rounds` how
# many rounds they take.

# %% test="shift_visible" points=2
from distlib.exercises import check_shift

report = check_shift(
    shift,
    world_sizes=(1, 2, 3, 4),
    lengths=(6,),
    messages=lambda n: [1] * n if n > 1 else [0],
    rounds=lambda n: 1,
)
assert report.trace(world_size=4, length=6).bytes_sent == [24] * 4  # 6 float32 are 24 bytes
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Up to 9 ranks, tensors of 1 element and of 0, other shapes and dtypes, tensors that are not
# contiguous.

# %% test="shift_hidden" points=2
# The hidden tests of shift stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: one message per rank and no more, more ranks, short and empty tensors, other dtypes and layouts.
import torch

from distlib.exercises import check_shift

once = dict(messages=lambda n: [1] * n if n > 1 else [0], rounds=lambda n: 1)
report = check_shift(shift, world_sizes=(1, 2, 3, 4, 5, 9), lengths=(9, 1, 0), seed=11, **once)
assert len(report) == 18
assert report.trace(world_size=5, length=9).messages_sent == [1] * 5
assert report.trace(world_size=5, length=9).bytes_sent == [36] * 5
assert report.trace(world_size=5, length=9).rounds == 1

report = check_shift(
    shift,
    world_sizes=(3,),
    lengths=(12,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=12,
    **once,
)
assert len(report) == 20
assert report.trace(world_size=3, length=12, dtype=torch.int64).bytes_sent == [96] * 3

scalar = dict(lengths=(1,), layouts=("scalar",), dtypes=(torch.float32, torch.bool))
assert len(check_shift(shift, world_sizes=(3,), seed=13, **scalar, **once)) == 2
### END HIDDEN TESTS

# %% [markdown]
# ## 2. One to all, by a tree: `broadcast`
#
# One rank is special, the `root`. All ranks are given the same `root`, and it can be any rank. Every rank gets the
# root's tensor. The root could send it to each of the others. But then it sends N − 1 messages, one after the other,
# while all others wait.
#
# Every rank that has the tensor can help. Count **steps**: in one step a rank sends at most one message and receives at
# most one. Then the number of ranks that have the tensor can double in every step, and after ⌈log₂ N⌉ steps all have
# it. With 4 ranks and root 0, one way to do it is
#
# | | sends | have the tensor afterwards |
# |---|---|---|
# | step 1 | 0 → 1 | 0, 1 |
# | step 2 | 0 → 2, 1 → 3 | 0, 1, 2, 3 |
#
# Another way begins with 0 → 2, and then 0 → 1 and 2 → 3. Any tree that takes no more than ⌈log₂ N⌉ steps gets full
# marks. Every rank but the root receives the tensor once, so there are N − 1 messages.
#
# Two hints. First write it for root 0. As in the table, before the step with distance d (1, 2, 4 and so on) the ranks 0
# to d − 1 have the tensor. Each of them sends it to the rank d places further on, if there is one.
#
# For any other root, number the ranks beginning at the root: `place = (comm.rank - root) % comm.world_size`. The root
# has place 0. The rank at place p is `(p + root) % comm.world_size`.

# %%
for n in (1, 2, 3, 4, 5, 8, 9, 1000):
    print(f"{n:4} ranks: {(n - 1).bit_length():2} steps")  # (n - 1).bit_length() is ⌈log₂ n⌉
assert [(n - 1).bit_length() for n in (1, 2, 3, 4, 5, 8, 9, 1000)] == [0, 1, 2, 2, 3, 3, 4, 10]


# %% solution="broadcast"
def broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    """Send the root's tensor to all ranks by a binomial tree. Afterwards every rank's tensor
    equals it, in place.

    A rank that has the tensor sends it on in every further step to a rank that does not have
    it.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Overwritten on all ranks but the
            root.
        root: the rank whose tensor is sent.

    Cost for N ranks and a tensor of S bytes:
        at most ceil(log2(N)) steps; in one step a rank sends at most one message and receives
        at most one.
        N - 1 messages of S bytes in all; no rank sends more than ceil(log2(N)). With one rank:
        no message.
    """
    ### BEGIN SOLUTION
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(tensor, dst=(place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(tensor, src=(place - distance + root) % size)
        distance *= 2
    ### END SOLUTION


# %% [markdown]
# **Try it**, and look at the table of messages: who sends to whom?


# %%
def try_broadcast(comm: Communicator, root: int) -> list[float]:
    tensor = torch.tensor([1.0, 2.0]) * 10**comm.rank
    broadcast(comm, tensor, root)
    return tensor.tolist()


for rank, values in enumerate(four.run(try_broadcast, 0, timeout=5)):
    print(f"rank {rank} holds {values}")
print(four.trace.table())

# %% [markdown]
# **Visible test: 3 points.** `steps` is the largest number of steps with `n` ranks.

# %% test="broadcast_visible" points=3
from distlib.exercises import check_broadcast

report = check_broadcast(
    broadcast,
    world_sizes=(1, 2, 3, 4, 5),
    lengths=(6,),
    roots=(0, 1),
    steps=lambda n: (n - 1).bit_length(),
)
assert sum(report.trace(world_size=5, length=6).messages_received) == 4
assert max(report.trace(world_size=5, length=6).messages_sent) <= 3
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Up to 9 ranks, other roots, 1 element and none, other shapes and dtypes, tensors that are
# not contiguous.

# %% test="broadcast_hidden" points=3
# The hidden tests of broadcast stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: the steps of a tree on any number of ranks, other roots, short tensors, other dtypes and layouts.
import torch

from distlib.exercises import check_broadcast

tree = dict(steps=lambda n: (n - 1).bit_length())
report = check_broadcast(
    broadcast, world_sizes=(1, 2, 4, 5, 6, 8, 9), lengths=(7,), roots=(0, 3, 5), seed=41, **tree
)
assert len(report) == 15
assert report.trace(world_size=8, length=7).messages_received == [0] + [1] * 7
assert max(report.trace(world_size=8, length=7).messages_sent) <= 3
assert sum(report.trace(world_size=8, length=7).bytes_sent) == 7 * 28

report = check_broadcast(
    broadcast, world_sizes=(3,), lengths=(1, 0), roots=(0, 2), seed=42, **tree
)
assert len(report) == 4

report = check_broadcast(
    broadcast,
    world_sizes=(3,),
    lengths=(12,),
    roots=(1,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=43,
    **tree,
)
assert len(report) == 20
assert sum(report.trace(world_size=3, length=12, dtype=torch.float64).bytes_sent) == 2 * 96

scalar = dict(lengths=(1,), layouts=("scalar",), dtypes=(torch.float32, torch.bool))
assert (
    len(check_broadcast(broadcast, world_sizes=(3,), roots=(1,), seed=44, **scalar, **tree))
    == 2
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. All to one, added up by a tree: `reduce`
#
# The root ends up with the sum of all tensors. It could take in every tensor itself, one after the other. Again that is
# N − 1 messages for one rank.
#
# Turn the tree around. In every step, half of the ranks that still take part hand their sum to the other half. With 4
# ranks, 1 element and root 0:
#
# | | sends | rank 0 | rank 1 | rank 2 | rank 3 |
# |---|---|---|---|---|---|
# | at the start | | `1` | `10` | `100` | `1000` |
# | step 1 | 1 → 0, 3 → 2 | `11` | `10` | `1100` | `1000` |
# | step 2 | 2 → 0 | `1111` | `10` | `1100` | `1000` |
#
# A rank sends once, after it has received everything from the ranks below it. Then it is done. The contents of its
# tensor at the end do not matter. Any tree that takes no more than ⌈log₂ N⌉ steps gets full marks.
#
# The incoming tensor must be added to the one that is there, so receive into a separate buffer.


# %% solution="reduce"
def reduce(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    """Add up the tensors of all ranks on the root by a binomial tree. Afterwards the root's
    tensor holds the sum.

    Works in place. In each step half of the ranks that still take part send their sum to the
    other half.

    Args:
        comm: the communicator of this rank.
        tensor: any shape, any dtype of numbers, the same on every rank. The root's is
            overwritten; the others may end with anything in theirs.
        root: the rank that gets the sum.

    Cost for N ranks and a tensor of S bytes:
        at most ceil(log2(N)) steps; in one step a rank sends at most one message and receives
        at most one.
        Every rank but the root sends 1 message of S bytes. With one rank: no message.
    """
    ### BEGIN SOLUTION
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, dst=(place - distance + root) % size)
            return
        if place + distance < size:
            comm.recv(incoming, src=(place + distance + root) % size)
            tensor += incoming
        distance *= 2
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_reduce(comm: Communicator, root: int) -> float:
    tensor = torch.tensor([1.0]) * 10**comm.rank
    reduce(comm, tensor, root)
    return tensor.item()


for rank, value in enumerate(four.run(try_reduce, 0, timeout=5)):
    print(f"rank {rank} holds {value:g}")
print(four.trace.table())

# %% [markdown]
# **Visible test: 3 points.** Here `messages` is given for root 0.

# %% test="reduce_visible" points=3
from distlib.exercises import check_reduce

report = check_reduce(
    reduce,
    world_sizes=(1, 2, 3, 4, 5),
    lengths=(6,),
    roots=(0, 1),
    messages=lambda n: [0] + [1] * (n - 1),
    steps=lambda n: (n - 1).bit_length(),
)
assert max(report.trace(world_size=5, length=6).messages_received) <= 3
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Up to 9 ranks, other roots, 1 element and none, other shapes and dtypes, tensors that are
# not contiguous.

# %% test="reduce_hidden" points=3
# The hidden tests of reduce stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: one message from each rank but the root, in the steps of a tree; other roots, dtypes and layouts.
import torch

from distlib.exercises import check_reduce

tree = dict(messages=lambda n: [0] + [1] * (n - 1), steps=lambda n: (n - 1).bit_length())
report = check_reduce(
    reduce, world_sizes=(1, 2, 4, 5, 6, 8, 9), lengths=(7,), roots=(0, 3, 5), seed=51, **tree
)
assert len(report) == 15
assert report.trace(world_size=8, length=7).messages_sent == [0] + [1] * 7
assert max(report.trace(world_size=8, length=7).messages_received) <= 3
assert report.trace(world_size=8, length=7).bytes_sent == [0] + [28] * 7

report = check_reduce(reduce, world_sizes=(3,), lengths=(1, 0), roots=(0, 2), seed=52, **tree)
assert len(report) == 4

report = check_reduce(
    reduce,
    world_sizes=(3,),
    lengths=(12,),
    roots=(1,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=53,
    **tree,
)
assert len(report) == 16
assert report.trace(world_size=3, length=12, dtype=torch.float64).bytes_sent == [96, 0, 96]

scalar = dict(lengths=(1,), layouts=("scalar",), dtypes=(torch.float64,))
assert len(check_reduce(reduce, world_sizes=(3,), roots=(1,), seed=54, **scalar, **tree)) == 1
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Real work: the mean of 999 images on three ranks
#
# This part gives no marks. Each of three ranks takes a third of 999 handwritten digits, images of 8 × 8 pixels, and
# adds them up. Your `reduce` adds up the sums on rank 0, and your `broadcast` hands the mean image to everybody.

# %%
from distlib.training import digits

# whole numbers: every order of adding is exact
images = 16 * digits()[0].images[:999].flatten(1).double()


def mean_image(comm: Communicator, images: torch.Tensor) -> torch.Tensor:
    total = images.tensor_split(comm.world_size)[comm.rank].sum(dim=0)
    reduce(comm, total)
    mean = total / len(images)  # of all images on rank 0
    broadcast(comm, mean)
    return mean


results = three.run(mean_image, images, timeout=20)
assert all(torch.equal(mean, images.mean(dim=0)) for mean in results), (
    "not the mean image: do broadcast and reduce pass their tests?"
)
print(f"all ranks hold the mean of {len(images)} images; three.trace: {three.trace!r}")

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 01_messages` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("01_messages")

# %%
three.close()
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("01_messages")
