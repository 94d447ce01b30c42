# %% [markdown]
# # Exercise 04: data parallel
#
# You write the stages of DataParallel, and the step that puts them together. At the end it trains a classifier on four
# ranks, and arrives at the same weights as one process.
#
# - **Time:** about 90 minutes.
# - **Before:** read the lesson [Data parallel](../../course/04_data_parallel.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `split_batch` | 2 | 2 |
# | 2 | `replicate` | 2 | 2 |
# | 3 | `gather_outputs` | 2 | 2 |
# | 4 | `reduce_gradients` | 2 | 2 |
# | 5 | `data_parallel_step` | 3 | 3 |
#
# That makes 22 points. Each part is graded by itself: when a test runs your `data_parallel_step`, it supplies
# correct versions of parts 1 to 4.

# %% [markdown]
# ## How to work
#
# All ranks call your function at the same time. Rank 0 is the **master**: it has the batch, the model and the labels.
#
# **What `comm` has:**
#
# | | |
# |---|---|
# | `comm.rank`, `comm.world_size` | which rank this is, and how many there are |
# | `comm.send(tensor, dst)` | send a tensor to rank `dst`; returns when that rank has taken it |
# | `comm.recv(tensor, src)` | wait for a message from rank `src` and write it into `tensor` |
# | `comm.isend`, `comm.irecv`, `comm.exchange`, `comm.barrier`, `comm.split` | allowed too, but you can do without |
#
# To receive, a rank needs a tensor of the right shape and dtype. It is overwritten.
#
# `isend` and `irecv` only begin, and return a handle. Call its `wait()` before you read or change the tensor, and
# before your function returns.
#
# **Tests look at the messages, too.** Every message begins or ends at rank 0, and carries what it should and nothing
# more. A test reports how many bytes it has counted.
#
# **Run a test as often as you like.** When it fails, it stops at the smallest case that goes wrong and says what it
# saw; one rank alone comes last. The hidden tests run the same checks on other cases. There are always at least as many
# images as ranks.

# %% readonly="setup"
from collections.abc import Callable

import torch
from torch import nn

from distlib import Communicator, World
from distlib.training.datasets import digits

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
from distlib.exercises.master.checks import check_split_batch

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
from distlib.exercises.master.checks import check_split_batch

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
            gradient or not (frozen); that stays as it is.

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
from distlib.exercises.master.checks import check_replicate

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
### What this tests: up to 6 ranks, buffers that are saved and that are not, a frozen parameter, other dtypes.
from distlib.exercises.master.checks import check_replicate

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
from distlib.exercises.master.checks import check_gather_outputs

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
from distlib.exercises.master.checks import check_gather_outputs

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
# ## 4. Add up the gradients: `reduce_gradients`
#
# After backward every rank has gradients, in `parameter.grad` of each parameter. Rank 0 adds them all up, in its own
# `parameter.grad`. The other ranks only send. They get nothing back: their models are overwritten before the next
# training step anyway.
#
# With 3 ranks and one parameter of two numbers:
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | `parameter.grad` at the start | `[1, 2]` | `[10, 20]` | `[100, 200]` |
# | afterwards | `[111, 222]` | does not matter | does not matter |
#
# They are added, not averaged. The lesson says why: there is one loss for the whole batch.
#
# **A frozen parameter** has no gradient. Its `.grad` is `None`, on every rank. Leave it out.


# %% solution="reduce_gradients"
def reduce_gradients(comm: Communicator, model: nn.Module) -> None:
    """Add up the gradients of all ranks on rank 0, in place.

    Args:
        comm: the communicator of this rank.
        model: each parameter has a gradient in `.grad`, or None if it is frozen; then it is
            frozen on every rank. The parameters themselves are not changed.

    Cost for N ranks and gradients of S bytes:
        every other rank sends rank 0 S bytes, in at most one message for each parameter.
    """
    ### BEGIN SOLUTION
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank != 0:
            comm.send(parameter.grad, dst=0)
            continue
        incoming = torch.empty_like(parameter.grad)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            parameter.grad += incoming
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def try_reduce(comm: Communicator) -> list[float]:
    model = nn.ParameterList([nn.Parameter(torch.zeros(2))])
    model[0].grad = torch.tensor([1.0, 2.0]) * 10**comm.rank
    reduce_gradients(comm, model)
    return model[0].grad.tolist()


for rank, gradient in enumerate(three.run(try_reduce, timeout=5)):
    print(f"rank {rank} has {gradient}")

# %% [markdown]
# **Visible test: 2 points.** On 1, 2, 3 and 4 ranks, a model with two parameters; then one with a frozen parameter.

# %% test="reduce_gradients_visible" points=2
from distlib.checks.models import Gradients
from distlib.exercises.master.checks import check_reduce_gradients

models = [Gradients(shapes=[(2, 3), (3,)]), Gradients(shapes=[(2, 3), (3,), (4,)], frozen=[1])]
report = check_reduce_gradients(reduce_gradients, world_sizes=(1, 2, 3, 4), models=models)
assert len(report) == 8
assert report[3].trace.bytes_sent == [0, 36, 36, 36]  # 9 float32
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, more frozen parameters, and other dtypes.

# %% test="reduce_gradients_hidden" points=2
# The hidden tests of reduce_gradients stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, several frozen parameters, parameters with a single number, other dtypes.
import torch

from distlib.checks.models import Gradients
from distlib.exercises.master.checks import check_reduce_gradients

models = [
    Gradients(shapes=[(2, 2), (3,), (4,), (), (1, 2, 3), (2,)], frozen=[0, 2]),
    Gradients(shapes=[(5, 1, 2)]),
]
report = check_reduce_gradients(
    reduce_gradients, world_sizes=(1, 2, 4, 5, 6), models=models, seed=51
)
assert len(report) == 10
assert report[3].trace.bytes_sent == [0, 48, 48, 48, 48]  # 3 + 1 + 6 + 2 float32
assert report[9].trace.bytes_sent == [0, 40, 40, 40, 40, 40]

models = [
    Gradients(shapes=[(2, 3)], dtype=torch.float64),
    Gradients(shapes=[(2, 3), (2,)], dtype=torch.bfloat16),
]
report = check_reduce_gradients(reduce_gradients, world_sizes=(3,), models=models, seed=52)
assert [scene.trace.bytes_sent for scene in report] == [[0, 48, 48], [0, 16, 16]]
### END HIDDEN TESTS

# %% [markdown]
# ## 5. The whole step: `data_parallel_step`
#
# Now put the parts together. A test that runs this function replaces your four functions with correct ones, so a
# mistake in them costs nothing here.
#
# An example with the smallest model there is: one weight w = 2, output = w · image. Two ranks, three images 1, 2, 3,
# all labels 1. The loss is the mean of (output − label)².
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | images | 1, 2 | 3 |
# | outputs | 2, 4 | 6 |
# | all outputs | 2, 4, 6 | |
# | loss | (1 + 9 + 25) / 3 = 11.67 | |
# | gradient of the outputs | 2/3, 6/3, 10/3 | |
# | its part of it | 2/3, 6/3 | 10/3 |
# | gradient of w | 1 · 2/3 + 2 · 6/3 = 14/3 | 3 · 10/3 = 30/3 |
# | reduced | 44/3 = 14.67 | |
#
# In one process it comes out the same:

# %%
weight = torch.tensor(2.0, requires_grad=True)
loss = ((weight * torch.tensor([1.0, 2.0, 3.0]) - 1) ** 2).mean()
loss.backward()
print(f"loss {loss.item():.2f}, gradient {weight.grad.item():.2f}")
assert abs(loss.item() - 35 / 3) < 1e-5 and abs(weight.grad.item() - 44 / 3) < 1e-5

# %% [markdown]
# The steps, in order:
#
# 1. Old gradients must go, on every rank: `model.zero_grad()`.
# 2. Split the images, replicate the model, compute the output of this rank's part, gather the outputs.
# 3. On rank 0: the loss of all outputs, and its gradient. For that the outputs must be a starting point:
#    `outputs.requires_grad_()`. After `loss.backward()` the gradient is in `outputs.grad`.
# 4. Split this gradient as the images were split. Rank 0 has it. The others need a tensor of the same shape and dtype
#    to call `split_batch` with: `torch.empty(len(images), *output.shape[1:], dtype=output.dtype)`.
# 5. Backward on every rank, from its part of the gradient: `output.backward(part_of_the_gradient)`.
# 6. Reduce the gradients. Your function does not change the weights. That is the caller's job, with an optimizer.


# %% solution="data_parallel_step"
def data_parallel_step(
    comm: Communicator,
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor | None:
    """Compute the gradients of one batch on all ranks together. They end up in the model of
    rank 0.

    Args:
        comm: the communicator of this rank.
        model: built alike on every rank. The weights of rank 0 count. It may have gradients
            from before. Its outputs are [rows, …], a row for each image that it is given.
        images: [B, …], B at least comm.world_size. Those of rank 0 count; on the others, only
            shape and dtype. Not changed, on any rank.
        labels: [B]. Only those of rank 0 count. Not changed.
        loss_function: (outputs, labels) to a single number: the loss of the whole batch. Call
            it once, on rank 0.

    Returns:
        The loss on rank 0, a tensor; None on the other ranks. `parameter.grad` on rank 0 is
        then the gradient of the loss of the whole batch; on the other ranks it does not matter.
        The parameters of rank 0 are not changed.

    Cost for N ranks, for each other rank:
        from rank 0: its images, the model, and the gradient of its outputs. To rank 0: its
        outputs, and its gradients.
    """
    ### BEGIN SOLUTION
    model.zero_grad()
    part = split_batch(comm, images)
    replicate(comm, model)
    output = model(part)
    outputs = gather_outputs(comm, output, len(images))
    loss, gradient = None, torch.empty(len(images), *output.shape[1:], dtype=output.dtype)
    if comm.rank == 0:
        outputs.requires_grad_()
        loss = loss_function(outputs, labels)
        loss.backward()
        gradient = outputs.grad
    output.backward(split_batch(comm, gradient))
    reduce_gradients(comm, model)
    return loss
    ### END SOLUTION


# %% [markdown]
# **Try it** with the smallest model there is.


# %%
def try_step(comm: Communicator) -> tuple[float | None, float]:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 2.0)
    images, labels = torch.tensor([[1.0], [2.0], [3.0]]), torch.ones(3, 1)
    loss = data_parallel_step(comm, model, images, labels, nn.functional.mse_loss)
    return None if loss is None else loss.item(), model.weight.grad.item()


with World(2) as two:
    for rank, (loss_value, gradient) in enumerate(two.run(try_step, timeout=5)):
        print(f"rank {rank}: loss {loss_value}, gradient {gradient:.2f}")

# %% [markdown]
# **Visible test: 3 points.** On 1, 2, 3 and 4 ranks, with 8 and with 7 images. The model of the test multiplies by
# a number that is different on every rank. So it can tell whether each rank has done its own part.

# %% test="data_parallel_step_visible" points=3
from distlib.exercises.master.checks import Step, check_data_parallel_step

report = check_data_parallel_step(
    data_parallel_step, world_sizes=(1, 2, 3, 4), steps=[Step(8), Step(7)]
)
assert len(report) == 8
# 4 ranks, 8 images: 2 images of 4 float64, a model of 26 float64, outputs 2 × 2 float64,
# gradients 23 float64
assert report[3].trace.bytes_sent == [3 * (64 + 208 + 32), 32 + 184, 32 + 184, 32 + 184]
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More ranks, other models, outputs and losses, a frozen layer, gradients from before.

# %% test="data_parallel_step_hidden" points=3
# The hidden tests of data_parallel_step stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: 5 ranks, models of 2 to 6 parameters, images and outputs of other shapes, other dtypes and losses.
import torch

from distlib.exercises.master.checks import Step, check_data_parallel_step

steps = [
    Step(11, earlier=True, image=(2, 3), hidden=5, output=(4,), more=("scale", "mask", "mean")),
    Step(
        7,
        loss="sum",
        earlier=True,
        image=(5,),
        hidden=2,
        output=(3,),
        without=("first.bias", "last.bias"),
    ),
]
report = check_data_parallel_step(
    data_parallel_step, world_sizes=(1, 2, 3, 5), steps=steps, seed=61
)
assert len(report) == 8
# 5 ranks, 11 images: rank 0 keeps 3 of them, the others have 2 each
assert report[3].trace.bytes_sent == [4 * (96 + 616 + 64)] + [64 + 528] * 4

steps = [
    Step(9, loss="joint", image=(1, 2, 3), hidden=7, dtype=torch.float32),
    Step(
        5,
        loss="joint",
        frozen=("first.weight", "first.bias"),
        earlier=True,
        image=(3,),
        hidden=4,
        output=(5,),
    ),
]
report = check_data_parallel_step(data_parallel_step, world_sizes=(4,), steps=steps, seed=62)
assert report[1].results[0]["gradients"]["first.weight"] is None
assert report[1].trace.bytes_sent == [3 * (24 + 360 + 40), 40 + 200, 40 + 200, 40 + 200]

steps = [Step(7, hidden=4, output=(3, 2)), Step(6, image=(6,), hidden=2, output=())]
report = check_data_parallel_step(data_parallel_step, world_sizes=(3,), steps=steps, seed=63)
# 7 outputs of 6 numbers on 3 ranks: 3, 2, 2; then 6 outputs of one number
assert report[0].trace.bytes_sent == [2 * (64 + 432 + 96), 96 + 400, 96 + 400]
assert report[1].trace.bytes_sent == [2 * (96 + 152 + 16), 16 + 136, 16 + 136]
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Real work: train a classifier on four ranks with your step
#
# This part gives no marks. The data are images of handwritten digits. Rank 0 has them, and the optimizer.

# %%
train, test = digits()
batches = [
    (train.images[i : i + 100], train.labels[i : i + 100]) for i in range(0, 1500, 100)
] * 8
print(f"{len(batches)} steps with {len(batches[0][0])} images")


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train_on_ranks(comm: Communicator) -> nn.Module:
    """Runs on every rank. The models begin with different weights; replicate makes them equal.
    Returns the model."""
    model = make_model(seed=comm.rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for images, labels in batches:
        data_parallel_step(comm, model, images, labels, nn.functional.cross_entropy)
        if comm.rank == 0:
            optimizer.step()
    return model


def train_alone() -> nn.Module:
    """Train in one process, on the same batches. Returns the model."""
    model = make_model(seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for images, labels in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return model


def accuracy(model: nn.Module) -> float:
    with torch.no_grad():
        return float((model(test.images).argmax(dim=1) == test.labels).float().mean())


# %% [markdown]
# Do the two runs agree? The gradients are added up in a different order, and a float32 has about 7 digits. We
# ask for a difference below 0.001 in every weight.

# %%
parallel, alone = four.run(train_on_ranks, timeout=60)[0], train_alone()
difference = max(
    (one - other).abs().max().item()
    for one, other in zip(parallel.parameters(), alone.parameters(), strict=True)
)
print(f"largest difference of a weight to training in one process: {difference:.1e}")
print(
    f"accuracy on the test images: four ranks {accuracy(parallel):.1%}, "
    f"one process {accuracy(alone):.1%}"
)
assert difference < 1e-3, "the two models differ: does your step pass its tests?"
assert accuracy(parallel) > 0.85

# %% [markdown]
# How much of the traffic is the model? Your step sends it out and gets gradients of the same size back.

# %%
model_bytes = sum(parameter.nbytes for parameter in parallel.parameters())
sent = four.trace.bytes_sent[0] / len(batches)
print(
    f"rank 0 sends {sent:,.0f} bytes in a step, and {3 * model_bytes:,} of them are the model, "
    "three times"
)
# and 75 images, and the gradient of their outputs
assert sent == 3 * model_bytes + 75 * (64 + 10) * 4

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 04_data_parallel` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("04_data_parallel")

# %%
three.close()
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("04_data_parallel")
