# %% [markdown]
# # Exercise 06: large batches
#
# You write the function that makes one gradient of many microbatches. At the end it trains a classifier on four ranks,
# with a batch of 256 images.
#
# - **Time:** about 30 minutes.
# - **Before:** read the lesson [Large batches](../../course/06_large_batches.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `accumulate_gradients` | 4 | 4 |
#
# That makes 8 points.

# %% [markdown]
# ## How to work
#
# All ranks call your function at the same time. It needs `comm` only for `all_reduce`, which is the library's and works
# in place:
#
# | | |
# |---|---|
# | `all_reduce(comm, tensor)` | add up the tensors of all ranks |
# | `all_reduce(comm, tensor, op=ReduceOp.AVG)` | average them |
#
# The tests also count messages and bytes. Put all gradients into one flat tensor and reduce it in *one* all-reduce,
# because many small ones pay many latencies. The cell below shows how to make a flat tensor and how to take it apart.

# %% readonly="setup"
from collections.abc import Callable, Sequence

import torch
from torch import nn

from distlib import Communicator, ReduceOp, World, all_reduce

three = World(3)  # three ranks to try things on
four = World(4)

# %%
tensors = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5.0, 6.0, 7.0])]
flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
print("flat:  ", flat.tolist())

parts = flat.split([tensor.numel() for tensor in tensors])
for tensor, part in zip(tensors, parts, strict=True):
    # in place: the tensor itself now holds the new numbers
    tensor.copy_(10 * part.view(tensor.shape))
print("tensors:", [tensor.tolist() for tensor in tensors])
assert tensors[1].tolist() == [50, 60, 70]

# %% [markdown]
# ## 1. One gradient from many microbatches: `accumulate_gradients`
#
# A batch is shared by the ranks, and each rank has its part in pieces, the microbatches. They may have any length, and
# a rank may have none. Afterwards the gradient of the whole batch is in `.grad` of every parameter, on every rank:
# the gradient of the *mean* loss over all samples of all ranks.
#
# `loss_function(outputs, targets)` returns one loss for each sample. `global_batch_size` is the number of samples on
# all ranks together.
#
# With 3 ranks, 4 samples, and a model with one parameter $w = 0$. The loss of a sample is $(w - y)^2$, so its gradient
# is $2\,(w - y) = -2y$.
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | microbatches | `y = [1, 2]` and `y = [3]` | `y = [4]` | none |
# | their gradients, divided by 4 | (−2 − 4) / 4 and −6 / 4 | −8 / 4 | |
# | `.grad` before the all-reduce | −3 | −2 | 0 |
# | `.grad` after it | −5 | −5 | −5 |
#
# Three things to remember:
#
# - `backward()` *adds* to `.grad`. So clear first what the training step before has left there.
# - `.grad` is `None` where nothing has been added yet, as on rank 2 here. It counts as zeros.
# - A frozen parameter (`parameter.requires_grad` is `False`) never gets a gradient. Leave it out.
#
# `torch.autograd.grad` will do as well as `backward()`. `torch.func` does not go with the model of the tests.


# %% solution="accumulate_gradients"
def accumulate_gradients(
    comm: Communicator,
    model: nn.Module,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    microbatches: Sequence[tuple[torch.Tensor, torch.Tensor]],
    global_batch_size: int,
) -> None:
    """Leave the gradient of the whole batch's mean loss in the .grad of every trained
    parameter, on every rank.

    Each microbatch goes forward and backward, one after the other. Then all ranks add up what
    they have.

    Args:
        comm: the communicator of this rank.
        model: the same parameters on every rank, in training mode. Only their .grad is changed,
            whose old contents do not count.
        loss_function: takes outputs and targets, returns a loss for each sample, shape
            [samples].
        microbatches: inputs and targets of this rank's samples, in pieces; the first dimension
            counts the samples. Not changed.
        global_batch_size: how many samples all microbatches of all ranks have together.

    Cost for N ranks and parameters of S bytes: one all-reduce of S bytes after the last
    microbatch, nothing before.
    """
    ### BEGIN SOLUTION
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = loss_function(model(inputs), targets)
        (losses.sum() / global_batch_size).backward()

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
    all_reduce(comm, flat)
    parts = flat.split([parameter.numel() for parameter in trained])
    for parameter, part in zip(trained, parts, strict=True):
        parameter.grad.copy_(part.view(parameter.shape))
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.


# %%
def squared_errors(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs[:, 0] - targets) ** 2


def one_parameter() -> nn.Module:
    """A model whose output is its only parameter, 0 at the start, when the input is 1."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model


def try_accumulate(comm: Communicator) -> float:
    by_rank = [[torch.tensor([1.0, 2.0]), torch.tensor([3.0])], [torch.tensor([4.0])], []]
    targets = by_rank[comm.rank]
    microbatches = [(torch.ones(len(y), 1), y) for y in targets]
    model = one_parameter()
    model.weight.grad = torch.tensor([[100.0]])  # left over from the step before
    accumulate_gradients(comm, model, squared_errors, microbatches, 4)
    return model.weight.grad.item()


for rank, gradient in enumerate(three.run(try_accumulate, timeout=30)):
    print(f"rank {rank}: gradient {gradient}")
print(three.trace.summary())

# %% [markdown]
# **Visible test: 4 points.** It runs your function on 1, 2 and 3 ranks. The lengths of the microbatches differ. It
# compares the gradients with those of one process, and checks when the model goes forward and backward, and which
# messages are sent. The model has 31 parameters in float64.

# %% test="accumulate_gradients_visible" points=4
from distlib.exercises import Pieces, check_accumulate_gradients

report = check_accumulate_gradients(
    accumulate_gradients,
    batches=[
        Pieces([[4]]),
        Pieces([[3, 3]]),
        Pieces([[4, 4, 4], [4, 4, 4]]),
        Pieces([[4, 4, 2], [4, 1]]),
        Pieces([[2, 2], [3], [5, 1]], loss="squared"),
    ],
)
assert len(report) == 5
assert sum(report[3].trace.bytes_sent) == 2 * 31 * 8  # one all-reduce of 31 float64 on 2 ranks
print(report)

# %% [markdown]
# **Hidden test: 4 points.** Up to 6 ranks, ranks without any microbatch, a parameter that is frozen, and other models.

# %% test="accumulate_gradients_hidden" points=4
# The hidden tests of accumulate_gradients stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, microbatches of any length or none, frozen parameters, float32, samples as matrices.
import torch

from distlib.exercises import Pieces, check_accumulate_gradients

report = check_accumulate_gradients(
    accumulate_gradients,
    batches=[
        Pieces([[1, 5, 2]], loss="squared", sizes=(2, 5, 1)),
        Pieces([[7], [1, 1, 1]], sizes=(5, 2, 6)),
        Pieces([[2, 1], [2]], frozen=True, sizes=(1, 3, 2, 4)),
        Pieces([[3, 3, 3], [2], []], loss="squared", sizes=(4, 6, 2)),
        Pieces([[], [4, 1], [2, 2, 2, 1]], frozen=True),
        Pieces([[5, 120], [1]], sizes=(6, 4, 3), sample=(2, 3)),
        Pieces([[2, 3, 1], []], loss="squared", frozen=True, dtype=torch.float32),
        Pieces([[8, 8], [8, 8], [8, 8], [8, 2], [], [1]], sizes=(6, 2, 3, 5)),
    ],
    seed=61,
)
assert len(report) == 8
assert sum(report[1].trace.bytes_sent) == 2 * 30 * 8
assert sum(report[4].trace.bytes_sent) == 4 * 27 * 8
assert sum(report[6].trace.bytes_sent) == 2 * 27 * 4
assert sum(report[7].trace.bytes_sent) == 10 * 43 * 8
assert max(report[7].trace.messages_sent) <= 10
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Real work: train on four ranks with your function
#
# This part gives no marks. The four ranks train on handwritten digits, each on a quarter of the images.
#
# The batch is large: 256 images in each step, in 4 microbatches of 16 on each rank, with a rate that works for a
# batch of 16, scaled and warmed up. The full rate is then 6.4, close to the highest that this model tolerates. One
# process with all 256 images at once must come to the same model. We compute in float64, in which rounding is small.

# %%
from distlib.training import digits

train, test = digits()
average_image = train.images.mean(dim=0)
images, labels = (train.images - average_image).double(), train.labels
test_images, test_labels = (test.images - average_image).double(), test.labels
# 4 epochs
order = (
    torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    .repeat(4)
    .reshape(-1, 256)
)
print(f"{len(order)} steps of {len(order[0])} images")


def make_model() -> nn.Module:
    torch.manual_seed(0)  # the same weights on every rank
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()


def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def set_rate(optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.param_groups[0]["lr"] = min(0.4 + step, 6.4)  # warmed up in 6 steps


def train_on_ranks(comm: Communicator) -> list[torch.Tensor]:
    """Runs on every rank. Returns the parameters."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters())
    for step, chosen in enumerate(order):
        mine = chosen.chunk(comm.world_size)[comm.rank].split(16)
        accumulate_gradients(
            comm, model, losses, [(images[part], labels[part]) for part in mine], len(chosen)
        )
        set_rate(optimizer, step)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def train_alone() -> list[torch.Tensor]:
    """Train in one process, with all images of a step at once. Returns the parameters."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters())
    for step, chosen in enumerate(order):
        optimizer.zero_grad()
        losses(model(images[chosen]), labels[chosen]).mean().backward()
        set_rate(optimizer, step)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def accuracy(parameters: list[torch.Tensor]) -> float:
    model = make_model()
    for parameter, value in zip(model.parameters(), parameters, strict=True):
        parameter.data.copy_(value)
    return float((model(test_images).argmax(dim=1) == test_labels).double().mean())


# %%
by_rank, alone = four.run(train_on_ranks, timeout=60), train_alone()
difference = max(
    float((value - wanted).abs().max())
    for parameters in by_rank
    for value, wanted in zip(parameters, alone, strict=True)
)
print(f"largest difference to training in one process: {difference:.1e}")
print(f"accuracy on the test images: {accuracy(by_rank[0]):.1%}")

assert difference < 1e-9, (
    "the two models differ: does your accumulate_gradients pass its tests?"
)
assert accuracy(by_rank[0]) > 0.85
assert four.trace.messages_sent == [len(order) * 6] * 4, "expected one all-reduce in each step"

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 06_large_batches` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("06_large_batches")

# %%
three.close()
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("06_large_batches")
