# %% [markdown]
# # Experts and long sequences
#
# [DeepSeek-V3](https://arxiv.org/abs/2412.19437) has 671 billion parameters. For each token it computes with only 37
# billion of them. At 16 bytes per parameter, a training run of this model fills the memory of at least 135 GPUs with 80
# GB each. Do most of these GPUs have nothing to do?
#
# > After this lesson you will be able to
# >
# > - say which parameters a token computes with, and what travels to them,
# > - say what an uneven router costs, and what a capacity and a bias do about it,
# > - compute attention over a sequence that is cut over the ranks,
# > - choose between ring attention and Ulysses.
# >
# > **Time:** about 45 minutes. **You need:** [All-reduce](02_all_reduce.ipynb),
# > [Tensor parallelism](10_tensor_parallel.ipynb) and [ZeRO and FSDP](11_zero.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import inspect
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    World,
    all_reduce,
    torch_distributed,
)
from distlib.draw import (
    ExpertLayer,
    compare_costs,
    curves,
    expert_lanes,
    predict,
    timeline,
    token_routes,
)
from distlib.training import (
    PlainMixture,
    plain_ring_attention,
    play_experts,
    ulysses_attention,
)

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
torch.manual_seed(1)
assert 134 < 671e9 * 16 / 80e9 < 135

# %% [markdown]
# ## A router picks the experts
#
# An MLP with eight times as many hidden features can store more, but every token then costs eight times as many
# operations. A **mixture of experts** has many small MLPs instead, the **experts**, and a **router**, which picks a
# few of them for each token.
#
# The router is a linear layer that gives each expert a score. Here a softmax turns the scores into weights. The token
# goes to the $k$ experts with the largest weights, and their outputs are added up by weight:

# %%
FEATURES, HIDDEN, K = 16, 32, 2
ROUTER = nn.Linear(FEATURES, 8, bias=False)
EXPERTS = [
    nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, FEATURES))
    for _ in range(8)
]

weights, choices = ROUTER(torch.randn(3, FEATURES)).softmax(-1).topk(K)
weights = weights / weights.sum(-1, keepdim=True)  # they add up to 1
for token in range(3):
    (first, second), (more, less) = choices[token].tolist(), weights[token].tolist()
    print(f"token {token}: {more:.0%} expert {first}, {less:.0%} expert {second}")

# %% [markdown]
# All eight experts have parameters, but a token pays for two. In DeepSeek-V3, 58 of the 61 layers look like this:
#
# | in one layer | |
# |---|---:|
# | experts to choose from | 256 |
# | experts that a token goes to | 8 |
# | one more expert, which every token goes to as well | 1 |
# | parameters of an expert: three matrices of 7,168 × 2,048 | 44 million |
#
# The experts together have 656 billion of the 671 billion parameters. A batch has thousands of tokens. As long as the
# router spreads the tokens, all GPUs have work: while *your* token is with 9 experts, the other experts compute for
# other tokens.
#
# **A mixture of experts is sparse: it has many parameters, and each token computes with few of them.**

# %% tags=["folded"]
# Checks of the numbers above
assert weights.sum(-1).allclose(torch.ones(3))
expert = 3 * 7168 * 2048
assert round(expert / 1e6) == 44 and round(58 * 257 * expert / 1e9) == 656
assert len({expert for row in choices.tolist() for expert in row}) > K

# %% [markdown]
# ## Tokens travel, experts stay
#
# The experts of a single layer are 22.5 GB in two bytes per number, and there are 58 such layers, so the experts are
# spread over the ranks. This is called **expert parallelism**, EP. The batch is cut as well, as in data parallelism. A
# token and its experts are then often on different ranks. Something has to travel:
#
# - either all experts of the layer are gathered on every rank, as FSDP would do,
# - or each token, a row of 7,168 numbers, travels to the ranks of its 8 experts, and the results travel back.

# %%
guess_1 = predict(
    "One layer, 4,096 tokens per rank, forward. "
    "How do the bytes of all experts compare with the bytes of tokens and results?",
    choices=["about as many", "about 3 times", "more than 20 times"],
)

# %%
features, hidden, tokens_per_rank = 7168, 2048, 4096
all_experts = 256 * 3 * features * hidden * 2  # two bytes per number
all_tokens = tokens_per_rank * 8 * features * 2
gigabytes = {"fetch all experts": all_experts / 1e9}
gigabytes["send tokens and results"] = 2 * all_tokens / 1e9
factor = all_experts / (2 * all_tokens)
print(guess_1.compare("more than 20 times" if factor > 20 else "fewer"))
compare_costs(
    {name: {"GB per rank": size} for name, size in gigabytes.items()},
    title="One layer of DeepSeek-V3, forward",
    show="{:.1f}".format,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert round(all_experts / 1e9, 1) == 22.5 and 23.5 < factor < 24.5
assert 256 * 3 * hidden // (2 * 8) == 98_304

# %% [markdown]
# **The experts are usually far more bytes than the tokens, so the tokens travel to the experts.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | a rank has more than 98,304 tokens, forward | in DeepSeek-V3, the experts are then fewer bytes |
# | the model is as small as ours | experts and tokens are about equally many bytes |
# | several experts of a token are on one node | the token can enter this node once: fewer bytes between nodes |
#
# </details>
#
# ## Who sends how many tokens to whom?
#
# In an **all-to-all**, each rank has a message for every other rank. The layer needs two all-to-alls:
#
# - the **dispatch** sends a row per token and chosen expert,
# - the **combine** sends the results back the same way.
#
# How many rows go from rank 2 to rank 0? Nobody knows before the router has run. So in our layer a small all-to-all
# goes first, with the counts.
#
# Our layer has four ranks with two experts each, and 96 tokens per rank.

# %%
guess_2 = predict(
    "The router has no favorites. About what share of the rows stays on its rank?",
    unit="percent",
)


# %%
def tokens_of(rank: int) -> torch.Tensor:
    return torch.randn(96, FEATURES, generator=torch.Generator().manual_seed(rank))


@torch.no_grad()
def one_layer(comm: Communicator) -> tuple[torch.Tensor, list[int]]:
    """This rank's output, and how many rows it sends to each rank."""
    tokens = tokens_of(comm.rank)
    mine = EXPERTS[2 * comm.rank : 2 * comm.rank + 2]
    output = PlainMixture(comm, ROUTER, mine)(tokens)  # the all-to-alls
    choices = ROUTER(tokens).topk(K).indices
    return output, torch.bincount(choices.flatten() // 2, minlength=4).tolist()


world = SimulatedWorld(4)
outputs, rows = zip(*world.run(one_layer), strict=True)
stay = sum(rows[rank][rank] for rank in range(4)) / sum(map(sum, rows))
print(guess_2.compare(25), f"In this run: {stay:.0%}.")
token_routes(
    {"96 tokens per rank, 2 of 8 experts per token": rows}, title="The dispatch"
)

# %% [markdown]
# About a quarter stays, because one of the four ranks is the sender itself. The rest travels. `PlainMixture` is the
# library's layer on one page, `experts/plain.py`. Read its forward pass, and find the three all-to-alls: one is of
# counts, and two are `_AllToAllOfRows`.

# %%
print(inspect.getsource(PlainMixture.forward))

# %% tags=["folded"]
# Checks of the outputs and of the bytes
with torch.no_grad():
    everything = torch.cat([tokens_of(rank) for rank in range(4)])
    all_scores = ROUTER(everything).softmax(-1)
    kept, chosen = all_scores.topk(K)
    kept = kept / kept.sum(-1, keepdim=True)
    said = torch.stack([expert(everything) for expert in EXPERTS], dim=1)
    alone = (
        said.gather(1, chosen.unsqueeze(-1).expand(-1, -1, FEATURES))
        * kept.unsqueeze(-1)
    ).sum(1)
assert (torch.cat(outputs) - alone).abs().max() < 1e-5
assert 0.2 < stay < 0.3
for rank in range(4):
    away = sum(rows[rank]) - rows[rank][rank]
    come = sum(row[rank] for row in rows) - rows[rank][rank]
    assert world.trace.bytes_sent[rank] == 3 * 2 * 8 + (away + come) * FEATURES * 4
    assert world.trace.messages_sent[rank] == 3 * 3

# %% [markdown]
# **Tokens take two all-to-alls: to their experts, and back.**
#
# In the backward pass, gradients take two all-to-alls as well.
#
# **Try it.** In the picture, the ranks have different tokens. How does it change if all ranks have the same 96 tokens?

# %% tags=["folded"]
# One way to do it
with torch.no_grad():
    same = [
        torch.bincount(
            ROUTER(tokens_of(0)).topk(K).indices.flatten() // 2, minlength=4
        ).tolist()
    ] * 4
print(same)  # all ranks send equally many rows to a rank
token_routes({"the same 96 tokens on all ranks": same}, title="The dispatch")

# %% [markdown]
# ## The busiest rank
#
# The router decides how much a rank has to do. Take four ranks with one large expert each, and 4,096 tokens per rank,
# each of which goes to one expert. First the router spreads them evenly. Then experts 1 to 3 each lose
# half of their tokens to expert 0.

# %%
guess_3 = predict(
    "How many times as long does the layer take with the uneven router?", unit="times"
)

# %%
WIDTH, EVEN = 4096, 1024  # features; rows from each rank to each expert
PER_ROW = 2 * 2 * WIDTH * 4 * WIDTH / 400e12  # seconds: two matmuls at 400 TFLOP/s
NODE = SimulatedWorld(4, Cluster.flat(4, Link(latency=3e-6, bandwidth=50e9)))


def time_layer(row: list[int]) -> ExpertLayer:
    """Each rank sends row[e] rows to expert e, which sleeps as long as it would compute."""
    spans = NODE.run(play_experts, [row] * 4, WIDTH, PER_ROW)
    return ExpertLayer(spans, NODE.elapsed)


UNEVEN = [EVEN + 3 * EVEN // 2] + [EVEN // 2] * 3
balanced, uneven = time_layer([EVEN] * 4), time_layer(UNEVEN)
print(guess_3.compare(round(uneven.end / balanced.end, 1)))
expert_lanes(
    {"even router": balanced, "uneven router": uneven},
    title="The same tokens, spread in two ways",
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert UNEVEN == [2560, 512, 512, 512]
assert round(uneven.end / balanced.end, 1) == 2.5


def all_to(favorite: Callable[[int], int]) -> float:
    """How many times as long it takes if each rank sends all its rows to one expert."""
    every = [[4 * EVEN * (e == favorite(rank)) for e in range(4)] for rank in range(4)]
    NODE.run(play_experts, every, WIDTH, PER_ROW)
    return NODE.elapsed / balanced.end


assert 1.4 < all_to(lambda rank: 3 - rank) < 1.5 and all_to(lambda rank: rank) < 0.75

# %% [markdown]
# Expert 0 gets 2.5 times its share: its own, and half a share from each of three others. The whole layer takes 2.5
# times as long, because the others wait for rank 0, which has 2.5 times as much to receive, to compute and to send
# back. The work in all is the same.
#
# **In a layer of experts, all ranks wait for the busiest one.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | a rank is slower than the others | it can be the last one without being the busiest |
# | rank $r$ sends all its tokens to rank $3-r$ | all are equally busy; our all-to-alls take longer: 1.4 times in all |
#
# </details>
#
# **Try it.** How long does the layer take if *all* tokens go to expert 0?

# %% tags=["folded"]
# One way to do it
worst = time_layer([4 * EVEN, 0, 0, 0])
print(f"{worst.end / balanced.end:.1f} times as long: one rank does all the work")
assert round(worst.end / balanced.end, 1) == 4.0

# %% [markdown]
# ## A capacity or a bias
#
# One remedy is a limit. Here an even share is 1,024 rows from each rank. An expert takes no more rows from a rank than
# its **capacity**, a factor times the even share. The rows above it are **dropped**: the expert adds nothing to these
# tokens.

# %%
guess_4 = predict(
    "The uneven router, and a capacity of one even share. How many of the rows are dropped?",
    unit="percent",
)

# %%
for factor in (1.0, 1.5, 2.5):
    kept = [min(count, int(factor * EVEN)) for count in UNEVEN]
    dropped = 1 - sum(kept) / sum(UNEVEN)
    times = time_layer(kept).end / balanced.end
    print(f"capacity {factor}: dropped {dropped:.1%}, {times:.1f} times as long")
    if factor == 1.0:
        print(guess_4.compare(100 * dropped))

# %% tags=["folded"]
# Checks of the numbers above
assert abs(time_layer([EVEN, *UNEVEN[1:]]).end / balanced.end - 1) < 0.01
assert 1 - (EVEN + 3 * EVEN // 2) / (4 * EVEN) == 0.375

# %% [markdown]
# The limit caps the time, and you pay with the dropped rows.
#
# Another remedy changes the router. To pick a token's experts, DeepSeek-V3 adds a **bias** to the weight that each
# expert got: the largest sums win. After each step, the bias of a busy expert falls a little, and the bias of a less
# busy expert rises. The outputs are still added up by the weights without the bias.


# %%
def balance(comm: Communicator, rate: float, steps: int = 60) -> list[float]:
    """How many times its even share the busiest of 8 experts gets, step by step."""
    bias, busiest = torch.zeros(8), []
    for step in range(steps):
        weights = ALIKE(new_tokens(comm.rank, step)).softmax(-1)
        chosen = (weights + bias).topk(K).indices
        load = torch.bincount(chosen.flatten(), minlength=8).double()
        all_reduce(comm, load)  # the tokens of all ranks
        bias -= rate * (load - load.mean()).sign()
        busiest.append(float(load.max() / load.mean()))
    return busiest


# %% tags=["folded"]
# A router, and tokens that have much in common
ALIKE = nn.Linear(FEATURES, 8, bias=False)
nn.init.normal_(
    ALIKE.weight, std=FEATURES**-0.5, generator=torch.Generator().manual_seed(2)
)


def new_tokens(rank: int, step: int) -> torch.Tensor:
    """1,024 tokens: noise around a vector that all share."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(1024, FEATURES, generator=generator) + 1


quiet = SimulatedWorld(4, record=False)

# %%
with torch.no_grad():
    shares = {
        name: quiet.run(balance, rate)[0]
        for name, rate in (("without a bias", 0.0), ("with a bias", 0.01))
    }
curves(
    {name: list(enumerate(found)) for name, found in shares.items()},
    along="steps",
    values="times its even share",
    title="What the busiest of eight experts gets",
)

# %% tags=["folded"]
# Checks of what is said below
assert min(shares["without a bias"]) > 2.5 and max(shares["with a bias"][20:]) < 1.5

# %% [markdown]
# In this run the busiest expert gets 2.8 times its share without a bias, and about 1.2 times with a bias after 20
# steps. There is no limit, so no token is dropped, but some tokens go to experts with smaller weights.
#
# **A capacity drops the rows above it; a bias sends tokens to other experts.**
#
# An older remedy is an **auxiliary loss**: a term added to the loss, which grows when the spread is uneven. [Lesson
# 12d](12d_long_and_sparse_closer.ipynb) trains routers with it and without.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | all tokens are alike | they all go to the same experts, and the bias moves them all at once |
# | the bias changes too fast | the load jumps back and forth, and can be worse than without a bias |
# | the other expert is a worse one for this token | the model may learn less well: our runs do not measure this |
#
# </details>
#
# **Try it.** What happens if the bias changes ten times as fast, with a rate of 0.1?

# %% tags=["folded"]
# One way to do it
with torch.no_grad():
    fast = quiet.run(balance, 0.1)[0]
# It jumps over the balance: many tokens change their experts together, and back
print([f"{each:.1f}" for each in fast[-8:]])
assert sum(fast[40:]) > 1.4 * sum(shares["with a bias"][40:])

# %% [markdown]
# ## A sequence that is cut over the ranks
#
# Large models read long texts. For 2²⁰ tokens, about a million, the queries, keys and values of one layer take 24
# GiB, with 32 heads of 128 features in two bytes per number. Tensor parallelism cuts the heads, but every rank still
# needs all positions. **Context parallelism** cuts the positions: outside of attention, each rank has only its part of
# the sequence.
#
# Norms, MLPs and experts without a capacity look at one position at a time. Attention does not, because a query $q$
# needs the keys $k_j$ and the values $v_j$ of all positions that it may see:
#
# $$o = \frac{\sum_j e^{s_j} v_j}{\sum_j e^{s_j}} \qquad s_j = q \cdot k_j / \sqrt{d}$$
#
# Both sums can be made block by block. So in **ring attention** the blocks of keys and values go round the ring of
# lesson 02. A rank starts with its own block. In each round it passes its current block on and gets the next one. The
# rank adds each block that its queries may see to their sums. In this run a position sees only itself and earlier
# positions. The code below has the whole sequence only to cut it, and to check the result.

# %%
torch.manual_seed(0)
QUERIES, KEYS, VALUES = torch.randn(3, 1, 8, 64, 16)  # batch, heads, sequence, features


def attend(comm: Communicator, attention: Callable[..., torch.Tensor]) -> torch.Tensor:
    """The attention of this rank's positions."""
    whole = (QUERIES, KEYS, VALUES)
    mine = [each.chunk(comm.world_size, dim=2)[comm.rank] for each in whole]
    return attention(comm, *mine)


parts = world.run(attend, plain_ring_attention)
alone = scaled_dot_product_attention(QUERIES, KEYS, VALUES, is_causal=True)
gap = (torch.cat(parts, dim=2) - alone).abs().max()
print(f"largest difference to one process: {gap:.0e}")
timeline(
    world.trace,
    title="Keys and values go round the ring",
    by="round",
    color_by=lambda message: f"keys of rank {(message.src - message.round + 1) % 4}",
)

# %% tags=["folded"]
# Checks of what is said above and below
assert 2**20 * 3 * 32 * 128 * 2 / 2**30 == 24
assert gap < 1e-5 and len(world.trace.messages) == 4 * 3
S = KEYS[0].numel() // 4 * 4  # bytes of a rank's keys
assert world.trace.bytes_sent == [2 * 3 * S] * 4

# %% [markdown]
# After three rounds every rank has seen the keys and values of all four, and has held at most three blocks at a time:
# its own, the one in hand, and the one that arrives. The sums are rescaled whenever a larger score comes, so that
# $e^{s}$ does not overflow: this is called **online softmax**. The result is exact up to rounding. You can read the
# code on one page, in `long_sequences/plain.py`.
#
# **In ring attention, queries stay, and keys and values travel from rank to rank.**
#
# ### Ring or Ulysses?
#
# **Ulysses** trades positions for heads. Before attention, an all-to-all gives each rank all positions of some heads.
# After attention, a second all-to-all trades back. Queries, keys, values and the output have the same size here. Each
# rank keeps $1/N$ of them and sends the rest.

# %%
guess_5 = predict(
    "Eight ranks, forward. How many times the bytes of Ulysses does the ring send?",
    unit="times",
)

# %%
eight = SimulatedWorld(8)
sent = {}
for name, attention in (("ring", plain_ring_attention), ("Ulysses", ulysses_attention)):
    eight.run(attend, attention)
    sent[name] = eight.trace.bytes_sent[0]
print(sent, guess_5.compare(sent["ring"] / sent["Ulysses"]), sep="\n")

# %% tags=["folded"]
# Checks of the table below
S = KEYS[0].numel() // 8 * 4
assert sent == {"ring": 14 * S, "Ulysses": 3.5 * S}
by_heads = torch.cat(eight.run(attend, ulysses_attention), dim=2)
everywhere = scaled_dot_product_attention(QUERIES, KEYS, VALUES)
assert (by_heads - everywhere).abs().max() < 1e-5

# %% [markdown]
# With $N$ ranks, and $S$ bytes for the keys of one rank:
#
# | | ring | Ulysses |
# |---|---|---|
# | what travels | keys and values, to every rank | queries, keys, values and output, each number to one rank |
# | bytes that a rank sends, forward | $2(N-1)\,S$ | $4\frac{N-1}{N}\,S$ |
# | hidden behind computing | possible with long blocks | not in our version |
# | number of ranks | divides the sequence | divides the sequence and the heads |
#
# If queries and keys have equally many heads, Ulysses sends less on three ranks or more. Choose the ring if there are
# more ranks than heads, or if the blocks are so long that computing hides its messages.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | a position sees earlier positions only | the last rank of a ring computes most; another order (12d) balances it |
# | each key head serves $g$ query heads | on up to $g$ ranks, the ring sends less than Ulysses |
# | a rank has room for all keys and values | it can gather them at once, as Llama 3 does, with the ring's bytes |
#
# </details>
#
# ## In real frameworks
#
# PyTorch has `all_to_all_single`, which takes the numbers of rows as lists. This is a whole layer of experts in plain
# PyTorch, forward, on four real processes with one expert each:


# %%
def layer_by_torch(tokens: torch.Tensor) -> torch.Tensor:
    size, rank = dist.get_world_size(), dist.get_rank()
    weights, choices = SMALL_ROUTER(tokens).softmax(-1).topk(K)
    weights = weights / weights.sum(-1, keepdim=True)
    by_expert = choices.flatten().argsort(stable=True)
    going = torch.bincount(choices.flatten(), minlength=size)
    coming = torch.empty_like(going)
    dist.all_to_all_single(coming, going)  # 1. counts
    sent, received = going.tolist(), coming.tolist()
    rows = tokens.new_empty(sum(received), FEATURES)
    dist.all_to_all_single(rows, tokens[by_expert // K], received, sent)  # 2. dispatch
    answers = tokens.new_empty(sum(sent), FEATURES)
    dist.all_to_all_single(answers, EXPERTS[rank](rows), sent, received)  # 3. combine
    weighted = answers * weights.flatten()[by_expert].unsqueeze(1)
    return torch.zeros_like(tokens).index_add(0, by_expert // K, weighted)


# %%
SMALL_ROUTER = nn.Linear(FEATURES, 4, bias=False)  # one expert per rank


@torch.no_grad()
def by_both(comm: Communicator) -> float:
    """How far torch's layer is from ours."""
    tokens = tokens_of(comm.rank)
    ours = PlainMixture(comm, SMALL_ROUTER, [EXPERTS[comm.rank]])(tokens)
    with torch_distributed(comm, "gloo"):
        return float((layer_by_torch(tokens) - ours).abs().max())


with World(4) as real:
    off = real.run(by_both)
print("largest difference on each rank:", off)
assert max(off) < 1e-5

# %% [markdown]
# In a training program the rows also need gradients, which go back by the same all-to-alls. You rarely write them:
# **Megatron-LM** places experts by `--expert-model-parallel-size`, and cuts sequences by `--context-parallel-size`.
# **DeepSpeed** has a layer `MoE`, and Ulysses comes from there. When DeepSeek-V3 was trained, the experts of each layer
# were spread over 64 GPUs, and no token was dropped.
#
# ## In short
#
# - A mixture of experts is sparse: it has many parameters, and each token computes with few of them.
# - The experts are usually far more bytes than the tokens, so the tokens travel to the experts.
# - In a layer of experts, all ranks wait for the busiest one.
# - A capacity drops the rows above it; a bias sends tokens to other experts.
# - In ring attention keys and values travel. Ulysses trades positions for heads, and usually sends less.
#
# ## Now you
#
# This lesson has no exercise of its own, so go on with [Environments](16_environments.ipynb). [Lesson
# 12d](12d_long_and_sparse_closer.ipynb) is a side road: rings whose ranks have equal work, how long a sequence must be
# before a ring wins, and routers that learn. In [its
# exercise](../exercises/12d_long_and_sparse_closer/12d_long_and_sparse_closer.ipynb) you write ring attention and the
# dispatch yourself.
#
# ## Further reading
#
# - DeepSeek-AI, [DeepSeek-V3 Technical Report](https://arxiv.org/abs/2412.19437), 2024. Section 2.1.2: the experts and
#   their bias; section 3.2: how they were spread over GPUs.
# - W. Fedus, B. Zoph, N. Shazeer, [Switch Transformers](https://arxiv.org/abs/2101.03961), 2021. One expert per token,
#   a capacity, and the auxiliary loss.
# - D. Lepikhin et al., [GShard](https://arxiv.org/abs/2006.16668), 2020. Experts over many devices, and capacity.
# - L. Wang et al., [Auxiliary-Loss-Free Load Balancing Strategy for
#   Mixture-of-Experts](https://arxiv.org/abs/2408.15664), 2024. The bias.
# - H. Liu, M. Zaharia, P. Abbeel, [Ring Attention with Blockwise Transformers for Near-Infinite
#   Context](https://arxiv.org/abs/2310.01889), 2023.
# - S. A. Jacobs et al., [DeepSpeed Ulysses](https://arxiv.org/abs/2309.14509), 2023.
