# %% [markdown]
# # Exercise 06b: warm-up and local SGD
#
# **This exercise is optional.** It is a side road: no later exercise needs it. You write a learning rate that fits a
# large batch, and a round of local SGD, in which ranks take steps of their own before they average.
#
# - **Time:** about 45 minutes.
# - **Before:** read the lesson [How large a batch](../../course/06b_how_large_a_batch.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `warmup_learning_rate` | 2 | 2 |
# | 2 | `local_sgd_round` | 4 | 4 |
#
# That makes 12 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# The first function only computes. The second is called by all ranks at the same time. Of `comm` it needs only one
# thing: hand it to `all_reduce`, which is the library's.
#
# | | |
# |---|---|
# | `all_reduce(comm, tensor)` | add up the tensors of all ranks, in place |
# | `all_reduce(comm, tensor, op=ReduceOp.AVG)` | average them, in place |
#
# The tensor must have the same shape and dtype on every rank. The model comes in training mode: leave it there.
#
# **Tests look at the messages, too.** They count messages and bytes. Reduce everything in *one* all-reduce, as one flat
# tensor. Many small ones pay for many latencies. These help to make a flat tensor and to take it apart:

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
# ## 1. A rate for a large batch: `warmup_learning_rate`
#
# A learning rate $\eta$ was found to be good with a batch of `base_batch_size`. Now the batch is
# $k$ = `batch_size / base_batch_size` times as large. By linear scaling the rate becomes $k\,\eta$. To get there
# gently, it begins at $\eta$ in step 0, and grows **by the same amount in every step**, until it is $k\,\eta$ in step
# `warmup_steps`. There it stays. With `warmup_steps = 0` it is $k\,\eta$ from the start. (The rule is a
# first guess. Your function need not know the ceiling that the lesson found: it computes the rule.)
#
# With $\eta = 0.1$ for batches of 32, a batch of 160 and a warm-up of 4 steps:
#
# | step | 0 | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|---|
# | rate | 0.1 | 0.2 | 0.3 | 0.4 | 0.5 | 0.5 |


# %% solution="warmup_learning_rate"
def warmup_learning_rate(
    step: int,
    base_learning_rate: float,
    base_batch_size: int,
    batch_size: int,
    warmup_steps: int,
) -> float:
    """The learning rate of a step, by linear scaling with a gradual warm-up.

    Args:
        step: counted from 0.
        base_learning_rate: the rate that works well for a batch of base_batch_size; also the
            rate of step 0.
        base_batch_size, batch_size: samples, at least 1.
        warmup_steps: the first step with the full rate. 0: every step has it.

    Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017, arXiv:1706.02677, sections 2.1
    and 2.2.
    """
    ### BEGIN SOLUTION
    full_rate = base_learning_rate * batch_size / base_batch_size
    if step >= warmup_steps:
        return full_rate
    return base_learning_rate + (full_rate - base_learning_rate) * step / warmup_steps
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.

# %%
print([warmup_learning_rate(step, 0.1, 32, 160, 4) for step in range(6)])

# %% [markdown]
# **Visible test: 2 points.** The table, no warm-up, and a batch that is 2.5 times as large.

# %% test="warmup_learning_rate_visible" points=2
from distlib.exercises import check_warmup_learning_rate

table = [(step, 0.1, 32, 160, 4) for step in (4, 0, 1, 2, 3, 5, 1000)]
report = check_warmup_learning_rate(
    warmup_learning_rate,
    questions=[*table, (0, 0.1, 32, 160, 0), (1, 0.5, 64, 160, 2), (2, 0.5, 64, 160, 2)],
)
assert len(report) == 10
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Other rates and batches, some smaller than the base, and long warm-ups.

# %% test="warmup_learning_rate_hidden" points=2
# The hidden tests of warmup_learning_rate stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: many rates and batch sizes, batches smaller than the base, a warm-up of one step and a long one.
from distlib.exercises import check_warmup_learning_rate

questions = [
    (step, rate, base, batch, warmup)
    for rate, base, batch in [
        (0.4, 16, 512),
        (0.1, 256, 8192),
        (0.03, 100, 130),
        (0.2, 64, 16),
        (1.0, 7, 7),
    ]
    for warmup in (0, 1, 5, 250)
    for step in sorted({0, 1, warmup // 2, max(warmup - 1, 0), warmup, warmup + 1, 10_000})
]
questions += [(step, 0.2, 64, 960, 100_000) for step in (30_000, 100_001)]
report = check_warmup_learning_rate(
    warmup_learning_rate, questions=questions, drawn=20, seed=62
)
assert len(report) == len(questions) + 20 > 100
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Steps on one's own, then an average: `local_sgd_round`
#
# In a round every rank takes a step for each of its batches, without a message. The ranks start with the same model and
# reach different ones. At the end of the round every rank has the **average of all models**.
#
# A step follows the gradient of the *mean* loss of its own batch. `optimizer.zero_grad()` forgets the gradient of the
# step before, and `optimizer.step()` changes the parameters.
#
# With 2 ranks, 2 batches each, and the model with one parameter $w = 0$ and the loss $(w - y)^2$. The learning rate is
# 0.25, so each step goes half of the way from $w$ to $y$.
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | batches | `y = [8]` and `y = [8]` | `y = [-4]` and `y = [-4]` |
# | after the first step | 4 | −2 |
# | after the second step | 6 | −3 |
# | after the average | 1.5 | 1.5 |
#
# A model can also have **buffers**, `model.buffers()`: numbers that are not trained but change, such as the running
# mean in a batch normalization. Those that hold floating-point numbers (`buffer.is_floating_point()`) are averaged like
# the parameters. The others are counters, and stay as they are. A frozen parameter is the same on every rank and does
# not change: average it or leave it out, as you like.
#
# Change the parameters in place, under `torch.no_grad()`. The optimizer must find them again in the next round.


# %% solution="local_sgd_round"
def local_sgd_round(
    comm: Communicator,
    model: nn.Module,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Sequence[tuple[torch.Tensor, torch.Tensor]],
    optimizer: torch.optim.Optimizer,
) -> None:
    """Take one local step for each batch, then replace the model with the average of all ranks'
    models, in place.

    Args:
        comm: the communicator of this rank.
        model: the same shapes on every rank. Its parameters and floating-point buffers are
            averaged.
        loss_function: takes outputs and targets, returns a loss for each sample, shape
            [samples].
        batches: inputs and targets of this rank, a pair for each step, at least one. Ranks may
            have different numbers. Not changed.
        optimizer: of this rank's parameters, with zero_grad() and step(). Its state stays with
            its rank.

    Cost for N ranks and S bytes of parameters and floating-point buffers: one all-reduce of S
    bytes after the last local step, nothing before. Frozen parameters may be in it or not.
    """
    ### BEGIN SOLUTION
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()

    with torch.no_grad():
        buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        tensors = [*model.parameters(), *buffers]
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        all_reduce(comm, flat, op=ReduceOp.AVG)
        parts = flat.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table, and on a third rank that changes the average.


# %%
def squared_errors(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs[:, 0] - targets) ** 2


def one_parameter() -> nn.Module:
    """A model whose output is its only parameter, 0 at the start, when the input is 1."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    return model


def try_local(comm: Communicator) -> float:
    target = torch.tensor([[8.0], [-4.0], [4.0]][comm.rank])
    model = one_parameter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    local_sgd_round(comm, model, squared_errors, [(torch.ones(1, 1), target)] * 2, optimizer)
    return model.weight.item()


with World(2) as two:
    print("two ranks:  ", two.run(try_local, timeout=60))
print("three ranks:", three.run(try_local, timeout=60))

# %% [markdown]
# **Visible test: 4 points.** It runs your function on 1, 2 and 3 ranks, and then two rounds with a model that has
# buffers. The optimizer has momentum. No message may leave a rank before its last local step.

# %% test="local_sgd_round_visible" points=4
from distlib.exercises import Rounds, check_local_sgd_round

report = check_local_sgd_round(
    local_sgd_round,
    plans=[
        Rounds([1]),
        Rounds([3]),
        Rounds([1, 1]),
        Rounds([2, 2, 2]),
        Rounds([2, 2], rounds=2, buffers=2),
    ],
)
assert len(report) == 5
assert sum(report[3].trace.bytes_sent) == 4 * 31 * 8  # one all-reduce of 31 float64 on 3 ranks
# two rounds; 3 numbers more in a buffer
assert sum(report[4].trace.bytes_sent) == 2 * 2 * 34 * 8
print(report)

# %% [markdown]
# **Hidden test: 4 points.** Up to 5 ranks, more rounds, ranks that take different numbers of steps, a parameter that is
# frozen, other models and other rates.

# %% test="local_sgd_round_hidden" points=4
# The hidden tests of local_sgd_round stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 5 ranks, more rounds, buffers, different numbers of steps, float32, samples as matrices.
import torch

from distlib.exercises import Rounds, check_local_sgd_round

report = check_local_sgd_round(
    local_sgd_round,
    plans=[
        Rounds([2], buffers=2, loss="squared", sizes=(2, 5, 1)),
        Rounds([4, 4], loss="squared", batch_size=1, sizes=(5, 2, 6), rate=0.1),
        Rounds([2, 2, 2], rounds=3),
        Rounds([1, 3, 2], rounds=2, buffers=4, sizes=(1, 3, 2, 4), rate=0.5),
        Rounds([2, 1, 4, 1, 3], buffers=2, loss="squared", sizes=(6, 2, 3, 5), rate=0.15),
        Rounds([2, 2, 2], rounds=2, buffers=5, frozen=True, sizes=(4, 6, 2)),
        Rounds([1, 2], batch_size=120, sizes=(6, 4, 3), sample=(3, 2)),
        Rounds([2, 1], buffers=3, dtype=torch.float32),
    ],
    seed=63,
)
assert len(report) == 8
assert sum(report[1].trace.bytes_sent) == 2 * 30 * 8
assert sum(report[2].trace.bytes_sent) == 3 * 4 * 31 * 8
assert sum(report[4].trace.bytes_sent) == 8 * 49 * 8
assert max(report[4].trace.messages_sent) <= 8
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Real work: 256 images in each step, in two ways
#
# This part gives no marks. The images are handwritten digits. First, one process takes 256 images in each step. The
# rate that works for a batch of 16 is scaled, and warmed up by your function. The full rate is then 6.4, close to the
# highest that this model tolerates.

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
    optimizer.param_groups[0]["lr"] = warmup_learning_rate(step, 0.4, 16, 256, 6)


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
scaled = train_alone()
print(f"accuracy on the test images: {accuracy(scaled):.1%}")
assert accuracy(scaled) > 0.85, "does warmup_learning_rate pass its tests?"

# %% [markdown]
# Now local SGD on four ranks. Each rank has a quarter of a step's images, and takes its 4 pieces of 16 images as 4
# local steps, with the rate for 16. Then the ranks average, once.


# %%
def train_locally(comm: Communicator) -> list[torch.Tensor]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    for chosen in order:
        mine = chosen.chunk(comm.world_size)[comm.rank].split(16)
        local_sgd_round(
            comm, model, losses, [(images[part], labels[part]) for part in mine], optimizer
        )
    return [parameter.detach() for parameter in model.parameters()]


local = four.run(train_locally, timeout=60)
print(f"accuracy on the test images: {accuracy(local[0]):.1%}")

assert all(
    torch.equal(one, other) for rank in local for one, other in zip(rank, local[0], strict=True)
)
assert accuracy(local[0]) > 0.85
assert four.trace.messages_sent == [len(order) * 6] * 4, "expected one all-reduce in each round"

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 06b_how_large_a_batch` does the same with the
# saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("06b_how_large_a_batch")

# %%
three.close()
four.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("06b_how_large_a_batch")
