# %% [markdown]
# # Start here
#
# After this lesson you will be able to
#
# - run one function on four processes at the same time, from a cell of this notebook,
# - send a tensor from one process to another and look at a picture of it,
# - read what the course tells you when something goes wrong.
#
# **Time:** about 25 minutes. **You need:** Python, and to have used torch tensors before. No GPU.
#
# Go from top to bottom and run each cell with Shift+Enter. In some places you are asked for a number *before* the cell
# that computes it. Write your guess and press Enter. Nobody grades it. A guess that turns out wrong is where you learn
# most.
#
# Lines that begin with `assert` hold the numbers of the text: if one of them were not true, the cell would stop there.

# %%
import math
import os

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
# Training keeps more numbers than the model has. Take a small model, train it for one step with the optimizer Adam,
# and count what is then in memory.

# %%
model = nn.Linear(1000, 1000)
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(8, 1000)).square().mean().backward()
optimizer.step()

parameters = list(model.parameters())
kept = {
    "parameters": parameters,
    "gradients": [p.grad for p in parameters],
    "Adam: average gradient": [optimizer.state[p]["exp_avg"] for p in parameters],
    "Adam: average squared gradient": [optimizer.state[p]["exp_avg_sq"] for p in parameters],
}
count = sum(p.numel() for p in parameters)
for name, tensors in kept.items():
    print(f"{name:32} {sum(t.nbytes for t in tensors) / count:.0f} bytes per parameter")

bytes_per_parameter = sum(t.nbytes for tensors in kept.values() for t in tensors) / count
print(f"{'together':32} {bytes_per_parameter:.0f} bytes per parameter")
assert bytes_per_parameter == 16

# %% [markdown]
# Each of the four is a float32 number of 4 bytes: 16 bytes for every parameter. The activations of the forward pass
# come on top.
#
# Now take a model with 7 billion parameters.

# %%
guess = predict("How much memory do these four take for 7 billion parameters?", unit="GB")

# %%
needed = 7e9 * bytes_per_parameter
print(guess.compare(needed / 1e9))
print(f"GPUs of 80 GB that are needed only to hold it: {math.ceil(needed / 80e9)}")
assert needed == 112e9
assert math.ceil(needed / 80e9) == 2

# %% [markdown]
# It does not fit on one GPU of 80 GB. There are ways to keep less, with other formats and other optimizers, but the
# figure still grows with every parameter.
#
# ### Time
#
# A training step of a transformer computes about 6 floating-point operations for each parameter and each token: 2 in
# the forward pass and 4 in the backward pass (Kaplan et al. 2020, section 2.1). We take two numbers to think with: a
# trillion tokens of text, and a GPU that sustains 4·10¹⁴ operations a second.

# %%
operations = 6 * 7e9 * 1e12
days_on_one = operations / 4e14 / 86_400
print(f"one GPU: {days_on_one:,.0f} days, or {days_on_one / 365:.1f} years")
print(f"1,000 GPUs that share the work perfectly: {days_on_one / 1000:.1f} days")
assert 3 < days_on_one / 365 < 4
assert 1 < days_on_one / 1000 < 2

# %% [markdown]
# Years on one GPU, or about a day on a thousand. But only if they share the work perfectly, and they never do. They
# must talk.
#
# In the simplest kind of distributed training, every GPU computes gradients on its own part of the data. After every
# step the gradients must be combined. How long does it take to move all gradients of our model through one link, once?

# %%
gradient_bytes = 7e9 * 4
links = {"10 Gbit/s Ethernet": 10e9 / 8, "100 Gbit/s Ethernet": 100e9 / 8, "400 Gbit/s InfiniBand": 400e9 / 8}
for name, bytes_per_second in links.items():
    print(f"{name:22} {gradient_bytes / bytes_per_second:6.2f} s in every step")
assert gradient_bytes / links["10 Gbit/s Ethernet"] > 20
assert gradient_bytes / links["400 Gbit/s InfiniBand"] > 0.5

# %% [markdown]
# That is the subject of this course. Who sends what to whom, and when, decides how much faster a thousand GPUs are
# than one. You will write these programs yourself, count every byte they move, and watch them run.
#
# ## Your machine
#
# The machine in front of you is enough for that. What does it have?

# %%
print(f"processor cores: {os.cpu_count()}")
print(f"memory:          {psutil.virtual_memory().total / 1e9:.0f} GB")
print(f"GPUs:            {torch.cuda.device_count()}")

# %% [markdown]
# A **rank** is one process of a distributed program. It has its own memory, and a number: 0, 1, 2, and so on. How many
# ranks there are is the **world size**. On a cluster, a rank usually has a GPU of its own. Here a rank is an ordinary
# process on this machine, and its tensors lie in ordinary memory. You may have more ranks than cores. Then they take
# turns, and the program computes exactly the same.
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
    print(f"Hello. I am one of {comm.world_size}, and my process has the number {os.getpid()}.")
    return comm.rank * 10


# %%
guess = predict("Four ranks run hello. What stands in the list of results at position 3?")

# %%
results = world.run(hello)
print(results)
print(guess.compare(results[3]))
assert results == [0, 10, 20, 30]

# %% [markdown]
# What a rank prints appears here, marked with its number. The lines come in any order: each rank prints when it gets
# there. Run the cell again and the order may change. The list is always in order of rank.
#
# The processes stay when the function has returned. The next run uses them again, so it starts at once.


# %%
def process_number(comm: Communicator) -> int:
    return os.getpid()


first, second = world.run(process_number), world.run(process_number)
print("ranks:        ", first)
print("this notebook:", os.getpid())
assert first == second
assert len({*first, os.getpid()}) == 5

# %% [markdown]
# Five different numbers. Your notebook is a process too, but it is none of the ranks.
#
# ## What crosses the border
#
# Processes do not share memory. This is the most important fact in this lesson. Whatever a rank knows was copied to
# it, and whatever you get back was copied from it.
#
# A function takes along what it uses: other functions of this notebook, its imports, its variables.

# %%
names = ["Ada", "Barbara", "Edsger", "Leslie"]


def greet(comm: Communicator, greeting: str) -> str:
    return f"{greeting} from {names[comm.rank]}"


print(world.run(greet, "Greetings"))
print(world.run(lambda comm: comm.rank**2))

# %% [markdown]
# Arguments are copied, too. Each rank gets a tensor of its own. Here every rank adds to the tensor that you hand over.

# %%
data = torch.zeros(3)


def add_my_number(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    tensor += comm.rank + 1
    return tensor


# %%
guess = predict("The four ranks add 1, 2, 3 and 4. What is data[0] here in the notebook after the run?")

# %%
results = world.run(add_my_number, data)
for rank, tensor in enumerate(results):
    print(f"rank {rank} returned {tensor.tolist()}")
print(f"here, data is {data.tolist()}")
print(guess.compare(data[0].item()))
assert [tensor[0].item() for tensor in results] == [1, 2, 3, 4]
assert data.tolist() == [0, 0, 0]

# %% [markdown]
# Every rank added to its own copy of zeros. Nothing was added up, and the tensor in this notebook has not changed.
# With global variables it is the same.

# %%
counter = 0


def count_up(comm: Communicator) -> int:
    global counter
    counter += 1
    return counter


print("on the ranks:", world.run(count_up))
print("on the ranks:", world.run(count_up))
print("here:        ", counter)
assert world.run(count_up) == [1, 1, 1, 1]
assert counter == 0

# %% [markdown]
# Each run begins with fresh copies. If a result should survive, return it.
#
# ## Your first message
#
# So the ranks know nothing of each other until one of them sends a message. `comm.send(tensor, dst)` sends a tensor to
# rank `dst`. `comm.recv(tensor, src)` waits for a message from rank `src` and writes it *into* the tensor that you
# give. Both sides must take part.


# %%
def first_message(comm: Communicator) -> torch.Tensor:
    tensor = torch.zeros(4)
    if comm.rank == 0:
        tensor += 7
        comm.send(tensor, dst=1)
    if comm.rank == 1:
        comm.recv(tensor, src=0)
    return tensor


# %%
guess = predict("The tensor has four float32 numbers. How many bytes does rank 0 send?", unit="bytes")

# %%
results = world.run(first_message)
for rank, tensor in enumerate(results):
    print(f"rank {rank}: {tensor.tolist()}")
print(guess.compare(world.trace.bytes_sent[0]))
assert results[1].tolist() == [7, 7, 7, 7]
assert results[2].tolist() == [0, 0, 0, 0]
assert world.trace.bytes_sent == [16, 0, 0, 0]

# %% [markdown]
# All ranks ran the same function, and each took its own way through the `if`. Rank 1 now has the sevens. Ranks 2 and 3
# had nothing to do.
#
# The number of bytes was not computed from a formula. `world.trace` holds every message of the last run: who sent it,
# to whom, how large it was, when, and which line of yours sent it.

# %%
world.trace

# %% [markdown]
# ## A picture of a run
#
# Now a message that passes through all ranks. Rank 0 starts it, the others receive it, add their own number and pass
# it on. Before that, each rank has some other work to do, and the higher its number, the more. `comm.sleep` stands for
# this work.


# %%
def pass_it_on(comm: Communicator) -> float:
    total = torch.zeros(1)
    comm.sleep(0.05 * comm.rank)
    if comm.rank > 0:
        comm.recv(total, src=comm.rank - 1)
    total += comm.rank
    if comm.rank < comm.world_size - 1:
        comm.send(total, dst=comm.rank + 1)
    return total.item()


# %% [markdown]
# No rank can send before it has received. The longest chain of messages that had to wait for one another is counted in
# **rounds**.

# %%
guess = predict("How many rounds does the message take through four ranks?", unit="rounds")

# %%
results = world.run(pass_it_on)
print(results)
print(guess.compare(world.trace.rounds))
assert results == [0, 1, 3, 6]
assert world.trace.rounds == 3

# %%
timeline(world.trace)

# %% [markdown]
# Read it like a score: each row is a rank, time goes to the right, an arrow is a message. The hatched bar above a row
# is a rank that wants to send, while the next one is still at work. `send` returns only when the other side has taken
# the message, so for this long the rank can do nothing else.
#
# A large part of this course is about such pictures, and about how to make the waiting disappear.
#
# ## Mistakes, on purpose
#
# You will make these mistakes anyway. Make them now, and read what you are told. In this notebook every mistake is
# caught with `try` and `except`, so that the cells below still run. In your own work you leave that out: the cell then
# stops, and below it stands the same message, with your line marked.
#
# ### Everybody waits
#
# Two ranks want to swap their numbers. Both receive first.


# %%
def swap(comm: Communicator) -> float:
    mine, theirs = torch.tensor([float(comm.rank)]), torch.zeros(1)
    other = 1 - comm.rank
    if comm.rank < 2:
        comm.recv(theirs, src=other)
        comm.send(mine, dst=other)
    return theirs.item()


try:
    world.run(swap)
except DeadlockError as error:
    print(error)
    assert sorted(error.ranks) == [0, 1]

# %% [markdown]
# This is a **deadlock**. Rank 0 waits for a message from rank 1, which rank 1 would send after it has received one
# from rank 0. Neither will ever go on. The message names the line, the ranks, and what each of them waits for.
#
# Most frameworks say nothing for a long time in this case. They hang, and you wait with them, not knowing whether your
# program is slow or stuck.
#
# There are two ways out. Rank 0 could send first while rank 1 receives first. Or both use `exchange`, which sends and
# receives at the same time. It is the one to remember.


# %%
def swap_with_exchange(comm: Communicator) -> float:
    mine, theirs = torch.tensor([float(comm.rank)]), torch.zeros(1)
    other = 1 - comm.rank
    if comm.rank < 2:
        comm.exchange(mine, dst=other, incoming=theirs, src=other)
    return theirs.item()


results = world.run(swap_with_exchange)
print(results)
assert results[:2] == [1, 0]
assert world.trace.rounds == 1

# %% [markdown]
# The world still works after the mistake, without being made again. Both messages traveled in the same round.
#
# ### The sizes do not fit
#
# Rank 0 sends four numbers. Rank 1 has room for three.


# %%
def too_small(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.send(torch.ones(4), dst=1)
    if comm.rank == 1:
        comm.recv(torch.zeros(3), src=0)


try:
    world.run(too_small)
except MessageMismatch as error:
    print(error)

# %% [markdown]
# ### One rank fails
#
# An ordinary Python error, but on one rank only. You are told which rank and which line.


# %%
def fails_on_two(comm: Communicator) -> float:
    shares = [1, 2, 0, 4]
    return 12 / shares[comm.rank]


try:
    world.run(fails_on_two)
except RankError as error:
    print(error)
    assert error.ranks == [2]
    full_story = error.stack
    assert world.last_error is error

# %% [markdown]
# That is all you need most of the time. The complete stack of the rank is in `error.stack`, for the day you want it.
# Without `try`, find the error in `world.last_error`.

# %%
print(full_story)
assert "ZeroDivisionError" in full_story

# %% [markdown]
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

assert world.run(hello) == [0, 10, 20, 30]

# %% [markdown]
# And the ranks say hello again.
#
# ## Chance that repeats itself
#
# Random numbers differ from rank to rank, but are the same in every run. `World(4, seed=…)` starts another sequence.


# %%
def draw_one(comm: Communicator) -> float:
    return torch.rand(1).item()


draws = world.run(draw_one)
print(draws)
assert len(set(draws)) == 4
assert world.run(draw_one) == draws

# %% [markdown]
# ## In real frameworks
#
# The names of this course are those of `torch.distributed`, which programs on large clusters use. There, one default
# group of ranks is set up for the whole process, and functions refer to it. `torch_distributed` sets it up over our
# ranks, so we can compare.

# %%
import torch.distributed as dist

from distlib.process_group import torch_distributed


def first_message_in_torch(comm: Communicator) -> torch.Tensor:
    tensor = torch.zeros(4)
    with torch_distributed(comm):
        if dist.get_rank() == 0:
            tensor += 7
            dist.send(tensor, dst=1)
        if dist.get_rank() == 1:
            dist.recv(tensor, src=0)
    return tensor


theirs, ours = world.run(first_message_in_torch), world.run(first_message)
assert all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))
print("torch.distributed and our communicator agree on every rank.")

# %% [markdown]
# | here | in torch.distributed |
# |---|---|
# | `comm.rank`, `comm.world_size` | `dist.get_rank()`, `dist.get_world_size()` |
# | `comm.send`, `comm.recv` | `dist.send`, `dist.recv` |
# | `comm.isend`, `comm.irecv` | `dist.isend`, `dist.irecv` |
# | `comm.barrier()` | `dist.barrier()` |
# | `World(4)` and `world.run(f)` | `torchrun --nproc-per-node 4 program.py` |
#
# Two things differ. Our communicator is handed to the function instead of being global. And it checks every message.
# In `torch.distributed` on gloo (torch 2.13), the size mismatch from above aborts the receiving process, and the
# sender notices nothing.
#
# ## When something is wrong
#
# `NameError: name 'world' is not defined` means that a cell further up has not been run. Choose "Run All Above
# Selected Cell" in the menu Run.
#
# If cells fail in stranger ways, open a terminal (menu File, New, Terminal) and type
#
#     distlib doctor
#
# It checks Python, torch, whether ranks start, your GPUs and this notebook's kernel. Of each problem it says what to
# do.
#
# A world ends with its notebook. You can end it earlier, and get the memory of its ranks back.

# %%
world.close()

# %% [markdown]
# ## What comes next
#
# Next come [Messages](01_messages.ipynb): how ranks wait for one another, and the patterns in which they talk. Its
# exercise is the first that is graded. Then you combine tensors of all ranks: [All-reduce](02_all_reduce.ipynb), the
# operation that trains most large models.
#
# This is the whole way. Lessons without a link are not written yet.
#
# | | lesson | subject |
# |---|---|---|
# | 00 | Start here | ranks, a world, a message |
# | 01 | [Messages](01_messages.ipynb) | send, receive, deadlock; broadcast, scatter, gather, reduce |
# | 02 | [All-reduce](02_all_reduce.ipynb) | through a master; the ring |
# | 03 | [Trees and grids](03_trees_and_grids.ipynb) | other all-reduces, and when each is the fastest |
# | 04 | Data parallel | one model on several devices, and why the first idea is slow |
# | 05 | DistributedDataParallel | buckets, and communication that hides behind computation |
# | 06 | [Large batches](06_large_batches.ipynb) | how far more workers help |
# | 07 | Parameter server | synchronous, asynchronous, and in between |
# | 08 | Decentralized | gossip: averages without a center |
# | 09 | Pipeline | layers on different ranks |
# | 10 | Tensor parallel | one layer on several ranks |
# | 11 | ZeRO | optimizer, gradients and parameters in shards |
# | 12 | Hybrid | all of it together |
# | 13 | TensorFlow | the same strategies there |
# | 14 | JAX | the same strategies there |
# | 15 | Frameworks | what your code becomes in practice |
# | 16 | Clusters | torchrun, Slurm, and machines that fail |
# | 17 | Capstone | a small language model, trained in every way |
#
# ## Further reading
#
# - [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), the reference for the names used here.
# - J. Kaplan et al., [Scaling Laws for Neural Language Models](https://arxiv.org/abs/2001.08361), 2020. Section 2.1
#   counts the operations of a training step.
# - S. Rajbhandari et al., [ZeRO: Memory Optimizations Toward Training Trillion Parameter
#   Models](https://arxiv.org/abs/1910.02054), SC 2020. Section 3 counts the memory of training.
# - L. Lamport, [Time, Clocks, and the Ordering of Events in a Distributed
#   System](https://doi.org/10.1145/359545.359563), CACM 21(7), 1978. Where the rounds come from.
