# %% [markdown]
# # Exercise 10: tensor parallelism
#
# You write two linear layers whose weights are spread over several ranks. No rank ever has a whole weight, and yet all
# ranks together compute what one process would. At the end you cut a whole transformer with torch's own tensor
# parallelism.
#
# - **Time:** about 70 minutes.
# - **Before:** read the lesson [Tensor parallelism](../../course/10_tensor_parallel.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | class or function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `ColumnParallelLinear` | 3 | 3 |
# | 2 | `RowParallelLinear` | 3 | 3 |
# | 3 | `parallelize` | 4 | 5 |
#
# That makes 21 points. Each part is graded by itself. Its cell may hold functions and classes besides the one that is
# asked for; what two parts have in common, write in both. Attention and the loss over a cut vocabulary are exercise
# 10c, a side road.

# %% [markdown]
# ## How to work
#
# A whole weight is in a file that all ranks can read. You are handed an object that stands for this file: it has a
# shape, and an index reads a part of it, as a new tensor.
#
# | | |
# |---|---|
# | `weight.shape` | the shape of the whole; reads nothing |
# | `weight[2:4]` | rows 2 and 3; of a bias, entries 2 and 3 |
# | `weight[:, 2:4]` | columns 2 and 3 |
#
# To add up a tensor over the ranks, call `all_reduce(comm, tensor)` once. It writes the sum into `tensor`, so hand it
# a copy. Messages and bytes are counted.
#
# torch does not see messages, and differentiates as if there were none. `with_backward` says what happens in each
# direction.
#
# All tensors are float64. The features are the last dimension.

# %% readonly="setup"
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

from distlib import Communicator, SimulatedWorld, World, all_reduce

two = World(2)  # two ranks to try things on


class _TwoDirections(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, forward: Callable, backward: Callable
    ) -> torch.Tensor:
        ctx.go_back = backward
        return _unchanged("forward", forward, tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _unchanged("backward", ctx.go_back, gradient), None, None


def _unchanged(
    name: str, function: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor
) -> torch.Tensor:
    """function(tensor), if it leaves the tensor as it is."""
    before = tensor.clone()
    result = function(tensor)
    if not torch.equal(tensor.nan_to_num(), before.nan_to_num()):
        raise RuntimeError(
            f"with_backward: the function `{name}` has written into the tensor that it was "
            "given. Let it write into a "
            "copy: total = tensor.clone()"
        )
    return result


def with_backward(
    tensor: torch.Tensor,
    forward: Callable[[torch.Tensor], torch.Tensor],
    backward: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """forward(tensor). In the backward pass, the gradient of tensor is backward(the gradient of
    the result). Both functions return a tensor of the same shape, and neither writes into the
    one that it is given: torch or the caller may still need it."""
    return _TwoDirections.apply(tensor, forward, backward)


# %% [markdown]
# **Try it.** Forward leaves a tensor as it is, backward multiplies the gradient by 10.

# %%
x = torch.ones(3, requires_grad=True)
with_backward(x, lambda tensor: tensor, lambda gradient: 10 * gradient).sum().backward()
print(x.grad)

# %% [markdown]
# ## 1. Cut the output features: `ColumnParallelLinear`
#
# A linear layer computes $y = x W^T + b$, with a weight $W$ of shape `[out_features, in_features]`. Here the output
# features are cut. Each rank has the rows of $W$ and the entries of $b$ that belong to its output features, and
# computes these from all of $x$, which every rank has. (The rows of $W$ are the columns of $W^T$: hence the name.)
#
# With 2 ranks, $x = (1, 1)$ and no bias:
#
# | | rows of $W$ | output | gradient of $x$, if that of each output is 1 |
# |---|---|---|---|
# | rank 0 | $(1, 2), (3, 4)$ | $3, 7$ | $(4, 6)$ |
# | rank 1 | $(5, 6), (7, 8)$ | $11, 15$ | $(12, 14)$ |
# | one process | all four | $3, 7, 11, 15$ | $(16, 20)$ |
#
# **Forward** sends nothing: every rank returns its own features, and what follows works on these.
#
# **Backward** is another matter. Each rank computes only the part of the gradient of $x$ that comes from its own
# features. All features depend on $x$, so its gradient is the sum: one all-reduce, of a tensor as large as $x$.
# Afterwards every rank has $(16, 20)$. Where $x$ needs no gradient, nothing need be sent. The gradients of a rank's
# rows are its own, and stay where they are.


# %% solution="ColumnParallelLinear"
class ColumnParallelLinear(torch.nn.Module):
    """A linear layer of which each rank computes some of the output features. There may be
    several such layers at a time, with other weights.

    Args:
        comm: the communicator of this rank.
        weight: a file with the whole weight, [out_features, in_features]. Rank r of N reads the
            rows from r · out_features / N up to, but not including, (r + 1) · out_features / N,
            and nothing else.
        bias: a file with the whole bias, [out_features], read likewise; None if there is none.

    Attributes:
        weight: a torch.nn.Parameter, this rank's share: [out_features / N, in_features].
        bias: a torch.nn.Parameter, [out_features / N], or None.

    Raises:
        ValueError: N does not divide out_features; on every rank, before anything is read.

    Cost: forward sends nothing. Backward sends one all-reduce of a tensor of the input's shape:
    for S bytes at most 2 (N - 1) · S bytes, all ranks together, and 2 (N - 1) messages per
    rank.
    """

    def __init__(
        self, comm: Communicator, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        out_features, size = weight.shape[0], comm.world_size
        if out_features % size:
            raise ValueError(
                f"{size} ranks can't have equal shares of {out_features} output features"
            )
        rows = slice(comm.rank * out_features // size, (comm.rank + 1) * out_features // size)
        self.comm = comm
        self.weight = torch.nn.Parameter(weight[rows])
        self.bias = None if bias is None else torch.nn.Parameter(bias[rows])
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, in_features], the same on all ranks → […, out_features / N], this rank's
        features. x does not change."""
        ### BEGIN SOLUTION
        x = with_backward(x, forward=lambda x: x, backward=self.summed)
        return linear(x, self.weight, self.bias)

    def summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks."""
        total = tensor.clone()
        all_reduce(self.comm, total)
        return total
        ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.

# %%
W = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]).double()


def try_column(comm: Communicator) -> tuple[list[float], list[float]]:
    layer = ColumnParallelLinear(comm, W, None)
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    output = layer(x)
    output.sum().backward()
    return output.tolist(), x.grad.tolist()


for rank, (output, gradient) in enumerate(two.run(try_column)):
    print(f"rank {rank}: output {output}, gradient of x {gradient}")
print(two.trace.summary())

# %% [markdown]
# **Visible test: 3 points.** It compares outputs and gradients with those of a single process, notes what each rank
# reads and holds, and counts the bytes. In one case 2 ranks can't have equal shares. In the last there are other
# layers, made just before and just after.

# %% test="ColumnParallelLinear_visible" points=3
from distlib.exercises import Column, check_column_parallel_linear

report = check_column_parallel_linear(
    ColumnParallelLinear,
    layers=[
        Column(2, in_features=4, out_features=6, batches=[]),
        Column(2, in_features=4, out_features=6),
        Column(2, in_features=4, out_features=6, bias=False),
        Column(1, in_features=4, out_features=3),
        Column(3, in_features=5, out_features=6, batches=[(2, 2)]),
        Column(2, in_features=4, out_features=6, forward_only=True),
        Column(2, in_features=4, out_features=5),
        Column(2, in_features=4, out_features=6, next_to=True),
    ],
)
assert [tuple(result["held"]["weight"].shape) for result in report[1].results] == [(3, 4)] * 2
assert sum(report[1].trace.bytes_sent) == 2 * (5 * 4) * 8  # a batch of 5, and 4 features
assert sum(report[4].trace.bytes_sent) == 4 * (4 * 5) * 8
assert [sum(report[number].trace.bytes_sent) for number in (0, 3, 5, 6)] == [0] * 4
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More ranks, several batches, inputs of other shapes.

# %% test="ColumnParallelLinear_hidden" points=3
# The hidden tests of ColumnParallelLinear stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, several batches, inputs of 1 to 4 dimensions, other layers, memory not contiguous.
from distlib.exercises import Column, check_column_parallel_linear

report = check_column_parallel_linear(
    ColumnParallelLinear,
    layers=[
        Column(3, in_features=7, out_features=9, batches=[]),
        Column(2, in_features=7, out_features=8, batches=[(3,), (3,)]),
        Column(1, in_features=5, out_features=4, batches=[(2,)]),
        Column(3, in_features=8, out_features=9, batches=[()]),
        Column(4, in_features=9, out_features=12, batches=[(1, 2, 3)], strided=True),
        Column(6, in_features=8, out_features=6, batches=[(2, 2), (5,)], bias=False),
        Column(3, in_features=6, out_features=6, batches=[(2,), (2, 1)], forward_only=True),
        Column(3, in_features=6, out_features=6, batches=[(4,)], next_to=True),
        Column(3, in_features=6, out_features=8),
        Column(4, in_features=8, out_features=2),
    ],
    seed=101,
)
assert len(report) == 10
assert [tuple(result["held"]["weight"].shape) for result in report[4].results] == [(3, 9)] * 4
assert sum(report[1].trace.bytes_sent) == 2 * (6 * 7) * 8
assert sum(report[5].trace.bytes_sent) == 10 * (9 * 8) * 8
assert sum(report[7].trace.bytes_sent) == 4 * (4 * 6) * 8
assert [sum(report[number].trace.bytes_sent) for number in (0, 2, 6, 8, 9)] == [0] * 5
assert all(result["largest"] < 9 * 12 for result in report[4].results)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Cut the input features: `RowParallelLinear`
#
# Now the input features are cut. Each rank has the columns of $W$ that belong to its input features, and only these
# features of $x$: exactly what a `ColumnParallelLinear` leaves on that rank. What it computes is a part of a sum.
#
# With 2 ranks, $x = (1, 1, 1, 1)$, $b = (100, 200)$:
#
# | | columns of $W$ | input | its part | output |
# |---|---|---|---|---|
# | rank 0 | $(1, 5), (2, 6)$ | $1, 1$ | $3, 11$ | $110, 226$ |
# | rank 1 | $(3, 7), (4, 8)$ | $1, 1$ | $7, 15$ | $110, 226$ |
# | one process | all four | $1, 1, 1, 1$ | | $110, 226$ |
#
# **Forward** adds up the parts: one all-reduce, of a tensor as large as the output. Afterwards every rank has
# $(10, 26)$, and every rank adds the bias, which all of them have. Added before the sum, it would count twice.
#
# **Backward** sends nothing. Every rank goes on with the same output and computes the same loss, so each one is handed
# the same gradient of the output, and it is already whole. A sum hands its gradient on to each of its parts, as it is.


# %% solution="RowParallelLinear"
class RowParallelLinear(torch.nn.Module):
    """A linear layer of which each rank has some of the input features. There may be several
    such layers at a time, with other weights.

    Args:
        comm: the communicator of this rank.
        weight: a file with the whole weight, [out_features, in_features]. Rank r of N reads the
            columns from r · in_features / N up to, but not including,
            (r + 1) · in_features / N, and nothing else.
        bias: a file with the whole bias, [out_features]. Every rank reads all of it. None if
            there is none.

    Attributes:
        weight: a torch.nn.Parameter, this rank's share: [out_features, in_features / N].
        bias: a torch.nn.Parameter, [out_features], or None.

    Raises:
        ValueError: N does not divide in_features; on every rank, before anything is read.

    Cost: forward sends one all-reduce of a tensor of the output's shape: for S bytes at most
    2 (N - 1) · S bytes, all ranks together, and 2 (N - 1) messages per rank. Backward sends
    nothing.
    """

    def __init__(
        self, comm: Communicator, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        in_features, size = weight.shape[1], comm.world_size
        if in_features % size:
            raise ValueError(
                f"{size} ranks can't have equal shares of {in_features} input features"
            )
        self.comm = comm
        self.weight = torch.nn.Parameter(
            weight[:, comm.rank * in_features // size : (comm.rank + 1) * in_features // size]
        )
        self.bias = None if bias is None else torch.nn.Parameter(bias[:])
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, in_features / N], this rank's features → […, out_features], the same on all
        ranks. x does not change."""
        ### BEGIN SOLUTION
        output = with_backward(
            linear(x, self.weight), forward=self.summed, backward=lambda gradient: gradient
        )
        return output if self.bias is None else output + self.bias

    def summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks."""
        total = tensor.clone()
        all_reduce(self.comm, total)
        return total
        ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. Of the gradient of the bias each rank should have $(1, 1)$.

# %%
V = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]).double()


def try_row(comm: Communicator) -> tuple[list[float], list[float]]:
    layer = RowParallelLinear(comm, V, torch.tensor([100.0, 200.0]).double())
    output = layer(torch.ones(2, dtype=torch.float64))
    output.sum().backward()
    return output.tolist(), layer.bias.grad.tolist()


for rank, (output, gradient) in enumerate(two.run(try_row)):
    print(f"rank {rank}: output {output}, gradient of the bias {gradient}")
print(two.trace.summary())

# %% [markdown]
# **Visible test: 3 points.** As in part 1.

# %% test="RowParallelLinear_visible" points=3
from distlib.exercises import Row, check_row_parallel_linear

report = check_row_parallel_linear(
    RowParallelLinear,
    layers=[
        Row(2, in_features=6, out_features=4, batches=[]),
        Row(2, in_features=6, out_features=4),
        Row(2, in_features=6, out_features=4, bias=False),
        Row(1, in_features=3, out_features=4),
        Row(3, in_features=6, out_features=5, batches=[(2, 2)]),
        Row(2, in_features=6, out_features=4, forward_only=True),
        Row(2, in_features=5, out_features=4),
        Row(2, in_features=6, out_features=4, next_to=True),
    ],
)
assert [tuple(result["held"]["weight"].shape) for result in report[1].results] == [(4, 3)] * 2
assert [sum(report[number].trace.bytes_sent) for number in (1, 2, 5)] == [2 * (5 * 4) * 8] * 3
assert sum(report[4].trace.bytes_sent) == 4 * (4 * 5) * 8
assert [sum(report[number].trace.bytes_sent) for number in (0, 3, 6)] == [0] * 3
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More ranks, several batches, inputs of other shapes.

# %% test="RowParallelLinear_hidden" points=3
# The hidden tests of RowParallelLinear stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, several batches, inputs of 1 to 4 dimensions, other layers, memory not contiguous.
from distlib.exercises import Row, check_row_parallel_linear

report = check_row_parallel_linear(
    RowParallelLinear,
    layers=[
        Row(3, in_features=9, out_features=7, batches=[]),
        Row(2, in_features=8, out_features=7, batches=[(3,), (3,)]),
        Row(1, in_features=5, out_features=4, batches=[(8,)]),
        Row(3, in_features=9, out_features=8, batches=[()]),
        Row(4, in_features=12, out_features=9, batches=[(1, 2, 3)], strided=True),
        Row(6, in_features=6, out_features=8, batches=[(2, 2), (5,)], bias=False),
        Row(3, in_features=6, out_features=6, batches=[(2,), (2, 1)], forward_only=True),
        Row(3, in_features=6, out_features=6, batches=[(4,)], next_to=True),
        Row(3, in_features=8, out_features=6),
        Row(4, in_features=2, out_features=8),
    ],
    seed=102,
)
assert len(report) == 10
assert [tuple(result["held"]["weight"].shape) for result in report[4].results] == [(9, 3)] * 4
assert sum(report[1].trace.bytes_sent) == 2 * (6 * 7) * 8
assert sum(report[5].trace.bytes_sent) == 10 * (9 * 8) * 8
assert sum(report[7].trace.bytes_sent) == 4 * (4 * 6) * 8
assert [sum(report[number].trace.bytes_sent) for number in (0, 2, 8, 9)] == [0] * 4
assert all(result["largest"] < 9 * 12 for result in report[4].results)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Now with torch's own: `parallelize`
#
# torch cuts a model that knows nothing of ranks. `parallelize_module(module, mesh, plan)` replaces parameters of
# `module` by **DTensors**, of which each rank has its part. A `mesh` says which ranks there are. The plan names layers
# inside of the module, such as `"attention.q"`. The lesson shows it below
# [In real frameworks](../../course/10_tensor_parallel.ipynb).
#
# | in the plan | weight | takes | leaves |
# |---|---|---|---|
# | `ColwiseParallel()` | a rank has rows | all features, the same on all ranks | this rank's features |
# | `RowwiseParallel()` | a rank has columns | this rank's features | all features: the parts are added up |
# | `PrepareModuleInput(…)` | has none | the input of a module | the same input, in another layout |
#
# You cut a transformer. Every rank has the whole of it, with the same weights. The second cell below prints one.
#
# - `model.blocks`, any number of them, one after the other. Before them comes an embedding, behind them a head.
# - `block.attention`: `q`, `k` and `v` take one and the same input, and `out` takes what the heads have made of it. It
#   has as many heads as the features that it is handed are enough for. So a rank's own features mean its own heads.
# - `block.mlp`: `up`, GELU, `down`. In some models there is a third layer, `gate`, which takes the same input as `up`;
#   `down` takes the product of both. In the others `block.mlp.gate` is None.
#
# **What is cut.** As in parts 1 and 2, whole features go in and whole features come out of attention and MLP, and what
# lies between stays on its rank. Of every block all linear layers are cut. The embedding, the norms and the head stay
# whole.
#
# **What is sent.** In each block two all-reduces forward and two backward, each of a tensor as large as what passes
# between the blocks: $2 (N - 1) \cdot S$ bytes for $S$ bytes, all ranks together. Where layers share one input, each of
# them would add up its own gradient of it, backward, which is more. `PrepareModuleInput` with `Replicate()` for both,
# `input_layouts` and `desired_input_layouts`, puts one operator before all of them, as `with_backward` does in part 1.
# What torch sends to hand out the weights, when the model is cut, does not count.
#
# In the cell to try things, each of 2 ranks should have 2 of the 4 rows of `q.weight`, and the forward pass sends two
# all-reduces of 3 tokens, 4 features and 8 bytes each: $2 \cdot 2 \cdot (3 \cdot 4 \cdot 8) = 384$ bytes.

# %% readonly="setup_torch"
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from distlib import torch_distributed
from distlib.exercises import Transformer

# %%
print(Transformer(tokens=5, blocks=1, heads=2, head_size=2, hidden=6, gated=True))


# %% solution="parallelize"
def parallelize(model: torch.nn.Module) -> None:
    """Cut the blocks of a transformer over all ranks, in place, by torch's tensor parallelism.

    Args:
        model: a `Transformer`, the same on all ranks, float64, on the CPU. The number of ranks,
            which may be 1, divides the heads and the features between up and down. The
            parameters keep their names.

    Afterwards, of N ranks, each rank has of
        q, k, v, up, gate   1 / N of the rows of the weight, and of the entries of the bias
        out, down           1 / N of the columns of the weight, and the whole bias
        everything else     all of it
    and model(tokens) gives, on every rank, what it gave before. Not every model has a gate, or
    biases. torch's default process group is open.

    Cost: two all-reduces in each block in the forward pass and two in the backward pass, each
        of a tensor [batch, length, width]. Nothing is gathered.
    """
    ### BEGIN SOLUTION
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        plan = {
            "attention.q": ColwiseParallel(),
            "attention.k": ColwiseParallel(),
            "attention.v": ColwiseParallel(),
            "attention.out": RowwiseParallel(),
            "mlp.up": ColwiseParallel(),
            "mlp.down": RowwiseParallel(),
        }
        if block.mlp.gate is not None:
            plan["mlp.gate"] = ColwiseParallel()
        for shared in ("attention", "mlp"):
            plan[shared] = PrepareModuleInput(
                input_layouts=Replicate(), desired_input_layouts=Replicate()
            )
        parallelize_module(block, mesh, plan)
    ### END SOLUTION


# %% [markdown]
# **Try it** on two ranks, against one process. What differs is rounding.

# %%
torch.manual_seed(0)
whole = Transformer(tokens=5, blocks=1, heads=2, head_size=2, hidden=6)
sentence = torch.tensor([[4, 0, 3]])


def try_torch(comm: Communicator) -> tuple[torch.Tensor, list[int]]:
    model = Transformer(tokens=5, blocks=1, heads=2, head_size=2, hidden=6)
    model.load_state_dict(whole.state_dict())
    with torch_distributed(comm), torch.no_grad():
        parallelize(model)
        output = model(sentence)
        weight = model.blocks[0].attention.q.weight
        rows = weight.to_local() if hasattr(weight, "to_local") else weight
    return output, list(rows.shape)


for rank, (output, shape) in enumerate(two.run(try_torch)):
    difference = (output - whole(sentence)).abs().max().item()
    print(f"rank {rank}: q.weight {shape}, the output differs by {difference:.1e}")
calls = [message for message in two.trace if (message.site.call or "").startswith("all_reduce")]
print("bytes of all-reduces:", sum(message.nbytes for message in calls))

# %% [markdown]
# **Visible test: 4 points.** It looks at the shape of each parameter on each rank, compares output and gradients with
# those of a single process, and counts the bytes by kind of call. In the first case there is no backward pass.

# %% test="parallelize_visible" points=4
from distlib.exercises import CutModel, Sizes, check_parallelize

report = check_parallelize(
    parallelize,
    cuts=[
        CutModel(2, Sizes(5, blocks=1, heads=2, head_size=3, hidden=4), forward_only=True),
        CutModel(2, Sizes(5, blocks=2, heads=4, head_size=2, hidden=6, gated=True)),
        CutModel(3, Sizes(6, blocks=1, heads=3, head_size=2, hidden=9), batch=(1, 4)),
        CutModel(1, Sizes(5, blocks=1, heads=2, head_size=2, hidden=3)),
        CutModel(2, Sizes(5, blocks=1, heads=2, head_size=4, hidden=10, bias=False)),
    ],
)
shapes = report[1].results[1]["shapes"]
assert shapes["blocks.0.attention.k.weight"] == [4, 8]
assert shapes["blocks.1.mlp.down.weight"] == [8, 3]
print(report)

# %% [markdown]
# **Hidden test: 5 points.** Other numbers of blocks, heads and features, with and without gate and biases.

# %% test="parallelize_hidden" points=5
# The hidden tests of parallelize stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks and 4 blocks, with and without gate and biases; sizes that are drawn.
from distlib.exercises import CutModel, Sizes, check_parallelize

report = check_parallelize(
    parallelize,
    cuts=[
        CutModel(2, Sizes(7, blocks=3, heads=2, head_size=4, hidden=10), batch=(1, 3)),
        CutModel(
            3, Sizes(4, blocks=2, heads=6, head_size=1, hidden=3, gated=True), forward_only=True
        ),
        CutModel(1, Sizes(6, blocks=2, heads=3, head_size=2, hidden=5, gated=True)),
        CutModel(
            2, Sizes(6, blocks=4, heads=4, head_size=2, hidden=12, gated=True, bias=False)
        ),
        CutModel(
            6,
            Sizes(5, blocks=1, heads=6, head_size=2, hidden=6, gated=True),
            batch=(3, 2),
        ),
    ],
    drawn=[2, 3],
    seed=105,
)
assert len(report) == 7
shapes = report[3].results[1]["shapes"]
assert shapes["blocks.3.mlp.gate.weight"] == [6, 8]
assert shapes["blocks.2.attention.out.weight"] == [8, 4]
sent = [m.nbytes for m in report[0].trace if (m.site.call or "").startswith("all_reduce")]
assert sum(sent) == 2 * 3 * 4 * (1 * 3 * 8 * 8)
### END HIDDEN TESTS

# %% [markdown]
# ## All together
#
# Four ranks train an MLP: your column layer, GELU, your row layer. Between the two nothing is sent, because GELU works
# on each feature by itself. How many bytes does a step send, and how many parameters does a rank hold, of how many?
# Change the number of ranks to 1: the losses stay the same.

# %%
STEPS, RANKS, FEATURES, HIDDEN = 5, 4, 16, 64


def train(comm: Communicator) -> tuple[list[float], int]:
    torch.manual_seed(0)  # the same files and data on all ranks
    up, down = (
        torch.randn(HIDDEN, FEATURES).double() / 4,
        torch.randn(FEATURES, HIDDEN).double() / 8,
    )
    data = torch.randn(2, 8, FEATURES).double().tanh()
    first = ColumnParallelLinear(comm, up, torch.zeros(HIDDEN).double())
    second = RowParallelLinear(comm, down, torch.zeros(FEATURES).double())
    model, losses = torch.nn.Sequential(first, torch.nn.GELU(), second), []
    for _ in range(STEPS):
        model.zero_grad()
        # as in a deeper model, where layers before this one need the gradient
        x = data[0].requires_grad_()
        loss = torch.nn.functional.mse_loss(model(x), data[1])
        loss.backward()
        for parameter in model.parameters():
            parameter.data -= parameter.grad
        losses.append(loss.item())
    return losses, sum(parameter.numel() for parameter in model.parameters())


simulated = SimulatedWorld(RANKS, contexts="threads")
losses, held = simulated.run(train, timeout=30)[0]
print("losses:", *(f"{loss:.6f}" for loss in losses))
print(f"a rank holds {held} parameters of {2 * FEATURES * HIDDEN + FEATURES + HIDDEN}")
print(
    "bytes sent by each rank in each step:",
    [nbytes // STEPS for nbytes in simulated.trace.bytes_sent],
)

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 10_tensor_parallel` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("10_tensor_parallel")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("10_tensor_parallel")
