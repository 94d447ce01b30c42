# %% [markdown]
# # Tensor parallelism
#
# To train a single layer of GPT-3 takes 29 GB, so that only two layers fit into a GPU of 80 GB. A pipeline of 48 GPUs
# could hold all 96 layers, but it needs 423 microbatches to keep these GPUs busy, and no microbatch gets through it
# faster than through one GPU. In this lesson you cut the layer itself.
#
# > After this lesson you will be able to
# >
# > - cut a linear layer over several ranks in two ways, and say what each way needs and what it gives,
# > - derive what ranks must send backward from what they send forward, and find a forgotten all-reduce,
# > - put layers together so that an MLP, or attention, needs one all-reduce forward and one backward,
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
    World,
    all_gather,
    all_reduce,
    torch_distributed,
)
from distlib.draw import HeldPieces, placements, predict, step_timeline
from distlib.network import duration, traffic
from distlib.trace import Trace
from distlib.training import tensor_parallel as tp
from distlib.training.datasets import digits
from distlib.training.ddp import Span, StepTimes

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
# A pipeline gives whole layers to each rank. So it cannot cut a layer that is too large, and it cannot speed up one
# microbatch, because only one rank at a time works on it.
#
# How large is a layer? A transformer layer with $f$ features has about $12f^2$ weights: $4f^2$ in the attention, and
# $8f^2$ in its MLP. A layer of GPT-3 has 12,288 features, and Adam in mixed precision keeps 16 bytes for each weight.

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
# Two layers fit on a device, without their activations. A pipeline therefore needs 48 ranks, and with 1F1B it needs 423
# microbatches for a bubble of 10 %.
#
# **Tensor parallelism** cuts each layer. All ranks work on the same samples at the same moment, each with its part of
# every weight matrix. The ranks must therefore talk within each layer, and the art is to talk as little as possible.
#
# A linear layer computes $y = xW^T + b$. There are two ways to cut it. We begin without ranks, in one process, to see
# the numbers. The input has 6 rows of 8 features, and the output has 12 features.

# %%
torch.manual_seed(0)
layer = nn.Linear(8, 12, dtype=DOUBLE)
x = torch.randn(6, 8, dtype=DOUBLE)
y = layer(x)

# Each of 4 ranks has 3 of the 12 output features, and needs all of x.
columns = [
    linear(x, weight, bias)
    for weight, bias in zip(layer.weight.chunk(4), layer.bias.chunk(4), strict=True)
]
# Each of 4 ranks has 2 of the 8 input features, and the weights that belong to them.
rows = [
    linear(part, weight)
    for part, weight in zip(
        x.chunk(4, dim=1), layer.weight.chunk(4, dim=1), strict=True
    )
]
print("by columns, a part of y:", tuple(columns[0].shape))
print("by rows, a part of y:   ", tuple(rows[0].shape))

# %% tags=["folded"]
# Check of what is said below
assert off(torch.cat(columns, dim=1), y) < 1e-12
assert off(torch.stack(rows).sum(0) + layer.bias, y) < 1e-12

# %% [markdown]
# Side by side, the four parts by columns are $y$. The four parts by rows have to be summed. The Megatron-LM paper gave
# the two ways their names:
#
# | | a rank has | it needs | it gives |
# |---|---|---|---|
# | **column parallel** | some of the outputs | all of $x$ | its features of $y$, complete |
# | **row parallel** | some of the inputs | its features of $x$ | all of $y$, but only its term of a sum |
#
# The names speak of $W^T$, but torch keeps $W$ as [outputs, inputs], so the columns of $W^T$ are the *rows* of
# `weight`. Column parallel cuts `weight` along dimension 0, and row parallel cuts it along dimension 1.
#
# What becomes of the bias? By columns it is cut like the outputs. By rows the outputs are not cut. Say that each of the
# four ranks adds the bias to its part, as `linear(part, weight, layer.bias)` would, before the parts are summed.

# %%
guess_1 = predict(
    "The first bias is 1.0, and each of 4 ranks adds it before the sum. "
    "By how much is the first output off?"
)

# %%
with torch.no_grad():
    layer.bias[0] = 1.0
y = layer(x)
mistaken = [part + layer.bias for part in rows]
found = off(torch.stack(mistaken).sum(0)[:, 0], y[:, 0])
print(guess_1.compare(round(found, 9)))

# %% tags=["folded"]
# Checks of what is said below, for other numbers of ranks too
assert abs(found - 3.0) < 1e-12
for ranks in (2, 8):
    parts = zip(x.chunk(ranks, 1), layer.weight.chunk(ranks, 1), strict=True)
    terms = [linear(part, weight, layer.bias) for part, weight in parts]
    assert abs(off(torch.stack(terms).sum(0)[:, 0], y[:, 0]) - (ranks - 1)) < 1e-9

# %% [markdown]
# The output is off by 3, because the bias should be added once and is added four times. **A row-parallel layer adds its
# bias after the sum.** By columns there is no such trap.
#
# **Try it.** One could repair it differently: every rank adds a quarter of the bias before the sum. Is the output
# right? Then think of training. Each rank has its own quarter as a parameter, and takes an SGD step with its
# gradient. By how much does the sum of the four quarters move, compared with the bias of one process?

# %%
quarters = [layer.bias / 4 for _ in range(4)]  # write the sum, compare it with y

# %% tags=["folded"]
# One way to do it
# The output is right, and the bias learns four times as fast
quarters = [(layer.bias / 4).detach().requires_grad_() for _ in range(4)]
total = torch.stack(rows).detach().sum(0) + torch.stack(quarters).sum(0)
assert off(total, y) < 1e-12
total.square().sum().backward()
layer.zero_grad()
layer(x).square().sum().backward()
moved = sum(quarter.grad for quarter in quarters)
print("moves", float((moved / layer.bias.grad).mean()), "times as far")
assert off(moved, 4 * layer.bias.grad) < 1e-9

# %% [markdown]
# ## Two layers, one all-reduce
#
# An MLP is two linear layers with a function between them: up from $f$ to $h$ hidden features, GELU, down again. Cut
# the first layer by columns, and each rank has some of the hidden features, complete. GELU works on each number by
# itself. And these features are just what a row-parallel layer *needs*. So between the two layers nothing is sent.
#
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 0 ─┐
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 1 ─┤  sum, + bias ──► y
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 2 ─┤
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 3 ─┘
#
# **An MLP is the sum of thin MLPs**, each with some of the hidden features.

# %%
up, down = nn.Linear(8, 32, dtype=DOUBLE), nn.Linear(32, 8, dtype=DOUBLE)
y = down(gelu(up(x)))


def thin_mlp(
    x: torch.Tensor, up: nn.Linear, down: nn.Linear, rank: int, ranks: int
) -> torch.Tensor:
    """The MLP with only the hidden features of one rank, without the last bias."""
    weight, bias = up.weight.chunk(ranks)[rank], up.bias.chunk(ranks)[rank]
    return linear(gelu(linear(x, weight, bias)), down.weight.chunk(ranks, dim=1)[rank])


# %% tags=["folded"]
# Checks of what is said above and below
for ranks in (1, 2, 4, 8, 32):
    terms = [thin_mlp(x, up, down, rank, ranks) for rank in range(ranks)]
    assert off(torch.stack(terms).sum(0) + down.bias, y) < 1e-12
first, second = (
    linear(part, weight)
    for part, weight in zip(x.chunk(2, dim=1), up.weight.chunk(2, dim=1), strict=True)
)
wrong = off(gelu(first) + gelu(second), gelu(first + second))
print(f"gelu of each term of the sum: off by {wrong:.2f}")
assert wrong > 0.1

# %% [markdown]
# The sum of the thin MLPs is the MLP, for 1 to 32 ranks. GELU must come after *complete* features: applied to a term of
# a sum it is wrong, because gelu(a + b) is not gelu(a) + gelu(b).
#
# Which numbers does each rank hold? `ColumnParallelLinear` and `RowParallelLinear` of the library hold their part of
# the weights and nothing else. We take what four ranks have, and look up where these numbers are in the arrays of one
# process.

# %% tags=["folded"]
# What each rank has, and where in the whole array it belongs
Tensors = dict[str, torch.Tensor]


def held(comm: Communicator) -> Tensors:
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


# %%
(whole_arrays,), by_rank = alone.run(held), world.run(held)
pieces = {
    name: HeldPieces(whole.shape, [place(found[name], whole) for found in by_rank])
    for name, whole in whole_arrays.items()
}
placements({"column, then row": pieces}, title="An MLP on four ranks", holder="rank")

# %% [markdown]
# Look at `up`, a weight. It is cut into bands, one below the other, although the cut is called "column", because torch
# keeps the matrix transposed.
#
# ## What goes back
#
# Forward there is one all-reduce, which adds up the terms. What must be sent backward? Follow the gradient through the
# picture of the MLP, from right to left.
#
# - **The sum.** $y = y_0 + y_1 + y_2 + y_3$, so the gradient of each term is the gradient of $y$. Every rank has the
#   same $y$ and computes the same loss, so it has this gradient already. *Nothing is sent.*
# - **The beginning.** All ranks use the same $x$. It has an effect on the loss through each of the thin MLPs, so its
#   gradient is the sum of four: $\frac{\partial L}{\partial x} = \sum_r g_r$. Rank $r$ knows only its own $g_r$. *This
#   takes an all-reduce.*
#
# Backward it is just the other way round than forward:
#
#     place       forward        backward
#     beginning   nothing        all-reduce
#     end         all-reduce     nothing
#
# **A copy forward is an all-reduce backward, and an all-reduce forward is a copy backward.** Such a pair of operators
# is called *conjugate*. Autograd knows nothing about other ranks, so we must tell it what to do backward. Here is an
# operator that takes both directions as functions.

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
# Now we break the operators, to see what each is for. The model reads images of digits. A layer `below` comes before
# the MLP and a layer `above` comes after it. These two layers are not cut: every rank has them whole, and computes the
# same. As in a transformer, the output of the MLP is added to its input.


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
# All gradients are right. Now somebody forgets the all-reduce in the backward pass of the first operator. This happens
# when you write a plain `x`, without any operator: the forward pass needs none there.

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
# The output is right. The gradients of the MLP's own weights are right, too, so a test of them passes. Only the
# gradients of the layer *below* are wrong, and each rank is wrong in its own way, because its gradient has come back
# through only one of the four thin MLPs.
#
# The opposite mistake is an all-reduce in *both* directions at the end. Then the loss counts once for each rank, and
# the gradients of the thin MLPs are four times as large. torch's own differentiable all-reduce does this, because it
# takes the losses of the ranks as separate losses.
#
# Would you notice the forgotten all-reduce in training? We train 20 steps, and then compare the layer below of all
# ranks.


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
# **The loss falls although a gradient is missing, and the copies of a layer drift apart.** No error appears. To find
# this mistake, compare the gradients with one process, and compare replicated weights between ranks from time to time.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | you look at the loss on new images | it can be better or worse: [lesson 10c](10c_cuts_closer.ipynb) |
# | all-reduces are in both directions, with SGD | the loss falls too, but it looks bad in our run of lesson 10c |
#
# </details>
#
# ## Which matrix which way?
#
# We cut the first matrix by columns and the second by rows. What if we do it the other way round? Then each rank takes
# its own part of $x$ and computes its term of the hidden features, and the terms must be summed *before* GELU. After
# GELU each rank has all hidden features, computes its part of the output, and the parts are gathered. In both pairs the
# ranks also send something backward.


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
# "row, column" sends 4.5 times as many bytes for the same result. Count in units of $\frac{N-1}{N}$ times the bytes of
# one feature in all rows. An all-gather of $n$ features costs $n$, and an all-reduce costs $2n$.
#
# - "column, row" takes an all-reduce of $f$ features, forward and backward: $4f$.
# - "row, column" takes an all-reduce of $h$ and an all-gather of $f$, both times: $4h + 2f$, or $18f$ with $h = 4f$.
#
# **The right pair sends nothing of the hidden features**, and in a transformer these are four times as many as the
# others. In "row, column" every rank also applies GELU to *all* hidden features, and keeps them all.
#
# **Try it.** Is there an MLP for which rows first is cheaper? Look at the formulas, and try its sizes.

# %%
for pair in PAIRS:
    world.run(mlp_in_pieces, pair, features=16, hidden=64)  # change the sizes
    print(f"{pair:12} {world.trace.bytes_sent[0]:,} bytes")

# %% tags=["folded"]
# One way to do it
# 4h + 2f < 4f where h < f/2, a bottleneck as in adapters
for pair in PAIRS:
    world.run(mlp_in_pieces, pair, features=64, hidden=16)
    print(f"{pair:12} {world.trace.bytes_sent[0]:,} bytes")
    sent[pair] = world.trace.bytes_sent[0]
assert sent["row, column"] / sent["column, row"] == 0.75

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# The rule is not "columns first". The rule is to send where the layer is narrow. In a transformer the hidden features
# are four times as many, so the two all-reduces come before and after them.
#
# </details>
#
# ## Attention
#
# A transformer reads *tokens*: words, or pieces of words, each with a number. A text is a *sequence* of tokens, and
# each token has a *position*. A batch is some sequences of the same length.
#
# Attention is made of heads. Each head has its own queries, keys and values, looks at all positions of the sequence,
# and needs nothing from another head. So each rank takes some of the heads. Queries, keys and values are column
# parallel. The heads of a rank give some of the features, complete, so the output layer is row parallel. **Attention is
# cut like an MLP**, with softmax in the role of GELU:
#
#     x ──► q, k, v of heads 0, 1, by columns ──► softmax(q·kᵀ)·v ──► output, by rows ──► term of rank 0 ─┐
#     x ──► q, k, v of heads 2, 3, by columns ──► softmax(q·kᵀ)·v ──► output, by rows ──► term of rank 1 ─┴─ sum ──► y
#
# Many models keep the three matrices as one, of $3f$ outputs: first all queries, then all keys, then all values. If you
# cut this matrix into two equal pieces, rank 0 gets all queries and half of the keys. Each of the three sections must
# be cut by itself:


# %%
def own_rows(comm: Communicator, sections: int) -> list[int]:
    return tp.ColumnParallelLinear(comm, 4, 12, sections=sections).rows


for sections in (1, 3):
    print(f"4 features, {sections} section(s):", two.run(own_rows, sections))

# %% tags=["folded"]
# Check of the output above
assert two.run(own_rows, 3)[0] == [0, 1, 4, 5, 8, 9]

# %% [markdown]
# A transformer layer is attention and an MLP. Each of the two comes after a LayerNorm, and its result is added to its
# input: $x + \text{attention}(\text{norm}(x))$, then $x + \text{mlp}(\text{norm}(x))$. The norms and the additions are
# not cut, so every rank computes all of them.

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
# **A transformer layer takes four all-reduces: two forward and two backward.** No softmax, no GELU, and no hidden
# feature is ever sent. With recomputation, as in lesson 09, there are more: [lesson 10c](10c_cuts_closer.ipynb) counts
# them.
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
# Three layers send three gradients of $x$, one after the other, and add them up only then. So put the operator before
# all three, or make them one.
#
# </details>
#
# ### The bytes
#
# Each all-reduce has the size of $x$: batch · sequence · features numbers. On a ring each rank sends
# $2\frac{N-1}{N}$ times this size. So a layer costs each rank
#
# $$4 \cdot 2\,\frac{N-1}{N} \cdot S, \qquad S = \text{bytes of } x .$$
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
# With more ranks each rank computes less and sends *more*: from 4 ranks to 8 a sixth more. Data parallelism sends more,
# too, but it sends once per step, and its messages hide behind the backward pass. **Tensor parallelism sends in the
# middle of the computation**: forward, the next matmul needs the sum of the same samples. Backward only a part can
# hide, because a rank can compute the gradient of its weights while the gradient of $x$ is added up.
#
# The same two cuts serve the ends of a language model. The embedding and the last layer have a row for each token of
# the vocabulary, so each rank takes some of the tokens. The loss then needs a few numbers per position from each rank,
# and never all scores. [Lesson 10c](10c_cuts_closer.ipynb) computes it.
#
# ## What it costs
#
# Are four all-reduces per layer many? It depends on the links. We take a model of 24 layers with 2,048 features, and
# sequences of 2,048 tokens. A device does 200 · 10¹² operations a second. A layer takes $24f^2 + 4sf$ operations
# per token forward, for sequences of $s$ tokens, and twice as many backward. Numbers have 16 bits.
#
# There are eight ranks and two kinds of links: 300 GB/s, as between GPUs of one machine, and 12.5 GB/s, a network of
# 100 Gbit/s. Both have a latency of 5 µs. The run is in virtual time: a rank sleeps for as long as it would compute,
# and sends real all-reduces of tensors that have a shape but no numbers. All layers cost the same, so we run one and
# count it 24 times. Nothing overlaps here.

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
    "8 sequences on the slow links: how many times as fast are eight ranks as one that "
    "has the whole model?",
    unit="times",
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
print(guess_5.compare(one_device / tensor_seconds["slow"]))
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
# On the slow links eight devices are *slower* than one. On the fast links they are 5.3 times as fast.
#
# Would a larger batch help? There is twice as much to compute, and twice as much to send. Where latency does not
# matter, the ratio stays:
#
# $$\frac{\text{messages}}{\text{computing}} = \frac{16\,(N-1)}{72f + 12s} \cdot
# \frac{\text{operations per second}}{\text{bytes per second}}$$
#
# **Where latency does not matter, no batch size is in this ratio.** A *wider* model helps, because computing grows as
# $f^2$ and messages grow as $f$. Longer sequences help too, and fewer ranks.

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
# From 8 sequences to 64 the parts hardly change. On the fast links a model with four times as many features pays 11 %
# of the time instead of 34 %, and two ranks instead of eight pay 6 %.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | there is one sequence, and fast links | latency matters, and the messages take a larger part |
# | messages hide behind computing | they cost less: [lesson 10c](10c_cuts_closer.ipynb) |
# | the device is slower with thin matrices, as real GPUs are | eight ranks gain less than the formula says |
#
# </details>
#
# ### When not to
#
# - **When the model fits**, with its activations, and the batch has equally many sequences for each rank. Use data
#   parallelism: it sends fewer bytes if the batch has more than $3f$ tokens.
# - **Across slow links.** Use a pipeline or data parallelism there. [Lesson 10b](10b_whole_transformer.ipynb) runs all
#   three on the same links, and on two machines.
# - **When layers are narrow.** The narrower the layer, the larger the part of the time for messages.
# - **With more ranks than the memory demands**, unless one sequence must get through fast. And attention cannot
#   be cut over more ranks than it has heads.
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
# torch has tensor parallelism in `torch.distributed.tensor.parallel`. You write a model, and `parallelize_module`
# replaces its parameters by **DTensors**: tensors that know how they are cut over the ranks of a `DeviceMesh`. A plan
# names the layers: `ColwiseParallel()`, `RowwiseParallel()`. DTensor finds the messages by itself, because each tensor
# is `Shard(dim)`, `Replicate()` or `Partial()`, a term of a sum.
#
# Here is a transformer layer in plain torch, on two real ranks, with the weights of torch's own layer. Queries, keys
# and values are three matrices, so that the plan can name them. The model must not say how many heads there are,
# because a rank has only some of them: it writes `unflatten(-1, (-1, size))`.

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
# Two plans: the layers alone; and the layers with one operator before the attention.

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
# torch computes the same numbers as one process, to rounding. The plan of the layers alone calls *four* all-reduces
# backward, because each of the three projections adds up its own gradient of $x$, and nothing warns you.
# `PrepareModuleInput` puts one operator before all three projections. Then the backward pass calls two all-reduces, as
# ours does.
#
# In real training you would also meet:
#
# - **Megatron-LM**, where tensor parallelism comes from. Servers of language models such as vLLM use it too, because
#   there one sequence must get through fast, and a model must fit.
# - **[JAX](14_jax.ipynb)**: you say how each matrix is cut, and a compiler finds the messages.
#
# ## In short
#
# - Cut the first matrix by columns and the second by rows: one all-reduce forward, one backward.
# - A transformer layer takes four all-reduces in a step: two forward and two backward.
# - A copy forward is an all-reduce backward. An all-reduce forward is a copy backward.
# - The loss need not show a forgotten backward all-reduce. Compare gradients with one process.
# - The messages grow with the tokens, and the next layer waits for most of them.
#
# For $N$ ranks, a layer of $f$ features, and $S$ bytes of activations $x$:
#
# | | forward | backward | bytes per rank |
# |---|---|---|---|
# | column parallel | nothing | all-reduce of its input's gradient | $2\frac{N-1}{N}S$ |
# | row parallel | all-reduce of its output | nothing | $2\frac{N-1}{N}S$ |
# | transformer layer | 2 all-reduces | 2 all-reduces | $8\frac{N-1}{N}S$ |
#
# The bytes are those of a ring, without recomputation.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - What one operator does forward, its partner does backward. Forget what goes back, and in the first step only the
#   gradients below are wrong; then all copies drift apart.
# - Send where it is narrow. With hidden features that are more than half of $f$ this means columns first, then rows: an
#   MLP is the sum of thin MLPs, and attention a sum over the heads.
# - Where nothing hides the messages and latency does not matter, their part of the time does not depend on the batch.
#   Wider layers, longer sequences, faster links and fewer ranks make it smaller.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/10_tensor_parallel/10_tensor_parallel.ipynb) you write the column-parallel and the
# row-parallel layer, and cut a transformer with PyTorch's own.
#
# Two side roads go on from here. [Lesson 10c](10c_cuts_closer.ipynb) computes the loss over a cut vocabulary, and finds
# a training in which the model with the forgotten all-reduce is the better one. In its exercise you write this loss,
# and attention over several ranks. [Lesson 10b](10b_whole_transformer.ipynb) puts a whole language model on the ranks,
# and compares its memory and the other strategies.
#
# ## Further reading
#
# - M. Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019. Section 3: the two cuts, the operators
#   *f* and *g*, four all-reduces.
# - T. Brown et al., [Language Models are Few-Shot Learners](https://arxiv.org/abs/2005.14165), 2020. Table 2.1: the
#   sizes of GPT-3.
# - [torch.distributed.tensor.parallel](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html),
#   torch's manual.
