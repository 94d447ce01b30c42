# %% [markdown]
# # Start here
#
# After this lesson you will be able to
#
# - say why training needs more than one machine, in gigabytes and in seconds,
# - run one function on four processes at the same time, from a cell of this notebook,
# - send a tensor from one process to another, and look at a picture of it,
# - read the error messages of this course.
#
# **Time:** about 80 minutes. **You need:** Python, and to have used torch tensors before. No GPU.
#
# Go from top to bottom and run each cell with Shift+Enter. Three things come back in every lesson:
#
# - **A prediction.** Before some runs you are asked what will come out. Commit to an answer. Nobody grades it, and a
#   wrong guess is where you learn most.
# - **Try it.** You change a line of the cell below, run it again, and see what follows. You can't break anything. One
#   way to do it is folded away under the cell: click on the three dots to open it. It does not run on the way. To see
#   what follows from it, run it twice in a row.
# - **Checks.** A line that begins with `assert` holds a number of the text. If the number were wrong, the cell would
#   stop there. Most checks are folded away, too.

# %%
import math
import os
import sys

import psutil
import torch
from torch import nn

from distlib import Communicator, DeadlockError, MessageMismatch, RankError, World
from distlib.draw import predict, timeline

# %% [markdown]
# ## Why train on more than one machine?
#
# There are two reasons: memory and time.
#
# ### Memory
#
# Here is a small model. Its parameters are 4 MB of float32 numbers. We train it for one training step with the
# optimizer Adam. Which tensors as large as the model are then in memory? (Leave out the activations of the forward
# pass. They come on top.)

# %%
guess_1 = predict(
    "The parameters take 4 MB. How much does all of it take?",
    choices=["4 MB", "8 MB", "12 MB", "16 MB"],
)

# %%
model = nn.Linear(1000, 1000)
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(8, 1000)).square().mean().backward()
optimizer.step()

parameters, adam = list(model.parameters()), optimizer.state
kept = {
    "parameters": parameters,
    "gradients": [p.grad for p in parameters],
    "Adam: average gradient": [adam[p]["exp_avg"] for p in parameters],
    "Adam: average of squares": [adam[p]["exp_avg_sq"] for p in parameters],
}


# %%
def show_memory(kept: dict[str, list[torch.Tensor]]) -> float:
    """Print the bytes per parameter of each entry. Returns their sum."""
    count = sum(p.numel() for p in kept["parameters"])
    total = 0.0
    for name, tensors in kept.items():
        amount = sum(t.nbytes for t in tensors) / count
        total += amount
        print(f"{name:25} {amount:4.0f} bytes per parameter")
    print(f"{'together':25} {total:4.0f} bytes per parameter")
    return total


bytes_per_parameter = show_memory(kept)
megabytes = sum(t.nbytes for tensors in kept.values() for t in tensors) / 1e6
print(guess_1.compare(f"{megabytes:.0f} MB"))

# %% [markdown]
# Four times the parameters: 16 bytes for each of them. Large models are trained in **mixed precision**: the model
# computes with numbers of 2 bytes. Does that halve the memory? Numbers of 2 bytes are too coarse to add Adam's small
# updates to: in bfloat16, 1 + 0.001 is 1. So the optimizer keeps the parameters once more in float32, and its two
# averages, too.

# %%
model.bfloat16()
model.zero_grad()
exact = [p.detach().float().requires_grad_() for p in parameters]
optimizer = torch.optim.Adam(exact)
images = torch.randn(8, 1000, dtype=torch.bfloat16)
model(images).square().mean().backward()
for copy, p in zip(exact, parameters, strict=True):
    copy.grad = p.grad.float()  # converted for the optimizer ...
optimizer.step()
optimizer.zero_grad()  # ... and thrown away

adam = optimizer.state
mixed = {
    "parameters": parameters,
    "gradients": [p.grad for p in parameters],
    "Adam: float32 parameters": exact,
    "Adam: average gradient": [adam[p]["exp_avg"] for p in exact],
    "Adam: average of squares": [adam[p]["exp_avg_sq"] for p in exact],
}
assert show_memory(mixed) == bytes_per_parameter

# %% [markdown]
# The sum is the same: 2 + 2 + 12 bytes instead of 4 + 4 + 8. (Rajbhandari et al. 2020, section 3.1, counts this way.)
# Mixed precision makes computing faster and the activations smaller, but of these 16 bytes it saves none.
#
# Other optimizers keep less, but the memory always grows with the number of parameters. For 7 billion:

# %%
needed = 7e9 * bytes_per_parameter
print(f"{needed / 1e9:.0f} GB. GPUs of 80 GB to hold it: {math.ceil(needed / 80e9)}")

# %% tags=["folded"]
# Checks of the numbers above
assert bytes_per_parameter == 16 and round(megabytes) == 16
assert [t.dtype for t in parameters] == [torch.bfloat16] * 2
assert torch.tensor(1.0, dtype=torch.bfloat16) + 0.001 == 1
assert needed == 112e9 and math.ceil(needed / 80e9) == 2

# %% [markdown]
# ### Time
#
# A training step of a transformer computes about 6 floating-point operations per parameter and token: 2 in the forward
# pass and 4 in the backward pass (Kaplan et al. 2020, section 2.1). We assume a trillion tokens of text, and a GPU that
# sustains 4·10¹⁴ operations per second.

# %%
operations = 6 * 7e9 * 1e12
days_on_one = operations / 4e14 / 86_400
print(f"one GPU: {days_on_one:,.0f} days, or {days_on_one / 365:.1f} years")
print(f"1,000 GPUs that share the work perfectly: {days_on_one / 1000:.1f} days")

# %% [markdown]
# Years on one GPU, or about a day on a thousand. But only if they share the work perfectly, and they never do. They
# must talk.
#
# In the simplest kind of distributed training, every GPU computes gradients on its own share of the batch. In every
# training step the gradients of all GPUs must then be combined. Let a batch have 4 million tokens, as that of Llama
# 2 has. A thousand GPUs compute its gradients in less than half a second. In float32, the gradients of our model take
# 28 GB.

# %%
guess_2 = predict(
    "How long does a link of 10 Gbit/s take to carry all gradients, once?",
    choices=["20 ms", "200 ms", "2 s", "20 s"],
)

# %%
computing = 6 * 7e9 * 4e6 / (1000 * 4e14)
print(f"computing: {computing:.2f} s in every training step")
seconds = {gigabits: 7e9 * 4 / (gigabits * 1e9 / 8) for gigabits in (10, 100, 400)}
for gigabits, taken in seconds.items():
    print(f"a link of {gigabits:3} Gbit/s: {taken:5.2f} s in every training step")
print(guess_2.compare(f"{round(seconds[10], -1):.0f} s"))

# %% tags=["folded"]
# Checks of the numbers above
assert 3 < days_on_one / 365 < 4 and 1 < days_on_one / 1000 < 2
assert 0.4 < computing < 0.5
assert round(7e9 * 4 / 1e9) == 28
assert min(seconds.values()) > computing
assert math.isclose(seconds[400] / 2, 0.28) and seconds[400] / 2 < computing

# %% [markdown]
# Talking takes longer than computing, even over the fastest of these links. (Gradients of 2 bytes take half the time:
# 0.28 s over 400 Gbit/s. But to carry them once is not enough: every GPU needs the sum, and for that nearly everything
# travels twice, as [lesson 02](02_all_reduce.ipynb) shows.) That is the subject of this course. Who
# sends what to whom, and when, decides how much faster a thousand GPUs are than one. You will write these programs
# yourself, count every byte they move, and watch them run.
#
# ## Your machine
#
# The machine in front of you is enough for that. What does it have?

# %%
print(f"processor cores: {os.cpu_count()}")
print(f"memory:          {psutil.virtual_memory().total / 1e9:.0f} GB")
print(f"GPUs:            {torch.cuda.device_count()}")

# %% [markdown]
# A **rank** is one process of a distributed program. It has its own memory, and a number: 0, 1, 2, and so on. The
# number of ranks is the **world size**. On a cluster, a rank usually has a GPU of its own. Here a rank is an ordinary
# process on this machine. You may have more ranks than cores. Then they take turns, and the program computes exactly
# the same.
#
# ## Your first world
#
# A `World` is a group of ranks that wait for something to do.

# %%
world = World(4)

# %% [markdown]
# A rank function is an ordinary function. Its first argument, `comm`, is the rank's **communicator**: it knows which
# rank this is, and it can talk to the others. `world.run` calls the function on every rank, all at the same time, and
# collects what they return in a list.


# %%
def hello(comm: Communicator) -> int:
    print(f"Hello. I am one of {comm.world_size}, in process number {os.getpid()}.")
    return comm.rank * 10


results = world.run(hello)
print("returned:", results, "and this notebook is process", os.getpid())
assert results == [0, 10, 20, 30]

# %% [markdown]
# What a rank prints appears here, marked with its number. The lines come in any order: each rank prints when it gets
# there. Run the cell again, and the order may change; the process numbers do not, because the ranks stay for the next
# run. The list of results is always in order of rank.
#
# Your notebook is a process, too, but it is not one of the ranks.
#
# **Try it.** Make the ranks say hello in order, 0 to 3, every time you run the cell. `comm.sleep(0.5)` lets a rank
# sleep for half a second.


# %%
def hello_in_order(comm: Communicator) -> None:
    # one line is missing here
    print("Hello.")


_ = world.run(hello_in_order)


# %% tags=["folded"]
# One way to do it
def hello_in_order(comm: Communicator) -> None:
    comm.sleep(0.2 * comm.rank)
    print("Hello.")


_ = world.run(hello_in_order)

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# This only makes it likely. A machine that is busy can hold a rank up for longer than you let the others sleep. To make
# it certain, a rank has to *wait for a message* from the one before. You will soon be able to write that.
#
# </details>
#
# **Try it.** More ranks than your machine has cores: ask for 8, or 16. Does it still work? The first start takes a
# moment.

# %%
more = World(2)
processes = more.run(lambda comm: os.getpid())
print(f"{len(set(processes))} ranks on {os.cpu_count()} cores")
more.close()

# %% tags=["folded"]
# One way to do it
with World(8) as more:
    assert len(set(more.run(lambda comm: os.getpid()))) == 8

# %% [markdown]
# ## Nothing is shared
#
# Processes do not share memory. This is the most important fact in this lesson. A rank has its own copies of your
# functions, of the variables they use, and of the arguments that you give them. Here every rank adds something to the
# tensor that you hand over.

# %%
data = torch.zeros(3)


def add_my_number(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    tensor += comm.rank + 1
    return tensor


# %%
guess_3 = predict(
    "The ranks add 1, 2, 3 and 4. What does data[0] show afterwards, in the notebook?",
    choices=["0", "1", "4", "10"],
)

# %%
results = world.run(add_my_number, data)
for rank, tensor in enumerate(results):
    print(f"rank {rank} returned {tensor.tolist()}")
print(f"here, data is {data.tolist()}")
print(guess_3.compare(f"{data[0].item():g}"))

# %% [markdown]
# Every rank added to its own copy of zeros. Nothing was added up, and the tensor in this notebook has not changed.
#
# With global variables it is the same. Each run begins with what the notebook knows at that moment: your variables,
# your modules, your settings. What a rank changes, it changes for itself. If a result should survive, return it. And a
# rank has no keyboard: to look into one, print.

# %% tags=["folded"]
# Checks of the numbers above
assert data.tolist() == [0, 0, 0] and [t[0].item() for t in results] == [1, 2, 3, 4]
counter = 0


def count_up(comm: Communicator) -> int:
    global counter
    counter += 1
    return counter


assert world.run(count_up) == [1, 1, 1, 1] == world.run(count_up) and counter == 0

# %% [markdown]
# ## Your first message
#
# So the ranks know nothing of each other until one of them sends a message. `comm.send(tensor, dst)` sends a tensor to
# rank `dst`. `comm.recv(tensor, src)` waits for a message from rank `src` and writes it *into* the tensor that you
# give. Both sides must take part.


# %%
def first_message(comm: Communicator) -> torch.Tensor:
    tensor = torch.full((4,), float(comm.rank))  # four times the rank's own number
    if comm.rank == 0:
        tensor += 7
        comm.send(tensor, dst=1)
        tensor += 100
    if comm.rank == 1:
        comm.recv(tensor, src=0)
    return tensor


# %%
guess_4 = predict(
    "What does the tensor of rank 1 hold at the end?",
    choices=["1", "7", "8", "107"],
)

# %%
results = world.run(first_message)
for rank, tensor in enumerate(results):
    print(f"rank {rank}: {tensor.tolist()}")
print(guess_4.compare(f"{results[1][0].item():g}"))

# %% [markdown]
# All ranks ran the same function, and each took its own way through the `if`. Rank 1 received a copy of what rank 0
# had *when it sent*: 7. It replaced rank 1's own numbers. What rank 0 added later stayed with rank 0. Ranks 2 and 3 had
# nothing to do.
#
# `world.trace` holds every message of the last run: who sent it, to whom, how large it was, when, and which line of
# yours sent it.

# %%
world.trace

# %% tags=["folded"]
# Checks of the numbers above
assert [tensor[0].item() for tensor in results] == [107, 7, 2, 3]
assert world.trace.bytes_sent == [4 * 4, 0, 0, 0]  # four float32 numbers

# %% [markdown]
# **Try it.** Rank 2 should have the sevens, too. Let rank 1 pass them on. Then look at the trace.


# %%
def two_messages(comm: Communicator) -> list[float]:
    tensor = torch.full((4,), float(comm.rank))
    if comm.rank == 0:
        comm.send(torch.full((4,), 7.0), dst=1)
    if comm.rank == 1:
        comm.recv(tensor, src=0)
    return tensor.tolist()


print(world.run(two_messages))
world.trace


# %% tags=["folded"]
# One way to do it
def two_messages(comm: Communicator) -> list[float]:
    tensor = torch.full((4,), float(comm.rank))
    if comm.rank == 0:
        comm.send(torch.full((4,), 7.0), dst=1)
    if comm.rank == 1:
        comm.recv(tensor, src=0)
        comm.send(tensor, dst=2)
    if comm.rank == 2:
        comm.recv(tensor, src=1)
    return tensor.tolist()


assert world.run(two_messages) == [[0] * 4, [7] * 4, [7] * 4, [3] * 4]
world.trace

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# With two messages, the trace says "2 rounds": the second message could be sent only after the first one had been
# received. [Lesson 01](01_messages.ipynb) defines rounds, and what else there is to count.
#
# </details>
#
# ## A picture of a run
#
# Now a message that visits all ranks. Rank 0 starts it. The others receive it, add their own number and pass it on.
# Before that, each rank has some other work to do, and the higher its number, the more. `comm.sleep` stands for this
# work.


# %%
def pass_it_on(comm: Communicator) -> float:
    total = torch.zeros(1)
    comm.sleep(0.1 * comm.rank)  # 0, 100, 200 and 300 ms of work
    if comm.rank > 0:
        comm.recv(total, src=comm.rank - 1)
    total += comm.rank
    if comm.rank < comm.world_size - 1:
        comm.send(total, dst=comm.rank + 1)
    return total.item()


# %%
guess_5 = predict(
    "Each message takes about a millisecond. How long does the run take?",
    choices=["about 100 ms", "about 300 ms", "about 600 ms"],
)

# %%
traces = []
for _ in range(3):
    results = world.run(pass_it_on)
    traces.append(world.trace)
# A busy machine only adds to a time, so take the shortest.
shortest = min(traces, key=lambda trace: trace.elapsed)
print(results)
elapsed = shortest.elapsed
nearest = min((100, 300, 600), key=lambda ms: abs(ms - 1e3 * elapsed))
print(f"{1e3 * elapsed:.0f} ms.", guess_5.compare(f"about {nearest} ms"))

# %%
timeline(shortest)

# %% tags=["folded"]
# Checks of the numbers above
assert results == [0, 1, 3, 6] and elapsed >= 0.3

# %% [markdown]
# The ranks work at the same time, because none of them needs a message for its work. So the run takes as long as the
# slowest of them, and not as long as all together.
#
# Read the picture like a score: each row is a rank, time goes to the right, an arrow is a message. A hatched bar is a
# rank that wants to send while the next one is still at work. `send` returns only when the other side has taken the
# message, so for this long the rank can do nothing else. (How long a rank waits to *receive* is not drawn.)
#
# **Try it.** Turn the work around: give rank 0 the most, 300 ms, and rank 3 none. Where has the waiting gone? (Look at
# the times below the picture, too.)


# %%
def pass_it_on_again(comm: Communicator) -> float:
    total = torch.zeros(1)
    comm.sleep(0.1 * comm.rank)  # change this line
    if comm.rank > 0:
        comm.recv(total, src=comm.rank - 1)
    total += comm.rank
    if comm.rank < comm.world_size - 1:
        comm.send(total, dst=comm.rank + 1)
    return total.item()


world.run(pass_it_on_again)
timeline(world.trace)


# %% tags=["folded"]
# One way to do it
# Ranks 1, 2 and 3 now wait in recv: for 100, 200 and 300 ms.
def most_work_first(comm: Communicator) -> float:
    total = torch.zeros(1)
    comm.sleep(0.1 * (comm.world_size - 1 - comm.rank))
    if comm.rank > 0:
        comm.recv(total, src=comm.rank - 1)
    total += comm.rank
    if comm.rank < comm.world_size - 1:
        comm.send(total, dst=comm.rank + 1)
    return total.item()


assert world.run(most_work_first) == results
assert world.trace.elapsed >= 0.3
timeline(world.trace)

# %% [markdown]
# A large part of this course is about such pictures, and about how to make the waiting disappear.
#
# ## Mistakes, on purpose
#
# You will make these mistakes anyway. Make them now, and read the messages. In this notebook every mistake is caught
# with `try` and `except`, so that the cells below still run. In your own work you leave that out: the cell then stops
# and shows the same message, with your line marked.
#
# ### A swap
#
# Ranks 0 and 1 want to swap their numbers. Both receive first, then both send.


# %%
def swap(comm: Communicator) -> float:
    mine, theirs = torch.tensor([float(comm.rank)]), torch.zeros(1)
    other = 1 - comm.rank
    if comm.rank < 2:
        comm.recv(theirs, src=other)
        comm.send(mine, dst=other)
    return theirs.item()


# %%
guess_6 = predict(
    "What happens?",
    choices=["they swap", "only one of them gets a number", "both wait for ever"],
)

# %%
try:
    world.run(swap)
    print(guess_6.compare("they swap"))
except DeadlockError as error:
    print(error, "\n")
    print(guess_6.compare("both wait for ever"))
    assert sorted(error.ranks) == [0, 1]

# %% [markdown]
# This is a **deadlock**. Rank 0 waits for a message from rank 1, which rank 1 would send after it has received one
# from rank 0. Neither will ever go on. The message names the ranks, what each of them waits for, and the line. "Cell 7,
# line 3" would be line 3 of the cell with the number [7] on its left. (The menu View shows line numbers.)
#
# Most frameworks say nothing for a long time in this case. They hang, and you wait with them, not knowing whether your
# program is slow or stuck.
#
# **Try it.** There are two ways out. Rank 0 could send first while rank 1 receives first. Or both call
# `comm.exchange(mine, dst=other, incoming=theirs, src=other)`, which sends and receives at the same time. Do it with
# `exchange`.


# %%
def swap_again(comm: Communicator) -> float:
    mine, theirs = torch.tensor([float(comm.rank)]), torch.zeros(1)
    other = 1 - comm.rank
    if comm.rank < 2:
        comm.recv(theirs, src=other)  # replace these two lines
        comm.send(mine, dst=other)
    return theirs.item()


try:
    print("ranks 0 and 1 now hold", world.run(swap_again)[:2])
except DeadlockError:
    print("still a deadlock")


# %% tags=["folded"]
# One way to do it
def swap_with_exchange(comm: Communicator) -> float:
    mine, theirs = torch.tensor([float(comm.rank)]), torch.zeros(1)
    other = 1 - comm.rank
    if comm.rank < 2:
        comm.exchange(mine, dst=other, incoming=theirs, src=other)
    return theirs.item()


print("ranks 0 and 1 now hold", world.run(swap_with_exchange)[:2])
assert world.run(swap_with_exchange)[:2] == [1, 0]

# %% [markdown]
# `exchange` is the one to remember. And the world still works after the mistake, without being made again.
#
# ### The sizes do not fit
#
# Rank 0 sends four numbers. Rank 1 has room for two.


# %%
def too_small(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.send(torch.ones(4), dst=1)
    if comm.rank == 1:
        comm.recv(torch.zeros(2), src=0)


try:
    world.run(too_small)
except MessageMismatch as error:
    print(error)

# %% [markdown]
# ### One rank fails
#
# An ordinary Python error, but on one rank only. The message names the rank and the line.


# %%
def fails_on_two(comm: Communicator) -> float:
    shares = [1, 2, 0, 4]
    return 12 / shares[comm.rank]


try:
    world.run(fails_on_two)
except RankError as error:
    print(error)
    assert error.ranks == [2] and "ZeroDivisionError" in error.stack

# %% [markdown]
# That is all you need most of the time. For the day you want more, `error.stack` has the complete stack of the rank.
# Without `try`, find the error in `world.last_error`.
#
# **Try it.** Make *another* rank fail, with an error of your own: a name that does not exist, a list that is too short.
# What if all four fail? And what if rank 1 fails while rank 0 waits for a message from it?


# %%
def fails(comm: Communicator) -> None:
    if comm.rank == 2:
        raise ValueError("on purpose")


try:
    world.run(fails)
except RankError as error:
    print(error)


# %% tags=["folded"]
# One way to do it
def fails_before_sending(comm: Communicator) -> None:
    tensor = torch.zeros(1)
    if comm.rank == 0:
        comm.recv(tensor, src=1)
    if comm.rank == 1:
        comm.send(tensor / undefined, dst=0)  # noqa: F821


try:
    world.run(fails_before_sending)
except RankError as error:
    print(error)
    assert error.ranks == [1] and "NameError" in str(error)


def all_fail(comm: Communicator) -> None:
    raise ValueError("on purpose")


try:
    world.run(all_fail)
except RankError as error:
    print(error)
    assert error.ranks == [0, 1, 2, 3]

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# If rank 1 fails while rank 0 waits for it, the message names rank 1. Rank 0 has made no mistake. If all four fail in
# the same way, one line names them all.
#
# </details>
#
# ### It never ends
#
# A loop without an end keeps the cell running. Press the stop button (■) in the toolbar, or the key I twice. The ranks
# stop too, and the world can be used again. You can also set a limit beforehand, in seconds.


# %%
def never_ends(comm: Communicator) -> None:
    while comm.rank == 3:
        pass


try:
    world.run(never_ends, timeout=1)
except TimeoutError as error:
    print(error)

assert world.run(add_my_number, data)[3].tolist() == [4, 4, 4]  # the world works again

# %% [markdown]
# ## Chance that repeats itself
#
# Every rank draws a random number. Then we run it again.


# %%
def draw_one(comm: Communicator) -> float:
    return round(torch.rand(1).item(), 3)


# %%
guess_7 = predict(
    "Do the ranks draw the same number, and do the two runs?",
    choices=[
        "same on all ranks, same in both runs",
        "different on each rank, same in both runs",
        "different on each rank, different in both runs",
    ],
)

# %%
first, second = world.run(draw_one), world.run(draw_one)
print(first, second)
ranks = "different on each rank" if len(set(first)) == 4 else "same on all ranks"
runs = "same in both runs" if first == second else "different in both runs"
print(guess_7.compare(f"{ranks}, {runs}"))

# %% tags=["folded"]
# Checks of the numbers above
assert len(set(first)) == 4 and first == second
with World(4, seed=100) as other:
    assert not set(other.run(draw_one)) & set(first)

# %% [markdown]
# A world starts each run from the same seed, and gives each rank a sequence of its own. So a mistake comes back when
# you run the cell again. (Rank r starts from the world's seed plus r.) `World(4, seed=100)` draws other numbers.
#
# ## In real frameworks
#
# The names of this course are those of `torch.distributed`, which programs on large clusters use.
#
# | here | in torch.distributed |
# |---|---|
# | `comm.rank`, `comm.world_size` | `dist.get_rank()`, `dist.get_world_size()` |
# | `comm.send`, `comm.recv` | `dist.send`, `dist.recv` |
# | `World(4)` and `world.run(f)` | `torchrun --nproc-per-node 4 program.py` |
#
# Two things differ. Our communicator is handed to the function; there, one group of ranks is set up for the whole
# process. And ours checks every message: in `torch.distributed` on gloo (torch 2.13), the size mismatch from above
# aborts the receiving process, and the sender notices nothing.
#
# `torch_distributed` sets torch's group up over our ranks, so that we can compare. You need not read this cell closely.

# %%
import torch.distributed as dist

from distlib import torch_distributed


def first_message_in_torch(comm: Communicator) -> torch.Tensor:
    tensor = torch.full((4,), float(comm.rank))
    with torch_distributed(comm, "gloo"):
        if dist.get_rank() == 0:
            tensor += 7
            dist.send(tensor, dst=1)
            tensor += 100
        if dist.get_rank() == 1:
            dist.recv(tensor, src=0)
    return tensor


theirs, ours = world.run(first_message_in_torch), world.run(first_message)
assert all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))
print("torch.distributed and our communicator agree on every rank.")

# %% [markdown]
# ## When something is wrong
#
# `NameError: name 'world' is not defined` means that a cell further up has not been run. Choose "Run All Above
# Selected Cell" in the menu Run.
#
# If cells fail in stranger ways, the course has a doctor. It checks Python, torch, whether ranks start, your GPUs and
# this notebook's kernel, and says what to do about each problem. Open a terminal (menu File, New, Terminal), and type
# `distlib doctor`. If the terminal does not find `distlib`, paste the line that this cell prints.

# %%
print(f'"{sys.executable}" -m distlib.cli doctor')

# %% [markdown]
# The notebooks that you work in are your own copies, in the course's folder `work`. So you can change whatever you
# like. `distlib update` brings a newer version of the course: its text is new, and what you have written stays. To
# begin a notebook again, rename yours and start the course once more.
#
# A world ends with its notebook. You can end it earlier, and get the memory of its ranks back.

# %%
world.close()

# %% [markdown]
# ## What comes next
#
# This is the whole way. Each lesson ends with a link to its exercise, and the minutes of both stand here. To see where
# you are, what passes and what comes next, type `distlib progress` in a terminal. The file `my_course.md`, in the top
# folder of the file browser, shows the same. At the end, `distlib report` makes a page of all that you wrote, to show
# to others.
#
# | | lesson | what it gives you | minutes | exercise |
# |---|---|---|---:|---:|
# | 00 | Start here | ranks, a world, a message, and the words below | 80 | |
# | 01 | [Messages](01_messages.ipynb) | why programs hang, and how data gets from one rank to all | 110 | 75 |
# | 02 | [All-reduce](02_all_reduce.ipynb) | the ring that adds up gradients, and what it costs | 90 | 90 |
# | 03 | [Trees and grids](03_trees_and_grids.ipynb) | other all-reduces, and which one suits which network | 75 | 210 |
# | 03b | [Two trees, many nodes](03b_networks.ipynb), optional | two trees at once, slow links, 4,096 ranks | 65 | |
# | 04 | [Data parallel](04_data_parallel.ipynb) | one model on several devices; why the first idea is slow | 55 | 90 |
# | 05 | [DistributedDataParallel](05_ddp.ipynb) | gradients that travel while the ranks still compute | 130 | 140 |
# | 06 | [Large batches](06_large_batches.ipynb) | how many workers still help, and their learning rate | 130 | 75 |
# | 07 | [Parameter servers](07_parameter_server.ipynb) | training that need not wait for slow ranks | 130 | 100 |
# | 07b | [Servers that fail](07b_servers_that_fail.ipynb), optional | workers and servers that die | 80 | |
# | 08 | [Decentralized](08_decentralized.ipynb) | gossip: averages without a center | 130 | 90 |
# | 09 | [Pipeline](09_pipeline.ipynb) | a model cut into groups of layers, on different ranks | 125 | 105 |
# | 10 | [Tensor parallelism](10_tensor_parallel.ipynb) | one layer on several ranks | 125 | 140 |
# | 10b | [A whole transformer](10b_whole_transformer.ipynb), optional | memory, KV heads, links | 85 | |
# | 11 | [ZeRO and FSDP](11_zero.ipynb) | the 16 bytes per parameter, cut into shards | 130 | 170 |
# | 11b | [Price a run](11b_price_a_run.ipynb), optional | torch's own program on GPUs that you don't have | 25 | |
# | 12 | [Hybrid](12_hybrid.ipynb) | all of it together, and how to choose | 115 | 200 |
# | 12b | [Long sequences, experts](12b_long_and_sparse.ipynb), optional | cut sequences, routed tokens | 105 | 75 |
# | 13 | [TensorFlow](13_tensorflow.ipynb) | the same strategies there, and what they send | 120 | 90 |
# | 13b | [When TensorFlow fails](13b_tensorflow_failures.ipynb), optional | what a killed process costs | 65 | |
# | 14 | [JAX](14_jax.ipynb) | the same strategies there, and how to read what a compiler sends | 100 | 120 |
# | 14b | [JAX in use](14b_jax_in_use.ipynb), optional | several processes, memory against computation | 60 | |
# | 15 | [Frameworks](15_frameworks.ipynb) | your code in Lightning, Accelerate, DeepSpeed, Ray | 80 | 90 |
# | 16 | [Environments](16_environments.ipynb) | torchrun, Slurm, and machines that fail | 95 | 90 |
# | 17 | [Hang clinic](17_hang_clinic.ipynb) | broken programs: find the mistake and mend it | 65 | 120 |
# | 18 | [From here to GPUs](18_gpus.ipynb), optional | timing, bandwidth and profiling, with and without a GPU | 60 | |
# | 19 | [Capstone](19_capstone.ipynb) | a small language model, trained in every way | 75 | 210 |
# | | together: 69 hours | without the optional ones | 1,960 | 2,205 |
# | | optional: 10 hours more | | 545 | 75 |
#
# ## Glossary
#
# Come back here when a word is unclear. The words stand where they are first used.
#
# In this lesson:
#
# - **rank**: one process of a distributed program, and its number. Four ranks are rank 0 to rank 3.
# - **world size**: how many ranks there are. In `World(4)` it is 4.
# - **communicator**: the object by which a rank talks to the others. `comm.send(tensor, dst=1)` sends to rank 1.
# - **trace**: the record of all messages of a run. `world.trace.bytes_sent[0]` is what rank 0 sent.
# - **deadlock**: ranks that wait for one another in a circle, or for a rank that has already returned. Two ranks that
#   both receive first wait for ever.
# - **training step**: one update of the weights from one batch: forward, backward, `optimizer.step()`.
#
# In [01, Messages](01_messages.ipynb):
#
# - **tag**: a number on a message. A rank that asks for tag 2 does not get a message with tag 1.
# - **latency** (α): the time that even the smallest message needs, such as 20 µs.
# - **bandwidth** (1/β): the bytes per second that a link carries. At 10 GB/s, 400 kB need 40 µs, and the latency.
# - **round**: the place of a message in a chain of messages that had to wait for one another. If rank 0 sends to rank
#   1, and rank 1 then sends to rank 2, that is two rounds.
# - **step**: the time in which a rank can send one message and receive one; often one pass of an algorithm's loop. A
#   rank that sends to three others needs three steps.
# - **virtual second**: a second on the clock of a `SimulatedWorld`. `comm.sleep(2)` takes two of them, none of yours.
# - **root**: the rank that has, or gets, everything. In a broadcast from root 0, rank 0 hands out the first weights.
# - **part**: a piece of a tensor or a batch. Of 8 numbers on 4 ranks, part 1 is numbers 2 and 3.
#
# In [02, All-reduce](02_all_reduce.ipynb):
#
# - **all-reduce**: adds up the tensors of all ranks and gives every rank the sum: the gradients of a batch, say.
# - **chunk**: the part of a tensor that moves in one step. A ring of 4 ranks cuts the gradients into 4 chunks.
#
# In [03, Trees and grids](03_trees_and_grids.ipynb):
#
# - **node**: one machine of a cluster, with 8 GPUs, say. The links inside it are faster than those between nodes.
#
# In [04, Data parallel](04_data_parallel.ipynb) and [05, DistributedDataParallel](05_ddp.ipynb):
#
# - **replica**: a copy of the whole model on one rank. Data parallel training on 4 ranks has 4 replicas.
# - **bucket**: gradients that share one all-reduce, because many small ones would cost a latency each.
# - **microbatch**: a piece of a rank's batch that goes through the model by itself: 32 images as 4 microbatches of 8.
#
# In [09, Pipeline](09_pipeline.ipynb):
#
# - **stage**: layers of a model that follow each other and stay on one rank, such as layers 4 to 7 of 16.
# - **schedule**: for each rank, in which order it does the forward and backward passes of the microbatches.
# - **bubble**: the part of the time in which ranks of a pipeline wait.
#
# In [10, Tensor parallelism](10_tensor_parallel.ipynb):
#
# - **column parallel**: each rank computes some of the outputs of a layer, from all of its inputs.
# - **row parallel**: each rank has some of the inputs of a layer, and computes its term of a sum.
#
# In [11, ZeRO and FSDP](11_zero.ipynb):
#
# - **shard**: the part of a state that one rank owns for good, such as a quarter of the optimizer's averages.
# - **unit**: parameters that are gathered together, used, and freed.
# - **activations**: what a forward pass computes and the backward pass needs.
#
# In [12, Hybrid](12_hybrid.ipynb):
#
# - **mesh**: ranks as the cells of a grid, with an axis for each way of training. 8 ranks may be dp 2 × pp 2 × tp 2.
#
# In [16, Environments](16_environments.ipynb):
#
# - **launcher**: the program that starts the ranks, and tells each who it is: `torchrun`, `srun`.
# - **allocation**: the nodes that a cluster's scheduler gives to one job, for a time.
# - **checkpoint**: all that a training needs to go on, in a file.
#
# ## Further reading
#
# - [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), the reference for the names used here.
# - J. Kaplan et al., [Scaling Laws for Neural Language Models](https://arxiv.org/abs/2001.08361), 2020. Section 2.1
#   counts the operations of a training step.
# - S. Rajbhandari et al., [ZeRO: Memory Optimizations Toward Training Trillion Parameter
#   Models](https://arxiv.org/abs/1910.02054), SC 2020. Section 3 counts the memory of training.
# - H. Touvron et al., [Llama 2: Open Foundation and Fine-Tuned Chat Models](https://arxiv.org/abs/2307.09288), 2023.
#   A model of 7 billion parameters, trained with batches of 4 million tokens.
