# %% [markdown]
# # Messages
#
# A training job on eight GPUs stands still in the middle of the night. Nothing has crashed, no error is printed, and
# the bill grows. One rank is waiting for a message that no other rank will ever send.
#
# > After this lesson you will be able to
# >
# > - name the parts of a message, and say when `send` and `recv` return,
# > - cause a deadlock, read its report, and repair it in three ways,
# > - count the rounds, the steps and the seconds of a program,
# > - draw broadcast, scatter, gather and reduce, and say what each of them costs.
# >
# > **Time:** about 110 minutes. **You need:** [Start here](00_start_here.ipynb). No GPU. Why should somebody who trains
# > networks care about `send` and `recv`? Because training on many GPUs is made of them. **Broadcast** hands out a
# > model's first weights, so that all ranks start from the same model. **Scatter** hands out the shares of a batch.
# > **Gather** collects predictions. **Reduce** adds up losses and gradients. And when a training job hangs, some rank
# > is usually waiting in such a call for a message that no other rank sends.

# %% tags=["folded"]
# The imports
from collections.abc import Callable

import torch

from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    MessageMismatch,
    SimulatedWorld,
    World,
)
from distlib.collectives import broadcast, gather, scatter
from distlib.draw import play_timeline, predict, timeline

world = World(4)

# %% [markdown]
# ## What a message is
#
# A message is a tensor with an address. Send one, and look at everything that the trace knows about it.


# %%
def one_message(comm: Communicator) -> torch.Tensor:
    tensor = torch.zeros(2, 3, dtype=torch.float64)
    if comm.rank == 1:
        comm.send(tensor + 5, dst=3, tag=8)
    if comm.rank == 3:
        comm.recv(tensor, src=1, tag=8)
    return tensor


results = world.run(one_message)
(message,) = world.trace
print(f"from rank {message.src} to rank {message.dst}, tag {message.tag}")
print(f"shape {message.shape}, {message.dtype}, {message.nbytes} bytes")
print(f"sent by {message.site.place}, received by {message.receive_site.place}")
assert results[3].tolist() == [[5, 5, 5], [5, 5, 5]]

# %% [markdown]
# | part of a message | which side names it | must both sides agree? |
# |---|---|---|
# | source | the sender *is* it; the receiver writes `src=` | yes, unless the receiver takes from any rank |
# | destination | the sender writes `dst=` | the receiver *is* it |
# | tag | both; without `tag=` it is 0 | yes |
# | number of elements | the tensors of both | yes |
# | dtype | the tensors of both | yes |
# | shape | the tensors of both | no: the elements come in order |
#
# The receiver must have room for what comes, and know its dtype. Both sides know that from the program, not from the
# message. If they do not agree, you get an error that names both.


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

# %% tags=["folded"]
# Checks of the numbers above
assert (message.src, message.dst, message.tag) == (1, 3, 8)
assert (message.shape, message.dtype, message.nbytes) == ((2, 3), "float64", 48)
assert "float64" in str(world.last_error) and "float32" in str(world.last_error)

# %% [markdown]
# ## A message is a meeting
#
# `send` returns when the other rank has taken the message. `recv` returns when the message is there. So the one that
# comes first waits for the other. This is called a **rendezvous**.
#
# To see the waiting exactly, we use a `SimulatedWorld`. It runs the same functions, with real tensors, but on a clock
# of its own. Its seconds are **virtual**: computing takes none of them, `comm.sleep(2)` takes 2 of them (and none of
# yours), and a message takes what its link says: a **latency**, and its bytes divided by the **bandwidth**.

# %%
LINK = Link(latency=0.5, bandwidth=16)  # 0.5 s, and 16 bytes per second
slow = SimulatedWorld(4, Cluster.flat(4, LINK))


def early_and_late(comm: Communicator) -> float:
    """Returns when the rank was done, in virtual seconds."""
    tensor = torch.zeros(4)  # 16 bytes: on this link the message takes 0.5 s + 1 s
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
guess_1 = predict(
    "Rank 0 calls send at 0 s. When does the call return?",
    choices=["0 s", "0.5 s", "1.5 s", "2 s", "3.5 s"],
)

# %%
done = slow.run(early_and_late)
print("done at", done)
print(guess_1.compare(f"{done[0]:g} s"))

# %%
timeline(slow.trace)

# %% [markdown]
# Rank 0 calls `send` at once, but rank 1 comes after 2 seconds. Then the message takes 0.5 s of latency and, with 16
# bytes at 16 bytes per second, 1 s more. So rank 0 is done at 3.5 s. The hatched bar is its waiting.
#
# Ranks 2 and 3 show the other way around. The receiver is early, and waits until the message is there, at 5.5 s. (The
# picture shows how long a rank waits to send, but not how long it waits to receive.)

# %% tags=["folded"]
# Checks of the numbers above
assert done == [3.5, 3.5, 5.5, 5.5]
assert 2 + LINK.latency + 16 / LINK.bandwidth == 3.5

# %% [markdown]
# ## A swap
#
# Ranks 0 and 1 want to swap their tensors, and so do ranks 2 and 3. Each sends first, then receives.


# %%
def swap(comm: Communicator, length: int = 4) -> float:
    partner = comm.rank ^ 1  # 0 and 1, 2 and 3: the last bit flipped
    mine, theirs = torch.full((length,), float(comm.rank)), torch.zeros(length)
    comm.send(mine, partner)
    comm.recv(theirs, partner)
    return theirs[0].item()


# %%
guess_2 = predict(
    "What happens?",
    choices=["right", "right, but slow", "wrong values", "deadlock"],
)

# %%
try:
    world.run(swap)
    print(guess_2.compare("right"))
except DeadlockError as error:
    print(error, "\n")
    print(guess_2.compare("deadlock"))
    assert {0, 1} <= set(error.ranks)

# %% [markdown]
# Read it from the top. Rank 0 waits, in a certain line, to send to rank 1. Rank 1 waits to send to rank 0. The arrow
# comes back to rank 0: a circle. **A deadlock is a circle of ranks each of which waits for the next one.** The message
# ends with a hint, and names the other ranks that are stuck. (A rank can also wait for one that has already returned.
# Then there is no circle: the message ends with that rank.)
#
# To repair it, break the circle. There are three ways.
#
# **Order.** One of the two receives first. **Start without waiting.** `isend` and `irecv` return at once. You get a
# handle, and `wait()` on it returns when the message has been taken, or has arrived. **Exchange.** One call that does
# both.


# %%
def in_order(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    if comm.rank < partner:
        comm.send(mine, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(mine, partner)
    return theirs[0].item()


def with_irecv(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    receiving = comm.irecv(theirs, partner)  # started: do not read theirs before wait()
    comm.send(mine, partner)
    receiving.wait()
    return theirs[0].item()


# %%
def with_isend(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    sending = comm.isend(mine, partner)  # started: do not change mine before wait()
    comm.recv(theirs, partner)
    sending.wait()
    return theirs[0].item()


def with_exchange(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    comm.exchange(mine, partner, theirs, partner)
    return theirs[0].item()


for repair in (in_order, with_irecv, with_isend, with_exchange):
    assert world.run(repair) == slow.run(repair) == [1, 0, 3, 2]

# %% [markdown]
# All four swap the tensors. Do they also take the same time?

# %%
guess_3 = predict(
    "A message takes 1.5 s on the slow links. Which repair is the slowest?",
    choices=["in_order", "with_irecv", "with_isend", "with_exchange", "all the same"],
)

# %%
seconds = {}
for repair in (in_order, with_irecv, with_isend, with_exchange):
    slow.run(repair)
    seconds[repair.__name__] = slow.elapsed
    print(f"{repair.__name__:13} {slow.elapsed} s")
slowest = max(seconds, key=seconds.__getitem__)
alike = len(set(seconds.values())) == 1
print(guess_3.compare("all the same" if alike else slowest))

# %% [markdown]
# With an order, rank 1 sends only after it has received: one message after the other. With the others, both messages
# travel at once. Use `exchange` where a rank sends and receives at the same time. It is the shortest, and hard to get
# wrong.
#
# Here is the repair by order, to play. Press **Play**, or click into the picture and use the keys: space plays and
# pauses, ← and → go one picture back and on, Home and End go to the start and the end. Point at an arrow to read what
# is in the message and which line sent it. The bars on the right count bytes.

# %%
slow.run(in_order)
play_timeline(slow.trace, title="A swap in order", by="time")

# %% tags=["folded"]
# Checks of the numbers above
assert seconds == {
    "in_order": 3,
    "with_irecv": 1.5,
    "with_isend": 1.5,
    "with_exchange": 1.5,
}
slow.run(in_order)
assert sorted({message.end for message in slow.trace}) == [1.5, 3]
assert slow.trace.rounds == 2


def waits_in_vain(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.recv(torch.zeros(4), src=1)


try:
    slow.run(waits_in_vain)
except DeadlockError as error:
    assert "rank 1 has already returned" in str(error)

# %% [markdown]
# **Try it: make it deadlock.** In the cell below, change as little as you can so that the ranks wait for ever again. Is
# there a change after which ranks 2 and 3 still swap, and only ranks 0 and 1 are stuck?


# %%
def fragile(comm: Communicator) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    if comm.rank % 2 == 0:
        comm.send(mine, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(mine, partner)
    return theirs[0].item()


try:
    print(world.run(fragile))
except DeadlockError as error:
    print(error)


# %% tags=["folded"]
# One way to do it
# "< 2" instead of "% 2 == 0". Then ranks 0 and 1 both send first.
def stuck(comm: Communicator, senders: set[int]) -> float:
    partner = comm.rank ^ 1
    mine, theirs = torch.full((4,), float(comm.rank)), torch.full((4,), -1.0)
    if comm.rank in senders:
        comm.send(mine, partner)
        comm.recv(theirs, partner)
    else:
        comm.recv(theirs, partner)
        comm.send(mine, partner)
    return theirs[0].item()


try:
    world.run(stuck, {0, 1})  # comm.rank < 2
except DeadlockError as error:
    print(error, "\n")
try:
    world.run(stuck, {0, 1, 2})  # comm.rank < 3: ranks 2 and 3 swap, 0 and 1 are stuck
except DeadlockError as error:
    print(error)
    assert sorted(error.ranks) == [0, 1]

# %% [markdown]
# **Try it: now without the wait.** Take the line `receiving.wait()` away, and run the cell several times. What do the
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
# ## How to count: rounds, steps, seconds
#
# The course measures a program in three ways. All of them come from a run.
#
# > **Round.** A message is in round 1 if its sender had received nothing before it sent. Otherwise it is one round
# > later than the latest message that its sender had received. *The rounds of a run are its longest chain of messages
# > each of which had to wait for the one before.* (After `irecv`, a message counts as received when `wait()` returns.)
# >
# > **Step.** In one step, every rank may send one message and receive one. All messages of a step travel at the same
# > time. A blocking call must return before the rank makes its next one. *The steps of a run are the seconds that it
# > takes if every message takes one second, and nothing else takes any time.*
# >
# > **Second.** What the clock says. In a `SimulatedWorld` it is a *virtual second*, which follows from the latency and
# > the bandwidth of the links, and from `comm.sleep`.
#
# Rounds and steps belong to a program, whatever the latency and the bandwidth. (Two exceptions come later: receiving
# from any rank, and a `send` that does not wait.) Seconds need a network. (A *training* step, that of the optimizer,
# is something else. The course then says "training step".)
#
# An example: rank 0's tensor has to reach ranks 1, 2 and 3. Rank 0 can send it to each of them, or they can pass it on.


# %%
def to_each(comm: Communicator) -> None:
    tensor = torch.zeros(4)
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.recv(tensor, src=0)


def pass_on(comm: Communicator) -> None:
    tensor = torch.zeros(4)
    if comm.rank > 0:
        comm.recv(tensor, comm.rank - 1)
    if comm.rank < comm.world_size - 1:
        comm.send(tensor, comm.rank + 1)


# %%
guess_4 = predict(
    "Which of the two takes fewer steps?",
    choices=["to_each", "pass_on", "both the same"],
)

# %%
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


counts = {function: count(function) for function in (to_each, pass_on, with_exchange)}
steps = {function.__name__: counts[function][1] for function in (to_each, pass_on)}
alike = steps["to_each"] == steps["pass_on"]
print(guess_4.compare("both the same" if alike else min(steps, key=steps.__getitem__)))

# %% [markdown]
# `to_each` has one round: rank 0 has received nothing, so none of its messages had to wait for another. But it sends
# three messages, one at a time: three steps. `pass_on` has a chain of three messages, 0 → 1 → 2 → 3: three rounds, and
# three steps. Both take 3 · 1.5 s. The swap with `exchange` has one of each: every rank sends one message and receives
# one, at the same time.
#
# A run never takes fewer steps than rounds. If it takes more, then something else holds it up: a rank that has several
# messages to send or to receive, as in `to_each`, or calls in a bad order, as you will see next.

# %% tags=["folded"]
# Checks of the numbers above
assert list(counts.values()) == [(1, 3, 4.5), (3, 3, 4.5), (1, 1, 1.5)]
assert count(in_order) == (2, 2, 3.0)
assert count(with_irecv) == count(with_isend) == (1, 1, 1.5)

# %% [markdown]
# ### Slow, but not stuck
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
guess_5 = predict(
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
print(guess_5.compare(outcomes[line[2]]))

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
# part of the exercise.
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
guess_6 = predict(
    "What happens?",
    choices=["right", "error: the sizes do not fit", "deadlock"],
)

# %%
try:
    print("rank 1 has", world.run(by_tag)[1])
    print(guess_6.compare("right"))
except MessageMismatch:
    print(guess_6.compare("error: the sizes do not fit"))
except DeadlockError as error:
    print(error, "\n")
    print(guess_6.compare("deadlock"))
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
# ## Four patterns
#
# Four ways to move data between one rank, the **root**, and all others are so common that they have names.
#
#     broadcast   root [abcd] ──► every rank [abcd]          one tensor to all
#     scatter     root [abcd] ──► [a] [b] [c] [d]            one part to each
#     gather      [a] [b] [c] [d] ──► root [abcd]            the other way around: one from each
#     reduce      [a] [b] [c] [d] ──► root [a + b + c + d]   a gather that adds up
#
# Each can be done in more than one way, and the ways differ in cost. You write good ones in the exercise. Here we look
# at simple ones, and count.
#
# ### Broadcast, flat and by a tree
#
# Flat means that the root does everything itself. But as soon as rank 2 has the tensor, it can help: every rank that
# has the tensor can send it on. We write such a tree for four ranks only; the general case is yours.


# %%
def flat_broadcast(comm: Communicator, tensor: torch.Tensor) -> None:
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        comm.recv(tensor, src=0)


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
guess_7 = predict(
    "Both send three messages. What about the rounds, and the time?",
    choices=[
        "the flat one has more rounds and is slower",
        "the tree has more rounds and is slower",
        "the tree has more rounds and is faster",
    ],
)


# %%
def run_pattern(comm: Communicator, pattern: Callable[..., None], length: int) -> float:
    """Run a pattern on numbers that are all rank + 1. Returns the first one."""
    tensor = torch.full((length,), comm.rank + 1.0)
    pattern(comm, tensor)
    return tensor[0].item()


traces, seconds = {}, {}
for pattern in (flat_broadcast, tree_of_four):
    assert slow.run(run_pattern, pattern, 4) == [1] * 4
    assert world.run(run_pattern, pattern, 4) == [1] * 4
    traces[pattern.__name__], seconds[pattern.__name__] = slow.trace, slow.elapsed
    print(f"{pattern.__name__:14} rounds {slow.trace.rounds}   {slow.elapsed} s")
rounds = {name: trace.rounds for name, trace in traces.items()}
more = "tree" if rounds["tree_of_four"] > rounds["flat_broadcast"] else "flat one"
others = "flat_broadcast" if more == "tree" else "tree_of_four"
speed = "faster" if min(seconds, key=seconds.__getitem__) != others else "slower"
print(guess_7.compare(f"the {more} has more rounds and is {speed}"))

# %%
timeline(traces["flat_broadcast"], title="Flat: the root sends to each")

# %%
timeline(traces["tree_of_four"], title="A tree: rank 2 helps")

# %% [markdown]
# The tree has *more* rounds and is faster: two steps instead of three, with the same three messages. That looks like
# a small gain. But the number of ranks that have the tensor can double in every step: 1, 2, 4, 8. Play the library's
# broadcast on 8 ranks, and count the ranks that have the tensor after each step.

# %%
eight = SimulatedWorld(8, Cluster.flat(8, LINK))
eight.run(run_pattern, broadcast, 4)
arrivals = [message.end for message in eight.trace]
holders = [1 + sum(end <= 1.5 * step for end in arrivals) for step in range(4)]
print("ranks that have the tensor:", holders)
play_timeline(eight.trace, title="Broadcast by a tree, 8 ranks", by="time")

# %% [markdown]
# So N ranks need ⌈log₂ N⌉ steps, where flat needs N − 1. It cannot be done with fewer steps, because in one step a rank
# can hand the tensor to one other rank only: the number of those that have it doubles at most.
#
# A **reduce** is the same picture backwards: three messages come to the root, one after the other, or along a tree in
# which every rank adds up what it gets and sends the sum on.

# %% tags=["folded"]
# Checks of the numbers above
assert rounds == {"flat_broadcast": 1, "tree_of_four": 2}
assert seconds == {"flat_broadcast": 3 * 1.5, "tree_of_four": 2 * 1.5}
assert [sum(trace.messages_sent) for trace in traces.values()] == [3, 3]
assert holders == [1, 2, 4, 8] and eight.elapsed == 3 * 1.5

# %% [markdown]
# **Try it: make rank 2 slow.** In the cell below rank 2 does other work for 3 s before it takes part. Which ranks have
# to wait for it in the flat broadcast, and which in the tree? Guess, then run it. Then make another rank slow. Is there
# one that hurts the flat broadcast more than the tree?

# %%
SLOW_RANK = None  # set it to 2


def with_a_slow_rank(comm: Communicator, pattern: Callable[..., None]) -> float:
    if comm.rank == SLOW_RANK:
        comm.sleep(3)
    run_pattern(comm, pattern, 4)
    return comm.time()


for pattern in (flat_broadcast, tree_of_four):
    done = slow.run(with_a_slow_rank, pattern)
    print(f"{pattern.__name__:14} the ranks are done at", done)


# %% tags=["folded"]
# One way to do it
# Rank 2 delays everybody in the tree, rank 1 everybody in the flat one
times = {}
for SLOW_RANK in (1, 2, 3):
    for pattern in (flat_broadcast, tree_of_four):
        times[SLOW_RANK, pattern.__name__] = done = slow.run(with_a_slow_rank, pattern)
        print(f"rank {SLOW_RANK} slow, {pattern.__name__:14} done at", done)
assert times[2, "flat_broadcast"] == [6, 1.5, 4.5, 6]
assert times[2, "tree_of_four"] == [6, 6, 6, 6]
assert times[1, "flat_broadcast"] == [7.5, 4.5, 6, 7.5]
assert times[1, "tree_of_four"] == [4.5, 4.5, 3, 3]

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# A rank that sends to a slow one has to wait for it, and so do all ranks that it would serve next. The tree sends to
# rank 2 first, the flat broadcast to rank 1. The rank that is served last keeps few others waiting: a slow rank 3
# delays one other rank at most.
#
# </details>

# %% [markdown]
# ### Scatter and gather
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
guess_8 = predict(
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
print(guess_8.compare(f"{faster}, and rank 0 sends {bytes_sent}"))

# %% [markdown]
# Every part has to leave the root, so no tree can save bytes there: 24 bytes either way. What the tree saves is a
# message, and so half a second of latency at the root. In return some bytes travel twice, 32 in all instead of 24. The
# larger the parts, the less the latency counts, and the less a tree gains. Where the root waits in each `send`, as
# here, it never takes longer. With `isend` the latencies of the direct way overlap, and then the direct way is the
# faster one: 2 s. MPICH, a widely used MPI library, scatters by a tree at every size, by default
# ([scatter_intra_binomial.c](https://github.com/pmodels/mpich/blob/main/src/mpi/coll/scatter/scatter_intra_binomial.c)).
# Here, and in the exercise, we scatter directly. A **gather** is the same backwards.
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
guess_9 = predict(
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
print(guess_9.compare("both the same" if two == library else faster))

# %% [markdown]
# The flat broadcast has one round, and the chain has 63. Both take 63 steps, and the same time. The trees have 6
# rounds each. With two children per rank it takes 10 steps: rank 0 is done after two of them, and could have gone on
# helping. In the library's tree every rank that has the tensor goes on sending to the end. That takes 6 steps, and
# fewer are not possible. In the exercise you write such a tree yourself.
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
# With `isend`, 63 messages leave the root one behind the other, and their latencies overlap: 2.54 ms instead of 3.78
# ms. The tree cannot overlap its six latencies, because each message has to wait for the one before. So there is a
# latency from which the flat broadcast is faster: for this tensor 456 µs. With 1 ms it takes 3.52 ms, and the tree 6.24
# ms.
#
# Steps are a good guide where the bytes count, or where a rank waits in every `send`. Like every model, they leave
# something out. (Our simulated ranks start a message at no cost. Real ones need some time for each, which speaks for
# the tree.)
#
# </details>
#
# ## In real frameworks
#
# The names of this course are those of `torch.distributed`, which programs on large clusters use. There, one group of
# ranks is set up for the whole process, instead of a communicator that is handed to a function.
#
# | here | in torch.distributed |
# |---|---|
# | `comm.rank`, `comm.world_size` | `dist.get_rank()`, `dist.get_world_size()` |
# | `comm.send`, `comm.recv` | `dist.send`, `dist.recv` |
# | `World(4)` and `world.run(f)` | `torchrun --nproc-per-node 4 program.py` |
#
# Our communicator also checks every message. In `torch.distributed` on gloo (torch 2.13), a message that is too long
# for the receiver's tensor aborts the receiving process, and the sender notices nothing.
#
# The four patterns have the same names, too. `torch_distributed` sets up torch's group over our four ranks, so that we
# can compare the results.

# %%
import torch.distributed as dist

from distlib import torch_distributed
from distlib.collectives import reduce


def patterns_of_torch(comm: Communicator) -> dict[str, list[float]]:
    copied = torch.full((4,), 10.0**comm.rank)
    reduced, part = copied.clone(), torch.zeros(2)
    root = comm.rank == 0
    gathered = [torch.zeros(2) for _ in range(4)] if root else None
    with torch_distributed(comm, "gloo"):
        dist.broadcast(copied, src=0)
        dist.reduce(reduced, dst=0)
        dist.scatter(part, list(torch.arange(8.0).split(2)) if root else None, src=0)
        dist.gather(part, gathered, dst=0)
    answer = {"broadcast": copied.tolist(), "scatter": part.tolist()}
    if root:  # on the other ranks, the tensor of reduce may hold anything
        answer |= {"reduce": reduced.tolist(), "gather": torch.cat(gathered).tolist()}
    return answer


# %%
def patterns_of_ours(comm: Communicator) -> dict[str, list[float]]:
    copied = torch.full((4,), 10.0**comm.rank)
    reduced = copied.clone()
    tensor = torch.arange(8.0) if comm.rank == 0 else torch.zeros(8)
    broadcast(comm, copied)
    reduce(comm, reduced)
    scatter(comm, tensor)  # in place: part r of the tensor of rank r
    part = tensor.split(2)[comm.rank].clone()
    gather(comm, tensor)
    answer = {"broadcast": copied.tolist(), "scatter": part.tolist()}
    if comm.rank == 0:
        answer |= {"reduce": reduced.tolist(), "gather": tensor.tolist()}
    return answer


theirs, ours = world.run(patterns_of_torch), world.run(patterns_of_ours)
assert theirs == ours
assert ours[0]["reduce"] == [1111] * 4 and ours[3]["scatter"] == [6, 7]
print("torch.distributed and ours agree.")


# %% tags=["folded"]
# Random numbers on ranks
# A world starts each run from the same seed, and rank r starts from the world's seed plus r. So the ranks draw
# different numbers, and a second run draws the same numbers again: a mistake comes back when you run its cell again.
def draw_one(comm: Communicator) -> float:
    return round(torch.rand(1).item(), 3)


first, second = world.run(draw_one), world.run(draw_one)
assert len(set(first)) == 4 and first == second
with World(4, seed=100) as other:
    assert not set(other.run(draw_one)) & set(first)

# %% [markdown]
# | here, `comm` | in torch.distributed |
# |---|---|
# | `comm.exchange(outgoing, dst, incoming, src)` | `dist.batch_isend_irecv([...])` |
# | `comm.recv(tensor)` from any rank | `dist.recv(tensor)`, not with every backend |
#
# | pattern | in torch.distributed | in the library | in the exercise |
# |---|---|---|---|
# | broadcast | `dist.broadcast(tensor, src)`, in place | in place | in place |
# | reduce | `dist.reduce(tensor, dst)`, in place | in place | in place |
# | scatter | `dist.scatter(part, list_of_parts, src)` | rank r gets part r of its tensor filled | returns the part |
# | gather | `dist.gather(tensor, list_to_fill, dst)` | the root gets part r of rank r's tensor | returns a list |
#
# "The library" is `distlib.collectives`, which this lesson uses. In the exercise you return the result instead.
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
guess_10 = predict(
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
print(guess_10.compare(f"{outcome[4]} with both" if same else apart))

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

# %%
world.close()

# %% [markdown]
# ## In short
#
# - Here `send` and `recv` meet, and whoever comes first waits.
# - A deadlock is a circle of ranks that wait for each other, or a wait for a rank that has returned.
# - Break a circle with an order, with `isend` or `irecv`, or with `exchange`.
# - Where sends are buffered, small messages hide a deadlock that large ones show.
# - Rounds are the longest chain of messages. In a step, each rank sends at most one message.
#
# | pattern, N ranks, a tensor of S bytes | messages | rounds | steps | busiest rank moves |
# |---|---|---|---|---|
# | broadcast or reduce, flat | N − 1 | 1 | N − 1 | (N − 1) S |
# | broadcast or reduce, by the best tree | N − 1 | ≤ ⌈log₂ N⌉ | ⌈log₂ N⌉ | ≤ ⌈log₂ N⌉ S |
# | scatter or gather of S bytes in all, directly | N − 1 | 1 | N − 1 | (N − 1)/N · S |
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
# - L. Lamport, [Time, Clocks, and the Ordering of Events in a Distributed
#   System](https://doi.org/10.1145/359545.359563), CACM 21(7), 1978. Where the rounds come from.
# - E. Coffman, M. Elphick, A. Shoshani, [System Deadlocks](https://doi.org/10.1145/356586.356588), ACM Computing
#   Surveys 3(2), 1971. The four conditions of a deadlock; the last is the circle.
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of Collective Communication Operations in
#   MPICH](https://doi.org/10.1177/1094342005051521), International Journal of High Performance Computing Applications
#   19(1), 2005. Which algorithm for which pattern and size.
