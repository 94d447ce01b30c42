# %% [markdown]
# # Tensor parallelism
#
# To train a single layer of GPT-3 takes 29 GB, so that only two layers fit into a GPU of 80 GB. A pipeline of 48 GPUs
# could hold all 96 layers, but it needs 423 microbatches to keep these GPUs busy. In this lesson you cut the layer
# itself.
#
# > After this lesson you will be able to
# >
# > - cut a linear layer over several ranks in two ways, and say what each way needs and what it gives,
# > - derive what ranks must send backward from what they send forward, and know the mistakes that nobody notices,
# > - put layers together so that an MLP, or attention, needs one all-reduce forward and one backward,
# > - count the bytes of a transformer layer before it runs,
# > - compute the loss over a large vocabulary without ever gathering its scores,
# > - say when tensor parallelism is the wrong choice.
# >
# > **Time:** about 125 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [Pipeline](09_pipeline.ipynb). No
# > GPU. [Lesson 10b](10b_whole_transformer.ipynb) goes on where this one ends: with a whole language model over ranks,
# > its memory, and the other strategies. It is optional.

# %% tags=["folded"]
# The imports
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from statistics import mean
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, linear
from torch.utils.checkpoint import checkpoint

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
# Two layers fit on a device of 80 GB, not counting activations. A pipeline would need at least 48 ranks, and with 1F1B
# 423 microbatches for a bubble of 10 % (interleaved, with two stages per rank, 240).
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


# %%
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


# %% tags=["folded"]
# How far gradients are off: each rank's are compared with the part that is its own
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
# The opposite mistake is one all-reduce too many: forward *and* backward at the end, so gradients are *summed twice*.
# torch's own differentiable all-reduce, `torch.distributed.nn.functional.all_reduce`, does this. (torch 2.13 calls it
# deprecated. Its successor, in `torch.distributed._functional_collectives`, does the same.) It takes the ranks' losses
# as separate ones, and adds up their gradients. Here all ranks compute the same loss, which then counts four times.

# %%
SUMMED_TWICE = (add_up, add_up)
twice = errors(world.run(forward_backward, end=SUMMED_TWICE))
for name, error in twice.items():
    print(f"{name:12}  {error:7.0%}")
assert abs(twice["up.weight"] - 3) < 1e-9 and abs(twice["down.weight"] - 3) < 1e-9
assert 0.3 < twice["below.weight"] < 1 and 0.3 < twice["below.bias"] < 1
assert max(twice["output"], twice["above.weight"], twice["down.bias"]) < 1e-12

# %% [markdown]
# The gradients of the thin MLPs are four times as large, an error of 300 %. (`down.bias` is added after the operator.)
# The layer below gets two terms: one straight from `x + y`, and one through the MLP. Only the second has the factor 4.
#
# What becomes of both mistakes in training? We train 20 steps, with SGD and with Adam. The last columns say how far a
# rank's layer below is from other ranks', and from that of one process.

# %%
OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
}
Trained = tuple[dict[str, float], torch.Tensor]


def train(
    comm: Communicator,
    optimizer: str,
    rate: float,
    steps: int = 20,
    seed: int = 0,
    begin: Operators = BEGIN,
    end: Operators = END,
) -> Trained:
    """Losses: the first, the last, of new images. And the weights of the layer below."""
    model = Reader(comm, begin, end, seed)
    taking = OPTIMIZERS[optimizer](model.parameters(), lr=rate)
    losses, new = [], slice(64 * 20, None)
    for step in range(steps):
        batch = slice(64 * (step % 20), 64 * (step % 20 + 1))
        taking.zero_grad()
        loss = cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        taking.step()
        losses.append(loss.item())
    own = model.below.weight.detach().clone()
    found = {"first": losses[0], "last": losses[-1]}
    for name in ("new images", "copy of rank 0"):
        found[name] = cross_entropy(model(images[new]), labels[new]).item()
        for weight in model.below.parameters():
            broadcast(comm, weight.data)  # rank 0's
    return found, own


# %%
RUNS: dict[str, dict[str, Operators]] = {
    "right": {},
    "forgotten": {"begin": (nothing, nothing)},
    "summed twice": {"end": SUMMED_TWICE},
}
trained, apart, away = {}, {}, {}
print("                    first   last   ranks apart   from right")
for optimizer, rate in (("SGD", 0.2), ("Adam", 0.01)):
    ((_, wanted),) = alone.run(train, optimizer, rate)
    for name, operators in RUNS.items():
        by_rank = world.run(train, optimizer, rate, **operators)
        run = optimizer, name
        trained[run], weights = by_rank[0]
        apart[run] = max(off(other, weights) for _, other in by_rank)
        away[run] = off(weights, wanted)
        first, last, *_ = trained[run].values()
        print(
            f"{optimizer:5} {name:12}  {first:5.2f}  {last:5.2f}"
            f"   {apart[run]:11.2f}   {away[run]:10.2f}"
        )

# %% tags=["folded"]
# Checks of what is said below
for (optimizer, name), found in trained.items():
    assert found["first"] - found["last"] > 0.8
    assert (apart[optimizer, name] > 0.1) == (name == "forgotten")
    assert (away[optimizer, name] > 0.1) == (name != "right")
    gap = abs(found["last"] - trained[optimizer, "right"]["last"])
    assert gap > 0.3 if (optimizer, name) == ("SGD", "summed twice") else gap < 0.1

# %% [markdown]
# In all runs the loss goes down, and no error appears. Only SGD with the gradients summed twice looks bad. (Adam
# divides by the size of a gradient, so where all of it has the same factor, the factor does not show. In the layer
# below only one of two terms has it, and the weights go another way.)
#
# With a gradient forgotten the ranks now have four *different* layers below, and soon different layers above, too,
# since these see different inputs. The model works with these four. Surely the loss on images that it has not seen must
# tell? Look at other seeds before you believe a number of one. We take five, in three settings: a large rate for 20
# steps, and a small one for 60 steps and for 20.

# %%
guess_3 = predict(
    "The all-reduce is forgotten. On new images the model is …",
    choices=[
        "worse, or as good, in all settings",
        "worse in one, better in another",
        "better, or as good, in all settings",
    ],
)

# %% [markdown]
# One control runs along. In "rank 0's" every rank gets the term of rank 0 as its gradient. So the steps are as short
# as in "forgotten", since each is made with one term of four. But they are the same on all ranks, and so is the layer
# below.


# %%
def rank_0s(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    term = tensor.clone(memory_format=torch.contiguous_format)
    broadcast(comm, term)
    return term


RUNS["rank 0's"] = {"begin": (nothing, rank_0s)}
LARGE, SMALL, SHORT = SETTINGS = (0.2, 20), (0.05, 60), (0.05, 20)  # rate, steps
SEEDS = range(5)
Setting = tuple[float, int]
new_images: dict[tuple[Setting, str], list[float]] = {}
print("rate, steps               loss on new images, seeds 0 to 4      mean")
for setting, (name, ways) in product(SETTINGS, RUNS.items()):
    runs = [world.run(train, "SGD", *setting, seed, **ways)[0][0] for seed in SEEDS]
    new_images[setting, name] = [run["new images"] for run in runs]
    if name == "forgotten":
        new_images[setting, "copy"] = [run["copy of rank 0"] for run in runs]
for (setting, name), losses in new_images.items():
    each = "  ".join(f"{loss:.3f}" for loss in losses)
    print(f"{setting!s:10}  {name:12}  {each}  {mean(losses):.3f}")


def wins(setting: Setting, first: str, second: str) -> int:
    """In how many seeds the first has the smaller loss."""
    pairs = zip(new_images[setting, first], new_images[setting, second], strict=True)
    return sum(a < b for a, b in pairs)


better = {setting: wins(setting, "forgotten", "right") for setting in SETTINGS}
print("forgotten is better than right, in seeds of 5:", better)
verdict = "worse in one, better in another"
if min(better.values()) > 1 or max(better.values()) < 4:
    worse = max(better.values()) < 4
    verdict = f"{'worse' if worse else 'better'}, or as good, in all settings"
print(guess_3.compare(verdict))

# %% tags=["folded"]
# Checks of what is said below, with room for other machines
means = {run: mean(losses) for run, losses in new_images.items()}
assert better[LARGE] >= 4 and better[SMALL] <= 1
assert 0.004 < means[LARGE, "right"] - means[LARGE, "forgotten"] < 0.1
assert 0.004 < means[SMALL, "forgotten"] - means[SMALL, "right"] < 0.1
assert abs(means[SHORT, "forgotten"] - means[SHORT, "right"]) < 0.01
assert wins(SMALL, "rank 0's", "right") <= 1
assert means[SMALL, "rank 0's"] > means[SMALL, "right"] + 0.01
assert means[LARGE, "rank 0's"] < means[LARGE, "right"]
for setting in (LARGE, SMALL):
    assert wins(setting, "forgotten", "rank 0's") >= 4
    assert means[setting, "forgotten"] < means[setting, "rank 0's"] - 0.004
    assert wins(setting, "forgotten", "copy") >= 4
    copies = new_images[setting, "copy"], new_images[setting, "forgotten"]
    assert max(copy - forgotten for copy, forgotten in zip(*copies, strict=True)) < 0.05
assert wins(LARGE, "right", "summed twice") == 5
assert wins(SMALL, "summed twice", "right") >= 3
assert means[SMALL, "summed twice"] < means[SMALL, "right"] - 0.005

# %% [markdown]
# At the large rate, stopped after 20 steps, the wrong model is the *better* one. At the small rate, after 60 steps, it
# is the worse one, and after 20 there is hardly any difference. Two things happen at once.
#
# - **A smaller step.** Of the four terms that come through the MLP, the layer below gets one. That acts like a smaller
#   rate, there alone. "Rank 0's" shows what this does by itself: with rate 0.2 and 20 steps it helps a little
#   on average, in about half of all seeds, and with 0.05 and 60 steps it slows down.
# - **Four readers.** Four different layers below, each with its own thin MLP, are a small *ensemble*, and have four
#   times as many weights. In "rank 0's" there is one reader, with steps as short. Forgotten is better than it in at
#   least four of five seeds, at 0.2 and 20 steps and at 0.05 and 60: that is what the other three readers do.
#
# And "summed twice" acts like a larger rate. At the large rate it is bad in all five seeds. With 0.05 and 60 steps it
# is *better* than right, on average.
#
# A checkpoint has *one* layer below. Load rank 0's on all ranks ("copy"), and the loss rises, in at least four of
# five seeds, in these two settings. By how much is luck: by some thousandths, or by some hundredths.
#
# So neither a loss that falls nor a loss on new images finds this mistake. Test gradients against one process. And
# compare replicated weights between ranks from time to time.

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


# %% [markdown]
# In "row, column" each rank takes its own part of $x$, computes its term of the hidden features, and the terms must be
# summed *before* GELU. Then each rank has all hidden features, computes its part of the output, and the parts are
# gathered. In both pairs the ranks also send something backward.

# %%
guess_4 = predict(
    "16 features, 64 hidden. How many times as many bytes does a rank send with the "
    "rows first, then the columns?",
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
print(guess_4.compare(sent["row, column"] / sent["column, row"]))

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


# %% tags=["folded"]
# What each rank has, and where in the whole array it belongs
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
# Look at `up`, a weight. It is cut into bands, one below the other, although the way is called "column": torch keeps
# the matrix transposed.
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
# The rule is not "columns first". It is: send where it is narrow. In a transformer the hidden features are four times
# as many, so the two all-reduces stand outside of them.
#
# </details>
#
# ## Attention
#
# A transformer reads *tokens*: words, or pieces of words, each with a number. A text is a *sequence* of them, and each
# stands at a *position*. A batch is some sequences of the same length.
#
# Attention is made of heads. Each head has its own queries, keys and values, looks at all positions of the sequence,
# and needs nothing from another head. So each rank takes some of the heads. Queries, keys and values are column
# parallel. What the heads give are features, of which each rank has some, complete. The output layer is row parallel.
# It is an MLP all over again, with softmax in the place of GELU:
#
#     x ──► q, k, v of heads 0, 1, by columns ──► softmax(q·kᵀ)·v ──► output, by rows ──► term of rank 0 ─┐
#     x ──► q, k, v of heads 2, 3, by columns ──► softmax(q·kᵀ)·v ──► output, by rows ──► term of rank 1 ─┴─ sum ──► y
#
# Many models keep the three matrices as one, of $3f$ outputs: first all queries, then all keys, then all values. If
# you cut that into two equal pieces, rank 0 gets all queries and half of the keys. Each of the three sections must be
# cut by itself:


# %%
def own_rows(comm: Communicator, sections: int) -> list[int]:
    return tp.ColumnParallelLinear(comm, 4, 12, sections=sections).rows


two = SimulatedWorld(2)
for sections in (1, 3):
    print(f"4 features, {sections} section(s):", two.run(own_rows, sections))
assert two.run(own_rows, 3)[0] == [0, 1, 4, 5, 8, 9]

# %% [markdown]
# A transformer layer is attention and an MLP. Each stands behind a LayerNorm, and its result is added to its input:
# $x + \text{attention}(\text{norm}(x))$, then $x + \text{mlp}(\text{norm}(x))$. The norms and the additions are not
# cut. Every rank does them, all of them.

# %%
guess_5 = predict(
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


counted = {}
for block in ("MLP", "attention", "whole layer"):
    world.run(one_block, block, backward=False)
    forward = all_reduces(world.trace)
    world.run(one_block, block)
    counted[block] = forward, all_reduces(world.trace) - forward
    print(f"{block:11}  forward {counted[block][0]}, backward {counted[block][1]}")
print(guess_5.compare(sum(counted["whole layer"])))
assert counted == {"MLP": (1, 1), "attention": (1, 1), "whole layer": (2, 2)}


# %% tags=["folded"]
# Check of what is said below
def recomputed_layer(comm: Communicator, all_of_it: bool) -> None:
    layer = tp.ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, dtype=DOUBLE)
    x = activations().requires_grad_()
    checkpoint(layer, x, use_reentrant=all_of_it).square().sum().backward()


for all_of_it, wanted_calls in ((True, 6), (False, 5)):
    world.run(recomputed_layer, all_of_it)
    assert all_reduces(world.trace) == wanted_calls

# %% [markdown]
# Four, as in the Megatron-LM paper. No softmax, no GELU, no hidden feature is ever sent. (With recomputation, as in
# lesson 09, the backward pass runs the forward pass again, with its all-reduces: that makes six. torch's `checkpoint`
# stops before the last one, since nothing in the backward pass needs that sum: five.)
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
# the middle of the computation. Forward, the next matrix can't begin before the sum of the same samples is there.
# Backward only a part can hide: while the gradient of $x$ is added up, a rank can compute the gradient of its
# weights. (Newer systems cut a product into pieces and send one piece while they compute the next: *asynchronous*
# tensor parallelism, see Wang et al. below.)

# %% [markdown]
# ## Both ends: the vocabulary
#
# A language model begins with an embedding, a table of vocabulary × features. It often ends with the same table: the
# score of each token is the product of its row and the hidden state. In the field these scores are called *logits*. For
# GPT-3 that is 50,257 × 12,288, as much as a third of a layer. So cut it along the vocabulary: each rank knows some of
# the tokens.
#
# - **Embedding.** A rank looks up its own tokens, and has zeros for the others'. The sum over the ranks is the
#   embedding: one all-reduce.
# - **Scores.** Each rank computes the scores of its own tokens. That is a column-parallel layer, and sends nothing.
# - **Loss.** At each position it is $\log\sum_v e^{s_v} - s_\text{target}$. It needs the scores of all
#   tokens of the vocabulary there. So gather them?
#
# Look again. The sum over the vocabulary is a sum of the ranks' sums. And the score of the target is on one of the
# ranks. So two numbers per position are enough. All-reduces need one more, the largest score, so that nothing
# overflows: $e^{s_v - \max}$.

# %%
guess_6 = predict(
    "A vocabulary of 1,536 tokens, 4 ranks. Gathering the scores sends how many times "
    "as many bytes as adding up three"
    " numbers per position?",
    unit="times",
)

# %%
VOCABULARY, LENGTH = 1536, 32


def loss_of_cut_scores(
    comm: Communicator, gather: bool, vocabulary: int = VOCABULARY
) -> tuple[float, torch.Tensor]:
    """The loss, and the gradient of this rank's scores. What is sent is only for the loss."""
    generator = torch.Generator().manual_seed(3)
    whole = 5 * torch.randn(LENGTH, vocabulary, dtype=DOUBLE, generator=generator)
    targets = torch.randint(vocabulary, (LENGTH,), generator=generator)
    scores = own_part(comm, whole).requires_grad_()
    if gather:
        loss = cross_entropy(Operator.apply(scores, comm, *JOIN), targets)
    else:
        loss = tp.vocabulary_parallel_cross_entropy(comm, scores, targets)
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
print(guess_6.compare(cost[True] / cost[False]))

# %% tags=["folded"]
# Checks of the numbers above and below, for other vocabularies and numbers of ranks
assert cost[True] / cost[False] == VOCABULARY / 6 == 256
for ranks, vocabulary in [(2, 48), (4, 96), (8, 24)]:
    few = SimulatedWorld(ranks, contexts="threads")
    amounts = []
    for gather in (True, False):
        few.run(loss_of_cut_scores, gather, vocabulary)
        amounts.append(few.trace.bytes_sent[0])
    assert amounts[0] / amounts[1] == vocabulary / 6
assert f"{50_257 * 12_288 / (12 * 12_288**2):.2f}" == "0.34"
assert f"{2048 * 50_257 * 4 / 1e6:.0f} {50_257 / 6:,.0f}" == "412 8,376"

# %% [markdown]
# 256 times. Per position, an all-gather of $V$ numbers against all-reduces of 3: $V/6$, with the vocabulary of GPT-3
# 8,376. Backward nothing is sent, because the gradient of a score is its softmax, minus 1 for the target, and each rank
# has both. Nor does any rank ever hold all scores. For one sequence of 2,048 positions they would be 412 MB there, in
# 32 bits.
#
# **Try it.** The largest score is there so that nothing overflows. Must it be the largest of *all* scores, or does each
# rank's own do? Then a rank adds up $e^{s_v - m_r}$ with its own $m_r$. Below are the scores of two ranks, at one
# position. Compute the sum that the loss needs from what each rank has, without an $e^{1000}$.

# %%
scores = torch.tensor([[1000.0, 999.0], [3.0, 1.0]])  # a row for each rank
largest = scores.amax(dim=1)
sums = (scores - largest[:, None]).exp().sum(dim=1)
print("log of the sum over all:", torch.logsumexp(scores.flatten(), dim=0).item())
print("each by its own largest:", sums.log().tolist())  # put them together

# %% tags=["folded"]
# One way to do it
# Each rank's own does, if it travels with its sum: largest + log(sum) is the
# log-sum-exp of the rank's own scores
total = torch.logsumexp(largest + sums.log(), 0)
print(total.item())
assert off(total, torch.logsumexp(scores.flatten(), dim=0)) < 1e-3
assert off(sums.log().sum(), torch.logsumexp(scores.flatten(), dim=0)) > 100

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# `largest + sums.log()` is one number per rank and position, and `torch.logsumexp(largest + sums.log(), 0)` puts them
# together. So a rank can also *gather* two numbers per position: its own log-sum-exp, and the score of the target. That
# is one all-gather, instead of two all-reduces. Which is cheaper?
#
# </details>


# %%
def loss_by_gathering(comm: Communicator) -> torch.Tensor:
    """The loss of 1,536 tokens, of two numbers per rank and position."""
    generator = torch.Generator().manual_seed(3)
    whole = 5 * torch.randn(LENGTH, VOCABULARY, dtype=DOUBLE, generator=generator)
    targets = torch.randint(VOCABULARY, (LENGTH,), generator=generator)
    scores = own_part(comm, whole)
    here = targets - comm.rank * scores.shape[1]
    mine = (here >= 0) & (here < scores.shape[1])
    score = scores[torch.arange(LENGTH), torch.where(mine, here, 0)]
    two_numbers = whole.new_zeros(comm.world_size, 2, LENGTH)
    two_numbers[comm.rank] = torch.stack([scores.logsumexp(1), score * mine])
    all_gather(comm, two_numbers)
    return (two_numbers[:, 0].logsumexp(0) - two_numbers[:, 1].sum(0)).mean()


cheaper = {}
print("ranks  gathered, bytes  messages  added up, bytes  messages")
for ranks in (2, 4, 8):
    some = SimulatedWorld(ranks, contexts="threads")
    for loss in some.run(loss_by_gathering):
        assert abs(loss - wanted) < 1e-9
    found = some.trace.bytes_sent[0], some.trace.messages_sent[0]
    some.run(loss_of_cut_scores, gather=False)
    cheaper[ranks] = *found, some.trace.bytes_sent[0], some.trace.messages_sent[0]
    print("{:5}  {:15,}  {:8}  {:15,}  {:8}".format(ranks, *cheaper[ranks]))
assert cheaper[2] == (512, 1, 768, 4) and cheaper[4] == (1536, 3, 1152, 12)
assert cheaper[8] == (3584, 7, 1344, 28)

# %% [markdown]
# An all-gather of two numbers from each of $N$ ranks sends $2\,(N-1)$ numbers per position, and the all-reduces of
# three send $6\,\frac{N-1}{N}$. On two ranks gathering is fewer bytes, and from four on it is more. It is always a
# quarter of the messages. Neither way sends a number that grows with the vocabulary.

# %% [markdown]
# ## What it costs
#
# Four all-reduces per layer: is that much? It depends on the links. We take a model of 24 layers with 2,048 features,
# and sequences of 2,048 tokens. A device does 200 · 10¹² operations a second. A layer takes $24f^2 + 4sf$ operations
# per token forward, for sequences of $s$ tokens, and twice that backward. Numbers have 16 bits.
#
# Eight ranks, and two kinds of links: 300 GB/s, as between GPUs of one machine, and 12.5 GB/s, a network of 100
# Gbit/s. Both have a latency of 5 µs. It runs in virtual time: `layer_stretches` lets a rank sleep for as long as it
# would compute, and sends real all-reduces of tensors that have a shape but no numbers. All layers cost the same, so we
# run one and count it 24 times. Nothing overlaps here; real systems hide a part of the two backward all-reduces behind
# the gradients of the weights.

# %%
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
guess_7 = predict(
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
print(guess_7.compare(one_device / tensor_seconds["slow"]))
step_timeline(
    {f"{name} links": layer_on(cluster, 8) for name, cluster in LINKS.items()},
    title="One layer, forward and backward, on one of eight ranks",
)

# %% tags=["folded"]
# Checks of the numbers above
# The time is computing, and 4 ring all-reduces per layer
for name, cluster in LINKS.items():
    each = duration.ring_all_reduce(cluster, 8 * TOKENS * WIDTH, 2)
    assert abs(tensor_seconds[name] - one_device / 8 - 4 * LAYERS * each) < 1e-9
assert f"{one_device / tensor_seconds['slow']:.1f}" == "0.7"
assert f"{one_device / tensor_seconds['fast']:.1f}" == "5.3"
each = duration.ring_all_reduce(LINKS["fast"], 8 * TOKENS * WIDTH, 2)
products = [2 * 8 * TOKENS * n * WIDTH**2 / SPEED / 8 for n in (3, 4)]
hidden = LAYERS * sum(min(each, product) for product in products)
# Data parallelism sends 12f² gradients per layer, and this way 4f numbers per token
gradients, token = (
    traffic.ring_all_reduce(8, size, 2).nbytes[0] for size in (12 * WIDTH**2, 4 * WIDTH)
)
assert gradients == 3 * WIDTH * token
assert f"{one_device / (tensor_seconds['fast'] - hidden):.1f}" == "5.9"

# %% [markdown]
# Eight devices are *slower* than one. On the fast links they are 5.3 times as fast. (Two of the four all-reduces are
# backward. Hiding each behind the gradient of its own weights would make it 5.9.)
#
# Would a larger batch help? There is twice as much to compute, and twice as much to send. Where latency does not
# matter, the ratio stays:
#
# $$\frac{\text{messages}}{\text{computing}} = \frac{16\,(N-1)}{72f + 12s} \cdot
# \frac{\text{operations per second}}{\text{bytes per second}}$$
#
# No batch size in it. What helps is a *wider* model: computing grows as $f^2$, and messages as $f$. Longer sequences
# help too, and fewer ranks.

# %%
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
# From 8 sequences to 64 hardly anything changes. (With one sequence, latency counts on the fast links.) There a model
# with four times as many features pays 11 % of the time, instead of 34 %. And two ranks instead of eight pay 6 %.
#
# The condition of all this: the messages are not hidden, and a device does its 200 · 10¹² operations also in products
# of thin matrices. Real GPUs don't quite, so eight ranks gain less than it says here.
#
# ### When not to
#
# - **When the model fits**, with its activations, and the batch has equally many sequences for each rank. Use data
#   parallelism: it sends fewer bytes where the batch has more than $3f$ tokens. With few tokens it can be slower.
# - **Across slow links.** Use a pipeline there, or data parallelism. In [lesson 10b](10b_whole_transformer.ipynb) all
#   three run on the same links, and on two machines. (An exception: very few sequences, and wide layers.)
# - **When layers are narrow.** The narrower, the larger the part of the time for messages.
# - **With more ranks than the memory demands**, unless one sequence must get through fast; or with more than heads.
#
# ## In real frameworks
#
# torch has tensor parallelism in `torch.distributed.tensor.parallel`. You write a model. Then `parallelize_module`
# replaces its parameters by **DTensors**: tensors that know how they are cut over the ranks of a `DeviceMesh`. The plan
# names the layers: `ColwiseParallel()`, `RowwiseParallel()`. Which messages that takes, DTensor works out by itself:
# each tensor is `Shard(dim)`, `Replicate()` or `Partial()`, a term of a sum.
#
# Here is a transformer layer in plain torch, on two real ranks, with the weights of torch's own layer. Queries, keys
# and values are three matrices, so that the plan can name them. One thing the model must not say here: how many heads
# there are. `ColwiseParallel` gives a plain tensor, of this rank's heads only, so we write `unflatten(-1, (-1, size))`.
# (`(HEADS, size)` fails, in the last line of the output. With `use_local_output=False` the layer gives a DTensor, which
# knows of all heads, and then it works.) `CommDebugMode` counts the collectives.

# %%
from torch.distributed import _functional_collectives, group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)


# %%
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
Counted = dict[str, int]


def counts(mode: CommDebugMode) -> Counted:
    """Collectives that were called, by name."""
    found = mode.get_comm_counts().items()
    return {str(name).split(".")[-1]: number for name, number in found if number}


def with_torch(
    comm: Communicator, whole: nn.TransformerEncoderLayer, plan: str, heads: int = -1
) -> tuple[Tensors, Counted, Counted]:
    """Output and gradients, whole; what was called forward, and what backward."""
    block, x = Block(whole), activations().requires_grad_()
    block.attention.heads = heads
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
torch.manual_seed(4)
options = dict(activation=gelu, batch_first=True, norm_first=True, dropout=0.0)
torch_layer = nn.TransformerEncoderLayer(
    FEATURES, HEADS, HIDDEN, **options, dtype=DOUBLE
)
lone = Block(torch_layer)
wanted = {"output": lone(activations())}
wanted["output"].square().sum().backward()
wanted |= {name: weight.grad for name, weight in lone.named_parameters()}
theirs = {}
with World(2) as real:
    for plan in PLANS:
        by_rank = real.run(with_torch, torch_layer, plan)
        gap = max(
            off(found[name], wanted[name]) for found, *_ in by_rank for name in wanted
        )
        theirs[plan] = by_rank[0][1:]
        print(f"{plan}: largest difference {gap:.0e}")
        print("    forward {}, backward {}".format(*theirs[plan]))
        assert gap < 1e-10
    try:
        real.run(with_torch, torch_layer, "layers", heads=HEADS)
    except RankError as error:
        print(f"with {HEADS} heads in the model:", str(error).splitlines()[0])
        assert "unflatten" in str(error)

# %% tags=["folded"]
# Checks of what is said below
# Ours call the same as the second plan
assert theirs["layers"] == ({"all_reduce": 2}, {"all_reduce": 3 + 1})
assert theirs["one input"] == ({"all_reduce": 2}, {"all_reduce": 2})
assert counted["whole layer"] == (2, 2)

# %% [markdown]
# The same numbers, to rounding, as in one process. Now the messages. The plan of the layers alone calls *four*
# all-reduces backward. DTensor does what you have seen: each of the three projections adds up its own gradient of $x$.
# Nothing warns you. `PrepareModuleInput` puts one operator before all three projections. The backward pass then calls
# two all-reduces, as ours does, because a rank adds up the three gradients of $x$ before it all-reduces them.
#
# What does that cost? `torch_distributed(comm)` without "gloo" gives torch a process group whose messages are this
# course's, so they stand in the trace as ours do. We run torch twice, once with the set-up alone and once with the
# set-up and a step, and subtract, so that the messages of the step remain.


# %%
def steps_of_ours(comm: Communicator, steps: int) -> None:
    layer = tp.ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, dtype=DOUBLE)
    for _ in range(steps):
        layer(activations().requires_grad_()).square().sum().backward()


def steps_of_torch(comm: Communicator, steps: int, plan: str) -> None:
    block = Block(torch_layer)
    with torch_distributed(comm):
        mesh = init_device_mesh("cpu", (comm.world_size,))
        parallelize_module(block, mesh, PLANS[plan])
        for _ in range(steps):
            block(activations().requires_grad_()).square().sum().backward()


def sent_in(*run: object) -> Counter[tuple[str, str]]:
    """Messages and bytes that rank 0 sends, by the name of the call."""
    world.run(*run)
    found: Counter[tuple[str, str]] = Counter()
    for call, sent in world.trace.by_collective(rank=0).items():
        found += {(call, "messages"): sent.messages, (call, "bytes"): sent.nbytes}
    return found


# %%
runs = {"ours": [steps_of_ours], **{plan: [steps_of_torch, plan] for plan in PLANS}}
steps_sent = {}
print("rank 0 of 4 sends                messages    bytes")
for name, (steps, *plan) in runs.items():
    set_up, one = (sent_in(steps, number, *plan) for number in range(2))
    steps_sent[name] = step = one - set_up
    for when, sent in {"set-up": set_up, "step": step}.items():
        for call in dict.fromkeys(call for call, _ in sent):
            messages, nbytes = sent[call, "messages"], sent[call, "bytes"]
            print(f"{name:9}  {when:6}  {call:12}  {messages:9}  {nbytes:7,}")
print(f"the formula, step{' ' * 23}{4 * 2 * 3 * S // 4:10,}")

# %% tags=["folded"]
# Checks of what is said below
assert steps_sent["ours"] == steps_sent["one input"]
assert steps_sent["ours"]["all_reduce", "bytes"] == 4 * 2 * 3 * S // 4
for kind, number in steps_sent["ours"].items():
    assert steps_sent["layers"][kind] == 1.5 * number
assert set_up["scatter", "messages"] == 3 * (8 + 2)
assert set_up["broadcast", "bytes"] == 2 * 2 * FEATURES * 8

# %% [markdown]
# With the plan of one input, rank 0 sends as many messages and as many bytes in torch's step as in ours, because both
# call the four all-reduces of the formula. With the plan of the layers alone, torch calls six, and sends 1.5 times as
# many bytes.
#
# Ours sends nothing in its set-up, and torch does. Rank 0 scatters each tensor that the plan cuts, and broadcasts the
# two biases that stay whole. So the other ranks get rank 0's weights. torch does not send the norms, because the plan
# does not name them: make them equal on all ranks before you call `parallelize_module`.
#
# We compare two more things. The first is the loss over a cut vocabulary. The second is torch's differentiable
# all-reduce, whose backward pass all-reduces the gradient.


# %% tags=["folded"]
# Check of what is said above
def all_heads(comm: Communicator) -> list[int]:
    with torch_distributed(comm, "gloo"):
        mesh = init_device_mesh("cpu", (comm.world_size,))
        layer = nn.Linear(FEATURES, FEATURES, dtype=DOUBLE)
        parallelize_module(layer, mesh, ColwiseParallel(use_local_output=False))
        return list(layer(activations()).unflatten(-1, (HEADS, -1)).shape)


# %%
def all_reduce_of_torch(comm: Communicator) -> float:
    """The gradient of a number, of which the ranks take the sum as their loss."""
    number = torch.ones((), requires_grad=True)
    with torch_distributed(comm, "gloo"):
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
    with torch_distributed(comm, "gloo"):
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
    shape = [BATCH, SEQUENCE, HEADS, FEATURES // HEADS]
    assert real.run(all_heads) == [shape, shape]
two = SimulatedWorld(2, contexts="threads")
two.run(loss_of_cut_scores, gather=False)
print(f"loss: {called}; ours {all_reduces(two.trace)} all-reduces")
print(f"gradient through torch's all-reduce: {twice_counted}")
assert gap < 1e-12 and called == {"all_reduce": 3 + 1}
assert all_reduces(two.trace) == 2 and twice_counted == [2, 2]

# %% [markdown]
# For the loss torch calls three all-reduces where ours calls two: the sum and the target's score travel one after the
# other. (The fourth is that of the column-parallel layer, backward.) Nothing is gathered. And the gradient through the
# sum is 2 on two ranks.
#
# In real training you would also meet:
#
# - **Megatron-LM**, where this comes from. Servers of language models such as vLLM use it too: there one sequence must
#   get through fast.
# - **[JAX](14_jax.ipynb)**: you say how each matrix is cut, and a compiler finds the messages.
# - **Context parallelism**, for sequences so long that their activations don't fit on a rank: the sequence stays cut
#   *inside* of the attention, too, and keys and values travel in a ring (see Liu et al.), or are gathered.
#
# ## In short
#
# - Cut the first matrix by columns and the second by rows: one all-reduce forward, one backward.
# - A transformer layer takes four all-reduces in a step: two forward and two backward.
# - A copy forward is an all-reduce backward. An all-reduce forward is a copy backward.
# - The loss need not show a forgotten backward all-reduce. Compare gradients with one process.
# - The messages grow with the tokens, and most of them cannot hide behind computing.
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
#   gradients below are wrong; then all copies drift apart. The loss does not tell: in some settings the wrong model was
#   better (rate 0.2, 20 steps), in others worse (0.05, 60 steps), in others neither (0.05, 20 steps).
# - Send where it is narrow. With hidden features that are more than half of $f$ that means columns first, then rows: an
#   MLP is the sum of thin MLPs, and attention a sum over the heads.
# - The loss over a cut vocabulary needs a few numbers per position, and never all scores: three to add up, or two from
#   each rank to gather. Gathering sends fewer bytes on two ranks, adding up from four on.
# - Where nothing hides the messages and latency does not matter, their part of the time does not depend on the batch.
#   Wider layers, longer sequences, faster links and fewer ranks make it smaller.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/10_tensor_parallel/10_tensor_parallel.ipynb) you write the column-parallel and the
# row-parallel layer, attention over several ranks, and the loss over a cut vocabulary. If you want to see a whole
# language model first, and its memory, go on with [lesson 10b](10b_whole_transformer.ipynb).
#
# ## Further reading
#
# - M. Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019. Section 3: the two cuts, the operators
#   *f* and *g*, four all-reduces, the cross-entropy over a cut vocabulary.
# - S. Wang et al., [Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning
#   Models](https://doi.org/10.1145/3567955.3567959), ASPLOS 2023. Products in pieces, so that messages hide behind
#   them.
# - H. Liu et al., [Ring Attention with Blockwise Transformers for Near-Infinite
#   Context](https://arxiv.org/abs/2310.01889), 2023. Keys and values in a ring: what context parallelism rests on.
# - T. Brown et al., [Language Models are Few-Shot Learners](https://arxiv.org/abs/2005.14165), 2020. Table 2.1: the
#   sizes of GPT-3.
# - [torch.distributed.tensor.parallel](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html),
#   torch's manual.
