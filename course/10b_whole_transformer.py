# %% [markdown]
# # A whole transformer over ranks
#
# **This lesson is optional.** No later lesson needs it. It is for those who want to know what becomes of lesson 10 in a
# language model: what each rank keeps, what newer kinds of attention change, and when the other strategies are faster.
#
# After it you will be able to
#
# - train a small language model over ranks, and show that it is the model of one process,
# - say which part of the memory is cut and which is not, and keep less with sequence parallelism,
# - place the heads of grouped-query attention on ranks, and count the bytes of its KV cache,
# - compare data, pipeline and tensor parallelism on given links.
#
# **Time:** about 85 minutes. **You need:** [Tensor parallelism](10_tensor_parallel.ipynb). No GPU.

# %%
from collections import Counter
from collections.abc import Sequence
from itertools import product

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, linear

from distlib import (
    Cluster,
    Communicator,
    Link,
    RankError,
    SimulatedWorld,
    Trace,
    World,
    duration,
    torch_distributed,
    traffic,
)
from distlib.draw import curves, memory_parts, predict
from distlib.training import (
    ActivationMeter,
    Costs,
    one_forward_one_backward,
    tensor_parallel as tp,
    time_schedule,
)

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64
BATCH, SEQUENCE, FEATURES, HIDDEN, HEADS = 4, 16, 32, 128, 8
world = SimulatedWorld(4, contexts="threads")  # it communicates inside backward
alone = SimulatedWorld(1, contexts="threads")
two = SimulatedWorld(2, contexts="threads")


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference."""
    return float((found - wanted).detach().abs().max())


# %% [markdown]
# ## The whole model
#
# Lessons 10 and [10c](10c_cuts_closer.ipynb) have all the parts of a language model: transformer layers, an embedding
# cut along the vocabulary, and a loss that needs no scores of others. Here they are put together, in float64. First as
# torch has it, in one process: an embedding of tokens, one of positions, two of torch's transformer layers, a norm, and
# the scores by the embedding's own weights. A token is a single character here. Then the same over ranks.

# %% tags=["folded"]
# The text as tokens, and the model in one process: nothing of it is ours
TEXT = (
    "a rank has a part of every layer. it computes its part of each product, and the "
    "ranks add up what they have. no rank ever has a whole matrix, and the sum is what "
    "one process would have found. what is sent depends on the tokens, not on the weights. "
)
CHARACTERS = sorted(set(TEXT))
VOCABULARY = 32  # some never occur: padding, so that 8 ranks divide it
TOKENS = torch.tensor([CHARACTERS.index(character) for character in TEXT])


def batch_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """BATCH sequences of the text, and the same ones one token further on."""
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(TOKENS) - SEQUENCE - 1, (BATCH,), generator=generator)
    pieces = torch.stack([TOKENS[start : start + SEQUENCE + 1] for start in starts])
    return pieces[:, :-1], pieces[:, 1:]


class WholeGPT(nn.Module):
    """In one process; nothing of it is ours."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.positions = nn.Parameter(0.1 * torch.randn(SEQUENCE, FEATURES))
        options = dict(activation=gelu, batch_first=True, norm_first=True, dropout=0.0)
        layers = [
            nn.TransformerEncoderLayer(FEATURES, HEADS, HIDDEN, **options)
            for _ in range(2)
        ]
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(FEATURES)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.double()

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions
        mask = nn.Transformer.generate_square_subsequent_mask(SEQUENCE, dtype=x.dtype)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        scores = linear(self.norm(x), self.embedding.weight)
        return cross_entropy(scores.flatten(0, 1), targets.flatten())


# %%
class GPT(nn.Module):
    """Over ranks: positions and norms are on every rank, all else is cut."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__()
        self.comm, sizes = comm, (FEATURES, HIDDEN, HEADS)
        self.embedding = tp.VocabularyParallelEmbedding(
            comm, VOCABULARY, FEATURES, dtype=DOUBLE
        )
        self.positions = nn.Parameter(torch.zeros(SEQUENCE, FEATURES, dtype=DOUBLE))
        layers = [
            tp.ParallelTransformerLayer(comm, *sizes, causal=True, dtype=DOUBLE)
            for _ in range(2)
        ]
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(FEATURES, dtype=DOUBLE)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        scores = self.embedding.scores(self.norm(x))  # of this rank's tokens
        return tp.vocabulary_parallel_cross_entropy(self.comm, scores, targets)

    def load_whole(self, whole: WholeGPT) -> "GPT":
        """Copy this rank's part of every weight."""
        self.embedding.load_whole(whole.embedding.weight)
        for layer, same in zip(self.layers, whole.layers, strict=True):
            layer.load_whole(same)
        self.positions.data.copy_(whole.positions.data)
        self.norm.load_state_dict(whole.norm.state_dict())
        return self


# %%
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


# %%
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
# Checks
# All-reduces of ten steps, on real ranks as well
two.run(train_gpt, whole)
# embedding 1; two layers 4 each; scores 1, backward; loss 2
assert two.trace.messages_sent == in_reality == [10 * (1 + 2 * 4 + 1 + 2) * 2] * 2


# %% tags=["folded"]
# The same with Adam, in two precisions; the biases of the keys by themselves
def adam_steps(model: nn.Module, dtype: torch.dtype) -> list[float]:
    model.to(dtype)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for step in range(10):
        optimizer.zero_grad()
        loss = model(*batch_of(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_with_adam(
    comm: Communicator, end: WholeGPT, dtype: torch.dtype
) -> tuple[list[float], float, float]:
    """The losses; the largest difference of a key's bias; that of any other weight."""
    model = GPT(comm).load_whole(WholeGPT())
    losses = adam_steps(model, dtype)
    wanted = GPT(comm).load_whole(end).to(dtype)
    of_keys, others = 0.0, 0.0
    pairs = zip(model.named_parameters(), wanted.parameters(), strict=True)
    for (name, found), right in pairs:
        gaps = (found - right).detach().abs()
        if name.endswith("queries_keys_values.bias"):
            queries, keys, values = gaps.chunk(3)
            of_keys = max(of_keys, float(keys.max()))
            gaps = torch.cat([queries, values])
        others = max(others, float(gaps.max()))
    return losses, of_keys, others


for dtype in (torch.float32, torch.float64):
    with_adam = WholeGPT()
    losses_with_adam = adam_steps(with_adam, dtype)
    for losses, of_keys, others in two.run(train_with_adam, with_adam, dtype):
        pairs = zip(losses, losses_with_adam, strict=True)
        gap = max(abs(a - b) / b for a, b in pairs)
        print(f"Adam, {dtype}: keys' biases off by {of_keys:.0e}, others {others:.0e}")
        print(f"    losses off by {gap:.0e} of their size")
        if dtype == torch.float32:
            assert 1e-4 < of_keys < 0.1 and others < 1e-4 and gap < 1e-5
        else:
            assert max(of_keys, others, gap) < 1e-8

# %% [markdown]
# The losses and all weights are those of one process, to rounding. That is with SGD. With Adam, in float32, the
# *biases of the keys* go another way: after ten steps they are off by some thousandths. These biases have no effect.
# One adds the same number to all scores of a query, and softmax ignores it. So their gradient is zero, but for
# rounding, and rounding differs. Adam divides a gradient by its own size, and makes full steps of it. The losses still
# agree to about $10^{-7}$ of their size. In float64 the biases agree as well: rounding is far below the $10^{-8}$ that
# Adam adds to the size. (Besides, Adam hides a common factor in the gradients. So test with SGD. And in models that
# rotate queries and keys by their positions, a bias of the keys does have an effect.)
#
# A step has 12 all-reduces: 4 for each layer, one for the embedding, one backward for the scores, two small ones for
# the loss.
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
guess_1 = predict(
    "Four ranks. What share of the activations of one process does each of them keep?",
    unit="%",
)


# %%
ACTIVATIONS = (BATCH, SEQUENCE, FEATURES)
S = BATCH * SEQUENCE * FEATURES * 8  # bytes


def activations(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ACTIVATIONS, dtype=DOUBLE, generator=generator)


# %%
def memory_of_step(
    comm: Communicator, sequence: bool = False, num_layers: int = 2
) -> dict[str, int]:
    """Bytes that this rank keeps in a training step, by kind."""
    sizes, options = (FEATURES, HIDDEN, HEADS), {"sequence": sequence, "dtype": DOUBLE}
    layers = nn.Sequential(
        *(
            tp.ParallelTransformerLayer(comm, *sizes, **options)
            for _ in range(num_layers)
        )
    )
    optimizer = torch.optim.Adam(layers.parameters())
    x = activations()
    x = (tp.split_sequence(comm, x) if sequence else x).clone().requires_grad_()
    meter = ActivationMeter(layers.parameters())
    with meter.watch((0, 0)):
        y = layers(x)
    kept = sum(meter.kept.values())
    y.square().sum().backward()
    if sequence:
        tp.sum_sequence_gradients(comm, layers)
    optimizer.step()
    weights = list(layers.parameters())
    states = optimizer.state.values()
    return {
        "weights": sum(w.nbytes for w in weights),
        "gradients": sum(w.grad.nbytes for w in weights),
        "optimizer": sum(s["exp_avg"].nbytes + s["exp_avg_sq"].nbytes for s in states),
        "activations": kept,
    }


# %%
memory = {
    "one process": alone.run(memory_of_step),
    "tensor parallel": world.run(memory_of_step),
}
whole_step, cut_step = memory["one process"][0], memory["tensor parallel"][0]
for kind in whole_step:
    print(f"{kind:11} {cut_step[kind] / whole_step[kind]:.1%} of one process")
print(guess_1.compare(100 * cut_step["activations"] / whole_step["activations"]))
memory_parts(memory, "A training step of two transformer layers")

# %% tags=["folded"]
# Checks of the numbers above and below
# 4 + 12/N times x per layer, and what norms and softmax keep
assert f"{cut_step['activations'] / whole_step['activations']:.0%}" == "44%"
for kind in ("weights", "gradients", "optimizer"):
    assert 0.25 < cut_step[kind] / whole_step[kind] < 0.27
for ranks in (1, 2, 4, 8):
    some = SimulatedWorld(ranks, contexts="threads")
    for sequence in (False, True):
        found = some.run(memory_of_step, sequence)[0]["activations"] / 2 / S
        norms = 4 / FEATURES / (ranks if sequence else 1)  # mean and deviation
        softmax = HEADS / FEATURES / ranks  # one number per head and position
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
# Between the blocks each rank does the same: the same norms of the same $x$. A norm looks at one position at a time. So
# give each rank a part of the *sequence* there, and cut by features only inside of the blocks:
#
#     norm ──► all-gather ──► up ──► gelu ──► down ──► reduce-scatter ──► + ──► norm ──► …
#     ─┬──                    ────────┬───────────                        ───┬─────
#      a part of the sequence         a part of the features                 a part of the sequence
#
# The operator at the beginning gathers the sequence. The one at the end adds up the terms, and leaves each rank only
# its part. They are conjugate as well: backward an all-gather becomes a reduce-scatter, and the other way round. (The
# partner of the all-gather in lesson 10's `JOIN` sent nothing, since every rank had the whole gradient already. Here
# each has only the gradient through its own features, a term, so the terms must be added up.) And you know from lesson
# 02 what a ring all-reduce is: a reduce-scatter, then an all-gather.

# %%
guess_2 = predict(
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
inside = sent[True].filter(lambda message: message.site.collective != "all_reduce")
print("without:              ", sent[False].bytes_sent)
print("with:                 ", sent[True].bytes_sent)
print("of it in the layers:  ", inside.bytes_sent)
assert inside.bytes_sent == sent[False].bytes_sent
assert inside.messages_sent == sent[False].messages_sent
extra = sent[True].bytes_sent[0] - sent[False].bytes_sent[0]
less = "half the bytes" if extra < -S else "the same bytes"
verdict = "a few bytes more" if 0 < extra < S else less
print(guess_2.compare(verdict))
memory_parts(memory, "A training step of two transformer layers")

# %% tags=["folded"]
# Checks of the numbers above and below
in_order = memory["with sequence parallelism"][0]
assert f"{in_order['activations'] / whole_step['activations']:.0%}" == "34%"
kinds = set(inside.by_collective())
assert kinds == {"all_gather", "reduce_scatter"}
assert extra == traffic.ring_all_reduce(4, 2 * 6 * FEATURES, 8).nbytes[0]
share = extra / sent[False].bytes_sent[0]  # with this many tokens in the batch
assert f"{share * BATCH * SEQUENCE / 2048:.2%}" == "0.07%"


def sequence_steps(comm: Communicator, sequence: bool) -> torch.Tensor:
    """All weights after ten steps of one layer."""
    options = {"sequence": sequence, "dtype": DOUBLE, "causal": True}
    layer = tp.ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, **options)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for step in range(10):
        x = activations(step)
        optimizer.zero_grad()
        layer(tp.split_sequence(comm, x) if sequence else x).pow(3).mean().backward()
        for weight in layer.parameters():
            # The mean over a part is N times too steep: divide by N.
            weight.grad /= comm.world_size if sequence else 1
        if sequence:
            tp.sum_sequence_gradients(comm, layer)
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
# once per step, $6f$ numbers per layer. That is nothing: with 2,048 tokens in a batch 0.07 % more. Ten
# steps give the weights that they give without it, as the folded cell checks.
#
# Each rank now keeps 34 % of the activations. Why not 25 %? The gradient of `up`'s weights needs the whole input of
# `up`, and it is the same with queries, keys and values. We keep these two gathered inputs whole, and of all else a
# part: $2 + 14/N$. Megatron-LM keeps a part of these two as well, and gathers them again in the backward pass (see
# Korthikanti et al.): $16/N$, for two all-gathers more per layer.
#
# **Try it.** Write down the share that each of 8 ranks keeps of the activations of one process, with and without
# sequence parallelism, from the two formulas. Then measure. Does the number of layers change it?

# %%
eight = SimulatedWorld(8, contexts="threads")
kept = eight.run(memory_of_step, sequence=False)[0]["activations"]  # change it
print(f"{kept / whole_step['activations']:.1%} of one process")

# %% tags=["folded"]
# One way to do it
# (4 + 12/8) / 16 and (2 + 14/8) / 16, and a little for norms and softmax
for sequence, formula in ((False, (4 + 12 / 8) / 16), (True, (2 + 14 / 8) / 16)):
    kept = eight.run(memory_of_step, sequence)[0]["activations"]
    print(f"{kept / whole_step['activations']:.1%}, formula {formula:.1%}")
    assert abs(kept / whole_step["activations"] - formula) < 0.01
    four = eight.run(memory_of_step, sequence, num_layers=4)[0]["activations"]
    assert four == 2 * kept  # and so does one process: the share stays

# %% [markdown]
# ## Fewer heads of keys and values
#
# A model that writes a text computes one token at a time. Keys and values of all tokens so far are needed again for
# each new one, so they are kept: the *KV cache*. With as many heads for keys and values as for queries, that is $2f$
# numbers per token and layer. For long sequences and many users it is larger than the weights.
#
# So newer models have fewer heads of keys and values. In **grouped-query attention** several query heads share one
# *KV head* (key-value head). Llama 3 70B has 64 query heads and 8 KV heads. With a single KV head it is called
# *multi-query attention*.
#
# How do we place them on ranks? Queries are cut as before. A rank needs the KV heads that its queries use:
#
#     8 query heads           4 KV heads on 4 ranks             2 KV heads on 4 ranks
#     rank 0   0 1            0         cut: each its own       0         copied: ranks 0 and 1 share
#     rank 1   2 3            1                                 0
#     rank 2   4 5            2                                 1         ranks 2 and 3 share
#     rank 3   6 7            3                                 1
#
# Where there are fewer KV heads than ranks, one is *copied* to several ranks. Each copy keeps the same keys and values.

# %%
guess_3 = predict(
    "8 query heads, 2 KV heads. From 2 ranks to 8: "
    "what happens to the bytes of KV cache on each rank?",
    choices=["a quarter", "half", "the same", "twice as many"],
)


# %%
def grouped(
    comm: Communicator, kv_heads: int, adds: bool = True
) -> tuple[list[int], int, int, torch.Tensor]:
    """One step. Own KV heads, weights, bytes of KV cache per token; and the weights of the keys."""
    attention = tp.GroupedQueryAttention(comm, FEATURES, HEADS, kv_heads, dtype=DOUBLE)
    x = activations().requires_grad_()
    _, keys, values = attention.queries_keys_values(x)
    cache = (keys.nbytes + values.nbytes) // (BATCH * SEQUENCE)
    attention(x).pow(3).sum().backward()
    if adds:
        attention.sum_shared_gradients()
    torch.optim.SGD(attention.parameters(), lr=0.1).step()
    weights = sum(weight.numel() for weight in attention.parameters())
    start, size = attention.heads * attention.head_features, attention.head_features
    key_weights = attention.weight.detach()[start : start + size].clone()
    return list(attention.own_kv_heads), weights, cache, key_weights


cache, placed, extra = {}, {}, {}
print(
    "KV heads  ranks   KV heads by rank                  weights  cache, bytes  sent by a rank"
)
for kv_heads in (8, 2, 1):
    for ranks in (2, 4, 8):
        some = SimulatedWorld(ranks, contexts="threads")
        by_rank = some.run(grouped, kv_heads)
        run = kv_heads, ranks
        own, weights, cache[run], _ = by_rank[0]
        placed[run] = [found[0] for found in by_rank]
        layout = " ".join(",".join(map(str, heads)) for heads in placed[run])
        sent = some.trace.bytes_sent[0]
        extra[run] = sent - 2 * 2 * (ranks - 1) * S // ranks
        print(
            f"{kv_heads:8}  {ranks:5}   {layout:32}  {weights:7,}  {cache[run]:12}  {sent:14,}"
        )
names = {4: "a quarter", 2: "half", 1: "the same"}
print(guess_3.compare(names[cache[2, 2] // cache[2, 8]]))

# %% tags=["folded"]
# Checks of the numbers above and below
size = FEATURES // HEADS
for (kv_heads, ranks), found in cache.items():
    copies = max(1, ranks // kv_heads)
    assert found == 2 * max(1, kv_heads // ranks) * size * 8
    shared = traffic.ring_all_reduce(copies, 2 * size * FEATURES, 8).nbytes[0]
    assert extra[kv_heads, ranks] == shared
assert cache[8, 8] == cache[2, 8] == cache[1, 8]
assert placed[2, 4] == [[0], [0], [1], [1]] and placed[8, 4][1] == [2, 3]
for kv_heads in (1, 2, 4, 8):  # after the step, the weights of one process
    by_rank, (lone,) = world.run(grouped, kv_heads), alone.run(grouped, kv_heads)
    assert off(by_rank[0][3], lone[3]) < 1e-12
for kv_heads in (1, 2):  # ranks 0 and 1 share a head
    for adds in (True, False):
        first, second = (found[3] for found in world.run(grouped, kv_heads, adds)[:2])
        assert (off(first, second) < 1e-12) == adds
llama = {name: 80 * 2 * heads * 128 * 2 for name, heads in (("64", 64), ("8", 8))}
assert [f"{nbytes / 1e6:.2f}" for nbytes in llama.values()] == ["2.62", "0.33"]
assert f"{8192 * llama['8'] / 1e9:.1f} {8192 * llama['64'] / 1e9:.1f}" == "2.7 21.5"

# %% [markdown]
# The same. Two ranks have one KV head each, and from there on there is no head left to cut: 2 KV heads on 8 ranks are
# kept four times. (vLLM can cut the copies along the sequence instead, for more messages.) The other weights are cut
# further. Look at the lines with 8 ranks: each has one query head and one KV head, whatever the number of KV heads.
# With as many ranks as query heads, grouped queries save a rank nothing.
#
# What is sent? The two all-reduces of $x$, as in any attention: a KV head is never sent. But look at the last column:
# where heads are copied, a rank sends a little more. Each copy has seen the queries of its own rank alone, so it has
# only a part of the gradient. *The parts must be added up, among the ranks that share the head.* Forget it, and the
# copies go different ways, as the layer below did in lesson 10. The folded cell does so, and finds them apart after one
# step. The size of that message is the size of the weights, and not of $x$.
#
# For Llama 3 70B (80 layers, heads of 128 features, 16 bits) the cache takes 0.33 MB per token, and with 64 KV heads it
# would be 2.62 MB. A sequence of 8,192 tokens: 2.7 GB instead of 21.5. On 8 ranks each has one KV head. On 16 each head
# is there twice.
#
# **Try it.** 6 query heads and 4 KV heads, or 12 query heads and 3 KV heads on 4 ranks: what does
# `GroupedQueryAttention` say, and why? Find a number of KV heads for 12 query heads that 4 ranks can have, other than
# 12.


# %%
def build(comm: Communicator, heads: int, kv_heads: int) -> list[int]:
    attention = tp.GroupedQueryAttention(comm, 24, heads, kv_heads)
    return list(attention.own_kv_heads)


try:
    print(world.run(build, 12, 3))  # change it
except RankError as error:
    print(str(error).splitlines()[0])

# %% tags=["folded"]
# One way to do it
# Each KV head must lie on as many ranks as the others
for kv_heads in (1, 2, 4):
    print(kv_heads, world.run(build, 12, kv_heads))
for heads, kv_heads in ((6, 4), (12, 3), (12, 6)):
    try:
        world.run(build, heads, kv_heads)
    except RankError as error:
        assert "expected a number of" in str(error)
    else:
        raise AssertionError("it should be refused")

# %% [markdown]
# ## Against the other strategies
#
# The model of lesson 10's cost section: 24 layers, 2,048 features, sequences of 2,048 tokens, devices with 200 · 10¹²
# operations a second. Eight ranks, fast links (300 GB/s) or slow ones (12.5 GB/s). One step, in three ways, and one
# device alone as the control:
#
# - **Data parallel:** every rank takes an eighth of the sequences through all layers. The all-reduce of the gradients
#   hides behind the backward pass, as far as it fits.
# - **Pipeline:** three layers per rank, 1F1B with the shortest warm-up, one sequence per microbatch.
# - **Tensor parallel:** all ranks in each layer, nothing hidden.

# %%
LAYERS, WIDTH, TOKENS_EACH, SPEED = 24, 2048, 2048, 200e12
FAST, SLOW = Link(5e-6, 300e9), Link(5e-6, 12.5e9)
LINKS = {"fast": Cluster.flat(8, FAST), "slow": Cluster.flat(8, SLOW)}


# %%
def forward_seconds(sequences: float, width: int, tokens: int) -> float:
    """One layer, forward, on one device."""
    return sequences * tokens * (24 * width**2 + 4 * tokens * width) / SPEED


def one_seconds(
    cluster: Cluster, n: int, width: int = WIDTH, tokens: int = TOKENS_EACH
) -> float:
    return 3 * LAYERS * forward_seconds(n, width, tokens)


def tensor_seconds(
    cluster: Cluster, n: int, width: int = WIDTH, tokens: int = TOKENS_EACH
) -> float:
    each = duration.ring_all_reduce(cluster, n * tokens * width, 2)
    computing = 3 * forward_seconds(n, width, tokens) / cluster.world_size
    return LAYERS * (computing + 4 * each)


def data_seconds(
    cluster: Cluster, n: int, width: int = WIDTH, tokens: int = TOKENS_EACH
) -> float:
    forward = LAYERS * forward_seconds(-(-n // 8), width, tokens)
    gradients = duration.ring_all_reduce(cluster, 12 * width**2 * LAYERS, 2)
    return forward + max(2 * forward, gradients)


def pipeline_seconds(
    cluster: Cluster, n: int, width: int = WIDTH, tokens: int = TOKENS_EACH
) -> float:
    forward = LAYERS / 8 * forward_seconds(1, width, tokens)
    transfer = cluster.intra.seconds(tokens * width * 2)
    costs = Costs(forward, 2 * forward, transfer=transfer)
    return time_schedule(one_forward_one_backward(8, n), costs).seconds


# %%
guess_4 = predict(
    "A batch of one sequence, fast links. Which is fastest?",
    choices=["data parallel", "pipeline", "tensor parallel"],
)

# %%
BATCHES = (1, 2, 4, 8, 16, 32, 64)
STRATEGIES = {
    "one": one_seconds,  # a device alone, on no links: first, so that it wins a tie
    "data": data_seconds,
    "pipeline": pipeline_seconds,
    "tensor": tensor_seconds,
}
per_sequence = {
    f"{name}, {link}": {n: seconds(cluster, n) / n for n in BATCHES}
    for link, cluster in LINKS.items()
    for name, seconds in STRATEGIES.items()
}


def fastest(link: str, width: int = WIDTH, tokens: int = TOKENS_EACH) -> list[str]:
    """For each batch, the fastest strategy."""
    sizes = width, tokens
    return [
        min(STRATEGIES, key=lambda name: STRATEGIES[name](LINKS[link], n, *sizes))
        for n in BATCHES
    ]


first = fastest("fast")[0]
print(guess_4.compare(first if first == "pipeline" else f"{first} parallel"))
curves(
    {
        name.replace("one, fast", "one device"): [
            (n, 1e3 * s) for n, s in times.items()
        ]
        for name, times in per_sequence.items()
        if name != "one, slow"  # the same
    },
    along="sequences in a batch",
    values="ms per sequence",
    title="A training step on eight ranks, three strategies, two kinds of links",
    subtitle="by the formulas",
)

# %% tags=["folded"]
# Checks of what is said below
assert fastest("fast") == ["tensor"] * 3 + ["data"] * 4
assert fastest("slow") == ["one"] + ["pipeline"] * 4 + ["data"] * 2
alone_and_best = per_sequence["one, slow"][1], per_sequence["pipeline, slow"][1]
assert [f"{1e3 * seconds:.0f}" for seconds in alone_and_best] == ["87", "96"]
shape, sizes = (8, TOKENS_EACH, WIDTH), (WIDTH, TOKENS_EACH)
for cluster in LINKS.values():  # the formula is the run, in virtual time
    stretches = tp.layer_stretches(cluster, shape, forward_seconds(8, *sizes))
    assert abs(LAYERS * stretches[-1].end - tensor_seconds(cluster, 8)) < 1e-9
one_sequence = 3 * LAYERS * forward_seconds(1, *sizes)
assert f"{one_sequence / per_sequence['tensor, fast'][1]:.1f}" == "3.9"
assert one_sequence / per_sequence["pipeline, fast"][1] < 1
gradients = duration.ring_all_reduce(LINKS["slow"], 12 * WIDTH**2 * LAYERS, 2)
backward = {n: 2 * LAYERS * forward_seconds(n / 8, *sizes) for n in (32, 64)}
assert 0.65 < backward[32] / gradients < 0.7 and gradients < backward[64]
assert 1 < per_sequence["pipeline, slow"][32] / per_sequence["data, slow"][32] < 1.05
pipeline_bytes = 2 * 64 * TOKENS_EACH * WIDTH * 2
assert pipeline_bytes < traffic.ring_all_reduce(8, 12 * WIDTH**2 * LAYERS, 2).nbytes[0]

# %% [markdown]
# - **One sequence, fast links.** Only tensor parallelism makes it faster, 3.9 times. A pipeline takes as long as one
#   rank, and in data parallelism one rank does it, while seven have nothing to do.
# - **From 8 sequences on, fast links.** Data parallelism is ahead, if the model fits. Its messages don't grow with the
#   batch.
# - **Slow links.** With one sequence nothing helps: a device alone takes 87 ms, and the fastest of the three 96. Up to
#   64 sequences the pipeline sends least, and is ahead from 2 sequences to 16. From 32 on data parallelism is, first
#   by a little: two thirds of its messages hide behind the backward pass, at 64 sequences all of them.
#
# All this is for these sizes. Are they a lucky choice? Here are the fastest for others: narrower and wider models,
# shorter and longer sequences. A star says that the strategy does not fit: one device, or each rank in data
# parallelism, keeps 16 bytes for each of *all* weights, and that alone is more than 80 GB.

# %%
SIZES = (1024, 256), (2048, 128), (2048, 256), (2048, 8192), (4096, 256), (8192, 2048)
WHOLE = "one", "data"  # strategies that keep the whole model on a device


def state_bytes(name: str, width: int) -> float:
    """What a device keeps for the weights: Adam in mixed precision."""
    return 16 * LAYERS * 12 * width**2 / (1 if name in WHOLE else 8)


print("features  tokens  links  " + "".join(f"{n:>10}" for n in BATCHES))
winners = {}
for width, tokens in SIZES:
    for link in LINKS:
        winners[width, tokens, link] = names = fastest(link, width, tokens)
        marked = [name + "*" * (state_bytes(name, width) > 80e9) for name in names]
        line = "".join(f"{name:>10}" for name in marked)
        print(f"{width:8}  {tokens:6}  {link:5}  {line}")

# %% tags=["folded"]
# Checks of what is said below
fast = {sizes: winners[*sizes, "fast"] for sizes in SIZES}
slow = {sizes: winners[*sizes, "slow"] for sizes in SIZES}
for sizes, names in fast.items():  # data parallelism from 8 on, or later
    start = {(2048, 128): 5, (4096, 256): 4}.get(sizes, 3)
    assert names.index("data") == start and set(names[start:]) == {"data"}
assert [names[0] for names in fast.values()] == ["one"] * 2 + ["tensor"] * 4
assert fast[2048, 128][3:5] == ["pipeline"] * 2 and fast[4096, 256][3] == "tensor"
assert [names[0] for names in slow.values()] == ["one"] * 5 + ["tensor"]
for sizes in ((1024, 256), (2048, 128), (2048, 256), (4096, 256)):
    assert slow[sizes][1:] == ["pipeline"] * 6
assert slow[2048, 8192][1:] == ["data"] * 6
assert slow[8192, 2048] == ["tensor"] * 2 + ["pipeline"] * 4 + ["data"]
# With one sequence: computing that is saved against the bytes of four all-reduces per
# layer, in both passes
assert 16 * SPEED / LINKS["slow"].intra.bandwidth == 256_000
alone = {sizes: fastest("slow", *sizes)[0] for sizes in ((2048, 16384), (4096, 2048))}
assert set(alone.values()) == {"tensor"}
assert {72 * f + 12 * s > 256_000 for f, s in alone} == {True}
one_256 = [1e3 * f(LINKS["fast"], 1, 1024, 256) for f in (one_seconds, tensor_seconds)]
assert [f"{ms:.1f}" for ms in one_256] == ["2.4", "7.3"]
# With one sequence, tensor parallelism on two of the eight ranks
pairs = {
    (link, *sizes): [
        f"{1e3 * seconds:.1f}"
        for seconds in (
            tensor_seconds(Cluster.flat(2, LINKS[link].intra), 1, *sizes),
            one_seconds(LINKS[link], 1, *sizes),
        )
    ]
    for link, sizes in product(LINKS, (*SIZES, (WIDTH, TOKENS_EACH)))
    if fastest(link, *sizes)[0] == "one"
}
helped = {case: pair for case, pair in pairs.items() if float(pair[0]) < float(pair[1])}
assert helped == {
    ("fast", 1024, 256): ["2.3", "2.4"],
    ("fast", 2048, 128): ["3.5", "4.7"],
    ("slow", 4096, 256): ["35.8", "37.5"],
}
eight_seconds = [f(LINKS["fast"], 8, 4096, 256) for f in STRATEGIES.values()]
assert [f"{1e3 * s:.1f}" for s in eight_seconds] == ["300.0", "68.9", "70.6", "53.6"]
gradients = duration.ring_all_reduce(LINKS["fast"], 12 * 4096**2 * LAYERS, 2)
assert 0.4 < 2 * LAYERS * forward_seconds(1, 4096, 256) / gradients < 0.5
fits = {name for name in STRATEGIES if state_bytes(name, 8192) < 80e9}
assert (
    fits == {"pipeline", "tensor"} and f"{state_bytes('one', 8192) / 1e9:.0f}" == "309"
)
assert (
    f"{state_bytes('one', 4096) / 1e9:.0f} {state_bytes('data', 2048) / 1e9:.0f}"
    == "77 19"
)
best_that_fits = {
    link: [min(fits, key=lambda k: STRATEGIES[k](c, n, 8192, 2048)) for n in BATCHES]
    for link, c in LINKS.items()
}
assert best_that_fits["fast"] == ["tensor"] * 6 + ["pipeline"]
assert best_that_fits["slow"] == ["tensor"] * 2 + ["pipeline"] * 5


def longer_warmup(cluster: Cluster, n: int, width: int, tokens: int) -> float:
    """The pipeline, with one more forward pass per stage behind."""
    forward = LAYERS / 8 * forward_seconds(1, width, tokens)
    transfer = cluster.intra.seconds(tokens * width * 2)
    costs = Costs(forward, 2 * forward, transfer=transfer)
    return time_schedule(one_forward_one_backward(8, n, eager=1), costs).seconds


changed = []
for link, sizes, n in product(LINKS, (*SIZES, (WIDTH, TOKENS_EACH)), BATCHES):
    ways = {**STRATEGIES, "pipeline": longer_warmup}
    best = min(ways, key=lambda k: ways[k](LINKS[link], n, *sizes))
    if best != fastest(link, *sizes)[BATCHES.index(n)]:
        changed.append((link, sizes, n, best))
assert changed == [("slow", (2048, 2048), 32, "pipeline")]

# %% [markdown]
# On fast links the picture does not quite stay.
#
# - **One sequence.** With 1,024 features and 256 tokens, tensor parallelism takes 7.3 ms, and one device 2.4: the
#   latency of 96 all-reduces counts. With 2,048 features and 128 tokens one device is ahead, too. That is against all
#   eight ranks. Two of them have less latency, and beat one device at both: 2.3 ms against 2.4, and 3.5 against 4.7.
# - **Eight sequences.** With 4,096 features and 256 tokens tensor parallelism is still ahead, 53.6 ms against 68.9 for
#   data parallelism. There the backward pass is too short for the gradients: less than half of them hides. With 2,048
#   features and 128 tokens data parallelism is ahead only from 32 sequences on.
#
# On slow links it does *not* stay. With one sequence nothing helps on eight ranks at these sizes, except with 8,192
# features. (What can help there is tensor parallelism, where layers are wide or sequences long. Latency aside, that is
# where $72 f + 12 s$, for $f$ features and $s$ tokens, is above 256,000, on any number of ranks: also with 2,048
# features and 16,384 tokens. And with 4,096 features and 256 tokens on two ranks, which have less latency: 35.8 ms, and
# one device 37.5.)
#
# From two on: with short sequences the pipeline for all these batches, since the gradients are large next to the
# computing; with long ones, of 8,192 tokens, data parallelism for all. So on slow links there is no rule of thumb:
# count. (1F1B with a longer warm-up changes one winner of all in both tables: with 2,048 features, 2,048 tokens and 32
# sequences on slow links the pipeline is ahead.)
#
# And look at the stars. With 8,192 features the whole model takes 309 GB, not counting activations, and neither one
# device nor data parallelism can have it, unless its ranks share out the state, as in [lesson 11](11_zero.ipynb). Of
# the two that fit, tensor parallelism is ahead up to 32 sequences on fast links, and up to 2 on slow ones. With 4,096
# features it is 77 GB, so on a device of 80 the activations hardly find room.
#
# What if the eight ranks are two machines of four? On the ring only two of eight links are slow.

# %%
LINKS["two machines"] = Cluster(nodes=2, ranks_per_node=4, intra=FAST, inter=SLOW)


def ring_seconds(cluster: Cluster, width: int = WIDTH) -> float:
    """A step with 8 sequences, in virtual time."""
    shape, alone = (8, TOKENS_EACH, width), forward_seconds(8, width, TOKENS_EACH)
    return LAYERS * tp.layer_stretches(cluster, shape, alone)[-1].end


def two_machines(bandwidth: float, width: int = WIDTH) -> float:
    """The same with hierarchical all-reduces, and this many bytes/s between them."""
    link = Link(5e-6, bandwidth)
    cluster = Cluster(nodes=2, ranks_per_node=4, intra=FAST, inter=link)
    numbers = 8 * TOKENS_EACH * width
    each = duration.hierarchical_all_reduce(cluster, numbers, 2, 4)
    computing = 3 * forward_seconds(8, width, TOKENS_EACH) / 8
    return LAYERS * (computing + 4 * each)


for name, cluster in LINKS.items():
    print(f"{name:13} {ring_seconds(cluster) * 1e3:5.0f} ms")
mixed, better = ring_seconds(LINKS["two machines"]), two_machines(12.5e9)
half = ring_seconds(Cluster.flat(4, FAST))
print("features   one machine alone   both, hierarchical all-reduces")
by_width = {}
for width in (2048, 4096):
    by_width[width] = (
        ring_seconds(Cluster.flat(4, FAST), width),
        two_machines(12.5e9, width),
    )
    print(
        "{:8} {:16.0f} ms {:13.0f} ms".format(
            width, *(1e3 * s for s in by_width[width])
        )
    )
assert mixed > 0.95 * ring_seconds(LINKS["slow"]) and half < better < mixed / 3

# %% tags=["folded"]
# Checks of what is said below
# With links of any bandwidth eight are not twice as fast as four
pairs = [f"{1e3 * four:.0f} {1e3 * both:.0f}" for four, both in by_width.values()]
assert pairs == ["208 251", "711 648"]
for width in by_width:
    assert two_machines(1e18, width) > by_width[width][0] / 2

# %% [markdown]
# A ring is as slow as its slowest link. The hierarchical all-reduce of lesson 03 adds up within each machine first, and
# helps a lot. Still, with 2,048 features four devices of one machine alone take 208 ms, and all eight together 251.
# With 4,096 features there is more to compute for each byte, and eight are ahead, 648 ms against 711. But that is far
# from twice as fast. No link would make it so: with twice as many ranks each computes half as much, but its messages
# don't shrink. So with such links a group for tensor parallelism lies within one machine, and other strategies connect
# the machines. How to combine them is the subject of [lesson 12](12_hybrid.ipynb).
#
# **Try it.** How fast must the links between the two machines be, before all eight devices beat the four of one
# machine? And how fast, before they are *twice* as fast? (That they must be to be worth it: the other four could take
# sequences of their own meanwhile.)

# %%
print(f"{two_machines(12.5e9) * 1e3:.0f} ms, and four devices alone {half * 1e3:.0f}")

# %% tags=["folded"]
# One way to do it
# Halve the interval; and for twice as fast even 300 GB/s is not enough
low, high = 12.5e9, 300e9
while high / low > 1.001:
    middle = (low * high) ** 0.5
    low, high = (low, middle) if two_machines(middle) < half else (middle, high)
print(f"faster from {high / 1e9:.0f} GB/s on")
print(
    f"at 300 GB/s: {two_machines(300e9) * 1e3:.0f} ms;"
    f" half of {half * 1e3:.0f} would be {half / 2 * 1e3:.0f}"
)
assert 15e9 < high < 25e9
assert half / 2 < 0.9 * min(ring_seconds(LINKS["fast"]), two_machines(300e9))

# %% [markdown]
# ## Sizes that don't divide
#
# Our layers want equal parts: as many heads on each rank, as many hidden features, as many tokens. What if a size does
# not divide?


# %%
def six_heads(comm: Communicator) -> None:
    tp.ParallelAttention(comm, features=24, heads=6)


def real_vocabulary(comm: Communicator) -> None:
    tp.VocabularyParallelEmbedding(comm, 50_257, features=1)


for ranks, function in ((4, six_heads), (8, real_vocabulary)):
    try:
        SimulatedWorld(ranks).run(function)
    except RankError as error:
        print(str(error).splitlines()[0])
        assert "divide, got" in str(error)
for multiple in (8, 8 * 128):
    padded = -(-50_257 // multiple) * multiple
    print(f"padded to a multiple of {multiple:,}: {padded:,} tokens")
scores = torch.tensor([[2.0, 1.0, 0.0]])
losses = [
    cross_entropy(
        nn.functional.pad(scores, (0, tokens), value=score), torch.tensor([0])
    )
    for tokens, score in ((0, 0.0), (1, 0.0), (1, -torch.inf))
]
assert losses[1] > losses[0] + 0.05 and off(losses[2], losses[0]) < 1e-6

# %% [markdown]
# Heads you choose so that they divide. A vocabulary you *pad*: you add tokens that never occur, as our language model
# above has them. They have scores, though, which raise the loss a little: a model that was trained without them needs
# scores of $-\infty$ there. Megatron-LM pads to a multiple of 128 per rank, since such matrices are faster on a GPU.
#
# ## In real frameworks
#
# In lesson 10 torch's `parallelize_module` cut a transformer layer by a plan. Sequence parallelism is another plan:
# `SequenceParallel()` for the norms, `PrepareModuleInput` where the sequence is gathered, and row-parallel layers whose
# output is `Shard(1)`, cut along the sequence. Here it is on two real ranks, with the weights of torch's own layer.


# %% tags=["folded"]
# A transformer layer in plain torch, as in lesson 10
class Attention(nn.Module):
    def __init__(self, whole: nn.MultiheadAttention) -> None:
        super().__init__()
        weights, biases = whole.in_proj_weight.chunk(3), whole.in_proj_bias.chunk(3)
        self.q, self.k, self.v = map(linear_of, weights, biases)
        self.out = linear_of(whole.out_proj.weight, whole.out_proj.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = FEATURES // HEADS
        split = -1, size  # as many heads as there are
        heads = (p(x).unflatten(-1, split) for p in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(
            *(each.transpose(1, 2) for each in heads)
        )
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


# %%
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

gather = dict(input_layouts=Shard(1), desired_input_layouts=Replicate())
PLAN = {
    **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
    **{"mlp.0": ColwiseParallel()},
    **{f"norm{k}": SequenceParallel() for k in (1, 2)},
    **{name: PrepareModuleInput(**gather) for name in ("attention", "mlp")},
    **{n: RowwiseParallel(output_layouts=Shard(1)) for n in ("attention.out", "mlp.2")},
}
Counted = dict[str, int]


def counts(mode: CommDebugMode) -> Counted:
    """Collectives by name, as ours: "all_gather_into_tensor" is an all-gather."""
    found = mode.get_comm_counts().items()
    names = {str(name).split(".")[-1]: number for name, number in found if number}
    return {
        name.removesuffix("_tensor").removesuffix("_into"): number
        for name, number in names.items()
    }


# %%
def with_torch(
    comm: Communicator, whole: nn.TransformerEncoderLayer
) -> tuple[dict[str, torch.Tensor], list[Counted], list[str]]:
    """Output and gradients; what was called when; whose gradients are still terms."""
    block, x = Block(whole), tp.split_sequence(comm, activations())
    with torch_distributed(comm, "gloo"):
        mesh = init_device_mesh("cpu", (comm.world_size,))
        parallelize_module(block, mesh, PLAN)
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
        steps = []
        for optimizer in (torch.optim.SGD, torch.optim.Adam):
            with CommDebugMode() as step:
                optimizer(block.parameters()).step()
            steps.append(step)
    return found, [counts(mode) for mode in (forward, backward, *steps)], partial


# %%
torch.manual_seed(4)
options = dict(activation=gelu, batch_first=True, norm_first=True, dropout=0.0)
torch_layer = nn.TransformerEncoderLayer(
    FEATURES, HEADS, HIDDEN, **options, dtype=DOUBLE
)
lone = Block(torch_layer)
y = lone(activations())
y.square().sum().backward()
with World(2) as real:
    by_rank = real.run(with_torch, torch_layer)
_, (forward, backward, step, adam_step), partial = by_rank[0]
gap = off(torch.cat([found["output"] for found, *_ in by_rank], dim=1), y)
for found, *_ in by_rank:
    for name, weight in lone.named_parameters():
        gap = max(gap, off(found[name], weight.grad))
print(f"largest difference to one process {gap:.0e}")
print(f"forward {forward}\nbackward {backward}")
print(f"step with SGD {step}, with Adam {adam_step}")
print("terms of a sum until then:", ", ".join(partial))
assert gap < 1e-10

# %% [markdown]
# The same numbers, to rounding. What do ours send, in the same layer on two ranks?


# %% tags=["folded"]
# What rank 0 calls, read from the trace
def calls_of(trace: Trace) -> Counted:
    """A ring all-reduce is 2(N − 1) messages, its halves N − 1."""
    each = trace.world_size - 1
    return {
        name: sent.messages // each // (1 + (name == "all_reduce"))
        for name, sent in trace.by_collective(rank=0).items()
    }


def ours(comm: Communicator, backward: bool, adds: bool) -> None:
    options = {"sequence": True, "dtype": DOUBLE}
    layer = tp.ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, **options)
    y = layer(tp.split_sequence(comm, activations()).requires_grad_())
    if backward:
        y.square().sum().backward()
    if adds:
        tp.sum_sequence_gradients(comm, layer)


# %%
calls = []
for through, adds in ((False, False), (True, False), (True, True)):
    two.run(ours, through, adds)
    calls.append(Counter(calls_of(two.trace)))
print("ours: forward", dict(calls[0]))
print("     backward", dict(calls[1] - calls[0]))
print("         step", dict(calls[2] - calls[1]))
assert dict(calls[0]) == forward and dict(calls[1] - calls[0]) == backward
assert dict(calls[2] - calls[1]) == {"all_reduce": 1} and step == {"all_reduce": 4}
assert adam_step == {"all_reduce": 12}
assert partial == ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"]

# %% [markdown]
# The same collectives in the layer. But DTensor leaves the gradients of the norms as `Partial`, terms of a sum. They
# are added up in the optimizer's step: four all-reduces with SGD (with Adam twelve). Ours calls one before the step,
# for all of them together.
#
# In real training you would also meet **Megatron-LM**, whose `--sequence-parallel` is this; and servers such as
# **vLLM**, which copy KV heads where there are fewer than ranks, as above. For sequences that are too long even for a
# part of a rank there is *context parallelism*: see Liu et al.
#
# ## In short
#
# For $N$ ranks, and activations $x$ of $S$ bytes, where $h = 4f$ and attention keeps no matrix of sequence × sequence:
#
# | | sent per layer | activations kept per layer |
# |---|---|---|
# | one process | nothing | $16 S$ |
# | tensor parallel | 4 all-reduces | $(4 + 12/N)\,S$ |
# | with sequence parallelism | 4 all-gathers, 4 reduce-scatters: the same bytes, and a little | $(2 + 14/N)\,S$ |
#
# - The parallel model is the model of one process, to rounding, with any number of ranks that divides its sizes. That
#   is with SGD. In float32 Adam makes steps of rounding where a gradient is nothing else, as for the biases of the
#   keys. They have no effect here: the losses agree.
# - Weights, gradients and optimizer state shrink nearly as $1/N$, as long as what is copied is small: norms, some
#   biases, and KV heads where there are fewer than ranks.
# - With fewer KV heads than ranks, and each copied whole, more ranks don't make the KV cache of a rank smaller, and
#   gradients of the copies must be added up. With as many ranks as query heads, fewer KV heads save a rank nothing.
# - Which strategy is fastest depends on links, batch and sizes. On the fast links here: tensor parallelism for one
#   sequence, unless there is little to compute (narrow layers, short sequences), where one device is faster than eight
#   ranks, and two ranks can be faster still; data parallelism once a batch has sequences for all ranks and enough
#   tokens that the gradients hide for a good part, if the model fits. On slow links each of the three wins somewhere.
#   With one sequence, of the three only tensor parallelism can help there, and only where layers are wide or sequences
#   long (here: $72 f + 12 s$ clearly above 256,000).
# - Over two machines a ring is as slow as the link between them. Here that has a 24th of the bandwidth. With
#   hierarchical all-reduces and 2,048 features four ranks in one machine were faster than eight in two, and with 4,096
#   eight were. They are never twice as fast, since the messages of a rank don't shrink with more ranks.
#
# ## Now you
#
# [The exercise of lesson 10c](../exercises/10c_cuts_closer/10c_cuts_closer.ipynb) needs nothing of this lesson. But its
# attention and its loss are those of the model above.
#
# ## Further reading
#
# - V. Korthikanti et al., [Reducing Activation Recomputation in Large Transformer
#   Models](https://arxiv.org/abs/2205.05198), 2022. Sequence parallelism, and what a layer keeps, byte by byte.
# - D. Narayanan et al., [Efficient Large-Scale Language Model Training on GPU
#   Clusters](https://arxiv.org/abs/2104.04473), SC 2021. Tensor parallelism inside a machine, pipelines between them.
# - J. Ainslie et al., [GQA: Training Generalized Multi-Query Transformer
#   Models](https://arxiv.org/abs/2305.13245), 2023. Groups of queries that share keys and values.
# - A. Grattafiori et al., [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783), 2024. Table 3: layers, heads
#   and KV heads. Section 3.3: tensor, context, pipeline and data parallelism together.
# - H. Liu et al., [Ring Attention with Blockwise Transformers for Near-Infinite
#   Context](https://arxiv.org/abs/2310.01889), 2023. Context parallelism.
