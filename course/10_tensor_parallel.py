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
# **Time:** about 120 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [Pipeline](09_pipeline.ipynb). No
# GPU.

# %%
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import torch
from torch import nn
from torch.nn.functional import (
    cross_entropy,
    gelu,
    linear,
    scaled_dot_product_attention,
)

from distlib import (
    Cluster,
    Communicator,
    Link,
    RankError,
    SimulatedWorld,
    World,
    all_gather,
    all_reduce,
    broadcast,
)
from distlib.draw import (
    HeldPieces,
    curves,
    memory_parts,
    placements,
    predict,
    step_timeline,
)
from distlib.network import duration, traffic
from distlib.trace import Trace
from distlib.training.datasets import digits
from distlib.training.ddp import Span, StepTimes
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
stages = 96 // 2
bubble = {m: (stages - 1) / (m + stages - 1) for m in range(1, 1000)}
microbatches = next(m for m in bubble if bubble[m] <= 0.1)
print(f"{stages} stages: from {microbatches} microbatches on, a bubble of 10 % or less")
assert stages == 48 and microbatches == 423

# %% [markdown]
# Two layers fit on a device of 80 GB, and even these without their activations. A pipeline would need at least 48
# stages, and 423 microbatches for a bubble of 10 %.
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
guess_1 = predict(
    "The first bias is 1.0, and each of 4 ranks adds it before the sum. By how much is the first output off?"
)

# %%
with torch.no_grad():
    layer.bias[0] = 1.0
y = layer(x)
mistaken = [part + layer.bias for part in rows]
found = off(torch.stack(mistaken).sum(0)[:, 0], y[:, 0])
print(guess_1.compare(round(found, 9)))
assert abs(found - 3.0) < 1e-12
for ranks in (2, 8):
    parts = zip(x.chunk(ranks, 1), layer.weight.chunk(ranks, 1), strict=True)
    terms = [linear(part, weight, layer.bias) for part, weight in parts]
    assert abs(off(torch.stack(terms).sum(0)[:, 0], y[:, 0]) - (ranks - 1)) < 1e-9

# %% [markdown]
# By 3: it should be there once, and is there four times. With $N$ ranks it is off by $N - 1$ times the bias. So the
# bias is added *after* the sum. By columns there is no such trap.
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
# layer above it. These two are not cut: every rank has them whole, and computes the same. What the MLP gives is added
# to its input, as in a transformer.


# %%
class Reader(nn.Module):
    """Below, thin MLP of this rank, above. `begin` and `end`: what is sent, forward and backward."""

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
        x = torch.tanh(self.below(images))
        entered = Operator.apply(x, comm, *self.begin)
        term = thin_mlp(entered, self.up, self.down, comm.rank, comm.world_size)
        y = Operator.apply(term, comm, *self.end) + self.down.bias
        return self.above(x + y)


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
# Right, all of it. (Each rank holds the whole MLP here, and uses its quarter. The layers of the library hold their part
# and nothing else.)
#
# Now somebody forgets the all-reduce in the backward pass of the first operator. That is what you get from a plain
# `x`, without any operator: the forward pass needs none there.

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
wrong = [name for name, error in forgotten.items() if error > 1e-12]
assert wrong == ["below.weight", "below.bias"]
print(guess_2.compare("those of the layer below"))

# %% [markdown]
# The output is right. The gradients of the MLP itself are right: a test of the layer and its weights passes. Only what
# lies *below* is wrong, and it is wrong on each rank in its own way: of four thin MLPs, the gradient went through one.
#
# The opposite mistake is one all-reduce too many: forward *and* backward at the end. torch's own differentiable
# all-reduce, in `torch.distributed._functional_collectives`, does this. It takes the ranks' losses as separate ones,
# and adds up their gradients. Here all ranks compute the same loss, which then counts four times.

# %%
DOUBLED = (add_up, add_up)
twice = errors(world.run(forward_backward, end=DOUBLED))
for name, error in twice.items():
    print(f"{name:12}  {error:7.0%}")
assert abs(twice["up.weight"] - 3) < 1e-9 and abs(twice["down.weight"] - 3) < 1e-9
assert 0.3 < twice["below.weight"] < 1 and 0.3 < twice["below.bias"] < 1
assert max(twice["output"], twice["above.weight"], twice["down.bias"]) < 1e-12

# %% [markdown]
# The gradients of the thin MLPs are four times as large, an error of 300 %. (`down.bias` is added after the operator.)
# The layer below gets two terms: one straight from `x + y`, and one through the MLP. Only the second has the factor 4.
# What becomes of both mistakes in training? (The last columns say how far the layer below is from other ranks', and
# from that of one process.)


# %%
OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=0.2, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=0.01),
}


def train(
    comm: Communicator,
    optimizer: str,
    begin: Operators = BEGIN,
    end: Operators = END,
) -> tuple[dict[str, float], torch.Tensor]:
    """Losses, of 20 steps and then of new images, and the weights of the layer below."""
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
    own, new = model.below.weight.detach().clone(), slice(64 * 20, None)
    found = {"first": losses[0], "last": losses[-1]}
    for name in ("new images", "copy of rank 0"):
        found[name] = cross_entropy(model(images[new]), labels[new]).item()
        for weight in model.below.parameters():
            broadcast(comm, weight.data)  # rank 0's
    return found, own


RUNS: dict[str, dict[str, Operators]] = {
    "right": {},
    "forgotten": {"begin": (nothing, nothing)},
    "doubled": {"end": DOUBLED},
}
trained, apart, away = {}, {}, {}
print(
    "                first   last  new images  copy of rank 0  ranks apart  from right"
)
for optimizer in OPTIMIZERS:
    ((_, wanted),) = alone.run(train, optimizer)
    for name, operators in RUNS.items():
        by_rank, run = world.run(train, optimizer, **operators), (optimizer, name)
        trained[run], weights = by_rank[0]
        apart[run] = max(off(other, weights) for _, other in by_rank)
        away[run] = off(weights, wanted)
        first, last, new, copied = trained[run].values()
        print(
            f"{optimizer:5} {name:9} {first:6.2f} {last:6.2f} {new:11.2f} {copied:15.2f}"
            f" {apart[run]:12.2f} {away[run]:11.2f}"
        )

# %% tags=["folded"]
# Checks of what is said below
for (optimizer, name), found in trained.items():
    assert found["first"] - found["last"] > 0.8
    assert (apart[optimizer, name] > 0.1) == (name == "forgotten")
    assert (away[optimizer, name] > 0.1) == (name != "right")
    gap = abs(found["last"] - trained[optimizer, "right"]["last"])
    assert gap > 0.5 if (optimizer, name) == ("SGD", "doubled") else gap < 0.03
spoiled = trained["Adam", "forgotten"]
assert f"{spoiled['new images']:.2f} {spoiled['copy of rank 0']:.2f}" == "0.74 0.78"

# %% [markdown]
# In all runs the loss goes down, and no error appears. Only SGD with the doubled gradients looks bad.
#
# - **Forgotten.** The ranks now have four *different* layers below, and the model works with these four. A checkpoint
#   has one of them. With Adam the loss on new images is 0.74, and 0.78 when all ranks load rank 0's copy. So compare
#   replicated weights between ranks from time to time.
# - **Doubled.** Adam divides by the size of a gradient, so where all of it has the same factor, the factor does not
#   show. In the layer below only one of two terms has it, and the weights go another way. The loss hardly tells.
#
# Test gradients against one process, not losses.

# %% [markdown]
# ## Which matrix which way?
#
# We cut the first matrix by columns and the second by rows. What if we do it the other way round? For that we need two
# more functions. They are a conjugate pair as well: a rank takes its own part of the features, and the parts are
# gathered.


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
    x = down(x)
    x = Operator.apply(x, comm, *JOIN) if second == "column" else x
    x.square().sum().backward()
    return x.detach(), inputs.grad


# %% [markdown]
# In "row, column" each rank takes its own part of $x$, computes its term of the hidden features, and the terms must be
# summed *before* GELU. Then each rank has all hidden features, computes its part of the output, and the parts are
# gathered. In both pairs the ranks also send something backward.

# %%
guess_3 = predict(
    "16 features, 64 hidden. How many times as many bytes does a rank send with the rows first, then the columns?",
    unit="times",
)

# %%
PAIRS = ("column, row", "row, column")
(wanted,) = alone.run(mlp_in_pieces, "column, row")
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
# 4.5 times as many, for the same result. Count in units of $\frac{N-1}{N}$ times the bytes of one feature in all rows:
# here $\frac34 \cdot 12 \cdot 8 = 72$. An all-gather of $n$ features costs $n$, an all-reduce $2n$.
#
# - "column, row" takes an all-reduce of $f$ features, forward and backward: $4f$.
# - "row, column" takes an all-reduce of $h$ and an all-gather of $f$, both times: $4h + 2f$, or $18f$ with $h = 4f$.
#
# The right pair sends nothing of the hidden features, and they are the larger ones. And in "row, column" every rank
# applies GELU to *all* hidden features, and keeps them all.
#
# Who holds what in the right pair? We take what the ranks have, and look up these numbers in the arrays of one process.


# %%
def held(comm: Communicator) -> Tensors:
    """What this rank has of an MLP in its forward pass."""
    up = ColumnParallelLinear(comm, 16, 64, seed=0, dtype=DOUBLE)
    down = RowParallelLinear(comm, 64, 16, seed=1, dtype=DOUBLE)
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


(whole_arrays,), by_rank = alone.run(held), world.run(held)
pieces = {
    name: HeldPieces(whole.shape, [place(found[name], whole) for found in by_rank])
    for name, whole in whole_arrays.items()
}
placements({"column, then row": pieces}, title="An MLP on four ranks", holder="rank")

# %% [markdown]
# Look at `up`, a weight. It is cut into bands, one below the other, although the way is called "column": torch keeps
# the matrix transposed.
#
# **Try it.** Is there an MLP for which rows first is cheaper? Look at the formulas, and try its sizes.

# %%
for pair in PAIRS:
    world.run(mlp_in_pieces, pair, features=16, hidden=64)  # change the sizes
    print(f"{pair:12} {world.trace.bytes_sent[0]:,} bytes")

# %% tags=["folded"]
# One way to do it: 4h + 2f < 4f where h < f/2, a bottleneck as in adapters
for pair in PAIRS:
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
# A transformer layer is attention and an MLP. Each stands behind a LayerNorm, and its result is added to its input:
# $x + \text{attention}(\text{norm}(x))$, then $x + \text{mlp}(\text{norm}(x))$. The norms and the additions are not
# cut. Every rank does them, all of them.

# %%
guess_4 = predict(
    "A transformer layer on 4 ranks, forward and backward. How many all-reduces?",
    unit="all-reduces",
)

# %%
BATCH, SEQUENCE, FEATURES, HIDDEN, HEADS = 4, 16, 32, 128, 8


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
print(guess_4.compare(sum(counted["whole layer"])))
assert counted == {"MLP": (1, 1), "attention": (1, 1), "whole layer": (2, 2)}

# %% [markdown]
# Four, as in the Megatron-LM paper. No softmax, no GELU, no hidden feature is ever sent.
#
# **Try it.** Queries, keys and values are *one* column-parallel layer here. Make them three layers with the same
# input. How many all-reduces do they need backward?


# %%
def projections(comm: Communicator, widths: Sequence[int]) -> None:
    """Column-parallel layers with the same input, of these widths: forward and backward."""
    x = activations().requires_grad_()
    parts = [
        ColumnParallelLinear(comm, FEATURES, width, seed=seed, dtype=DOUBLE)
        for seed, width in enumerate(widths)
    ]
    torch.cat([part(x) for part in parts], dim=-1).square().sum().backward()


world.run(projections, [3 * FEATURES])  # change it
print(all_reduces(world.trace))

# %% tags=["folded"]
# One way to do it: each layer has an operator of its own, and adds up its gradient
world.run(projections, [FEATURES] * 3)
print("three layers:", all_reduces(world.trace))
assert all_reduces(world.trace) == 3

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
# same. But there the messages can hide behind the backward pass, and come once per step. Here most of them stand in
# the middle of the computation. Forward, the next matrix can't begin before the sum is there. Backward only a part can
# hide: while the gradient of $x$ is added up, a rank can compute the gradient of its weights.

# %% [markdown]
# ## Both ends: the vocabulary
#
# A language model begins with an embedding, a table of vocabulary × features. It often ends with the same table: the
# score of each word is the product of its row and the hidden state. For GPT-3 that is 50,257 × 12,288, as much as a
# third of a layer. So cut it along the vocabulary: each rank knows some of the words.
#
# - **Embedding.** A rank looks up its own words, and has zeros for the others'. The sum over the ranks is the
#   embedding: one all-reduce.
# - **Scores.** Each rank computes the scores of its own words. That is a column-parallel layer, and sends nothing.
# - **Loss.** At each place in the text it is $\log\sum_v e^{s_v} - s_\text{target}$. It needs the scores of all words
#   of the vocabulary there. So gather them?
#
# Look again. The sum over the vocabulary is a sum of the ranks' sums. And the score of the target is on one of the
# ranks. So two numbers per place in the text are enough, and one more, the largest score, so that nothing overflows:
# $e^{s_v - \max}$.

# %%
guess_5 = predict(
    "A vocabulary of 1,536 words, 4 ranks. Gathering the scores sends how many times as many bytes as adding up three"
    " numbers per place in the text?",
    unit="times",
)

# %%
WORDS, TEXT_LENGTH = 1536, 32


def loss_of_cut_scores(
    comm: Communicator, gather: bool, words: int = WORDS
) -> tuple[float, torch.Tensor]:
    """The loss, and the gradient of this rank's scores. What is sent is only for the loss."""
    generator = torch.Generator().manual_seed(3)
    whole = 5 * torch.randn(TEXT_LENGTH, words, dtype=DOUBLE, generator=generator)
    targets = torch.randint(words, (TEXT_LENGTH,), generator=generator)
    scores = own_part(comm, whole).requires_grad_()
    if gather:
        loss = cross_entropy(Operator.apply(scores, comm, *JOIN), targets)
    else:
        loss = vocabulary_parallel_cross_entropy(comm, scores, targets)
    loss.backward()
    return loss.item(), scores.grad


((wanted, gradient),) = alone.run(loss_of_cut_scores, gather=True)
cost = {}
for gather in (True, False):
    for rank, (loss, found) in enumerate(world.run(loss_of_cut_scores, gather)):
        assert abs(loss - wanted) < 1e-9
        assert off(found, gradient.chunk(4, dim=-1)[rank]) < 1e-12
    cost[gather] = world.trace.bytes_sent[0]
    print(f"scores gathered: {gather!s:5}  {cost[gather]:9,} bytes")
print(guess_5.compare(cost[True] / cost[False]))

# %% tags=["folded"]
# Checks of the numbers above and below, for other vocabularies and numbers of ranks
assert cost[True] / cost[False] == WORDS / 6 == 256
for ranks, words in [(2, 48), (4, 96), (8, 24)]:
    few = SimulatedWorld(ranks, contexts="threads")
    amounts = []
    for gather in (True, False):
        few.run(loss_of_cut_scores, gather, words)
        amounts.append(few.trace.bytes_sent[0])
    assert amounts[0] / amounts[1] == words / 6
assert f"{50_257 * 12_288 / (12 * 12_288**2):.2f}" == "0.34"
assert f"{2048 * 50_257 * 4 / 1e6:.0f} {50_257 / 6:,.0f}" == "412 8,376"

# %% [markdown]
# 256 times. Per place in the text, an all-gather of $V$ numbers against all-reduces of 3: $V/6$, with the vocabulary of
# GPT-3 8,376. Backward nothing is sent, because the gradient of a score is its softmax, minus 1 for the target, and
# each rank has both. Nor does any rank ever hold all scores. For one text of 2,048 places they would be 412 MB there,
# in 32 bits.
#
# ## The whole model
#
# Now a small language model from all these parts, in float64. First as torch has it, in one process: an embedding of
# letters, one of places (position embeddings), two of torch's transformer layers, a norm, and the scores by the
# embedding's own weights. Then the same over ranks.

# %%
TEXT = (
    "a rank has a part of every layer. it computes its part of each product, and the "
    "ranks add up what they have. no rank ever has a whole matrix, and the sum is what "
    "one process would have found. what is sent depends on the words, not on the weights. "
)
LETTERS = sorted(set(TEXT))
VOCABULARY = 32  # letters, and some that never occur, so that 8 ranks divide it
CODES = torch.tensor([LETTERS.index(letter) for letter in TEXT])


def batch_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """BATCH pieces of the text, and the same pieces one letter further on."""
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(CODES) - SEQUENCE - 1, (BATCH,), generator=generator)
    pieces = torch.stack([CODES[start : start + SEQUENCE + 1] for start in starts])
    return pieces[:, :-1], pieces[:, 1:]


class WholeGPT(nn.Module):
    """In one process; nothing of it is ours."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.places = nn.Parameter(0.1 * torch.randn(SEQUENCE, FEATURES))
        options = dict(activation=gelu, batch_first=True, norm_first=True, dropout=0.0)
        layers = [
            nn.TransformerEncoderLayer(FEATURES, HEADS, HIDDEN, **options)
            for _ in range(2)
        ]
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(FEATURES)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.double()

    def forward(self, letters: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(letters) + self.places
        mask = nn.Transformer.generate_square_subsequent_mask(SEQUENCE, dtype=DOUBLE)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        scores = linear(self.norm(x), self.embedding.weight)
        return cross_entropy(scores.flatten(0, 1), targets.flatten())


class GPT(nn.Module):
    """Over ranks: places and norms are on every rank, all else is cut."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__()
        self.comm, sizes = comm, (FEATURES, HIDDEN, HEADS)
        self.embedding = VocabularyParallelEmbedding(
            comm, VOCABULARY, FEATURES, dtype=DOUBLE
        )
        self.places = nn.Parameter(torch.zeros(SEQUENCE, FEATURES, dtype=DOUBLE))
        layers = [
            ParallelTransformerLayer(comm, *sizes, causal=True, dtype=DOUBLE)
            for _ in range(2)
        ]
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(FEATURES, dtype=DOUBLE)

    def forward(self, letters: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(letters) + self.places
        for layer in self.layers:
            x = layer(x)
        scores = self.embedding.scores(self.norm(x))  # of this rank's letters
        return vocabulary_parallel_cross_entropy(self.comm, scores, targets)

    def load_whole(self, whole: WholeGPT) -> "GPT":
        """Copy this rank's part of every weight."""
        self.embedding.load_whole(whole.embedding.weight)
        for layer, same in zip(self.layers, whole.layers, strict=True):
            layer.load_whole(same)
        self.places.data.copy_(whole.places.data)
        self.norm.load_state_dict(whole.norm.state_dict())
        return self


def ten_steps(model: nn.Module) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(10):
        optimizer.zero_grad()
        loss = model(*batch_of(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_gpt(comm: Communicator, end: WholeGPT) -> tuple[list[float], float]:
    """The losses of ten steps, and the largest difference to the weights in `end`."""
    model = GPT(comm).load_whole(WholeGPT())
    losses = ten_steps(model)
    wanted = GPT(comm).load_whole(end)
    pairs = zip(model.parameters(), wanted.parameters(), strict=True)
    return losses, max(off(found, right) for found, right in pairs)


whole = WholeGPT()
right_losses = ten_steps(whole)
print(
    f"one process: loss {right_losses[0]:.3f}, after ten steps {right_losses[-1]:.3f}"
)


def check(ranks: str, by_rank: Sequence[tuple[list[float], float]]) -> None:
    gaps = [
        abs(a - b)
        for losses, _ in by_rank
        for a, b in zip(losses, right_losses, strict=True)
    ]
    worst = max(*gaps, *(far for _, far in by_rank))
    print(f"{ranks}: largest difference, of a loss or a weight, {worst:.0e}")
    assert worst < 1e-9


for ranks in (2, 8):
    some = SimulatedWorld(ranks, contexts="threads")
    check(f"{ranks} simulated ranks", some.run(train_gpt, whole))
with World(2) as real:
    check("2 real ranks", real.run(train_gpt, whole))
    in_reality = real.trace.messages_sent
assert right_losses[-1] < right_losses[0] - 0.3

# %% tags=["folded"]
# Checks: all-reduces of ten steps, on real ranks as well
two = SimulatedWorld(2, contexts="threads")
two.run(train_gpt, whole)
# embedding 1; two layers 4 each; scores 1, backward; loss 2
assert two.trace.messages_sent == in_reality == [10 * (1 + 2 * 4 + 1 + 2) * 2] * 2

# %% [markdown]
# The losses and all weights are those of one process, to rounding. (With SGD: Adam might hide a factor.) A step has 12
# all-reduces: 4 for each layer, one for the embedding, one backward for the scores, two small ones for the loss.
#
# Two traps are left. *Dropout* must drop the same numbers on all ranks where $x$ is whole, and different ones where
# features are cut. And if you *clip* gradients by their norm, a weight that all ranks have counts once, and the parts
# of one that is cut are added up over the ranks.
#
# ## Memory
#
# What does a rank keep? We measure it in a training step of two transformer layers with Adam: weights, gradients and
# the optimizer's averages as tensors that are there, activations as what autograd holds at the end of the forward
# pass.

# %%
guess_6 = predict(
    "Four ranks. What share of the activations of one process does each of them keep?",
    unit="%",
)


# %%
def memory_of_step(
    comm: Communicator, sequence: bool = False, num_layers: int = 2
) -> dict[str, int]:
    """Bytes that this rank keeps in a training step, by kind."""
    sizes, options = (FEATURES, HIDDEN, HEADS), {"sequence": sequence, "dtype": DOUBLE}
    layers = nn.Sequential(
        *(ParallelTransformerLayer(comm, *sizes, **options) for _ in range(num_layers))
    )
    optimizer = torch.optim.Adam(layers.parameters())
    x = activations()
    x = (split_sequence(comm, x) if sequence else x).clone().requires_grad_()
    meter = ActivationMeter(layers.parameters())
    with meter.watch((0, 0)):
        y = layers(x)
    kept = sum(meter.kept.values())
    y.square().sum().backward()
    if sequence:
        sum_sequence_gradients(comm, layers)
    optimizer.step()
    weights = list(layers.parameters())
    averages = [
        state[name]
        for state in optimizer.state.values()
        for name in ("exp_avg", "exp_avg_sq")
    ]
    return {
        "weights": sum(weight.nbytes for weight in weights),
        "gradients": sum(weight.grad.nbytes for weight in weights),
        "optimizer": sum(each.nbytes for each in averages),
        "activations": kept,
    }


memory = {
    "one process": alone.run(memory_of_step),
    "tensor parallel": world.run(memory_of_step),
}
whole_step, cut_step = memory["one process"][0], memory["tensor parallel"][0]
for kind in whole_step:
    print(f"{kind:11} {cut_step[kind] / whole_step[kind]:.1%} of one process")
print(guess_6.compare(100 * cut_step["activations"] / whole_step["activations"]))
memory_parts(memory, "A training step of two transformer layers")

# %% tags=["folded"]
# Checks of the numbers above and below: 4 + 12/N times x per layer, and what norms and softmax keep
assert f"{cut_step['activations'] / whole_step['activations']:.0%}" == "44%"
for kind in ("weights", "gradients", "optimizer"):
    assert 0.25 < cut_step[kind] / whole_step[kind] < 0.27
for ranks in (1, 2, 4, 8):
    some = SimulatedWorld(ranks, contexts="threads")
    for sequence in (False, True):
        found = some.run(memory_of_step, sequence)[0]["activations"] / 2 / S
        norms = 4 / FEATURES / (ranks if sequence else 1)  # mean and deviation
        softmax = HEADS / FEATURES / ranks  # one number per head and place
        uncut = (2 if ranks > 1 else 0) if sequence else 4
        cut = 16 - uncut if not sequence else 14 if ranks > 1 else 16
        assert abs(found - (uncut + cut / ranks + norms + softmax)) < 1e-9

# %% [markdown]
# Weights, gradients and optimizer state are a quarter, nearly: only norms and the biases of the row-parallel layers
# are on every rank. But of the activations each rank keeps 44 %. Count, in units of $x$, what a layer keeps:
#
# | | kept | cut? |
# |---|---|---|
# | input and output of each norm | 4 | no: on every rank, the same |
# | queries, keys, values; what the heads give | 4 | by heads |
# | hidden features, before and after GELU | 8 | by features |
#
# Together $4 + 12/N$ where $h = 4f$, and small change. However many ranks you take, a quarter of the 16 remains on
# each. (Real kernels differ. Here softmax keeps no matrix of sequence × sequence.)
#
# ## Sequence parallelism
#
# Between the blocks each rank does the same: the same norms of the same $x$. A norm looks at one word at a time. So
# give each rank a part of the *sequence* there, and cut by features only inside of the blocks:
#
#     norm ──► all-gather ──► up ──► gelu ──► down ──► reduce-scatter ──► + ──► norm ──► …
#     ─┬──                    ────────┬───────────                        ───┬─────
#      a part of the sequence         a part of the features                 a part of the sequence
#
# The operator at the beginning gathers the sequence. The one at the end adds up the terms, and leaves each rank only
# its part. They are conjugate as well: backward an all-gather becomes a reduce-scatter, and the other way round. (The
# partner of the all-gather in `JOIN` sent nothing, since every rank had the whole gradient already. Here each has only
# the gradient through its own features, a term, so the terms must be added up.) And you know from lesson 02 what a
# ring all-reduce is: a reduce-scatter, then an all-gather.

# %%
guess_7 = predict(
    "With sequence parallelism a training step of these layers sends …",
    choices=["half the bytes", "the same bytes", "a few bytes more"],
)

# %%
sent = {}
for sequence in (False, True):
    by_rank = world.run(memory_of_step, sequence)
    sent[sequence] = world.trace
    if sequence:
        memory["with sequence parallelism"] = by_rank
inside = sent[True].filter(lambda message: "all_reduce" not in message.site.call)
print("without:              ", sent[False].bytes_sent)
print("with:                 ", sent[True].bytes_sent)
print("of it in the layers:  ", inside.bytes_sent)
assert inside.bytes_sent == sent[False].bytes_sent
assert inside.messages_sent == sent[False].messages_sent
extra = sent[True].bytes_sent[0] - sent[False].bytes_sent[0]
less = "half the bytes" if extra < -S else "the same bytes"
verdict = "a few bytes more" if 0 < extra < S else less
print(guess_7.compare(verdict))
memory_parts(memory, "A training step of two transformer layers")

# %% tags=["folded"]
# Checks of the numbers above and below
in_order = memory["with sequence parallelism"][0]
assert f"{in_order['activations'] / whole_step['activations']:.0%}" == "34%"
kinds = {message.site.call.partition("(")[0] for message in inside}
assert kinds == {"all_gather", "reduce_scatter"}
assert extra == traffic.ring_all_reduce(4, 2 * 6 * FEATURES, 8).nbytes[0]
share = extra / sent[False].bytes_sent[0]  # with this many words in the batch
assert f"{share * BATCH * SEQUENCE / 2048:.2%}" == "0.07%"


def sequence_steps(comm: Communicator, sequence: bool) -> torch.Tensor:
    """All weights after ten steps of one layer."""
    options = {"sequence": sequence, "dtype": DOUBLE, "causal": True}
    layer = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, **options)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for step in range(10):
        x = activations(step)
        optimizer.zero_grad()
        layer(split_sequence(comm, x) if sequence else x).pow(3).mean().backward()
        for weight in layer.parameters():
            weight.grad /= comm.world_size if sequence else 1  # the mean over a part
        if sequence:
            sum_sequence_gradients(comm, layer)
        optimizer.step()
    return torch.cat([weight.detach().flatten() for weight in layer.parameters()])


for ranks in (2, 4):
    some = SimulatedWorld(ranks, contexts="threads")
    pairs = zip(
        some.run(sequence_steps, False), some.run(sequence_steps, True), strict=True
    )
    assert max(off(found, wanted) for found, wanted in pairs) < 1e-9

# %% [markdown]
# In the layers the same bytes, and the same number of messages. And a few more: each rank has now used the norms, and
# the biases that are added after the sum, only on its own part of the sequence. So their gradients must be added up,
# once per step, $6f$ numbers per layer. That is nothing: with 2,048 words in a batch 0.07 % more. Ten
# steps give the weights that they give without it, as the folded cell checks.
#
# Each rank now keeps 34 % of the activations. Why not 25 %? The gradient of `up`'s weights needs the whole input of
# `up`, and it is the same with queries, keys and values. We keep these two gathered inputs whole, and of all else a
# part: $2 + 14/N$. Megatron-LM keeps a part of these two as well, and gathers them again in the backward pass (see
# Korthikanti et al.): $16/N$, for two all-gathers more per layer.

# %% [markdown]
# ## What it costs
#
# Four all-reduces per layer: is that much? It depends on the links. We take a model of 24 layers with 2,048 features,
# and texts of 2,048 words. A device does 200 · 10¹² operations a second. A layer takes $24f^2 + 4sf$ operations per
# word forward, for sequences of $s$ words, and twice that backward. Numbers have 16 bits.
#
# Eight ranks, and two kinds of links: 300 GB/s, as between GPUs of one machine, and 12.5 GB/s, a network of 100
# Gbit/s. Both have a latency of 5 µs. It runs in virtual time. Tensors have shapes but no numbers (torch's `meta`
# device), and an operator makes a rank sleep for as long as it would compute. All layers cost the same, so we run one
# and count it 24 times. Nothing overlaps here; real systems hide a part of the two backward all-reduces behind the
# gradients of the weights.

# %%
LAYERS, WIDTH, WORDS_PER_TEXT, SPEED = 24, 2048, 2048, 200e12
FAST, SLOW = Link(5e-6, 300e9), Link(5e-6, 12.5e9)
LINKS = {"fast": Cluster.flat(8, FAST), "slow": Cluster.flat(8, SLOW)}


def forward_seconds(texts: float, width: int = WIDTH) -> float:
    """One layer, forward, on one device."""
    words = texts * WORDS_PER_TEXT
    return words * (24 * width**2 + 4 * WORDS_PER_TEXT * width) / SPEED


def tensor_parallel_layer(
    comm: Communicator, texts: int, width: int = WIDTH
) -> StepTimes:
    """Forward and backward through one layer: two blocks. When this rank computed, and when it communicated."""
    spans = []

    def sleep(kind: str, seconds: float) -> Step:
        def step(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
            start = comm.time()
            comm.sleep(seconds)
            spans.append(Span(kind, "", start, comm.time()))
            return tensor.clone()

        return step

    shape = texts, WORDS_PER_TEXT, width
    x = torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True)
    y, block = x, forward_seconds(texts, width) / 2 / comm.world_size
    computing = sleep("forward", block), sleep("backward", 2 * block)
    for _ in range(2):
        y = copy_to_ranks(comm, y)
        y = Operator.apply(y, comm, *computing)
        y = sum_over_ranks(comm, y)
    y.sum().backward()
    end = comm.time()
    between = pairwise([*spans, Span("", "", end, end)])
    spans += [Span("communication", "", a.end, b.start) for a, b in between]
    return StepTimes(0, end, spans)


def layer_on(cluster: Cluster, texts: int, width: int = WIDTH) -> StepTimes:
    simulated = SimulatedWorld(cluster.world_size, cluster, contexts="threads")
    return simulated.run(tensor_parallel_layer, texts, width)[0]


def seconds_of(cluster: Cluster, texts: int, width: int = WIDTH) -> float:
    return LAYERS * layer_on(cluster, texts, width).seconds


# %%
guess_8 = predict(
    "8 texts on the slow links: how many times as fast are eight ranks as one that has the whole model?",
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
print(guess_8.compare(one_device / tensor_seconds["slow"]))
step_timeline(
    {f"{name} links": layer_on(cluster, 8) for name, cluster in LINKS.items()},
    title="One layer, forward and backward, on one of eight ranks",
)

# %% tags=["folded"]
# Checks of the numbers above: the time is computing, and 4 ring all-reduces per layer
for name, cluster in LINKS.items():
    each = duration.ring_all_reduce(cluster, 8 * WORDS_PER_TEXT * WIDTH, 2)
    assert abs(tensor_seconds[name] - one_device / 8 - 4 * LAYERS * each) < 1e-9
assert f"{one_device / tensor_seconds['slow']:.1f}" == "0.7"
assert f"{one_device / tensor_seconds['fast']:.1f}" == "5.3"
each = duration.ring_all_reduce(LINKS["fast"], 8 * WORDS_PER_TEXT * WIDTH, 2)
products = [2 * 8 * WORDS_PER_TEXT * n * WIDTH**2 / SPEED / 8 for n in (3, 4)]
hidden = LAYERS * sum(min(each, product) for product in products)
assert f"{one_device / (tensor_seconds['fast'] - hidden):.1f}" == "5.9"

# %% [markdown]
# Eight devices are *slower* than one. On the fast links they are 5.3 times as fast. (Hiding what can be hidden would
# make it 5.9.)
#
# Would a larger batch help? There is twice as much to compute, and twice as much to send. Where latency does not
# matter, the ratio stays:
#
# $$\frac{\text{messages}}{\text{computing}} = \frac{16\,(N-1)}{72f + 12s} \cdot
# \frac{\text{operations per second}}{\text{bytes per second}}$$
#
# No batch size in it. What helps is a *wider* model: computing grows as $f^2$, and messages as $f$. Longer texts help
# too, and fewer ranks.

# %%
print("ranks  features  texts   fast   slow   part of the time for messages")
shares = {}
for case in ((8, 2048, 1), (8, 2048, 8), (8, 2048, 64), (8, 8192, 8), (2, 2048, 8)):
    ranks, width, texts = case
    computing = 3 * LAYERS * forward_seconds(texts, width) / ranks
    shares[case] = [
        1 - computing / seconds_of(Cluster.flat(ranks, link), texts, width)
        for link in (FAST, SLOW)
    ]
    fast, slow = shares[case]
    print(f"{ranks:5}  {width:8}  {texts:5}  {fast:5.0%}  {slow:5.0%}")
    ratio = 16 * (ranks - 1) / (72 * width + 12 * WORDS_PER_TEXT)
    ratio *= SPEED / SLOW.bandwidth
    assert texts == 1 or abs(slow / (1 - slow) / ratio - 1) < 0.01
assert [f"{shares[8, width, 8][0]:.0%}" for width in (2048, 8192)] == ["34%", "11%"]
assert f"{shares[2, 2048, 8][0]:.0%}" == "6%"

# %% [markdown]
# From 8 texts to 64 hardly anything changes. (With one text, latency counts on the fast links.) There a model with four
# times as many features pays 11 % of the time, instead of 34 %. And two ranks instead of eight pay 6 %.
#
# ### Against the others
#
# The same model and the same eight ranks, in three ways. **Data parallel:** every rank takes an eighth of the texts
# through all layers. The all-reduce of the gradients hides behind the backward pass, as far as it fits. **Pipeline:**
# three layers per rank, 1F1B, one text per microbatch. **Tensor parallel:** as above.


# %%
def data_seconds(cluster: Cluster, texts: int) -> float:
    forward = LAYERS * forward_seconds(-(-texts // 8))
    gradients = duration.ring_all_reduce(cluster, 12 * WIDTH**2 * LAYERS, 2)
    return forward + max(2 * forward, gradients)


def pipeline_seconds(cluster: Cluster, texts: int) -> float:
    forward = LAYERS / 8 * forward_seconds(1)
    transfer = cluster.intra.seconds(WORDS_PER_TEXT * WIDTH * 2)
    costs = Costs(forward, 2 * forward, transfer=transfer)
    return time_schedule(one_forward_one_backward(8, texts), costs).seconds


BATCHES = (1, 2, 4, 8, 16, 32, 64)
STRATEGIES = {"data": data_seconds, "pipeline": pipeline_seconds, "tensor": seconds_of}
per_text = {
    f"{name}, {link}": {texts: seconds(cluster, texts) / texts for texts in BATCHES}
    for link, cluster in LINKS.items()
    for name, seconds in STRATEGIES.items()
}
curves(
    {
        name: [(n, 1e3 * t) for n, t in times.items()]
        for name, times in per_text.items()
    },
    along="texts in a batch",
    values="ms per text",
    title="A training step on eight ranks, three strategies, two kinds of links",
    subtitle="virtual time",
)

# %% tags=["folded"]
# Checks of what is said below
fastest = {
    (link, texts): min(STRATEGIES, key=lambda name: per_text[f"{name}, {link}"][texts])
    for link in LINKS
    for texts in BATCHES
}
by_link = {link: [fastest[link, texts] for texts in BATCHES] for link in LINKS}
assert by_link["fast"] == ["tensor"] * 3 + ["data"] * 4
assert by_link["slow"] == ["pipeline"] * 5 + ["data"] * 2
one_text = 3 * LAYERS * forward_seconds(1)
assert f"{one_text / per_text['tensor, fast'][1]:.1f}" == "3.9"
assert one_text / per_text["pipeline, fast"][1] < 1
gradients = duration.ring_all_reduce(LINKS["slow"], 12 * WIDTH**2 * LAYERS, 2)
backward = {texts: 2 * LAYERS * forward_seconds(texts / 8) for texts in (32, 64)}
assert 0.65 < backward[32] / gradients < 0.7 and gradients < backward[64]
assert 1 < per_text["pipeline, slow"][32] / per_text["data, slow"][32] < 1.05
pipeline_bytes = 2 * 64 * WORDS_PER_TEXT * WIDTH * 2
assert pipeline_bytes < traffic.ring_all_reduce(8, 12 * WIDTH**2 * LAYERS, 2).nbytes[0]

# %% [markdown]
# - **One text, fast links.** Only tensor parallelism makes it faster, 3.9 times. A pipeline takes as long as one
#   rank, and in data parallelism one rank does it, while seven have nothing to do.
# - **From 8 texts on, fast links.** Data parallelism is ahead, if the model fits. Its messages don't grow with the
#   batch.
# - **Slow links.** Up to here the pipeline sends least, and is ahead up to 16 texts. From 32 texts on data parallelism
#   is, first by a little: two thirds of its messages hide behind the backward pass, at 64 texts all of them.
#
# What if the eight ranks are two machines of four? On the ring only two of eight links are slow.

# %%
LINKS["two machines"] = Cluster(nodes=2, ranks_per_node=4, intra=FAST, inter=SLOW)
for name, cluster in LINKS.items():
    print(f"{name:13} {seconds_of(cluster, 8) * 1e3:5.0f} ms")
mixed = seconds_of(LINKS["two machines"], 8)
words = 8 * WORDS_PER_TEXT * WIDTH
grouped = duration.hierarchical_all_reduce(LINKS["two machines"], words, 2, 4)
better = one_device / 8 + 4 * LAYERS * grouped
print(f"two machines, hierarchical all-reduce: {better * 1e3:.0f} ms")
half = seconds_of(Cluster.flat(4, FAST), 8)
print(f"one of the two machines alone: {half * 1e3:.0f} ms")
assert mixed > 0.95 * tensor_seconds["slow"] and half < better < mixed / 3
assert f"{half * 1e3:.0f} {better * 1e3:.0f}" == "208 251"

# %% [markdown]
# A ring is as slow as its slowest link. The hierarchical all-reduce of lesson 03 adds up within each machine first,
# and helps a lot. Still, four devices of one machine alone take 208 ms, and all eight together 251. So a group for
# tensor parallelism lies within one machine, and other strategies connect the machines. How to combine them is the
# subject of lesson 12.
#
# ### When not to
#
# - **When the model fits**, with its activations. Use data parallelism.
# - **Across slow links.** Use a pipeline there, or data parallelism.
# - **When layers are narrow.** The narrower, the larger the part of the time for messages. And products of thin
#   matrices make poor use of a GPU, which virtual time does not show.
# - **With more ranks than the memory demands**, or more than heads.
#
# ## Sizes that don't divide
#
# Our layers want equal parts: as many heads on each rank, as many hidden features, as many words. What if a size does
# not divide?


# %%
def six_heads(comm: Communicator) -> None:
    ParallelAttention(comm, features=24, heads=6)


def real_vocabulary(comm: Communicator) -> None:
    VocabularyParallelEmbedding(comm, 50_257, features=1)


for ranks, function in ((4, six_heads), (8, real_vocabulary)):
    try:
        SimulatedWorld(ranks).run(function)
    except RankError as error:
        print(str(error).splitlines()[0])
        assert "divide, got" in str(error)
for multiple in (8, 8 * 128):
    words = -(-50_257 // multiple) * multiple
    print(f"padded to a multiple of {multiple:,}: {words:,} words")

# %% [markdown]
# Heads you choose so that they divide. A vocabulary you *pad*: you add words that never occur, as our language model
# above has them. Megatron-LM pads to a multiple of 128 per rank, since such matrices are faster on a GPU.
#
# ## In real frameworks
#
# torch has tensor parallelism in `torch.distributed.tensor.parallel`. You write a model. Then `parallelize_module`
# replaces its parameters by **DTensors**: tensors that know how they are cut over the ranks of a `DeviceMesh`. The plan
# names the layers: `ColwiseParallel()`, `RowwiseParallel()`. Which messages that takes, DTensor works out by itself:
# each tensor is `Shard(dim)`, `Replicate()` or `Partial()`, a term of a sum.
#
# Here is a transformer layer in plain torch, on two real ranks, with the weights of torch's own layer. Queries, keys
# and values are three matrices, so that the plan can name them. One thing the model must not say: how many heads there
# are. A rank sees only its own, so we write `unflatten(-1, (-1, size))`. (`(HEADS, size)` fails, in the last line of
# the output.) `CommDebugMode` counts the collectives.

# %%
from torch.distributed import _functional_collectives, group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


class Attention(nn.Module):
    heads = -1  # as many as there are

    def __init__(self, whole: nn.MultiheadAttention) -> None:
        super().__init__()
        weights, biases = whole.in_proj_weight.chunk(3), whole.in_proj_bias.chunk(3)
        self.q, self.k, self.v = map(linear_of, weights, biases)
        self.out = linear_of(whole.out_proj.weight, whole.out_proj.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = FEATURES // HEADS
        split = self.heads, size
        heads = (p(x).unflatten(-1, split) for p in (self.q, self.k, self.v))
        mixed = scaled_dot_product_attention(*(each.transpose(1, 2) for each in heads))
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
# Three plans: the layers alone; the layers, and one operator before the attention; and sequence parallelism.

# %%
Plan = dict[str, ParallelStyle]


def plan_of(kind: str) -> Plan:
    column, row = ColwiseParallel, RowwiseParallel
    cut: Plan = {f"attention.{name}": column() for name in "qkv"} | {"mlp.0": column()}
    if kind == "layers":
        return cut | {"attention.out": row(), "mlp.2": row()}
    if kind == "one input":
        same = dict(input_layouts=Replicate(), desired_input_layouts=Replicate())
        whole = {"attention": PrepareModuleInput(**same)}
        return whole | cut | {"attention.out": row(), "mlp.2": row()}
    gather = dict(input_layouts=Shard(1), desired_input_layouts=Replicate())
    blocks = {name: PrepareModuleInput(**gather) for name in ("attention", "mlp")}
    norms = {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
    ends = {name: row(output_layouts=Shard(1)) for name in ("attention.out", "mlp.2")}
    return norms | blocks | cut | ends


Counted = dict[str, int]


def counts(mode: CommDebugMode) -> Counted:
    """Collectives by name, as ours are called: "all_gather_into_tensor" is an all-gather."""
    found = {
        str(name).split(".")[-1]: n for name, n in mode.get_comm_counts().items() if n
    }
    endings = "_into_tensor", "_tensor"
    for ending in endings:
        found = {name.removesuffix(ending): n for name, n in found.items()}
    return found


def with_torch(
    comm: Communicator, whole: nn.TransformerEncoderLayer, kind: str, heads: int = -1
) -> tuple[Tensors, dict[str, Counted], list[str]]:
    """Output and gradients, whole; what was called when; whose gradients are still terms."""
    block, x = Block(whole), activations()
    block.attention.heads = heads
    with torch_distributed(comm):
        mesh = init_device_mesh("cpu", (comm.world_size,))
        parallelize_module(block, mesh, plan_of(kind))
        x = split_sequence(comm, x) if kind == "sequence" else x
        with CommDebugMode() as forward:
            y = block(x.clone().requires_grad_())
            found = {"output": y.detach().clone()}  # waits until it is there
        with CommDebugMode() as backward:
            y.square().sum().backward()
        partial = []
        for name, weight in block.named_parameters():
            found[name] = gradient = weight.grad
            if isinstance(gradient, DTensor):
                partial += [name] * gradient.placements[0].is_partial()
                found[name] = gradient.full_tensor()
        called = {"forward": counts(forward), "backward": counts(backward)}
        with CommDebugMode() as step:
            torch.optim.SGD(block.parameters()).step()
        called["step"] = counts(step)
    return found, called, partial


torch.manual_seed(4)
options = dict(activation=gelu, batch_first=True, norm_first=True, dropout=0.0)
torch_layer = nn.TransformerEncoderLayer(
    FEATURES, HEADS, HIDDEN, **options, dtype=DOUBLE
)
lone = Block(torch_layer)
y = lone(activations())
y.square().sum().backward()
theirs = {}
with World(2) as real:
    for kind in ("layers", "one input", "sequence"):
        by_rank = real.run(with_torch, torch_layer, kind)
        _, theirs[kind], partial = by_rank[0]
        gaps = [
            off(found[name], weight.grad)
            for found, *_ in by_rank
            for name, weight in lone.named_parameters()
        ]
        outputs = [found["output"] for found, *_ in by_rank]
        outputs = [torch.cat(outputs, dim=1)] if kind == "sequence" else outputs
        gaps += [off(output, y) for output in outputs]
        print(f"{kind}: largest difference {max(gaps):.0e}")
        for when, calls in theirs[kind].items():
            print(f"    {when:9} {calls}")
        assert max(gaps) < 1e-10
    try:
        real.run(with_torch, torch_layer, "layers", heads=HEADS)
    except RankError as error:
        print(f"with {HEADS} heads in the model:", str(error).splitlines()[0])
        assert "unflatten" in str(error)


# %% [markdown]
# The same numbers, to rounding. Now the messages. What do ours send, in the same layer on two ranks?


# %%
def calls_of(trace: Trace) -> Counted:
    """How often rank 0 called which collective; a ring all-reduce is 2(N − 1) messages, its halves N − 1."""
    each = trace.world_size - 1
    names = Counter(
        message.site.call.partition("(")[0] for message in trace if message.src == 0
    )
    return {
        name: n // each // (1 + (name == "all_reduce")) for name, n in names.items()
    }


def ours(
    comm: Communicator, sequence: bool, backward: bool, step: bool = False
) -> None:
    options = {"sequence": sequence, "dtype": DOUBLE}
    layer = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, **options)
    x = split_sequence(comm, activations()) if sequence else activations()
    y = layer(x.requires_grad_())
    if backward:
        y.square().sum().backward()
    if step:
        sum_sequence_gradients(comm, layer)


def added(more: Counted, less: Counted) -> Counted:
    return dict(Counter(more) - Counter(less))


for sequence in (False, True):
    calls = []
    for backward in (False, True):
        two.run(ours, sequence, backward)
        calls.append(calls_of(two.trace))
    forward, both = calls
    print(f"sequence={sequence}: forward {forward}, backward {added(both, forward)}")
    same = theirs["sequence" if sequence else "one input"]
    assert forward == same["forward"] and added(both, forward) == same["backward"]
two.run(ours, sequence=True, backward=True, step=True)
print(f"    before the step {added(calls_of(two.trace), both)}")

# %% tags=["folded"]
# Checks of what is said below
assert theirs["layers"]["backward"] == {"all_reduce": 3 + 1}
assert partial == ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"]
assert theirs["sequence"]["step"] == {"all_reduce": 4}
assert theirs["layers"]["step"] == theirs["one input"]["step"] == {}
assert calls_of(two.trace)["all_reduce"] == 1

# %% [markdown]
# - **The plan of the layers alone** calls *four* all-reduces backward. DTensor does what you have seen: each of the
#   three projections adds up its own gradient of $x$. Nothing warns you. With `PrepareModuleInput` there is one
#   operator before all three, and it is two, as in ours.
# - **Sequence parallelism** takes the same collectives as ours. But DTensor leaves the gradients of the norms as
#   `Partial`, terms of a sum. They are added up in the optimizer's step: four all-reduces with SGD. Ours calls one
#   before the step, for all of them together.
#
# Two more: the loss over a cut vocabulary, and torch's differentiable all-reduce, whose backward pass adds up again.


# %%
def all_reduce_of_torch(comm: Communicator) -> float:
    """The gradient of a number, of which the ranks take the sum as their loss."""
    number = torch.ones((), requires_grad=True)
    with torch_distributed(comm):
        total = _functional_collectives.all_reduce(number, "sum", group.WORLD)
        total.backward()
    return number.grad.item()


def loss_with_torch(comm: Communicator) -> tuple[Counted, float]:
    """All collectives, and how far the loss and the gradient of what stands below are off."""
    torch.manual_seed(5)
    hidden = torch.randn(8, 16, dtype=DOUBLE, requires_grad=True)
    scores = nn.Sequential(nn.Linear(16, 32, bias=False, dtype=DOUBLE))
    wanted = cross_entropy(scores(hidden), torch.arange(8))
    (gradient,) = torch.autograd.grad(wanted, hidden)
    with torch_distributed(comm):
        mesh = init_device_mesh("cpu", (comm.world_size,))
        keep_cut = ColwiseParallel(use_local_output=False)
        parallelize_module(scores, mesh, {"0": keep_cut})
        with loss_parallel(), CommDebugMode() as mode:
            loss = cross_entropy(scores(hidden), torch.arange(8))
            loss.backward()
        gap = abs(loss.full_tensor().item() - wanted.item())
    return counts(mode), max(gap, off(hidden.grad, gradient))


with World(2) as real:
    called, gap = real.run(loss_with_torch)[0]
    twice_counted = real.run(all_reduce_of_torch)
two.run(loss_of_cut_scores, gather=False)
print(f"loss: {called}; ours {calls_of(two.trace)}")
print(f"gradient through torch's all-reduce: {twice_counted}")
assert gap < 1e-12 and called == {"all_reduce": 3 + 1}
assert calls_of(two.trace) == {"all_reduce": 2} and twice_counted == [2, 2]

# %% [markdown]
# For the loss torch calls three all-reduces where ours calls two: the sum and the target's score travel one after the
# other. (The fourth is that of the column-parallel layer, backward.) Nothing is gathered. And the gradient through the
# sum is 2 on two ranks.
#
# In real training you would also meet:
#
# - **Megatron-LM**, where this comes from. Servers of language models such as vLLM use it too: there one text must
#   get through fast.
# - **[JAX](14_jax.ipynb)**: you say how each matrix is cut, and a compiler finds the messages.
#
# ## In short
#
# For $N$ ranks, a layer of $f$ features, and $S$ bytes of activations $x$:
#
# | | forward | backward | bytes per rank |
# |---|---|---|---|
# | column parallel | nothing | all-reduce of its input's gradient | $2\frac{N-1}{N}S$ |
# | row parallel | all-reduce of its output | nothing | $2\frac{N-1}{N}S$ |
# | transformer layer | 2 all-reduces | 2 all-reduces | $8\frac{N-1}{N}S$ |
# | with sequence parallelism | 2 all-gathers, 2 reduce-scatters | the same | $8\frac{N-1}{N}S$, and a little |
#
# - What one operator does forward, its partner does backward. Forget what goes back, and only the gradients below are
#   wrong.
# - Send where it is narrow: an MLP is the sum of thin MLPs, and attention a sum over the heads.
# - Weights, gradients and optimizer state shrink as $1/N$. Activations shrink to $4 + 12/N$ of 16, with sequence
#   parallelism to $2 + 14/N$.
# - On a slow link a larger batch does not help. Wider layers and fewer ranks do.
#
# ## Now you
#
# In [the exercise](../exercises/10_tensor_parallel/10_tensor_parallel.ipynb) you write the column-parallel and the
# row-parallel layer, and attention over several ranks.
#
# ## Further reading
#
# - M. Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019. Section 3: the two cuts, the operators
#   *f* and *g*, four all-reduces, the cross-entropy over a cut vocabulary.
# - V. Korthikanti et al., [Reducing Activation Recomputation in Large Transformer
#   Models](https://arxiv.org/abs/2205.05198), 2022. Sequence parallelism, and what a layer keeps, byte by byte.
# - D. Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
#   Clusters](https://arxiv.org/abs/2104.04473), SC 2021. Tensor parallelism inside a machine, pipelines between them.
# - T. Brown et al., [Language Models are Few-Shot Learners](https://arxiv.org/abs/2005.14165), 2020. Table 2.1: the
#   sizes of GPT-3.
# - [torch.distributed.tensor.parallel](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html),
#   torch's manual.
