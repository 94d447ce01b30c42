# %% [markdown]
# # Exercise 01b: scatter and gather
#
# **This exercise is optional.** It is a side road: no later exercise needs it. You write two patterns in which every
# rank has a part of its own: one hands the parts out, one collects them.
#
# - **Time:** about 30 minutes.
# - **Before:** read the lesson [Messages](../../course/01_messages.ipynb). [Lesson
#   01b](../../course/01b_messages_closer.ipynb) says when a tree would help here.
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `scatter` | 2 | 2 |
# | 2 | `gather` | 2 | 2 |
#
# That makes 8 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# `comm` is the one of exercise 01: `comm.send(tensor, dst)` and `comm.recv(tensor, src)` are enough. One rank is
# special, the `root`. All ranks are given the same `root`, and it can be any rank.
#
# Both functions **return** their result, and leave `tensor` as it is. It can have any shape: one dimension, three, or
# none. It can also be empty.
#
# **Tests look at the messages, too.** Right values with the wrong messages get no marks.

# %% readonly="setup"
import torch

from distlib import Communicator, World
from distlib.draw import timeline

three = World(3)  # three ranks to try things on

# %% [markdown]
# ## 1. A part for everyone: `scatter`
#
# The root has a tensor and cuts it into as many chunks as there are ranks. It sends each other rank **one chunk**: rank
# r gets chunk r. Every rank, the root too, returns its chunk.
#
# With 3 ranks, 4 elements and root 0:
#
# | | rank 0 (root) | rank 1 | rank 2 |
# |---|---|---|---|
# | its tensor | `[1, 2, 3, 4]` | `[0, 0, 0, 0]` | `[0, 0, 0, 0]` |
# | it sends | `[3]` to rank 1, `[4]` to rank 2 | nothing | nothing |
# | it returns | `[1, 2]` | `[3]` | `[4]` |
#
# The tensors of the other ranks have the same shape and dtype as the root's. Their contents do not matter. They are
# there so that a rank knows how long its chunk will be. No rank's tensor may be changed.
#
# `torch.tensor_split` cuts a flat tensor into chunks. When the length does not divide, the first chunks are one longer:

# %%
flat = torch.arange(10).reshape(-1)  # reshape(-1) makes any tensor flat
chunks = torch.tensor_split(flat, 4)
print([chunk.tolist() for chunk in chunks])
assert [len(chunk) for chunk in chunks] == [3, 3, 2, 2]


# %% solution="scatter"
def scatter(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> torch.Tensor:
    """Cut the root's tensor into chunks and send each rank its own. Rank r returns chunk r.

    The root sends each other rank its chunk directly.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Only the root's values count. Not
            changed.
        root: the rank whose tensor is cut.

    Returns:
        Chunk comm.rank of torch.tensor_split(flat, comm.world_size), where flat is the root's
        flattened tensor: one dimension, the dtype of the tensor.

    Cost for N ranks and a tensor of S bytes:
        1 round; the root sends N - 1 messages, each one chunk of about S / N bytes. The others
        send nothing.
    """
    ### BEGIN SOLUTION
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank != root:
        mine = torch.empty_like(chunks[comm.rank])
        comm.recv(mine, src=root)
        return mine
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_scatter(comm: Communicator, root: int) -> list[float]:
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0]) if comm.rank == root else torch.zeros(4)
    return scatter(comm, tensor, root).tolist()


for rank, values in enumerate(three.run(try_scatter, 0, timeout=5)):
    print(f"rank {rank} returns {values}")
timeline(three.trace)

# %% [markdown]
# **Visible test: 2 points.** Here `messages` is given for root 0. With another root, that root sends them.

# %% test="scatter_visible" points=2
from distlib.exercises import check_scatter

report = check_scatter(
    scatter,
    world_sizes=(1, 2, 3, 4),
    lengths=(12, 10),
    roots=(0, 1),
    messages=lambda n: [n - 1] + [0] * (n - 1),
    rounds=lambda n: 1,
)
# three chunks of 3 float32: 3 * 12 bytes
assert report.trace(world_size=4, length=12).bytes_sent == [36, 0, 0, 0]
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Up to 9 ranks, fewer elements than ranks, other roots, shapes and dtypes, tensors that are
# not contiguous.

# %% test="scatter_hidden" points=2
# The hidden tests of scatter stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: other roots, chunks of unequal length, fewer elements than ranks, other dtypes and memory layouts.
import torch

from distlib.exercises import check_scatter

star = dict(messages=lambda n: [n - 1] + [0] * (n - 1), rounds=lambda n: 1)
report = check_scatter(
    scatter,
    world_sizes=(1, 2, 3, 4, 5, 9),
    lengths=(13, 3, 0),
    roots=(0, 2, 4),
    seed=21,
    **star,
)
assert len(report) == 36
# chunks of 3, 3, 3, 2 and 2 elements; the root, rank 0 here, sends all but its own
assert report.trace(world_size=5, length=13).bytes_sent == [40, 0, 0, 0, 0]
assert report.trace(world_size=5, length=13).messages_received == [0, 1, 1, 1, 1]

report = check_scatter(
    scatter,
    world_sizes=(3,),
    lengths=(20,),
    roots=(1,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=22,
    **star,
)
assert len(report) == 20
# chunks of 7, 7 and 6
assert report.trace(world_size=3, length=20, dtype=torch.float64).bytes_sent == [0, 104, 0]

scalar = dict(lengths=(1,), layouts=("scalar",), dtypes=(torch.float32, torch.bool))
assert len(check_scatter(scatter, world_sizes=(3,), roots=(1,), seed=23, **scalar, **star)) == 2
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Everything to one: `gather`
#
# Every other rank sends its tensor to the root. The root returns a list of all tensors, **in order of rank**: its own
# is at index `root`. The others return `None`.
#
# With 3 ranks, 2 elements and root 1:
#
# | | rank 0 | rank 1 (root) | rank 2 |
# |---|---|---|---|
# | its tensor | `[1, 2]` | `[10, 20]` | `[100, 200]` |
# | it sends | its tensor to rank 1 | nothing | its tensor to rank 1 |
# | it returns | `None` | `[1, 2]`, `[10, 20]`, `[100, 200]` | `None` |
#
# Each tensor of the list needs memory of its own. If you receive everything into the same buffer, the list has the same
# values several times.


# %% solution="gather"
def gather(
    comm: Communicator, tensor: torch.Tensor, root: int = 0
) -> list[torch.Tensor] | None:
    """Collect the tensors of all ranks on the root.

    Every other rank sends its tensor to the root directly.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Not changed.
        root: the rank that collects.

    Returns:
        On the root a list: entry r is the tensor of rank r, with its shape and dtype. On every
        other rank None.

    Cost for N ranks and a tensor of S bytes:
        1 round; every rank but the root sends 1 message of S bytes. The root sends nothing.
    """
    ### BEGIN SOLUTION
    if comm.rank != root:
        comm.send(tensor, dst=root)
        return None
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
    gathered[root] = tensor
    for src in range(comm.world_size):
        if src != root:
            comm.recv(gathered[src], src)
    return gathered
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_gather(comm: Communicator, root: int) -> list[list[float]] | None:
    tensors = gather(comm, torch.tensor([1.0, 2.0]) * 10**comm.rank, root)
    return None if tensors is None else [tensor.tolist() for tensor in tensors]


for rank, values in enumerate(three.run(try_gather, 1, timeout=5)):
    print(f"rank {rank} returns {values}")
timeline(three.trace)

# %% [markdown]
# **Visible test: 2 points.**

# %% test="gather_visible" points=2
from distlib.exercises import check_gather

report = check_gather(
    gather,
    world_sizes=(1, 2, 3, 4),
    lengths=(6,),
    roots=(0, 1),
    messages=lambda n: [0] + [1] * (n - 1),
    rounds=lambda n: 1,
)
# 6 float32 are 24 bytes
assert report.trace(world_size=4, length=6).bytes_sent == [0, 24, 24, 24]
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Up to 9 ranks, other roots, 1 element and none, other shapes and dtypes, tensors that are
# not contiguous.

# %% test="gather_hidden" points=2
# The hidden tests of gather stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: other roots, more ranks, short and empty tensors, other dtypes and layouts.
import torch

from distlib.exercises import check_gather

star = dict(messages=lambda n: [0] + [1] * (n - 1), rounds=lambda n: 1)
report = check_gather(
    gather, world_sizes=(1, 2, 3, 4, 5, 9), lengths=(7, 1, 0), roots=(0, 2, 4), seed=31, **star
)
assert len(report) == 36
assert report.trace(world_size=5, length=7).bytes_sent == [0, 28, 28, 28, 28]
assert report.trace(world_size=5, length=7).messages_received == [4, 0, 0, 0, 0]

report = check_gather(
    gather,
    world_sizes=(3,),
    lengths=(12,),
    roots=(1,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool),
    layouts=("matrix", "block", "transposed", "strided"),
    seed=32,
    **star,
)
assert len(report) == 20
assert report.trace(world_size=3, length=12, dtype=torch.float64).bytes_sent == [96, 0, 96]

scalar = dict(lengths=(1,), layouts=("scalar",), dtypes=(torch.float32, torch.bool))
assert len(check_gather(gather, world_sizes=(3,), roots=(1,), seed=33, **scalar, **star)) == 2
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Real work: the brightest of 999 images on three ranks
#
# This part gives no marks. Rank 0 has handwritten digits, images of 8 × 8 pixels. Your `scatter` hands every rank
# its share, each rank looks for its brightest image, and your `gather` brings these to rank 0.

# %%
from distlib.training import digits

images = 16 * digits()[0].images[:999].flatten(1).double()


def brightest(comm: Communicator, images: torch.Tensor) -> torch.Tensor | None:
    mine = scatter(comm, images if comm.rank == 0 else torch.zeros_like(images)).reshape(-1, 64)
    found = gather(comm, mine[mine.sum(dim=1).argmax()])
    return None if found is None else max(found, key=lambda image: float(image.sum()))


result = three.run(brightest, images, timeout=20)[0]
assert torch.equal(result, images[images.sum(dim=1).argmax()]), (
    "another image is brighter: do scatter and gather pass their tests?"
)
print(f"the brightest image has a sum of {result.sum():g}; three.trace: {three.trace!r}")

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 01b_messages_closer` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("01b_messages_closer")

# %%
three.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("01b_messages_closer")
