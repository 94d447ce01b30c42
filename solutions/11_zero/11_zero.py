# %% [markdown]
# # Exercise 11: ZeRO and FSDP
#
# In data parallel training every rank keeps the whole model, its gradients and the states of the optimizer, and all
# ranks keep the same. You compute how much each stage of ZeRO saves, cut the states of an optimizer into shards, one
# for each rank, and write a program that cuts everything, with torch's `fully_shard`.
#
# - **Time:** about 75 minutes.
# - **Before:** read the lesson [ZeRO and FSDP](../../course/11_zero.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function or class | stage | visible tests | hidden tests |
# |---|---|---|---:|---:|
# | 1 | `memory_by_stage` | 0 to 3 | 2 | 2 |
# | 2 | `ShardedOptimizer` | 1: states | 3 | 4 |
# | 3 | `train_fully_sharded` | 3, by torch | 4 | 5 |
#
# That makes 20 points. Each part is graded by itself. Its cell may hold functions and classes besides the one that is
# asked for. Stages 2 and 3 by hand, and checkpoints, are exercise 11c, a side road.

# %% [markdown]
# ## How to work
#
# **A shard.** Put several tensors into one flat buffer, one after the other, each row by row. Add zeros, the
# **padding**, until the number of ranks $N$ divides the length. Cut the buffer into $N$ equal shards. Rank $r$ keeps
# shard $r$. With a weight of shape `[2, 3]` and a bias of shape `[3]`:
#
# | | shard 0 | shard 1 | shard 2 | shard 3 |
# |---|---|---|---|---|
# | on 2 ranks | `w w w w w` | `w b b b 0` | | |
# | on 4 ranks | `w w w` | `w w w` | `b b b` | `0 0 0` |
#
# **What is sent.** `all_gather(comm, flat)` works in place: afterwards chunk $r$ of every rank's `flat` is rank $r$'s.
#
# **What is counted.** The bytes that are sent, and the bytes that are **alive**. A view keeps its whole tensor alive:
# after `part = flat[:2]` and `del flat`, all of `flat` is still there. With `flat[:2].clone()`, only two numbers are.

# %% readonly="setup"
from collections.abc import Callable, Sequence
from typing import Any

import torch

from distlib import Communicator, World, all_gather

two = World(2)  # two ranks to try things on

# %% [markdown]
# ## 1. Who keeps how much: `memory_by_stage`
#
# How many bytes does a rank keep between two steps? A number of the model is kept in three ways: as a parameter, as a
# gradient, and as states of the optimizer. With Adam in mixed precision they take 2, 2 and 12 bytes: the optimizer has
# a copy in 32 bits, a mean and a mean square.
#
# | stage | parameters | gradients | states |
# |---|---|---|---|
# | 0 | whole | whole | whole |
# | 1 | whole | whole | this rank's shards |
# | 2 | whole | this rank's shards | this rank's shards |
# | 3 | this rank's shards | this rank's shards | this rank's shards |
#
# A model is cut unit by unit: each **unit**, such as a layer, has a flat buffer of its own, with its own padding. What
# is whole has no padding. Two units of 10 and 5 parameters on 4 ranks make shards of 3 and 2 numbers. So a rank has
# 15 numbers whole, or 5 in its shards:
#
# | stage | bytes |
# |---|---|
# | 0 | $(2 + 2 + 12) \cdot 15 = 240$ |
# | 1 | $(2 + 2) \cdot 15 + 12 \cdot 5 = 120$ |
# | 2 | $2 \cdot 15 + (2 + 12) \cdot 5 = 100$ |
# | 3 | $(2 + 2 + 12) \cdot 5 = 80$ |


# %% solution="memory_by_stage"
def memory_by_stage(
    lengths: Sequence[int],
    world_size: int,
    parameter_bytes: int = 2,
    gradient_bytes: int = 2,
    state_bytes: int = 12,
) -> list[int]:
    """The bytes that a rank keeps between two steps, by stage. Only computes; sends no message.

    Args:
        lengths: of each unit, how many parameters it has; at least one unit. Not changed.
        world_size: the number of ranks, at least 1.
        parameter_bytes, gradient_bytes, state_bytes: of each number of the model.

    Returns:
        A list of four whole numbers: the bytes at stages 0, 1, 2 and 3, the same on every rank.
        Shards are those of the units, and have their padding. What is whole has none.
    """
    ### BEGIN SOLUTION
    whole = sum(lengths)
    shards = sum(-(-length // world_size) for length in lengths)
    kinds = (parameter_bytes, gradient_bytes, state_bytes)
    return [
        sum(kinds[: 3 - stage]) * whole + sum(kinds[3 - stage :]) * shards for stage in range(4)
    ]
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.

# %%
print(memory_by_stage([10, 5], world_size=4))
print(memory_by_stage([7_500_000_000], world_size=64))  # the first figure of the paper on ZeRO

# %% [markdown]
# **Visible test: 2 points.**

# %% test="memory_by_stage_visible" points=2
from distlib.exercises import check_memory_by_stage

report = check_memory_by_stage(
    memory_by_stage,
    questions=[
        ([12], 4),
        ([12, 8], 4),
        ([12], 1),
        ([12, 8], 2, 4, 4, 8),
        ([6, 7], 4),
        ([10, 5], 4),
        ([3], 4),
    ],
)
assert list(report[5].results[0]) == [240, 120, 100, 80]
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Other models, other numbers of ranks, numbers of other sizes.

# %% test="memory_by_stage_hidden" points=2
# The hidden tests of memory_by_stage stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: random models, up to 64 ranks, units smaller than the number of ranks, numbers of other sizes.
import random

from distlib.exercises import check_memory_by_stage

draw = random.Random(111)
questions = [
    ([draw.randint(1, 40) for _ in range(draw.randint(1, 6))], draw.randint(2, 9))
    for _ in range(10)
]
questions += [
    ([7], 1),
    ([9, 7], 2, 4, 4, 8),
    ([5, 6, 7], 3, 8, 4, 0),
    ([2, 1, 70], 64, 1, 3, 11),
]
report = check_memory_by_stage(memory_by_stage, questions=questions, drawn=10, seed=111)
assert len(report) == 24
assert list(report[11].results[0]) == [256, 200, 172, 144]
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Stage 1, cut the states: `ShardedOptimizer`
#
# Adam keeps two numbers for each parameter, and every rank keeps all of them. But a rank can leave most of them out:
# it computes the new values of its own shard only, and gets the others from the ranks that have computed these.
#
# `make_optimizer` makes the optimizer of one rank: `make_optimizer([tensor])` returns one as those of `torch.optim`
# are, for example `torch.optim.Adam([tensor], lr=0.1)`. Its `step()` reads `tensor.grad`, changes `tensor`, and keeps
# states as large as `tensor`. So give it a tensor that is as large as a shard, and nothing else.
#
# The gradients are averaged already, and each rank is handed its shard of them. With 2 ranks, two parameters
# `[1, 2, 3]` and `[4, 5]`, and `torch.optim.SGD([tensor], lr=0.01)`:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | its shard of the parameters | `1, 2, 3` | `4, 5, 0` |
# | its shard of the gradient | `10, 20, 30` | `40, 50, 0` |
# | after the optimizer's step | `0.9, 1.8, 2.7` | `3.6, 4.5, 0` |
# | all-gather | `0.9, 1.8, 2.7, 3.6, 4.5, 0` | `0.9, 1.8, 2.7, 3.6, 4.5, 0` |
# | the parameters | `[0.9, 1.8, 2.7]`, `[3.6, 4.5]` | `[0.9, 1.8, 2.7]`, `[3.6, 4.5]` |
#
# You could also give whole parameters to ranks, this one to rank 0 and that one to rank 1. But then a rank that gets
# the largest one may have nearly all states. Shards are equal, whatever the shapes.
#
# **Alive between steps:** the parameters, and besides them no more than the states and three tensors of the length of a
# shard. A second whole copy of the parameters is too much.


# %% solution="ShardedOptimizer"
class ShardedOptimizer:
    """An optimizer of which each rank has the states of its own shard only.

    Args:
        comm: the communicator of this rank.
        parameters: the tensors to be trained (torch.nn.Parameter), all of one dtype, the same
            on all ranks, in the same order.
        make_optimizer: make_optimizer([tensor]) makes an optimizer for a tensor. Call it once,
            with a tensor of the length of a shard.

    Cost for N ranks, and S bytes of parameters with their padding: each step sends one
        all-gather, (N - 1) / N * S bytes from each rank. The constructor sends nothing.
    """

    def __init__(
        self,
        comm: Communicator,
        parameters: Sequence[torch.nn.Parameter],
        make_optimizer: Callable[[list[torch.Tensor]], Any],
    ) -> None:
        ### BEGIN SOLUTION
        self.comm, self.parameters = comm, list(parameters)
        self.length = sum(parameter.numel() for parameter in self.parameters)
        flat = torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])
        flat = torch.cat([flat, flat.new_zeros(-self.length % comm.world_size)])
        self.shard = flat.chunk(comm.world_size)[comm.rank].clone()
        self.optimizer = make_optimizer([self.shard])
        ### END SOLUTION

    def step(self, gradient: torch.Tensor) -> None:
        """Update the parameters, in place; afterwards all ranks have the same.

        Args:
            gradient: this rank's shard of the averaged gradient, with its padding:
                [ceil(n / N)], for n numbers in all parameters together.
        """
        ### BEGIN SOLUTION
        self.shard.grad = gradient
        self.optimizer.step()
        size = self.comm.world_size
        flat = self.shard.new_empty(size * len(self.shard))
        flat.chunk(size)[self.comm.rank].copy_(self.shard)
        all_gather(self.comm, flat)
        pieces = flat[: self.length].split([parameter.numel() for parameter in self.parameters])
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            parameter.data.copy_(piece.view(parameter.shape))
        ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. Then with Adam: how many numbers has it kept on each rank?


# %%
def try_optimizer(comm: Communicator) -> list[list[float]]:
    parameters = [
        torch.nn.Parameter(torch.tensor(values)) for values in ([1.0, 2.0, 3.0], [4.0, 5.0])
    ]
    optimizer = ShardedOptimizer(
        comm, parameters, lambda tensors: torch.optim.SGD(tensors, lr=0.01)
    )
    optimizer.step(torch.tensor([[10.0, 20.0, 30.0], [40.0, 50.0, 0.0]][comm.rank]))
    return [[round(value, 4) for value in parameter.tolist()] for parameter in parameters]


for rank, parameters in enumerate(two.run(try_optimizer)):
    print(f"rank {rank}: {parameters}")
print(two.trace.summary())

# %% [markdown]
# **Visible test: 3 points.** It compares three steps of an optimizer that has two states for each number with those of
# one process. It looks at the tensors that your optimizers are made for, and counts the bytes that are sent, and those
# that are alive between the steps.

# %% test="ShardedOptimizer_visible" points=3
from distlib.exercises import Optimizing, check_sharded_optimizer

report = check_sharded_optimizer(
    ShardedOptimizer,
    runs=[
        Optimizing(2, shapes=[(2, 3), (4,)]),
        Optimizing(4, shapes=[(6, 8), (3,), (5,)]),
        Optimizing(3, shapes=[(2, 3), (4,)]),
        Optimizing(1, shapes=[(2, 3), (4,)]),
        Optimizing(4, shapes=[(2,), (1,)]),
    ],
)
assert report[0].trace.bytes_sent == [3 * 5 * 8] * 2  # three steps, a shard of 5 numbers
assert report[1].trace.bytes_sent == [3 * 3 * 14 * 8] * 4  # to each of three other ranks
assert max(report[2].trace.bytes_sent) <= 3 * 2 * 4 * 8  # 10 numbers and 2 of padding
print(report)

# %% [markdown]
# **Hidden test: 4 points.** More ranks, other shapes, another dtype, two optimizers next to each other.

# %% test="ShardedOptimizer_hidden" points=4
# The hidden tests of ShardedOptimizer stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, more shapes, float32, steps on two sets of parameters in turn.
import torch

from distlib.exercises import Optimizing, check_sharded_optimizer

report = check_sharded_optimizer(
    ShardedOptimizer,
    runs=[
        Optimizing(2, shapes=[(3, 3), (2, 2, 2), ()]),
        Optimizing(5, shapes=[(4,), (7, 9), (2, 3)], steps=2),
        Optimizing(6, shapes=[(5, 5), (5,), (5, 1), (2,), (1, 3)]),
        Optimizing(3, shapes=[(4, 5), (3,)], dtype=torch.float32),
        Optimizing(4, shapes=[(6, 6), (3,)], next_to=True),
        Optimizing(1, shapes=[(5,), (3, 2)], steps=2),
        Optimizing(5, shapes=[(1,), (3,)], steps=1),
        Optimizing(3, shapes=[(2, 5)]),
    ],
    seed=112,
)
assert len(report) == 8
assert report[0].trace.bytes_sent == [3 * 9 * 8] * 2
assert max(report[1].trace.bytes_sent) <= 2 * 4 * 15 * 8
assert max(report[3].trace.bytes_sent) <= 3 * 2 * 8 * 4
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Now with torch's own: `train_fully_sharded`
#
# torch cuts the parameters, too: stage 3 is `fully_shard`. You write a program that trains with it, as you will write
# it for GPUs. On each rank `torch.distributed` is initialized already: use its functions, and no `comm`. What you need
# of torch:
#
# | call | what it does |
# |---|---|
# | `fully_shard(module, mesh=mesh)` | makes one unit of the parameters in `module` that are in no unit yet |
# | `model.set_requires_gradient_sync(False)` | from now on `backward()` adds up gradients on each rank and sends none |
# | `model.set_requires_gradient_sync(True)` | from now on `backward()` averages the sums over the ranks |
# | `clip_grad_norm_(model.parameters(), max_norm)` | of `torch.nn.utils`: clips by the whole norm, and returns it |
#
# `fully_shard` changes the module itself. In the place of its parameters it puts new ones: **DTensors**, of which each
# rank has some rows. What begins with them, such as an optimizer, comes later. Each block is a unit, and then the
# model, which makes a unit of the rest. The norm is a DTensor, too, and `norm.full_tensor().item()` is a number.
#
# **Accumulation.** A step has several microbatches, and each has a forward and a backward pass of its own. Their
# gradients travel once, in the last backward pass. Until then each rank keeps the whole gradients: that is the price.
# Parameters travel in every pass: each unit is gathered just before it computes, and freed just after. For a step of
# $m$ microbatches:
#
# | | each block | the rest |
# |---|---:|---:|
# | all-gathers | $2m$ | $m$ |
# | reduce-scatters | 1 | 1 |
#
# The rest stays whole from the forward to the backward pass: `fully_shard` does so with what it is called for last.
# Leave its other options as they are; that the rest is gathered $2m$ times, too, costs no points.
#
# A model of a single weight 5, on 2 ranks, 2 microbatches in a step, `rate=0.5` and `max_norm=1`:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | gradients of its microbatches | 2, 6 | 4, 8 |
# | their mean | 4 | 6 |
# | reduce-scatter: the average, and its norm | 5 | 5 |
# | clipped | 1 | 1 |
# | the weight | $5 - 0.5 \cdot 1 = 4.5$ | 4.5 |
#
# The lesson has `fully_shard` in its section "In real frameworks".

# %% readonly="setup_torch"
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

Microbatch = tuple[torch.Tensor, torch.Tensor]  # inputs, targets


# %% solution="train_fully_sharded"
def train_fully_sharded(
    model: torch.nn.Module, steps: Sequence[Sequence[Microbatch]], rate: float, max_norm: float
) -> list[float]:
    """Train a model with torch's fully_shard and torch.optim.SGD, with accumulated and clipped
    gradients. torch's default process group is open, and spans all ranks.

    Args:
        model: on the CPU, the same on all ranks. model.blocks is a torch.nn.ModuleList, each of
            whose entries becomes a unit; the rest of the model is the last unit. Some
            parameters may be frozen (requires_grad=False). Afterwards the model is trained.
        steps: for each step the microbatches of this rank: pairs of inputs [samples, features]
            and targets [samples, outputs]. In one step all ranks have equally many, in another
            it may be another number. All have equally many samples. Not changed.
        rate: the learning rate.
        max_norm: what the norm of a step's gradient is at most, after clipping.

    Returns:
        The norm of the whole gradient in each step, before clipping: floats, the same on all
        ranks.

    The loss of a step is the mean, over its microbatches and over all ranks, of
        torch.nn.functional.mse_loss(model(inputs), targets).

    Cost of a step with m microbatches: each block is all-gathered 2m times, the rest of the
        model m times, the gradients of each unit are reduce-scattered once, and the norm takes
        a few numbers.
    """
    ### BEGIN SOLUTION
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    norms = []
    for microbatches in steps:
        optimizer.zero_grad()
        for number, (inputs, targets) in enumerate(microbatches, 1):
            model.set_requires_gradient_sync(number == len(microbatches))
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            (loss / len(microbatches)).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        norms.append(norm.full_tensor().item())
        optimizer.step()
    return norms
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. `torch_distributed(comm)` initializes torch's process group over the ranks of
# `comm`, so that its messages stand in the trace. What does each rank send with three microbatches?


# %%
from distlib import torch_distributed


class OneWeight(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(1, 1, bias=False)])
        torch.nn.init.constant_(self.blocks[0].weight, 5.0)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.blocks[0](values)


def try_training(comm: Communicator) -> tuple[list[float], float]:
    model = OneWeight()
    targets = [(4.0, 2.0), (3.0, 1.0)][comm.rank]
    step = [(torch.ones(1, 1), torch.tensor([[target]])) for target in targets]
    with torch_distributed(comm):
        norms = train_fully_sharded(model, [step], rate=0.5, max_norm=1.0)
        return [round(norm, 4) for norm in norms], model.blocks[0].weight.full_tensor().item()


for rank, (norms, weight) in enumerate(two.run(try_training, timeout=60)):
    print(f"rank {rank}: norms {norms}, weight {weight:.4f}")
print(two.trace.summary())

# %% [markdown]
# **Visible test: 4 points.** It compares each rank's rows of the parameters, and the norms, with those of one process.
# It looks at the kind and the size of each message. A block is a LayerNorm and an MLP.

# %% test="train_fully_sharded_visible" points=4
from distlib.exercises import Wrapping, check_train_fully_sharded

report = check_train_fully_sharded(
    train_fully_sharded,
    runs=[
        Wrapping(2, widths=(5, 6, 10, 3), blocks=3, passes=[4, 4]),
        Wrapping(3, widths=(4, 6, 9, 2), blocks=2, passes=[4, 1]),
        Wrapping(4, widths=(7, 5, 8, 3), blocks=1, passes=[2], relative_norm=2.0),
        Wrapping(2, widths=(5, 6, 10, 3), blocks=2, passes=[3, 2], frozen=["first"]),
        Wrapping(1, widths=(5, 6, 10, 3), blocks=2, passes=[2, 3]),
    ],
)
# three blocks of 148 numbers, and a rest of 64 with its padding, of which a rank sends a half
step = (3 * (2 * 4 + 1) * 74 + (4 + 1) * 32) * 8
assert all(2 * step <= sent <= 2.3 * step for sent in report[0].trace.bytes_sent)
print(report)

# %% [markdown]
# **Hidden test: 5 points.** More ranks, other models, other numbers of microbatches, other rates and norms.

# %% test="train_fully_sharded_hidden" points=5
# The hidden tests of train_fully_sharded stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 5 ranks and 4 blocks, frozen layers, float32, steps of one to five microbatches, no clipping.
import torch

from distlib.exercises import Wrapping, check_train_fully_sharded

report = check_train_fully_sharded(
    train_fully_sharded,
    runs=[
        Wrapping(2, widths=(4, 8, 11, 2), blocks=4, passes=[3, 1, 2], rows=3),
        Wrapping(3, widths=(6, 7, 12, 4), blocks=3, passes=[1, 5]),
        Wrapping(4, widths=(3, 6, 10, 5), blocks=2, passes=[3, 3], relative_norm=3.0),
        Wrapping(3, widths=(5, 7, 9, 2), blocks=2, passes=[4, 2], frozen=["last"]),
        Wrapping(2, widths=(5, 8, 9, 4), blocks=2, passes=[3], rows=1, dtype=torch.float32),
        Wrapping(5, widths=(4, 6, 13, 3), blocks=1, passes=[3, 2], relative_norm=0.3),
        Wrapping(1, widths=(6, 5, 7, 2), blocks=3, passes=[2, 3, 1]),
    ],
    seed=115,
)
assert len(report) == 7
step = (4 * (2 * 6 + 3) * 110 + (6 + 3) * 29) * 8
assert all(step <= sent <= 1.2 * step for sent in report[0].trace.bytes_sent)
### END HIDDEN TESTS

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 11_zero` does the same with the saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("11_zero")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("11_zero")
