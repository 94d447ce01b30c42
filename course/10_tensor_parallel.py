# %% [markdown]
# # Tensor parallelism
#
# A single layer of GPT-3 takes 29 GB to train, so a GPU of 80 GB holds two of its 96 layers. A long pipeline could hold
# all of them. But with 1F1B it needs hundreds of microbatches to keep its GPUs busy, and no microbatch gets through the
# pipeline faster than through a single GPU with all layers. What if all GPUs worked on the same layer?
#
# > After this lesson you will be able to
# >
# > - cut a linear layer in two ways, and say what each way needs and gives,
# > - derive what ranks must send backward, and find a forgotten all-reduce,
# > - put layers together so that an MLP, or attention, needs one all-reduce in each direction,
# > - count the bytes of a transformer layer before it runs,
# > - say when tensor parallelism is the wrong choice.
# >
# > **Time:** about 60 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [Pipeline](09_pipeline.ipynb). No
# > GPU.

# %% tags=["folded"]
# The imports, the worlds, and a function that compares
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, linear

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    Trace,
    World,
    all_gather,
    all_reduce,
    duration,
    torch_distributed,
    traffic,
)
from distlib.draw import (
    HeldPieces,
    cut_pair,
    matrix_cuts,
    placements,
    predict,
    step_timeline,
)
from distlib.training import Span, StepTimes, digits, tensor_parallel as tp

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64
world = SimulatedWorld(4, contexts="threads")  # it communicates inside backward
alone = SimulatedWorld(1, contexts="threads")
two = SimulatedWorld(2)


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference."""
    return float((found - wanted).detach().abs().max())


# %% [markdown]
# ## Cut the layer itself
#
# A pipeline gives each rank whole layers. So it cannot cut a layer that is too large, and only one rank at a time works
# on a microbatch.
#
# How large is a layer? In GPT-3, a layer has $f$ = 12,288 features and about $12f^2$ weights: $4f^2$ in its attention
# and $8f^2$ in its MLP. Adam in mixed precision keeps 16 bytes per weight.

# %% tags=["folded"]
# How many layers fit, and the pipeline that would hold them
features = 12_288
layer_bytes = 12 * features**2 * 16
print(
    f"one layer: {12 * features**2 / 1e9:.2f} billion weights, {layer_bytes / 1e9:.0f} GB"
)
print(
    f"layers that fit into 80 GB: {80e9 // layer_bytes:.0f}, not counting activations"
)
assert f"{layer_bytes / 1e9:.0f}" == "29" and 80e9 // layer_bytes == 2
stages = 96 // 2
bubble = {m: (stages - 1) / (m + stages - 1) for m in range(1, 1000)}
microbatches = next(m for m in bubble if bubble[m] <= 0.1)
print(f"{stages} stages: from {microbatches} microbatches on, a bubble of 10 % or less")
assert stages == 48 and microbatches == 423
# Interleaved, two stages of one layer on each rank; microbatches come 48 at a time
passes = (m for m in range(48, 1000, 48) if (stages - 1) / (2 * m + stages - 1) <= 0.1)
assert next(passes) == 240

# %% [markdown]
# **Tensor parallelism** (TP) cuts the layers themselves: all ranks work on the same samples at the same moment, each
# with its part of the weights. So they must talk within a layer. The art is to talk little.
#
# Nearly all weights of a layer are in linear layers, $y = xW^T + b$. Here are two ways to cut one, without the bias, in
# one process that plays four ranks.

# %%
torch.manual_seed(0)
x = torch.randint(-1, 4, (2, 4)).double()  # 2 samples of 4 features
weight = torch.randint(-2, 3, (8, 4)).double()  # as torch keeps it: [outputs, inputs]
y = linear(x, weight)

# Each rank has 2 of the 8 output features, and needs all of x.
columns = [(x, part, linear(x, part)) for part in weight.chunk(4)]
# Each rank has 1 of the 4 input features, and the weights that belong to it.
rows = [
    (own_x, part, linear(own_x, part))
    for own_x, part in zip(x.chunk(4, dim=1), weight.chunk(4, dim=1), strict=True)
]
matrix_cuts(
    {"by columns": columns, "by rows": rows},
    title="One linear layer on four ranks, cut in two ways",
)

# %% tags=["folded"]
# Checks of what is said above and below
assert off(torch.cat([part for *_, part in columns], dim=1), y) == 0
assert off(sum(term for *_, term in rows), y) == 0
assert [float(term[0, 0]) for *_, term in rows] == [0, 3, -2, 1] and y[0, 0] == 2

# %% [markdown]
# By columns, rank 0 multiplies all of $x$ by two columns of $W^T$, and has two features of $y$, complete. By rows, it
# multiplies one feature of $x$ by one row of $W^T$, which gives a term of every feature of $y$. At the top left, the
# ranks have 0, 3, −2 and 1, and $y$ has their sum.
#
# **Column parallel gives complete features. Row parallel gives terms of a sum.**
#
# | | a rank has | it needs | it gives | sent forward |
# |---|---|---|---|---|
# | **column parallel** | the weights of some outputs | all of $x$ | its features of $y$ | nothing |
# | **row parallel** | the weights of some inputs | its features of $x$ | a term of all of $y$ | an all-reduce |
#
# These names, from the Megatron-LM paper, speak of $W^T$. torch keeps $W$, so column parallel cuts `weight` along
# dimension 0, and row parallel along dimension 1.
#
# And the bias? By columns it is cut like the outputs. By rows the outputs are not cut. Suppose that each rank adds the
# bias to its term before the sum, as `linear(own_x, part, bias)` would.

# %%
guess_1 = predict(
    "The first bias is 1.0, and each of 4 ranks adds it before the sum. "
    "By how much is the first output off?"
)

# %%
bias = torch.zeros(8, dtype=DOUBLE)
bias[0] = 1.0
mistaken = sum(linear(own_x, part, bias) for own_x, part, _ in rows)
found = off(mistaken[:, 0], linear(x, weight, bias)[:, 0])
print(guess_1.compare(found))

# %% tags=["folded"]
# Checks of what is said below, for other numbers of ranks too
assert found == 3.0
for ranks in (1, 2):
    parts = zip(x.chunk(ranks, 1), weight.chunk(ranks, 1), strict=True)
    terms = [linear(own_x, part, bias) for own_x, part in parts]
    assert off(sum(terms)[:, 0], linear(x, weight, bias)[:, 0]) == ranks - 1

# %% [markdown]
# The bias counts four times instead of once. So a row-parallel layer adds its bias after the sum.
#
# **Try it.** Somebody repairs it differently: each rank adds a quarter of the bias before the sum. Is the output right?
# In training, each quarter is a parameter that takes SGD steps of its own. How far does the sum of the quarters move,
# compared with the bias of one process?

# %%
quarters = [bias / 4 for _ in range(4)]  # write the sum, compare it with y + bias

# %% tags=["folded"]
# One way to do it
# The output is right, and the bias learns four times as fast
whole_bias = bias.clone().requires_grad_()
quarters = [(bias / 4).requires_grad_() for _ in range(4)]
total = sum(term + quarter for (*_, term), quarter in zip(rows, quarters, strict=True))
assert off(total, y + bias) < 1e-12
total.square().sum().backward()
(y + whole_bias).square().sum().backward()
moved = sum(quarter.grad for quarter in quarters)
print("moves", float((moved / whole_bias.grad).nanmean()), "times as far")
assert off(moved, 4 * whole_bias.grad) < 1e-9

# %% [markdown]
# ## Two layers, one all-reduce
#
# Which cut suits an MLP? It has two linear layers with a function between them: `up` from $f$ to $h$ hidden features,
# GELU, and `down` to $f$ again. Cut `up` by columns, and each rank has some of the hidden features, complete. GELU
# works on each number by itself. And these features are just what a row-parallel `down` *needs*.

# %% tags=["folded"]
# A small MLP with biases of zero, and the picture
up, down = nn.Linear(2, 8, dtype=DOUBLE), nn.Linear(8, 2, dtype=DOUBLE)
UP = [[2, 1], [-1, 2], [1, -2], [3, 0], [0, 2], [3, 1], [2, -1], [1, 2]]
DOWN = [[1, -1, 1, 2, -1, 1, 2, -1], [0, 2, -1, 1, 1, 0, -1, 1]]
with torch.no_grad():
    for layer, numbers in ((up, UP), (down, DOWN)):
        layer.weight.copy_(torch.tensor(numbers))
        layer.bias.zero_()
x = torch.tensor([[1, 2], [2, -1]]).double()
by_rank = []
for own_up, own_down in zip(up.weight.chunk(4), down.weight.chunk(4, 1), strict=True):
    hidden = gelu(linear(x, own_up))
    by_rank.append((x, own_up, hidden, own_down, linear(hidden, own_down)))
cut_pair(by_rank, title="An MLP on four ranks: columns, then rows")

# %% [markdown]
# From `up` to `down` no rank needs a number of another rank. The only message is the all-reduce at the end, which adds
# up the terms. So each rank computes a small MLP of its own:


# %%
def thin_mlp(
    x: torch.Tensor, up: nn.Linear, down: nn.Linear, rank: int, ranks: int
) -> torch.Tensor:
    """The MLP with only the hidden features of one rank, without the last bias."""
    weight, bias = up.weight.chunk(ranks)[rank], up.bias.chunk(ranks)[rank]
    return linear(gelu(linear(x, weight, bias)), down.weight.chunk(ranks, dim=1)[rank])


# %% tags=["folded"]
# Checks of what is said above and below
assert off(sum(term for *_, term in by_rank), down(gelu(up(x)))) < 1e-12
torch.manual_seed(0)
wide = torch.randn(6, 8, dtype=DOUBLE)
up, down = nn.Linear(8, 32, dtype=DOUBLE), nn.Linear(32, 8, dtype=DOUBLE)
for ranks in (1, 2, 4, 8, 32):
    terms = [thin_mlp(wide, up, down, rank, ranks) for rank in range(ranks)]
    assert off(sum(terms) + down.bias, down(gelu(up(wide)))) < 1e-12
pairs = zip(wide.chunk(2, dim=1), up.weight.chunk(2, dim=1), strict=True)
first, second = (linear(part, weight) for part, weight in pairs)
assert off(gelu(first) + gelu(second), gelu(first + second)) > 0.1

# %% [markdown]
# **An MLP is the sum of thin MLPs, each with some of the hidden features.**
#
# The bias of `down` is added after the sum. And GELU must come after *complete* features, because gelu(a + b) is not
# gelu(a) + gelu(b).
#
# The library's `ColumnParallelLinear` and `RowParallelLinear` hold only this rank's part of the weight matrix. We look
# up where the numbers of four ranks are in the arrays of one process.

# %% tags=["folded"]
# What each rank has, and where in the whole array it belongs
Tensors = dict[str, torch.Tensor]


def mlp(comm: Communicator) -> Tensors:
    """What this rank has of an MLP in its forward pass."""
    up = tp.ColumnParallelLinear(comm, 16, 64, seed=0, dtype=DOUBLE)
    down = tp.RowParallelLinear(comm, 64, 16, seed=1, dtype=DOUBLE)
    x = torch.randn(12, 16, dtype=DOUBLE, generator=torch.Generator().manual_seed(2))
    hidden = gelu(up(x))
    arrays = dict(x=x, up=up.weight, hidden=hidden, down=down.weight, y=down(hidden))
    return {name: array.detach() for name, array in arrays.items()}


def place(part: torch.Tensor, whole: torch.Tensor) -> tuple[slice, slice]:
    """Where in the whole the numbers of a part are."""
    height, width = part.shape
    rows, columns = range(0, len(whole), height), range(0, whole.shape[1], width)
    for top, left in product(rows, columns):
        where = slice(top, top + height), slice(left, left + width)
        if off(whole[where], part) < 1e-12:
            return where
    raise LookupError("no part of the whole")


def who_holds(
    ranks: SimulatedWorld, run: Callable[[Communicator], Tensors]
) -> dict[str, HeldPieces]:
    """Each array of one process, and which part of it each rank has."""
    (whole_arrays,), by_rank = alone.run(run), ranks.run(run)
    return {
        name: HeldPieces(whole.shape, [place(found[name], whole) for found in by_rank])
        for name, whole in whole_arrays.items()
    }


# %%
placements(
    {"column, then row": who_holds(world, mlp)},
    title="An MLP on four ranks, as torch keeps it",
    holder="rank",
)

# %% [markdown]
# Look at the weight of `up`: the cut is "column", but the bands are rows, because torch keeps $W$.
#
# ## What goes back
#
# What must the ranks send backward? Follow the gradient through the MLP, from right to left.
#
# - **At the end** is the sum, $y = y_0 + y_1 + y_2 + y_3$, so the gradient of each term is the gradient of $y$. Every
#   rank has the same $y$ and computes the same loss, so it has this gradient already. *Nothing is sent.*
# - **At the beginning** all thin MLPs read the same $x$. So its gradient is the sum of what comes back through each of
#   them, $\frac{\partial L}{\partial x} = \sum_r g_r$. Rank $r$ knows only its own $g_r$. *This takes an all-reduce.*
#
# | | forward | backward |
# |---|---|---|
# | at the beginning | every rank copies $x$ | all-reduce |
# | at the end | all-reduce | every rank copies the gradient |
#
# **A copy forward is an all-reduce backward, and an all-reduce forward is a copy backward.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | every rank has its own loss, and the losses are summed | an all-reduce forward is an all-reduce backward, too |
#
# </details>
#
# The two operators are called *conjugate*. Autograd does not see other ranks, so we tell it what to do in each
# direction.

# %%
Step = Callable[[Communicator, torch.Tensor], torch.Tensor]


class Operator(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, comm: Communicator, there: Step, back: Step
    ) -> torch.Tensor:
        ctx.comm, ctx.back = comm, back
        return there(comm, tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.back(ctx.comm, gradient), None, None, None


def nothing(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone()


def add_up(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    total = tensor.clone(memory_format=torch.contiguous_format)
    all_reduce(comm, total)
    return total


Operators = tuple[Step, Step]
BEGIN, END = (nothing, add_up), (add_up, nothing)

# %% [markdown]
# To see what each operator is for, we break it. The model reads images of digits: a layer `below`, the MLP, a layer
# `above`. Only the MLP is cut, and every rank has the two others whole. As in a transformer, the output of the MLP is
# added to its input.


# %%
class Reader(nn.Module):
    """Below, thin MLP of this rank, above. `begin` and `end`: what is sent, forward and
    backward."""

    def __init__(
        self,
        comm: Communicator,
        begin: Operators = BEGIN,
        end: Operators = END,
        seed: int = 0,
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)  # the same weights on every rank
        self.comm, self.begin, self.end = comm, begin, end
        self.below, self.above = nn.Linear(64, 16), nn.Linear(16, 10)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.double()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        comm = self.comm
        x = torch.tanh(self.below(images))
        entered = Operator.apply(x, comm, *self.begin)
        term = thin_mlp(entered, self.up, self.down, comm.rank, comm.world_size)
        y = Operator.apply(term, comm, *self.end) + self.down.bias
        return self.above(x + y)


# %% tags=["folded"]
# The gradients of one step, and how far they are off
train_set, _ = digits()
images, labels = train_set.images.double().flatten(1), train_set.labels


def forward_backward(
    comm: Communicator, begin: Operators = BEGIN, end: Operators = END
) -> Tensors:
    """The output, and the gradient of each weight, by name."""
    model = Reader(comm, begin, end)
    output = model(images[:64])
    cross_entropy(output, labels[:64]).backward()
    found = {name: weight.grad for name, weight in model.named_parameters()}
    return {"output": output.detach(), **found}


(right,) = alone.run(forward_backward)


def part_of_rank(name: str, tensor: torch.Tensor, rank: int) -> torch.Tensor:
    """What a rank has of it: of the MLP's weights a quarter."""
    if name in ("up.weight", "up.bias"):
        return tensor.chunk(4)[rank]
    return tensor.chunk(4, dim=1)[rank] if name == "down.weight" else tensor


def errors(by_rank: Sequence[Tensors]) -> dict[str, float]:
    """By name, the largest error on any rank, as a part of the right gradient's length."""

    def error(name: str, rank: int) -> float:
        wanted = part_of_rank(name, right[name], rank)
        found = part_of_rank(name, by_rank[rank][name], rank)
        return float((found - wanted).norm() / wanted.norm())

    return {name: max(error(name, rank) for rank in range(4)) for name in right}


# %%
conjugate = errors(world.run(forward_backward))
print(f"largest error with both operators: {max(conjugate.values()):.0e}")
assert max(conjugate.values()) < 1e-12

# %% [markdown]
# All gradients are those of one process. Now somebody forgets the all-reduce backward at the beginning. This is easy,
# because a plain `x`, without any operator, gives the right output.

# %%
guess_2 = predict(
    "The all-reduce backward is forgotten. Which gradients are wrong?",
    choices=[
        "those of the MLP",
        "those of the layer below",
        "those of the MLP and of the layer below",
        "all",
    ],
)

# %%
forgotten = errors(world.run(forward_backward, begin=(nothing, nothing)))
for name, error in forgotten.items():
    print(f"{name:12}  {error:7.0%}")
print(guess_2.compare("those of the layer below"))

# %% tags=["folded"]
# Checks of what is said below
wrong = [name for name, error in forgotten.items() if error > 1e-12]
assert wrong == ["below.weight", "below.bias"]
twice = errors(world.run(forward_backward, end=(add_up, add_up)))
assert abs(twice["up.weight"] - 3) < 1e-9 and abs(twice["down.weight"] - 3) < 1e-9
assert 0.3 < twice["below.weight"] < 1 and 0.3 < twice["below.bias"] < 1
assert max(twice["output"], twice["above.weight"], twice["down.bias"]) < 1e-12

# %% [markdown]
# The output is right. So are the gradients of the MLP's own weights. Only the gradients *below* are wrong, and on each
# rank differently, because each rank lacks what came back through the other thin MLPs.
#
# The opposite mistake is an all-reduce in *both* directions at the end, as in torch's own differentiable all-reduce.
# Then the gradients of the thin MLPs are four times as large: see [lesson 10c](10c_cuts_closer.ipynb).
#
# Would you notice the forgotten all-reduce in training? We train 20 steps, and compare the layer `below` of all ranks.


# %% tags=["folded"]
# Twenty steps of training
def train(
    comm: Communicator, begin: Operators = BEGIN
) -> tuple[list[float], torch.Tensor]:
    """The losses of 20 steps, and the weights of the layer below."""
    model, losses = Reader(comm, begin), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for batch in torch.arange(20 * 64).split(64):
        optimizer.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.below.weight.detach()


# %%
print("           first loss  last loss  ranks apart")
trained = {}
for name, begin in {"right": BEGIN, "forgotten": (nothing, nothing)}.items():
    by_rank = world.run(train, begin=begin)
    (first, *_, last), weights = by_rank[0]
    apart = max(off(other, weights) for _, other in by_rank)
    trained[name] = first, last, apart
    print(f"{name:9}  {first:10.2f}  {last:9.2f}  {apart:11.2f}")

# %% tags=["folded"]
# Checks of what is said below
for first, last, _ in trained.values():
    assert first - last > 0.8
assert abs(trained["right"][1] - trained["forgotten"][1]) < 0.1
assert trained["right"][2] < 1e-9 and trained["forgotten"][2] > 0.1

# %% [markdown]
# The loss falls as it should. But the ranks' copies of `below`, which should be equal, drift apart.
#
# **The loss need not show a missing gradient. Compare gradients with one process.**
#
# And compare replicated weights between the ranks from time to time.
#
# ## Which matrix which way?
#
# We cut the first matrix by columns and the second by rows. What if we swap the two? Then each rank takes its own part
# of $x$ and computes a term of the hidden features, and the terms must be summed *before* GELU. After GELU each rank
# has all hidden features, computes its part of the output, and the parts are gathered. In either order, the ranks send
# as much backward as forward.
#
# On a ring, a rank sends $n$ units in an all-gather of $n$ features and $2n$ in an all-reduce. A unit is
# $\frac{N-1}{N}$ times the bytes of one feature of all samples.


# %% tags=["folded"]
# An MLP in both orders of the cuts
def own_part(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """[…, features] → […, features / ranks]; sends nothing."""
    return tensor.chunk(comm.world_size, dim=-1)[comm.rank].contiguous()


def gathered(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """[…, features / ranks] → […, features]: an all-gather."""
    part = tensor.movedim(-1, 0).contiguous()
    whole = part.new_empty(len(part) * comm.world_size, *part.shape[1:])
    whole.chunk(comm.world_size)[comm.rank].copy_(part)
    all_gather(comm, whole)
    return whole.movedim(0, -1)


CUT, JOIN = (own_part, gathered), (gathered, own_part)


Layers = tuple[Callable[[torch.Tensor], torch.Tensor], ...]


def mlp_in_pieces(
    comm: Communicator, pair: str, features: int = 16, hidden: int = 64
) -> tuple[torch.Tensor, torch.Tensor]:
    """An MLP, forward and backward. Returns its output and the gradient of its input."""
    kinds = {"column": tp.ColumnParallelLinear, "row": tp.RowParallelLinear}
    first, second = pair.split(", ")
    up = kinds[first](comm, features, hidden, seed=0, dtype=DOUBLE)
    down = kinds[second](comm, hidden, features, seed=1, dtype=DOUBLE)
    inputs = torch.randn(
        2, 6, features, dtype=DOUBLE, generator=torch.Generator().manual_seed(2)
    )
    x = inputs.requires_grad_()
    x = Operator.apply(x, comm, *CUT) if first == "row" else x
    x = gelu(up(x))
    x = down(x)
    x = Operator.apply(x, comm, *JOIN) if second == "column" else x
    x.square().sum().backward()
    return x.detach(), inputs.grad


# %%
guess_3 = predict(
    "16 features, 64 hidden. How many times as many bytes does a rank send with the "
    "rows first, then the columns?",
    unit="times",
)

# %%
PAIRS = ("column, row", "row, column")
(wanted,) = alone.run(mlp_in_pieces, PAIRS[0])
sent = {}
for pair in PAIRS:
    for output, gradient in world.run(mlp_in_pieces, pair):
        assert off(output, wanted[0]) < 1e-12 and off(gradient, wanted[1]) < 1e-12
    sent[pair] = world.trace.bytes_sent[0]
    print(f"{pair:15} {sent[pair]:6,} bytes, {world.trace.messages_sent[0]} messages")
print(guess_3.compare(sent["row, column"] / sent["column, row"]))

# %% tags=["folded"]
# Checks of the numbers above and below, for other sizes and ranks
assert sent["row, column"] / sent["column, row"] == 4.5
assert sent["column, row"] == 4 * 16 * 72
for ranks, features, hidden in [(2, 4, 16), (2, 8, 4), (4, 8, 16), (8, 8, 8)]:
    few = SimulatedWorld(ranks, contexts="threads")
    unit = 2 * 6 * 8 * (ranks - 1) // ranks  # all-gather of one feature
    expected = [
        4 * features,  # two all-reduces of the features
        4 * hidden + 2 * features,  # two of the hidden features; two all-gathers
    ]
    for pair, numbers in zip(PAIRS, expected, strict=True):
        few.run(mlp_in_pieces, pair, features, hidden)
        assert few.trace.bytes_sent == [numbers * unit] * ranks

# %% [markdown]
# | | forward | backward | together |
# |---|---|---|---|
# | column, row | all-reduce of $f$ | all-reduce of $f$ | $4f$ |
# | row, column | all-reduce of $h$, all-gather of $f$ | all-reduce of $h$, all-gather of $f$ | $4h + 2f$ |
#
# In GPT-3 $h = 4f$, so $4h + 2f$ is $18f$: for the same result, a rank sends 4.5 times as many bytes.
#
# **Columns first, then rows: no hidden feature is ever sent.**
#
# **Try it.** Is there an MLP for which rows first sends fewer bytes? Look at the table, and try its sizes.

# %%
for pair in PAIRS:
    world.run(mlp_in_pieces, pair, features=16, hidden=64)  # change the sizes
    print(f"{pair:12} {world.trace.bytes_sent[0]:,} bytes")

# %% tags=["folded"]
# One way to do it
# 4h + 2f < 4f where h < f/2, a bottleneck
for pair in PAIRS:
    world.run(mlp_in_pieces, pair, features=64, hidden=16)
    print(f"{pair:12} {world.trace.bytes_sent[0]:,} bytes")
    sent[pair] = world.trace.bytes_sent[0]
assert sent["row, column"] / sent["column, row"] == 0.75

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# Where $h < f/2$, rows first sends fewer bytes. The rule is to send where the layer is narrow. In a transformer the
# hidden features are the wide place, so the two all-reduces come before and after them.
#
# </details>
#
# ## Attention
#
# A transformer reads a text as a sequence of *tokens*, words or pieces of words. Attention lets each token look at the
# others, in several **heads**. In a head, a token's *query* is compared with all *keys*, which says how to mix the
# *values*. No head needs the result of another head. So each rank takes some of the heads:
#
# - the matrices of queries, keys and values are column parallel,
# - a rank's heads give some of the features, complete, so the output matrix is row parallel.
#
# So attention is cut like an MLP, with softmax in the role of GELU. Here are the library's arrays of four heads.


# %% tags=["folded"]
# What each rank has of an attention, and the picture
def attention(comm: Communicator) -> Tensors:
    module = tp.ParallelAttention(comm, 16, heads=4, dtype=DOUBLE)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(1, 12, 16, dtype=DOUBLE, generator=generator)
    queries, keys, values = module.queries_keys_values.weight.chunk(3)
    arrays = dict(x=x[0], queries=queries, keys=keys, values=values)
    arrays |= dict(output=module.output.weight, y=module(x)[0])
    return {name: array.detach() for name, array in arrays.items()}


held = who_holds(two, attention)
placements({"attention": held}, title="Four heads on two ranks", holder="rank")

# %% [markdown]
# Many models keep queries, keys and values as one matrix of $3f$ outputs, one section below the other. Cut this matrix
# into two equal pieces, and rank 0 gets all queries and half of the keys. So each of the three sections must be cut by
# itself:


# %%
def own_rows(comm: Communicator, sections: int) -> list[int]:
    return tp.ColumnParallelLinear(comm, 4, 12, sections=sections).rows


for sections in (1, 3):
    print(f"4 features, {sections} section(s):", two.run(own_rows, sections))

# %% tags=["folded"]
# Check of the output above
assert two.run(own_rows, 3)[0] == [0, 1, 4, 5, 8, 9]

# %% [markdown]
# Our transformer layer is attention and then an MLP. Before each of the two is a LayerNorm, and the result is added to
# the input: $x + \text{attention}(\text{norm}(x))$, then $x + \text{mlp}(\text{norm}(x))$. Every rank computes norms
# and additions whole.

# %%
guess_4 = predict(
    "A transformer layer on 4 ranks, forward and backward. How many all-reduces?",
    unit="all-reduces",
)

# %% tags=["folded"]
# Blocks of a transformer, and how many all-reduces they take
BATCH, SEQUENCE, FEATURES, HIDDEN, HEADS = 4, 16, 32, 128, 8


def activations(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, SEQUENCE, FEATURES, dtype=DOUBLE, generator=generator)


def one_block(comm: Communicator, block: str, backward: bool = True) -> None:
    if block == "MLP":
        module: nn.Module = tp.ParallelMLP(comm, FEATURES, HIDDEN, dtype=DOUBLE)
    elif block == "attention":
        module = tp.ParallelAttention(comm, FEATURES, HEADS, dtype=DOUBLE)
    else:
        module = tp.ParallelTransformerLayer(
            comm, FEATURES, HIDDEN, HEADS, dtype=DOUBLE
        )
    y = module(activations().requires_grad_())
    if backward:
        y.square().sum().backward()


def all_reduces(trace: Trace) -> int:
    """How many ring all-reduces: each is 2(N − 1) messages of every rank."""
    assert set(trace.by_collective()) == {"all_reduce"}
    each = 2 * (trace.world_size - 1)
    assert len(set(trace.messages_sent)) == 1 and trace.messages_sent[0] % each == 0
    return trace.messages_sent[0] // each


# %%
counted = {}
for block in ("MLP", "attention", "whole layer"):
    world.run(one_block, block, backward=False)
    forward = all_reduces(world.trace)
    world.run(one_block, block)
    counted[block] = forward, all_reduces(world.trace) - forward
    print(f"{block:11}  forward {counted[block][0]}, backward {counted[block][1]}")
print(guess_4.compare(sum(counted["whole layer"])))

# %% tags=["folded"]
# Check of what is said below
assert counted == {"MLP": (1, 1), "attention": (1, 1), "whole layer": (2, 2)}

# %% [markdown]
# **A layer of attention and then an MLP needs four all-reduces: two forward and two backward.**
#
# With recomputation, as in lesson 09, there are more: [lesson 10c](10c_cuts_closer.ipynb) counts them.
#
# **Try it.** Queries, keys and values are *one* column-parallel layer here. Make them three layers with the same
# input. How many all-reduces do they need backward?


# %%
def projections(comm: Communicator, widths: Sequence[int]) -> None:
    """Column-parallel layers with the same input, of these widths: forward and backward."""
    x = activations().requires_grad_()
    parts = [
        tp.ColumnParallelLinear(comm, FEATURES, width, seed=seed, dtype=DOUBLE)
        for seed, width in enumerate(widths)
    ]
    torch.cat([part(x) for part in parts], dim=-1).square().sum().backward()


world.run(projections, [3 * FEATURES])  # change it
print(all_reduces(world.trace))

# %% tags=["folded"]
# One way to do it
# Each layer has an operator of its own, and adds up its gradient
world.run(projections, [FEATURES] * 3)
print("three layers:", all_reduces(world.trace))
assert all_reduces(world.trace) == 3

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# Each of the three layers sends its own gradient of $x$, and only then they are added. So put one operator before all
# three, or make them one layer.
#
# </details>
#
# ### The bytes
#
# Each all-reduce has the size of $x$: batch · sequence · features numbers, together $S$ bytes. On a ring of $N$ ranks:
#
# | | forward | backward | bytes per rank |
# |---|---|---|---|
# | column parallel | nothing | all-reduce of its input's gradient | $2\frac{N-1}{N}S$ |
# | row parallel | all-reduce of its output | nothing | $2\frac{N-1}{N}S$ |
# | transformer layer | 2 all-reduces | 2 all-reduces | $8\frac{N-1}{N}S$ |
#
# The size of the weights does not appear.

# %%
S = activations().nbytes
print("ranks  weights per rank  bytes sent per rank")
for ranks in (1, 2, 4, 8):
    some = SimulatedWorld(ranks, contexts="threads")
    some.run(one_block, "whole layer")
    weights = 12 * FEATURES**2 // ranks
    print(f"{ranks:5}  {weights:16,}  {some.trace.bytes_sent[0]:19,}")

# %% tags=["folded"]
# Checks of the formula
for ranks in (1, 2, 4, 8):
    some = SimulatedWorld(ranks, contexts="threads")
    some.run(one_block, "whole layer")
    assert some.trace.bytes_sent == [4 * 2 * (ranks - 1) * S // ranks] * ranks
    exact = traffic.ring_all_reduce(ranks, S // 8, 8)
    assert some.trace.bytes_sent == [4 * nbytes for nbytes in exact.nbytes]

# %% [markdown]
# With more ranks each rank computes less and sends *more*. Forward, a rank must wait for each sum before its next
# matmul on the same tokens. Backward a part of the messages can hide: while the gradient of $x$ is added up, a rank can
# compute the gradient of its weights.
#
# The embedding and the last layer, with a row for each token of the vocabulary, can be cut likewise: see [lesson
# 10c](10c_cuts_closer.ipynb).
#
# ## What it costs
#
# Are four all-reduces per layer many? It depends on the links. We take eight ranks and this model:
#
# | | |
# |---|---|
# | model | 24 layers, 2,048 features, sequences of 2,048 tokens, numbers of 16 bits |
# | a layer, forward | $24f^2 + 4sf$ operations per token, for sequences of $s$ tokens; backward twice as many |
# | a device | 200 · 10¹² operations per second |
# | fast links | 300 GB/s, as between GPUs of one machine, latency 5 µs |
# | slow links | 12.5 GB/s, a network of 100 Gbit/s, latency 5 µs |
#
# In virtual time, a rank sleeps for as long as it would compute, and sends real all-reduces of tensors that have a
# shape but no numbers. We run one layer and count it 24 times. Nothing overlaps.

# %% tags=["folded"]
# One layer on a cluster, in virtual time
LAYERS, WIDTH, TOKENS, SPEED = 24, 2048, 2048, 200e12
FAST, SLOW = Link(5e-6, 300e9), Link(5e-6, 12.5e9)
LINKS = {"fast": Cluster.flat(8, FAST), "slow": Cluster.flat(8, SLOW)}


def forward_seconds(sequences: float, width: int = WIDTH) -> float:
    """One layer, forward, on one device."""
    operations = 24 * width**2 + 4 * TOKENS * width
    return sequences * TOKENS * operations / SPEED


def layer_on(cluster: Cluster, sequences: int, width: int = WIDTH) -> StepTimes:
    shape, alone = (sequences, TOKENS, width), forward_seconds(sequences, width)
    stretches = tp.layer_stretches(cluster, shape, alone)
    spans = [Span(kind, "", start, end) for kind, start, end in stretches]
    return StepTimes(0, spans[-1].end, spans)


def seconds_of(cluster: Cluster, sequences: int, width: int = WIDTH) -> float:
    return LAYERS * layer_on(cluster, sequences, width).seconds


# %%
guess_5 = predict(
    "8 sequences on the slow links. Compared with one rank that has the whole model, "
    "eight are …",
    choices=["slower", "1 to 4 times as fast", "4 to 8 times as fast"],
)

# %%
one_device = 3 * LAYERS * forward_seconds(8)
tensor_seconds = {name: seconds_of(cluster, 8) for name, cluster in LINKS.items()}
print(f"one rank    {one_device * 1e3:5.0f} ms")
for name, seconds in tensor_seconds.items():
    messages = 1 - one_device / 8 / seconds
    print(
        f"eight, {name} {seconds * 1e3:5.0f} ms: {one_device / seconds:.1f} times as fast,"
        f" {messages:.0%} of the time messages"
    )
print(guess_5.compare("slower"))
step_timeline(
    {f"{name} links": layer_on(cluster, 8) for name, cluster in LINKS.items()},
    title="One layer, forward and backward, on one of eight ranks",
)

# %% tags=["folded"]
# Checks of the numbers above and below
# The time is computing, and 4 ring all-reduces per layer
for name, cluster in LINKS.items():
    each = duration.ring_all_reduce(cluster, 8 * TOKENS * WIDTH, 2)
    assert abs(tensor_seconds[name] - one_device / 8 - 4 * LAYERS * each) < 1e-9
assert f"{one_device / tensor_seconds['slow']:.1f}" == "0.7"
assert f"{one_device / tensor_seconds['fast']:.1f}" == "5.3"
# Data parallelism sends 12f² gradients per layer, and this way 4f numbers per token
gradients, token = (
    traffic.ring_all_reduce(8, size, 2).nbytes[0] for size in (12 * WIDTH**2, 4 * WIDTH)
)
assert gradients == 3 * WIDTH * token

# %% [markdown]
# On the slow links eight devices are *slower* than one, because they spend most of the time on messages. On the fast
# links they are 5.3 times as fast.
#
# Would a larger batch help? Per token and layer, a rank computes $\frac{3}{N}(24f^2 + 4sf)$ operations and sends
# $8\frac{N-1}{N} \cdot 2f$ bytes. So where latency does not matter, the size of the batch cancels out:
#
# $$\frac{\text{messages}}{\text{computing}} = \frac{16\,(N-1)}{72f + 12s} \cdot
# \frac{\text{operations per second}}{\text{bytes per second}}$$
#
# **A larger batch computes more and sends more. A wider layer computes more for each byte.**
#
# Longer sequences and fewer ranks help, too.

# %% tags=["folded"]
# A table for other sizes
print("ranks  features  sequences   fast   slow   part of the time for messages")
shares = {}
for case in ((8, 2048, 1), (8, 2048, 8), (8, 2048, 64), (8, 8192, 8), (2, 2048, 8)):
    ranks, width, sequences = case
    computing = 3 * LAYERS * forward_seconds(sequences, width) / ranks
    shares[case] = [
        1 - computing / seconds_of(Cluster.flat(ranks, link), sequences, width)
        for link in (FAST, SLOW)
    ]
    fast, slow = shares[case]
    print(f"{ranks:5}  {width:8}  {sequences:9}  {fast:5.0%}  {slow:5.0%}")
    ratio = 16 * (ranks - 1) / (72 * width + 12 * TOKENS)
    ratio *= SPEED / SLOW.bandwidth
    assert sequences == 1 or abs(slow / (1 - slow) / ratio - 1) < 0.01
assert [f"{shares[8, width, 8][0]:.0%}" for width in (2048, 8192)] == ["34%", "11%"]
assert f"{shares[2, 2048, 8][0]:.0%}" == "6%"

# %% [markdown]
# From 8 sequences to 64 the parts hardly change. On the fast links, four times as many features reduce the messages'
# part from 34 % to 11 %, and two ranks instead of eight reduce it to 6 %.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | there is one sequence, and fast links | latency matters, so a larger batch does help |
# | messages hide behind computing | they cost less: [lesson 10c](10c_cuts_closer.ipynb) |
# | the device is slower with thin matrices, as real GPUs are | eight ranks gain less than the formula says |
#
# </details>
#
# ### When not to
#
# - **When the model fits on one rank**, and the batch divides evenly among the ranks. A layer has $12f^2$ gradients,
#   and TP adds up $4f$ numbers per token. So with more than $3f$ tokens data parallelism sends fewer numbers.
# - **Across slow links.** Use a pipeline or data parallelism there: [lesson 10b](10b_whole_transformer.ipynb) runs all
#   three on the same links.
# - **When layers are narrow**, because messages take a large part of the time.
# - **With more ranks than the memory demands**, unless one sequence must get through fast. Cut by heads, attention
#   cannot use more ranks than it has heads.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the model fits, but the batch has few tokens | data parallelism can be the slower choice |
# | links are slow, but there are very few sequences and wide layers | tensor parallelism can be the faster choice |
#
# </details>
#
# ## In real frameworks
#
# In torch, `parallelize_module` cuts a model that you have written for one process. It replaces parameters by
# **DTensors**, which know how they are cut: `Shard(dim)`, `Replicate()`, or `Partial()`, a term of a sum. From this
# DTensor finds the messages by itself. A plan says which layer is `ColwiseParallel()` and which is `RowwiseParallel()`.
#
# Here is a transformer layer in plain torch, on two real ranks, with the weights of torch's own layer. By default the
# model sees only this rank's heads, so it must not say how many there are: it writes `unflatten(-1, (-1, size))`.

# %% tags=["folded"]
# A transformer layer in plain torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)


class Attention(nn.Module):
    def __init__(self, whole: nn.MultiheadAttention) -> None:
        super().__init__()
        weights, biases = whole.in_proj_weight.chunk(3), whole.in_proj_bias.chunk(3)
        self.q, self.k, self.v = map(linear_of, weights, biases)
        self.out = linear_of(whole.out_proj.weight, whole.out_proj.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = -1, FEATURES // HEADS  # as many heads as there are
        heads = (p(x).unflatten(-1, split) for p in (self.q, self.k, self.v))
        q, k, v = (each.transpose(1, 2) for each in heads)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))


def linear_of(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(*reversed(weight.shape), dtype=DOUBLE)
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


class Block(nn.Module):
    """A transformer layer in plain torch."""

    def __init__(self, whole: nn.TransformerEncoderLayer) -> None:
        super().__init__()
        self.attention, self.norm1 = Attention(whole.self_attn), whole.norm1
        self.mlp = nn.Sequential(whole.linear1, nn.GELU(), whole.linear2)
        self.norm2 = whole.norm2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# %% [markdown]
# We try two plans: one cuts the layers, and one also puts an operator before the attention.

# %%
column, row = ColwiseParallel, RowwiseParallel
LAYERS_ALONE = {f"attention.{name}": column() for name in "qkv"} | {
    "attention.out": row(),
    "mlp.0": column(),
    "mlp.2": row(),
}
same = dict(input_layouts=Replicate(), desired_input_layouts=Replicate())
ONE_INPUT = {"attention": PrepareModuleInput(**same), **LAYERS_ALONE}
PLANS = {"layers": LAYERS_ALONE, "one input": ONE_INPUT}

# %% tags=["folded"]
# What one process computes, and a count of the collectives
Counted = dict[str, int]


def counts(mode: CommDebugMode) -> Counted:
    """Collectives that were called, by name."""
    found = mode.get_comm_counts().items()
    return {str(name).split(".")[-1]: number for name, number in found if number}


torch.manual_seed(4)
options = dict(activation=gelu, batch_first=True, norm_first=True, dropout=0.0)
torch_layer = nn.TransformerEncoderLayer(
    FEATURES, HEADS, HIDDEN, **options, dtype=DOUBLE
)
lone = Block(torch_layer)
wanted = {"output": lone(activations())}
wanted["output"].square().sum().backward()
wanted |= {name: weight.grad for name, weight in lone.named_parameters()}


# %%
def with_torch(
    comm: Communicator, whole: nn.TransformerEncoderLayer, plan: str
) -> tuple[Tensors, Counted, Counted]:
    """Output and gradients, whole; what was called forward, and what backward."""
    block, x = Block(whole), activations().requires_grad_()
    block.zero_grad()  # the weights come with the gradients that they have in the notebook
    with torch_distributed(comm, "gloo"):
        mesh = init_device_mesh("cpu", (comm.world_size,))
        parallelize_module(block, mesh, PLANS[plan])
        with CommDebugMode() as forward:
            found = {"output": (y := block(x)).detach().clone()}  # waits for it
        with CommDebugMode() as backward:
            y.square().sum().backward()
        for name, weight in block.named_parameters():
            cut = hasattr(weight.grad, "full_tensor")
            found[name] = weight.grad.full_tensor() if cut else weight.grad
    return found, counts(forward), counts(backward)


# %%
theirs = {}
with World(2) as real:
    for plan in PLANS:
        by_rank = real.run(with_torch, torch_layer, plan)
        gaps = [
            off(found[name], wanted[name]) for found, *_ in by_rank for name in wanted
        ]
        theirs[plan] = by_rank[0][1:]
        print(f"{plan}: largest difference {max(gaps):.0e}")
        print("    forward {}, backward {}".format(*theirs[plan]))

# %% tags=["folded"]
# Checks of what is said below
assert max(gaps) < 1e-10
assert theirs["layers"] == ({"all_reduce": 2}, {"all_reduce": 3 + 1})
assert theirs["one input"] == ({"all_reduce": 2}, {"all_reduce": 2})
assert counted["whole layer"] == (2, 2)

# %% [markdown]
# torch computes the same numbers as one process, to rounding. But with the plan of the layers alone it calls *four*
# all-reduces backward, because each of the three projections adds up its own gradient of $x$. Nothing warns you.
# `PrepareModuleInput` puts one operator before all three, and the backward pass calls two all-reduces, as ours does.
#
# You will also meet **Megatron-LM**, which made TP popular, servers such as vLLM, which use TP to get one sequence
# through fast, and [JAX](14_jax.ipynb), whose compiler finds the messages.
#
# ## In short
#
# - Columns first, then rows: an MLP is the sum of thin MLPs.
# - A copy forward is an all-reduce backward, and an all-reduce forward is a copy backward.
# - The loss need not show a missing gradient. Compare gradients with one process.
# - A layer of attention and then an MLP needs four all-reduces: two forward and two backward.
# - A larger batch computes more and sends more. A wider layer computes more for each byte.
#
# ## Now you
#
# In [the exercise](../exercises/10_tensor_parallel/10_tensor_parallel.ipynb) you write the column-parallel and the
# row-parallel layer, and cut a transformer with PyTorch's own.
#
# Two side roads go on from here: [lesson 10c](10c_cuts_closer.ipynb), with the forgotten all-reduce in training and the
# loss over a cut vocabulary, and [lesson 10b](10b_whole_transformer.ipynb), with a whole language model.
#
# ## Further reading
#
# - M. Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019. Section 3: the two cuts, the operators
#   *f* and *g*, four all-reduces.
# - T. Brown et al., [Language Models are Few-Shot Learners](https://arxiv.org/abs/2005.14165), 2020. Table 2.1: the
#   sizes of GPT-3.
# - [torch.distributed.tensor.parallel](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html),
#   torch's manual.
