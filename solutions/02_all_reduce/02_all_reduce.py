# %% [markdown]
# # Exercise 02: all-reduce
#
# You write four functions. The last one is a ring all-reduce, and at the end it trains a classifier on four ranks.
#
# - **Time:** about 75 minutes.
# - **Before:** read the lesson [All-reduce](../../course/02_all_reduce.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `naive_all_reduce` | 2 | 2 |
# | 2 | `ring_reduce_scatter` | 3 | 3 |
# | 3 | `ring_all_gather` | 3 | 3 |
# | 4 | `ring_all_reduce` | 3 | 3 |
#
# That makes 22 points. Each part is graded by itself: when a test runs your `ring_all_reduce`, it supplies
# correct versions of `ring_reduce_scatter` and `ring_all_gather`.

# %% [markdown]
# ## How to work
#
# All ranks call your function at the same time, each with a `tensor` of its own. `comm` is how a rank talks to the
# others, as in exercise 01:
#
# | | |
# |---|---|
# | `comm.rank`, `comm.world_size` | which rank this is, and how many there are |
# | `comm.send(tensor, dst)`, `comm.recv(tensor, src)` | send to rank `dst`; receive from rank `src` into `tensor` |
# | `comm.exchange(outgoing, dst, incoming, src)` | send and receive at the same time |
#
# **Your function works in place.** It writes the result into `tensor` and returns nothing. `tensor += x` and
# `tensor.copy_(x)` write into the tensor. `tensor = tensor + x` makes a new one, and the caller never sees it.
#
# **Tests look at the messages, too.** They count messages and bytes of each rank, and rounds: messages that need not
# wait for one another are in the same round. An algorithm with the right sums and the wrong messages is a different
# algorithm, and gets no marks.
#
# A test stops at the smallest case that goes wrong. Hidden tests run the same checks on other cases.

# %% readonly="setup"
import torch

from distlib import Communicator, World

three = World(3)  # three ranks to try things on
four = World(4)

# %% [markdown]
# ## 1. Through a master: `naive_all_reduce`
#
# The simplest way: rank 0 is the master. Everybody sends their tensor to rank 0. Rank 0 adds them up and sends the sum
# back to everybody.
#
# With 3 ranks and 2 elements:
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | at the start | `[1, 2]` | `[10, 20]` | `[100, 200]` |
# | ranks 1 and 2 have sent to rank 0 | `[111, 222]` | `[10, 20]` | `[100, 200]` |
# | rank 0 has sent to ranks 1 and 2 | `[111, 222]` | `[111, 222]` | `[111, 222]` |
#
# Rank 0 sends 2 messages here, the others 1 each. With N ranks, rank 0 sends N − 1. Each message is the whole tensor.


# %% solution="naive_all_reduce"
def naive_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    """Add up the tensors of all ranks through rank 0. Afterwards every rank's tensor holds the
    sum, in place.

    Rank 0 receives the tensor of every other rank, adds it to its own, and sends the sum to
    every other rank.

    Args:
        comm: the communicator of this rank.
        tensor: any shape, any dtype of numbers, the same on every rank. Overwritten.

    Cost for N ranks and a tensor of S bytes:
        rank 0 sends N - 1 messages of S bytes, every other rank sends 1.
        2 rounds: everything to rank 0, then everything back. With one rank: no message.
    """
    ### BEGIN SOLUTION
    if comm.rank != 0:
        comm.send(tensor, dst=0)
        comm.recv(tensor, src=0)
        return
    incoming = torch.empty_like(tensor)
    for src in range(1, comm.world_size):
        comm.recv(incoming, src)
        tensor += incoming
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.


# %%
def try_naive(comm: Communicator) -> list[float]:
    tensor = torch.tensor([1.0, 2.0]) * 10**comm.rank
    naive_all_reduce(comm, tensor)
    return tensor.tolist()


for rank, values in enumerate(three.run(try_naive, timeout=5)):
    print(f"rank {rank} holds {values}")
print(three.trace.summary())

# %% [markdown]
# **Visible test: 2 points.** It runs your function on 1, 2, 3 and 4 ranks, with 12 and with 10 elements. With
# `n` ranks, rank 0 should send `n - 1` messages and each other rank 1, in 2 rounds. Each message carries the whole
# buffer. The messages form a star: rank 0 is in the middle.

# %% test="naive_all_reduce_visible" points=2
from distlib.exercises import check_naive_all_reduce

report = check_naive_all_reduce(naive_all_reduce, world_sizes=(1, 2, 3, 4), lengths=(12, 10))
assert report.trace(world_size=4, length=12).messages_sent == [3, 1, 1, 1]
# 12 float32 are 48 bytes
assert report.trace(world_size=4, length=12).bytes_sent == [144, 48, 48, 48]
assert report.trace(world_size=4, length=12).rounds == 2
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Up to 9 ranks, a tensor with 1 element and one with none, and other dtypes: a buffer that
# you make must have the dtype of the tensor. `torch.empty_like(tensor)` has.

# %% test="naive_all_reduce_hidden" points=2
# The hidden tests of naive_all_reduce stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: one message to and one from the master for each rank; other lengths, dtypes and memory layouts.
import torch

from distlib.exercises import check_naive_all_reduce

report = check_naive_all_reduce(
    naive_all_reduce, world_sizes=(1, 2, 3, 4, 5, 9), lengths=(9, 1, 0), seed=21
)
assert len(report) == 18
assert report.trace(world_size=5, length=9).messages_sent == [4, 1, 1, 1, 1]
assert report.trace(world_size=5, length=9).bytes_sent == [144, 36, 36, 36, 36]
assert report.trace(world_size=5, length=9).rounds == 2

report = check_naive_all_reduce(
    naive_all_reduce,
    world_sizes=(3,),
    lengths=(12,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16),
    layouts=("block", "transposed", "strided"),
    seed=22,
)
assert len(report) == 12
assert report.trace(world_size=3, length=12, dtype=torch.int64).bytes_sent == [192, 96, 96]

report = check_naive_all_reduce(
    naive_all_reduce, world_sizes=(1, 3), lengths=(1,), layouts=("scalar",), seed=23
)
assert len(report) == 2

report = check_naive_all_reduce(naive_all_reduce, world_sizes=(3,), lengths=(5000,), seed=24)
assert len(report) == 1
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The first half of the ring: `ring_reduce_scatter`
#
# Now there is no master. The ranks stand in a ring, and every rank talks to its two neighbors only. The tensor is cut
# into as many chunks as there are ranks. In every step each rank **sends one chunk to one neighbor and receives one
# from the other neighbor, at the same time**. It adds the received chunk to its own.
#
# A chunk goes once around the ring and grows at every stop. After N − 1 steps it has been everywhere and holds the full
# sum. **Chunk r must end at rank r.** The contents of the other chunks at the end do not matter.
#
# With 3 ranks and 3 elements, one element per chunk. Each rank sends to the next one: 0 → 1 → 2 → 0.
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | at the start | `[1, 2, 3]` | `[10, 20, 30]` | `[100, 200, 300]` |
# | it sends | chunk 2: `3` | chunk 0: `10` | chunk 1: `200` |
# | after step 1 | `[1, 202, 3]` | `[10, 20, 33]` | `[110, 200, 300]` |
# | it sends | chunk 1: `202` | chunk 2: `33` | chunk 0: `110` |
# | after step 2 | `[111, 202, 3]` | `[10, 222, 33]` | `[110, 200, 333]` |
#
# At the end rank 0 has the full sum 111 in chunk 0, rank 1 has 222 in chunk 1, and rank 2 has 333 in chunk 2.
#
# Look at one column. Which chunk does a rank send in the first step? In the second step it sends the chunk that it has
# just received. Write the number of the chunk as a formula of `comm.rank` and `step`, with `% comm.world_size` around
# it.
#
# The ring may go the other way round as well. Both ways get full marks. With fewer elements than ranks some chunks are
# empty. An empty chunk may be sent or left out.
#
# ### Three tools
#
# `torch.tensor_split` cuts a flat tensor into chunks. They are views: what you write into a chunk is written into the
# tensor. It returns a tuple, whose entries can't be assigned. So `chunks[2] += incoming` fails. Give the chunk a name
# first: `chunk = chunks[2]`, then `chunk += incoming`. When the length does not divide, the first chunks are one
# longer:

# %%
chunks = torch.tensor_split(torch.arange(10), 4)
print([chunk.tolist() for chunk in chunks])
assert [len(chunk) for chunk in chunks] == [3, 3, 2, 2]

# %% [markdown]
# So the chunk that comes in can be longer or shorter than the one that goes out. Receive it into a separate buffer:
# `incoming = torch.empty_like(chunk)`, where `chunk` is the one that it will be added to.
#
# `tensor.reshape(-1)` makes any tensor flat. If the tensor's memory is contiguous, the flat tensor is a view of it. If
# not, as for a transposed matrix, it is a copy. This works in both cases:
#
# ```python
# flat = tensor.reshape(-1)
# ...                                      # work on flat
# tensor.copy_(flat.view(tensor.shape))    # write it back
# ```
#
# `comm.exchange(outgoing, next_rank, incoming, previous_rank)` sends and receives at the same time. With `comm.send`
# alone, every rank would wait forever for its neighbor to receive.


# %% solution="ring_reduce_scatter"
def ring_reduce_scatter(comm: Communicator, tensor: torch.Tensor) -> None:
    """Add up the tensors of all ranks in a ring. Afterwards chunk `comm.rank` holds its full
    sum, in place.

    In each step every rank sends one chunk to one neighbor, receives one from the other
    neighbor, and adds it to its own. The other chunks may hold anything at the end.

    Args:
        comm: the communicator of this rank.
        tensor: any shape, any dtype of numbers, the same on every rank. Overwritten. Its chunks
            are torch.tensor_split(flat, comm.world_size), where flat is the flattened tensor.

    Cost for N ranks and a tensor of S bytes:
        N - 1 rounds; in each round every rank sends one chunk and receives one at the same
        time.
        Every rank sends about (N - 1) / N * S bytes. With one rank: no message.
    """
    ### BEGIN SOLUTION
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        outgoing = chunks[(rank - 1 - step) % size]
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_reduce_scatter(comm: Communicator) -> list[float]:
    tensor = torch.tensor([1.0, 2.0, 3.0]) * 10**comm.rank
    ring_reduce_scatter(comm, tensor)
    return tensor.tolist()


for rank, values in enumerate(three.run(try_reduce_scatter, timeout=5)):
    print(f"rank {rank} holds {values}, chunk {rank} is {values[rank]}")

# %% [markdown]
# **Watch it** on 4 ranks, step by step: space plays, ← and → go one step. Rows are ranks, columns are chunks. A cell
# fills up as it collects the values of more ranks. Point at an arrow to read which line of yours sent it. You can watch
# a wrong ring, too: in which round does the first warning come? (`end="scattered"` says what your function promises: in
# the end, the full sum of chunk r is on rank r.)

# %%
from distlib.draw import play_chunks, watch_chunks

play_chunks(watch_chunks(four, ring_reduce_scatter, end="scattered", timeout=5))

# %% [markdown]
# **Visible test: 3 points.** Now each message carries one chunk, and the messages form a ring.

# %% test="ring_reduce_scatter_visible" points=3
from distlib.exercises import check_reduce_scatter

report = check_reduce_scatter(ring_reduce_scatter, world_sizes=(1, 2, 3, 4), lengths=(12, 10))
assert report.trace(world_size=4, length=12).messages_sent == [3] * 4
# three chunks of 3 float32: 3 * 12 bytes
assert report.trace(world_size=4, length=12).bytes_sent == [36] * 4
assert report.trace(world_size=4, length=12).rounds == 3
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Up to 9 ranks, fewer elements than ranks, other dtypes, tensors that are not contiguous.

# %% test="ring_reduce_scatter_hidden" points=3
# The hidden tests of ring_reduce_scatter stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: chunks of unequal length, fewer elements than ranks, many, other dtypes and memory layouts.
import torch

from distlib.exercises import check_reduce_scatter

report = check_reduce_scatter(
    ring_reduce_scatter, world_sizes=(1, 2, 3, 4, 5, 9), lengths=(13, 3, 0), seed=31
)
assert len(report) == 18
assert report.trace(world_size=5, length=13).messages_sent == [4] * 5
# chunks of 3, 3, 3, 2 and 2 elements; each rank sends all but its own
assert report.trace(world_size=5, length=13).bytes_sent == [40, 40, 40, 44, 44]
assert report.trace(world_size=5, length=13).rounds == 4

report = check_reduce_scatter(
    ring_reduce_scatter,
    world_sizes=(3,),
    lengths=(20,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16),
    layouts=("block", "transposed", "strided"),
    seed=32,
)
assert len(report) == 12
assert sum(report.trace(world_size=3, length=20, dtype=torch.float64).bytes_sent) == 2 * 160

report = check_reduce_scatter(
    ring_reduce_scatter, world_sizes=(1, 3), lengths=(1,), layouts=("scalar",), seed=33
)
assert len(report) == 2

report = check_reduce_scatter(ring_reduce_scatter, world_sizes=(3,), lengths=(5000,), seed=34)
assert sum(report.trace(world_size=3, length=5000).bytes_sent) == 2 * 20_000
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The second half of the ring: `ring_all_gather`
#
# This function starts where the first half ends: on rank r, chunk r holds its full sum, and the others do not. Each
# finished chunk now goes once more around the ring. This time nothing is added. **The incoming chunk replaces the one
# that was there.** After N − 1 steps every rank has every chunk.
#
# With 3 ranks and 3 elements. A dash is a number that does not matter.
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | at the start | `[111, -, -]` | `[-, 222, -]` | `[-, -, 333]` |
# | it sends | chunk 0: `111` | chunk 1: `222` | chunk 2: `333` |
# | after step 1 | `[111, -, 333]` | `[111, 222, -]` | `[-, 222, 333]` |
# | it sends | chunk 2: `333` | chunk 0: `111` | chunk 1: `222` |
# | after step 2 | `[111, 222, 333]` | `[111, 222, 333]` | `[111, 222, 333]` |
#
# In the first step a rank sends its own chunk. In each later step it sends the chunk that it has just received. This
# half, too, may go round either way, whichever way the first half went.


# %% solution="ring_all_gather"
def ring_all_gather(comm: Communicator, tensor: torch.Tensor) -> None:
    """Hand the chunk of each rank on to all others, in a ring. Afterwards every chunk is on
    every rank, in place.

    At the start only chunk `comm.rank` of the tensor holds its full sum; the others may hold
    anything. In each step every rank sends one chunk to one neighbor, and receives one from the
    other neighbor, which replaces its own.

    Args:
        comm: the communicator of this rank.
        tensor: any shape and dtype, the same on every rank. Overwritten. Its chunks are
            torch.tensor_split(flat, comm.world_size), where flat is the flattened tensor.

    Cost for N ranks and a tensor of S bytes:
        N - 1 rounds; in each round every rank sends one chunk and receives one at the same
        time.
        Every rank sends about (N - 1) / N * S bytes. With one rank: no message.
    """
    ### BEGIN SOLUTION
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step) % size]
        incoming = chunks[(rank - 1 - step) % size]
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
    tensor.copy_(flat.view(tensor.shape))
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. The numbers that do not matter are −1 here.


# %%
def try_all_gather(comm: Communicator) -> list[float]:
    tensor = torch.full((3,), -1.0)
    tensor[comm.rank] = 111.0 * (comm.rank + 1)
    ring_all_gather(comm, tensor)
    return tensor.tolist()


for rank, values in enumerate(three.run(try_all_gather, timeout=5)):
    print(f"rank {rank} holds {values}")

# %% [markdown]
# **Watch it** on 4 ranks. It starts as a reduce-scatter ends. In the end every full sum should be everywhere.

# %%
from distlib.draw import play_chunks, watch_chunks

play_chunks(watch_chunks(four, ring_all_gather, start="scattered", end="everywhere", timeout=5))

# %% [markdown]
# **Visible test: 3 points.** Your tensor starts with its full sum in chunk `comm.rank`, and random numbers elsewhere.

# %% test="ring_all_gather_visible" points=3
from distlib.exercises import check_all_gather

report = check_all_gather(ring_all_gather, world_sizes=(1, 2, 3, 4), lengths=(12, 10))
assert report.trace(world_size=4, length=12).messages_sent == [3] * 4
# three chunks of 3 float32: 3 * 12 bytes
assert report.trace(world_size=4, length=12).bytes_sent == [36] * 4
assert report.trace(world_size=4, length=12).rounds == 3
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Up to 9 ranks, fewer elements than ranks, other dtypes, tensors that are not contiguous.

# %% test="ring_all_gather_hidden" points=3
# The hidden tests of ring_all_gather stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: each chunk once around the ring, chunks of unequal length, other dtypes and memory layouts.
import torch

from distlib.exercises import check_all_gather

report = check_all_gather(
    ring_all_gather, world_sizes=(1, 2, 3, 4, 5, 9), lengths=(13, 3, 0), seed=41
)
assert len(report) == 18
assert report.trace(world_size=5, length=13).messages_sent == [4] * 5
# every chunk is sent 4 times
assert sum(report.trace(world_size=5, length=13).bytes_sent) == 4 * 52
assert report.trace(world_size=5, length=13).rounds == 4

report = check_all_gather(
    ring_all_gather,
    world_sizes=(3,),
    lengths=(20,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool),
    layouts=("block", "transposed", "strided"),
    seed=42,
)
assert len(report) == 15
assert sum(report.trace(world_size=3, length=20, dtype=torch.float64).bytes_sent) == 2 * 160

report = check_all_gather(
    ring_all_gather, world_sizes=(1, 3), lengths=(1,), layouts=("scalar",), seed=43
)
assert len(report) == 2

report = check_all_gather(ring_all_gather, world_sizes=(3,), lengths=(5000,), seed=44)
assert len(report) == 1
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The whole ring: `ring_all_reduce`
#
# Put the two halves together, or write both phases in one function. A test that runs this function replaces your
# `ring_reduce_scatter` and `ring_all_gather` with correct ones, so a mistake in them costs nothing here.
#
# With N ranks the two halves take 2(N − 1) rounds. In each round a rank sends one chunk of about S/N bytes. So every
# rank sends about 2(N − 1)/N · S bytes, less than twice its tensor, however many ranks there are:

# %%
buffer = 1_000_000  # bytes
for n in (2, 4, 8, 64):
    through_master, ring = (n - 1) * buffer, 2 * (n - 1) * buffer // n
    print(
        f"{n:2} ranks: the master sends {through_master:>10,} bytes, "
        f"a rank in the ring {ring:>9,}"
    )
    assert ring < 2 * buffer


# %% solution="ring_all_reduce"
def ring_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    """Add up the tensors of all ranks in a ring. Afterwards every rank's tensor holds the sum,
    in place.

    First a reduce-scatter, then an all-gather.

    Args:
        comm: the communicator of this rank.
        tensor: any shape, any dtype of numbers, the same on every rank. Overwritten. Its chunks
            are torch.tensor_split(flat, comm.world_size), where flat is the flattened tensor.

    Cost for N ranks and a tensor of S bytes:
        2(N - 1) rounds; in each round every rank sends one chunk and receives one at the same
        time.
        Every rank sends about 2(N - 1) / N * S bytes. With one rank: no message.
    """
    ### BEGIN SOLUTION
    ring_reduce_scatter(comm, tensor)
    ring_all_gather(comm, tensor)
    ### END SOLUTION


# %% [markdown]
# **Watch it** on 4 ranks.

# %%
from distlib.draw import play_chunks, watch_chunks

play_chunks(watch_chunks(four, ring_all_reduce, end="everywhere", timeout=5))

# %% [markdown]
# **Visible test: 3 points.** The test supplies the two halves, in the place of yours.

# %% test="ring_all_reduce_visible" points=3
from distlib.exercises import check_ring_all_reduce

report = check_ring_all_reduce(ring_all_reduce, world_sizes=(1, 2, 3, 4), lengths=(12, 10))
assert report.trace(world_size=4, length=12).messages_sent == [6] * 4
assert report.trace(world_size=4, length=12).bytes_sent == [72] * 4  # 2 * 3/4 of 48 bytes
assert report.trace(world_size=4, length=12).rounds == 6
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Up to 9 ranks, fewer elements than ranks, other dtypes, tensors that are not contiguous.

# %% test="ring_all_reduce_hidden" points=3
# The hidden tests of ring_all_reduce stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: both halves together, with more ranks, fewer elements than ranks, other dtypes and memory layouts.
import torch

from distlib.exercises import check_ring_all_reduce

report = check_ring_all_reduce(
    ring_all_reduce, world_sizes=(1, 2, 3, 4, 5, 9), lengths=(13, 3, 0), seed=51
)
assert len(report) == 18
assert report.trace(world_size=5, length=13).messages_sent == [8] * 5
# every chunk is sent 8 times
assert sum(report.trace(world_size=5, length=13).bytes_sent) == 8 * 52
assert report.trace(world_size=5, length=13).rounds == 8

report = check_ring_all_reduce(
    ring_all_reduce,
    world_sizes=(3,),
    lengths=(20,),
    dtypes=(torch.float32, torch.float64, torch.int64, torch.bfloat16),
    layouts=("block", "transposed", "strided"),
    seed=52,
)
assert len(report) == 12
assert sum(report.trace(world_size=3, length=20, dtype=torch.float64).bytes_sent) == 4 * 160

report = check_ring_all_reduce(
    ring_all_reduce, world_sizes=(1, 3), lengths=(1,), layouts=("scalar",), seed=53
)
assert len(report) == 2

report = check_ring_all_reduce(ring_all_reduce, world_sizes=(3,), lengths=(5000,), seed=54)
assert len(report) == 1
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Real work: train a classifier on four ranks with your ring
#
# This part gives no marks. It is what all-reduce is for.
#
# The data are handwritten digits: images of 8 × 8 pixels, ten classes. Each of the four ranks takes a quarter of the
# training images. In every step each rank computes the gradients of the loss on its own images. Your ring adds them up,
# and each rank divides by the number of ranks. All ranks then take the same step, so their models stay equal.

# %%
from distlib.training import digits

training, testing = digits()
print(f"{len(training.labels)} images to train on, {len(testing.labels)} to test with")
# the four quarters are equally large, so the average of averages is the average
assert len(training.labels) % 4 == 0


# %%
def make_model() -> torch.nn.Module:
    torch.manual_seed(0)  # the same weights on every rank
    return torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )


def take_step(model: torch.nn.Module, learning_rate: float = 0.5) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= learning_rate * parameter.grad
            parameter.grad = None


def train_on_ranks(
    comm: Communicator, images: torch.Tensor, labels: torch.Tensor, steps: int
) -> list[torch.Tensor]:
    """Runs on every rank: its own quarter of the images, gradients averaged by your ring.
    Returns the parameters."""
    model = make_model()
    mine = slice(comm.rank, None, comm.world_size)
    for _ in range(steps):
        torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
        for parameter in model.parameters():
            ring_all_reduce(comm, parameter.grad)
            parameter.grad /= comm.world_size
        take_step(model)
    return [parameter.detach() for parameter in model.parameters()]


def train_alone(images: torch.Tensor, labels: torch.Tensor, steps: int) -> list[torch.Tensor]:
    """Train in one process, with all images in every step. Returns the parameters."""
    model = make_model()
    for _ in range(steps):
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        take_step(model)
    return [parameter.detach() for parameter in model.parameters()]


def accuracy(parameters: list[torch.Tensor]) -> float:
    model = make_model()
    for parameter, value in zip(model.parameters(), parameters, strict=True):
        parameter.data.copy_(value)
    answers = model(testing.images.flatten(1)).argmax(dim=1)
    return float((answers == testing.labels).float().mean())


# %% [markdown]
# Do the two runs agree? The sums are added up in a different order, and a float32 has about 7 digits, so the last
# digits may differ. The parameters are smaller than 10 here, and we ask for a difference below 0.0001, on every rank.

# %%
steps = 60
images, labels = training.images.flatten(1), training.labels
by_rank = four.run(train_on_ranks, images, labels, steps, timeout=60)
alone = train_alone(images, labels, steps)

largest = max(float(value.abs().max()) for value in alone)
difference = max(
    float((value - wanted).abs().max())
    for parameters in by_rank
    for value, wanted in zip(parameters, alone, strict=True)
)
print(
    f"largest parameter {largest:.2f}, largest difference to training in one process "
    f"{difference:.1e}"
)
print(
    f"accuracy on the test images: four ranks {accuracy(by_rank[0]):.1%}, "
    f"one process {accuracy(alone):.1%}"
)

assert largest < 10
assert difference < 1e-4, "the two models differ: does your ring pass its tests?"
assert accuracy(by_rank[0]) == accuracy(alone) > 0.85
# 60 steps, 4 parameter tensors, 2 * 3 messages for each
assert four.trace.messages_sent == [steps * 4 * 6] * 4, "these are not the messages of a ring"

# %% [markdown]
# Both runs end with the same model, though each rank has looked at only a quarter of the images. This is
# data-parallel training, and the ring in it is yours.

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 02_all_reduce` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("02_all_reduce")

# %%
three.close()
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("02_all_reduce")
