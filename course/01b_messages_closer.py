# %% [markdown]
# # Messages, closer
#
# Twenty lines of a program work on your laptop, with 16 bytes in a message. On the day on which the model grows, the
# same lines hang. Nothing in them has changed, except that one message no longer fits into a buffer.
#
# **This lesson is optional.** It goes on where [Messages](01_messages.ipynb) ends.
#
# > After this lesson you will be able to
# >
# > - say what a forgotten `wait` does, and why no test shows it reliably,
# > - tell a program that is slow from one that is stuck,
# > - use tags, and receive from any rank,
# > - compare broadcasts on 64 ranks, and attack the comparison,
# > - say when a `send` does not wait, and what it hides then.
# >
# > **Time:** about 55 minutes. **You need:** [Messages](01_messages.ipynb). No GPU.

# %% tags=["folded"]
# The imports, and what this lesson takes from the one before
from collections.abc import Callable

import torch
import torch.distributed as dist

from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    MessageMismatch,
    SimulatedWorld,
    World,
    broadcast,
    gather,
    scatter,
    torch_distributed,
)
from distlib.draw import predict, timeline

world = World(4)
LINK = Link(latency=0.5, bandwidth=16)  # 0.5 s, and 16 bytes per second
slow = SimulatedWorld(4, Cluster.flat(4, LINK))


def swap(comm: Communicator, length: int = 4) -> float:
    partner = comm.rank ^ 1  # 0 and 1, 2 and 3: the last bit flipped
    mine, theirs = torch.full((length,), float(comm.rank)), torch.zeros(length)
    comm.send(mine, partner)
    comm.recv(theirs, partner)
    return theirs[0].item()


def pass_on(comm: Communicator) -> None:
    tensor = torch.zeros(4)
    if comm.rank > 0:
        comm.recv(tensor, comm.rank - 1)
    if comm.rank < comm.world_size - 1:
        comm.send(tensor, comm.rank + 1)


def flat_broadcast(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.recv(tensor, src=0)


ONE_SECOND = Link(latency=0, bandwidth=16)  # a message of 16 bytes takes 1 s


def count(function: Callable[..., object], ranks: int = 4) -> tuple[int, int, float]:
    """Rounds, steps, and seconds on the slow links. Every message has 16 bytes."""
    counting = SimulatedWorld(ranks, Cluster.flat(ranks, ONE_SECOND))
    timing = SimulatedWorld(ranks, Cluster.flat(ranks, LINK))
    counting.run(function)
    timing.run(function)
    rounds, steps = timing.trace.rounds, round(counting.elapsed)
    name = f"{function.__name__}, {ranks} ranks"
    print(f"{name:24} rounds {rounds}   steps {steps}   {timing.elapsed:4} s")
    return rounds, steps, timing.elapsed


def run_pattern(comm: Communicator, pattern: Callable[..., None], length: int) -> float:
    """Run a pattern on numbers that are all rank + 1. Returns the first one."""
    tensor = torch.full((length,), comm.rank + 1.0)
    pattern(comm, tensor)
    return tensor[0].item()


# %% [markdown]
# ## Without the wait
#
# A handle of `irecv` or `isend` has to be waited for. What happens without that?
#
# **Try it.** Take the line `receiving.wait()` away, and run the cell several times. What do the
# ranks return, in each of the two worlds? Can one of them prove that a wait is not needed?


# %%
def no_wait(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    receiving = comm.irecv(theirs, partner)
    comm.send(mine, partner)
    receiving.wait()
    return theirs[0].item()


print("real ranks:     ", world.run(no_wait))
print("simulated ranks:", slow.run(no_wait))


# %% tags=["folded"]
# One way to do it
# Real ranks return something else from run to run, simulated ones don't.
def too_early(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    receiving = comm.irecv(theirs, partner)  # noqa: F841
    comm.send(mine, partner)
    return theirs[0].item()


for result in sorted({str(world.run(too_early)) for _ in range(20)}):
    print("real ranks:     ", result)
print("simulated ranks:", slow.run(too_early))
assert [slow.run(too_early) for _ in range(3)] == [[-1, 0, -1, 2]] * 3

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# Without the wait, some ranks read their buffer before the message is in it. No error is raised. In the real world
# chance decides which ranks, and that is what makes such mistakes hard to find. In the simulated one ranks 0 and 2 read
# too early in every run. But ranks 1 and 3 left out the wait, too, and got their number each time. So a right result
# proves nothing here, in either world.
#
# </details>
#
# ## Slow, but not stuck
#
# A program can escape a deadlock and still wait too much. Now the ranks stand in a line, and each hands a tensor to the
# one on its right. The first one only sends, and the last one only receives. All others send first.


# %%
def along_a_line(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    if comm.rank < comm.world_size - 1:
        comm.send(mine, comm.rank + 1)
    if comm.rank > 0:
        comm.recv(incoming, comm.rank - 1)


# %%
guess_1 = predict(
    "8 ranks in a line, and a message takes 1.5 s. What happens?",
    choices=[
        "1.5 s: all at once",
        "3 s: in two turns",
        "10.5 s: one by one",
        "deadlock",
    ],
)

# %%
line = count(along_a_line, ranks=8)
outcomes = {
    1.5: "1.5 s: all at once",
    3.0: "3 s: in two turns",
    10.5: "10.5 s: one by one",
}
print(guess_1.compare(outcomes[line[2]]))

# %%
slow.run(along_a_line)
timeline(slow.trace, title="Four ranks in a line")

# %% [markdown]
# A rank receives only when its own `send` has returned. At first only the last rank is free to receive. Then the one
# before it is, and so on: one message after the other, like cars that start at a green light.
#
# And yet it is one round. No message needed the contents of another; the waiting comes from the order of the calls
# alone. So it can be taken away. Let even ranks send first and odd ranks receive first:


# %%
def line_in_turns(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    for turn in (0, 1):
        if comm.rank % 2 == turn and comm.rank < comm.world_size - 1:
            comm.send(mine, comm.rank + 1)
        if comm.rank % 2 != turn and comm.rank > 0:
            comm.recv(incoming, comm.rank - 1)


turns = [count(line_in_turns, ranks) for ranks in (4, 8, 64)]

# %% [markdown]
# Two steps, however long the line is (from three ranks on). (And two rounds, because an odd rank now receives before it
# sends.)
#
# **Try it.** Is "one round" more than a word? Here every rank sends one message at most, and receives one at most. So
# one step must be enough. Write the line so that no rank waits before it receives. And what changes if every rank
# *receives* first, and then sends?


# %%
def my_line(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    if comm.rank < comm.world_size - 1:
        comm.send(mine, comm.rank + 1)
    if comm.rank > 0:
        comm.recv(incoming, comm.rank - 1)


_ = count(my_line, ranks=8)


# %% tags=["folded"]
# One way to do it
# Start the send, and wait for it at the end. Receiving first makes a chain: 7 rounds.
def line_at_once(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    last = comm.rank == comm.world_size - 1
    sending = None if last else comm.isend(mine, comm.rank + 1)
    if comm.rank > 0:
        comm.recv(incoming, comm.rank - 1)
    if sending:
        sending.wait()


assert count(line_at_once, ranks=8) == (1, 1, 1.5)
assert count(pass_on, ranks=8) == (7, 7, 10.5)  # every rank receives first, then sends
assert line == (1, 7, 10.5)
assert turns == [(2, 2, 3.0)] * 3

# %% [markdown]
# Now close the line to a ring: the last rank also sends, to rank 0. Then no rank is free to receive first.


# %%
def around_a_ring(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    comm.send(mine, (comm.rank + 1) % comm.world_size)
    comm.recv(incoming, (comm.rank - 1) % comm.world_size)


for kind in (world, slow):
    try:
        kind.run(around_a_ring)
    except DeadlockError as error:
        print(f"{type(kind).__name__}: {error}\n")
        assert sorted(error.ranks) == [0, 1, 2, 3]

# %% [markdown]
# All four are in the circle, in the real world and in the simulated one. Repairing this one, in one round, is the first
# part of exercise 01.
#
# ## Tags, and receiving from any rank
#
# Two messages from the same rank arrive in the order in which they were sent. If they mean different things, give them
# different **tags**. A receiver that asks for a tag gets the first message *of that tag*. Here rank 0 sends its weights
# and then its loss, and rank 1 wants the loss first.

# %%
WEIGHTS, LOSS = 1, 2  # tags


def by_tag(comm: Communicator) -> list[float]:
    weights, loss = torch.zeros(3), torch.zeros(1)
    if comm.rank == 0:
        comm.send(torch.ones(3), dst=1, tag=WEIGHTS)
        comm.send(torch.full((1,), 0.25), dst=1, tag=LOSS)
    if comm.rank == 1:
        comm.recv(loss, src=0, tag=LOSS)
        comm.recv(weights, src=0, tag=WEIGHTS)
    return [*loss.tolist(), *weights.tolist()]


# %%
guess_2 = predict(
    "What happens?",
    choices=["right", "error: the sizes do not fit", "deadlock"],
)

# %%
try:
    print("rank 1 has", world.run(by_tag)[1])
    print(guess_2.compare("right"))
except MessageMismatch:
    print(guess_2.compare("error: the sizes do not fit"))
except DeadlockError as error:
    print(error, "\n")
    print(guess_2.compare("deadlock"))
    assert sorted(error.ranks) == [0, 1]

# %% [markdown]
# Rank 0 waits in its first `send` for a receiver of the weights. Rank 1 waits for the loss, which rank 0 sends only
# afterwards. Two ranks, and again a circle.
#
# **Try it: mend it.** Change only what rank 0 does. Rank 1 still asks for the loss first.


# %%
def mended(comm: Communicator) -> list[float]:
    weights, loss = torch.zeros(3), torch.zeros(1)
    if comm.rank == 0:
        comm.send(torch.ones(3), dst=1, tag=WEIGHTS)
        comm.send(torch.full((1,), 0.25), dst=1, tag=LOSS)
    if comm.rank == 1:
        comm.recv(loss, src=0, tag=LOSS)
        comm.recv(weights, src=0, tag=WEIGHTS)
    return [*loss.tolist(), *weights.tolist()]


try:
    print("rank 1 has", world.run(mended)[1])
except DeadlockError:
    print("still a deadlock")


# %% tags=["folded"]
# One way to do it
# Start both sends, then wait for both. (Sending the loss first would do, too.)
def mended_with_isend(comm: Communicator) -> list[float]:
    weights, loss = torch.zeros(3), torch.zeros(1)
    if comm.rank == 0:
        first = comm.isend(torch.ones(3), dst=1, tag=WEIGHTS)
        second = comm.isend(torch.full((1,), 0.25), dst=1, tag=LOSS)
        first.wait()
        second.wait()
    if comm.rank == 1:
        comm.recv(loss, src=0, tag=LOSS)
        comm.recv(weights, src=0, tag=WEIGHTS)
    return [*loss.tolist(), *weights.tolist()]


print("rank 1 has", world.run(mended_with_isend)[1])
assert world.run(mended_with_isend)[1] == [0.25, 1, 1, 1]

# %% [markdown]
# Sometimes it does not matter which rank comes first. `comm.recv(tensor)` without a source takes a message from any
# rank and returns which one it was. Here the higher ranks are faster.


# %%
def collect(comm: Communicator, in_order_of_rank: bool) -> list[int]:
    tensor, order = torch.zeros(4), []
    if comm.rank == 0:
        for src in range(1, comm.world_size):
            order.append(comm.recv(tensor, src if in_order_of_rank else None))
    else:
        comm.sleep(4 - comm.rank)
        comm.send(tensor, dst=0)
    return order


found = {}
for in_order_of_rank in (True, False):
    order = slow.run(collect, in_order_of_rank)[0]
    found[in_order_of_rank] = order, slow.elapsed
    print(f"order {order}: {slow.elapsed} s")

# %% [markdown]
# Taking what is there saves 2 of 7.5 seconds. The price: on a real machine the order may differ from run to run. In
# some programs the number of rounds then differs, too, sums of floats differ in their last digits, and a bug may show
# only sometimes. Prefer naming the source, unless the waiting hurts.

# %% tags=["folded"]
# Checks of the numbers above
assert found == {True: ([1, 2, 3], 7.5), False: ([3, 2, 1], 5.5)}


def first_come(comm: Communicator, delay: float) -> None:
    tensor = torch.zeros(4)
    if comm.rank == 0:
        comm.recv(tensor)
        comm.send(tensor, dst=2)
        comm.recv(tensor)
    if comm.rank == 1:
        comm.recv(tensor, src=2)
        comm.send(tensor, dst=0)
    if comm.rank == 2:
        comm.send(tensor, dst=1)
        comm.recv(tensor, src=0)
    if comm.rank == 3:
        comm.sleep(delay)
        comm.send(tensor, dst=0)


for delay, expected in ((0, 2), (10, 3)):
    slow.run(first_come, delay)
    assert slow.trace.rounds == expected
assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)  # the order of a sum shows

# %% [markdown]
# ## Scatter and gather
#
# In a scatter each rank gets a part of its own. Does a tree help there, too? The root of four ranks has 8 numbers, 32
# bytes. It can send each part directly. Or it hands two parts to rank 2, which keeps its own and passes the other one
# on to rank 3.


# %%
def scatter_directly(comm: Communicator) -> float:
    parts = torch.arange(8.0).split(2)
    mine = parts[0] if comm.rank == 0 else torch.zeros(2)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
    else:
        comm.recv(mine, src=0)
    return mine[0].item()


def scatter_by_tree_of_four(comm: Communicator) -> float:
    tensor = torch.arange(8.0) if comm.rank == 0 else torch.zeros(8)
    parts = tensor.split(2)
    if comm.rank == 0:
        comm.send(tensor[4:], dst=2)  # parts 2 and 3
        comm.send(parts[1], dst=1)
    if comm.rank == 2:
        comm.recv(tensor[4:], src=0)
        comm.send(parts[3], dst=3)
    if comm.rank in (1, 3):
        comm.recv(parts[comm.rank], src=comm.rank - 1)
    return parts[comm.rank][0].item()


# %%
guess_3 = predict(
    "What does the tree do, compared with the direct way?",
    choices=[
        "it is faster, and rank 0 sends fewer bytes",
        "it is faster, and rank 0 sends as many bytes",
        "it is slower, because some bytes travel twice",
    ],
)

# %%
scatters = {}
for function in (scatter_directly, scatter_by_tree_of_four):
    assert slow.run(function) == world.run(function) == [0, 2, 4, 6]
    sent = slow.trace.bytes_sent
    scatters[function.__name__] = slow.trace.rounds, slow.elapsed, sent
    print(f"{function.__name__:23} {slow.elapsed} s   ", end="")
    print(f"sent {sent}, in all {sum(sent)} bytes")
(_, direct, direct_sent), (_, tree, tree_sent) = scatters.values()
faster = f"it is {'faster' if tree < direct else 'slower'}"
bytes_sent = "as many bytes" if tree_sent[0] == direct_sent[0] else "fewer bytes"
print(guess_3.compare(f"{faster}, and rank 0 sends {bytes_sent}"))

# %% [markdown]
# Every part has to leave the root, so a tree cannot save bytes there. It saves one message, and so half a second of
# latency at the root. In return, some bytes travel twice. The larger the parts are, the less the latency counts, and
# the less the tree gains.
#
# Here the root waits in each `send`, and then the tree is never slower. With `isend` the latencies of the direct way
# overlap, and the direct way is faster: 2 s. MPICH, a widely used MPI library, nevertheless scatters by a tree at every
# size, by default
# ([scatter_intra_binomial.c](https://github.com/pmodels/mpich/blob/main/src/mpi/coll/scatter/scatter_intra_binomial.c)).
# This lesson and its exercise scatter directly. A **gather** is a scatter run backwards.
#
# So a tree helps most where everybody gets the *same*.

# %% tags=["folded"]
# Checks of the numbers above
# Without latency the tree gains nothing. With isend the direct way beats it.
assert scatters["scatter_directly"] == (1, 3.0, [24, 0, 0, 0])
assert scatters["scatter_by_tree_of_four"] == (2, 2.5, [24, 0, 8, 0])
no_latency = SimulatedWorld(4, Cluster.flat(4, Link(latency=0, bandwidth=16)))
for function in (scatter_directly, scatter_by_tree_of_four):
    no_latency.run(function)
    assert no_latency.elapsed == 1.5


def scatter_at_once(comm: Communicator) -> None:
    parts = torch.arange(8.0).split(2)
    if comm.rank == 0:
        started = [comm.isend(parts[dst], dst) for dst in (1, 2, 3)]
        for sending in started:
            sending.wait()
    else:
        comm.recv(torch.zeros(2), src=0)


slow.run(scatter_at_once)
assert slow.elapsed == 2.0
slow.run(lambda comm: scatter(comm, torch.zeros(8)))
assert slow.trace.bytes_sent == [24, 0, 0, 0] and slow.trace.rounds == 1
slow.run(lambda comm: gather(comm, torch.zeros(8)))
assert slow.trace.bytes_sent == [0, 8, 8, 8] and slow.trace.rounds == 1

# %% [markdown]
# ## 64 ranks
#
# Now a network as it might be: a latency of 20 µs, 10 GB/s. The tensor has 400,000 bytes, so a message takes 20 µs +
# 40 µs = 60 µs. We compare four broadcasts: the flat one, a chain along which the tensor is passed on, a tree in which
# every rank passes it on to two others, and the library's tree, in which rank 0 sends it to six.


# %%
def chain_broadcast(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank > 0:
        comm.recv(tensor, comm.rank - 1)
    if comm.rank < comm.world_size - 1:
        comm.send(tensor, comm.rank + 1)


def two_children(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank > 0:
        comm.recv(tensor, (comm.rank - 1) // 2)
    for child in (2 * comm.rank + 1, 2 * comm.rank + 2):
        if child < comm.world_size:
            comm.send(tensor, child)


# %%
guess_4 = predict(
    "Both trees have 6 rounds. Rank 0 sends 2 messages in the first, and 6 in the"
    " library's. Which is faster?",
    choices=["two_children", "broadcast", "both the same"],
)

# %%
large = SimulatedWorld(64, Cluster.flat(64, Link(latency=20e-6, bandwidth=10e9)))
counting = SimulatedWorld(64, Cluster.flat(64, ONE_SECOND))
patterns = (flat_broadcast, chain_broadcast, two_children, broadcast)
rows = {}
for pattern in patterns:
    assert set(large.run(run_pattern, pattern, 100_000)) == {1}
    counting.run(run_pattern, pattern, 4)
    steps, rounds = counting.elapsed, large.trace.rounds
    busiest = max(large.trace.messages_sent)
    rows[pattern.__name__] = round(1e3 * large.elapsed, 6), steps, rounds, busiest
    print(f"{pattern.__name__:15} {1e3 * large.elapsed:4.2f} ms", end="")
    print(f"   steps {steps:2.0f}   rounds {rounds:2}   busiest rank sends {busiest:2}")
two, library = rows["two_children"][0], rows["broadcast"][0]
faster = "two_children" if two < library else "broadcast"
print(guess_4.compare("both the same" if two == library else faster))

# %% [markdown]
# The flat broadcast has one round, and the chain has 63. Both take 63 steps, and the same time. The trees have 6
# rounds each. With two children per rank it takes 10 steps: rank 0 is done after two of them, and could have gone on
# helping. In the library's tree every rank that has the tensor goes on sending to the end. That takes 6 steps, and
# fewer are not possible. In exercise 01 you write such a tree yourself.
#
# Look at both numbers. Few rounds do not help a rank that has 63 messages to send. And few messages per rank do not
# help if each has to wait for the one before.

# %% tags=["folded"]
# Checks of the numbers above
assert abs(large.cluster.intra.seconds(400_000) - 60e-6) < 1e-12
assert rows["flat_broadcast"] == (3.78, 63, 1, 63)
assert rows["chain_broadcast"] == (3.78, 63, 63, 1)
assert rows["two_children"] == (0.6, 10, 6, 2)
assert rows["broadcast"] == (0.36, 6, 6, 6)
assert (64 - 1).bit_length() == 6  # ⌈log₂ 64⌉
last_sends = {}
for pattern in (two_children, broadcast):
    counting.run(run_pattern, pattern, 4)
    last_sends[pattern] = max(m.end for m in counting.trace if m.src == 0)
assert last_sends == {two_children: 2, broadcast: 6}

# %% [markdown]
# **Try it: attack this result.** The root of the flat broadcast waits until each message has arrived before it starts
# the next one. It need not: write it with `isend`. How much faster is it? Can it beat the library's tree? Try other
# links, for example one with a latency of 1 ms.

# %%
link = Link(latency=20e-6, bandwidth=10e9)  # change this


def flat_at_once(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)  # and this
    else:
        comm.recv(tensor, src=0)


attacked = SimulatedWorld(64, Cluster.flat(64, link))
for pattern in (flat_at_once, broadcast):
    attacked.run(run_pattern, pattern, 100_000)
    print(f"{pattern.__name__:15} {1e3 * attacked.elapsed:5.2f} ms")


# %% tags=["folded"]
# One way to do it
# With isend the 63 latencies overlap. With a latency of 1 ms the flat broadcast wins.
def flat_with_isend(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank == 0:
        started = [comm.isend(tensor, dst) for dst in range(1, comm.world_size)]
        for sending in started:
            sending.wait()
    else:
        comm.recv(tensor, src=0)


results = {}
for latency in (20e-6, 1e-3):
    attacked = SimulatedWorld(64, Cluster.flat(64, Link(latency, bandwidth=10e9)))
    for pattern in (flat_with_isend, broadcast):
        attacked.run(run_pattern, pattern, 100_000)
        results[latency, pattern.__name__] = round(1e3 * attacked.elapsed, 6)
        print(f"{latency} s: {pattern.__name__:15} {1e3 * attacked.elapsed:5.2f} ms")
assert list(results.values()) == [2.54, 0.36, 3.52, 6.24]
equal = SimulatedWorld(64, Cluster.flat(64, Link(latency=456e-6, bandwidth=10e9)))
for pattern in (flat_with_isend, broadcast):
    equal.run(run_pattern, pattern, 100_000)
    assert round(1e3 * equal.elapsed, 6) == 2.976

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# With `isend`, 63 messages leave the root one behind the other, and their latencies overlap. The tree cannot overlap
# its six latencies, because each message has to wait for the one before. So from some latency on, the flat broadcast is
# faster. For this tensor, that latency is 456 µs.
#
# Steps are a good guide where the bytes count, or where a rank waits in every `send`. Like every model, they leave
# something out. (Our simulated ranks start a message at no cost. Real ones need some time for each, which speaks for
# the tree.)
#
# </details>
#
# ## In real frameworks
#
# ### Does a send always wait?
#
# Ours does. Does that of torch? We let it swap, first in order, then with both ranks sending first. The second gets
# three seconds.


# %%
def swap_in_torch(comm: Communicator, in_order: bool) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.zeros(4)
    with torch_distributed(comm, "gloo"):
        if in_order and comm.rank > partner:
            dist.recv(theirs, partner)
            dist.send(mine, partner)
        else:
            dist.send(mine, partner)
            dist.recv(theirs, partner)
    return theirs[0].item()


hangs = False
print("in order:", world.run(swap_in_torch, True))
try:
    print("both send first:", world.run(swap_in_torch, False, timeout=3))
except TimeoutError as error:
    hangs = True
    print(error)

# %% [markdown]
# It hangs, and says nothing: the message is that of our time limit. gloo, the backend of torch on CPUs, waits for the
# receiver, even with 16 bytes (measured with torch 2.13).
#
# In MPI, the older standard, the patterns have the same names: `MPI_Bcast`, `MPI_Scatter`, `MPI_Gather`, `MPI_Reduce`.
# There, `MPI_Send` *may* return before the message has been taken, if it fits into a buffer. Such a message is called
# **eager**. In the simulated world, messages of up to `eager_limit` bytes are eager.

# %%
eager = SimulatedWorld(4, Cluster.flat(4, LINK, eager_limit=16))

# %%
guess_5 = predict(
    "Both send first. What happens with 4 numbers (16 bytes), and with 5?",
    choices=["right with both", "right with 4, deadlock with 5", "deadlock with both"],
)

# %%
outcome = {}
for length in (4, 5):
    try:
        print(f"{length} numbers:", eager.run(swap, length), f"in {eager.elapsed} s")
        outcome[length] = "right"
    except DeadlockError as error:
        print(f"{length} numbers:", error)
        outcome[length] = "deadlock"
same = outcome[4] == outcome[5]
apart = f"{outcome[4]} with 4, {outcome[5]} with 5"
print(guess_5.compare(f"{outcome[4]} with both" if same else apart))

# %% [markdown]
# A program with a deadlock runs well with small messages, and hangs with large ones: perhaps not on the day on which it
# is written, but on the day on which the model grows. Where `send` always waits, you find the mistake at once. (MPI has
# that, too: it is called `MPI_Ssend`.)
#
# An eager send also shows what "one round" is worth. The line of 8 ranks in which all send first has one round:
# eager, it takes the time of one message, and one step instead of seven. The line in which all receive first has 7
# rounds, and no buffer can help it.

# %%
eager_line = SimulatedWorld(8, Cluster.flat(8, LINK, eager_limit=16))
eager_seconds = []
for function in (along_a_line, pass_on):
    eager_line.run(function)
    eager_seconds.append(eager_line.elapsed)
    rounds = eager_line.trace.rounds
    print(f"{function.__name__:12} rounds {rounds}   {eager_line.elapsed} s")

# %% tags=["folded"]
# Checks of the numbers above
assert outcome == {4: "right", 5: "deadlock"} and hangs
assert eager_seconds == [1.5, 10.5]
eager_line = SimulatedWorld(8, Cluster.flat(8, ONE_SECOND, eager_limit=16))
eager_line.run(along_a_line)
assert eager_line.elapsed == 1


# %% tags=["folded"]
# Random numbers on ranks
# A world starts each run from the same seed, and rank r starts from the world's seed plus r.
# So the ranks draw different numbers, and a second run draws the same numbers again: a mistake
# that depends on them comes back when you run its cell again.
def draw_one(comm: Communicator) -> float:
    return round(torch.rand(1).item(), 3)


first, second = world.run(draw_one), world.run(draw_one)
assert len(set(first)) == 4 and first == second
with World(4, seed=100) as other:
    assert not set(other.run(draw_one)) & set(first)

# %%
world.close()

# %% [markdown]
# ## In short
#
# - Without the wait, a rank may read a buffer before the message is in it, and no error is raised.
# - A program can be free of deadlocks and still wait in every step.
# - A receiver that asks for a tag skips what was sent before, and may wait forever.
# - Few rounds do not help a rank that has all messages to send.
# - Where sends are buffered, small messages hide a deadlock that large ones show.
#
# ## Now you
#
# In [the exercise](../exercises/01b_messages_closer/01b_messages_closer.ipynb) you write scatter and gather.
#
# ## Further reading
#
# - [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), point-to-point and collective functions.
# - MPI Forum, [MPI: A Message-Passing Interface Standard](https://www.mpi-forum.org/docs/). Chapter 3 defines sending
#   modes and tags.
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. Which algorithm for which pattern and size.
