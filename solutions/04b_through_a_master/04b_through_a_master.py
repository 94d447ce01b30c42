# %% [markdown]
# # Exercise 04b: through a master
#
# **This exercise is optional.** It is a side road: no later exercise needs it. You write the stages of DataParallel
# that bring the work to the ranks, and the outputs back.
#
# - **Time:** about 45 minutes.
# - **Before:** read the lesson [Data parallel](../../course/04_data_parallel.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `split_batch` | 2 | 2 |
# | 2 | `replicate` | 2 | 2 |
# | 3 | `gather_outputs` | 2 | 2 |
#
# That makes 12 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# All ranks call your function at the same time. Rank 0 is the **master**: it has the batch and the model.
#
# | | |
# |---|---|
# | `comm.rank`, `comm.world_size` | which rank this is, and how many there are |
# | `comm.send(tensor, dst)` | send a tensor to rank `dst`; returns when that rank has taken it |
# | `comm.recv(tensor, src)` | wait for a message from rank `src` and write it into `tensor` |
#
# To receive, a rank needs a tensor of the right shape and dtype. It is overwritten.
#
# **Tests look at the messages, too.** Every message begins or ends at rank 0, and carries what it should and nothing
# more. There are always at least as many images as ranks.

# %% readonly="setup"
import torch
from torch import nn

from distlib import Communicator, World

three = World(3)  # three ranks to try things on
four = World(4)

# %% [markdown]
# ## 1. Cut the batch: `split_batch`
#
# Rank 0 has a batch, and sends each rank its rows of it. The others bring a tensor of the same shape and dtype. Its
# contents do not matter, but its shape says what will come.
#
# With 3 ranks and a batch of 4 rows:
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | brings | `[[1], [2], [3], [4]]` | 4 rows of anything | 4 rows of anything |
# | returns | `[[1], [2]]` | `[[3]]` | `[[4]]` |
#
# Rank 0 sends two messages of one row each, and keeps its own rows. Where the batch does not divide evenly, the
# first parts are one row longer. `torch.tensor_split` cuts it this way:

# %%
parts = torch.tensor_split(torch.arange(1, 5).reshape(4, 1), 3)
print([part.flatten().tolist() for part in parts])
assert [len(part) for part in torch.tensor_split(torch.zeros(4, 1), 3)] == [2, 1, 1]


# %% solution="split_batch"
def split_batch(comm: Communicator, batch: torch.Tensor) -> torch.Tensor:
    """Give every rank its rows of the batch of rank 0, and return this rank's.

    Args:
        comm: the communicator of this rank.
        batch: [B, …], any dtype, B at least comm.world_size. On rank 0 it is not changed. On
            the other ranks only its shape and dtype count.

    Returns:
        Part comm.rank of torch.tensor_split(batch of rank 0, comm.world_size).

    Cost for N ranks: rank 0 sends each other rank one message, with the rows of that rank.
    """
    ### BEGIN SOLUTION
    parts = torch.tensor_split(batch, comm.world_size)
    if comm.rank != 0:
        part = torch.empty_like(parts[comm.rank])
        comm.recv(part, src=0)
        return part
    for dst in range(1, comm.world_size):
        comm.send(parts[dst], dst)
    return parts[0]
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.


# %%
def try_split(comm: Communicator) -> list[list[float]]:
    batch = (
        torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        if comm.rank == 0
        else torch.full((4, 1), -1.0)
    )
    return split_batch(comm, batch).tolist()


for rank, rows in enumerate(three.run(try_split, timeout=5)):
    print(f"rank {rank} returns {rows}")
print(three.trace.summary())

# %% [markdown]
# **Visible test: 2 points.** It runs your function on 1, 2, 3 and 4 ranks, with 12 and with 10 rows of two numbers.

# %% test="split_batch_visible" points=2
from distlib.exercises import check_split_batch

report = check_split_batch(split_batch, world_sizes=(1, 2, 3, 4), batch_sizes=(12, 10))
assert len(report) == 8
# three times 3 rows of 2 float32, 8 bytes each row
assert report[3].trace.bytes_sent == [72, 0, 0, 0]
assert report[3].trace.messages_sent == [3, 0, 0, 0]
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Other numbers of ranks and rows, images instead of rows, and other dtypes.

# %% test="split_batch_hidden" points=2
# The hidden tests of split_batch stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, as many rows as ranks, rows of several dimensions and of none, other dtypes.
from distlib.exercises import check_split_batch

report = check_split_batch(
    split_batch, world_sizes=(1, 2, 3, 5, 6), batch_sizes=(6, 17), row=(1, 2, 2), seed=21
)
assert len(report) == 10
assert report[8].trace.bytes_sent == [16 * 13, 0, 0, 0, 0]  # 4 of the 17 images stay on rank 0
assert [len(result["part"]) for result in report[8].results] == [4, 4, 3, 3, 3]

report = check_split_batch(
    split_batch, world_sizes=(3,), batch_sizes=(8,), row=(), dtype=torch.int64, seed=22
)
assert report[0].trace.bytes_sent == [40, 0, 0]
report = check_split_batch(
    split_batch, world_sizes=(4,), batch_sizes=(9,), dtype=torch.float64, seed=23
)
assert report[0].trace.messages_sent == [3, 0, 0, 0]
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Copy the model: `replicate`
#
# Before each forward pass every rank gets the model of rank 0: all **parameters** and all **buffers**. A buffer is a
# tensor that belongs to the model and is not trained, such as the running mean of a batch normalization.
#
# `model.parameters()` yields the parameters, `model.buffers()` the buffers. They come in the same order
# on every rank, because the models are built alike. (`state_dict()` is not enough: it leaves out buffers that were
# registered with `persistent=False`.)
#
# With 2 ranks, and a model with one parameter and one buffer:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | at the start | parameter `[1, 2]`, buffer `[5]` | parameter `[-7, 3]`, buffer `[0]` |
# | after `replicate` | parameter `[1, 2]`, buffer `[5]` | parameter `[1, 2]`, buffer `[5]` |
#
# Rank 0 sends two messages, one for each tensor.
#
# **Write into the tensors that are there**, into their memory: whoever holds them knows that, not new tensors. Torch
# refuses to overwrite a parameter while it records gradients. `parameter.data` is the same memory without that
# record: you can send it, and receive into it.


# %% solution="replicate"
def replicate(comm: Communicator, model: nn.Module) -> None:
    """Copy all parameters and buffers of rank 0's model into the models of the other ranks, in
    place.

    Args:
        comm: the communicator of this rank.
        model: built alike on every rank, with different numbers inside. Parameters may need a
            gradient or not (frozen); that stays as it is. Their dtypes may differ, and so may
            those of the buffers.

    Cost for N ranks and a model of S bytes (parameters and buffers):
        rank 0 sends S bytes to each other rank, in at most one message for each tensor.
    """
    ### BEGIN SOLUTION
    for tensor in [*model.parameters(), *model.buffers()]:
        if comm.rank != 0:
            comm.recv(tensor.data, src=0)
            continue
        for dst in range(1, comm.world_size):
            comm.send(tensor.data, dst)
    ### END SOLUTION


# %% [markdown]
# **Try it.** Batch normalization has buffers; here the running mean begins with the number of the rank.


# %%
def try_replicate(comm: Communicator) -> tuple[float, float]:
    torch.manual_seed(comm.rank)  # different weights on every rank
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model[1].running_mean.fill_(comm.rank)
    replicate(comm, model)
    return model[0].weight[0, 0].item(), model[1].running_mean[0].item()


for rank, (weight, mean) in enumerate(three.run(try_replicate, timeout=5)):
    print(f"rank {rank}: first weight {weight:.3f}, running mean {mean}")

# %% [markdown]
# **Visible test: 2 points.** On 1, 2, 3 and 4 ranks, first a model without buffers, then one with two.

# %% test="replicate_visible" points=2
from distlib.exercises import check_replicate

report = check_replicate(replicate, world_sizes=(1, 2, 3, 4))
assert report[3].trace.bytes_sent == [3 * 60, 0, 0, 0]  # 15 float32 to each of 3 ranks
print(report)

report = check_replicate(replicate, world_sizes=(2, 3), buffers=True)
# buffers: 4 float32, and an int64
assert report[1].trace.bytes_sent == [2 * (60 + 16 + 8), 0, 0]
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, frozen parameters, more buffers, and other dtypes.

# %% test="replicate_hidden" points=2
# The hidden tests of replicate stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, buffers that are saved and that are not, a frozen parameter, dtypes that differ.
from distlib.exercises import check_replicate

report = check_replicate(replicate, world_sizes=(2, 5, 6), buffers=True, frozen=True, seed=31)
assert len(report) == 3
assert report[1].trace.bytes_sent == [4 * 84, 0, 0, 0, 0]
assert report[2].results[5]["trained"] == ["0.weight", "1.weight"]

shapes = {"0.weight": (5, 4), "0.bias": (5,), "1.weight": (2, 3, 2), "2.scale": ()}
report = check_replicate(
    replicate,
    world_sizes=(1, 3),
    buffers=True,
    passing=True,
    shapes=shapes,
    mean=(3, 2),
    seed=34,
)
assert report[1].trace.bytes_sent == [2 * (152 + 24 + 8 + 4), 0, 0]

report = check_replicate(
    replicate, world_sizes=(3,), buffers=True, dtype=torch.float64, seed=32
)
assert report[0].trace.bytes_sent == [2 * (120 + 32 + 8), 0, 0]
report = check_replicate(
    replicate, world_sizes=(4,), frozen=True, dtype=torch.bfloat16, seed=33
)
assert report[0].trace.bytes_sent == [3 * 30, 0, 0, 0]
report = check_replicate(
    replicate, world_sizes=(2, 4), others={"0.bias": torch.float64}, seed=35
)
assert report[1].trace.bytes_sent == [3 * (12 * 4 + 3 * 8), 0, 0, 0]
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Collect the outputs: `gather_outputs`
#
# Every rank has computed the outputs of its own images. Rank 0 collects them and puts them together in the order of the
# ranks, so that row i is the output of image i of the batch.
#
# With 3 ranks and a batch of 4 images:
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | brings | `[[10], [20]]` | `[[30]]` | `[[40]]` |
# | returns | `[[10], [20], [30], [40]]` | `None` | `None` |
#
# How many rows come from rank 2? Rank 0 knows that from the size of the batch: the rows were cut as
# `torch.tensor_split` does, and come back in the same parts.
#
# `torch.empty(batch_size, *output.shape[1:], dtype=output.dtype)` makes a tensor for all outputs. The parts that
# `torch.tensor_split` returns are views of it. So receiving into a part writes into the whole tensor.
#
# **The output has a history**: it knows how it was computed, so that `backward` can be called on it. A message has
# none. Take `output.detach()`: the same numbers without the history.


# %% solution="gather_outputs"
def gather_outputs(
    comm: Communicator, output: torch.Tensor, batch_size: int
) -> torch.Tensor | None:
    """Put the outputs of all ranks together on rank 0.

    Args:
        comm: the communicator of this rank.
        output: [rows of this rank's part, …]. It is not changed.
        batch_size: B, the rows of all parts together. They were cut as by torch.tensor_split.

    Returns:
        On rank 0 all outputs, [B, …], in the order of the ranks. On the other ranks None.

    Cost for N ranks: every other rank sends rank 0 one message, its output.
    """
    ### BEGIN SOLUTION
    output = output.detach()
    if comm.rank != 0:
        comm.send(output, dst=0)
        return None
    outputs = torch.empty(batch_size, *output.shape[1:], dtype=output.dtype)
    parts = torch.tensor_split(outputs, comm.world_size)
    parts[0].copy_(output)
    for src in range(1, comm.world_size):
        comm.recv(parts[src], src)
    return outputs
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_gather(comm: Communicator) -> list[list[float]] | None:
    outputs = [torch.tensor([[10.0], [20.0]]), torch.tensor([[30.0]]), torch.tensor([[40.0]])]
    output = outputs[comm.rank]
    outputs = gather_outputs(comm, output, batch_size=4)
    return None if outputs is None else outputs.tolist()


for rank, outputs in enumerate(three.run(try_gather, timeout=5)):
    print(f"rank {rank} returns {outputs}")

# %% [markdown]
# **Visible test: 2 points.** On 1, 2, 3 and 4 ranks, with 12 and with 10 outputs of two numbers. The ranks do not
# finish in the order of their numbers.

# %% test="gather_outputs_visible" points=2
from distlib.exercises import check_gather_outputs

report = check_gather_outputs(gather_outputs, world_sizes=(1, 2, 3, 4), batch_sizes=(12, 10))
assert len(report) == 8
assert report[3].trace.bytes_sent == [0, 24, 24, 24]  # 3 outputs of 2 float32
assert report[7].trace.bytes_sent == [0, 24, 16, 16]  # 10 outputs on 4 ranks: 3, 3, 2, 2
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Other numbers of ranks and outputs, other shapes and dtypes.

# %% test="gather_outputs_hidden" points=2
# The hidden tests of gather_outputs stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, as many images as ranks, outputs of several dimensions and of none, other dtypes.
from distlib.exercises import check_gather_outputs

report = check_gather_outputs(
    gather_outputs, world_sizes=(1, 2, 3, 5, 6), batch_sizes=(6, 17), row=(2, 3), seed=41
)
assert len(report) == 10
# 17 outputs of 24 bytes: 4, 4, 3, 3, 3
assert report[8].trace.bytes_sent == [0, 96, 72, 72, 72]
assert report[8].trace.messages_sent == [0, 1, 1, 1, 1]

report = check_gather_outputs(
    gather_outputs, world_sizes=(4,), batch_sizes=(9,), row=(), dtype=torch.float64, seed=42
)
assert report[0].trace.bytes_sent == [0, 16, 16, 16]
report = check_gather_outputs(
    gather_outputs,
    world_sizes=(3,),
    batch_sizes=(7,),
    row=(5,),
    dtype=torch.bfloat16,
    seed=43,
)
assert report[0].results[1]["outputs"] is None
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Real work: a whole data set through four ranks
#
# This part gives no marks. Rank 0 has a model and handwritten digits. Your functions bring both to four ranks, and
# the outputs back. They must be those of one process.

# %%
from distlib.training import digits

images = digits()[1].images  # those for tests


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, 10))


def outputs_on_ranks(comm: Communicator) -> torch.Tensor | None:
    model = make_model(seed=comm.rank).eval()  # other weights on each rank
    with torch.no_grad():
        replicate(comm, model)
        return gather_outputs(comm, model(split_batch(comm, images)), len(images))


outputs = four.run(outputs_on_ranks, timeout=60)[0]
with torch.no_grad():
    alone = make_model(seed=0).eval()(images)
difference = (outputs - alone).abs().max().item()
print(f"{len(outputs)} outputs; largest difference to one process: {difference:.1e}")
assert difference < 1e-5, "the outputs differ: do your functions pass their tests?"

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 04b_through_a_master` does the same with the
# saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("04b_through_a_master")

# %%
three.close()
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("04b_through_a_master")
