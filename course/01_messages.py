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
# > - draw broadcast, scatter, gather and reduce, and say what a broadcast costs.
# >
# > **Time:** about 55 minutes. **You need:** [Start here](00_start_here.ipynb). No GPU.
#
# GPUs that train together send messages. In data parallel training, messages give all ranks the same weights at the
# start, and in every step the ranks add up their gradients by messages.

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
    broadcast,
    gather,
    reduce,
    scatter,
)
from distlib.draw import before_and_after, play_timeline, predict, timeline, who_waits

world = World(4)

# %% [markdown]
# ## What a message is
#
# A **message** carries the numbers of a tensor from one rank to another. Rank 1 sends a message to rank 3, and the
# **trace** of the run shows what the world knows about this message.


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
# The receiver must already have a tensor for the numbers, and both ranks must agree on the dtype and on how many
# numbers come. The two shapes may differ, because the numbers travel as one flat list.
#
# Here the two ranks do not agree:


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
# The error names both ranks, both dtypes and both lines of your cell. The **tag** is a number that the two sides also
# have to agree on, and 0 unless you choose it. [Lesson 01b](01b_messages_closer.ipynb) shows what tags are for.
#
# ## A message is a meeting
#
# With `send` and `recv`, a message starts to travel only when both ranks have made their call. Both calls return when
# the message has arrived. So the rank that comes first waits for the other rank. Such a meeting is called a
# **rendezvous**.
#
# To see this waiting exactly, we use a `SimulatedWorld`. It runs the same functions with real tensors, but on a clock
# of its own, in **virtual seconds**. Computing takes no virtual time, and `comm.sleep(2)` takes 2 s. A message travels
# over a **link** between two ranks. First comes a fixed delay, the **latency** of the link. Then the bytes travel at
# the link's **bandwidth**, in bytes per second.

# %%
LINK = Link(latency=0.5, bandwidth=16)  # 0.5 s, and 16 bytes per second
slow = SimulatedWorld(4, Cluster.flat(4, LINK))  # every pair of ranks has such a link


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
# Rank 0 calls `send` at once, but rank 1 arrives after 2 s, so rank 0 waits: the hatched bar. Then the message takes
# 1.5 s, and both ranks are done at 3.5 s. Ranks 2 and 3 show the opposite case, in which the receiver comes first and
# waits. The picture does not show how long a receiver waits. The rounds are explained below.
#
# **Whoever comes first waits.**
#
# <details><summary>Where this stops being true</summary>
#
# | where … | then … |
# |---|---|
# | NVIDIA's NCCL, and small messages in MPI | the sender may go on at once ([01b](01b_messages_closer.ipynb)) |
#
# </details>

# %% tags=["folded"]
# Checks of the numbers above
assert done == [3.5, 3.5, 5.5, 5.5]
assert 2 + LINK.latency + 16 / LINK.bandwidth == 3.5

# %% [markdown]
# ## A circle of waiting
#
# Ranks 0 and 1 want to swap their tensors, and so do ranks 2 and 3. Each rank sends first, and then receives.


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
    hang = error

# %%
who_waits(hang, title="A circle of waiting")

# %% [markdown]
# The report says the same in words, from one rank to the next. Rank 0 waits to send to rank 1, and rank 1 waits to send
# to rank 0. Neither comes to its `recv`, so neither message is ever taken. Ranks 2 and 3 wait for each other in the
# same way.
#
# **Ranks that wait for each other in a circle never go on: a deadlock.**
#
# <details><summary>A deadlock without a circle</summary>
#
# | if … | then … |
# |---|---|
# | a rank waits for one that has already returned | the report ends with the returned rank |
# | a rank waits for a message from any rank | the report says "from anyone", and follows one rank |
#
# </details>
#
# Break the circle, and the ranks go on. Here are three ways:
#
# | repair | what changes |
# |---|---|
# | **order** | one of the two ranks receives first |
# | **start without waiting** | `isend` or `irecv` returns at once, and a later `wait()` waits for the message |
# | **exchange** | one call sends and receives, and the two messages travel at the same time |


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
    comm.exchange(mine, partner, theirs, partner)  # mine to, theirs from the partner
    return theirs[0].item()


for repair in (in_order, with_irecv, with_isend, with_exchange):
    assert world.run(repair) == slow.run(repair) == [1, 0, 3, 2]

# %% [markdown]
# All four functions swap the tensors. Do they also take the same time?

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
# In the swap by order, rank 1 sends only after it has received, so one message travels after the other. In the other
# repairs both messages travel at once. **Use `exchange` where a rank sends and receives at the same time.**
#
# Here is the repair by order. Press **Play**, or click into the picture: space plays and pauses, and the arrow keys
# step back and forward. Point at an arrow to read how large the message is and which line sent it.

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
assert {0, 1} <= set(hang.ranks)

# %% [markdown]
# **Try it: make it deadlock.** Change the cell below so that the ranks wait forever again, with as small a change as
# you can. Is there a change after which ranks 2 and 3 still swap, and only ranks 0 and 1 are stuck?


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
# ## How to count: rounds, steps, seconds
#
# Why is a program slow? Its messages may wait for each other, one rank may have too many of them, or the network may be
# slow. So the course counts three things:
#
# | number | what it counts | depends on |
# |---|---|---|
# | **rounds** | the longest chain of messages, each sent after its sender had received the one before | the program |
# | **steps** | the turns that the messages need if each rank can send one and receive one per turn | the program |
# | **seconds** | the time on the clock, or on the virtual clock | the program and the network |
#
# For example, a tensor of rank 0 has to reach ranks 1, 2 and 3. Rank 0 can send it to each of them, or the ranks can
# pass it on.


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
    # steps: the seconds where every message takes exactly 1 s
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
# In `to_each` rank 0 receives nothing before it sends, so all three messages are in round 1. But rank 0 sends them one
# at a time, which takes three steps. In `pass_on` each message waits for the one before, so there are three rounds
# and three steps. In the swap by `exchange` all messages travel in one step.
#
# **Steps are never fewer than rounds. A busy rank can add steps.**
#
# <details><summary>Exactly</summary>
#
# A message is in round 1 if its sender had received nothing before. Otherwise its round is one more than the highest
# round among the messages that its sender had received. After `irecv`, a message counts as received when `wait()`
# returns. The number of rounds of a run is the highest round of a message.
#
# The steps of a run are the seconds that it takes if every message takes one second, nothing else takes any time, and a
# rank sends one message and receives one at a time.
#
# | if … | then … |
# |---|---|
# | a rank receives from any rank | the rounds can depend on who comes first: [01b](01b_messages_closer.ipynb) |
# | sends do not wait | the same rounds can take fewer steps |
# | ranks 0 to 2 send to the next rank before they receive, rank 3 only receives | 1 round, 3 steps, no busy rank |
# | the text says "training step" | it means a step of the optimizer |
#
# </details>

# %% tags=["folded"]
# Checks of the numbers above
assert list(counts.values()) == [(1, 3, 4.5), (3, 3, 4.5), (1, 1, 1.5)]
assert count(in_order) == (2, 2, 3.0)
assert count(with_irecv) == count(with_isend) == (1, 1, 1.5)

# %% [markdown]
# ## Four patterns
#
# Four patterns move data between one rank, the **root**, and all others. The library has all four. Run them, and look
# at what each pattern takes and what it delivers.


# %% tags=["folded"]
# Runs each pattern, and keeps what the ranks have before it and after it
def one_pattern(comm: Communicator, name: str) -> tuple[list[float], list[float]]:
    is_root, own = comm.rank == 0, torch.tensor([comm.rank + 1.0])
    all_four = torch.arange(1.0, 5) if is_root else torch.zeros(4)
    before = all_four.tolist() if name == "scatter" else own.tolist()
    if name == "broadcast":
        broadcast(comm, own)
    elif name == "reduce":
        reduce(comm, own)
    elif name == "scatter":
        scatter(comm, all_four)  # in place: part r on rank r
        own = all_four[comm.rank : comm.rank + 1]
    else:
        all_four[comm.rank] = own
        gather(comm, all_four)  # in place: on the root
        own = all_four
    ends_on_root = name in ("reduce", "gather") and not is_root
    starts_on_root = name in ("broadcast", "scatter") and not is_root
    return [] if starts_on_root else before, [] if ends_on_root else own.tolist()


panels = {}
for name in ("broadcast", "scatter", "gather", "reduce"):
    before, after = zip(*world.run(one_pattern, name), strict=True)
    panels[name] = before, after

# %%
before_and_after(panels, title="Four patterns between rank 0 and all ranks")

# %% tags=["folded"]
# Checks of the numbers above
assert panels["broadcast"] == (([1], [], [], []), ([1],) * 4)
assert panels["scatter"] == (([1, 2, 3, 4], [], [], []), ([1], [2], [3], [4]))
assert panels["gather"] == (([1], [2], [3], [4]), ([1, 2, 3, 4], [], [], []))
assert panels["reduce"] == (([1], [2], [3], [4]), ([10], [], [], []))

# %% [markdown]
# A training program can use all four:
#
# | pattern | what it does | in a training run |
# |---|---|---|
# | **broadcast** | copies one tensor to all ranks | all ranks start from the same weights |
# | **scatter** | gives each rank its part | each rank gets its share of a batch |
# | **gather** | collects one part from each rank | predictions come together |
# | **reduce** | combines one tensor from each rank, mostly by adding | losses and gradients are added up |
#
# Each pattern can be done in several ways, at different costs.
#
# ## Many hands make a broadcast fast
#
# In a flat broadcast, the root sends the tensor to all others. But every rank that has the tensor can help. Draw a line
# from each rank to the ranks that it sends to, and you get a **tree**. Here is a tree for four ranks. In the exercise
# you write the tree for any number of ranks.


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
guess_5 = predict(
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
is_faster = seconds["tree_of_four"] < seconds["flat_broadcast"]
speed = "faster" if is_faster == (more == "tree") else "slower"
print(guess_5.compare(f"the {more} has more rounds and is {speed}"))

# %%
timeline(traces["flat_broadcast"], title="Flat: the root sends to each")

# %%
timeline(traces["tree_of_four"], title="A tree: rank 2 helps")

# %% [markdown]
# The tree has more rounds, because rank 2 has to wait before it can help. And the tree is faster, because two ranks
# send at the same time in its second step. On more ranks the tree saves more time, because in every step each rank that
# has the tensor can give it to one more rank. Play the library's broadcast on 8 ranks, and count.

# %%
eight = SimulatedWorld(8, Cluster.flat(8, LINK))
eight.run(run_pattern, broadcast, 4)
arrivals = [message.end for message in eight.trace]
holders = [1 + sum(end <= 1.5 * step for end in arrivals) for step in range(4)]
print("ranks that have the tensor:", holders)
play_timeline(eight.trace, title="Broadcast by a tree, 8 ranks", by="time")

# %% [markdown]
# The number of ranks that have the tensor doubles in every step: 1, 2, 4, 8. **Among N ranks, the best tree broadcasts
# in ⌈log₂ N⌉ steps, rounded up, and a flat broadcast needs N − 1.** Fewer than ⌈log₂ N⌉ steps are impossible, because a
# rank can hand the tensor to only one other rank in a step.
#
# A reduce runs the same tree backwards. Every rank adds what it receives to its own tensor, and all ranks but the root
# send their sum on.

# %% tags=["folded"]
# Checks of the numbers above
assert rounds == {"flat_broadcast": 1, "tree_of_four": 2}
assert seconds == {"flat_broadcast": 3 * 1.5, "tree_of_four": 2 * 1.5}
assert [sum(trace.messages_sent) for trace in traces.values()] == [3, 3]
assert holders == [1, 2, 4, 8] and eight.elapsed == 3 * 1.5

# %% [markdown]
# **Try it: make rank 2 slow.** Set `SLOW_RANK` to 2: then rank 2 does other work for 3 s before it takes part. Which
# ranks have to wait for rank 2 in the flat broadcast, and which in the tree? Guess, then run the cell. Then make
# another rank slow. Which slow rank delays the flat broadcast longer than the tree?

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
assert times[3, "flat_broadcast"] == [4.5, 1.5, 3, 4.5]
assert times[3, "tree_of_four"] == [3, 3, 4.5, 4.5]

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# The root has to wait for a slow rank before it can send to the next one. The tree begins with rank 2, so a slow rank 2
# delays everybody in the tree, but only ranks 0 and 3 in the flat broadcast. The flat broadcast begins with rank 1, so
# a slow rank 1 delays everybody there, but only rank 0 in the tree. A slow rank 3 delays rank 2 in the tree, but nobody
# in the flat broadcast, which needs it only after 3 s.
#
# </details>

# %% [markdown]
# ## In real frameworks
#
# Most names of this course are those of `torch.distributed`, which many programs on large clusters use. Here your
# function gets a communicator. With torch, each process sets up a group of all ranks once, and calls such as
# `dist.send` use this group unless they name another.
#
# | here | in torch.distributed |
# |---|---|
# | `comm.rank`, `comm.world_size` | `dist.get_rank()`, `dist.get_world_size()` |
# | `comm.send`, `comm.recv` | `dist.send`, `dist.recv` |
# | `comm.exchange(outgoing, dst, incoming, src)` | `dist.batch_isend_irecv([...])` |
# | `World(4)` and `world.run(f)` | `torchrun --nproc-per-node 4 program.py` |
#
# Our communicator also checks every message. With gloo, torch's library for CPUs, a message that is too long for the
# receiver's tensor aborts the receiving process. The sender of a short message notices nothing.
#
# `torch_distributed` sets up torch's group over our four ranks. So we can compare the four patterns of torch with ours.

# %%
import torch.distributed as dist

from distlib import torch_distributed


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
    scatter(comm, tensor)  # in place: fills part r on rank r
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


# %% [markdown]
# <details><summary>How torch, our library and the exercises hand over a result</summary>
#
# | pattern | in torch.distributed | in the library | in exercises 01 and 01b |
# |---|---|---|---|
# | broadcast | `dist.broadcast(tensor, src)`, in place | in place | in place |
# | reduce | `dist.reduce(tensor, dst)`, in place | in place | in place |
# | scatter | `dist.scatter(part, list_of_parts, src)` | in place: fills part r on rank r | returns the part |
# | gather | `dist.gather(tensor, list_to_fill, dst)` | in place: part r comes from rank r | returns a list |
#
# "The library" is `distlib.collectives`. To receive from any rank, torch has `dist.recv(tensor)`, but not with NCCL.
#
# </details>

# %%
world.close()

# %% [markdown]
# ## In short
#
# - Here `send` and `recv` meet: the rank that comes first waits for the other.
# - Ranks that wait for each other in a circle never go on: a deadlock.
# - Break the circle with an order, with `isend` or `irecv`, or with `exchange`.
# - Among N ranks, the best tree broadcasts in ⌈log₂ N⌉ steps. The root alone needs N − 1.
# - Rounds are the longest chain of messages. Steps also depend on busy ranks, seconds also on the network.
#
# <details><summary>What the four patterns cost</summary>
#
# | pattern, N ranks, a tensor of S bytes | messages | rounds | steps | the busiest rank sends and receives |
# |---|---|---|---|---|
# | broadcast or reduce, flat | N − 1 | 1 | N − 1 | (N − 1) S |
# | broadcast or reduce, by the best tree | N − 1 | ≤ ⌈log₂ N⌉ | ⌈log₂ N⌉ | ≤ ⌈log₂ N⌉ S |
# | scatter or gather, S bytes in total, flat | N − 1 | 1 | N − 1 | about (N − 1)/N · S |
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/01_messages/01_messages.ipynb) you pass tensors around a circle without a deadlock,
# and broadcast and reduce by a tree. After that comes [All-reduce](02_all_reduce.ipynb): a reduce whose result every
# rank gets.
#
# [Lesson 01b](01b_messages_closer.ipynb) is a side road: tags, 64 ranks, and sends that do not wait. In [its
# exercise](../exercises/01b_messages_closer/01b_messages_closer.ipynb) you write scatter and gather.
#
# ## Further reading
#
# - [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), its functions for messages and patterns.
# - MPI Forum, [MPI: A Message-Passing Interface Standard](https://www.mpi-forum.org/docs/). Chapters 3 and 6:
#   sending modes, tags and the patterns.
# - L. Lamport, [Time, Clocks, and the Ordering of Events in a Distributed
#   System](https://doi.org/10.1145/359545.359563), CACM 21(7), 1978. Where the rounds come from.
# - E. Coffman, M. Elphick, A. Shoshani, [System Deadlocks](https://doi.org/10.1145/356586.356588), ACM Computing
#   Surveys 3(2), 1971. The four conditions of a deadlock; the last is the circle.
