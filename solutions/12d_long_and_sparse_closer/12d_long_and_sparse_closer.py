# %% [markdown]
# # Exercise 12d, optional: long sequences and experts
#
# You let keys and values travel in a ring, so that no rank needs the whole sequence, and you send tokens to the experts
# that they were routed to.
#
# - **Time:** about 75 minutes.
# - **Before:** read the lesson [Long sequences and experts, closer](../../course/12d_long_and_sparse_closer.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `ring_attention` | 4 | 5 |
# | 2 | `dispatch_to_experts` | 3 | 4 |
#
# That makes 16 points. Each part is graded by itself.

# %% readonly="setup"
import torch

from distlib import Communicator, SimulatedWorld

four = SimulatedWorld(4)  # four ranks to try things on

# %% [markdown]
# ## 1. Attention in a ring: `ring_attention`
#
# A sequence is cut into equal blocks, and rank $r$ has block $r$: the queries, keys and values of its positions. For
# each of its positions it wants the attention to *all* positions of the sequence: with the scores $s_j = q \cdot k_j /
# \sqrt{\text{features}}$,
#
# $$\text{output} = \frac{\sum_j e^{s_j} v_j}{\sum_j e^{s_j}}$$
#
# **The ring.** In each of $N - 1$ steps every rank sends the block of keys and values that it has in hand to the next
# rank, and receives one from the rank before. In step $i$ rank $r$ gets the block of rank $r - i$. So a rank has its
# own block and at most two others: the one it sends and the one that comes.
#
# **The sums grow block by block.** Keep two of them for each query: of $e^{s_j} v_j$, and of $e^{s_j}$. When all blocks
# have come by, divide one by the other. To divide block by block would be wrong: a block with large scores counts more.
#
# **Large scores.** $e^{710}$ is infinite in float64. So subtract the largest score $m$ that the query has seen so far:
# $e^{s_j - m}$ is at most 1, and the common factor $e^{-m}$ cancels in the end. Before the first block $m$ is
# $-\infty$. When a block brings a larger score $m'$, multiply both sums by $e^{m - m'}$ first. For example, with the
# scores 1 and 3 in the first block, and 4 in the second:
#
# | | $m$ | sum of weights |
# |---|---|---|
# | after the first block | 3 | $e^{1-3} + e^{3-3}$ |
# | after the second block | 4 | $(e^{1-3} + e^{3-3}) \cdot e^{3-4} + e^{4-4}$ |
#
# **A causal mask.** With `causal`, a position sees itself and the positions before it, in the whole sequence. So a rank
# sees the blocks of lower ranks whole, of its own the diagonal and what is below it, and those of higher ranks not at
# all. All blocks travel all the same: others need them.


# %% solution="ring_attention"
def ring_attention(
    comm: Communicator,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    causal: bool,
) -> torch.Tensor:
    """The attention of this rank's positions to those of all ranks. No tensor that is given
    changes.

    Args:
        comm: the communicator of this rank. Rank r has block r of the sequence; all blocks have
            equally many positions.
        queries, keys, values: of this rank's positions, [heads, positions, features], float64.
        causal: whether a position sees only itself and those before it, in the whole sequence.

    Returns:
        [heads, positions, features], float64: of each of this rank's positions the mean of all
        values that it sees, weighted by the softmax of the scores. Finite also where scores are
        beyond the range of exp.

    Cost: N - 1 times the block of keys and values to the next rank, in one message or two. With
        any number of ranks, a rank keeps at most two blocks at a time besides its own.
    """
    ### BEGIN SOLUTION
    heads, positions, features = queries.shape
    next_rank, previous_rank = (
        (comm.rank + 1) % comm.world_size,
        (comm.rank - 1) % comm.world_size,
    )
    block = torch.stack([keys, values])
    largest = torch.full((heads, positions, 1), -torch.inf, dtype=torch.float64)
    weights, output = torch.zeros_like(largest), torch.zeros_like(queries)
    for step in range(comm.world_size):
        src = (comm.rank - step) % comm.world_size
        if not causal or src <= comm.rank:
            scores = queries @ block[0].transpose(1, 2) / features**0.5
            if causal and src == comm.rank:
                scores = scores.masked_fill(
                    torch.ones(positions, positions).triu(1).bool(), -torch.inf
                )
            before, largest = largest, torch.maximum(largest, scores.amax(-1, keepdim=True))
            grown, parts = (before - largest).exp(), (scores - largest).exp()
            weights = weights * grown + parts.sum(-1, keepdim=True)
            output = output * grown + parts @ block[1]
        if step < comm.world_size - 1:
            incoming = torch.empty_like(block)
            comm.exchange(block, next_rank, incoming, previous_rank)
            block = incoming
    return output / weights
    ### END SOLUTION


# %% [markdown]
# **Try it.** A cell like this one gives no marks. Change it as you like. It compares with what a single process
# computes: all three lines should be off by less than 1e-12.


# %%
def whole(scale: float) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [scale * torch.randn(1, 8, 2, dtype=torch.float64) for _ in range(3)]


def try_ring(comm: Communicator, causal: bool, scale: float) -> torch.Tensor:
    own = slice(2 * comm.rank, 2 * comm.rank + 2)
    return ring_attention(comm, *(each[:, own] for each in whole(scale)), causal)


for causal, scale in ((False, 1.0), (True, 1.0), (True, 100.0)):
    together = torch.cat(four.run(try_ring, causal, scale), dim=1)
    alone = torch.nn.functional.scaled_dot_product_attention(*whole(scale), is_causal=causal)
    print(
        f"causal {causal}, scale {scale:g}: off by at most {(together - alone).abs().max():.1e}"
    )

# %% [markdown]
# **Visible test: 4 points.** It compares with a single process, looks at each message, and counts the bytes of all
# tensors that a rank keeps at the same time. Each of `sequences` is the number of ranks, whether there is a mask, the
# scale of queries and keys, and the numbers of heads, positions and features; where these are missing, they are drawn.

# %% test="ring_attention_visible" points=4
from distlib.exercises import check_ring_attention

report = check_ring_attention(
    ring_attention,
    sequences=[
        (2, False, 1.0),
        (3, False, 1.0, (2, 3, 4)),
        (2, True, 1.0),
        (4, True, 1.0),
        (3, True, 60.0),
        (12, False, 1.0, (1, 2, 9)),
        (1, True, 1.0),
    ],
)
# 2 steps, keys and values of 2 heads, 3 positions and 4 features
assert report[1].trace.bytes_sent == [2 * 2 * 2 * 3 * 4 * 8] * 3
print(report)

# %% [markdown]
# **Hidden test: 5 points.** Other sizes and numbers of ranks, and larger scores.

# %% test="ring_attention_hidden" points=5
# The hidden tests of ring_attention stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 13 ranks, other sizes, with and without a mask, scores far beyond the range of exp, one rank.
from distlib.exercises import check_ring_attention

report = check_ring_attention(
    ring_attention,
    sequences=[
        (2, False, 1.0),
        (2, True, 90.0),
        (3, True, 1.0, (5, 4, 7)),
        (3, False, 200.0),
        (4, False, 1.0),
        (5, True, 2000.0),
        (7, True, 1.0),
        (12, True, 1.0, (3, 2, 11)),
        (13, False, 1.0, (1, 3, 2)),
        (1, True, 90.0),
        (1, False, 1.0),
    ],
    seed=131,
)
assert report[2].trace.bytes_sent == [2 * 2 * 5 * 4 * 7 * 8] * 3
### END HIDDEN TESTS

# %% [markdown]
# ## 2. To the experts: `dispatch_to_experts`
#
# Rank $e$ has expert $e$. Every rank has some tokens, and knows for each which expert it goes to. Nobody knows how many
# will come: that depends on the routers of all others. So each pair of ranks exchanges a number first, and then as many
# tokens.
#
# **The capacity.** From each rank at most `capacity` tokens go to each expert, also to its own: the first ones, in
# their order. The others are dropped, and counted. For example, with capacity 2 and tokens $a$ to $e$ on rank 0, and
# $f$, $g$ on rank 1:
#
# | rank | its tokens go to | sends to rank 0 | sends to rank 1 | drops |
# |---|---|---|---|---|
# | 0 | a→1 b→0 c→1 d→1 e→0 | (keeps b, e) | a, c | 1: d |
# | 1 | f→0 g→0 | f, g | (keeps none) | 0 |
#
# Rank 0's expert gets b, e, f, g, with the counts 2 and 2. Rank 1's gets a and c, with the counts 2 and 0.


# %% solution="dispatch_to_experts"
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    """Sends each token to the rank of its expert. What is given does not change.

    Args:
        comm: the communicator of this rank. Rank e has expert e.
        tokens: this rank's tokens, [tokens, features], float64; perhaps none.
        experts: of each token the number of its expert, [tokens], int64.
        capacity: how many tokens of one rank may go to one expert, at least 1. The first ones
            go.

    Returns:
        What comes to this rank's expert, [all that come, features], perhaps [0, features]: in
        ascending order of the ranks that sent it, and from each in the order in which that rank
        had it; how many came from each rank, this one included; and how many of this rank's own
        tokens were dropped.

    Cost: from each rank to each other one message with a number, and one with the tokens,
    without padding.
    """
    ### BEGIN SOLUTION
    size, dropped = comm.world_size, 0
    parts = []
    for expert in range(size):
        chosen = tokens[experts == expert]
        parts.append(chosen[:capacity].contiguous())
        dropped += max(0, len(chosen) - capacity)
    arrived = {comm.rank: parts[comm.rank].clone()}
    for step in range(1, size):
        dst, src = (comm.rank + step) % size, (comm.rank - step) % size
        number, theirs = torch.tensor([len(parts[dst])]), torch.empty(1, dtype=torch.int64)
        comm.exchange(number, dst, theirs, src)
        arrived[src] = torch.empty(int(theirs), tokens.shape[1], dtype=tokens.dtype)
        comm.exchange(parts[dst], dst, arrived[src], src)
    in_order = [arrived[src] for src in range(size)]
    return torch.cat(in_order), [len(part) for part in in_order], dropped
    ### END SOLUTION


# %% [markdown]
# **Try it** on the example, with two more ranks that have no tokens: a is 1.0, b is 2.0, and so on. Rank 0 should get
# 2, 5, 6 and 7, rank 1 should get 1 and 3, and only rank 0 drops a token.


# %%
def try_dispatch(comm: Communicator) -> tuple[list[float], list[int], int]:
    letters = [[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0], [], []][comm.rank]
    tokens = torch.tensor(letters, dtype=torch.float64).reshape(-1, 1)
    experts = torch.tensor([[1, 0, 1, 1, 0], [0, 0], [], []][comm.rank], dtype=torch.int64)
    came, counts, dropped = dispatch_to_experts(comm, tokens, experts, capacity=2)
    return came.flatten().tolist(), counts, dropped


for rank, told in enumerate(four.run(try_dispatch)):
    print(f"rank {rank}: came {told[0]}, counts {told[1]}, dropped {told[2]}")

# %% [markdown]
# **Visible test: 3 points.** Each of `routings` has, rank by rank, the experts of the tokens, and then the capacity.
# How many features a token has is drawn.

# %% test="dispatch_to_experts_visible" points=3
from distlib.exercises import check_dispatch_to_experts

report = check_dispatch_to_experts(
    dispatch_to_experts,
    routings=[
        ([[1, 0, 1], [0, 1]], 3),
        ([[1, 0, 1, 1, 0], [0, 0, 1]], 2),
        ([[2, 1, 0, 2], [2, 2], [0]], 2),
        ([[1, 1, 2], [], [0, 1, 1, 1], [1]], 1),
        ([[0, 0, 0]], 2),
    ],
)
assert len(report) == 5
print(report)

# %% [markdown]
# **Hidden test: 4 points.** More ranks, experts that nobody chooses, ranks without tokens.

# %% test="dispatch_to_experts_hidden" points=4
# The hidden tests of dispatch_to_experts stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, experts that nobody chooses, ranks without tokens, drawn routings, and one rank.
from distlib.exercises import check_dispatch_to_experts

report = check_dispatch_to_experts(
    dispatch_to_experts,
    routings=[
        ([[0, 1, 1, 0], [1, 1, 1]], 2),
        ([[], [0, 0, 0]], 1),
        ([[0, 1, 2, 2], [0, 0], []], 2),
        ([[3, 3, 3], [3, 3], [3], [3, 3, 3, 3]], 2),
        ([[1, 1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]], 4),
        ([[0, 0]], 1),
        ([[1] * 8, [0, 0, 1]], 4),
        ([[1] * 320, [0, 1] * 160, [2]], 301),
    ],
    drawn=[3, 5, 6],
    seed=132,
)
assert len(report) == 11
### END HIDDEN TESTS

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 12d_long_and_sparse_closer` does the same with
# the saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("12d_long_and_sparse_closer")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("12d_long_and_sparse_closer")
