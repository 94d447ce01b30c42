# %% [markdown]
# # From here to GPUs
#
# You time a large matmul on a GPU, and the clock says 20 microseconds. The matmul should take a millisecond, and the
# clock is right. You have timed how long it takes to ask for a matmul.
#
# **This lesson is optional.** No later lesson needs it.
#
# > After this lesson you will be able to
# >
# > - say which parts of your program differ on GPUs, and which stay,
# > - time what a GPU does, and not the queue in front of it,
# > - say when `loss.item()` costs half of a step, and when it costs nothing,
# > - read the table of an all-reduce benchmark, and turn it into a link for the simulator,
# > - see in a profiler's trace how much of the communication is hidden,
# > - say what bfloat16 saves, what it does not, and which sum it spoils.
# >
# > **Time:** about 60 minutes. **You need:** [All-reduce](02_all_reduce.ipynb), [DDP](05_ddp.ipynb) and
# > [Environments](16_environments.ipynb). No GPU: the ideas are shown with the simulator and with processes. A section
# > that ends in a measurement on a GPU makes it on yours. Without one it shows what was recorded on a real card, with
# > the card's name, versions, date and command, or says that it was not run yet. No such number is invented.

# %% tags=["folded"]
# The imports
import sys
import tempfile
from pathlib import Path

import torch

from distlib import (
    Cluster,
    Communicator,
    Comparison,
    Link,
    SimulatedWorld,
    World,
    all_reduce,
    all_reduce_seconds,
    gpus,
    torch_distributed,
)
from distlib.draw import predict, predicted_and_measured, step_timeline, sweep

# %%
torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% [markdown]
# ## The same program
#
# A rank's function does not know what carries its messages. The world chooses, by what it finds:
#
# | the machine has | `World(4)` | `comm.device` |
# |---|---|---|
# | no GPU | four processes, shared memory | `cpu` |
# | one GPU, or two, or three | the same | `cpu` |
# | four GPUs or more | four processes, **NCCL** | `cuda:0` to `cuda:3` |
#
# NCCL is NVIDIA's library of collectives, and torch's backend for its cards. It wants a GPU for each rank. Two ranks on
# one card are an error: "Duplicate GPU detected". So with too few cards the ranks stay on the processor. Then a rank
# may still compute on the card, with `tensor.to("cuda")`, but four ranks share its memory and its time.
#
# With a single card you can try your program on NCCL all the same: `World(4, backend="nccl")`. Each rank then tells
# NCCL that it is a machine of its own (`NCCL_HOSTID`), and that the loopback is the network (`NCCL_SOCKET_IFNAME`). So
# messages leave the card and come back. That is slow, and NVIDIA does not support it. But on one H200 it gave right
# results: for the broadcasts, reduces, gathers, scatters and all-reduces of this course, and for all ways to train of
# [lesson 19](19_capstone.ipynb). Such a run tells you whether a program works, not how fast it is.
#
# A program that asks for `comm.device` runs on both. In a file it looks like this.

# %%
folder = Path(tempfile.mkdtemp())
script = folder / "train.py"
script.write_text("""\
import torch
from distlib import all_reduce

def main(comm):
    gradient = torch.full((3,), comm.rank + 1.0, device=comm.device)
    all_reduce(comm, gradient)
    return f"{comm.device.type}: {gradient.tolist()}"
""")
sys.path.insert(0, str(folder))
from train import main

with World(4) as world:
    said = world.run(main)
    carried_by = world.backend
print(f"{carried_by.replace('_', ' ')}; rank 3 has {said[3]}")

# %% tags=["folded"]
# Checks of the numbers above
cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
assert carried_by == ("nccl" if cards >= 4 else "shared_memory")
assert all(line.endswith("[10.0, 10.0, 10.0]") for line in said)

# %% [markdown]
# The same file runs without a notebook, as [lesson 16](16_environments.ipynb) shows:
#
#     distlib launch --ranks 4 train.py:main    # four ranks on this machine
#     srun distlib launch train.py:main         # in a Slurm job
#
# What `main` returns is not printed there: let rank 0 print what you want to see.
#
# There, too, NCCL is taken if each of up to 16 ranks has a card of its own, and else what the processor has. Under
# `srun` and `torchrun` you may choose: `--backend nccl`, or `--backend gloo`. A program of torch's own asks for NCCL,
# and for its card:
#
#     torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))    # my card; set by torchrun
#     dist.init_process_group("nccl")
#
# Without the first line all ranks of a node take card 0, and NCCL refuses. That is the first error most people meet.
#
# So far nothing is new. What is new about a GPU is *time*.
#
# ## A queue
#
# `matrix @ matrix` on a GPU does not multiply. It puts a **kernel**, a program for the card, into a queue, and returns.
# The card takes kernels out of the queue, one after the other. So processor and card work at the same time.
#
#     processor   ▒▒▒▒▒▒▒▒▒▒▒▒                     ▒ puts a kernel into the queue: microseconds
#     GPU          ██████████████████████████      █ computes
#                            ↑            ↑
#             the calls have returned      the work is done
#
# Let us play it: rank 0 is the processor, rank 1 is the card. A message is a kernel in the queue, and the link costs
# nothing. `prepare` is the time that the processor needs for everything else in a step: Python code, and the next
# batch. `read` is `loss.item()`. It needs the number, so it waits until the queue is empty.

# %%
STEPS, KERNELS, CALL = 200, 100, 5e-6  # a call takes 5 µs


def processor(comm: Communicator, prepare: float, read: bool) -> float:
    for _ in range(STEPS):
        comm.sleep(prepare)
        for _ in range(KERNELS):
            comm.sleep(CALL)
            comm.isend(torch.zeros(1), dst=1)
        if read:
            comm.recv(torch.zeros(1), src=1)
    return comm.time()


def card(comm: Communicator, kernel: float, read: bool) -> float:
    for _ in range(STEPS):
        for _ in range(KERNELS):
            comm.recv(torch.zeros(1), src=0)
            comm.sleep(kernel)
        if read:
            comm.send(torch.zeros(1), dst=0)
    return comm.time()


def machine(comm: Communicator, kernel: float, prepare: float, read: bool) -> float:
    if comm.rank == 0:
        return processor(comm, prepare, read)
    return card(comm, kernel, read)


# %%
FREE = Link(latency=0, bandwidth=1e15)


def step_us(
    kernel: float, prepare: float = 0.0, read: bool = False
) -> tuple[float, float]:
    """µs per step: until the calls have returned, and until the work is done."""
    seconds = SimulatedWorld(2, Cluster.flat(2, FREE)).run(
        machine, kernel, prepare, read
    )
    return 1e6 * seconds[0] / STEPS, 1e6 * seconds[1] / STEPS


# %% [markdown]
# A kernel takes 20 µs, a call 5 µs, and a step has 100 kernels. Somebody times one step:
#
#     start = time.perf_counter()
#     step()
#     print(time.perf_counter() - start)

# %%
guess_1 = predict("What does this clock say, in microseconds?", unit="µs")

# %%
returned, done = step_us(kernel=20e-6)
print(f"returned after {returned:,.0f} µs, done after {done:,.0f} µs")
print(guess_1.compare(returned))

# %% tags=["folded"]
# Checks of the numbers above
assert abs(returned - KERNELS * CALL * 1e6) < 1
assert abs(done - 2000) < 1

# %% [markdown]
# The clock says 500 µs. The step takes 2,000 µs. It has timed the calls. This is the most common mistake in timing, and
# it looks like success: whoever makes a kernel slower sees no difference, whoever makes the calls fewer sees a miracle.
# (A real queue holds about a thousand kernels. Then the calls wait, too, and a longer loop shows the truth. The second
# table below has counted them: behind products of large matrices, the call after the last kernel that fits waits until
# one of these products is done.)
#
# The cure is to wait for the queue before both readings: `torch.cuda.synchronize()`. Or let the card take the time.
# A `torch.cuda.Event` is a mark in the queue. The card notes when it passes the mark.
#
#     begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
#     begin.record()
#     step()
#     end.record()
#     end.synchronize()
#     print(begin.elapsed_time(end), "ms")
#
# The queue is called a **stream**. A program may have several: kernels in different streams may run at the same time.
# NCCL's kernels get a stream of their own when the collective is asynchronous, as those of DDP are. That is how an
# all-reduce hides behind the backward pass.

# %%
gpus.recordings.show("queue")
gpus.recordings.show("full_queue")

# %% [markdown]
# ### What `.item()` costs
#
# Almost every training loop has `total += loss.item()`. It is said to be slow. Is it? Now the processor also prepares
# something for 500 µs in each step. So it needs 1,000 µs, and the card 2,000 µs.

# %%
guess_2 = predict(
    "How much longer is the step if the loss is read after each one?", unit="%"
)

# %%
cost = {}
for name, kernel, prepare in (
    ("kernels of 20 µs, nothing to prepare", 20e-6, 0.0),
    ("kernels of 20 µs, 500 µs of preparing", 20e-6, 500e-6),
    ("kernels of 10 µs, 1,000 µs of preparing", 10e-6, 1000e-6),
    ("kernels of 2 µs, 500 µs of preparing", 2e-6, 500e-6),
):
    without, with_it = (step_us(kernel, prepare, read)[1] for read in (False, True))
    cost[name] = 100 * (with_it / without - 1)
    both_us = f"{without:6,.0f} µs, read after each step {with_it:6,.0f} µs"
    print(f"{name:40} {both_us}: {cost[name]:+5.1f} %")
print(guess_2.compare(cost["kernels of 20 µs, 500 µs of preparing"]))

# %% tags=["folded"]
# Checks of the numbers above, and of the rule below
assert [round(each) for each in cost.values()] == [0, 25, 33, 0]
for kernel, prepare in (
    (20e-6, 0.0),
    (20e-6, 5e-4),
    (10e-6, 1e-3),
    (7e-6, 3e-3),
    (2e-6, 5e-4),
    (5e-6, 1e-3),
    (30e-6, 4e-3),
):
    without, with_it = (step_us(kernel, prepare, read)[1] for read in (False, True))
    left = KERNELS * kernel - (KERNELS - 1) * CALL if kernel > CALL else kernel
    rule = 1e6 * min(prepare + CALL, left)
    assert abs(with_it - without - rule) < 0.01 * without

# %% [markdown]
# A quarter of a step, or nothing. `.item()` itself is cheap. What it takes away is the head start. Without it the
# processor prepares the next step while the card still computes. With it they take turns. So it costs the shorter of
# two times: what the processor prepares, and what is left of the card's work when the last call has returned.
#
# That is almost nothing where nothing is prepared. And almost nothing where a kernel is shorter than a call, for there
# the card is done as soon as the last call is. Kernels of small models are that short.
#
# The same wait hides in `print(loss)`, `if loss > 10`, `tensor.cpu()`, `tensor.nonzero()` and `tensor[mask]`: each
# needs a value, or a size, that only the card knows. And in `torch.tensor([1.0, 2.0], device="cuda")`: that is a copy
# from pageable memory, and such a copy waits ([lesson 05b](05b_ddp_in_practice.ipynb)). Not in
# `torch.where(mask, a, b)`, in `clip_grad_norm_` as it is by default, or in the `step()` of SGD and Adam.
#
# **Try it.** Which `prepare` makes reading the loss cost most, for kernels of 20 µs? Guess, then try five values.

# %%
for micro in (500,):  # more values
    without, with_it = (step_us(20e-6, micro * 1e-6, read)[1] for read in (False, True))
    print(f"{micro:5} µs: {100 * (with_it / without - 1):+.1f} %")

# %% tags=["folded"]
# One way to do it
# And what follows: where processor and card need the same time, here 2,000 µs each; the
# step is 75 % longer then
tried = {}
for micro in (250, 500, 1000, 1500, 2000, 3000, 6000):
    without, with_it = (step_us(20e-6, micro * 1e-6, read)[1] for read in (False, True))
    tried[micro] = 100 * (with_it / without - 1)
    print(f"{micro:5} µs: {tried[micro]:+.1f} %")
assert max(tried, key=tried.get) == 1500 and round(tried[1500]) == 75
sweep(
    {"read after each step": {x: y / 100 for x, y in tried.items()}},
    along="µs of preparing in each step",
    title="What reading the loss costs",
    subtitle="how much longer than without reading, in virtual time",
    percent=True,
)

# %% [markdown]
# Now a real card. The kernels of a step of 256 samples are that short: the processor needs longer to call them than the
# card to run them. A step of 65,536 samples keeps the card busy. So by the rule, reading costs nothing in the first
# three rows, and 4 ms in the last. The rule leaves out the read itself, some tenths of a millisecond.

# %%
gpus.recordings.show("item")

# %% [markdown]
# ### The first call
#
# The first call is different. Code is loaded to the card, and memory is reserved. With
# `torch.backends.cudnn.benchmark = True`, which is not the default, several kernels are tried for each new shape. So a
# timing begins with calls that do not count. `time_call` does all three: it warms up, waits for an empty queue, and
# waits for the result. On a processor there is no queue, and both readings are nearly the same.

# %%
matrix = torch.ones(256, 256)
times = gpus.time_call(lambda: matrix @ matrix, "cpu")
print(
    f"returned after {1e6 * times.returned:.0f} µs, done after {1e6 * times.done:.0f} µs"
)
assert times.returned <= times.done

# %% [markdown]
# On a card, a convolution of 64 images. If you run the cell twice, the first call is gone: its code is loaded already.

# %%
gpus.recordings.show("first_calls")

# %% [markdown]
# ### Copies
#
# A batch has to get to the card, from pageable or from page-locked memory. [Lesson 05b](05b_ddp_in_practice.ipynb) says
# what these are, and why `non_blocking=True` alone may change nothing.

# %%
gpus.recordings.show("copies")

# %% [markdown]
# ## The table of a benchmark
#
# Before you train on a new cluster, you run NVIDIA's `all_reduce_perf`. A line of its table has, for one size, the
# number of elements, their type and the operation; then twice, for a result in another buffer and for one in place, the
# time, two bandwidths and the number of wrong elements. The bandwidths are
#
# - **algbw**, the algorithm bandwidth, $S/T$: the bytes of the tensor, divided by the time,
# - **busbw**, the bus bandwidth, $S/T \cdot 2(N-1)/N$.
#
# Where does the factor come from? From [lesson 02](02_all_reduce.ipynb): on average over the ranks, no all-reduce of
# messages can send less than $2(N-1)/N \cdot S$ per rank. So busbw is what each *link* has carried, if the algorithm
# sends no more than it must, and a ring sends no more. Only this number can be held against the data sheet of a link.

# %%
guess_3 = predict(
    "A link carries 25 GB/s. At most how large is algbw on 8 ranks, with a ring?",
    unit="GB/s",
)

# %%
limit = 25 / gpus.sent_at_least(8)
print(f"algbw at most {limit:.1f} GB/s: 4/7 of the link")
example = gpus.MeasuredAllReduce(
    ranks=8, nbytes=64_000_000, seconds=64e6 / (limit * 1e9)
)
print(
    f"64 MB in {1e3 * example.seconds:.2f} ms: busbw {example.bus_bandwidth / 1e9:.1f}"
)
print(guess_3.compare(limit))

# %% tags=["folded"]
# Checks of the numbers above
# The factor is what a ring sends, and its limit is 2
assert abs(limit - 25 * 4 / 7) < 1e-9 and abs(example.bus_bandwidth - 25e9) < 1


def ring(comm: Communicator, length: int, algorithm: str = "ring") -> None:
    all_reduce(comm, torch.empty(length, device="meta"), algorithm=algorithm)


for ranks in (2, 4, 8, 16):
    counted = SimulatedWorld(ranks)
    counted.run(ring, 48 * ranks)
    assert (
        counted.trace.bytes_sent == [gpus.sent_at_least(ranks) * 4 * 48 * ranks] * ranks
    )
assert gpus.sent_at_least(1024) > 1.998

# %% [markdown]
# So 14 GB/s may be all that there is, and nothing is wrong. For a broadcast the factor is 1, for an all-gather
# $(N-1)/N$.
#
# One exception is common: switches that add numbers up themselves, as those inside a node of eight H100 do by default.
# Then the ranks send less than the formula says, and busbw can exceed the link.
#
# Now measure this machine: torch's own all-reduce, over gloo or over NCCL. Ranks that share a few cores, and
# whatever else runs on them, make the numbers jump.

# %%
ranks = 4
with World(ranks) as world:
    table = gpus.sweep_all_reduce(world)
print(f"{ranks} ranks\n{gpus.HEADER}")
print(*table, sep="\n")

# %% [markdown]
# Small tensors have a tiny bandwidth: they pay for latency, and their time hardly depends on the size. Large ones come
# near a limit, on a quiet machine. Both are the model of [lesson 03](03_trees_and_grids.ipynb): a ring takes
# $T = 2(N-1)(\alpha + S/(N B))$. Fit α and B, and you have a link for the simulator.

# %%
link = gpus.fit_ring(table)
print(f"α = {link.latency * 1e6:.0f} µs, B = {link.bandwidth / 1e9:.2f} GB/s")
compared = []
for each in table:
    simulated = SimulatedWorld(ranks, Cluster.flat(ranks, link))
    simulated.run(ring, each.nbytes // 4)
    compared.append(Comparison(each.nbytes, simulated.elapsed, each.seconds))
print(f"the largest error of the fit: {max(each.error for each in compared):.0%}")
predicted_and_measured(
    compared, title="The fitted link, simulated, against the machine"
)

# %% tags=["folded"]
# Checks of the text above
# A simulated ring is the formula; the fit finds a link that is known
for each, simulated in zip(table, compared, strict=True):
    chunk = each.nbytes / ranks
    formula = 2 * (ranks - 1) * (link.latency + chunk / link.bandwidth)
    assert abs(simulated.predicted / formula - 1) < 1e-6
    assert (
        abs(each.bus_bandwidth / each.algorithm_bandwidth - gpus.sent_at_least(ranks))
        < 1e-9
    )
KNOWN = Link(latency=8e-6, bandwidth=12e9)
rows = []
for nbytes in (1 << 12, 1 << 18, 1 << 24):
    known = SimulatedWorld(8, Cluster.flat(8, KNOWN))
    known.run(ring, nbytes // 4)
    rows.append(gpus.MeasuredAllReduce(8, nbytes, known.elapsed))
assert abs(gpus.fit_ring(rows).latency / KNOWN.latency - 1) < 1e-6
assert abs(rows[-1].bus_bandwidth / KNOWN.bandwidth - 1) < 0.06
assert rows[0].bus_bandwidth < KNOWN.bandwidth / 100

# %% [markdown]
# The fit is no truth. It is what a ring would need to take that long. If NCCL has chosen a tree for small sizes, or
# another protocol for large ones, α and B mix both. And a machine that does something else meanwhile measures that. Run
# the cell of the table again, then this one, and see which points move.
#
# Does the link of 2 ranks tell the time of 4?

# %%
with World(2) as pair:
    link_of_two = gpus.fit_ring(gpus.sweep_all_reduce(pair))
for each in table[::3]:
    by_two = all_reduce_seconds(
        "ring", Cluster.flat(ranks, link_of_two), each.nbytes // 4, 4
    )
    times_ms = (
        f"predicted {1e3 * by_two:8.2f} ms, measured {1e3 * each.seconds:8.2f} ms"
    )
    print(f"{each.nbytes:>12,} B: {times_ms}")
print(f"α {link_of_two.latency * 1e6:.0f} µs of 2, {link.latency * 1e6:.0f} µs of 4")
assert link_of_two.bandwidth > 0 < link.bandwidth

# %% [markdown]
# Mostly it does not, here: four ranks share cores and memory that two had for themselves. On a cluster it is the same
# with a shared cable. So measure with as many ranks as you will train with, or fit each kind of link by itself, as
# [lesson 03b](03b_networks.ipynb) needs them.

# %%
gpus.recordings.show("all_reduces")

# %% [markdown]
# **Try it.** A colleague's table for 16 ranks has 11.2 GB/s algbw at 1 GiB, on links of 25 GB/s. Is there something to
# gain? Compute what share of the link is used.

# %%
colleague = gpus.MeasuredAllReduce(
    ranks=16, nbytes=1 << 30, seconds=1.0
)  # change the time
print(f"{colleague.bus_bandwidth / 25e9:.0%} of the link")

# %% tags=["folded"]
# One way to do it
# And what follows: hardly, 84 % of the link are used
colleague = gpus.MeasuredAllReduce(ranks=16, nbytes=1 << 30, seconds=(1 << 30) / 11.2e9)
print(f"{colleague.bus_bandwidth / 25e9:.0%} of the link")
assert abs(colleague.bus_bandwidth / 25e9 - 0.84) < 0.001

# %% [markdown]
# ## What the profiler sees
#
# `torch.profiler` notes each operation: on which thread or in which stream, from when to when.
#
#     with torch.profiler.profile() as profile:
#         with torch.profiler.record_function("forward"):   # a name of your own in the trace
#             loss = model(images)
#         …
#     profile.export_chrome_trace("trace.json")             # for a viewer, such as Perfetto
#
# The file has hundreds of events for one step. Here we keep three kinds: computing in the forward pass, computing in
# the backward pass, and communication, which is `gloo:all_reduce` on gloo's threads. Then the picture of lesson 05 can
# be drawn from it.
#
# This is a step of torch's DDP: 8 layers of 1 MiB, buckets of 2 MiB, 2 ranks. The backward pass computes the gradients
# of the last layer first.

# %%
guess_4 = predict(
    "Four buckets, four all-reduces. Which can't hide behind the backward pass?",
    choices=["the first", "the last", "all", "none of them"],
)

# %%
with World(2) as world:
    seen = world.run(gpus.profile_ddp, batch=256)[0]
share = seen.hidden / seen.communicating
print(f"a step of {1e3 * seen.seconds:.0f} ms, computing {1e3 * seen.computing:.0f} ms")
print(f"communication {1e3 * seen.communicating:.0f} ms, hidden {share:.0%}")
print(guess_4.compare("the last"))
step_timeline({"DDP": seen}, title="A step of DDP, as the profiler has seen it")

# %% tags=["folded"]
# Checks of the text above
all_reduces = seen.of("communication")
print(len(all_reduces), "all-reduces")
assert len(all_reduces) == 4
first_computed = seen.of("backward")[0].start
assert first_computed < all_reduces[0].start and all_reduces[0].start < seen.end
assert seen.hidden < seen.communicating + 1e-9

# %% [markdown]
# Four all-reduces, one per bucket. The first begins in the middle of the backward pass. The last begins when the last
# gradient has been computed, so nothing is left to hide it. What computes afterwards only copies averages.
#
# How much is hidden changes from run to run on a busy machine. And hidden is not the same as free. Here both compete
# for the same cores: gloo's threads add up numbers while the backward pass multiplies matrices. On a GPU NCCL's kernels
# take some of the card's processors away from computing, too.
#
# A trap when you read such traces: operations lie within others. The frame in which DDP hands a bucket over is part of
# an event called `autograd::engine::evaluate_function`. Who counts that as computing finds everything hidden.
#
# On a GPU the profiler tells more: the *calls* on the processor's threads, and the *kernels* in the streams of the
# card. A gap between kernels, while the thread above is busy with calls, means: the processor is too slow. A gap that
# begins where a `cudaStreamSynchronize` ends means: somebody has read a value, or has waited for a copy, and then there
# was nothing in the queue.

# %% [markdown]
# Here are forward and backward of the same two steps as above, without the optimizer. Of the small one the card
# computes for a few per cent. Compare the time of this step with that above: the profiler makes it several times as
# long. But also without it, the card is busy for a small part of such a step, and a faster card would not help.

# %%
gpus.recordings.show("kernels")

# %% [markdown]
# And a step of DDP on two cards:

# %%
gpus.recordings.show("overlap")

# %% [markdown]
# ## Half of the bytes
#
# A card multiplies matrices of **bfloat16** faster than those of float32, since the generation of the A100. The last
# cell of this section measures how much. And a message of bfloat16 has half of the bytes. A bfloat16 has the exponent
# of a float32, so the same range. But it has only 8 binary digits of precision where float32 has 24.

# %%
guess_5 = predict(
    "320 ranks have a gradient of 1.0 each, in bfloat16. A ring sums them up. What comes out?"
)


# %%
def sum_of_ones(comm: Communicator, algorithm: str, dtype: torch.dtype) -> float:
    ones = torch.ones(comm.world_size, dtype=dtype)
    all_reduce(comm, ones, algorithm=algorithm)
    return float(ones[0])


RANKS = 320
many = SimulatedWorld(RANKS)
sums = {
    name: many.run(sum_of_ones, name, torch.bfloat16)[0] for name in ("ring", "tree")
}
for name, total in sums.items():
    print(f"{name}: {total:.0f}")
print(guess_5.compare(sums["ring"]))


# %% [markdown]
# What does a ring do with one element? It adds one rank after the other. So a loop gives the same sum in no time.


# %%
def one_after_the_other(values: torch.Tensor) -> torch.Tensor:
    """The sum of the rows as a ring adds them up: rounded after each addition."""
    total = torch.zeros_like(values[0])
    for value in values:
        total = total + value
    return total


ones = torch.ones(RANKS, 1)
print(f"bfloat16 {one_after_the_other(ones.bfloat16()).item():.0f}")
print(f"float32  {one_after_the_other(ones).item():.0f}")

# %% tags=["folded"]
# Checks of the numbers above and below
assert sums == {"ring": 256, "tree": 320}
assert one_after_the_other(ones).item() == 320
assert one_after_the_other(ones.bfloat16()).item() == 256


def of_equal(ranks: int, value: float) -> float:
    values = torch.full((ranks, 1), value, dtype=torch.bfloat16)
    return one_after_the_other(values).item()


assert 256 / RANKS == 0.8
assert of_equal(200, 1.0) == 200 and round(of_equal(200, 1 / 200), 2) == 0.91
assert of_equal(512, 1 / 512) == 0.5
assert 1.06 < of_equal(RANKS, 1 / 3) / (RANKS / 3) < 1.07
for seed in range(3):
    torch.manual_seed(seed)
    rows = torch.randn(RANKS, 2048).bfloat16()
    exact = rows.double().sum(0)
    error = (one_after_the_other(rows).double() - exact).square().mean()
    assert 0.015 < (error / exact.square().mean()).sqrt() < 0.025
    once = (exact.bfloat16().double() - exact).square().mean()
    assert 0.001 < (once / exact.square().mean()).sqrt() < 0.003

# %% [markdown]
# It is 256. From there on, adding 1 changes nothing: the next number that bfloat16 has is 258, and 257 is rounded back
# to the even one. So the mean gradient would be 0.8 instead of 1. A tree adds sums of equal size, and is right here. In
# float32 both are.
#
# To divide before the sum is no cure. With 200 ranks, whose sum of ones is right, it gives 0.91; with 512 ranks it
# gives 0.5. Other values err in other directions: 320 times 1/3 comes out 7 % too large. Random numbers of both signs
# fare better. Their sum is off by some 2 %, in the root mean square; rounded once, by 0.2 %.
#
# Hence the rule of mixed precision: compute in bfloat16, *sum up* in float32. `fully_shard` has
# `MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)` for it
# ([11c](11c_memory_deeper.ipynb)). `torch.autocast("cuda", dtype=torch.bfloat16)`, the usual way with DDP, keeps
# parameters and gradients in float32, and multiplies matrices in bfloat16. (Without `dtype` it takes float16 there.)
#
# Then a gradient has four bytes on its way, as before. What is saved is time to compute, memory for activations, and
# with `fully_shard` half of the bytes of gathered parameters. Who sends gradients in bfloat16, to save those bytes,
# too, takes the error. It is rarely as large as here, since gradients of different samples mostly differ in sign. But
# where they agree, it is the same in each step, and does not average out.
#
# **Try it.** From how many ranks on does the ring miss the bfloat16 that is nearest to the true sum? Guess first.

# %%
for ranks in (200, 300):  # more values
    total = one_after_the_other(torch.ones(ranks, 1, dtype=torch.bfloat16)).item()
    nearest = torch.tensor(float(ranks)).bfloat16().item()
    print(f"{ranks} ranks: {total:.0f}, nearest {nearest:.0f}")

# %% tags=["folded"]
# One way to do it
# And what follows: from 258 on, since 257 is nearest to 256; values with more digits go
# wrong much sooner
for ranks in (256, 257, 258):
    nearest = torch.tensor(float(ranks)).bfloat16().item()
    print(f"{ranks} ranks: {of_equal(ranks, 1.0):.0f}, nearest {nearest:.0f}")
    assert (of_equal(ranks, 1.0) == nearest) == (ranks < 258)
assert abs(of_equal(64, 1 / 3) / (64 / 3) - 1) > 0.005

# %% [markdown]
# On a card there is a third way. **TF32** takes numbers of float32, but multiplies with 11 binary digits of each. torch
# does so only if asked: `torch.set_float32_matmul_precision("high")`.

# %%
gpus.recordings.show("formats")

# %% [markdown]
# ## Memory of a card
#
# Three numbers, and the difference between them explains most "out of memory":
#
# - `torch.cuda.memory_allocated()`: bytes of the tensors that are alive,
# - `torch.cuda.max_memory_allocated()`: the most that there were at once,
# - `torch.cuda.memory_reserved()`: what torch has taken from the card and keeps. `nvidia-smi` shows this one, and more.
#
# Freed tensors return to torch, not to the card. So `nvidia-smi` does not fall when you delete a tensor. (On the
# processor the same happens to small pieces: [lesson 11c](11c_memory_deeper.ipynb).) And pieces of freed memory may be
# too small for the next tensor, although their sum is not. `torch.cuda.memory._record_memory_history()` and
# `torch.cuda.memory._dump_snapshot("snapshot.pickle")` write down each block and the line that asked for it;
# [pytorch.org/memory_viz](https://pytorch.org/memory_viz) draws it.
#
# Below, some megabytes are there before the model: room to work in, kept for the library that multiplies matrices. And
# more is reserved than that, since torch gives back only whole blocks of which no part is in use. The peak comes when
# the backward pass begins. All activations are still there, the derivative of the loss needs room for four more tensors
# of their size, and no weight has a gradient yet. The peak is a record: it does not fall when the tensors are gone.

# %%
gpus.recordings.show("memory")

# %% [markdown]
# ## One card, two cards
#
# The question at the end: how many times faster are two? The samples per rank stay the same, so two cards do twice the
# work per step. What is missing to a factor of 2 is communication that was not hidden, computing that the hidden
# part has slowed down, and the wait for the slower card.

# %%
gpus.recordings.show("two_gpus")

# %% [markdown]
# ## When it does not start
#
# NCCL says little unless asked. These variables are set before the program starts, on all ranks:
#
# | variable | what it does |
# |---|---|
# | `NCCL_DEBUG=INFO` | says what each rank has found: version, networks, cards, and how they are connected |
# | `NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH` | about which subjects; without it there is none of NET and GRAPH |
# | `NCCL_SOCKET_IFNAME=eth0` | the network interface to use; the usual cure where a node has several |
# | `NCCL_IB_DISABLE=1` | without InfiniBand: to find out whether that is what is broken |
# | `NCCL_P2P_DISABLE=1` | without direct copies between cards, for the same purpose |
# | `NCCL_ALGO=Ring`, `NCCL_PROTO=Simple` | forces an algorithm, a protocol: for measurements, not for training |
# | `TORCH_NCCL_ASYNC_ERROR_HANDLING` | what torch does about a collective that fails: by default it ends the process |
# | `CUDA_LAUNCH_BLOCKING=1` | each call waits for its kernel: an error names the right line, and all is slow |
#
# The last one is the queue again. An error in a kernel is noticed at some later call, so the line in the message is
# innocent.
#
# ## In real frameworks
#
# What a GPU needed here was torch's: `torch.profiler`, `torch.cuda.Event`, `torch.distributed`. A last comparison,
# which any machine can make: does gloo round like our ring? Four ranks have bfloat16. Sums of whole numbers from -9 to
# 9 need no rounding, so they must be the same. Of random numbers some sums differ: gloo adds them in another order, so
# it rounds other partial sums.


# %%
def both(comm: Communicator, exact: bool) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(comm.rank)
    numbers = torch.randint(-9, 10, (1001,)) if exact else torch.randn(1001)
    ours, theirs = numbers.bfloat16(), numbers.bfloat16()
    all_reduce(comm, ours)
    with torch_distributed(comm, "gloo") as dist:
        dist.all_reduce(theirs)
    return ours, theirs


with World(4) as world:
    assert all(torch.equal(ours, theirs) for ours, theirs in world.run(both, True))
    ours, theirs = world.run(both, False)[0]
differ = (ours != theirs).float().mean()
print(f"exact sums agree; of others {differ:.0%} differ")


def error(sums: torch.Tensor) -> float:
    true = sum(
        torch.randn(1001, generator=from_seed(rank)).bfloat16().double()
        for rank in range(4)
    )
    return float((sums.double() - true).abs().mean())


def from_seed(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


print(f"mean error: ours {error(ours):.4f}, gloo's {error(theirs):.4f}")
assert 0 < differ < 0.5 and 0.5 < error(ours) / error(theirs) < 2

# %% [markdown]
# Neither is nearer to the truth.

# %% [markdown]
# ## In short
#
# - Before you read the clock, make some calls that do not count, and empty the queue.
# - Reading a value makes the program wait for the card.
# - Compare busbw with the link. For a ring all-reduce, it is algbw times 2(N − 1)/N.
# - A profiler's trace shows which communication is hidden.
# - Sum gradients in float32: a ring in bfloat16 errs more with more ranks.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - A call returns when its kernel is in the queue. Time with the queue empty before and waited for after, or with
#   events; and not the first calls.
# - Reading a value from the card costs the shorter of two times: what the processor has to prepare, and what is left of
#   the card's work when the last call has returned. That can be half of the step, or almost nothing.
# - busbw is algbw times $2(N-1)/N$, for an all-reduce. It is the number to hold against a link, unless a switch adds up
#   by itself, or the algorithm sends more than it must.
# - A fitted α and B describe a ring that would take as long. They hold for the sizes and the ranks that were measured.
# - A profiler's trace shows how much communication is hidden. What is hidden may still slow the computing down.
# - A ring that rounds to bfloat16 after each addition errs by some per cent with hundreds of ranks whose values differ
#   in sign, and by anything from nothing to half where they are equal. Sum up in float32. That costs the bytes.
#
# </details>
#
# ## Further reading
#
# - NVIDIA, [nccl-tests: performance](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): the two
#   bandwidths, with the factor of each collective.
# - NVIDIA, [environment variables of NCCL](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
# - PyTorch, [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html): streams, asynchronous execution,
#   the allocator.
# - PyTorch, [ProcessGroupNCCL's environment
#   variables](https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html).
# - P. Micikevicius and others, [Mixed precision training](https://arxiv.org/abs/1710.03740), 2018: which values must
#   stay in float32.
