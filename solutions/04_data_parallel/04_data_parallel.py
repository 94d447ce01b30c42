# %% [markdown]
# # Exercise 04: data parallel
#
# You add up the gradients of all ranks, and write the step that puts the stages of DataParallel together. At the end it
# trains a classifier on four ranks, and arrives at the same weights as one process.
#
# - **Time:** about 45 minutes.
# - **Before:** read the lesson [Data parallel](../../course/04_data_parallel.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `reduce_gradients` | 2 | 2 |
# | 2 | `data_parallel_step` | 3 | 3 |
#
# That makes 10 points. Each part is graded by itself: when a test runs your `data_parallel_step`, it supplies a correct
# `reduce_gradients`.

# %% [markdown]
# ## How to work
#
# All ranks call your function at the same time. Rank 0 is the **master**: it has the batch, the model and the labels.
#
# | | |
# |---|---|
# | `comm.rank`, `comm.world_size` | which rank this is, and how many there are |
# | `comm.send(tensor, dst)` | send a tensor to rank `dst` |
# | `comm.recv(tensor, src)` | wait for a message from rank `src` and write it into `tensor` |
# | `split_batch(comm, batch)` | give every rank its rows of rank 0's batch, and return this rank's |
# | `replicate(comm, model)` | copy rank 0's parameters and buffers into the models of the others, in place |
# | `gather_outputs(comm, output, batch_size)` | return the outputs of all ranks on rank 0, `None` elsewhere |
#
# The last three are the library's, and part 2 needs them. You write them in [exercise
# 04b](../04b_through_a_master/04b_through_a_master.ipynb), a side road.
#
# **Tests look at the messages, too.** Every message begins or ends at rank 0, and carries what it should and nothing
# more. There are always at least as many images as ranks.

# %% readonly="setup"
from collections.abc import Callable

import torch
from torch import nn

from distlib import Communicator, World
from distlib.training import digits, gather_outputs, replicate, split_batch

three = World(3)  # three ranks to try things on
four = World(4)

# %% [markdown]
# ## 1. Add up the gradients: `reduce_gradients`
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
            frozen on every rank. Gradients have their parameters' shapes and dtypes, which may
            differ from one to the next. The parameters themselves are not changed.

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
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.


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
from distlib.exercises import Gradients, check_reduce_gradients

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
### What this tests: up to 6 ranks, several frozen parameters, parameters with a single number, dtypes that differ.
from distlib.exercises import Gradients, check_reduce_gradients

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

mixed = Gradients(shapes=[(3,), (2, 2), (5,), (4,)], frozen=[3], others={1: torch.float64})
report = check_reduce_gradients(reduce_gradients, world_sizes=(2, 4), models=[mixed], seed=53)
assert report[1].trace.bytes_sent == [0, 64, 64, 64]  # 8 float32 and 4 float64
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The whole step: `data_parallel_step`
#
# Now put the stages together: the three that are given, and yours. A test that runs this function replaces your
# `reduce_gradients` with a correct one, so a mistake there costs nothing here.
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
            from before. Its outputs are [rows, …], a row for each image that it is given, in a
            dtype that need not be that of the images, or of all parameters.
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
from distlib.exercises import Step, check_data_parallel_step

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
### What this tests: 5 ranks, models of 2 to 6 parameters, other shapes and losses, dtypes that differ.
import torch

from distlib.exercises import Step, check_data_parallel_step

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

steps = [
    Step(8, image=(5,), hidden=4, output=(3,), images=torch.float32),
    Step(7, image=(2, 3), hidden=5, images=torch.uint8, first=torch.float32),
]
report = check_data_parallel_step(data_parallel_step, world_sizes=(3,), steps=steps, seed=64)
# uint8 images; 40 float32 of the first layer and the buffer, 12 float64 of the last layer
assert report[1].trace.bytes_sent == [2 * (12 + 256 + 32), 32 + 236, 32 + 236]
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Real work: train a classifier on four ranks with your step
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
