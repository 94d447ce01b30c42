# %% [markdown]
# # Messages
#
# After this lesson you will be able to
#
# - name the parts of a message, and say when `send` and `recv` return,
# - cause a deadlock, read what you are told about it, and repair it in three ways,
# - tell messages apart by their tag, and receive from whoever comes first,
# - draw broadcast, scatter, gather and reduce, and count their messages, bytes, rounds and steps.
#
# **Time:** about 40 minutes. **You need:** [Start here](00_start_here.ipynb). No GPU.

# %%
from collections.abc import Callable

import torch

from distlib import Cluster, Communicator, DeadlockError, Link, MessageMismatch, SimulatedWorld, World
from distlib.collectives import broadcast, gather, scatter
from distlib.draw import bytes_per_rank, play_timeline, predict, timeline

world = World(4)

# %% [markdown]
# ## What a message is
#
# A message is a tensor with an address. Send one, and look at everything that the trace knows about it.


# %%
def one_message(comm: Communicator) -> torch.Tensor:
    tensor = torch.zeros(2, 3, dtype=torch.float64)
    if comm.rank == 1:
        tensor += 5
        comm.send(tensor, dst=3, tag=8)
    if comm.rank == 3:
        comm.recv(tensor, src=1, tag=8)
    return tensor


results = world.run(one_message)
(message,) = world.trace
print(f"from rank {message.src} to rank {message.dst}, tag {message.tag}")
print(f"shape {message.shape}, {message.dtype}, {message.nbytes} bytes")
print(f"sent by {message.site.place}, received by {message.receive_site.place}")
assert results[3].tolist() == [[5, 5, 5], [5, 5, 5]]
assert (message.src, message.dst, message.tag) == (1, 3, 8)
assert (message.shape, message.dtype, message.nbytes) == ((2, 3), "float64", 48)

# %% [markdown]
# | part | who says it | must both sides agree? |
# |---|---|---|
# | source | the sender *is* it; the receiver says `src=` | yes, unless the receiver takes from anyone |
# | destination | the sender says `dst=` | the receiver *is* it |
# | tag | both; 0 if they say nothing | yes |
# | number of elements | the tensors of both | yes |
# | dtype | the tensors of both | yes |
# | shape | the tensors of both | no: the elements come in order |
#
# The receiver must have room for what comes, and know its dtype. Both sides know that from the program, not from the
# message. If they do not agree, you are told.


# %%
def other_dtype(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.send(torch.ones(4, dtype=torch.float64), dst=1)
    if comm.rank == 1:
        comm.recv(torch.zeros(4), src=0)


try:
    world.run(other_dtype)
except MessageMismatch as error:
    print(error)
    assert "float64" in str(error) and "float32" in str(error)

# %% [markdown]
# ## A message is a meeting
#
# `send` returns when the other rank has taken the message. `recv` returns when the message is there. So whoever comes
# first waits for the other. This is called a **rendezvous**.
#
# To see the waiting exactly, we use a `SimulatedWorld`. It runs the same functions, with real tensors, but on a clock
# of its own. Computing takes no time there, `comm.sleep(2)` takes 2 seconds of that clock (and none of yours), and a
# message takes what its link says: a latency, and its bytes divided by the bandwidth.

# %%
LINK = Link(latency=0.5, bandwidth=16)  # half a second, and 16 bytes per second: slow enough to see
slow = SimulatedWorld(4, Cluster.flat(4, LINK))


def early_and_late(comm: Communicator) -> float:
    """Rank 1 comes late to receive, rank 3 comes late to send. Returns when the rank was done, in seconds."""
    tensor = torch.zeros(4)
    if comm.rank == 0:
        comm.send(tensor, dst=1)
    if comm.rank == 1:
        comm.sleep(2)
        comm.recv(tensor, src=0)
    if comm.rank == 2:
        comm.recv(tensor, src=3)
    if comm.rank == 3:
        comm.sleep(4)
        comm.send(tensor, dst=2)
    return comm.time()


# %%
guess = predict("The message has 16 bytes. At what time does rank 0 come back from send?", unit="s")

# %%
done = slow.run(early_and_late)
print("done at", done)
print(guess.compare(done[0]))
assert done == [3.5, 3.5, 5.5, 5.5]

# %%
timeline(slow.trace)

# %% [markdown]
# Rank 0 calls `send` at once, but rank 1 comes after 2 seconds. Then the message takes 0.5 s of latency and 16 bytes at
# 16 bytes per second, 1 s. So rank 0 is done at 3.5 s. The hatched bar is its waiting.
#
# Ranks 2 and 3 show the other way around. The receiver is early, and nothing is drawn while it waits: no message is
# under way yet.

# %%
assert 2 + LINK.latency + 16 / LINK.bandwidth == 3.5

# %% [markdown]
# ## Deadlock: cause it, read it, repair it
#
# Ranks 0 and 1 want to swap their tensors, and so do ranks 2 and 3. Each sends first, then receives.


# %%
def swap(comm: Communicator) -> float:
    partner = comm.rank ^ 1  # 0 and 1, 2 and 3: the last bit flipped
    mine, theirs = torch.full((4,), float(comm.rank)), torch.zeros(4)
    comm.send(mine, partner)
    comm.recv(theirs, partner)
    return theirs[0].item()


try:
    world.run(swap)
except DeadlockError as error:
    print(error)
    assert {0, 1} <= set(error.ranks)

# %% [markdown]
# Read it from left to right. Rank 0 waits, in a certain line, to send to rank 1. Rank 1 waits to send to rank 0. The
# arrow comes back to rank 0: a circle. **A deadlock is a circle of ranks each of which waits for the next one.** The
# message ends with a hint, and names who else is stuck.
#
# To repair it, break the circle. There are three ways.
#
# **Order.** One of the two receives first. **Start without waiting.** `isend` and `irecv` return at once. You get a
# handle, and `wait()` on it returns when the message is through. **Exchange.** One call that does both.


# %%
def swap_in_order(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.zeros(4)
    if comm.rank < partner:
        comm.send(mine, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(mine, partner)
    return theirs[0].item()


def swap_with_isend(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.zeros(4)
    sending = comm.isend(mine, partner)  # started; mine must not be changed before wait()
    comm.recv(theirs, partner)
    sending.wait()
    return theirs[0].item()


def swap_with_irecv(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.zeros(4)
    receiving = comm.irecv(theirs, partner)  # started; theirs must not be read before wait()
    comm.send(mine, partner)
    receiving.wait()
    return theirs[0].item()


def swap_with_exchange(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.zeros(4)
    comm.exchange(mine, partner, theirs, partner)
    return theirs[0].item()


# %% [markdown]
# All four repairs swap the tensors. Are they equally fast? One message takes 1.5 s on our slow links.

# %%
guess = predict("How long does swap_in_order take on the slow links?", unit="s")

# %%
repairs = [swap_in_order, swap_with_isend, swap_with_irecv, swap_with_exchange]
rounds, seconds = {}, {}
for repair in repairs:
    assert world.run(repair) == slow.run(repair) == [1, 0, 3, 2]
    assert world.trace.rounds == slow.trace.rounds
    rounds[repair.__name__], seconds[repair.__name__] = slow.trace.rounds, slow.elapsed
    print(f"{repair.__name__:20} rounds: {slow.trace.rounds}   time: {slow.elapsed} s")

print(guess.compare(seconds["swap_in_order"]))
assert list(rounds.values()) == [2, 1, 1, 1]
assert list(seconds.values()) == [3, 1.5, 1.5, 1.5]

# %% [markdown]
# With an order, rank 1 sends only after it has received: two rounds. The others let both messages travel at once. Use
# `exchange` where every rank sends and receives in the same step. It is the shortest, and hard to get wrong.
#
# Here is the repair by order, to play. Press **Play**, or click into the picture and use the keys: space plays and
# pauses, ← and → go one step, Home and End go to the start and the end. A step is the moment at which messages arrive.
# Point at an arrow to read what is in the message and which line sent it. The bars on the right count bytes.

# %%
assert slow.run(swap_in_order) == [1, 0, 3, 2]
assert sorted({message.end for message in slow.trace}) == [1.5, 3]
play_timeline(slow.trace, title="A swap in order", by="time")

# %% [markdown]
# At 1.5 s the first message of each pair is there, at 3 s the second. Go to the first step and point at the arrow from
# rank 0: its line is the `send` of the rank with the lower number.
#
# ### Slow, but not stuck
#
# A program can escape a deadlock and still wait too much. Now the ranks stand in a line, and each hands a tensor to the
# one on its right. The last one only receives.


# %%
def along_a_line(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    if comm.rank < comm.world_size - 1:
        comm.send(mine, comm.rank + 1)
    if comm.rank > 0:
        comm.recv(incoming, comm.rank - 1)


# %%
guess = predict("Four ranks in a line, three messages of 1.5 s each. How long does it take?", unit="s")

# %%
slow.run(along_a_line)
print(guess.compare(slow.elapsed))
print("rounds:", slow.trace.rounds)
assert slow.elapsed == 3 * 1.5
assert slow.trace.rounds == 1
timeline(slow.trace)

# %% [markdown]
# Nobody receives before its own `send` has returned. Only rank 3 is free to receive. Then rank 2 is, then rank 1. One
# message after the other, like cars that start at a green light.
#
# And yet it is one round: no message needed the contents of another. Rounds count what an algorithm *must* wait for,
# the clock what this program *does* wait for. Letting even ranks send first and odd ranks receive first is better.


# %%
def along_a_line_in_turns(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    for turn in (0, 1):
        if comm.rank % 2 == turn and comm.rank < comm.world_size - 1:
            comm.send(mine, comm.rank + 1)
        if comm.rank % 2 != turn and comm.rank > 0:
            comm.recv(incoming, comm.rank - 1)


slow.run(along_a_line_in_turns)
print(f"in turns: {slow.elapsed} s")
assert slow.elapsed == 2 * 1.5

eight = SimulatedWorld(8, Cluster.flat(8, LINK))
times = {}
for function in (along_a_line, along_a_line_in_turns):
    eight.run(function)
    times[function.__name__] = eight.elapsed
    print(f"8 ranks, {function.__name__}: {eight.elapsed} s")
assert list(times.values()) == [7 * 1.5, 2 * 1.5]

# %% [markdown]
# Taking turns needs two messages' time, however long the line is.
#
# Now close the line to a ring: the last rank also sends, to rank 0. Then nobody is free to receive first.


# %%
def around_a_ring(comm: Communicator) -> None:
    mine, incoming = torch.ones(4), torch.zeros(4)
    comm.send(mine, (comm.rank + 1) % comm.world_size)
    comm.recv(incoming, (comm.rank - 1) % comm.world_size)


for kind in (world, slow):
    try:
        kind.run(around_a_ring)
    except DeadlockError as error:
        print(type(kind).__name__, "says:", error, "\n")
        assert sorted(error.ranks) == [0, 1, 2, 3]

# %% [markdown]
# All four are in the circle, in the real world and in the simulated one. Repairing this one, in one round, is the first
# part of the exercise.
#
# ## Tags, and receiving from anyone
#
# Two messages from the same rank arrive in the order in which they were sent. If they mean different things, give them
# different tags. A receiver that asks for a tag gets the first message *of that tag*.


# %%
WEIGHTS, LOSS = 1, 2  # tags


def by_tag(comm: Communicator) -> list[float]:
    weights, loss = torch.zeros(3), torch.zeros(1)
    if comm.rank == 0:
        first = comm.isend(torch.ones(3), dst=1, tag=WEIGHTS)
        second = comm.isend(torch.full((1,), 0.25), dst=1, tag=LOSS)
        first.wait()
        second.wait()
    if comm.rank == 1:
        comm.recv(loss, src=0, tag=LOSS)  # sent second, received first
        comm.recv(weights, src=0, tag=WEIGHTS)
    return [*loss.tolist(), *weights.tolist()]


results = world.run(by_tag)
print("rank 1 has", results[1])
assert results[1] == [0.25, 1, 1, 1]

# %% [markdown]
# Why `isend`? With two blocking sends, rank 0 would wait in the first one, for a receiver that asks for the other tag.


# %%
def by_tag_blocking(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.send(torch.ones(3), dst=1, tag=WEIGHTS)
        comm.send(torch.ones(1), dst=1, tag=LOSS)
    if comm.rank == 1:
        comm.recv(torch.zeros(1), src=0, tag=LOSS)
        comm.recv(torch.zeros(3), src=0, tag=WEIGHTS)


try:
    world.run(by_tag_blocking)
except DeadlockError as error:
    print(error)
    assert sorted(error.ranks) == [0, 1]

# %% [markdown]
# Sometimes it does not matter who comes first. `comm.recv(tensor)` without a source takes a message from anyone and
# returns who it was. Here the higher ranks are faster.


# %%
def first_come(comm: Communicator) -> list[int]:
    tensor, order = torch.zeros(4), []
    if comm.rank == 0:
        order = [comm.recv(tensor) for _ in range(comm.world_size - 1)]
    else:
        comm.sleep(4 - comm.rank)
        comm.send(tensor, dst=0)
    return order


def in_order_of_rank(comm: Communicator) -> list[int]:
    tensor, order = torch.zeros(4), []
    if comm.rank == 0:
        order = [comm.recv(tensor, src) for src in range(1, comm.world_size)]
    else:
        comm.sleep(4 - comm.rank)
        comm.send(tensor, dst=0)
    return order


for function, order, elapsed in [(first_come, [3, 2, 1], 5.5), (in_order_of_rank, [1, 2, 3], 7.5)]:
    found = slow.run(function)[0]
    print(f"{function.__name__:17} order {found}   {slow.elapsed} s")
    assert found == order and slow.elapsed == elapsed

# %% [markdown]
# Whoever takes what is there waits less: 5.5 s instead of 7.5 s. The price: the order may differ from run to run on a
# real machine. Sums of floats then differ in their last digits, and a bug may show only sometimes. Prefer naming the
# source, unless the waiting hurts.
#
# ## Four patterns
#
# Four ways to move data between one rank, the **root**, and all others are so common that they have names.
#
#     broadcast   root [abcd] ──► every rank [abcd]          one tensor to all
#     scatter     root [abcd] ──► [a] [b] [c] [d]            one part to each
#     gather      [a] [b] [c] [d] ──► root [abcd]            the other way around: one from each
#     reduce      [a] [b] [c] [d] ──► root [a + b + c + d]   gather that adds up
#
# Broadcast hands out a model's first weights, scatter the shares of a batch. Gather collects predictions, reduce adds
# up losses or gradients.
#
# Each can be done in more than one way, and the ways differ in cost. You write good ones in the exercise. Here we look
# at simple ones, and count.
#
# ### Broadcast and reduce, flat
#
# The root does everything itself.


# %%
def flat_broadcast(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.recv(tensor, src=0)


def flat_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    incoming = torch.empty_like(tensor)
    if comm.rank == 0:
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            tensor += incoming
    else:
        comm.send(tensor, dst=0)


def run_pattern(comm: Communicator, pattern: Callable[..., None], length: int) -> float:
    """Run a pattern on a tensor of `length` elements, all rank + 1. Returns the first element afterwards."""
    tensor = torch.full((length,), comm.rank + 1.0)
    pattern(comm, tensor)
    return tensor[0].item()


SIZE = 4 * 4  # bytes of 4 float32
print("broadcast:", slow.run(run_pattern, flat_broadcast, 4))
assert slow.run(run_pattern, flat_broadcast, 4) == world.run(run_pattern, flat_broadcast, 4) == [1, 1, 1, 1]
assert slow.trace.messages_sent == [3, 0, 0, 0]
assert slow.trace.bytes_sent == [3 * SIZE, 0, 0, 0]
assert slow.trace.rounds == 1 and slow.elapsed == 3 * 1.5
flat_trace = slow.trace

print("reduce:   ", slow.run(run_pattern, flat_reduce, 4))
assert slow.run(run_pattern, flat_reduce, 4)[0] == world.run(run_pattern, flat_reduce, 4)[0] == 1 + 2 + 3 + 4
assert slow.trace.messages_sent == [0, 1, 1, 1]
assert slow.trace.bytes_received == [3 * SIZE, 0, 0, 0]
assert slow.trace.rounds == 1 and slow.elapsed == 3 * 1.5
reduce_trace = slow.trace

# %%
timeline(flat_trace, title="Flat broadcast: the root sends to each")

# %%
timeline(reduce_trace, title="Flat reduce: each sends to the root")

# %% [markdown]
# In a reduce, everything goes the other way. All are ready at once, but the root takes in one tensor at a time.
#
# One round, but three messages that leave the same rank, one after the other. Rounds do not see that. So we also count
# **steps**: in one step, a rank takes part in at most one message. The flat broadcast on 4 ranks has 1 round and 3
# steps, and with N ranks N − 1 steps.
#
# ### Broadcast by a tree
#
# Who has the tensor can help. First rank 0 sends to rank 2. Then both have it, and both can send. We write it down for
# four ranks only; the general case is yours.


# %%
def tree_of_four(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank == 0:
        comm.send(tensor, dst=2)
        comm.send(tensor, dst=1)
    if comm.rank == 2:
        comm.recv(tensor, src=0)
        comm.send(tensor, dst=3)
    if comm.rank == 1:
        comm.recv(tensor, src=0)
    if comm.rank == 3:
        comm.recv(tensor, src=2)


# %%
guess = predict("The flat broadcast took 4.5 s. How long does this tree take?", unit="s")

# %%
assert slow.run(run_pattern, tree_of_four, 4) == world.run(run_pattern, tree_of_four, 4) == [1, 1, 1, 1]
print(guess.compare(slow.elapsed))
assert slow.elapsed == 2 * 1.5
assert slow.trace.messages_sent == [2, 0, 1, 0] and sum(slow.trace.messages_sent) == 3

# %% [markdown]
# Two steps instead of three, with the same three messages. It looks like little. But the number of ranks that have the
# tensor can double in every step: 1, 2, 4, 8. Play the library's broadcast on 8 ranks, and count the ranks that have
# the tensor after each step.

# %%
eight.run(run_pattern, broadcast, 4)
arrivals = [message.end for message in eight.trace]
holders = [1 + sum(end <= 1.5 * step for end in arrivals) for step in range(4)]
print("ranks that have the tensor:", holders)
assert holders == [1, 2, 4, 8] and eight.elapsed == 3 * 1.5
play_timeline(eight.trace, title="Broadcast by a tree, 8 ranks", by="time")

# %% [markdown]
# So N ranks need ⌈log₂ N⌉ steps, where flat needs N − 1. It cannot be done with fewer steps, because doubling is the
# most that one message a rank allows.
#
# ### Scatter and gather along a chain
#
# Here is a bad way to scatter. Rank 0 hands everything but its own part to rank 1, which keeps its part and hands the
# rest on.


# %%
def chain_scatter(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """Part r of rank 0's tensor for rank r. The length must divide by the number of ranks."""
    parts = len(tensor) // comm.world_size
    rest = tensor[comm.rank * parts :].clone()
    if comm.rank > 0:
        comm.recv(rest, comm.rank - 1)
    if comm.rank < comm.world_size - 1:
        comm.send(rest[parts:], comm.rank + 1)
    return rest[:parts]


def chain_gather(comm: Communicator, part: torch.Tensor) -> torch.Tensor:
    """On rank 0 the parts of all ranks, in order."""
    behind = part.new_empty(len(part) * (comm.world_size - 1 - comm.rank))
    if comm.rank < comm.world_size - 1:
        comm.recv(behind, comm.rank + 1)
    collected = torch.cat([part, behind])
    if comm.rank > 0:
        comm.send(collected, comm.rank - 1)
    return collected


def scatter_and_gather(comm: Communicator) -> tuple[list[float], list[float]]:
    tensor = torch.arange(8.0) if comm.rank == 0 else torch.zeros(8)
    part = chain_scatter(comm, tensor)
    return part.tolist(), chain_gather(comm, part).tolist()


for rank, (part, collected) in enumerate(slow.run(scatter_and_gather)):
    print(f"rank {rank} got {part}")
    assert part == [2 * rank, 2 * rank + 1]
    if rank == 0:
        assert collected == list(range(8))


# %%
def only_scatter(comm: Communicator) -> None:
    chain_scatter(comm, torch.zeros(8))


slow.run(only_scatter)
print(f"along the chain: {slow.trace.rounds} rounds, {sum(slow.trace.bytes_sent)} bytes")
assert slow.trace.bytes_sent == [24, 16, 8, 0] and sum(slow.trace.bytes_sent) == 48
assert slow.trace.rounds == 3
bytes_per_rank(slow.trace, title="Scatter of 32 bytes along a chain")


# %%
def only_gather(comm: Communicator) -> None:
    chain_gather(comm, torch.zeros(2))


slow.run(only_gather)
assert slow.trace.bytes_sent == [0, 24, 16, 8]
timeline(slow.trace, title="Gather along a chain: what is sent grows")

# %% [markdown]
# The library's `scatter` and `gather` send every part directly. (They work in place: part r stays at its place in the
# tensor.)

# %%
slow.run(lambda comm: gather(comm, torch.zeros(8)))
assert slow.trace.bytes_sent == [0, 8, 8, 8] and slow.trace.rounds == 1

slow.run(lambda comm: scatter(comm, torch.zeros(8)))
print(f"directly: {slow.trace.rounds} round, {sum(slow.trace.bytes_sent)} bytes")
assert slow.trace.bytes_sent == [24, 0, 0, 0] and slow.trace.rounds == 1
timeline(slow.trace, title="Scatter, each part directly")

# %%
for n in range(2, 9):
    ranks = SimulatedWorld(n, Cluster.flat(n, LINK))
    ranks.run(lambda comm: chain_scatter(comm, torch.zeros(2 * comm.world_size)))
    assert sum(ranks.trace.bytes_sent) == n / 2 * (n - 1) * 8  # N/2 times the bytes of the direct way
    assert ranks.trace.rounds == n - 1

# %% [markdown]
# Rank 3's part travels three times. Sent directly, each part travels once: 24 bytes instead of 48, and in one round.
# With N ranks the chain moves N/2 times as many bytes. For a scatter or a gather no tree can save bytes at the root
# either: every part has to leave it. That is why the exercise asks for the direct way there, and for a tree only where
# all get the same.
#
# ## 64 ranks
#
# Now the slow links give way to faster ones: a latency of 20 µs, 10 GB/s. These are numbers to think with. The tensor
# has 400,000 bytes, so a message takes 20 µs + 40 µs = 60 µs. We compare the flat broadcast, a chain, and a tree in
# which everybody passes the tensor on to two others.


# %%
def chain_broadcast(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank > 0:
        comm.recv(tensor, comm.rank - 1)
    if comm.rank < comm.world_size - 1:
        comm.send(tensor, comm.rank + 1)


def two_children_broadcast(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank > 0:
        comm.recv(tensor, (comm.rank - 1) // 2)
    for child in (2 * comm.rank + 1, 2 * comm.rank + 2):
        if child < comm.world_size:
            comm.send(tensor, child)


large = SimulatedWorld(64, Cluster.flat(64, Link(latency=20e-6, bandwidth=10e9)))
LENGTH, MESSAGE = 100_000, 60e-6  # float32 numbers; seconds
assert abs(20e-6 + 4 * LENGTH / 10e9 - MESSAGE) < 1e-12

# %%
guess = predict("How long does the flat broadcast to 64 ranks take, at 60 µs a message?", unit="ms")

# %%
steps = {}
for pattern in (flat_broadcast, chain_broadcast, two_children_broadcast, broadcast):
    assert set(large.run(run_pattern, pattern, LENGTH)) == {1}
    steps[pattern.__name__] = round(large.elapsed / MESSAGE)
    assert abs(large.elapsed - steps[pattern.__name__] * MESSAGE) < 1e-9
    busiest = max(large.trace.messages_sent)
    print(f"{pattern.__name__:23} {1e3 * large.elapsed:5.2f} ms   steps {steps[pattern.__name__]:2}   "
          f"rounds {large.trace.rounds:2}   busiest rank sends {busiest:2}")  # fmt: skip

print(guess.compare(63 * MESSAGE * 1e3))
assert list(steps.values()) == [63, 63, 10, 6]
assert (64 - 1).bit_length() == 6  # ⌈log₂ 64⌉

# %% [markdown]
# The flat broadcast has one round, and the chain has 63. Both take 63 steps, and the same time. Two children for
# everybody: 10 steps. The last line is the library's `broadcast`: a tree with 6 steps, and less is not possible. In the
# exercise you write such a tree yourself.
#
# Between rounds and steps lies the question who is busy. A rank that has to send 63 messages is a bottleneck, even if
# none of them waits for another. Look at both.
#
# ## In real frameworks
#
# `torch.distributed` has the four patterns under the same names. They run on the same four ranks here. We compare what
# they leave behind with what ours do.

# %%
import torch.distributed as dist

from distlib.process_group import torch_distributed


def as_lists(**tensors: torch.Tensor) -> dict[str, list[float]]:
    return {name: tensor.tolist() for name, tensor in tensors.items()}


def patterns_of_torch(comm: Communicator) -> dict[str, list[float]]:
    start = torch.full((4,), 10.0**comm.rank)
    copied, reduced, part = start.clone(), start.clone(), torch.zeros(2)
    root = comm.rank == 0
    gathered = [torch.zeros(2) for _ in range(4)] if root else None
    with torch_distributed(comm):
        dist.broadcast(copied, src=0)
        dist.reduce(reduced, dst=0)
        dist.scatter(part, list(torch.arange(8.0).split(2)) if root else None, src=0)
        dist.gather(part, gathered, dst=0)
    collected = torch.cat(gathered) if gathered else torch.zeros(0)
    return as_lists(broadcast=copied, reduce=reduced, part=part, gathered=collected)


def patterns_of_ours(comm: Communicator) -> dict[str, list[float]]:
    start = torch.full((4,), 10.0**comm.rank)
    copied, reduced = start.clone(), start.clone()
    flat_broadcast(comm, copied)
    flat_reduce(comm, reduced)
    part = chain_scatter(comm, torch.arange(8.0) if comm.rank == 0 else torch.zeros(8))
    collected = chain_gather(comm, part)
    if comm.rank != 0:
        collected = torch.zeros(0)
    return as_lists(broadcast=copied, reduce=reduced, part=part, gathered=collected)


theirs, ours = world.run(patterns_of_torch), world.run(patterns_of_ours)
for rank in range(4):
    for name in ("broadcast", "part", "gathered"):
        assert theirs[rank][name] == ours[rank][name]
assert theirs[0]["reduce"] == ours[0]["reduce"] == [1111] * 4  # on the other ranks its tensor may hold anything
print("torch.distributed and ours agree.")

# %% [markdown]
# | here | in torch.distributed |
# |---|---|
# | `comm.exchange(outgoing, dst, incoming, src)` | `dist.batch_isend_irecv([...])` |
# | `comm.recv(tensor)` from anyone | `dist.recv(tensor)`, not with every backend |
# | `broadcast(comm, tensor, root)` | `dist.broadcast(tensor, src)` |
# | `reduce(comm, tensor, root)` | `dist.reduce(tensor, dst)` |
# | `scatter`, returns the part | `dist.scatter(part, list_of_parts, src)` |
# | `gather`, returns a list | `dist.gather(tensor, list_to_fill, dst)` |
#
# In MPI, the older standard, they have the same names again: `MPI_Bcast`, `MPI_Scatter`, `MPI_Gather`, `MPI_Reduce`.
# There, `MPI_Send` *may* return before the message has been taken, if it fits into a buffer. A program with a deadlock
# then runs with small messages and hangs with large ones. Ours always waits, so you find the mistake at once. (MPI has
# that, too: it is called `MPI_Ssend`.)
#
# You can see the difference in the simulated world. Messages up to `eager_limit` bytes do not wait for their receiver.

# %%
eager = SimulatedWorld(4, Cluster.flat(4, LINK, eager_limit=16))
assert eager.run(swap) == [1, 0, 3, 2]
print(f"the swap that was a deadlock: {eager.elapsed} s, with messages of 16 bytes that need not wait")

strict = SimulatedWorld(4, Cluster.flat(4, LINK, eager_limit=15))
try:
    strict.run(swap)
except DeadlockError as error:
    print("one byte less:", error)
    assert {0, 1} <= set(error.ranks)

# %%
world.close()

# %% [markdown]
# ## In short
#
# | pattern, N ranks, a tensor of S bytes | messages | rounds | steps | busiest rank moves |
# |---|---|---|---|---|
# | broadcast or reduce, flat | N − 1 | 1 | N − 1 | (N − 1) S |
# | broadcast or reduce, by the best tree | N − 1 | ≤ ⌈log₂ N⌉ | ⌈log₂ N⌉ | ≤ ⌈log₂ N⌉ S |
# | scatter or gather of S bytes in all, directly | N − 1 | 1 | N − 1 | (N − 1)/N · S |
#
# - `send` and `recv` meet. Whoever comes first waits.
# - A deadlock is a circle of waiting. Break it with an order, with `isend` or `irecv`, or with `exchange`.
# - Rounds count what must wait. Steps also count that a rank does one thing at a time.
#
# ## Now you
#
# In [the exercise](../exercises/01_messages/01_messages.ipynb) you write five functions: a shift around the ring
# without a deadlock, scatter and gather directly, broadcast and reduce by a tree. After that comes
# [All-reduce](02_all_reduce.ipynb): a reduce whose result everybody gets.
#
# ## Further reading
#
# - [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), point-to-point and collective functions.
# - MPI Forum, [MPI: A Message-Passing Interface Standard](https://www.mpi-forum.org/docs/). Chapters 3 and 6 define
#   sending modes, tags and the collectives that all others follow.
# - E. Coffman, M. Elphick, A. Shoshani, [System Deadlocks](https://doi.org/10.1145/356586.356588), ACM Computing
#   Surveys 3(2), 1971. The four conditions of a deadlock; the last is the circle.
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. Which algorithm for which pattern and size.
