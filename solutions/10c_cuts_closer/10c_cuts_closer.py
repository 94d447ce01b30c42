# %% [markdown]
# # Exercise 10c: attention, and the vocabulary
#
# You write an attention layer whose heads are spread over several ranks, and the loss of a language model whose
# vocabulary is. No rank ever has a whole weight, or the scores of all tokens. It is a side road: no later exercise
# needs it.
#
# - **Time:** about 70 minutes.
# - **Before:** read the lesson [Cuts, closer](../../course/10c_cuts_closer.ipynb), and do parts 1 and 2 of exercise 10.
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `parallel_attention` | 4 | 5 |
# | 2 | `vocabulary_parallel_loss` | 4 | 5 |
#
# That makes 18 points. Each part is graded by itself. Its cell may hold functions and classes besides the one that is
# asked for; what two parts have in common, write in both.

# %% [markdown]
# ## How to work
#
# Files, messages and `with_backward` are those of exercise 10. An index may also be a list: `weight[[0, 1, 6, 7]]`
# reads four rows.
#
# **A share.** $N$ ranks cut $n$ things into blocks of $n / N$, in the order of the ranks: of 6 rows on 3 ranks, rank 1
# has rows 2 and 3. Where $N$ does not divide $n$, raise a `ValueError` on every rank, before anything is read. Read
# your share, all of it, and nothing else, in as many pieces as you like: the tests note what is read. Keep nothing in a
# global.
#
# **What is sent.** Call `all_reduce` once for a whole tensor. It sends $2 (N - 1)$ times the tensor's bytes, all ranks
# together, and no rank sends more than $2 (N - 1)$ messages. Your own sends and receives may not need more.
#
# **The two directions.** A layer's forward pass sends one thing, its backward pass another:
#
#     with_backward(tensor, forward, backward)      gives forward(tensor); in the backward pass, given the gradient of
#                                                   this result, the gradient of tensor is backward(gradient)
#
# Each function takes a tensor and returns one of the same shape, and does not write into what it is given. You may also
# write a `torch.autograd.Function` of your own. All tensors are float64.

# %% readonly="setup"
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

from distlib import Communicator, ReduceOp, World, all_reduce

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
    the result)."""
    return _TwoDirections.apply(tensor, forward, backward)


# %% [markdown]
# **Try it.** Forward leaves a tensor as it is, backward multiplies the gradient by 10.

# %%
x = torch.ones(3, requires_grad=True)
with_backward(x, lambda tensor: tensor, lambda gradient: 10 * gradient).sum().backward()
print(x.grad)

# %% [markdown]
# ## 1. Cut the heads: `parallel_attention`
#
# Self-attention of $F$ features with $h$ heads: each head has $d = F / h$ features. A position in the sequence has a
# query, a key and a value in each head. The softmax goes over the keys, so each query's weights add up to 1.
#
# $$\text{head} = \text{softmax}\!\left(\frac{q k^T}{\sqrt d}\right) v \qquad
# y = (\text{all heads, one after the other}) \cdot W_\text{output}^T$$
#
# A linear layer without bias gives all queries, keys and values. Its weight `qkv_weight` of shape `[3 F, F]` has $F$
# rows for the queries, then $F$ for the keys, then $F$ for the values. In each of these three sections, head 0 has the
# first $d$ rows, head 1 the next $d$, and so on. The weight `output_weight` of shape `[F, F]` has one column for each
# feature of each head, in the same order.
#
# A head needs nothing from another one. So the heads are cut: each rank has its share of them, as above. Its rows of
# `qkv_weight` are three blocks, one in each section. With 8 features, 4 heads (of 2 features each) and 2 ranks:
#
# | | heads | rows of `qkv_weight` | columns of `output_weight` |
# |---|---|---|---|
# | rank 0 | 0, 1 | 0–3, 8–11, 16–19 | 0–3 |
# | rank 1 | 2, 3 | 4–7, 12–15, 20–23 | 4–7 |
#
# Both weights lie in files again, and each forward pass reads its share of them. What it has read is part of torch's
# graph: autograd takes care of the gradients of the weights.
#
# **Forward**: queries, keys and values are a column-parallel layer, the output is a row-parallel one. Between them each
# rank works on its own heads. So there is one all-reduce, of the output.
#
# **Backward**: one all-reduce as well, of the gradient of the input. The input goes into three sections. If each of
# them had an all-reduce of its own, that would make three.


# %% solution="parallel_attention"
def parallel_attention(
    comm: Communicator,
    x: torch.Tensor,
    qkv_weight: torch.Tensor,
    output_weight: torch.Tensor,
    heads: int,
) -> torch.Tensor:
    """Self-attention of which each rank computes some of the heads. No bias, no mask: every
    position attends to all.

    Args:
        comm: the communicator of this rank.
        x: [batch, length, features], the same on all ranks. Does not change.
        qkv_weight: a file with the whole weight of queries, keys and values, [3 · features,
            features]. A rank reads the rows of its heads in each of the three sections, and
            nothing else.
        output_weight: a file with the whole weight of the output, [features, features]. A rank
            reads the columns of its heads, and nothing else.
        heads: the number of heads, on all ranks together. It divides the number of features.

    Returns:
        [batch, length, features], the same on all ranks.

    Raises:
        ValueError: the ranks do not divide the heads.

    Cost: one all-reduce of a tensor of the shape of x in the forward pass, and one in the
    backward pass.
    """
    ### BEGIN SOLUTION
    features, size = x.shape[-1], comm.world_size
    if heads % size:
        raise ValueError(f"{size} ranks can't have equal shares of {heads} heads")
    columns = slice(comm.rank * features // size, (comm.rank + 1) * features // size)
    rows = [
        section * features + row for section in range(3) for row in range(features)[columns]
    ]

    def same(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def summed(tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.clone()
        all_reduce(comm, total)
        return total

    packed = linear(with_backward(x, forward=same, backward=summed), qkv_weight[rows])
    by_head = packed.unflatten(-1, (3, heads // size, features // heads))
    # each [batch, heads of this rank, length, d]
    queries, keys, values = by_head.permute(2, 0, 3, 1, 4)
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(features // heads)
    mixed = scores.softmax(dim=-1) @ values
    part = linear(mixed.transpose(1, 2).flatten(2), output_weight[:, columns])
    return with_backward(part, forward=summed, backward=same)
    ### END SOLUTION


# %% [markdown]
# A cell like the next one gives no marks. Change it as you like.
#
# **Try it** with 2 ranks against torch's own attention. The differences should be rounding.


# %%
torch.manual_seed(0)
alone = torch.nn.MultiheadAttention(8, 4, bias=False, batch_first=True, dtype=torch.float64)
weights = alone.in_proj_weight.detach(), alone.out_proj.weight.detach()
sentence = torch.randn(2, 5, 8, dtype=torch.float64)


def try_attention(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
    x = sentence.clone().requires_grad_()
    output = parallel_attention(comm, x, *weights, heads=4)
    output.square().sum().backward()
    return output.detach(), x.grad


x = sentence.clone().requires_grad_()
wanted = alone(x, x, x, need_weights=False)[0]
wanted.square().sum().backward()
for rank, (output, gradient) in enumerate(two.run(try_attention)):
    differences = [
        (found - right).abs().max().item()
        for found, right in ((output, wanted), (gradient, x.grad))
    ]
    print(
        f"rank {rank}: output differs by {differences[0]:.1e}, gradient by {differences[1]:.1e}"
    )
print(two.trace.summary())

# %% [markdown]
# **Visible test: 4 points.** Outputs and gradients against a single process, what each rank reads, and the bytes.

# %% test="parallel_attention_visible" points=4
from distlib.exercises import Attention, check_parallel_attention

report = check_parallel_attention(
    parallel_attention,
    attentions=[
        Attention(2, features=24, heads=4, batches=[(2, 2)]),
        Attention(2, features=8, heads=2),
        Attention(1, features=6, heads=3),
        Attention(4, features=12, heads=4),
        Attention(2, features=8, heads=4, batches=[(1, 3)], forward_only=True),
        Attention(2, features=12, heads=3),
        Attention(2, features=8, heads=2, next_to=True),
    ],
)
# forward and backward; 4 positions of 24 features
assert sum(report[0].trace.bytes_sent) == 2 * 2 * (4 * 24) * 8
assert sum(report[1].trace.bytes_sent) == 2 * 2 * (6 * 8) * 8
assert sum(report[3].trace.bytes_sent) == 2 * 6 * (6 * 12) * 8
assert sum(report[4].trace.bytes_sent) == 2 * (3 * 8) * 8
assert [sum(report[number].trace.bytes_sent) for number in (2, 5)] == [0, 0]
# and forward with other weights, once before
assert sum(report[6].trace.bytes_sent) == (2 + 1) * 2 * (6 * 8) * 8
print(report)

# %% [markdown]
# **Hidden test: 5 points.** More ranks, more heads on each of them, several batches.

# %% test="parallel_attention_hidden" points=5
# The hidden tests of parallel_attention stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, up to 12 heads, large heads and scores, several batches, other weights, strides.
from distlib.exercises import Attention, check_parallel_attention

report = check_parallel_attention(
    parallel_attention,
    attentions=[
        Attention(2, features=16, heads=8, batches=[(2, 3), (2, 3)]),
        Attention(1, features=20, heads=20, batches=[(2, 9)]),
        Attention(3, features=18, heads=6, batches=[(3, 2)], strided=True),
        Attention(4, features=16, heads=4, batches=[(1, 1)]),
        Attention(6, features=24, heads=12),
        Attention(3, features=12, heads=6, batches=[(2, 2), (1, 4)], forward_only=True),
        Attention(3, features=18, heads=3, batches=[(2, 3)], next_to=True),
        Attention(2, features=22, heads=2, batches=[(1, 5)], forward_only=True, spread=8.0),
        Attention(4, features=12, heads=6),
    ],
    seed=103,
)
assert len(report) == 9
assert sum(report[0].trace.bytes_sent) == 2 * 2 * (12 * 16) * 8
assert sum(report[2].trace.bytes_sent) == 2 * 4 * (6 * 18) * 8
assert sum(report[4].trace.bytes_sent) == 2 * 10 * (6 * 24) * 8
assert sum(report[5].trace.bytes_sent) == 4 * (8 * 12) * 8
# and forward through the other one
assert sum(report[6].trace.bytes_sent) == (2 + 1) * 4 * (6 * 18) * 8
assert [sum(report[number].trace.bytes_sent) for number in (1, 8)] == [0] * 2
assert all(result["largest"] < 3 * 24 * 24 for result in report[4].results)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Cut the vocabulary: `vocabulary_parallel_loss`
#
# The last layer of a language model gives a score for each token of the vocabulary, at each position: the *logits*. It
# is a column-parallel layer, so each rank has the logits $s_v$ of its own tokens. The loss at a position with target
# $t$ is
#
# $$\log \sum_v e^{s_v} - s_t$$
#
# where the sum goes over *all* tokens. The loss of a batch is the mean over its positions.
#
# Nobody may gather the logits: a vocabulary is large. Nor need anybody. With 2 ranks, one position, and token 2 as the
# target:
#
# | | tokens | logits | exponentials | their sum | the target's logit | gradient of the logits |
# |---|---|---|---|---|---|---|
# | rank 0 | 0, 1 | $\ln 1, \ln 2$ | 1, 2 | 3 | | $0.1, 0.2$ |
# | rank 1 | 2, 3 | $\ln 3, \ln 4$ | 3, 4 | 7 | $\ln 3$ | $0.3 - 1, 0.4$ |
# | all | 0–3 | | | 10 | $\ln 3$ | |
#
# The loss is $\ln 10 - \ln 3 \approx 1.204$, on both ranks. The gradient of a logit is its part of the sum, its
# softmax, and 1 less for the target. With several positions it is divided by their number.
#
# One more thing: $e^{800}$ is too large for any float64, and $e^{-800}$ is 0. So subtract from all logits of a position
# the largest one, of *all* ranks. That changes neither loss nor gradient. `all_reduce(comm, tensor, op=ReduceOp.MAX)`
# leaves the largest number over the ranks in each place, instead of the sum.
#
# **Shares.** Here a vocabulary need not divide. Each rank is handed its logits, and the number of its first token,
# `first`. Shares may differ: with 7 tokens rank 0 may have 4 and rank 1 the other 3, with `first` 4.
#
# **Forward**: three numbers per position are enough. **Backward** sends nothing: each rank is handed the same gradient.


# %% solution="vocabulary_parallel_loss"
def vocabulary_parallel_loss(
    comm: Communicator, logits: torch.Tensor, targets: torch.Tensor, first: int
) -> torch.Tensor:
    """The mean cross-entropy of logits that are cut along the vocabulary.

    Args:
        comm: the communicator of this rank.
        logits: [positions, share], float64, of this rank's tokens: first, first + 1, …,
            first + share - 1. A share has at least one token; ranks may have shares of
            different sizes. Does not change.
        targets: [positions], int64, for each position a token of the whole vocabulary; the same
            on all ranks. Does not change.
        first: the number of this rank's first token.

    Returns:
        The mean over the positions of log(sum of exp(logit) over all tokens) - logit of the
        target: a tensor of shape [], the same on all ranks. In the backward pass each rank's
        logits get their own gradient. Finite also where logits are far from 0.

    Cost: forward sends at most three all-reduces of one number per position each, or as many
        numbers in fewer calls. Backward sends nothing. No rank ever makes a tensor with a
        column for every token of the vocabulary.
    """
    ### BEGIN SOLUTION
    largest = logits.detach().amax(dim=1)
    all_reduce(comm, largest, op=ReduceOp.MAX)
    shifted = logits - largest.unsqueeze(1)

    share = logits.shape[1]
    is_own = (targets >= first) & (targets < first + share)
    # any column, where the target is another rank's
    columns = (targets - first).clamp(0, share - 1)
    at_target = shifted.gather(1, columns.unsqueeze(1)).squeeze(1) * is_own

    def summed(tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.clone()
        all_reduce(comm, total)
        return total

    parts = torch.stack([shifted.exp().sum(dim=1), at_target])
    sums, at_target = with_backward(parts, forward=summed, backward=lambda gradient: gradient)
    return (sums.log() - at_target).mean()
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. Then add 800 to all logits: loss and gradients should stay as they are.

# %%
EXPONENTIALS = torch.tensor([[1.0, 2.0, 3.0, 4.0]]).double()


def try_loss(comm: Communicator) -> tuple[float, list[float]]:
    first = 2 * comm.rank
    logits = EXPONENTIALS[:, first : first + 2].log().requires_grad_()
    loss = vocabulary_parallel_loss(comm, logits, torch.tensor([2]), first)
    loss.backward()
    return loss.item(), logits.grad.flatten().tolist()


for rank, (loss, gradient) in enumerate(two.run(try_loss)):
    print(
        f"rank {rank}: loss {loss:.4f}, gradient of its logits "
        f"{[round(each, 4) for each in gradient]}"
    )
print(two.trace.summary())

# %% [markdown]
# **Visible test: 4 points.** Losses and gradients against a single process that has all logits, and the bytes.

# %% test="vocabulary_parallel_loss_visible" points=4
from distlib.exercises import Loss, check_vocabulary_parallel_loss

report = check_vocabulary_parallel_loss(
    vocabulary_parallel_loss,
    losses=[
        Loss(shares=(6, 6)),
        Loss(shares=(10,)),
        Loss(shares=(7, 4)),
        Loss(shares=(5, 5, 5), targets_of=1),
        Loss(shares=(6, 6), around=800),
        Loss(shares=(6, 6), around=(-900, -800)),
        Loss(shares=(6, 5), forward_only=True),
        Loss(shares=(6, 6), apart=800),
    ],
)
# 5 positions
assert all(
    0 < sum(report[number].trace.bytes_sent) <= 2 * 3 * 5 * 8 for number in (0, 2, 4, 5, 6, 7)
)
assert 0 < sum(report[3].trace.bytes_sent) <= 4 * 3 * 5 * 8
assert sum(report[1].trace.bytes_sent) == 0
print(report)

# %% [markdown]
# **Hidden test: 5 points.** More ranks, other shares, several batches.

# %% test="vocabulary_parallel_loss_hidden" points=5
# The hidden tests of vocabulary_parallel_loss stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, shares of one token, several batches, large logits, positions that lie far apart.
from distlib.exercises import Loss, check_vocabulary_parallel_loss

report = check_vocabulary_parallel_loss(
    vocabulary_parallel_loss,
    losses=[
        Loss(shares=(9, 8), positions=(4, 4)),
        Loss(shares=(12,), positions=(1,), around=-40_000),
        Loss(shares=(4, 9, 1), positions=(6,), targets_of=2),
        Loss(shares=(5, 5, 5, 5), positions=(3, 7), around=(0, 900, 0, -900), strided=True),
        Loss(shares=(1, 7, 2, 3, 3, 4), positions=(5,), targets_of=0),
        Loss(shares=(6, 6, 7), positions=(1, 2), around=20_000),
        Loss(shares=(17, 4), positions=(9, 9), around=700),
        Loss(shares=(3, 8, 4), positions=(2, 3), forward_only=True),
        Loss(shares=(4, 7, 1), positions=(4, 3), apart=-900),
    ],
    seed=104,
)
assert len(report) == 9
assert 0 < sum(report[0].trace.bytes_sent) <= 2 * 3 * 8 * 8
assert sum(report[1].trace.bytes_sent) == 0
assert 0 < sum(report[2].trace.bytes_sent) <= 4 * 3 * 6 * 8
assert 0 < sum(report[3].trace.bytes_sent) <= 6 * 3 * 10 * 8
assert 0 < sum(report[4].trace.bytes_sent) <= 10 * 3 * 5 * 8
### END HIDDEN TESTS

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 10c_cuts_closer` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("10c_cuts_closer")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("10c_cuts_closer")
