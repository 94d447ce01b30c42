# %% [markdown]
# # Start here
#
# Two processes want to swap a number. Both run the function `swap` below, at the same time. Each process first waits
# for the number of the other process, and then sends its own number. Click on the cell, and press Shift+Enter to run
# it.

# %% tags=["raises-exception"]
import torch

from distlib import Communicator, World


def swap(comm: Communicator) -> float:
    mine = torch.tensor([float(comm.rank)])
    theirs = torch.zeros(1)
    other = 1 - comm.rank
    comm.recv(theirs, src=other)  # first wait ...
    comm.send(mine, dst=other)  # ... then send
    return theirs.item()


pair = World(2)  # two processes
pair.run(swap)

# %% [markdown]
# The program hangs, and the report says why. It calls the two processes rank 0 and rank 1. Rank 0 waits in line 10 for
# a number from rank 1. Rank 1 waits in the same line for a number from rank 0. Because each rank waits for the other
# rank, neither rank can ever continue. Such a circle of waiting, or cycle, is called a **deadlock**. Lesson 01
# explains the word *round* in the report.
#
# ![Two ranks run the function swap, and both wait in line 10. An arrow from rank 0 to rank 1 and an arrow from rank 1
# to rank 0, each with the words "waits for", close a circle, a deadlock. The report stands below.](images/hang.svg)
#
# In plain PyTorch on CPUs, the same program prints nothing for 30 minutes. Then each process reports that its receive
# has timed out, but not what the other process was waiting for. Real training programs hang like this, on hundreds of
# GPUs, and every hour costs money. In this course a deadlock is explained at once, so you can cause deadlocks on
# purpose and learn from them.
#
# > After this lesson you will be able to
# >
# > - run one function on several processes at the same time,
# > - send a tensor from one process to another, and read the picture of a run,
# > - say what processes share, and what they do not share,
# > - say why one GPU is not enough, in gigabytes and in days.
# >
# > **Time:** about 40 minutes. **You need:** Python and basic PyTorch. No GPU.
#
# <details><summary>How to use these notebooks</summary>
#
# - **Run** the cells from top to bottom with Shift+Enter. A cell that ends with an error does no harm.
# - **Predict.** Before some runs you are asked what will happen. Choose an answer first. Nobody grades your answer, and
#   you learn most from a wrong one.
# - **Try it.** You change a line and run the cell again. You can't break anything. A solution is folded below the cell:
#   click on the three dots to read it. "Run All" skips folded solutions. To run a solution, press Shift+Enter on its
#   cell twice.
# - **Folded cells** hold imports, checks of the numbers in the text, and drawing. You need not read them.
# - **`NameError: name 'world' is not defined`** means that a cell above has not been run. Choose "Run All Above
#   Selected Cell" in the menu Run.
# - **Your copy.** The notebooks in the folder `work` are yours, so change whatever you like. `distlib update` brings a
#   newer version of the course and keeps your changes. To get a fresh copy of a notebook, rename yours and start the
#   course again.
# - **If cells fail for other reasons**, open a terminal (menu File, New, Terminal), and type `distlib doctor`. It
#   checks your machine and says what to do. If the terminal does not find `distlib`, run the last cell of this
#   notebook.
#
# </details>

# %% tags=["folded"]
# Setup: all other imports of this lesson
import math
import os
import sys

from torch import nn

from distlib import DeadlockError, MessageMismatch, RankError
from distlib.draw import compare_costs, memory_and_room, predict, timeline

# %% [markdown]
# ## What just ran
#
# `World(2)` started two ordinary Python processes on your machine. Each process is a **rank**, and `comm.rank` is its
# number. The **world size** is the number of ranks. A rank talks to the other ranks through its **communicator**, the
# object `comm`. `pair.run(swap)` calls the function on all ranks at the same time, and returns a list of the results,
# in order of rank.
#
# `comm.recv(tensor, src)` waits for a message from rank `src`, and writes the message into the tensor.
# `comm.send(tensor, dst)` waits as well: it returns only when rank `dst` has taken the message.
#
# Now put `send` before `recv`, so that both ranks send first.


# %%
def send_first(comm: Communicator) -> float:
    mine = torch.tensor([float(comm.rank)])
    theirs = torch.zeros(1)
    other = 1 - comm.rank
    comm.send(mine, dst=other)
    comm.recv(theirs, src=other)
    return theirs.item()


# %%
guess_1 = predict(
    "Both ranks send first. What happens?",
    choices=["they swap their numbers", "only rank 0 gets a number", "they hang again"],
)

# %%
try:
    print(pair.run(send_first))
    happened = "they swap their numbers"
except DeadlockError as error:
    print(error, "\n")
    happened = "they hang again"
print(guess_1.compare(happened))

# %% tags=["folded"]
# Checks of the report
assert happened == "they hang again" and sorted(pair.last_error.ranks) == [0, 1]
assert "Every rank on this cycle sends, and none receives" in str(pair.last_error)

# %% [markdown]
# They hang again. Each `send` waits until the other rank receives, but neither rank reaches its `recv`. If one rank
# sends first, as the first report advises, the other rank has to receive first.
#
# **Try it.** Let rank 0 send first and rank 1 receive first. Then try a second repair: replace both lines with
# `comm.exchange(mine, dst=other, incoming=theirs, src=other)`, which sends and receives at the same time.


# %%
def swap_again(comm: Communicator) -> float:
    mine = torch.tensor([float(comm.rank)])
    theirs = torch.zeros(1)
    other = 1 - comm.rank
    comm.recv(theirs, src=other)  # change these
    comm.send(mine, dst=other)  # two lines
    return theirs.item()


try:
    print(pair.run(swap_again))
except DeadlockError:
    print("The ranks still hang.")


# %% tags=["folded"]
# One way to do it
def swap_in_order(comm: Communicator) -> float:
    mine = torch.tensor([float(comm.rank)])
    theirs = torch.zeros(1)
    other = 1 - comm.rank
    if comm.rank == 0:
        comm.send(mine, dst=other)
        comm.recv(theirs, src=other)
    else:
        comm.recv(theirs, src=other)
        comm.send(mine, dst=other)
    return theirs.item()


def swap_with_exchange(comm: Communicator) -> float:
    mine = torch.tensor([float(comm.rank)])
    theirs = torch.zeros(1)
    other = 1 - comm.rank
    comm.exchange(mine, dst=other, incoming=theirs, src=other)
    return theirs.item()


print(pair.run(swap_in_order), pair.run(swap_with_exchange))
assert pair.run(swap_in_order) == pair.run(swap_with_exchange) == [1, 0]

# %% [markdown]
# `exchange` is the call to remember, because the next lessons use it often. You did not restart anything: the two
# processes are the same as before, and they still work.
#
# Other mistakes are explained as well. The next cell makes three of them: a message that is too long for the tensor of
# the receiver, a rank that divides by zero, and a loop without an end.


# %% tags=["folded"]
# Three other mistakes, made on purpose
def too_long(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.send(torch.ones(4), dst=1)
    else:
        comm.recv(torch.zeros(2), src=0)


def divides(comm: Communicator) -> float:
    return 1 / (1 - comm.rank)


def never_ends(comm: Communicator) -> None:
    while comm.rank == 1:
        pass


for mistake in (too_long, divides, never_ends):
    try:
        pair.run(mistake, timeout=1 if mistake is never_ends else None)
    except (MessageMismatch, RankError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}\n")
        assert mistake is not divides or (
            error.ranks == [1] and "ZeroDivisionError" in str(error)
        )
assert isinstance(pair.last_error, TimeoutError)

pair.close()  # ends the two processes

# %% [markdown]
# To stop a loop by hand, press the stop button (■) in the toolbar, which stops the ranks, too.
#
# ## A message, and its picture
#
# From now on there are four ranks. If your machine has fewer cores, the ranks take turns, and the results stay the
# same. In the next function, rank 0 adds 7 to its tensor, sends the tensor to rank 1, and adds 100 afterwards.


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
guess_2 = predict(
    "What does the tensor of rank 1 hold at the end?",
    choices=["1", "7", "8", "107"],
)

# %%
world = World(4)
results = world.run(first_message)
for rank, tensor in enumerate(results):
    print(f"rank {rank}: {tensor.tolist()}")
print(guess_2.compare(f"{results[1][0].item():g}"))

# %% [markdown]
# Rank 1 holds 7. A message is a copy of the tensor at the moment of sending, and `recv` writes the copy over the
# numbers that rank 1 had before. Rank 0 adds 100 after sending, so rank 1 never sees the 100. Ranks 2 and 3 run the
# same function, but neither `if` is true for them.
#
# The **trace** of a run holds all its messages: who sent each message to whom, how many bytes it had, and which line of
# your code sent it. Lesson 01 explains the *tag* in the table.

# %%
world.trace

# %% tags=["folded"]
# Checks of the numbers above
assert [tensor[0].item() for tensor in results] == [107, 7, 2, 3]
assert world.trace.bytes_sent == [4 * 4, 0, 0, 0]  # four float32 numbers

# %% [markdown]
# Now a number goes from rank 0 through ranks 1 and 2 to rank 3, and each rank adds its own rank to the number. Before
# the addition, rank *r* works for *r* · 100 ms. `comm.sleep` stands for the work.


# %%
def pass_it_on(comm: Communicator) -> float:
    total = torch.zeros(1)
    comm.sleep(0.1 * comm.rank)  # work: 0, 100, 200 and 300 ms
    if comm.rank > 0:
        comm.recv(total, src=comm.rank - 1)
    total += comm.rank
    if comm.rank < comm.world_size - 1:
        comm.send(total, dst=comm.rank + 1)
    return total.item()


print(world.run(pass_it_on))

# %% tags=["folded"]
# The picture of the shortest of three runs, because a busy machine only adds to a time
traces = []
for _ in range(3):
    assert world.run(pass_it_on) == [0, 1, 3, 6]
    traces.append(world.trace)
shortest = min(traces, key=lambda trace: trace.elapsed)
assert shortest.elapsed >= 0.3
timeline(shortest, f"A number visits 4 ranks, in {1e3 * shortest.elapsed:.0f} ms")

# %% [markdown]
# Read the picture from left to right. Each row is a rank, and each arrow is a message. A hatched (striped) bar is a
# rank whose `send` waits, because the next rank is still busy. The picture does not show how long a rank waits in
# `recv`. Much of this course is about how to avoid waiting.
#
# The work of all ranks adds up to 600 ms. The run takes only about 300 ms, because the ranks work at the same time: the
# run ends when its busiest rank, rank 3, has the number.
#
# **Try it.** Reverse the work, from 300 ms for rank 0 to none for rank 3. The run still takes about 300 ms. Which
# arrows move, and what happens to the hatched bars?


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
# Ranks 1, 2 and 3 now wait in recv, for 100, 200 and 300 ms. Then the number visits all ranks
# in a few milliseconds.
def most_work_first(comm: Communicator) -> float:
    total = torch.zeros(1)
    comm.sleep(0.1 * (comm.world_size - 1 - comm.rank))
    if comm.rank > 0:
        comm.recv(total, src=comm.rank - 1)
    total += comm.rank
    if comm.rank < comm.world_size - 1:
        comm.send(total, dst=comm.rank + 1)
    return total.item()


assert world.run(most_work_first) == [0, 1, 3, 6]
assert world.trace.elapsed >= 0.3
timeline(world.trace)

# %% [markdown]
# ## One tensor, four ranks
#
# The notebook gives its tensor of zeros to all ranks, and every rank adds a number of its own.

# %%
data = torch.zeros(3)


def add_my_number(comm: Communicator, tensor: torch.Tensor) -> None:
    tensor += comm.rank + 1
    print(f"process {os.getpid()}: {tensor.tolist()}")


# %%
guess_3 = predict(
    "The ranks add 1, 2, 3 and 4. What is data[0] afterwards, in the notebook?",
    choices=["0", "1", "4", "10"],
)

# %%
world.run(add_my_number, data)
print(f"the notebook, process {os.getpid()}: {data.tolist()}")
print(guess_3.compare(f"{data[0].item():g}"))

# %% tags=["folded"]
# Checks of the numbers above
assert data.tolist() == [0, 0, 0]
counter = 0


def count_up(comm: Communicator) -> int:
    global counter
    counter += 1
    return counter


assert world.run(count_up) == [1, 1, 1, 1] == world.run(count_up) and counter == 0

# %% [markdown]
# The notebook and the four ranks are five processes, and each process has a memory of its own. Every rank changed its
# own copy of the tensor, so the tensor in the notebook is still zero. The lines come in any order, because each rank
# prints when it gets there.
#
# Global variables are copied, too: each run begins with the values that the notebook has at that moment. A tensor
# leaves a rank only if the rank hands it on, usually as a result or in a message.
#
# Now imagine that the four tensors are gradients, each computed by a different GPU for its part of the batch. Training
# needs their mean, and only messages can bring the four together. [Lesson 02](02_all_reduce.ipynb) shows how few bytes
# this takes.
#
# ## Why not stay on one GPU?
#
# Messages cause hangs and waiting, so why send any? There are two reasons: memory and time.
#
# ### The first reason: memory
#
# This layer has about a million parameters, which are 4 MB in float32. We train the layer for one **training step**
# with Adam, which keeps two averages for each parameter: of its gradients, and of their squares. Training also keeps
# the outputs of layers, the activations, but we leave them out here.

# %%
model = nn.Linear(1000, 1000)
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(8, 1000)).square().mean().backward()
optimizer.step()

# %%
guess_4 = predict(
    "How much memory does training keep, the parameters included?",
    choices=["4 MB", "8 MB", "12 MB", "16 MB"],
)

# %%
parameters, adam = list(model.parameters()), optimizer.state
kept = {
    "parameters": parameters,
    "gradients": [p.grad for p in parameters],
    "Adam: average gradient": [adam[p]["exp_avg"] for p in parameters],
    "Adam: average of squares": [adam[p]["exp_avg_sq"] for p in parameters],
}
megabytes = {
    name: sum(t.nbytes for t in tensors) / 1e6 for name, tensors in kept.items()
}
for name, amount in megabytes.items():
    print(f"{name:25} {amount:3.0f} MB")
print(guess_4.compare(f"{sum(megabytes.values()):.0f} MB"))

# %% [markdown]
# Training keeps four numbers of 4 bytes for each parameter, together 16 bytes. A model of 7 billion parameters
# therefore needs 112 GB. A large GPU such as the H100 has about 80 GB.

# %% tags=["folded"]
# The picture, and checks of the numbers above
count = sum(p.numel() for p in parameters)
bytes_per_parameter = {
    name: sum(t.nbytes for t in tensors) / count for name, tensors in kept.items()
}
assert (
    list(bytes_per_parameter.values()) == [4, 4, 4, 4]
    and round(sum(megabytes.values())) == 16
)
assert 7e9 * sum(bytes_per_parameter.values()) == 112e9
memory_and_room(
    {name: 7e9 * each for name, each in bytes_per_parameter.items()},
    {"one GPU": 80e9},
    title="7 billion parameters do not fit",
    subtitle="What training with Adam keeps, without activations, and the memory of an H100",
)

# %% [markdown]
# Large models are often trained in **mixed precision**, which computes with numbers of 2 bytes. Even so, training
# usually keeps 16 bytes for each parameter. [Lesson 11](11_zero.ipynb) shows why, and divides the bytes among many
# GPUs.
#
# ### The second reason: time
#
# A training step of an ordinary transformer computes about 6 floating-point operations for each parameter and each
# token: 2 in the forward pass, and 4 in the backward pass. Let the model of 7 billion parameters read a trillion
# tokens, on GPUs that compute 4·10¹⁴ operations per second.
#
# | | days |
# |---|---:|
# | one GPU, 6 · 7·10⁹ · 10¹² / (4·10¹⁴) seconds | 1,215 (more than 3 years) |
# | a thousand GPUs that share the work perfectly | 1.2 |
#
# A thousand GPUs turn years into a day, if sharing the work costs nothing. But the GPUs must talk to each other.
#
# ### The price of talking
#
# In **data parallel** training, every GPU computes gradients for its own part of the batch, and then the GPUs add up
# all gradients. Here we pretend that the whole model fits into each GPU. A batch has 4 million tokens, as in Llama 2.
# With 6 operations for each parameter and each token, a thousand GPUs compute the gradients of a batch in 0.42 seconds.
# In float32, the gradients of 7 billion parameters are 28 GB. Suppose that each GPU sends its gradients only once. A
# fast link between two computers carries 400 Gbit/s.

# %%
guess_5 = predict(
    "Sending 28 GB over 400 Gbit/s, compared with 0.42 seconds of computing, takes …",
    choices=["a hundredth of the time", "a tenth of the time", "longer"],
)

# %%
gradients = 7e9 * 4  # bytes
computing = 6 * 7e9 * 4e6 / (1000 * 4e14)  # seconds
seconds = {
    f"28 GB over {speed} Gbit/s": gradients / (speed * 1e9 / 8)
    for speed in (10, 100, 400)
}
share = seconds["28 GB over 400 Gbit/s"] / computing
print(f"{seconds['28 GB over 400 Gbit/s']:.2f} s")
print(guess_5.compare("longer" if share > 1 else "a tenth of the time"))

# %% tags=["folded"]
# The picture, and checks of the numbers above
assert (
    gradients == 28e9
    and round(computing, 2) == 0.42
    and min(seconds.values()) > computing
)
days = 6 * 7e9 * 1e12 / 4e14 / 86_400
assert round(days) == 1215 and days / 365 > 3 and round(days / 1000, 1) == 1.2
assert math.isclose(seconds["28 GB over 400 Gbit/s"], 0.56)
bars = {"computing": computing, **seconds}
compare_costs(
    {name: {"seconds": value} for name, value in bars.items()},
    title="In every training step",
    subtitle="A thousand GPUs compute, and then the gradients travel once",
    show=lambda value: f"{value:.2f}",
)

# %% [markdown]
# Over each of these links, talking takes longer than computing. In a ring of GPUs, as lesson 02 shows, every GPU sends
# nearly twice its gradients. Gradients of 2 bytes halve the time, but talking is still a large part of the step.
# Therefore the speed of a thousand GPUs depends on which messages are sent, and when. In this course you write
# distributed programs, count their bytes, and watch them run.

# %% tags=["folded"]
# The end of the four processes, and what to type if a terminal does not find distlib
world.close()
print(f'"{sys.executable}" -m distlib.cli doctor')

# %% [markdown]
# ## In short
#
# - A rank is a process with a number and with a memory of its own.
# - Ranks share no memory, so they learn from each other by messages.
# - Ranks that wait for each other in a circle are in a deadlock.
# - Training with Adam in float32 keeps 16 bytes for each parameter, plus the activations.
# - Many GPUs turn years into days, but messages take time, too.
#
# ## What comes next
#
# At the end of each part of the main road you will have built:
#
# 1. **Messages and rings** (00, [01](01_messages.ipynb), [02](02_all_reduce.ipynb), [03](03_trees_and_grids.ipynb)): an
#    all-reduce in a ring, which adds up the tensors of all ranks with as few bytes as possible.
# 2. **Data parallel training** ([04](04_data_parallel.ipynb), [05](05_ddp.ipynb), [06](06_large_batches.ipynb),
#    [07](07_without_waiting.ipynb)): your own version of PyTorch's DistributedDataParallel (DDP), which sends gradients
#    while the backward pass still runs, and training that does not wait for the slowest GPU.
# 3. **Models that do not fit** ([09](09_pipeline.ipynb), [10](10_tensor_parallel.ipynb), [11](11_zero.ipynb)): a
#    pipeline, layers that are cut over ranks, and ZeRO, which divides the 16 bytes.
# 4. **Clusters** ([12](12_hybrid.ipynb), [12b](12b_experts.ipynb), [16](16_environments.ipynb),
#    [17](17_hang_clinic.ipynb), [18](18_gpus.ipynb), [19](19_capstone.ipynb)): a layout for many GPUs, models with
#    experts, repairs for programs that hang, and a small GPT that continues after a crash.
#
# <details><summary>The other lessons are side roads</summary>
#
# - [01b](01b_messages_closer.ipynb): tags, 64 ranks, and sends that do not wait
# - [02b](02b_rings_closer.ipynb): a ring on a real clock, and on unequal links
# - [03b](03b_networks.ipynb): grids, two trees, slow links, 4,096 ranks
# - [05b](05b_ddp_in_practice.ipynb): DDP in practice: data, uneven ranks, resuming
# - [06b](06b_how_large_a_batch.ipynb): how large a batch: noise, warm-up, Adam
# - [07b](07b_parameter_server.ipynb): parameter servers, in full
# - [07c](07c_servers_that_fail.ipynb): servers that fail
# - [08](08_decentralized.ipynb): gossip, in full
# - [09b](09b_faster_pipelines.ipynb): faster pipelines: slow links, zero bubble
# - [10b](10b_whole_transformer.ipynb): a whole transformer
# - [10c](10c_cuts_closer.ipynb): forgotten gradients, a cut vocabulary
# - [11b](11b_price_a_run.ipynb): the price of a run on GPUs that you don't have
# - [11c](11c_memory_deeper.ipynb): memory, deeper: hybrid shards, checkpoints
# - [12c](12c_layouts.ipynb): how far to trust a formula for a layout
# - [12d](12d_long_and_sparse_closer.ipynb): long sequences and experts, in full
# - [13](13_tensorflow.ipynb): TensorFlow
# - [13b](13b_tensorflow_failures.ipynb): when TensorFlow fails
# - [14](14_jax.ipynb): JAX
# - [14b](14b_jax_in_use.ipynb): JAX in use
# - [15](15_frameworks.ipynb): frameworks such as DeepSpeed
# - [16b](16b_launching.ipynb): node lists, hangs, silent machines
#
# </details>
#
# Most lessons have an exercise with tests. The file `my_course.md`, in the top folder of the file browser, lists all
# lessons with their hours and shows how far you are.
#
# The next lesson, [Messages](01_messages.ipynb), repairs the swap in three ways, and then sends data from one rank to
# all ranks.
#
# ## Glossary
#
# <details><summary>The words of the course, and the lesson that explains each</summary>
#
# In this lesson:
#
# - **rank**: one process of a distributed program, and its number. Four ranks are rank 0 to rank 3.
# - **world size**: how many ranks there are. In `World(4)` it is 4.
# - **communicator**: the object through which a rank talks to the others. `comm.send(tensor, dst=1)` sends to rank 1.
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
# - **round**: the place of a message in a chain, in which each message had to wait for the one before. If rank 0 sends
#   to rank 1, and rank 1 then sends to rank 2, that is two rounds.
# - **step**: the time in which a rank can send one message and receive another, often one pass of a loop. A
#   rank that sends to three others needs three steps.
# - **virtual second**: a second on the clock of a `SimulatedWorld`. `comm.sleep(2)` takes two of them, none of yours.
# - **root**: the rank that has, or gets, everything. In a broadcast from root 0, rank 0 hands out the first weights.
# - **part**: a piece of a tensor or a batch. Of 8 numbers on 4 ranks, part 1 is numbers 2 and 3.
#
# In [02, All-reduce](02_all_reduce.ipynb):
#
# - **all-reduce**: combines the tensors of all ranks, usually into a sum, and gives every rank the result.
# - **chunk**: the part of a tensor that moves in one step. A ring of 4 ranks cuts the gradients into 4 chunks.
#
# In [03, Trees](03_trees_and_grids.ipynb):
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
# In [12b, Experts and long sequences](12b_experts.ipynb):
#
# - **expert**: one of many MLPs in a layer. A token goes through a few of them, such as 2 of 8.
# - **router**: the linear layer that picks the experts of each token.
# - **all-to-all**: each rank has a message for every other rank, such as the tokens for its experts.
#
# In [16, Environments](16_environments.ipynb):
#
# - **launcher**: the program that starts the ranks, and tells each who it is: `torchrun`, `srun`.
# - **allocation**: the nodes that a cluster's scheduler gives to one job, for a time.
# - **checkpoint**: all that a training needs to go on, in a file.
#
# </details>
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
