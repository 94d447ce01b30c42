# %% [markdown]
# # Tensor parallelism
#
# After this lesson you will be able to
#
# - cut a linear layer over several ranks in two ways, and say what each way needs and what it gives,
# - derive what ranks must send backward from what they send forward, and know the mistakes that nobody notices,
# - put layers together so that an MLP, or attention, needs one all-reduce forward and one backward,
# - count the bytes of a transformer layer before it runs, and say which part of the memory is cut and which is not,
# - keep less with sequence parallelism, and never gather the scores of a large vocabulary,
# - say when tensor parallelism is the wrong choice.
#
# **Time:** about 110 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [Pipeline](09_pipeline.ipynb). No
# GPU.

# %%
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, linear

from distlib import (
    Cluster,
    Communicator,
    Link,
    RankError,
    SimulatedWorld,
    World,
    all_gather,
    all_reduce,
)
from distlib.draw import (
    HeldPieces,
    bytes_per_rank,
    curves,
    memory_parts,
    placements,
    predict,
)
from distlib.network import duration, traffic
from distlib.trace import Trace
from distlib.training.datasets import digits
from distlib.training.pipeline.activations import ActivationMeter
from distlib.training.schedules import Costs, one_forward_one_backward, time_schedule
from distlib.training.tensor_parallel import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelMLP,
    ParallelTransformerLayer,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    copy_to_ranks,
    split_sequence,
    sum_over_ranks,
    sum_sequence_gradients,
    vocabulary_parallel_cross_entropy,
)
from distlib.worlds.real.process_group import torch_distributed

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64

# %% [markdown]
# ## Cut the layer itself
#
# A pipeline gives each rank whole layers. That has two limits. It can't cut a layer that is too large. And one
# microbatch never gets through faster: while one rank works on it, the others can't.
#
# How large is a layer? A transformer layer with $f$ features has about $12f^2$ weights: $4f^2$ in the attention, and
# $8f^2$ in its MLP. GPT-3 has 96 of them with 12,288 features. Adam in mixed precision keeps 16 bytes for each
# weight.

# %%
features = 12_288
layer_bytes = 12 * features**2 * 16
print(
    f"one layer: {12 * features**2 / 1e9:.2f} billion weights, {layer_bytes / 1e9:.0f} GB"
)
print(f"layers that fit into 80 GB: {80e9 // layer_bytes:.0f}, without activations")
assert f"{layer_bytes / 1e9:.0f}" == "29" and 80e9 // layer_bytes == 2

# %% [markdown]
# Two layers fit on a device of 80 GB, and even these without their activations. A pipeline would need at least 48
# stages, and hundreds of microbatches to fill them.
#
# **Tensor parallelism** cuts each layer. All ranks work on the same samples at the same moment, each with its part of
# every weight matrix. So they must talk within each layer. The art is to talk as little as possible.
#
# A linear layer computes $y = xW^T + b$. There are two ways to cut it. We begin without ranks, in one process, to see
# the numbers. The input has 6 rows of 8 features, and the output 12 features.

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


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference."""
    return float((found - wanted).detach().abs().max())


assert off(torch.cat(columns, dim=1), y) < 1e-12
assert off(torch.stack(rows).sum(0) + layer.bias, y) < 1e-12

# %% [markdown]
# The two ways have the names that the Megatron-LM paper gave them:
#
# | | a rank has | it needs | it gives |
# |---|---|---|---|
# | **column parallel** | some of the outputs | all of $x$ | its features of $y$, complete |
# | **row parallel** | some of the inputs | its features of $x$ | all of $y$, but only its term of a sum |
#
# The names trap many. They speak of $W^T$. torch keeps $W$, as [outputs, inputs], so the columns of $W^T$ are the
# *rows* of `weight`. Column parallel: `weight` is cut along dimension 0. Row parallel: along dimension 1.
#
# And the bias? By columns it is cut like the outputs. By rows the outputs are not cut. Say that every one of the four
# ranks adds the bias to its part, as `linear(part, weight, layer.bias)` would, and then the parts are summed.

# %%
guess = predict(
    "The first bias is 1.0, and each of 4 ranks adds it before the sum. By how much is the first output off?"
)

# %%
with torch.no_grad():
    layer.bias[0] = 1.0
y = layer(x)
mistaken = [part + layer.bias for part in rows]
found = off(torch.stack(mistaken).sum(0)[:, 0], y[:, 0])
print(guess.compare(round(found, 9)))
assert abs(found - 3.0) < 1e-12

# %% [markdown]
# By 3: it should be there once, and is there four times. So the bias is added *after* the sum. By columns there is no
# such trap.
#
# **Try it.** One could mend it differently: every rank adds a quarter of the bias before the sum. Is the output
# right? Then think of training. Each rank has its own quarter as a parameter, and takes an SGD step with its
# gradient. By how much does the sum of the four quarters move, compared with the bias of one process?

# %%
quarters = [layer.bias / 4 for _ in range(4)]  # write the sum, compare it with y

# %% tags=["folded"]
# One way to do it: the output is right, and the bias learns four times as fast
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
# An MLP is two linear layers with a function between them: up from $f$ to $h$ hidden features, GELU, down again.
# Column parallel gives each rank some of the hidden features, complete. GELU works on each number by itself. And row
# parallel *needs* just these features. So between the two layers nothing is sent.
#
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 0 ─┐
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 1 ─┤  sum, + bias ──► y
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 2 ─┤
#     x ──► up, by columns ──► gelu ──► down, by rows ──► term of rank 3 ─┘
#
# In other words: *an MLP is the sum of thin MLPs*, each with some of the hidden features. The function between must
# sit behind complete features. Behind a term of a sum it is wrong, since gelu(a + b) is not gelu(a) + gelu(b).

# %%
up, down = nn.Linear(8, 32, dtype=DOUBLE), nn.Linear(32, 8, dtype=DOUBLE)
y = down(gelu(up(x)))


def thin_mlp(
    x: torch.Tensor, up: nn.Linear, down: nn.Linear, rank: int, ranks: int
) -> torch.Tensor:
    """The MLP with only the hidden features of one rank, without the last bias."""
    weight, bias = up.weight.chunk(ranks)[rank], up.bias.chunk(ranks)[rank]
    return linear(gelu(linear(x, weight, bias)), down.weight.chunk(ranks, dim=1)[rank])


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
# ## What goes back
#
# Forward there is one all-reduce: it adds up the terms. What must be sent backward? Follow the gradient through the
# picture, from right to left.
#
# - **The sum.** $y = y_0 + y_1 + y_2 + y_3$, so the gradient of each term is the gradient of $y$. Every rank has the
#   same $y$, and computes the same loss. So each has that gradient already. *Nothing is sent.*
# - **The beginning.** All ranks use the same $x$. It has an effect on the loss through each of the thin MLPs, so its
#   gradient is the sum of four: $\frac{\partial L}{\partial x} = \sum_r g_r$. Rank $r$ knows only its own $g_r$. *This
#   takes an all-reduce.*
#
# Forward it was just the other way: nothing at the beginning, an all-reduce at the end.
#
#     place       forward        backward
#     beginning   nothing        all-reduce
#     end         all-reduce     nothing
#
# Two such operators are called *conjugate*. Autograd knows nothing about other ranks. So we must tell it what to do
# backward. Here is an operator that takes both directions as functions, and the functions that we need.

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
# Now we break them, to see what each is for. The model reads images of digits. It has a layer below the MLP and a
# layer above it. These two are not cut: every rank has them whole, and computes the same.


# %%
class Reader(nn.Module):
    """Below, thin MLP of this rank, above. `begin` and `end` say what is sent, forward and backward."""

    def __init__(
        self, comm: Communicator, begin: Operators = BEGIN, end: Operators = END
    ) -> None:
        super().__init__()
        torch.manual_seed(0)  # the same weights on every rank
        self.comm, self.begin, self.end = comm, begin, end
        self.below, self.above = nn.Linear(64, 16), nn.Linear(16, 10)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.double()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        comm = self.comm
        x = Operator.apply(torch.tanh(self.below(images)), comm, *self.begin)
        term = thin_mlp(x, self.up, self.down, comm.rank, comm.world_size)
        y = Operator.apply(term, comm, *self.end) + self.down.bias
        return self.above(y)


train_set, _ = digits()
images, labels = train_set.images.double().flatten(1), train_set.labels
Tensors = dict[str, torch.Tensor]


def forward_backward(
    comm: Communicator, begin: Operators = BEGIN, end: Operators = END
) -> Tensors:
    """The output, and the gradient of each weight, by name."""
    model = Reader(comm, begin, end)
    output = model(images[:64])
    cross_entropy(output, labels[:64]).backward()
    found = {name: weight.grad for name, weight in model.named_parameters()}
    return {"output": output.detach(), **found}


world = SimulatedWorld(4, contexts="threads")  # it communicates inside backward
alone = SimulatedWorld(1, contexts="threads")
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


conjugate = errors(world.run(forward_backward))
print(f"largest error with both operators: {max(conjugate.values()):.0e}")
assert max(conjugate.values()) < 1e-12

# %% [markdown]
# Right, all of it. (Each rank holds the whole weights of the MLP here, and uses its quarter. That is for looking at
# gradients only; the layers of the library hold their part and nothing else.)
#
# Now somebody forgets the all-reduce in the backward pass of the first operator. That is what you get from a plain
# `x`, without any operator: the forward pass needs none there.

# %%
guess = predict(
    "The all-reduce backward is forgotten. Which gradients are wrong?",
    choices=["those of the MLP", "those of the layer below", "those of both", "all"],
)

# %%
forgotten = errors(world.run(forward_backward, begin=(nothing, nothing)))
for name, error in forgotten.items():
    print(f"{name:12}  {error:7.0%}")
wrong = [name for name, error in forgotten.items() if error > 1e-12]
assert wrong == ["below.weight", "below.bias"]
print(guess.compare("those of the layer below"))

# %% [markdown]
# The output is right. The gradients of the MLP itself are right: a test of the layer and its weights passes. Wrong is
# only what lies *below*, and it is wrong on each rank in its own way: each has the gradient through its own thin MLP.
# What becomes of that in training?


# %%
OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=0.3, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=0.01),
}


def train(
    comm: Communicator,
    begin: Operators = BEGIN,
    end: Operators = END,
    optimizer: str = "SGD",
) -> tuple[list[float], torch.Tensor]:
    """The losses of 20 steps, and the weights of the layer below."""
    model = Reader(comm, begin, end)
    taking = OPTIMIZERS[optimizer](model.parameters())
    losses = []
    for step in range(20):
        batch = slice(64 * step, 64 * (step + 1))
        taking.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        taking.step()
        losses.append(loss.item())
    return losses, model.below.weight.detach()


def spread(by_rank: Sequence[tuple[list[float], torch.Tensor]]) -> float:
    """How far ranks that should have equal weights are apart."""
    return max(off(weights, by_rank[0][1]) for _, weights in by_rank)


print("      run          first loss  last loss  ranks apart")
for optimizer in OPTIMIZERS:
    ((right_losses, _),) = alone.run(train, optimizer=optimizer)
    good = world.run(train, optimizer=optimizer)
    bad = world.run(train, begin=(nothing, nothing), optimizer=optimizer)
    for name, found in {"right": good, "forgotten": bad}.items():
        first, last = found[0][0][0], found[0][0][-1]
        apart = spread(found)
        print(f"{optimizer:5} {name:11}  {first:10.2f} {last:10.2f}  {apart:11.2f}")
    assert abs(good[0][0][-1] - right_losses[-1]) < 1e-9 and spread(good) == 0
    assert first - last > 0.6 and spread(bad) > 0.25
assert bad[0][0][-1] < right_losses[-1] - 0.1  # Adam

# %% [markdown]
# The loss goes down, and no error appears. With Adam it is even lower than it should be: the ranks now have four
# *different* layers below, and so a larger model than you meant. Save rank 0's copy in a checkpoint, and that model
# is gone. So compare replicated weights between ranks from time to time.
#
# The opposite mistake is one all-reduce too many: forward *and* backward at the end. It happens when an all-reduce
# counts as a function of the ranks' inputs, whose gradients are then summed as well.

# %%
DOUBLED = (add_up, add_up)
twice = errors(world.run(forward_backward, end=DOUBLED))
for name, error in twice.items():
    print(f"{name:12}  {error:7.0%}")
assert abs(twice["up.weight"] - 3) < 1e-9 and abs(twice["below.weight"] - 3) < 1e-9
assert max(twice["output"], twice["above.weight"], twice["down.bias"]) < 1e-12

# %% [markdown]
# Every rank has the same gradient of $y$, so their sum is four times as large, and with it every gradient below: an
# error of 300 %. (`down.bias` is added after the operator.) With SGD that is a learning rate four times too large.
# And with Adam?

# %%
for optimizer in OPTIMIZERS:
    ((wanted, weights),) = alone.run(train, optimizer=optimizer)
    losses, found = world.run(train, end=DOUBLED, optimizer=optimizer)[0]
    print(
        f"{optimizer:4}  last loss {losses[-1]:.4f} instead of {wanted[-1]:.4f},"
        f"  weights off by {off(found, weights):.0e}"
    )
    gap = abs(losses[-1] - wanted[-1])
    assert gap < 1e-3 if optimizer == "Adam" else gap > 1

# %% [markdown]
# Adam divides by the size of the gradients, so a factor does not show. The mistake sits there until somebody clips
# gradients by their norm, or changes the number of ranks. Test gradients against one process, not losses.

# %% [markdown]
# ## Which matrix which way?
#
# We cut the first matrix by columns and the second by rows. There are three other pairs. All of them can be made
# right, with more to send. For that we need two more functions. They are a conjugate pair as well: a rank takes its
# own part of the features, and the parts are gathered.


# %%
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

# %% [markdown]
# The layers are the library's now. `ColumnParallelLinear` contains the operator at the beginning, and
# `RowParallelLinear` the one at the end. A rank holds its part of the weights, and never more: a part is drawn from
# the same random numbers however many ranks there are.

# %%
Layers = tuple[Callable[[torch.Tensor], torch.Tensor], ...]


def mlp_in_pieces(
    comm: Communicator, pair: str, features: int = 16, hidden: int = 64
) -> tuple[torch.Tensor, torch.Tensor]:
    """An MLP, forward and backward. Returns its output and the gradient of its input."""
    kinds = {"column": ColumnParallelLinear, "row": RowParallelLinear}
    first, second = pair.split(", ")
    up = kinds[first](comm, features, hidden, seed=0, dtype=DOUBLE)
    down = kinds[second](comm, hidden, features, seed=1, dtype=DOUBLE)
    inputs = torch.randn(
        2, 6, features, dtype=DOUBLE, generator=torch.Generator().manual_seed(2)
    )
    x = inputs.requires_grad_()
    x = Operator.apply(x, comm, *CUT) if first == "row" else x
    x = gelu(up(x))
    if first == second == "column":
        x = Operator.apply(x, comm, *JOIN)
    elif first == second == "row":
        x = Operator.apply(x, comm, *CUT)
    x = down(x)
    x = Operator.apply(x, comm, *JOIN) if second == "column" else x
    x.square().sum().backward()
    return x.detach(), inputs.grad


# %% [markdown]
# Between "column, row" nothing is sent. In "row, column" each rank takes its own part of $x$, computes its term of
# the hidden features, and the terms must be summed *before* GELU. Then each rank has all hidden features, computes
# its part of the output, and the parts are gathered. In all pairs the ranks also send something backward.

# %%
guess = predict(
    "16 features, 64 hidden. How many times as many bytes does a rank send with the rows first, then the columns?",
    unit="times",
)

# %%
PAIRS = ("column, row", "row, column", "column, column", "row, row")
(wanted,) = alone.run(mlp_in_pieces, "column, row")
traces, sent = {}, {}
for pair in PAIRS:
    for output, gradient in world.run(mlp_in_pieces, pair):
        assert off(output, wanted[0]) < 1e-12 and off(gradient, wanted[1]) < 1e-12
    traces[pair], (sent[pair], *_) = world.trace, world.trace.bytes_sent
    print(f"{pair:15} {sent[pair]:6,} bytes, {world.trace.messages_sent[0]} messages")
print(guess.compare(sent["row, column"] / sent["column, row"]))
bytes_per_rank(
    compare={pair: traces[pair] for pair in PAIRS[:2]},
    title="The same MLP, the same result: forward and backward",
)

# %% tags=["folded"]
# Checks of the numbers above and below, for other sizes and ranks
assert sent["row, column"] / sent["column, row"] == 4.5
assert sent["column, column"] == sent["row, row"] == 3.75 * sent["column, row"]
for ranks, features, hidden in [(2, 4, 16), (2, 8, 4), (4, 8, 16), (8, 8, 8)]:
    few = SimulatedWorld(ranks, contexts="threads")
    unit = 2 * 6 * 8 * (ranks - 1) // ranks  # all-gather of one feature
    expected = [
        4 * features,  # two all-reduces of the features
        4 * hidden + 2 * features,  # two of the hidden features; two all-gathers
        3 * (features + hidden),  # an all-gather and an all-reduce of each
        3 * (features + hidden),
    ]
    for pair, numbers in zip(PAIRS, expected, strict=True):
        few.run(mlp_in_pieces, pair, features, hidden)
        assert few.trace.bytes_sent == [numbers * unit] * ranks

# %% [markdown]
# 4.5 times as many, for the same result. Count in units of $\frac{N-1}{N}$ times one row's bytes per feature. An
# all-gather of $n$ features costs $n$, an all-reduce $2n$.
#
# | pair | forward | backward | together | with $h = 4f$ |
# |---|---|---|---|---|
# | column, row | all-reduce of $f$ | all-reduce of $f$ | $4f$ | $4f$ |
# | row, column | all-reduce of $h$, all-gather of $f$ | the same | $4h + 2f$ | $18f$ |
# | column, column | all-gather of $h$ and of $f$ | all-reduce of $h$ and of $f$ | $3h + 3f$ | $15f$ |
# | row, row | all-reduce of $h$ and of $f$ | all-gather of $h$ and of $f$ | $3h + 3f$ | $15f$ |
#
# The right pair sends nothing of the hidden features, and they are the larger ones. It also computes more in
# parallel: in "row, column" every rank applies GELU to *all* hidden features, and keeps them all.
#
# This is who holds what, as the ranks report it.


# %%
EVERYTHING = slice(None)
Layer = ColumnParallelLinear | RowParallelLinear


def needs(layer: Layer) -> slice:
    """Which input features this rank needs."""
    return layer.columns if isinstance(layer, RowParallelLinear) else EVERYTHING


def gives(layer: Layer) -> slice:
    """Of which output features this rank has the complete value, when all that must be sent has been."""
    if isinstance(layer, RowParallelLinear):
        return EVERYTHING
    return slice(layer.rows[0], layer.rows[-1] + 1)


def held(comm: Communicator, pair: str) -> dict[str, tuple[slice, slice]]:
    kinds = {"column": ColumnParallelLinear, "row": RowParallelLinear}
    first, second = (kinds[kind] for kind in pair.split(", "))
    up, down = first(comm, 16, 64), second(comm, 64, 16)
    return {
        "x": (EVERYTHING, needs(up)),
        "up.weight": (gives(up), needs(up)),
        "hidden": (EVERYTHING, gives(up)),
        "down.weight": (gives(down), needs(down)),
        "y": (EVERYTHING, gives(down)),
    }


SHAPES = {"x": (12, 16), "up.weight": (64, 16), "hidden": (12, 64)}
SHAPES |= {"down.weight": (16, 64), "y": (12, 16)}
ways = {}
for pair in PAIRS[:2]:
    by_rank = world.run(held, pair)
    ways[pair.replace(", ", ", then ")] = {
        name: HeldPieces(shape, [found[name] for found in by_rank])
        for name, shape in SHAPES.items()
    }
placements(ways, title="An MLP on four ranks", holder="rank")

# %% [markdown]
# Look at `up.weight` in the upper row. It is cut into layers that lie on each other, although the way is called
# "column": torch keeps the matrix transposed.
#
# **Try it.** Is there an MLP for which rows first is cheaper? Look at the table, and try its sizes.

# %%
for pair in PAIRS[:2]:
    world.run(mlp_in_pieces, pair, features=16, hidden=64)  # change the sizes
    print(f"{pair:12} {world.trace.bytes_sent[0]:,} bytes")

# %% tags=["folded"]
# One way to do it: 4h + 2f < 4f where h < f/2, a bottleneck as in adapters
for pair in PAIRS[:2]:
    world.run(mlp_in_pieces, pair, features=64, hidden=16)
    print(f"{pair:12} {world.trace.bytes_sent[0]:,} bytes")
    sent[pair] = world.trace.bytes_sent[0]
assert sent["row, column"] / sent["column, row"] == 0.75

# %% [markdown]
# The rule is not "columns first". It is: send where it is narrow. In a transformer the hidden features are four times
# as many, so the two all-reduces stand outside of them.
#
# ## Attention
#
# Attention is made of heads. Each head has its own queries, keys and values, looks at all words of the sequence, and
# needs nothing from another head. So each rank takes some of the heads. Queries, keys and values are column parallel.
# What the heads give are features, of which each rank has some, complete. The output layer is row parallel. It is an
# MLP all over again, with softmax in the place of GELU:
#
#     x ──► q, k, v of heads 0, 1, by columns ──► softmax(q·kᵀ)·v ──► output, by rows ──► term of rank 0 ─┐
#     x ──► q, k, v of heads 2, 3, by columns ──► softmax(q·kᵀ)·v ──► output, by rows ──► term of rank 1 ─┴─ sum ──► y
#
# Many models keep the three matrices as one, of $3f$ outputs: first all queries, then all keys, then all values. If
# you cut that into two equal pieces, rank 0 gets all queries and half of the keys. Each of the three sections must be
# cut by itself:


# %%
def own_rows(comm: Communicator, sections: int) -> list[int]:
    return ColumnParallelLinear(comm, 4, 12, sections=sections).rows


two = SimulatedWorld(2)
for sections in (1, 3):
    print(f"4 features, {sections} section(s):", two.run(own_rows, sections))
assert two.run(own_rows, 3)[0] == [0, 1, 4, 5, 8, 9]

# %% [markdown]
# With three sections rank 0 has rows 0 and 1 of the queries, 0 and 1 of the keys (rows 4 and 5), and 0 and 1 of the
# values.
#
# A transformer layer is attention and an MLP. Each stands behind a LayerNorm, and its result is added to its input:
# $x + \text{attention}(\text{norm}(x))$, then $x + \text{mlp}(\text{norm}(x))$. The norms and the additions are not
# cut. Every rank does them, all of them.

# %%
guess = predict(
    "A transformer layer on 4 ranks, forward and backward. How many all-reduces?",
    unit="all-reduces",
)

# %%
BATCH, SEQUENCE, FEATURES, HIDDEN, HEADS = 2, 16, 32, 128, 8


def activations(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, SEQUENCE, FEATURES, dtype=DOUBLE, generator=generator)


def one_block(comm: Communicator, block: str, backward: bool = True) -> None:
    if block == "MLP":
        module: nn.Module = ParallelMLP(comm, FEATURES, HIDDEN, dtype=DOUBLE)
    elif block == "attention":
        module = ParallelAttention(comm, FEATURES, HEADS, dtype=DOUBLE)
    else:
        module = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, dtype=DOUBLE)
    y = module(activations().requires_grad_())
    if backward:
        y.square().sum().backward()


def all_reduces(trace: Trace) -> int:
    """How many ring all-reduces: each is 2(N − 1) messages of every rank."""
    calls = [message.site.call or "" for message in trace]
    assert all(call.startswith("all_reduce(") for call in calls)
    each = 2 * (trace.world_size - 1)
    assert len(set(trace.messages_sent)) == 1 and trace.messages_sent[0] % each == 0
    return trace.messages_sent[0] // each


counted = {}
for block in ("MLP", "attention", "whole layer"):
    world.run(one_block, block, backward=False)
    forward = all_reduces(world.trace)
    world.run(one_block, block)
    counted[block] = forward, all_reduces(world.trace) - forward
    print(f"{block:11}  forward {counted[block][0]}, backward {counted[block][1]}")
print(guess.compare(sum(counted["whole layer"])))
assert counted == {"MLP": (1, 1), "attention": (1, 1), "whole layer": (2, 2)}

# %% [markdown]
# Four: two forward, two backward. That is the number in the Megatron-LM paper. No softmax, no GELU, no hidden feature
# is ever sent.
#
# **Try it.** Queries, keys and values are *one* column-parallel layer here. Make them three layers with the same
# input. How many all-reduces do they need backward?


# %%
def projections(comm: Communicator, layers: int) -> None:
    """Queries, keys and values by as many column-parallel layers, forward and backward."""
    x = activations().requires_grad_()
    width = 3 * FEATURES // layers
    parts = [ColumnParallelLinear(comm, FEATURES, width, dtype=DOUBLE)]  # only one
    torch.cat([part(x) for part in parts], dim=-1).square().sum().backward()


world.run(projections, 3)
print(all_reduces(world.trace))


# %% tags=["folded"]
# One way to do it: each layer has an operator of its own, and adds up its gradient
def many_projections(comm: Communicator, layers: int) -> None:
    x = activations().requires_grad_()
    width = 3 * FEATURES // layers
    parts = [
        ColumnParallelLinear(comm, FEATURES, width, seed=seed, dtype=DOUBLE)
        for seed in range(layers)
    ]
    torch.cat([part(x) for part in parts], dim=-1).square().sum().backward()


for layers in (1, 3):
    world.run(many_projections, layers)
    print(f"{layers} layers: {all_reduces(world.trace)} all-reduces backward")
    assert all_reduces(world.trace) == layers

# %% [markdown]
# Three layers send three gradients of $x$, one after the other, and add them up only then. So put the operator before
# all three, or make them one.
#
# ### The bytes
#
# Each all-reduce has the size of $x$: batch · sequence · features numbers. On a ring each rank sends
# $2\frac{N-1}{N}$ times that. So a layer costs each rank
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
    assert some.trace.bytes_sent == [4 * 2 * (ranks - 1) * S // ranks] * ranks
    exact = traffic.ring_all_reduce(ranks, S // 8, 8)
    assert some.trace.bytes_sent == [4 * nbytes for nbytes in exact.nbytes]

# %% [markdown]
# With more ranks each computes less, and sends *more*: from 4 ranks to 8 a sixth more. In data parallelism it is the
# same. But there the messages can hide behind the backward pass, and come once per step. Here every all-reduce stands
# in the middle of the computation. The next matrix can't begin before it ends.
