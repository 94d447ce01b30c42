# %% [markdown]
# # Long sequences and experts, closer
#
# **This lesson is optional.** It goes on where [Experts and long sequences](12b_experts.ipynb) ends: rings with a
# causal mask, clocks for rings and Ulysses, and routers that learn. It can also be read by itself.
#
# After it you will be able to
#
# - compute attention over a sequence that no rank has as a whole, with softmax rescaled block by block,
# - say how little a causal mask saves a ring in contiguous order, and which order of the positions saves half,
# - choose between ring attention and Ulysses for a given sequence, number of heads and network,
# - send tokens to experts on other ranks and back, and say what an unbalanced router costs.
#
# **Time:** about 105 minutes. **You need:** [All-reduce](02_all_reduce.ipynb), [DDP](05_ddp.ipynb) for stragglers and
# averaged gradients, and [Tensor parallelism](10_tensor_parallel.ipynb). [Lesson 10b](10b_whole_transformer.ipynb)
# explains sequence parallelism and grouped-query attention, which are mentioned. No GPU.

# %%
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from distlib import (
    Cluster,
    Communicator,
    Link,
    RankError,
    ReduceOp,
    SimulatedWorld,
    World,
    all_reduce,
    torch_distributed,
    traffic,
)
from distlib.draw import bytes_per_rank, predict, sweep, timeline
from distlib.training import digits, experts as moe, long_sequences as ls

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
DOUBLE = torch.float64
world = SimulatedWorld(4, contexts="threads")  # it communicates inside backward


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference."""
    return float((found - wanted).detach().abs().max())


# %% [markdown]
# ## A sequence that no rank has
#
# Tensor parallelism cuts attention by heads. Each rank still has the whole sequence. Sequence parallelism (lesson 10b)
# cuts what lies *between* the blocks, and gathers the sequence before attention. With a sequence of a million tokens
# that no longer fits: one layer's queries, keys and values of 32 heads with 128 features each take 24 GiB in bfloat16,
# and the activations of all layers are kept for backward.
#
# So each rank keeps its part of the positions all the time. Norms, MLPs and the layers that make queries, keys and
# values look at one position at a time: forward they need nothing from other ranks. Only attention does. There a query
# needs the keys and the values of *all* positions:
#
# $$o = \frac{\sum_j e^{s_j} v_j}{\sum_j e^{s_j}} \qquad s_j = q \cdot k_j / \sqrt{d}$$
#
# Around attention, three things must not be forgotten. Positional encodings take the *true* positions, which begin
# at 0 on one rank only, and need not even be in one piece. Labels and the loss are cut in the same way as the
# tokens. And backward, the gradient of a weight comes from a rank's own positions only: it must be combined over the
# ranks, as in data parallelism.
#
# Both sums can be made block by block, in any order. What is in the way is $e^{s}$: it overflows.

# %%
guess_1 = predict("From which whole number on is exp(score) infinite in float32?")

# %%
scores = torch.arange(200.0)
first_infinite = int(scores.exp().isinf().nonzero()[0])
print(guess_1.compare(first_infinite))
assert 1_048_576 * 3 * 32 * 128 * 2 / 2**30 == 24
assert first_infinite == 89

# %% [markdown]
# That is why every softmax subtracts the largest score first: numerator and denominator get the same factor. But the
# largest score of the whole sequence is known only at the end. So keep the largest so far, $m$, and *rescale* the sums
# when a larger one comes: multiply them by $e^{m - m'}$. This is called online softmax. `OnlineSoftmax` keeps three
# things for each query: $m$, the sum of weights, and the sum of weighted values.

# %%
torch.manual_seed(0)
queries, values = torch.zeros(1, 1, 3, 4), torch.randn(1, 1, 6, 4)
scores = 300 + torch.randn(1, 1, 3, 6)  # far too large for exp


def by_blocks(order: Sequence[int]) -> torch.Tensor:
    """Attention to six keys in three blocks, taken in this order."""
    softmax = ls.OnlineSoftmax(queries)
    for block in order:
        at = slice(2 * block, 2 * block + 2)
        softmax.add(scores[..., at], values[..., at, :])
        largest = [f"{score:.1f}" for score in softmax.largest.flatten()]
        print(f"after block {block} the largest scores are {', '.join(largest)}")
    return softmax.result()[0]


whole = scores.softmax(-1) @ values
rescaled = by_blocks([0, 1, 2])
print(f"difference {off(rescaled, whole):.0e}")
assert off(rescaled, whole) < 1e-6 and scores.exp().isinf().all()

# %% [markdown]
# **Try it.** Take the blocks in another order, and one of them twice. Which of the two changes the result?

# %%
print(f"difference {off(by_blocks([0, 1, 2]), whole):.0e}")

# %% tags=["folded"]
# One way to do it
# The order changes nothing but rounding. A block that comes twice counts twice.
backwards, twice = by_blocks([2, 0, 1]), by_blocks([0, 1, 2, 0])
print(
    f"another order {off(backwards, whole):.0e}, block 0 twice {off(twice, whole):.1f}"
)
assert off(backwards, whole) < 1e-6 < 1e-3 < off(twice, whole)

# %% [markdown]
# ## Keys and values travel
#
# Blocks may come in any order. So let them come round the ring of lesson 02:
#
#     step 0    rank 0: keys 0    rank 1: keys 1    rank 2: keys 2    rank 3: keys 3
#     step 1    rank 0: keys 3    rank 1: keys 0    rank 2: keys 1    rank 3: keys 2
#     step 2    rank 0: keys 2    rank 1: keys 3    rank 2: keys 0    rank 3: keys 1
#     step 3    rank 0: keys 1    rank 1: keys 2    rank 2: keys 3    rank 3: keys 0
#
# Queries stay. Every rank adds the block that it has to its softmax, while the next block is on its way. After
# $N - 1$ sends each rank has seen all keys. Besides its own it has at most two blocks: the one in hand and the one on
# its way.
#
# **Backward** the blocks travel once more. The scores are computed again; of the softmax only one number per query was
# kept. Each block now has a companion, the gradient of its keys and values: every rank adds what its queries
# contribute. At the end of the ring the companion is one step from home, so it makes one send more, $N$ in all.
#
# Let $S$ be the bytes of a rank's keys. Values have as many.

# %%
guess_2 = predict(
    "Four ranks, all numbers in float64. How many times as many bytes does backward "
    "send as forward?",
    unit="times",
)

# %%
BATCH, HEADS, SEQUENCE, HEAD = 1, 4, 64, 8


def drawn(seed: int = 0, heads: int = HEADS, sequence: int = SEQUENCE) -> torch.Tensor:
    """Queries, keys, values and the gradient of the output: [4, batch, heads, …]."""
    generator = torch.Generator().manual_seed(seed)
    shape = (4, BATCH, heads, sequence, HEAD)
    return torch.randn(shape, generator=generator, dtype=DOUBLE)


def by_ring(
    comm: Communicator, whole: torch.Tensor, causal: bool, order: str, backward: bool
) -> list[torch.Tensor]:
    """This rank's output, and the gradients of its queries, keys and values."""
    *parts, gradient = ls.own_sequence(comm, whole, order).unbind()
    parts = [part.clone().requires_grad_() for part in parts]
    output = ls.ring_attention(comm, *parts, causal=causal, order=order)
    if backward:
        output.backward(gradient)
    return [output.detach(), *(part.grad for part in parts if backward)]


# %%
def in_one_process(whole: torch.Tensor, causal: bool) -> list[torch.Tensor]:
    queries, keys, values = (t.clone().requires_grad_() for t in whole[:3])
    output = scaled_dot_product_attention(queries, keys, values, is_causal=causal)
    output.backward(whole[3])
    return [output.detach(), queries.grad, keys.grad, values.grad]


def largest_gap(
    by_rank: list[list[torch.Tensor]], wanted: list[torch.Tensor], order: str
) -> float:
    joined = [ls.join_sequence(p, order) for p in zip(*by_rank, strict=True)]
    return max(off(found, right) for found, right in zip(joined, wanted, strict=True))


world.run(by_ring, drawn(), False, "contiguous", False)
forward = world.trace
by_rank = world.run(by_ring, drawn(), False, "contiguous", True)
both = world.trace
gap = largest_gap(by_rank, in_one_process(drawn(), False), "contiguous")
S = BATCH * HEADS * SEQUENCE // 4 * HEAD * 8
print(f"largest difference to one process {gap:.0e}")
print(f"S is {S:,} bytes; a rank sends {forward.bytes_sent[0] // S} S forward,")
backward_bytes = both.bytes_sent[0] - forward.bytes_sent[0]
print(f"and {backward_bytes // S} S backward")
print(guess_2.compare(round(backward_bytes / forward.bytes_sent[0], 2)))
assert gap < 1e-12
assert forward.bytes_sent == [2 * 3 * S] * 4 and backward_bytes == (2 * 3 + 2 * 4) * S

# %%
timeline(forward, title="Ring attention, forward", by="round")

# %% [markdown]
# Forward a rank sends $2(N-1)\,S$, backward $2(N-1)\,S + 2N\,S$. In half precision the gradients travel in float32, so
# backward sends $2(N-1)\,S + 4N\,S$: with four ranks 22 $S$, 3.67 times as much as forward.
#
# `ring_attention` itself never sees the whole sequence; only our test does, to cut it. The result is that of one
# process to rounding, gradients included. This is exact attention, not an approximation.
#
# Of what belongs to positions a rank keeps $1/N$. Parameters it has whole. And one thing still grows too fast: for each
# pair of blocks our function makes all scores at once. For a million tokens in this order, on 8 ranks, that is 64 GiB
# per head in float32. A real kernel cuts this block as well, and never has it whole (FlashAttention).

# %% tags=["folded"]
# Checks
# Other numbers of ranks, seeds, masks and orders, real ranks; half precision
for ranks in (2, 3, 5):
    some = SimulatedWorld(ranks, contexts="threads")
    for seed, causal in ((1, False), (2, True)):
        inputs = drawn(seed, 1, 12 * ranks)
        wanted = in_one_process(inputs, causal)
        for order in ("contiguous", "zigzag"):
            found = some.run(by_ring, inputs, causal, order, True)
            assert largest_gap(found, wanted, order) < 1e-12
            expected = ls.ring_attention_traffic(ranks, 12 * HEAD, 8)
            expected += ls.ring_attention_traffic(ranks, 12 * HEAD, 8, backward=True)
            assert some.trace.bytes_sent == expected.nbytes
half = [
    ls.ring_attention_traffic(4, 64, 2, backward=b).nbytes[0] for b in (False, True)
]
assert [sent / (64 * 2) for sent in half] == [6, 22] and round(22 / 6, 2) == 3.67
assert (2**20 // 8) ** 2 * 4 / 2**30 == 64
with World(2) as real:
    found = real.run(by_ring, drawn(), True, "zigzag", True)
    assert largest_gap(found, in_one_process(drawn(), True), "zigzag") < 1e-12

# %% [markdown]
# ## A ring with a causal mask
#
# In a language model a position sees only itself and those before it. That hides nearly half of the pairs of query and
# key. A block of keys that comes after all queries of a rank need not be computed: rank 0 skips every block but its
# own.

# %%
guess_3 = predict(
    "Eight ranks, a long sequence. With the mask the ring takes what share of its time without?",
    unit="percent",
)

# %%
NODE = Cluster.flat(8, Link(latency=3e-6, bandwidth=50e9))


def seconds(
    method: str, sequence: int, cluster: Cluster = NODE, backward: bool = False, **task
) -> float:
    """Attention with 16 heads of 128 features in bfloat16, devices of 400 TFLOP/s."""
    what = ls.AttentionTask(16, sequence, **task)
    return ls.attention_seconds(cluster, what, method, backward=backward)


LONG = 2**20
full = seconds("contiguous", LONG, causal=False)
masked = seconds("contiguous", LONG)
print(f"no mask {full:.2f} s, with the mask {masked:.2f} s")
print(guess_3.compare(round(100 * masked / full, 1)))
assert f"{masked / full:.3f}" == "0.938"  # 1 − 1/(2N)
two = Cluster.flat(2, NODE.intra)
saved = seconds("contiguous", LONG, two) / seconds(
    "contiguous", LONG, two, causal=False
)
assert f"{saved:.3f}" == "0.750"

# %% [markdown]
# Half of the work is gone, and only one part in $2N$ of the time: here 6 %, with two ranks 25 %. (Times here are
# virtual. The messages are those of the real function, and in place of computing a rank sleeps, by the number of pairs
# that it sees.) Look at who computes when, on four ranks.

# %%
four = SimulatedWorld(4, Cluster.flat(4, Link(latency=3e-6, bandwidth=50e9)))
TASK = ls.AttentionTask(16, sequence=2**17)
spans = four.run(ls.play_ring, TASK, "contiguous")
in_order = four.elapsed
timeline(four.trace, title="A causal ring, contiguous order", computing=spans)

# %% [markdown]
# The last rank sees every block whole, but for its own. It computes in all steps, and the ring takes as long as this
# rank. The first one is done after one step, and only passes on what comes. In each step, blocks go on while a rank
# computes: that is what the bars above and below the line show.
#
# The remedy is to deal the positions out differently. Cut the sequence into $2N$ blocks, and give rank $r$ the blocks
# $r$ and $2N - 1 - r$: an early one and a late one. This order is called *zigzag*.

# %%
for rank in range(4):
    print(f"of 4 ranks, rank {rank} has blocks {ls.blocks_of(rank, 4, 'zigzag')}")
pairs = ls.visible_pairs(8, 8 * 64)  # [step][rank], per head
in_zigzag = ls.visible_pairs(8, 8 * 64, "zigzag")
for step in (0, 1, 7):
    print(
        f"step {step}: contiguous {pairs[step]}\n        zigzag     {in_zigzag[step]}"
    )
balanced = seconds("zigzag", LONG)
short = [seconds(order, 4096) for order in ("contiguous", "zigzag")]
print(f"no mask {full:.2f} s, contiguous {masked:.2f} s, zigzag {balanced:.2f} s")
assert all(len(set(counts)) == 1 for counts in in_zigzag)
assert ls.pairs_per_rank(8, 512, "zigzag") == [512 * 513 // 2 // 8] * 8
assert 0.499 < balanced / full < 0.501
assert min(short) > 0.99 * seconds("contiguous", 4096, causal=False)

# %%
spans = four.run(ls.play_ring, TASK, "zigzag")
assert 0.57 < four.elapsed / in_order < 0.573  # 4/7
picture = timeline(four.trace, title="The same ring, zigzag order", computing=spans)
in_half = four.elapsed
four.run(ls.play_ring, TASK._replace(causal=False), "contiguous")
assert 0.499 < in_half / four.elapsed < 0.501
picture

# %% [markdown]
# Now all ranks have the same to compute, in each step, to the pair. The time is half of what it is without a mask, and
# on four ranks 4/7 of what contiguous order takes.
#
# All this holds where computing takes longer than messages. With 4,096 tokens on eight ranks messages take longer:
# neither the mask nor the order changes the time by more than 1 %.
#
# Why is it exact? Take a step after the first, and the keys of another rank. If those come from a lower rank, both of
# my blocks see its early block, and neither sees its late one. If from a higher rank, only my late block sees anything,
# but both of its blocks. Two of four either way.
#
# **Try it.** *Striped* order gives rank $r$ the positions $r$, $r + N$, $r + 2N$, … Count the pairs of each rank with
# 4 ranks and 64 positions. How does it compare?

# %%
positions = [list(range(16 * rank, 16 * rank + 16)) for rank in range(4)]  # contiguous
print([sum(position + 1 for position in own) for own in positions])

# %% tags=["folded"]
# One way to do it
# Nearly balanced: each rank has a little more than the one before it
striped = [sum(at + 1 for at in range(rank, 64, 4)) for rank in range(4)]
contiguous = [sum(at + 1 for at in own) for own in positions]
print(f"striped {striped}, zigzag {ls.pairs_per_rank(4, 64, 'zigzag')}")
assert contiguous == ls.pairs_per_rank(4, 64) and striped == [496, 512, 528, 544]
assert ls.pairs_per_rank(4, 64, "zigzag") == [520] * 4

# %% [markdown]
# Equal shares are right for equal ranks.
#
# **Try it.** Make one of the eight ranks half as fast: first rank 7, then rank 0. Which order is faster? And if the
# rank takes only 1.8 times as long as the others?

# %%
slow = Cluster(1, 8, intra=Link(latency=3e-6, bandwidth=50e9), stragglers={7: 2.0})
print([f"{seconds(order, LONG, slow):.2f} s" for order in ("contiguous", "zigzag")])

# %% tags=["folded"]
# One way to do it
# Half as fast: if it is one of the first four, contiguous, as there it has less to do than others.
# At 1.8 zigzag, whichever it is. In contiguous order the last rank has 2 − 1/N times its share to
# compute: a slow rank must take longer than this for the order to pay. (That is forward.)
for factor in (1.8, 2.0):
    faster = []
    for rank in range(8):
        slow = Cluster(1, 8, intra=NODE.intra, stragglers={rank: factor})
        found = {
            order: seconds(order, LONG, slow) for order in ("contiguous", "zigzag")
        }
        faster.append(min(found, key=lambda order: found[order]))
    print(f"{factor} times as long: {faster}")
    first_half = "zigzag" if factor < 2 - 1 / 8 else "contiguous"
    assert faster == [first_half] * 4 + ["zigzag"] * 4

# %% [markdown]
# ## Ulysses: trade positions for heads
#
# There is another way. A head needs nothing from other heads. So before attention, swap: each rank gives away most of
# its heads, and gets all positions of the others. An all-to-all does that. After attention a second one swaps back.
#
#     rank r has     all heads, its positions     ──all-to-all──►     its heads, all positions
#
# In the all-to-all a rank keeps $1/N$ and sends the rest: of queries, keys, values and the output, so
# $4 \frac{N-1}{N} S$ together. Backward sends the same.

# %%
guess_4 = predict(
    "Eight ranks, forward. How many times as many bytes does the ring send as Ulysses?",
    unit="times",
)


# %%
def by_ulysses(
    comm: Communicator, whole: torch.Tensor, causal: bool, backward: bool
) -> list[torch.Tensor]:
    """As `by_ring`."""
    *parts, gradient = ls.own_sequence(comm, whole).unbind()
    parts = [part.clone().requires_grad_() for part in parts]
    output = ls.ulysses_attention(comm, *parts, causal=causal)
    if backward:
        output.backward(gradient)
    return [output.detach(), *(part.grad for part in parts if backward)]


eight = SimulatedWorld(8, contexts="threads")
inputs, traces = drawn(heads=8), {}
eight.run(by_ring, inputs, True, "contiguous", False)
traces["ring"] = eight.trace
eight.run(by_ulysses, inputs, True, False)
traces["Ulysses"] = eight.trace
found = eight.run(by_ulysses, inputs, True, True)
gap = largest_gap(found, in_one_process(inputs, True), "contiguous")
sent = {name: trace.bytes_sent[0] for name, trace in traces.items()}
print(f"largest difference to one process {gap:.0e}; bytes sent forward {sent}")
print(guess_4.compare(sent["ring"] / sent["Ulysses"]))
assert gap < 1e-12 and sent["ring"] / sent["Ulysses"] == 4
assert eight.trace.bytes_sent == [2 * sent["Ulysses"]] * 8

# %%
bytes_per_rank(compare=traces, title="Attention over 8 ranks, forward")

# %% [markdown]
# Here the ring sends $N/2$ times as much, as each block visits every rank. And masks need no thought with Ulysses: each
# rank computes some heads of the whole sequence, and all have the same to do.
#
# It has a limit. A head can't be cut:


# %%
def too_few_heads(comm: Communicator) -> None:
    part = torch.zeros(1, 4, 2, HEAD)  # 4 heads
    ls.ulysses_attention(comm, part, part, part)


try:
    SimulatedWorld(8).run(too_few_heads)
except RankError as error:
    print(str(error).splitlines()[0])
    assert "heads that 8 ranks divide" in str(error)

# %% tags=["folded"]
# Checks
# Bytes with fewer KV heads, from the counts of the ring and of an all-to-all
for g in (1, 2, 8):
    ring = ls.ring_attention_traffic(8, 64, 2).nbytes[0]
    both_ways = traffic.all_to_all(8, (2 * g + 2) * 64, 2).nbytes[0]
    assert abs(ring / both_ways - 8 / (g + 1)) < 1e-12

# %% [markdown]
# The number of ranks must divide that of the heads, so there can't be more ranks than heads. With grouped-query
# attention (lesson 10b) it is the KV heads that run out first, often at 8; beyond that they must be copied. A ring
# takes any number of ranks that divides the sequence; in zigzag order twice that number must.
#
# Such models change the bytes, too. Our functions take as many KV heads as query heads. Where $g$ query heads share a
# KV head, keys and values are small, and only they travel round the ring: $2(N-1)\,S$ as before. Ulysses sends queries
# and output as well, which are $g$ times as large: $(2g+2)\frac{N-1}{N}\,S$. The ring sends $N/(g+1)$ times as much, so
# with 8 ranks, 8 KV heads and $g = 8$ it sends *less*. Where each KV head must be copied $c$ times for Ulysses, it is
# $N/(g+c)$ times.
#
# ### Which is faster?
#
# With as many KV heads as query heads, the ring sends more, but in the background, while it computes. Ulysses can't
# compute before the all-to-all is done.

# %%
guess_5 = predict(
    "Eight ranks, causal, forward and backward. The fastest for 4,096 tokens, and for 524,288?",
    choices=[
        "Ulysses for both",
        "the ring for both",
        "Ulysses for 4,096, the ring for 524,288",
        "the ring for 4,096, Ulysses for 524,288",
    ],
)

# %%
LENGTHS = [2**k for k in range(12, 20)]
WAYS = {"ring": "contiguous", "zigzag ring": "zigzag", "Ulysses": "ulysses"}


def times_on(cluster: Cluster) -> dict[str, dict[float, float]]:
    """Milliseconds, forward and backward, by way and sequence."""
    return {
        name: {n: 1e3 * seconds(method, n, cluster, backward=True) for n in LENGTHS}
        for name, method in WAYS.items()
    }


times = times_on(NODE)
for n in LENGTHS:
    row = ", ".join(f"{name} {by[n]:7.2f}" for name, by in times.items())
    print(f"{n:7,} tokens, ms: {row}")


def fastest(times: dict[str, dict[float, float]], n: int) -> str:
    return min(times, key=lambda name: times[name][n])


print(guess_5.compare("Ulysses for 4,096, the ring for 524,288"))
assert fastest(times, 4096) == "Ulysses"
assert fastest(times, 2**19) == "zigzag ring"


# %%
def lead(sequence: int, cluster: Cluster = NODE, backward: bool = True) -> float:
    """How many times as long as the zigzag ring Ulysses takes."""
    ulysses = seconds("ulysses", sequence, cluster, backward)
    return ulysses / seconds("zigzag", sequence, cluster, backward)


def crossing(cluster: Cluster) -> int:
    """From how many tokens on the ring wins, forward and backward; up to 4,096 too many."""
    ulysses_wins, ring_wins = 2**12, 2**20
    while ring_wins - ulysses_wins > 4096:
        middle = (ulysses_wins + ring_wins) // 2
        if lead(middle, cluster) > 1:
            ring_wins = middle
        else:
            ulysses_wins = middle
    return ring_wins


one_node = crossing(NODE)
print(f"the ring wins from some {one_node:,} tokens on")
assert 136_000 < one_node < 145_000

# %% tags=["folded"]
# Checks of what is said below
# Other numbers of ranks, and forward alone
assert lead(2**12) < 1 / 5 and 0.96 < lead(2**17) < 0.97
assert 1.035 < lead(163_840) < 1.045 and 1.006 < lead(2**20) < 1.007
flat = {n: Cluster.flat(n, NODE.intra) for n in (2, 4, 8, 16)}
for n, cluster in flat.items():
    forward = {k: round(lead(2**k, cluster, False), 2) for k in range(8, 21)}
    both = {k: round(lead(2**k, cluster), 2) for k in (8, 10, 12, 14, 15, 20)}
    print(f"{n:2} ranks, forward: {forward}\n   and backward: {both}")
    if n == 2:
        assert all(value > 1 for k, value in forward.items() if k < 20)
        assert both[10] == 0.38 and both[12] < both[14] < 1 == both[15] == both[20]
    else:
        assert max(forward[k] for k in range(12, 21)) == {4: 1.37, 8: 1.22, 16: 1.12}[n]
        assert both[12] < 1 / 3 and 1 < lead(2**20, cluster) < 1.01
        assert min(forward.values()) > 2 / n
    if n == 4:
        assert min(forward.values()) == 0.59  # 1 / 1.7
        assert 1.05 < lead(81_920, cluster) < 1.052
faster = Cluster.flat(8, Link(latency=3e-6, bandwidth=450e9))
leads = [lead(16 * int(blocks * 400e12 / 450e9 / 2), faster) for blocks in (1.5, 2.5)]
print("on links nine times as fast, below and above two F/B:", leads)
assert leads[0] < 1 and 1.07 < leads[1] < 1.1
assert lead(64, backward=False) > 1.4  # 64 tokens on 8 ranks
slow_starts = Cluster.flat(8, Link(latency=50e-6, bandwidth=50e9))
assert lead(1024, slow_starts, False) > 1.4 and lead(256, slow_starts) > 1.1

# %%
sweep(
    {
        name: {n: times[name][n] / times["Ulysses"][n] for n in LENGTHS}
        for name in ("ring", "zigzag ring")
    },
    along="tokens in the sequence",
    title="Attention on 8 ranks: how many times as long as Ulysses",
    subtitle="16 heads, causal, forward and backward, links of 50 GB/s, 400 TFLOP/s per rank",
)

# %% [markdown]
# Computing grows with the square of the sequence, messages only with the sequence itself. So from some length on the
# ring hides nearly all it sends, and wins: from some 140,000 tokens on. It leads by 4 % at 163,840, and by less and
# less beyond, 0.7 % at a million. Below, what is sent decides, and Ulysses wins: by 3 % at 131,072 tokens, and at 4,096
# by a factor of more than five.
#
# Forward alone the ring does better, as its gradients don't travel: it leads by up to 22 %. It also wins where latency
# decides, as it sends half as many messages forward: with 64 tokens, or with 1,024 if a message takes 50 µs to start.
#
# Where the two meet depends on links and ranks. Without a mask, a step of the ring computes $4 b^2 d$ operations per
# head, for a block of $b$ positions. It sends $2 b d$ numbers of two bytes, so it hides them if
#
# $$\frac{4 b^2 d}{F} \ge \frac{4 b d}{B} \quad\text{, that is,}\quad b \ge F / B$$
#
# with $F$ operations and $B$ bytes per second. A head's size and their number cancel, with as many KV heads as query
# heads. Where $g$ query heads share one, the same bytes carry $g$ times the work: $b \ge F/(gB)$. In zigzag order with
# a causal mask a step computes half as much, so it takes blocks twice as long. The blocks are of a *rank*: with more
# ranks the sequence must be longer by as much.

# %%
needed = 400e12 / 50e9
for order, factor, causal in (("contiguous", 1, False), ("zigzag", 2, True)):
    for share in (0.95, 1.05):
        length = int(8 * factor * needed * share)
        counts = ls.visible_pairs(8, length, order, causal=causal)
        task = ls.AttentionTask(16, length, causal=causal)
        computing = sum(task.seconds(count[0]) for count in counts)
        hidden = seconds(order, length, causal=causal) < 1.01 * computing
        print(
            f"{order:10} {share} of {factor * needed:,.0f} positions: hidden? {hidden}"
        )
        assert hidden == (share > 1)

# %% [markdown]
# **Try it.** Put the ranks on two nodes of four, with 12.5 GB/s between the nodes. From which length on does the ring
# win now? You will need longer sequences.

# %%
print([fastest(times, n) for n in LENGTHS])

# %% tags=["folded"]
# One way to do it
# The slowest link has a quarter of the bandwidth, and the ring wins from four times as long on
two_nodes = Cluster(2, 4, Link(3e-6, 50e9), Link(5e-6, 12.5e9))
apart = crossing(two_nodes)
print(f"one node: from {one_node:,} tokens on; two nodes: from {apart:,}")
assert 3.8 < apart / one_node < 4.2

# %% [markdown]
# ## Experts
#
# Attention was about long sequences. The other half of this lesson is about wide models. An MLP with eight times as
# many features could store more, and would cost eight times as much per token. A *mixture of experts* has eight MLPs
# instead, and a **router** that sends each token to only $k$ of them, one or two. Parameters grow eightfold, operations
# per token only $k$-fold (and by the router's, which are few). That is why it is called sparse.
#
# The router is a linear layer: a score for each expert, softmax, and the $k$ largest. The output is the sum of what
# these experts say, weighted by their probabilities.

# %%
torch.manual_seed(1)
router = moe.TopKRouter(features=16, num_experts=8, k=2, seed=1)
routing = router(torch.randn(5, 16))
for token in range(3):
    chosen = routing.experts[token].tolist()
    weights = [round(weight, 2) for weight in routing.weights[token].tolist()]
    print(f"token {token} goes to experts {chosen}, with weights {weights}")
assert torch.allclose(routing.weights.sum(dim=1), torch.ones(5))

# %% [markdown]
# (Here the two weights are *renormalised*: divided by their sum. With $k = 1$ one must not do that. The weight would
# always be 1, and the router would get no gradient from the output.)
#
# Now put the experts on different ranks, and cut the batch as in data parallelism. A token must travel to the rank of
# its expert, and its result must come back. How many tokens go from rank 2 to rank 0? Nobody knows until the router
# has run. So there are three all-to-alls: of counts, of tokens, and back.

# %%
guess_6 = predict(
    "Four ranks, 8 experts, each token to 2 of them. If the router spreads evenly, "
    "what share of the chosen rows stays on its rank?",
    unit="percent",
)

# %%
FEATURES, HIDDEN, TOKENS = 16, 32, 96


def tokens_of(rank: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randn(TOKENS, FEATURES, generator=generator, dtype=DOUBLE)


def one_layer(comm: Communicator) -> tuple[torch.Tensor, list[int], list[int]]:
    """This rank's output, rows sent to each rank, and rows of each of its experts."""
    layer = moe.MixtureOfExperts(
        comm, FEATURES, HIDDEN, num_experts=8, k=2, dtype=DOUBLE
    )
    output = layer(tokens_of(comm.rank))
    return output.detach(), layer.dispatched.sent, layer.dispatched.counts


outputs, sent, counts = zip(*world.run(one_layer), strict=True)
there_and_back = world.trace
for rank in range(4):
    print(f"rank {rank} sends {sent[rank]} rows to ranks 0 to 3; ", end="")
    print(f"its experts get {counts[rank]}")
stay = sum(sent[rank][rank] for rank in range(4)) / (4 * TOKENS * 2)
print(guess_6.compare(round(100 * stay)))
together = torch.cat([tokens_of(rank) for rank in range(4)])


def alone(comm: Communicator) -> torch.Tensor:
    layer = moe.MixtureOfExperts(
        comm, FEATURES, HIDDEN, num_experts=8, k=2, dtype=DOUBLE
    )
    return layer(together).detach()


gap = off(torch.cat(outputs), SimulatedWorld(1).run(alone)[0])
print(f"largest difference to one process with all experts {gap:.0e}")
assert gap < 1e-12 and 0.2 < stay < 0.3

# %% tags=["folded"]
# Checks
# The bytes by formula: counts, rows there, rows back
row = FEATURES * 8
for rank in range(4):
    away = sum(sent[rank]) - sent[rank][rank]
    come = sum(counts[rank]) - sent[rank][rank]
    assert there_and_back.bytes_sent[rank] == 3 * 2 * 8 + (away + come) * row
    assert there_and_back.messages_sent[rank] == 3 * 3

# %% [markdown]
# About a quarter stays: one rank in four. The counts are small, but they come first: unless all blocks have a fixed
# size, nothing can be sent before them.
#
# Backward, gradients take the same two ways. After it the gradient of an expert is a sum over the tokens of *all*
# ranks, since they came to it. The router's is of this rank's tokens alone, and must be combined. If the loss is a mean
# over a rank's tokens, average the router's over the ranks, as DDP does, and divide the experts' by $N$.
#
# ## The slowest rank
#
# The counts above differ, though the router is new and the tokens are noise. A router that learns is worse: whatever
# raises the probability of the chosen expert makes it be chosen more. What does that cost? Eight ranks with an expert
# each, 4,096 tokens of each rank, and suppose that half of the rows meant for each other expert go to rank 0's instead.

# %%
guess_7 = predict(
    "How many times as long does this layer take as with a balanced router?",
    unit="times",
)

# %%
WIDTH, ROWS = 4096, 512  # features; rows from each rank to each expert
PER_ROW = 2 * 2 * WIDTH * 4 * WIDTH / 400e12  # two products, hidden features 4 · WIDTH


def layer_with(row: list[int]) -> moe.ExpertTimes:
    """Each rank sends `row[e]` rows to expert e."""
    return moe.expert_seconds(NODE, [row] * 8, WIDTH, PER_ROW)


even = layer_with([ROWS] * 8)
uneven = layer_with([ROWS + 7 * ROWS // 2] + [ROWS // 2] * 7)
for name, run in (("balanced", even), ("unbalanced", uneven)):
    computing = [round(1e3 * s, 1) for s in run.computing]
    print(f"{name}: {1e3 * run.total:.1f} ms; ranks compute {computing} ms")
print(guess_7.compare(round(uneven.total / even.total, 1)))
assert f"{uneven.total / even.total:.1f}" == "4.5"
sending = [run.total - run.computing[0] for run in (even, uneven)]
print(
    f"computing {uneven.computing[0] / even.computing[0]:.1f} times as long, ", end=""
)
print(f"messages {sending[1] / sending[0]:.1f} times")
assert abs(uneven.computing[0] / even.computing[0] - 4.5) < 1e-6
assert f"{sending[1] / sending[0]:.1f}" == "4.4"

# %%
one_row = [ROWS + 3 * ROWS // 2] + [ROWS // 2] * 3  # the same with four ranks
spans = four.run(moe.play_experts, [one_row] * 4, WIDTH, PER_ROW)
timeline(
    four.trace,
    title="A layer of experts whose router favours rank 0",
    computing=[[span] for span in spans],
)

# %% tags=["folded"]
# Checks
# Equal shares, but all rows of a rank go to one expert; and an unbalanced router on two nodes
for favourite, expected in (
    (lambda rank: rank, 0.7),
    (lambda rank: (rank + 1) % 8, 1.0),
    (lambda rank: 7 - rank, 2.1),
):
    rows = [[8 * ROWS * (e == favourite(r)) for e in range(8)] for r in range(8)]
    found = moe.expert_seconds(NODE, rows, WIDTH, PER_ROW)
    assert max(found.computing) < 1.001 * min(even.computing)
    assert round(found.total / even.total, 1) == expected
two_nodes = Cluster(2, 4, Link(3e-6, 50e9), Link(5e-6, 12.5e9))
on_two_nodes = [
    moe.expert_seconds(two_nodes, [row] * 8, WIDTH, PER_ROW).total
    for row in ([ROWS] * 8, [ROWS + 7 * ROWS // 2] + [ROWS // 2] * 7)
]
assert round(on_two_nodes[1] / on_two_nodes[0], 1) == 3.6

# %% [markdown]
# Rank 0 gets 4.5 times its share, and the layer takes about 4.5 times as long: 4.5 in computing, 4.4 in messages. All
# others wait, as the picture shows for four ranks: for their rows to reach rank 0, and again to get them back. (Waiting
# to receive is white there, and arrows of one round may lie on those of another.) The work in all is the same.
#
# That is so because all ranks are equally fast, and spread their rows alike over equal links. On two nodes as above the
# layer takes 3.6 times as long. And equal shares are not enough for equal times. If each rank sends all its rows to one
# expert, and each expert gets the rows of one rank, the layer takes 0.7 times as long as the balanced one if rows stay
# at home, as long if they go to the next rank, and twice as long if rank $r$ sends to rank $7 - r$. (Our all-to-all
# goes in rounds: a rank sends to rank $r + i$ while it receives from rank $r - i$. With $7 - r$ these are two rounds.)
#
# ### Capacity
#
# One answer is a limit. An expert takes only `capacity` rows from each rank, a *factor* times its even share. What
# comes after that is dropped: the expert adds nothing to this token. A token that loses all its $k$ experts passes by
# the residual connection alone. First choices come before second ones, and earlier tokens before later ones.

# %%
experts = torch.tensor([[0], [0], [1], [0], [1]])  # 5 tokens, one choice each
print("kept:", moe.has_room(experts, capacity=2).flatten().tolist())
picked = torch.cat(
    [torch.zeros(ROWS + 7 * ROWS // 2), torch.arange(1, 8).repeat(ROWS // 2)]
)
picked = picked.long()[
    torch.randperm(len(picked), generator=torch.Generator().manual_seed(0))
]
by_factor = {}
for factor in (1.0, 1.5, 2.0, 4.5):
    room = moe.expert_capacity(len(picked), 8, factor=factor)
    kept = moe.has_room(picked.view(-1, 1), room).flatten()
    left = torch.bincount(picked[kept], minlength=8).tolist()
    by_factor[factor] = (
        1 - kept.float().mean().item(),
        layer_with(left).total / even.total,
    )
    print(
        "factor {}: dropped {:.0%}, {:.2f} times as long".format(
            factor, *by_factor[factor]
        )
    )
assert by_factor[4.5][0] == 0 and by_factor[1.0][1] < 1.01
assert f"{by_factor[1.0][0]:.0%}" == "44%"

# %% [markdown]
# A limit bounds the time, and pays with tokens. At factor 1 the layer is as fast as a balanced one, and 44 % of the
# tokens are dropped. So count what is dropped: `layer.dispatched.dropped` has the number of choices, and with $k = 1$
# that is the number of tokens.
#
# ### A loss that balances
#
# The other answer is to teach the router. The *auxiliary loss* is $E \sum_i f_i P_i$. Here $f_i$ is the share of all
# choices that went to expert $i$, and $P_i$ its mean probability. It is 1 where all experts get the same. (But it can
# be less where they don't: look at the shares, not at the loss.) Only $P$ has a gradient, and $f$ is its weight: the
# more an expert got, the more its probability is pushed down.
#
# Does a router need this? Train one: digits, 8 experts on 4 ranks, each token to one expert, with and without.

# %%
guess_8 = predict(
    "Without the auxiliary loss, the busiest of 8 experts gets what share of the "
    "tokens in the end?",
    unit="percent",
)

# %%
TRAIN, TEST = digits()


class Classifier(nn.Module):
    """A mixture of experts with a residual connection, between two layers that every rank has."""

    def __init__(
        self, comm: Communicator, seed: int, factor: float | None, centred: bool
    ) -> None:
        super().__init__()
        self.centred = centred  # the mixture gets the tokens less their mean
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        options = dict(renormalise=False, capacity_factor=factor, seed=100 * seed)
        self.mixture = moe.MixtureOfExperts(comm, 32, 32, 8, 1, **options)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.first(images.flatten(1)).relu()
        seen = x - x.mean(dim=0) if self.centred else x
        return self.last(x + self.mixture(seen))


def average_gradients(comm: Communicator, model: Classifier) -> None:
    """An expert's gradient is a sum over all ranks already."""
    for name, parameter in model.named_parameters():
        if name.startswith("mixture.experts"):
            parameter.grad /= comm.world_size
        else:
            all_reduce(comm, parameter.grad, ReduceOp.AVG)


# %%
def train(
    comm: Communicator,
    balance: float,
    seed: int,
    factor: float | None,
    alike: bool = False,
    frozen: str = "",
    centred: bool = False,
    steps: int = 100,
    balanced: int = 1000,
) -> tuple[list[int], int, float]:
    """Rows of each of this rank's experts and rows dropped, in the last 20 steps; accuracy.

    `frozen`, "router" or "experts", does not learn; no balancing after `balanced` steps.
    """
    model = Classifier(comm, seed, factor, centred)
    fixed = set(getattr(model.mixture, frozen).parameters()) if frozen else set()
    learning = [each for each in model.parameters() if each not in fixed]
    optimizer = torch.optim.Adam(learning, lr=3e-3)
    generator = torch.Generator().manual_seed(seed)
    rows, dropped = [0, 0], 0
    for step in range(steps):
        batch = torch.randperm(len(TRAIN.labels), generator=generator)[:256]
        if alike:  # each rank has its own digits
            batch = batch[TRAIN.labels[batch].argsort()]
        mine = batch.chunk(comm.world_size)[comm.rank]
        loss = cross_entropy(model(TRAIN.images[mine]), TRAIN.labels[mine])
        if step < balanced:
            loss += balance * moe.load_balancing_loss(model.mixture.routing, comm)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(comm, model)
        optimizer.step()
        if step >= steps - 20:
            came = model.mixture.dispatched
            rows = [a + b for a, b in zip(rows, came.counts, strict=True)]
            dropped += came.dropped
    with torch.no_grad():
        right = model(TEST.images).argmax(dim=1) == TEST.labels
    return rows, dropped, right.float().mean().item()


# %%
def shares(
    balance: float, seed: int = 0, factor: float | None = None, **options: Any
) -> list[float]:
    """What each of the 8 experts got in the last steps, as a share of all; prints it."""
    quiet = SimulatedWorld(4, contexts="threads", record=False)
    by_rank = quiet.run(train, balance, seed, factor, **options)
    counted = 256 * min(20, options.get("steps", 100))
    found = [count / counted for rows, *_ in by_rank for count in rows]
    lost = sum(dropped for _, dropped, _ in by_rank) / counted
    written = " ".join(f"{share:4.0%}" for share in found)
    print(
        f"balance {balance}: {written}; dropped {lost:.0%}; accuracy {by_rank[0][2]:.0%}"
    )
    return found


# %%
without, with_loss = shares(0.0), shares(0.1)
print(guess_8.compare(round(100 * max(without))))
assert max(without) > 0.95 and max(with_loss) < 0.25

# %% [markdown]
# Without it one expert has taken everything. Seven of eight experts are parameters that nobody uses, and three of four
# ranks wait. With the auxiliary loss, at a weight of 0.1, the busiest expert gets less than a quarter, where an even
# share would be 12.5 %.
#
# Why does it happen? (All this is for one expert per token, and for features without a norm.) The usual story is that
# the chosen expert gets trained, gets better, and is chosen more. That is a part of it. But a new router is not
# balanced to begin with: in the first step the busiest expert has some 75 %, 60 % and 55 %, with three seeds. That
# comes from the tokens. They have much in common, as neither pixels nor what a ReLU gives are negative, and for this
# part the router has one score for all. Take their mean off (`centred=True`), and with six seeds the busiest gets less
# than 30 % in the end, without any auxiliary loss. And for this to stay so, neither side has to learn. With frozen
# *experts* the busiest gets some 80 %, 100 % and 45 % in the end, with a frozen *router* some 70 %, 100 % and 75 %.
#
# To see the story itself, begin with a balanced router: 60 steps with the loss, then 100 without. With experts that
# learn the busiest then gets some 75 %, 30 % and 100 %, with frozen ones 45 %, 30 % and 30 %.
#
# The accuracies are near one another. Digits are easy: even with no expert at all it is above 90 %. So this shows how a
# router behaves, not what experts are worth.
#
# **Try it.** A weight of 0.01 is common in large models. Is it enough here? And how many tokens are dropped at a
# capacity factor of 1, with the loss? What if the tokens of a rank are alike (`alike=True`)?

# %%
print(f"the busiest has {max(without):.0%} without, {max(with_loss):.0%} with the loss")

# %% tags=["folded"]
# One way to do it
# 0.01 is not enough in a hundred steps. And some 15 % are dropped even when balanced:
# a rank has 64 tokens, and of so few more than 8 often want the same expert
too_little, limited = shares(0.01), shares(0.1, factor=1.0)
assert max(too_little) > 0.4 and 0.75 < sum(limited) < 0.95
# A rank whose tokens are alike sends them to the same few experts, and has no room there
crowded = shares(0.1, factor=1.0, alike=True)
assert sum(crowded) < 0.65

# %% tags=["folded"]
# Checks
# Other seeds. Five of six give nearly all to one expert; one, 5, to two of them
busiest = [max(without), *(max(shares(0.0, seed)) for seed in range(1, 6))]
assert min(busiest[:5]) > 0.95 and 0.6 < busiest[5] < 0.8
assert max(shares(0.1, seed=1)) < 0.25


def busiest_of(seeds: int, balance: float = 0.0, **options: Any) -> list[float]:
    return [max(shares(balance, seed, **options)) for seed in range(seeds)]


at_first = busiest_of(6, steps=1)
experts, router = busiest_of(3, frozen="experts"), busiest_of(3, frozen="router")
later = dict(balance=0.1, steps=160, balanced=60)
learning, fixed = busiest_of(3, **later), busiest_of(3, frozen="experts", **later)
for what, found in (
    ("at the first step", at_first),
    ("with frozen experts", experts),
    ("with a frozen router", router),
    ("balanced, then left alone", learning),
    ("the same with frozen experts", fixed),
):
    print(f"the busiest, {what}: {', '.join(f'{share:.0%}' for share in found)}")
centred = busiest_of(2, centred=True)
print(f"with centred tokens: {', '.join(f'{share:.0%}' for share in centred)}")
assert max(centred) < 0.35
unbalanced = torch.tensor([[0.51, 0.49]] * 3 + [[0.01, 0.99]])  # three to expert 0
uneven_routing = moe.route(unbalanced.log(), k=1, renormalise=False)
assert moe.load_balancing_loss(uneven_routing) < 0.9
assert 0.4 < min(at_first) and 0.7 < at_first[0] < 0.8 and max(at_first) < 0.98
assert 0.75 < experts[0] < 0.9 and experts[1] > 0.95 and 0.4 < experts[2] < 0.5
assert min(router) > 0.6 and router[1] > 0.95
assert max(learning) > 0.6 > max(fixed) and sum(learning) > 1.5 * sum(fixed)


def without_experts(seed: int) -> float:
    """The accuracy with nothing between the first and the last layer, and the same batches."""
    torch.manual_seed(seed)
    first, last = nn.Linear(64, 32), nn.Linear(32, 10)
    model = nn.Sequential(nn.Flatten(), first, nn.ReLU(), last)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(100):
        batch = torch.randperm(len(TRAIN.labels), generator=generator)[:256]
        optimizer.zero_grad()
        cross_entropy(model(TRAIN.images[batch]), TRAIN.labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        right = model(TEST.images).argmax(dim=1) == TEST.labels
    return right.float().mean().item()


plain = [without_experts(seed) for seed in range(2)]
print("accuracy without experts:", [f"{share:.0%}" for share in plain])
assert min(plain) > 0.9

# %% [markdown]
# ## In real frameworks
#
# `torch.distributed.all_to_all_single` takes the counts as lists: how many rows come from each rank, and how many go to
# each. The same rows as ours, with one expert on each of three real ranks:


# %%
def dispatched_by_both(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
    """What comes to this rank's expert: by ours, and by torch's all-to-all."""
    tokens = tokens_of(comm.rank)
    routing = moe.TopKRouter(FEATURES, 3, k=1, renormalise=False, dtype=DOUBLE)(tokens)
    ours = moe.dispatch_to_experts(comm, tokens, routing.experts, num_experts=3)

    in_order = tokens[routing.experts.flatten().argsort(stable=True)]
    theirs = tokens.new_empty(sum(ours.received), FEATURES)
    with torch_distributed(comm, "gloo"):
        splits = ours.received, ours.sent
        torch.distributed.all_to_all_single(theirs, in_order, *splits)
    return ours.rows.detach(), theirs.detach()


with World(3) as real:
    for rank, (ours, theirs) in enumerate(real.run(dispatched_by_both)):
        print(f"rank {rank}: {len(ours)} rows, equal: {torch.equal(ours, theirs)}")
        assert torch.equal(ours, theirs)

# %% [markdown]
# For long sequences torch has `context_parallel`, still experimental. Within it the buffers are cut over the ranks, and
# `scaled_dot_product_attention` becomes attention to the keys of all ranks. By default torch gathers these all at once;
# after `set_rotate_method("alltoall")` they travel block by block. In which order does it cut?


# %%
def with_context_parallel(
    comm: Communicator, whole: torch.Tensor, order: str
) -> list[float]:
    """How far torch's parts are from ours in this order; its output from full and
    from local attention."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel

    buffers = [each.clone() for each in whole[:3]]
    mine = [ls.own_sequence(comm, each, order) for each in whole[:3]]
    with torch_distributed(comm, "gloo"):
        mesh = init_device_mesh("cpu", (comm.world_size,))
        with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2, 2, 2]):
            parts = max(off(a, b) for a, b in zip(buffers, mine, strict=True))
            output = scaled_dot_product_attention(*buffers, is_causal=True)
    right = scaled_dot_product_attention(*whole[:3], is_causal=True)
    right = ls.own_sequence(comm, right, order)
    local = scaled_dot_product_attention(*mine, is_causal=True)
    return [parts, off(output, right), off(output, local)]


with World(4) as real:
    by_rank = real.run(with_context_parallel, drawn(), "zigzag")
    of_60 = real.run(with_context_parallel, drawn(sequence=60), "contiguous")
for rank, (parts, right, local) in enumerate(by_rank):
    print(f"rank {rank}: its part differs from ours by {parts}; error of its output")
    print(
        f"        against full attention {right:.1f}; "
        f"against attention to its own keys only {local}"
    )
assert all(parts == 0 and local == 0 and right > 0.1 for parts, right, local in by_rank)
assert all(parts == 0 for parts, *_ in of_60)  # 60 positions are not 8 equal blocks

# %% [markdown]
# It cuts in zigzag order, exactly as ours, if $2N$ divides the length. Otherwise it cuts in contiguous order without a
# word, as for 60 positions on 4 ranks. And on a CPU, in the version of torch that this course uses, keys are
# neither gathered nor sent round: each rank attends to its own keys alone, and no error says so. Only attention kernels
# of GPUs are replaced. So compare with one process once, whatever you use.
#
# In real training you would also meet **Megatron-LM**, whose `--context-parallel-size` is by default a ring in zigzag
# order, and whose `--expert-model-parallel-size` places experts; **DeepSpeed**, where Ulysses comes from; and
# **DeepSeek-V3**, which balances mostly by a bias on the scores, raised for experts with little to do.
#
# ## In short
#
# - In ring attention, keys and values travel around the ranks. In Ulysses, ranks exchange positions for heads.
# - With a causal mask, zigzag order gives all ranks of a ring equal work.
# - The busiest rank sets the time of a layer of experts.
# - Without a balancing loss or bias, a router can favor a few experts.
# - A capacity bounds this time, and drops the tokens above it. Count them.
#
# For $N$ ranks with as many KV heads as query heads, and keys of $S$ bytes on each:
#
# | | forward | backward | ranks | causal mask |
# |---|---|---|---|---|
# | ring | $2(N-1)\,S$, in the background | $(4N-2)\,S$; half precision $(6N-2)\,S$ | any | balanced in zigzag order |
# | Ulysses | $4\frac{N-1}{N}\,S$, not hidden | the same | must divide the heads | always balanced |
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - In contiguous order a ring is not balanced under a causal mask, in striped order nearly if each rank has many
#   positions, in zigzag order exactly.
# - Both are exact: values and gradients are those of one process, to rounding, also for scores of some hundreds.
# - With $g$ query heads per KV head, and a KV head for each rank, the ring sends $N/(g+1)$ times as much as Ulysses,
#   forward.
# - If computing decides, a causal mask leaves a ring of $N$ equal ranks $1 - 1/(2N)$ of its time in contiguous order,
#   and half in zigzag order. Forward, one slow rank makes contiguous order the faster one only if it takes more than
#   $2 - 1/N$ times as long as the others, and is in the first half of the ranks.
# - In numbers of two bytes, a ring hides its messages, forward and without a mask, from blocks of $F/B$ positions per
#   rank on, if latency does not count; in zigzag order with a causal mask, from twice that on. With $g$ query heads per
#   KV head, $g$ times shorter blocks will do.
# - On 4 to 16 equal ranks with equal links, causal, in numbers of two bytes, forward and backward: Ulysses is faster
#   for blocks shorter than some $2F/B$ positions per rank, as long as there are enough heads, and the ring for longer
#   ones. With our links Ulysses is several times faster at 4,096 tokens, and the ring by 5 % at most; on links nine
#   times as fast, by 9 %. Where latency decides, the ring may win.
# - Forward alone, Ulysses is at most $N/2$ times as fast, as the ring sends so many times as much. On 4 ranks it was
#   1.7 times as fast with our links, and the ring led by up to 37 %.
# - With 2 ranks both send the same forward, and the ring is faster there. Forward and backward, Ulysses is, by up to
#   2.6 times with our links, below blocks of $2F/B$ positions. Beyond that they take the same, in numbers of two bytes.
# - The slowest rank sets the time of a layer of experts. If the busiest expert gets $x$ times its share, the layer
#   takes about $x$ times as long, if ranks and links are equal, all ranks spread their rows alike, each rank has one
#   expert, and messages are large enough that latency does not count.
# - Without an auxiliary loss our small router, which takes one expert per token and sees features that no norm has
#   touched, sent nearly everything to one expert, with five of six seeds; with the sixth, to two. With the mean of the
#   tokens taken off, the busiest got less than 30 %. A LayerNorm, or two experts per token, softens the imbalance and
#   does not remove it. At a weight of 0.1 the busiest of 8 got less than a quarter, with eight seeds; 0.01 was
#   not enough within 100 steps.
# - A capacity bounds the time and drops tokens. It is counted per rank: with a balanced router and a factor of 1, some
#   15 % were dropped where a rank has 64 tokens, and nearly half where these are alike. Count them.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/12d_long_and_sparse_closer/12d_long_and_sparse_closer.ipynb) you let keys and values
# travel in a ring, with sums that are rescaled, and send tokens to their experts. [The exercise of lesson
# 10c](../exercises/10c_cuts_closer/10c_cuts_closer.ipynb) has attention that is cut by heads, as Ulysses computes
# it between its all-to-alls.
#
# ## Further reading
#
# - H. Liu, M. Zaharia, P. Abbeel, [Ring Attention with Blockwise Transformers for Near-Infinite
#   Context](https://arxiv.org/abs/2310.01889), 2023. The ring, and from which block on it hides its messages.
# - M. Milakov, N. Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867), 2018. The
#   softmax that is rescaled.
# - S. A. Jacobs et al., [DeepSpeed Ulysses](https://arxiv.org/abs/2309.14509), 2023. Two all-to-alls.
# - W. Brandon et al., [Striped Attention](https://arxiv.org/abs/2311.09431), 2023. Balance by single positions.
# - A. Grattafiori et al., [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783), 2024. Section 3.3.2: context
#   parallelism with $2N$ blocks.
# - N. Shazeer et al., [Outrageously Large Neural Networks](https://arxiv.org/abs/1701.06538), 2017. Mixtures of experts
#   in a network, and their balance.
# - D. Lepikhin et al., [GShard](https://arxiv.org/abs/2006.16668), 2020. Experts over devices, and capacity.
# - W. Fedus, B. Zoph, N. Shazeer, [Switch Transformers](https://arxiv.org/abs/2101.03961), 2021. One expert per token;
#   the auxiliary loss is equation 4.
