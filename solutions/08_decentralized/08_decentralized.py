# %% [markdown]
# # Exercise 08: decentralized
#
# You write three functions: the weights with which neighbors average, for any graph, gossip with these weights, and a
# step of training that needs no more than that. At the end you try them on graphs of your own.
#
# - **Time:** about 90 minutes.
# - **Before:** read the lesson [Decentralized](../../course/08_decentralized.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `mixing_matrix` | 3 | 3 |
# | 2 | `gossip_average` | 5 | 5 |
# | 3 | `decentralized_step` | 5 | 5 |
#
# That makes 26 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# `mixing_matrix` only computes, and needs no ranks. All ranks call `gossip_average` at the same time, and
# `decentralized_step` as well. `comm` has `comm.rank` and `comm.world_size`, and is how a rank talks to the others: by
# `send`, `recv`, `exchange`, `isend` and `irecv`.
#
# `isend` and `irecv` return a handle at once. Call `wait()` on it before you read or change the tensor, and before your
# function returns.
#
# **Tests look at the messages, too.** A rank may talk to its neighbors only. Right values with the wrong messages get
# no marks.

# %% readonly="setup"
from collections.abc import Callable, Sequence

import torch

from distlib import Communicator, SimulatedWorld, World

three = World(3)  # three ranks to try things on

# %% [markdown]
# ## 1. Who counts how much: `mixing_matrix`
#
# The ranks are the nodes of a graph. `neighbors[i]` lists the ranks that rank $i$ talks to. If $j$ is a neighbor of
# $i$, then $i$ is one of $j$. The graph is connected. Return a matrix $W$ with these properties:
#
# - $W_{ij} = 0$ if $i$ and $j$ are different and not neighbors.
# - Every row adds up to 1. If all ranks agree, nobody changes.
# - Every column adds up to 1. Every rank counts 1 in all, so the mean of all ranks does not move.
# - With $n$ ranks, every weight of an edge is at least $1/n$, and so is every weight on the diagonal. Nobody is drowned
#   out.
#
# **Any matrix that is like this is right.** If all ranks have equally many neighbors, it is easy. The difficulty is in
# graphs where they do not. Here is one, a path of 3 ranks, `neighbors = [[1], [0, 2], [1]]`:
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | row 0 | 2/3 | 1/3 | 0 |
# | row 1 | 1/3 | 1/3 | 1/3 |
# | row 2 | 0 | 1/3 | 2/3 |
#
# Rank 0 has only one neighbor. If it gave itself and rank 1 a half each, row 0 would add up to 1, but column 1 to 4/3.
# Let the two ends of an edge agree on one weight. It must be small enough for the end with more neighbors. What the
# weights of its neighbors leave of 1 is a rank's own.


# %% solution="mixing_matrix"
def mixing_matrix(neighbors: Sequence[Sequence[int]]) -> torch.Tensor:
    """A doubly stochastic matrix for gossip on a graph.

    Args:
        neighbors: for each rank the ranks that it talks to, in any order, without itself. If j
            is in neighbors[i], then i is in neighbors[j]. The graph is connected. A single rank
            has none. Not changed.

    Returns:
        The weights, float64, shape [ranks, ranks]: row i has what rank i multiplies the tensors
        of all ranks by.
    """
    ### BEGIN SOLUTION
    ranks = len(neighbors)
    matrix = torch.zeros(ranks, ranks, dtype=torch.float64)
    for rank, others in enumerate(neighbors):
        for other in others:
            matrix[rank, other] = 1 / (1 + max(len(others), len(neighbors[other])))
        matrix[rank, rank] = 1 - matrix[rank].sum()
    return matrix
    ### END SOLUTION


# %% [markdown]
# **Try it** on the path. A cell like this one gives no marks. Change it as you like.

# %%
print(mixing_matrix([[1], [0, 2], [1]]))

# %% [markdown]
# **Visible test: 3 points.** A pair, a triangle, a path, a ring, and a star.

# %% test="mixing_matrix_visible" points=3
from distlib.exercises import check_mixing_matrix

pair, triangle = [[1], [0]], [[1, 2], [0, 2], [0, 1]]
path, square, star = (
    [[1], [0, 2], [1]],
    [[1, 3], [0, 2], [1, 3], [0, 2]],
    [[1, 2, 3], [0], [0], [0]],
)
report = check_mixing_matrix(mixing_matrix, graphs=[pair, triangle, path, square, star])
assert all(
    torch.allclose(matrix.sum(dim=0), torch.ones(()).double()) for matrix in report.answers
)
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Larger graphs, whose ranks have very different numbers of neighbors, and a single rank.

# %% test="mixing_matrix_hidden" points=3
# The hidden tests of mixing_matrix stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: irregular graphs of up to 12 ranks, a star, neighbors in any order, a complete graph, one rank.
import random

from distlib.exercises import check_mixing_matrix


def drawn(ranks: int, edges: int, seed: int) -> list[list[int]]:
    draw, neighbors = random.Random(seed), [set() for _ in range(ranks)]
    pairs = [(rank, draw.randrange(rank)) for rank in range(1, ranks)]
    pairs += [tuple(draw.sample(range(ranks), 2)) for _ in range(edges)]
    for one, other in pairs:
        neighbors[one].add(other)
        neighbors[other].add(one)
    return [draw.sample(sorted(each), len(each)) for each in neighbors]


graphs = [[[]], [[other for other in range(6) if other != rank] for rank in range(6)]]
graphs += [[[4], [4], [4], [4], [0, 1, 2, 3]]]
graphs += [
    drawn(ranks, edges, seed)
    for seed, (ranks, edges) in enumerate([(5, 1), (7, 4), (9, 0), (10, 9), (12, 6)])
]
report = check_mixing_matrix(mixing_matrix, graphs=graphs)
assert len(report) == 8
for matrix in report.answers[1:]:
    rate = torch.linalg.matrix_norm(matrix - 1 / len(matrix), ord=2)
    assert rate < 1
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Gossip: `gossip_average`
#
# In a round every rank $i$ replaces its tensor $x_i$ by
#
# $$x_i \leftarrow \sum_j W_{ij}\, x_j .$$
#
# For that it needs the tensors of those $j$ for which $W_{ij}$ is not 0, as they were **when the round began**. It gets
# them by messages, and does this `rounds` times.
#
# On the path, with $W$ from above and one number on each rank. The mean is 4.
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | at the start | 0 | 3 | 9 |
# | after round 1 | 2/3 · 0 + 1/3 · 3 = 1 | (0 + 3 + 9) / 3 = 4 | 1/3 · 3 + 2/3 · 9 = 7 |
# | after round 2 | 2 | 4 | 6 |
#
# - In each round a rank sends its whole tensor once to each rank that needs it, and nothing to others. With
#   `matrix[j, i]` = 0, rank $i$ sends nothing to rank $j$.
# - `matrix` may be any doubly stochastic matrix, not only one of part 1. It **need not be symmetric**: rank 0 may need
#   the tensor of rank 1, and rank 1 not that of rank 0.
# - A tensor may have any shape, and need not be contiguous. `tensor.copy_(x)` writes into it.
# - `matrix` is float64. The tensor may be float32, and then travels as float32. `matrix.to(tensor.dtype)` has its
#   dtype, `matrix[i, j].item()` is a plain number.
# - The order of messages must not matter. If every rank first sends to one neighbor and waits, nobody receives. Begin
#   all of them, then wait for all. (Where both ends send, `comm.exchange(outgoing, dst, incoming, src)` with one
#   neighbor after the other will do, if every rank takes its neighbors in the order of their numbers.)
# - To receive from any rank, name none: `source = comm.recv(incoming, tag=7)` takes what comes first, and returns who
#   sent it. A neighbor may be a round ahead. So give each round its own `tag` then. A receive that names its rank needs
#   none: messages between two ranks arrive in the order in which they were sent.


# %% solution="gossip_average"
def gossip_average(
    comm: Communicator, tensor: torch.Tensor, matrix: torch.Tensor, rounds: int
) -> None:
    """Average with the neighbors, again and again, in place.

    Args:
        comm: the communicator of this rank.
        tensor: floating-point numbers, any shape, the same shape and dtype on every rank.
            Overwritten.
        matrix: doubly stochastic weights, float64, shape [ranks, ranks], the same on every
            rank. Not changed.
        rounds: how often; 0: nothing happens.

    Cost for a tensor of S bytes: in each round a rank sends one message of S bytes to each
    other rank that has a weight for it, and no message to any other.
    """
    ### BEGIN SOLUTION
    mine, ranks = comm.rank, range(comm.world_size)
    sources = [rank for rank in ranks if rank != mine and matrix[mine, rank] != 0]
    targets = [rank for rank in ranks if rank != mine and matrix[rank, mine] != 0]
    for _ in range(rounds):
        arrived = {source: torch.empty_like(tensor) for source in sources}
        works = [comm.irecv(buffer, source) for source, buffer in arrived.items()]
        works += [comm.isend(tensor, target) for target in targets]
        for work in works:
            work.wait()
        tensor *= matrix[mine, mine].item()
        for source, buffer in arrived.items():
            tensor += matrix[mine, source].item() * buffer
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.

# %%
weights = torch.tensor([[2, 1, 0], [1, 1, 1], [0, 1, 2]], dtype=torch.float64) / 3


def try_gossip(comm: Communicator, rounds: int) -> float:
    tensor = torch.tensor([0.0, 3.0, 9.0])[comm.rank]
    gossip_average(comm, tensor, weights, rounds)
    return round(tensor.item(), 3)


for rounds in (0, 1, 2, 20):
    print(f"after {rounds:2} rounds:", three.run(try_gossip, rounds, timeout=30))
print(three.trace.summary())

# %% [markdown]
# **Visible test: 5 points.** It compares the tensors with $W^k x$ and looks at every message: on the path, a pair, a
# star, a ring, and on ranks each of which only sends to the next one. The mean must stay where it is. After $k$ rounds
# the distance from it must be at most $\rho^k$ times what it was, with the $\rho$ of the lesson: one round leaves at
# most that part of the distance.

# %% test="gossip_average_visible" points=5
from distlib.exercises import Gossip, check_gossip_average
from distlib.training import metropolis_weights, mixing

pair, path = (
    torch.tensor([[2.0, 1.0], [1.0, 2.0]]).double() / 3,
    metropolis_weights([[1], [0, 2], [1]]),
)
one_way = (torch.eye(4) + torch.eye(4).roll(1, dims=0)).double() / 2
report = check_gossip_average(
    gossip_average,
    plans=[
        Gossip(path),
        Gossip(path, rounds=2),
        Gossip(pair, rounds=3, length=1),
        Gossip(metropolis_weights(mixing.star(4)), rounds=3, dtype=torch.float32),
        Gossip(metropolis_weights(mixing.ring(5)), rounds=4),
        Gossip(one_way, rounds=3),
    ],
)
assert report[1].trace.bytes_sent == [2 * 48, 4 * 48, 2 * 48]  # 6 float64 are 48 bytes
assert report[3].trace.bytes_sent == [9 * 24, 3 * 24, 3 * 24, 3 * 24]
assert report[5].trace.bytes_sent == [3 * 48] * 4
for seen in report:
    start, found = (
        torch.stack(list(each)).double()
        for each in (seen.given("values"), [r["values"] for r in seen.results])
    )
    mean, rho = (
        start.mean(dim=0),
        torch.linalg.matrix_norm(seen.facts.matrix - 1 / seen.size, ord=2),
    )
    near = 1e-5 if seen.facts.dtype == torch.float32 else 1e-12
    assert (found.mean(dim=0) - mean).abs().max() < near
    assert (found - mean).norm() <= rho**seen.facts.rounds * (start - mean).norm() + near
print(report)

# %% [markdown]
# **Hidden test: 5 points.** More ranks, other graphs, weights that differ from edge to edge, no rounds at all, one
# rank, and tensors whose memory is not contiguous.

# %% test="gossip_average_hidden" points=5
# The hidden tests of gossip_average stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 9 ranks, irregular and one-way graphs, no round, one rank, tensors that are not contiguous.
from distlib.exercises import Gossip, check_gossip_average
from distlib.training import (
    metropolis_weights,
    mixing,
    one_peer_exponential,
    static_exponential,
)

uneven = (
    3 * torch.eye(4) + 2 * torch.eye(4).roll(1, dims=0) + torch.eye(4).roll(-1, dims=0)
).double() / 6
house = metropolis_weights([[1, 4], [0, 2, 4], [1, 3], [2, 4], [0, 1, 3]])
report = check_gossip_average(
    gossip_average,
    plans=[
        Gossip(torch.ones(1, 1).double(), rounds=2),
        Gossip(uneven),
        Gossip(uneven, rounds=5, length=9, layout="transposed"),
        Gossip(house, rounds=3, length=5, layout="strided"),
        Gossip(house, rounds=0),
        Gossip(static_exponential(5), rounds=2, dtype=torch.float32),
        Gossip(one_peer_exponential(4)[1], rounds=1, length=1, layout="scalar"),
        Gossip(metropolis_weights(mixing.torus(3, 3)), rounds=2),
        Gossip(metropolis_weights(mixing.ring(7)), rounds=9, length=3),
        Gossip(torch.tensor([[3.0, 1.0], [1.0, 3.0]]).double() / 4, rounds=3),
        Gossip(
            (4 * torch.eye(3) + torch.eye(3).roll(1, dims=0)).double() / 5, rounds=2, length=2
        ),
        Gossip(
            torch.tensor([[99.0, 1.0, 0.0], [1.0, 69.0, 30.0], [0.0, 30.0, 70.0]]).double()
            / 100,
            rounds=2,
        ),
    ],
    seed=81,
)
assert report[0].trace.bytes_sent == [0] and report[4].trace.bytes_sent == [0] * 5
assert report[2].trace.bytes_sent == [5 * 2 * 72] * 4
assert report[3].trace.bytes_sent == [3 * degree * 40 for degree in (2, 3, 2, 2, 3)]
assert report[5].trace.bytes_sent == [2 * 3 * 24] * 5
assert report[7].trace.bytes_sent == [2 * 4 * 48] * 9
for seen in report:
    start, found = (
        torch.stack(list(each)).double()
        for each in (seen.given("values"), [r["values"] for r in seen.results])
    )
    mean, rho = (
        start.mean(dim=0),
        torch.linalg.matrix_norm(seen.facts.matrix - 1 / seen.size, ord=2),
    )
    near = 1e-5 if seen.facts.dtype == torch.float32 else 1e-12
    assert (found.mean(dim=0) - mean).abs().max() < near
    assert (found - mean).norm() <= rho**seen.facts.rounds * (start - mean).norm() + near
### END HIDDEN TESTS

# %% [markdown]
# ## 3. A step of training: `decentralized_step`
#
# Every rank $i$ has parameters $x_i$ of its own, and data of its own. `gradient(parameters)` returns the gradient
# $g_i$ of its loss at these parameters. A step of decentralized training is
#
# $$x_i \leftarrow \sum_j W_{ij}\, x_j \;-\; \eta\, g_i(x_i) ,$$
#
# where $\eta$ is `learning_rate`. All that stands on the right is as it was **when the step began**: what the
# neighbors send, and the parameters at which a rank takes its gradient. The gradients stay at home.
#
# On the path again, with the weights from above, $\eta = 1/2$, and one parameter on each rank. The loss of rank $i$ is
# $(x - b_i)^2 / 2$, so its gradient is $x - b_i$.
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | $b_i$ | 4 | 3 | 5 |
# | $x_i$ at the start | 0 | 3 | 9 |
# | gradient there | 0 - 4 = -4 | 0 | 4 |
# | mixed, as in part 2 | 1 | 4 | 7 |
# | $x_i$ after the step | 1 + 4/2 = 3 | 4 - 0 = 4 | 7 - 4/2 = 5 |
#
# - Two similar methods are **not** asked for. To take the gradient step first and mix what comes out (adapt, then
#   combine) gives 7/3 on rank 0. To take the gradient at the mixed parameters gives 1 + 3/2. Both train, too. But in
#   ours the messages need not wait for the gradient: they can be under way while it is computed.
# - Call `gradient` once in a step: in training it is what takes the time. It returns a new tensor like `parameters`.
# - For the messages the rules of part 2 hold: the whole tensor, once, to each rank that has a weight for it, and
#   nothing to others. `matrix` may be any doubly stochastic matrix. Shapes, dtypes and layouts are as there.
# - `parameters.copy_(x)` writes into the tensor. `parameters.data = x` does not count: that is other memory.
# - A neighbor may be a step ahead, and you are not told which step it is, so a tag can't tell them apart. Name the rank
#   that you receive from.
# - You may call your `gossip_average`. Then this part needs it to be right.


# %% solution="decentralized_step"
def decentralized_step(
    comm: Communicator,
    parameters: torch.Tensor,
    gradient: Callable[[torch.Tensor], torch.Tensor],
    matrix: torch.Tensor,
    learning_rate: float,
) -> None:
    """A step of decentralized SGD, in place: mix with the neighbors, and go against this rank's
    own gradient.

    Args:
        comm: the communicator of this rank.
        parameters: of this rank; floating-point numbers, any shape, alike on all ranks in shape
            and dtype. Overwritten.
        gradient: takes parameters like these, returns the gradient of this rank's loss there, a
            new tensor of the same shape and dtype. To be called once, with the parameters as
            they were when the step began.
        matrix: doubly stochastic weights, float64, shape [ranks, ranks], the same on every
            rank. Not changed.
        learning_rate: what the gradient is multiplied by.

    Cost for parameters of S bytes: a rank sends one message of S bytes to each other rank that
    has a weight for it, and no message to any other.
    """
    ### BEGIN SOLUTION
    mine, ranks = comm.rank, range(comm.world_size)
    sources = [rank for rank in ranks if rank != mine and matrix[mine, rank] != 0]
    targets = [rank for rank in ranks if rank != mine and matrix[rank, mine] != 0]
    arrived = {source: torch.empty_like(parameters) for source in sources}
    works = [comm.irecv(buffer, source) for source, buffer in arrived.items()]
    works += [comm.isend(parameters, target) for target in targets]
    slope = gradient(parameters)  # meanwhile the messages travel
    for work in works:
        work.wait()
    parameters *= matrix[mine, mine].item()
    for source, buffer in arrived.items():
        parameters += matrix[mine, source].item() * buffer
    parameters -= learning_rate * slope
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. The first step should give 3, 4, 5. What is best for all ranks together is the
# mean of the $b_i$, 4. Where do the ranks end, and how does that change with the rate?


# %%
def try_training(comm: Communicator, steps: int, learning_rate: float) -> float:
    parameters, wanted = (
        torch.tensor([0.0, 3.0, 9.0])[comm.rank],
        torch.tensor([4.0, 3.0, 5.0])[comm.rank],
    )
    for _ in range(steps):
        decentralized_step(comm, parameters, lambda x: x - wanted, weights, learning_rate)
    return round(parameters.item(), 2)


print("1 step, rate 0.5:   ", three.run(try_training, 1, 0.5, timeout=30))
for learning_rate in (0.5, 0.1, 0.01):
    print(
        f"400 steps, rate {learning_rate}:",
        three.run(try_training, 400, learning_rate, timeout=30),
    )

# %% [markdown]
# **Visible test: 5 points.** On the path, a pair, a star, a ring, and on ranks each of which only sends to the next
# one: one step, and several in a row. It looks at the parameters after every step, at where each gradient was taken,
# and at every message.

# %% test="decentralized_step_visible" points=5
from distlib.exercises import GossipTraining, check_decentralized_step
from distlib.training import metropolis_weights, mixing

pair, path = (
    torch.tensor([[2.0, 1.0], [1.0, 2.0]]).double() / 3,
    metropolis_weights([[1], [0, 2], [1]]),
)
one_way = (torch.eye(4) + torch.eye(4).roll(1, dims=0)).double() / 2
report = check_decentralized_step(
    decentralized_step,
    plans=[
        GossipTraining(path),
        GossipTraining(path, steps=3, rate=0.25),
        GossipTraining(pair, steps=2, length=1),
        GossipTraining(metropolis_weights(mixing.star(4)), steps=2, dtype=torch.float32),
        GossipTraining(metropolis_weights(mixing.ring(5)), steps=5),
        GossipTraining(one_way, steps=3),
    ],
)
assert report[0].trace.bytes_sent == [32, 2 * 32, 32]  # 4 float64 are 32 bytes
assert report[0].trace.messages_sent == [1, 2, 1]
assert report[3].trace.bytes_sent == [2 * 3 * 16, 2 * 16, 2 * 16, 2 * 16]
assert report[5].trace.bytes_sent == [3 * 32] * 4
for seen in report:
    for rank, own in enumerate(seen.given("values")):
        assert len(seen.passed(rank, 0)) == 1
        # the gradient was taken where the step began
        assert torch.allclose(seen.shown(rank, 0)[0], own)
print(report)

# %% [markdown]
# **Hidden test: 5 points.** More ranks, other graphs, weights that differ from edge to edge, one rank, a rate of 0, and
# tensors whose memory is not contiguous.

# %% test="decentralized_step_hidden" points=5
# The hidden tests of decentralized_step stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 9 ranks, irregular and one-way graphs, one rank, a rate of 0, memory that is not contiguous.
from distlib.exercises import GossipTraining, check_decentralized_step
from distlib.training import (
    metropolis_weights,
    mixing,
    one_peer_exponential,
    static_exponential,
)

uneven = (
    3 * torch.eye(4) + 2 * torch.eye(4).roll(1, dims=0) + torch.eye(4).roll(-1, dims=0)
).double() / 6
house = metropolis_weights([[1, 4], [0, 2, 4], [1, 3], [2, 4], [0, 1, 3]])
report = check_decentralized_step(
    decentralized_step,
    plans=[
        GossipTraining(uneven),
        GossipTraining(uneven, steps=4, length=9, layout="transposed"),
        GossipTraining(house, steps=3, length=5, layout="strided", rate=0.1),
        GossipTraining(house, rate=0.0),
        GossipTraining(torch.ones(1, 1).double(), steps=2),
        GossipTraining(static_exponential(5), steps=2, dtype=torch.float32),
        GossipTraining(one_peer_exponential(4)[1], steps=2, length=1, layout="scalar"),
        GossipTraining(metropolis_weights(mixing.star(6)), steps=3),
        GossipTraining(metropolis_weights(mixing.torus(3, 3)), steps=2),
        GossipTraining(metropolis_weights(mixing.ring(7)), steps=5, length=3),
        GossipTraining(torch.tensor([[3.0, 1.0], [1.0, 3.0]]).double() / 4, steps=3),
        GossipTraining(
            (4 * torch.eye(3) + torch.eye(3).roll(1, dims=0)).double() / 5, steps=3, length=2
        ),
        GossipTraining(
            torch.tensor([[99.0, 1.0, 0.0], [1.0, 69.0, 30.0], [0.0, 30.0, 70.0]]).double()
            / 100,
            steps=2,
        ),
    ],
    seed=82,
)
assert report[1].trace.bytes_sent == [4 * 2 * 72] * 4
assert report[2].trace.bytes_sent == [3 * degree * 40 for degree in (2, 3, 2, 2, 3)]
assert report[4].trace.bytes_sent == [0]
assert report[5].trace.bytes_sent == [2 * 3 * 16] * 5
assert report[7].trace.messages_sent == [3 * degree for degree in (5, 1, 1, 1, 1, 1)]
assert report[8].trace.bytes_sent == [2 * 4 * 32] * 9
for seen in report:
    for rank, own in enumerate(seen.given("values")):
        assert all(len(seen.passed(rank, step)) == 1 for step in range(seen.facts.steps))
        assert torch.allclose(seen.shown(rank, 0)[0], own)
### END HIDDEN TESTS

# %% [markdown]
# ## All together
#
# Rank 0 begins with the number of ranks, every other rank with 0. So the mean is 1. Which graph brings all ranks near
# it in the fewest rounds, and how many bytes does that take? Change `neighbors`.

# %%
neighbors = [[1, 5], [0, 2], [1, 3], [2, 4], [3, 5], [4, 0]]


def distance_from_the_mean(comm: Communicator, matrix: torch.Tensor, rounds: int) -> float:
    tensor = torch.tensor(float(comm.rank == 0) * comm.world_size)
    gossip_average(comm, tensor, matrix, rounds)
    return abs(tensor.item() - 1)


simulated = SimulatedWorld(len(neighbors))
for rounds in (0, 1, 2, 4, 8):
    distances = simulated.run(distance_from_the_mean, mixing_matrix(neighbors), rounds)
    print(
        f"{rounds} rounds: at most {max(distances):.3f} from the mean, "
        f"{sum(simulated.trace.bytes_sent)} bytes"
    )

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 08_decentralized` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("08_decentralized")

# %%
three.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("08_decentralized")
