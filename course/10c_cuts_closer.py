# %% [markdown]
# # Cuts, closer
#
# **This lesson is optional.** It goes on where [Tensor parallelism](10_tensor_parallel.ipynb) ends. There, somebody
# forgot an all-reduce, and the loss fell all the same. Here you search for a loss that tells. Then you compute the loss
# over a large vocabulary, and see which messages recomputation adds, and which can hide behind computing.
#
# After this lesson you will be able to
#
# - say what a forgotten all-reduce does in training, and why the loss does not tell,
# - compute the loss over a large vocabulary without ever gathering its scores,
# - count the all-reduces of a layer that is recomputed,
# - say which messages of a transformer layer can hide behind computing,
# - compare the messages of torch's tensor parallelism with ours.
#
# **Time:** about 55 minutes. **You need:** [Tensor parallelism](10_tensor_parallel.ipynb). No GPU.

# %% tags=["folded"]
# The imports, the worlds, and a function that compares
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
    Trace,
    World,
    all_gather,
    all_reduce,
    broadcast,
    duration,
    torch_distributed,
)
from distlib.draw import predict
from distlib.training import Span, StepTimes, digits, tensor_parallel as tp

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64
world = SimulatedWorld(4, contexts="threads")  # it communicates inside backward
alone = SimulatedWorld(1, contexts="threads")


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference."""
    return float((found - wanted).detach().abs().max())


# %% tags=["folded"]
# The operators, the model that reads digits, and its gradients, as in lesson ten
def thin_mlp(
    x: torch.Tensor, up: nn.Linear, down: nn.Linear, rank: int, ranks: int
) -> torch.Tensor:
    """The MLP with only the hidden features of one rank, without the last bias."""
    weight, bias = up.weight.chunk(ranks)[rank], up.bias.chunk(ranks)[rank]
    return linear(gelu(linear(x, weight, bias)), down.weight.chunk(ranks, dim=1)[rank])


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


# %% tags=["folded"]
# Parts of the features, and blocks of a transformer, as in lesson ten
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


BATCH, SEQUENCE, FEATURES, HIDDEN, HEADS = 4, 16, 32, 128, 8
S = BATCH * SEQUENCE * FEATURES * 8  # bytes of the activations


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


# %% [markdown]
# ## Gradients that are summed twice
#
# The opposite of a forgotten all-reduce is one too many: forward *and* backward at the end, so that gradients are
# *summed twice*. torch's own differentiable all-reduce, `torch.distributed.nn.functional.all_reduce`, does this,
# because it takes the ranks' losses as separate losses. torch 2.13 calls it deprecated, and its successor, in
# `torch.distributed._functional_collectives`, does the same. Here all ranks compute the same loss, which then counts
# four times.

# %%
SUMMED_TWICE = (add_up, add_up)
twice = errors(world.run(forward_backward, end=SUMMED_TWICE))
for name, error in twice.items():
    print(f"{name:12}  {error:7.0%}")

# %% tags=["folded"]
# Checks of what is said below
assert abs(twice["up.weight"] - 3) < 1e-9 and abs(twice["down.weight"] - 3) < 1e-9
assert 0.3 < twice["below.weight"] < 1 and 0.3 < twice["below.bias"] < 1
assert max(twice["output"], twice["above.weight"], twice["down.bias"]) < 1e-12

# %% [markdown]
# **Summed twice on four ranks, the gradients of the thin MLPs are four times as large**, an error of 300 %. `down.bias`
# is right, because it is added after the operator. The layer below gets two terms: one straight from `x + y`, and one
# through the MLP. Only the second term has the factor 4.
#
# ## A forgotten gradient, in training
#
# What becomes of both mistakes in training? We train 20 steps, with SGD and with Adam. The last columns say how far a
# rank's layer below is from other ranks', and from the layer of one process.

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
    reader: type[Reader] = Reader,
) -> Trained:
    """Losses: the first, the last, of new images. And the weights of the layer below."""
    model = reader(comm, begin, end, seed)
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
# In all runs the loss goes down, and no error appears. Only SGD with the gradients summed twice looks bad. Adam divides
# by the size of a gradient. A factor that is the same in all of a gradient therefore does not show. In the layer below
# only one of two terms has the factor, and the weights go another way.
#
# With a gradient forgotten the ranks now have four *different* layers below, and soon different layers above, too,
# because these see different inputs. The model works with these four. Surely the loss on images that it has not seen
# must tell? A number of one seed may be luck, so we take five seeds, in three settings: a large rate for 20 steps, and
# a small rate for 60 steps and for 20.

# %%
guess_1 = predict(
    "The all-reduce is forgotten. On new images the model is …",
    choices=[
        "worse, or as good, in all settings",
        "worse in one, better in another",
        "better, or as good, in all settings",
    ],
)

# %% [markdown]
# One control runs along. In "rank 0's" every rank gets the term of rank 0 as its gradient. So the steps are as short
# as in "forgotten", because each step is made with one term of four. But the steps are the same on all ranks, and so is
# the layer below.


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
print(guess_1.compare(verdict))

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
# is the worse one, and after 20 steps the two hardly differ. **The loss on new images does not find this mistake.** Two
# things happen at once.
#
# - **A smaller step.** Of the four terms that come through the MLP, the layer below gets one. One term acts like a
#   smaller rate, in this layer alone. "Rank 0's" shows the effect of the small step by itself: with rate 0.2 and 20
#   steps it helps a little on average, in about half of all seeds, and with 0.05 and 60 steps it slows down.
# - **Four readers.** Four different layers below, each with its own thin MLP, are a small *ensemble*, and have four
#   times as many weights. In "rank 0's" there is one reader, with steps as short. Forgotten is better than it in at
#   least four of five seeds, at 0.2 and 20 steps and at 0.05 and 60. The other three readers make this difference.
#
# "Summed twice" acts like a larger rate. At the large rate it is bad in all five seeds. With 0.05 and 60 steps it is
# *better* than right, on average.
#
# A checkpoint has *one* layer below. Load rank 0's on all ranks ("copy"), and the loss rises, in at least four of
# five seeds, in these two settings. By how much is luck: by some thousandths, or by some hundredths.
#
# So no loss finds this mistake. The comparison with one process, as in lesson 10, does.
#
# **Try it.** Somebody repairs the drift: before every forward pass, rank 0 broadcasts its layer below. Which of the
# four runs does this training equal? Write the broadcast, and see from which layer below it is 0.0000 away.


# %%
class Mine(Reader):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        # write it here: self.comm, self.below
        return super().forward(images)


_, below = world.run(train, "SGD", 0.2, reader=Mine, **RUNS["forgotten"])[0]
for name, ways in RUNS.items():
    _, other = world.run(train, "SGD", 0.2, **ways)[0]
    print(f"{name:12}  {off(below, other):.4f}")


# %% tags=["folded"]
# One way to do it
# All ranks have rank 0's layer, so they follow rank 0's gradient
class Repaired(Reader):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        for weight in self.below.parameters():
            broadcast(self.comm, weight.data)
        return super().forward(images)


_, below = world.run(train, "SGD", 0.2, reader=Repaired, **RUNS["forgotten"])[0]
for name, ways in RUNS.items():
    _, other = world.run(train, "SGD", 0.2, **ways)[0]
    print(f"{name:12}  {off(below, other):.4f}")
    assert (off(below, other) < 1e-9) == (name == "rank 0's")

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
guess_2 = predict(
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
print(guess_2.compare(cost[True] / cost[False]))

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
# **The loss over a cut vocabulary needs a few numbers per position.** Gathering the scores sends 256 times as many
# bytes: per position, an all-gather of $V$ numbers against all-reduces of 3 makes $V/6$, with the vocabulary of GPT-3
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
# ## Recomputation
#
# With recomputation, as in lesson 09, the backward pass runs the forward pass again. `use_reentrant` is an option of
# torch's `checkpoint`: with `True` it runs all of the forward pass again, and with `False` it stops early.


# %%
def recomputed_layer(comm: Communicator, all_of_it: bool) -> None:
    layer = tp.ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, dtype=DOUBLE)
    x = activations().requires_grad_()
    checkpoint(layer, x, use_reentrant=all_of_it).square().sum().backward()


for all_of_it in (True, False):
    world.run(recomputed_layer, all_of_it)
    print(f"use_reentrant={all_of_it!s:5}  {all_reduces(world.trace)} all-reduces")
    assert all_reduces(world.trace) == (6 if all_of_it else 5)

# %% [markdown]
# A layer takes four all-reduces without recomputation. **Recomputation runs the all-reduces of the forward pass
# again.** With all of the forward pass again they are six. torch's `checkpoint` stops before the last all-reduce,
# because nothing in the backward pass needs this sum: five.
#
# **Try it.** Recompute the attention alone, and not the MLP. How many all-reduces does the attention take then, with
# `use_reentrant=False`?

# %%
world.run(one_block, "attention")  # change it
print(all_reduces(world.trace))


# %% tags=["folded"]
# One way to do it
# The last operation of the attention is its all-reduce: nothing needs that sum again
def recomputed_attention(comm: Communicator, all_of_it: bool) -> None:
    module = tp.ParallelAttention(comm, FEATURES, HEADS, dtype=DOUBLE)
    x = activations().requires_grad_()
    checkpoint(module, x, use_reentrant=all_of_it).square().sum().backward()


for all_of_it, wanted_calls in ((False, 2), (True, 3)):
    world.run(recomputed_attention, all_of_it)
    print(all_of_it, all_reduces(world.trace))
    assert all_reduces(world.trace) == wanted_calls

# %% [markdown]
# ## What can hide behind computing
#
# Lesson 10 counted every message as time. How much do eight ranks gain when each backward all-reduce hides behind the
# gradient of its own weights? We take lesson 10's model and its fast links.

# %% tags=["folded"]
# The model of lesson ten, in virtual time
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


one_device = 3 * LAYERS * forward_seconds(8)
fast = seconds_of(LINKS["fast"], 8)

# %%
all_reduce_seconds = duration.ring_all_reduce(LINKS["fast"], 8 * TOKENS * WIDTH, 2)
# The weights of queries, keys, values: 3f². Those of the MLP's first matrix: 4f²
matmuls = [2 * 8 * TOKENS * n * WIDTH**2 / SPEED / 8 for n in (3, 4)]
hidden = LAYERS * sum(min(all_reduce_seconds, matmul) for matmul in matmuls)
for name, seconds in {"in sequence": fast, "hidden backward": fast - hidden}.items():
    print(f"{name:15}  {one_device / seconds:.1f} times as fast as one device")

# %% tags=["folded"]
# Checks of the numbers below
assert f"{one_device / fast:.1f}" == "5.3"
assert f"{one_device / (fast - hidden):.1f}" == "5.9"
assert max(matmuls) < all_reduce_seconds  # none hides whole

# %% [markdown]
# **Whole matmuls hide backward messages only.** Hidden as long as the gradients of their weights take, which is less
# than an all-reduce takes here, two of the four all-reduces make the eight devices 5.9 times as fast as one, instead of
# 5.3.
#
# Newer systems also hide the forward messages. They cut a matmul into pieces and send one piece while they compute the
# next: *asynchronous* tensor parallelism, see Wang et al. below.
#
# Another cut sends messages inside attention. **Context parallelism** is for sequences so long that their activations
# don't fit on a rank: the sequence stays cut *inside* of the attention, too, and keys and values travel in a ring (see
# Liu et al.), or are gathered.
#
# ## In real frameworks
#
# Here the layer of lesson 10 in plain torch goes on, with its two plans: of the layers alone, and with one input.

# %% tags=["folded"]
# The layer of lesson ten in plain torch, and its two plans
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


torch.manual_seed(4)
options = dict(activation=gelu, batch_first=True, norm_first=True, dropout=0.0)
torch_layer = nn.TransformerEncoderLayer(
    FEATURES, HEADS, HIDDEN, **options, dtype=DOUBLE
)

# %% [markdown]
# The model must not say how many heads there are, because `ColwiseParallel` gives a plain tensor, of this rank's heads
# only. Lesson 10 wrote `unflatten(-1, (-1, size))`. What happens with `(HEADS, size)`?

# %%
with World(2) as real:
    try:
        real.run(with_torch, torch_layer, "layers", heads=HEADS)
    except RankError as error:
        print(f"with {HEADS} heads in the model:", str(error).splitlines()[0])
        assert "unflatten" in str(error)

# %% [markdown]
# It fails. With `use_local_output=False` the layer gives a DTensor, which knows of all heads, and then it works.
#
# Now the messages. `torch_distributed(comm)` without "gloo" gives torch a process group whose messages are this
# course's, so the trace has them as it has ours. We run torch twice, once with the set-up alone and once with the
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
# other. (The fourth is the all-reduce of the column-parallel layer, backward.) Nothing is gathered. And the gradient
# through the sum is 2 on two ranks.
#
# ## In short
#
# - Forget an all-reduce backward, and ranks train different layers; the loss may even be better.
# - Neither a falling loss nor a loss on new images finds it: compare gradients with one process.
# - The loss over a cut vocabulary needs a few numbers per position, and never all scores.
# - Recomputation runs the all-reduces of the forward pass again.
# - Whole matmuls hide backward messages only, behind the gradients of the weights.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - The loss does not show a forgotten all-reduce: in some settings the wrong model was better (rate 0.2, 20 steps), in
#   others worse (0.05, 60 steps), in others neither (0.05, 20 steps).
# - The loss over a cut vocabulary needs three numbers per position to add up, or two from each rank to gather.
#   Gathering sends fewer bytes on two ranks, adding up from four on.
# - torch's `checkpoint` saves the last of the two all-reduces that it would run again, with `use_reentrant=False`.
# - Cutting matmuls into pieces hides forward messages, too. We did not.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/10c_cuts_closer/10c_cuts_closer.ipynb) you write attention whose heads are cut, and the
# loss over a cut vocabulary.
#
# ## Further reading
#
# - M. Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), 2019. Section 3: the operators *f* and *g*, and
#   the cross-entropy over a cut vocabulary.
# - S. Wang et al., [Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning
#   Models](https://doi.org/10.1145/3567955.3567959), ASPLOS 2023. Products in pieces, so that messages hide behind
#   them.
# - H. Liu et al., [Ring Attention with Blockwise Transformers for Near-Infinite
#   Context](https://arxiv.org/abs/2310.01889), 2023. Keys and values in a ring: what context parallelism rests on.
# - [torch.distributed.tensor.parallel](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html),
#   torch's manual.
