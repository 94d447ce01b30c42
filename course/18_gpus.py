# %% [markdown]
# # From here to GPUs
#
# You multiply two float32 matrices of 8,192 × 8,192 on an H200, and the clock says 20 microseconds. If the matmul were
# that fast, the GPU would be hundreds of times faster than its data sheet promises. The clock works, and the result of
# the matmul is right. So what did you measure?
#
# > After this lesson you will be able to
# >
# > - time what a GPU does, and not the queue in front of it,
# > - say when `loss.item()` costs a large part of a step, and when nearly nothing,
# > - read the table of an all-reduce benchmark, and turn it into a link for the simulator,
# > - see in a profiler's trace which communication is exposed,
# > - say which sum bfloat16 spoils.
# >
# > **Time:** about 55 minutes. **You need:** [All-reduce](02_all_reduce.ipynb), [DDP](05_ddp.ipynb) and
# > [Environments](16_environments.ipynb). No GPU.
# >
# > **This lesson is optional.** No later lesson needs it.
#
# The ideas are shown with the simulator and with processes. A cell that measures a GPU uses yours, if you have one.
# Without a GPU, the cell shows what was recorded on a real H200, with versions, date and command.

# %% tags=["folded"]
# The imports
import sys
import tempfile
from collections import Counter
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
from distlib.draw import (
    compare_costs,
    predict,
    predicted_and_measured,
    queue_lanes,
    step_timeline,
    sweep,
)
from distlib.training import Span, StepTimes

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% [markdown]
# ## What stays, and what changes
#
# A rank's function does not know what carries its messages, because the world chooses:
#
# | the machine has | `World(4)` | `comm.device` |
# |---|---|---|
# | fewer than four GPUs | four processes, shared memory | `cpu` |
# | four GPUs or more | four processes, **NCCL** | `cuda:0` to `cuda:3` |
#
# **NCCL** is NVIDIA's library of collectives. It wants a GPU for each rank, so with too few GPUs the ranks stay on the
# CPU. A program that asks for `comm.device` runs on both:

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
found = torch.cuda.device_count() if torch.cuda.is_available() else 0
assert carried_by == ("nccl" if found >= 4 else "shared_memory")
assert all(line.endswith("[10.0, 10.0, 10.0]") for line in said)

# %% [markdown]
# What changes is how fast numbers travel, and over what. The makers of an H200 node state:
#
# | link | it joins | GB/s, each way |
# |---|---|---:|
# | memory of the GPU | a GPU and its own numbers | 4,800, both ways together |
# | **NVLink** | the GPUs of a node | 450 |
# | **PCIe** | CPU and GPU | 64 |
# | **InfiniBand** | two nodes, with an adapter per GPU | 50 |
#
# **The program stays, and its links change.**
#
# <details><summary>The same file in a job, a program of plain torch, and several ranks on one GPU</summary>
#
# | you have | what to do |
# |---|---|
# | this machine | `distlib launch --ranks 4 train.py:main` |
# | a Slurm job | `srun distlib launch train.py:main`, and `--backend nccl` or `gloo` to choose |
# | a program of plain torch | `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`, then ask for `"nccl"` |
# | a single GPU | `World(4, backend="nccl")`, to try a program: right, but slow, and not supported by NVIDIA |
#
# `distlib launch` does not print what `main` returns, so let rank 0 print. It chooses NCCL by itself if there are at
# most 16 ranks, each with a GPU of its own.
#
# Without `set_device`, `"cuda"` is GPU 0 on all ranks of a node, and NCCL refuses with "Duplicate GPU detected".
#
# On a single GPU, each rank tells NCCL that it is a machine of its own (`NCCL_HOSTID`), whose network is the loopback
# (`NCCL_SOCKET_IFNAME`). On one H200 this gave right results for the broadcasts, reduces, gathers, scatters and
# all-reduces of this course, and for all ways to train of [lesson 19](19_capstone.ipynb).
#
# </details>
#
# ## What did the clock measure?
#
# On a GPU, `matrix @ matrix` does not multiply. It puts a **kernel**, a program for the GPU, into a queue and returns.
# The GPU takes kernels out of the queue, one after another. The queue is called a **stream**, and kernels that were
# called but have not finished are **in flight**.
#
# We can play this with two ranks. Rank 0 is the CPU, rank 1 is the GPU, a message is a kernel, and the link takes no
# time. `prepare` is all else that the CPU does in a step, such as making the next batch. `read` is `loss.item()`, which
# waits until the queue is empty.

# %%
KERNELS, CALL = 100, 5e-6  # kernels per step; a call takes 5 µs


def cpu(comm: Communicator, prepare: float, read: bool, steps: int) -> None:
    for _ in range(steps):
        comm.sleep(prepare)
        for _ in range(KERNELS):
            comm.sleep(CALL)
            comm.isend(torch.zeros(1), dst=1)
        if read:
            comm.recv(torch.zeros(1), src=1)


def gpu(comm: Communicator, kernel: float, read: bool, steps: int) -> None:
    for _ in range(steps):
        for _ in range(KERNELS):
            comm.recv(torch.zeros(1), src=0)
            comm.sleep(kernel)
        if read:
            comm.send(torch.zeros(1), dst=0)


# %% tags=["folded"]
# Both on their ranks, and what they did as spans for a picture
FREE = Link(latency=0, bandwidth=1e15)


class Noting:
    """A communicator that notes when its rank sleeps, and when the CPU waits to read."""

    def __init__(self, comm: Communicator) -> None:
        self.comm, self.spans = comm, []
        self.isend, self.send = comm.isend, comm.send

    def sleep(self, seconds: float) -> None:
        start = self.comm.time()
        self.comm.sleep(seconds)
        on_cpu = "calls" if seconds == CALL else "prepares"
        self.note("computes" if self.comm.rank else on_cpu, start)

    def recv(self, tensor: torch.Tensor, src: int) -> None:
        start = self.comm.time()
        self.comm.recv(tensor, src)
        if self.comm.rank == 0:
            self.note("waits", start)

    def note(self, kind: str, start: float) -> None:
        if self.comm.time() > start:
            self.spans.append(Span(kind, "", start, self.comm.time()))


def machine(
    comm: Communicator, kernel: float, prepare: float, read: bool, steps: int
) -> tuple[float, list[Span]]:
    noting = Noting(comm)
    if comm.rank == 0:
        cpu(noting, prepare, read, steps)
    else:
        gpu(noting, kernel, read, steps)
    return comm.time(), numbered(noting.spans) if steps > 1 else noting.spans


def numbered(spans: list[Span]) -> list[Span]:
    """Each with the number of its step as its name."""
    met, found = Counter(), []
    for span in spans:
        per_step = KERNELS if span.kind in ("calls", "computes") else 1
        step = str(met[span.kind] // per_step + 1)
        found.append(Span(span.kind, step, span.start, span.end))
        met[span.kind] += 1
    return found


def play(
    kernel: float, prepare: float = 0.0, read: bool = False, steps: int = 200
) -> tuple[float, float, StepTimes]:
    """µs per step until the calls have returned, and until the work is done; and all spans."""
    world = SimulatedWorld(2, Cluster.flat(2, FREE))
    (returned, called), (done, computed) = world.run(
        machine, kernel, prepare, read, steps
    )
    times = StepTimes(0.0, max(returned, done), [*called, *computed])
    return 1e6 * returned / steps, 1e6 * done / steps, times


def step_us(kernel: float, prepare: float, read: bool) -> float:
    """µs per step of a long run."""
    return play(kernel, prepare, read)[1]


# %% [markdown]
# A kernel takes 20 µs, a call 5 µs, and a step has 100 kernels. Somebody times one step:
#
#     start = time.perf_counter()
#     step()
#     print(time.perf_counter() - start)

# %%
guess_1 = predict("What does this clock say, in microseconds?", unit="µs")

# %%
returned, done, times = play(kernel=20e-6, steps=1)
print(f"returned after {returned:,.0f} µs, done after {done:,.0f} µs")
print(guess_1.compare(returned))
times.spans.append(
    Span("mark", "step() has returned", 1e-6 * returned, 1e-6 * returned)
)
queue_lanes({"one step": times}, title="What the clock measures")

# %% tags=["folded"]
# Checks of the numbers above
assert abs(returned - KERNELS * CALL * 1e6) < 1
assert abs(done - 2005) < 1

# %% [markdown]
# The clock stops at 500 µs, when the last call has returned. At this moment three quarters of the kernels are still in
# flight. Such a clock does not notice a kernel that got slower.
#
# **Most GPU calls only fill the queue: synchronize before you read the clock.**
#
# On a real GPU the two readings can differ even more. From a matrix of 64 × 64 to one of 8,192 × 8,192, the work gets
# 1,000 times as long, and the call not even twice as long. So the 20 microseconds of the first paragraph were a call.

# %% tags=["folded"]
# The picture of the recording
queue = gpus.recordings.find("queue")
compare_costs(
    {
        f"{row['matrix']:,} × {row['matrix']:,}": {
            "the call returns, µs": row["returned µs"],
            "the work is done, µs": row["done µs"],
        }
        for row in queue.rows
    },
    title="A matmul on a GPU: two readings of the clock",
    subtitle=queue.source,
    show="{:,.0f}".format,
)

# %% [markdown]
# `torch.cuda.synchronize()` waits until the queue is empty. Call it before both readings. And leave out the first
# calls, because they load code and reserve memory. `time_call` does all of this. On a CPU there is no queue, so both
# readings are nearly the same.

# %%
matrix = torch.ones(256, 256)
times = gpus.time_call(lambda: matrix @ matrix, "cpu")
print(f"returned after {1e6 * times.returned:.0f} µs, ", end="")
print(f"done after {1e6 * times.done:.0f} µs\n")
assert times.returned <= times.done
gpus.recordings.show("first_calls")  # a convolution of 64 images, on a GPU
print()
gpus.recordings.show("full_queue")

# %% [markdown]
# The second table shows that the queue can be full. While the GPU was busy with large matmuls, about 1,000 kernels
# fitted into the queue. The next call waited until a matmul was done.
#
# A program may have several streams, whose kernels may run at the same time. NCCL's kernels have a stream of their own
# when the collective is asynchronous, as DDP's all-reduces are. This is how an all-reduce hides behind the backward
# pass.
#
# <details><summary>Where this stops being true, and a clock on the GPU</summary>
#
# | case | what happens |
# |---|---|
# | more calls than the queue holds | calls wait, so a much longer loop is nearly right without synchronizing |
# | `torch.backends.cudnn.benchmark = True` | for each new shape, a convolution first tries several kernels |
#
# A `torch.cuda.Event` is a mark in the stream. The GPU notes when it passes the mark:
#
#     begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
#     begin.record()
#     step()
#     end.record()
#     end.synchronize()
#     print(begin.elapsed_time(end), "ms")
#
# </details>
#
# ## What does reading the loss cost?
#
# Many training loops have `total += loss.item()`, which is said to be slow. Is it? In our play the CPU now also
# prepares something for 500 µs per step. So a step takes the CPU 1,000 µs, and the GPU 2,000 µs.

# %%
guess_2 = predict(
    "How much longer is a step if the loss is read after each step?", unit="%"
)

# %%
cost = {}
for kernel, prepare in ((20, 0), (20, 500), (10, 1000), (2, 500)):
    without, with_it = (
        step_us(kernel * 1e-6, prepare * 1e-6, read) for read in (False, True)
    )
    cost[kernel, prepare] = 100 * (with_it / without - 1)
    print(f"kernels of {kernel:2} µs, {prepare:5,} µs of preparing: ", end="")
    print(
        f"{without:5,.0f} µs, read {with_it:5,.0f} µs: {cost[kernel, prepare]:+3.0f} %"
    )
print(guess_2.compare(round(cost[20, 500], 1)))
queue_lanes(
    {
        name: play(20e-6, 500e-6, read, steps=3)[2]
        for name, read in (("loss not read", False), ("loss read", True))
    },
    title="Three steps",
    subtitle="kernels of 20 µs, 500 µs of preparing; the number in a box is the step's",
)

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
    without, with_it = (step_us(kernel, prepare, read) for read in (False, True))
    left = KERNELS * kernel - (KERNELS - 1) * CALL if kernel > CALL else kernel
    rule = 1e6 * min(prepare + CALL, left)
    assert abs(with_it - without - rule) < 0.01 * without

# %% [markdown]
# In the upper run the CPU is ahead: it prepares the next step while the GPU still computes. In the lower run the CPU
# waits for the loss, and then the GPU waits for the next step.
#
# **After reading a value from the GPU, the CPU is no longer ahead, so the GPU waits.**
#
# Without the read, two times overlap: the CPU's preparing, and the rest of the GPU's work after the last call. So a
# read costs the shorter of the two. In the first line of the output nothing is prepared. In the last line a kernel is
# shorter than a call, so the GPU is done as soon as the calls are. Both times the read costs nearly nothing.
#
# <details><summary>What else reads, and what does not</summary>
#
# | the CPU waits | it does not |
# |---|---|
# | `print(loss)`, `if loss > 10`, `tensor.cpu()` | `torch.where(mask, a, b)` |
# | `tensor.nonzero()`, `tensor[mask]` | `clip_grad_norm_` as it is by default |
# | `torch.tensor([1.0, 2.0], device="cuda")` | `step()` of SGD and Adam |
#
# On the left, all but the last need a value or a size that only the GPU knows. The last waits for a copy to the GPU
# ([lesson 05b](05b_ddp_in_practice.ipynb)).
#
# </details>
#
# **Try it.** Which `prepare` makes reading the loss cost most, in %, for kernels of 20 µs? Guess, then try five values.

# %%
for micro in (500,):  # more values
    without, with_it = (step_us(20e-6, micro * 1e-6, read) for read in (False, True))
    print(f"{micro:5} µs: {100 * (with_it / without - 1):+.1f} %")

# %% tags=["folded"]
# One way to do it
# And what follows: where CPU and GPU need the same time, here 2,000 µs each; the
# step is 75 % longer then
tried = {}
for micro in (250, 500, 1000, 1500, 2000, 3000, 6000):
    without, with_it = (step_us(20e-6, micro * 1e-6, read) for read in (False, True))
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
# Now a real GPU, with a small batch and a large one, and a CPU that prepares for 0 or 4 ms per step. By the rule, a
# read costs 4 ms where the CPU prepares *and* the GPU has at least 4 ms of work left. This is so for the large batch
# only. The rule leaves out the read itself, some tenths of a millisecond.

# %% tags=["folded"]
# The picture of the recording
item = gpus.recordings.find("item")
PREPARES, PLAIN = "the processor prepares ms", "ms per step"
READ = "loss read in each, ms per step"
compare_costs(
    {
        f"batch {row['samples']:,}, {row[PREPARES]:g} ms": {
            "reading adds, ms per step": max(0.0, row[READ] - row[PLAIN])
        }
        for row in item.rows
    },
    title="What reading the loss costs on a GPU",
    subtitle=item.source,
    show="{:.2f}".format,
)

# %% [markdown]
# ### Is the GPU busy?
#
# Look at the two batches of the same recording. The model has eight layers of 512 × 512 weights. A step of 65,536
# samples is 256 times as much work as a step of 256 samples.

# %%
guess_3 = predict(
    "And how many times as long does the large step take?",
    choices=["about 256 times", "far fewer times", "no longer at all"],
)

# %% tags=["folded"]
# The picture of the recording, and the answer
small, large = (row[PLAIN] for row in item.rows if row[PREPARES] == 0)
factor = large / small
print(f"{small:.1f} ms and {large:.1f} ms: {factor:.0f} times as long")
at = (factor > 1.5) + (factor > 100)
print(guess_3.compare(["no longer at all", "far fewer times", "about 256 times"][at]))
peak = (
    1e12 * gpus.recordings.find("formats").rows[0]["TFLOP/s"]
)  # of a large matmul in float32
PARAMETERS = 8 * (512 * 512 + 512)


def mfu_percent(samples: int, milliseconds: float) -> float:
    """Of the peak: 6 operations per parameter and sample."""
    return 100 * 6 * PARAMETERS * samples / (milliseconds / 1e3) / peak


compare_costs(
    {
        f"{samples:,} samples": {
            "ms per step": took,
            "MFU, %": mfu_percent(samples, took),
        }
        for samples, took in ((256, small), (65_536, large))
    },
    title="A small batch and a large one",
    subtitle=item.source,
    show="{:.1f}".format,
)

# %% [markdown]
# A call takes the CPU some microseconds, however short its kernel is. In the small step the kernels are shorter than
# the calls, so the GPU waits for the CPU. **MFU**, model FLOPs utilization, is the share of the GPU's peak that the
# model's operations reach: here 4 % in the small step, and 88 % in the large one.
#
# **A small batch can leave a fast GPU idle for most of the time.**
#
# <details><summary>What counts as the peak here</summary>
#
# | peak | where it is from | MFU of the large step |
# |---|---|---:|
# | 51 TFLOP/s | the largest matmul in float32 that we measured | 88 % |
# | 67 TFLOP/s | NVIDIA's data sheet of the H200, which papers take | 67 % |
#
# </details>
#
# ## The table of a benchmark
#
# Before you train on a new cluster, you run NVIDIA's `all_reduce_perf`. For each size $S$ it prints a time $T$ and two
# bandwidths, in GB/s:
#
# - **algorithm bandwidth**, algbw, $S/T$: how fast the program gets its result,
# - **bus bandwidth**, busbw, $S/T \cdot 2(N-1)/N$: how fast each link carries bytes, if no rank sends more than it
#   must.
#
# The factor is from [lesson 02](02_all_reduce.ipynb): in an all-reduce over $N$ ranks, a rank sends at least
# $2(N-1)/N \cdot S$ bytes on average. A ring sends no more, so its busbw can be held against the data sheet of a link.

# %%
guess_4 = predict(
    "A link carries 25 GB/s. At most how large is algbw on 8 ranks, with a ring?",
    unit="GB/s",
)

# %%
S, LINK = 256_000_000, Link(latency=2e-6, bandwidth=25e9)


def ring(comm: Communicator, length: int) -> None:
    all_reduce(comm, torch.empty(length, device="meta"), algorithm="ring")


rings = []
for ranks in (2, 4, 8, 16, 32, 64):
    world = SimulatedWorld(ranks, Cluster.flat(ranks, LINK))
    world.run(ring, S // 4)
    rings.append(gpus.MeasuredAllReduce(ranks, S, world.elapsed))
print(guess_4.compare(25 / gpus.sent_at_least(8)))
sweep(
    {
        "busbw": {each.ranks: each.bus_bandwidth / 1e9 for each in rings},
        "algbw": {each.ranks: each.algorithm_bandwidth / 1e9 for each in rings},
    },
    along="ranks",
    title="A ring of 256 MB on links of 25 GB/s",
    subtitle="GB/s, in virtual time",
)

# %% tags=["folded"]
# Checks of the numbers above
# The factor is what a ring sends, and its limit is 2
assert abs(25 / gpus.sent_at_least(8) - 25 * 4 / 7) < 1e-9
assert all(24.6 < each.bus_bandwidth / 1e9 < 25 for each in rings)
assert 12.4 < rings[-1].algorithm_bandwidth / 1e9 < 13
for ranks in (2, 4, 8, 16):
    counted = SimulatedWorld(ranks)
    counted.run(ring, 48 * ranks)
    assert (
        counted.trace.bytes_sent == [gpus.sent_at_least(ranks) * 4 * 48 * ranks] * ranks
    )
assert gpus.sent_at_least(1024) > 1.998

# %% [markdown]
# All these rings use nearly the whole link, and busbw says so. The algorithm bandwidth falls to half, although nothing
# is wrong.
#
# **Compare the bus bandwidth, not the algorithm bandwidth, with the link.**
#
# <details><summary>Where this stops being true</summary>
#
# | case | what happens |
# |---|---|
# | an algorithm that sends more than a ring, such as some trees | busbw is below what the links carry |
# | switches that add up numbers, as in a node of eight H100 | ranks send less, so busbw can exceed the link |
# | a broadcast, an all-gather | the factor is 1, or $(N-1)/N$ |
#
# </details>
#
# Now measure this machine: torch's own all-reduce, over gloo or over NCCL. A ring takes $T = 2(N-1)(\alpha + S/(N B))$,
# as in [lesson 03](03_trees_and_grids.ipynb). Fit α and B to the table, and you have a link for the simulator.

# %%
ranks = 4
with World(ranks) as world:
    table = gpus.sweep_all_reduce(world)
print(f"{ranks} ranks\n{gpus.HEADER}")
print(*table, sep="\n")
link = gpus.fit_ring(table)
print(f"α = {link.latency * 1e6:.0f} µs, B = {link.bandwidth / 1e9:.2f} GB/s")
compared = []
for each in table:
    simulated = SimulatedWorld(ranks, Cluster.flat(ranks, link))
    simulated.run(ring, each.nbytes // 4)
    compared.append(Comparison(each.nbytes, simulated.elapsed, each.seconds))
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
# Small tensors have a tiny bandwidth, because they pay for latency. Large tensors come near a limit, on a quiet
# machine. Does a fit to two ranks predict the time of four? Mostly not, because four ranks share cores and memory that
# two had for themselves. On a cluster, ranks may share a cable. So measure with as many ranks as you will train with.

# %% tags=["folded"]
# The link of two ranks, against four
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
# <details><summary>Why the fit is no truth</summary>
#
# | case | what α and B are |
# |---|---|
# | NCCL takes a tree for small sizes, or another protocol for large ones | a mixture of both |
# | another program runs at the same time | partly the other program's |
# | links of several kinds | a mixture: fit each kind by itself, as [lesson 03b](03b_networks.ipynb) needs them |
#
# </details>
#
# **Try it.** A colleague's table for 16 ranks has 11.2 GB/s algbw at 1 GiB, on links of 25 GB/s. Is there something to
# gain? Compute what share of the link is used.

# %%
colleague = gpus.MeasuredAllReduce(
    ranks=16, nbytes=1 << 30, seconds=1.0
)  # change the time
print(f"{colleague.bus_bandwidth / 25e9:.0%} of the link")

# %% tags=["folded"]
# One way to do it
# And what follows: not much, because 84 % of the link are used
colleague = gpus.MeasuredAllReduce(ranks=16, nbytes=1 << 30, seconds=(1 << 30) / 11.2e9)
print(f"{colleague.bus_bandwidth / 25e9:.0%} of the link")
assert abs(colleague.bus_bandwidth / 25e9 - 0.84) < 0.001

# %% [markdown]
# ## Which all-reduce is exposed?
#
# `torch.profiler` notes each operation: on which thread or in which stream, from when to when.
#
#     with torch.profiler.profile() as profile:
#         with torch.profiler.record_function("forward"):   # a name of your own in the trace
#             loss = model(images)
#         …
#     profile.export_chrome_trace("trace.json")             # for a viewer, such as Perfetto
#
# Of the hundreds of events of one step we keep three kinds: computing in the forward pass, computing in the backward
# pass, and communication. The step is one of torch's DDP on two ranks: 8 layers of 1 MiB, in buckets of 2 MiB. The
# backward pass computes the gradients of the last layer first.

# %%
guess_5 = predict(
    "Four buckets, four all-reduces. Which can't hide behind the backward pass?",
    choices=["the first", "the last", "all", "none of them"],
)

# %%
with World(2) as world:
    seen = world.run(gpus.profile_ddp, batch=256)[0]
share = seen.hidden / seen.communicating
print(f"a step of {1e3 * seen.seconds:.0f} ms, computing {1e3 * seen.computing:.0f} ms")
print(f"communication {1e3 * seen.communicating:.0f} ms, hidden {share:.0%}")
print(guess_5.compare("the last"))
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
# The first all-reduce begins in the middle of the backward pass. So it can hide, as far as it is done before the
# backward pass ends. The last all-reduce begins when the last gradient has been computed, so it is exposed.
#
# **The all-reduce of the last bucket has nothing left to hide behind.**
#
# Hidden is not free, however. Here gloo's threads take time from the same cores that compute the backward pass, and
# NCCL's kernels occupy a part of the GPU.
#
# On a GPU the profiler shows the calls on the CPU's threads, and the kernels in the streams. So it also shows how long
# the GPU computes. Because the profiler slows down calls, the small step takes three times as long as above. The GPU
# computes for 6 % of it, and for 88 % of the large step:

# %%
gpus.recordings.show("kernels")  # forward and backward, without the optimizer

# %% [markdown]
# <details><summary>How to read a trace of a GPU, and two traps</summary>
#
# | you see | it means |
# |---|---|
# | a gap between kernels, while the thread above is busy with calls | the CPU is too slow |
# | a gap that begins where a `cudaStreamSynchronize` ends | the CPU read a value, or waited for a copy |
# | a step several times as long as without the profiler | the profiler makes each call longer |
# | `autograd::engine::evaluate_function` | an event that contains others: do not count it as computing |
#
# DDP starts its all-reduces inside such an event. If you count it, all communication seems hidden. DDP's copies from
# the buckets at the end count, too, so our step avoids them with `gradient_as_bucket_view=True`.
#
# </details>
#
# ## Half of the bytes
#
# GPUs since the A100 multiply matrices of **bfloat16** faster than matrices of float32, and a message of bfloat16 has
# half of the bytes. A bfloat16 has the range of a float32, but only 8 binary digits of precision instead of 24.

# %%
guess_6 = predict(
    "320 ranks have a gradient of 1.0 each, in bfloat16. A ring sums them up. The sum is …",
    choices=["320", "less than 320", "more than 320"],
)


# %%
def sum_of_ones(comm: Communicator, algorithm: str, dtype: torch.dtype) -> float:
    ones = torch.ones(comm.world_size, dtype=dtype)
    all_reduce(comm, ones, algorithm=algorithm)
    return float(ones[0])


many = SimulatedWorld(320)
sums = {
    name: many.run(sum_of_ones, name, torch.bfloat16)[0] for name in ("ring", "tree")
}
print(f"ring {sums['ring']:.0f}, tree {sums['tree']:.0f}")
answer = "320" if sums["ring"] == 320 else "less than 320"
print(guess_6.compare(answer))


# %% [markdown]
# A ring adds one rank after another to an element. So a loop gives the same sum in no time, for any number of ranks.


# %%
def one_after_the_other(values: torch.Tensor) -> torch.Tensor:
    """The sum of the rows as a ring adds them up: rounded after each addition."""
    total = torch.zeros_like(values[0])
    for value in values:
        total = total + value
    return total


def mean_of_ones(ranks: int, dtype: torch.dtype) -> float:
    return one_after_the_other(torch.ones(ranks, 1, dtype=dtype)).item() / ranks


sweep(
    {
        name: {n: mean_of_ones(n, dtype) for n in (64, 128, 256, 320, 512, 1024)}
        for name, dtype in (
            ("summed in float32", torch.float32),
            ("summed in bfloat16", torch.bfloat16),
        )
    },
    along="ranks",
    title="The mean of ones, summed by a ring",
    percent=True,
)

# %% tags=["folded"]
# Checks of the numbers above and below
assert sums == {"ring": 256, "tree": 320}
assert (
    mean_of_ones(320, torch.float32) == 1 and mean_of_ones(320, torch.bfloat16) == 0.8
)
assert mean_of_ones(1024, torch.bfloat16) == 0.25


def of_equal(ranks: int, value: float) -> float:
    values = torch.full((ranks, 1), value, dtype=torch.bfloat16)
    return one_after_the_other(values).item()


assert of_equal(200, 1.0) == 200 and round(of_equal(200, 1 / 200), 2) == 0.91
assert of_equal(512, 1 / 512) == 0.5
assert 1.06 < of_equal(320, 1 / 3) / (320 / 3) < 1.07
for seed in range(3):
    torch.manual_seed(seed)
    rows = torch.randn(320, 2048).bfloat16()
    exact = rows.double().sum(0)
    error = (one_after_the_other(rows).double() - exact).square().mean()
    assert 0.015 < (error / exact.square().mean()).sqrt() < 0.025
    once = (exact.bfloat16().double() - exact).square().mean()
    assert 0.001 < (once / exact.square().mean()).sqrt() < 0.003

# %% [markdown]
# The sum stops at 256. bfloat16 has no 257, so 256 + 1 is rounded back to 256. With 1,024 ranks the mean gradient is a
# quarter of the true one. A tree adds large sums to large sums, so here it is right.
#
# **Multiply in bfloat16, but sum up gradients in float32.**
#
# This is the rule of mixed precision. `torch.autocast("cuda", dtype=torch.bfloat16)` keeps parameters and gradients in
# float32 and multiplies in bfloat16. `fully_shard` has
# `MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)`. The price is that a gradient has four
# bytes on its way, as before.
#
# <details><summary>How large the error is, and what does not cure it</summary>
#
# | gradients | what a ring in bfloat16 makes of their sum |
# |---|---|
# | 1/N each, divided before the sum: no cure | 0.91 instead of 1 with 200 ranks, 0.5 with 512 |
# | 1/3 each, 320 ranks | 7 % too large |
# | random, of both signs, 320 ranks | typically off by 2 %; an exact sum, rounded once, by 0.2 % |
#
# Gradients of different samples often differ in sign, and then the error is smaller than for ones. But where the signs
# agree in each step, so do the errors, which then do not average out.
#
# What bfloat16 saves all the same: time to compute, memory for activations, and with `fully_shard` half of the bytes of
# gathered parameters. Without `dtype`, autocast on a GPU takes float16. [Lesson 11c](11c_memory_deeper.ipynb) runs
# `fully_shard` with the policy.
#
# </details>
#
# **Try it.** The true sum has a nearest bfloat16. From how many ranks on does the ring miss it? Guess first.

# %%
for ranks in (200, 300):  # more values
    total = one_after_the_other(torch.ones(ranks, 1, dtype=torch.bfloat16)).item()
    nearest = torch.tensor(float(ranks)).bfloat16().item()
    print(f"{ranks} ranks: {total:.0f}, nearest {nearest:.0f}")

# %% tags=["folded"]
# One way to do it
# And what follows: from 258 on, since 257 itself is rounded to 256; values with more digits go
# wrong much sooner
for ranks in (256, 257, 258):
    nearest = torch.tensor(float(ranks)).bfloat16().item()
    print(f"{ranks} ranks: {of_equal(ranks, 1.0):.0f}, nearest {nearest:.0f}")
    assert (of_equal(ranks, 1.0) == nearest) == (ranks < 258)
assert abs(of_equal(64, 1 / 3) / (64 / 3) - 1) > 0.005

# %% [markdown]
# What is gained is speed. Here is the same large matmul in three formats:

# %% tags=["folded"]
# The picture of the recording
formats = gpus.recordings.find("formats")
compare_costs(
    {
        row["numbers"]: {
            "TFLOP/s": row["TFLOP/s"],
            "largest error, ‰": 1e3 * row["largest error"],
        }
        for row in formats.rows
    },
    title="A matmul of 8,192 × 8,192 in three formats",
    subtitle=formats.source,
    show="{:.3g}".format,
)

# %% [markdown]
# On this GPU this matmul in bfloat16 is 15 times as fast as in float32. **TF32** lies between the two: it takes numbers
# of float32, but multiplies with 11 binary digits of each. For a matmul, torch must be asked, by
# `torch.set_float32_matmul_precision("high")`.
#
# ## With two GPUs
#
# Three measurements need two GPUs: the table of a benchmark over NCCL, a step of DDP under the profiler, and the
# speedup of two GPUs over one. We have recorded one GPU only. If you have two GPUs, the cell measures them.

# %%
for name in ("all_reduces", "overlap", "two_gpus"):
    print(f"{name}: ", end="")
    gpus.recordings.show(name)

# %% [markdown]
# <details><summary>When NCCL does not start: its variables</summary>
#
# NCCL says little unless asked. Set these variables before the program starts, on all ranks:
#
# | variable | what it does |
# |---|---|
# | `NCCL_DEBUG=INFO` | says what each rank has found: version, networks, GPUs, and how they are connected |
# | `NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH` | about which subjects; NET and GRAPH are off by default |
# | `NCCL_SOCKET_IFNAME=eth0` | the network interface to use; the usual cure where a node has several |
# | `NCCL_IB_DISABLE=1` | without InfiniBand: to find out whether that is what is broken |
# | `NCCL_P2P_DISABLE=1` | without direct copies between GPUs, for the same purpose |
# | `NCCL_ALGO=Ring`, `NCCL_PROTO=Simple` | forces an algorithm, a protocol: for measurements, not for training |
# | `TORCH_NCCL_ASYNC_ERROR_HANDLING` | what torch does about a collective that fails: by default it ends the process |
# | `CUDA_LAUNCH_BLOCKING=1` | each call waits for its kernel: an error names the right line, and all is slow |
#
# The last one is the queue again. An error in a kernel is noticed at some later call, so the line in the message may
# be innocent.
#
# </details>
#
# ## In real frameworks
#
# `torch.profiler`, `torch.cuda.Event` and `torch.distributed` did the work here. One comparison is left, which any
# machine can make: does gloo round like our ring? Four ranks have bfloat16. Sums of whole numbers from -9 to 9 need no
# rounding, so they must be the same. Other sums may differ, because gloo adds them up in another order.


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

# %% tags=["folded"]
# Which of the two is nearer to the truth


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
# Neither is clearly nearer to the truth.
#
# ## In short
#
# - Most GPU calls only fill the queue: synchronize before you read the clock.
# - After reading a value from the GPU, the CPU is no longer ahead, so the GPU waits.
# - Compare the bus bandwidth, not the algorithm bandwidth, with the link.
# - The all-reduce of the last bucket has nothing left to hide behind.
# - Multiply in bfloat16, but sum up gradients in float32.
#
# Two side roads go on from here: how a batch gets to the GPU ([05b](05b_ddp_in_practice.ipynb)), and what the memory of
# a GPU holds ([11c](11c_memory_deeper.ipynb)). On the main road the [capstone](19_capstone.ipynb) comes next.
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
