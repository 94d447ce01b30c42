# %% [markdown]
# # Data parallel
#
# After this lesson you will be able to
#
# - train one model on several ranks through a master, as torch's `nn.DataParallel` does it, and say why its gradients
#   are added and not averaged,
# - count the calls, the messages and the bytes of a training step, and judge rules such as "3×M calls",
# - say when more ranks make it *slower*, and which part of that torch avoids on GPUs.
#
# **Time:** about 45 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU.

# %%
import inspect
import statistics
from collections.abc import Callable
from functools import partial

import distlib.data_parallel as dp
import torch
from distlib import Cluster, Communicator, Link, SimulatedWorld, World, all_reduce
from distlib.datasets import digits
from distlib.ddp.step_times import StepClock, StepTimes
from distlib.draw import play_timeline, predict, speed_up, timeline
from distlib.trace import Message, Trace
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.benchmark import Timer

torch.set_num_threads(1)  # as many as each rank has, so that times can be compared
world = World(4)

# %% [markdown]
# ## The idea
#
# The loss of a batch is a mean over its images, and the output for one image does not depend on the others. So cut the
# batch: each rank computes the outputs of some of the images, with a copy of the same model.
#
# `nn.DataParallel` is the simplest way to do that. Rank 0 is the **master**: it alone has the batch, the model that
# counts, and the optimizer. One training step:
#
#                        rank 0                          ranks 1, 2, 3
#     split the batch    images ───────────────────────► a part of the images
#     replicate          model ────────────────────────► a copy of the model
#     forward            output                          output
#     gather             outputs ◄────────────────────── output
#     loss               loss, gradient of the outputs
#     split              gradient of the outputs ──────► a part of it
#     backward           gradients of the model          gradients of the model
#     reduce             their sum ◄──────────────────── gradients of the model
#     step               new weights
#
# Afterwards only the master has the new weights. The copies are worthless: the next training step sends new ones.
#
# In torch this is one process, and each "rank" is a GPU of the same machine. Here ranks are processes, so every copy is
# a message that we can see. Our model classifies handwritten digits of 8 by 8 pixels.

# %%
train, test = digits()


def make_model() -> nn.Module:
    torch.manual_seed(0)  # the same weights in every process that calls this
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10)]
    return nn.Sequential(*layers)


P = len(list(make_model().parameters()))
M = sum(parameter.nbytes for parameter in make_model().parameters())
print(f"{len(train.images):,} images. The model: {P} tensors, {M:,} bytes")

# %% [markdown]
# ## Added or averaged?
#
# In lesson 02 four ranks *averaged* their gradients. Each had a loss of its own: the mean over its own images. Here the
# master computes one loss for the whole batch, and each rank goes backward from its own rows of that loss's gradient.
# The batch below has 11 images, so the four parts are not even equally large.

# %%
guess = predict(
    "What must the master do with the gradients of the ranks?",
    choices=["average them", "add them", "average them, weighted by images"],
)


# %%
def my_gradient(comm: Communicator, *batch: torch.Tensor) -> tuple[int, torch.Tensor]:
    """How many images this rank has, and what it finds for the last bias."""
    images, labels = batch
    model, gradient = make_model().double(), None
    part = dp.split_batch(comm, images)
    output = model(part)
    outputs = dp.gather_outputs(comm, output, len(images))
    if outputs is not None:  # on the master
        _, gradient = dp.loss_of_outputs(outputs, labels, cross_entropy)
    output.backward(dp.split_gradient(comm, gradient, output))
    return len(part), model[3].bias.grad


few, few_labels = train.images[:11].double(), train.labels[:11]
found = world.run(my_gradient, few, few_labels)
alone = make_model().double()
cross_entropy(alone(few), few_labels).backward()
candidates = {
    "average them": sum(gradient for _, gradient in found) / 4,
    "add them": sum(gradient for _, gradient in found),
    "average them, weighted by images": sum(n / 11 * gradient for n, gradient in found),
}
off = {}
for name, candidate in candidates.items():
    off[name] = float((candidate - alone[3].bias.grad).abs().max())
    print(f"{name:33} differs from one process by {off[name]:.1e}")
print(guess.compare(min(off, key=lambda name: off[name])))

# %% tags=["folded"]
# Checks of the numbers above
assert [n for n, _ in found] == [3, 3, 3, 2]
assert off["add them"] < 1e-15
assert min(off["average them"], off["average them, weighted by images"]) > 0.01

# %% [markdown]
# They are added. The division by 11 is inside already: it went out to the ranks with the gradient of the outputs. That
# is why parts of different sizes do no harm.
#
# `data_parallel_step` puts all stages together and leaves the sum in the master's model. Is a whole training the same?


# %%
def train_on(comm: Communicator, build: Callable[[], nn.Module]) -> list[float]:
    """One epoch, 64 images per training step. Returns the losses, on the master."""
    model, losses = build(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batches = zip(train.images.split(64), train.labels.split(64), strict=True)
    for images, labels in batches:
        loss = dp.data_parallel_step(comm, model, images, labels, cross_entropy)
        if loss is not None:  # only the master knows the loss, and it alone steps
            losses.append(loss.item())
            optimizer.step()
    return losses


def largest_difference(build: Callable[[], nn.Module]) -> float:
    """Between the losses of 4 ranks and those of 1 rank, which sends nothing."""
    one, four = (w.run(train_on, build)[0] for w in (SimulatedWorld(1), world))
    print(f"{len(four)} training steps, loss from {four[0]:.2f} to {four[-1]:.2f}")
    return max(abs(a - b) for a, b in zip(one, four, strict=True))


difference = largest_difference(make_model)
print(f"largest difference of a loss: {difference:.1e}")

# %% tags=["folded"]
# Checks of the numbers above
assert difference < 1e-4

# %% [markdown]
# The same, up to rounding.
#
# **Try it.** One kind of layer breaks this. Put `nn.BatchNorm2d(8)` between the convolution and the ReLU. By how much
# do the losses differ now, and why?


# %%
def my_model() -> nn.Module:
    layers = list(make_model())
    # layers.insert(…)
    return nn.Sequential(*layers)


print(f"largest difference of a loss: {largest_difference(my_model):.1e}")


# %% tags=["folded"]
# One way to do it
def normalized_model() -> nn.Module:
    layers = list(make_model())
    layers.insert(1, nn.BatchNorm2d(8))
    return nn.Sequential(*layers)


difference = largest_difference(normalized_model)
print(f"largest difference of a loss: {difference:.1e}")
print("Each rank normalizes with the mean of its own 16 images. So does torch.")
assert difference > 1e-2

# %% [markdown]
# ## How many calls? The "3×M"
#
# DTU's course on machine learning operations
# ([page](https://skaftenicki.github.io/dtu_mlops/s9_scalable_applications/distributed_training/)) has a rule: with $M$
# devices, forward takes 3×M "communication calls to send batch, model and output between the devices". Let us count one
# training step, forward and backward. Step through it with →.


# %%
def trace_of_a_step(world: World | SimulatedWorld, model: nn.Module) -> Trace:
    images, labels = train.images[:64], train.labels[:64]
    world.run(dp.data_parallel_step, model, images, labels, cross_entropy)
    return world.trace


trace = trace_of_a_step(world, make_model())
play_timeline(trace, by="round", title="One step of DataParallel on 4 ranks")

# %%
guess = predict(
    "Forward needs 3 calls for each other device. How many more does backward need?",
    choices=["none", "1", "2", "3"],
)


# %%
def stage_of(message: Message) -> str:
    """The function that sent it: "replicate", "gather_outputs", …"""
    return message.site.call.partition("(")[0]


def messages_of_rank_1(trace: Trace) -> dict[str, list[Message]]:
    """What rank 1 sends or receives, by stage."""
    stages: dict[str, list[Message]] = {}
    for message in trace:
        if 1 in (message.src, message.dst):
            stages.setdefault(stage_of(message), []).append(message)
    return stages


stages = messages_of_rank_1(trace)
for stage, messages in stages.items():
    nbytes = sum(message.nbytes for message in messages)
    print(f"{stage:17} 1 call, {len(messages)} messages, {nbytes:6,} bytes")
count = sum(len(messages) for messages in stages.values())
print(f"for each other rank: {len(stages)} calls, {count} messages")
print(guess.compare(str(len(stages) - 3)))

# %% tags=["folded"]
# Checks of the numbers above
FORWARD = ["split_batch", "replicate", "gather_outputs"]
assert list(stages) == [*FORWARD, "split_gradient", "reduce_gradients"]
assert [len(messages) for messages in stages.values()] == [1, P, 1, 1, P]
assert count == 11 and trace.rounds == 4
assert all(0 in (message.src, message.dst) for message in trace)
assert len(trace) == 3 * count  # each of the 3 other ranks has as many
for n in (2, 3, 5, 8):  # and with other numbers of ranks, too
    sent = trace_of_a_step(SimulatedWorld(n), make_model())
    assert len(sent) == (n - 1) * (2 * P + 3)

# %% [markdown]
# The rule holds for forward. Backward adds 2: the gradient of the outputs goes out, the gradients of the model come
# back. So it is **5 calls for each other rank**. Three remarks:
#
# - The master is one of the $M$ devices and sends itself nothing. That makes 3·(M−1) and 2·(M−1).
# - A call is not a message. Our model travels tensor by tensor: with P tensors, 1 + P + 1 + 1 + P messages. torch first
#   packs tensors into buffers of up to 10 MiB.
# - Neither says how many bytes. That depends on what you train.

# %%
guess = predict(
    "GPT-2, 8 texts of 1,024 words per rank: what are most bytes of a step?",
    choices=["texts", "the model and its gradients", "outputs and their gradients"],
)

# %%
WORDS, POSITIONS, TEXTS = 50_257, 1_024, 8
gpt2 = {
    "texts": 8 * TEXTS * POSITIONS,  # an int64 for each word
    "the model and its gradients": 2 * 4 * 124_439_808,
    "outputs and their gradients": 2 * 4 * TEXTS * POSITIONS * WORDS,
}
for name, nbytes in gpt2.items():
    print(f"{name:28} {nbytes / 1e6:8,.1f} MB {nbytes / sum(gpt2.values()):6.1%}")
print(guess.compare(max(gpt2, key=lambda name: gpt2[name])))

# %% tags=["folded"]
# Checks of the numbers above
per_stage = [sum(m.nbytes for m in messages) for messages in stages.values()]
assert per_stage == [16 * 256, M, 16 * 40, 16 * 40, M]  # 16 images, 10 outputs each
assert 0.75 < gpt2["outputs and their gradients"] / sum(gpt2.values()) < 0.8
width, layers = 768, 12
blocks = layers * (12 * width**2 + 13 * width)
assert WORDS * width + POSITIONS * width + blocks + 2 * width == 124_439_808

# %% [markdown]
# A language model has 50,257 outputs for each word. A way out is to let the *model* compute its loss: then each rank
# sends back one number.
#
# **Try it.** How many messages are there for rank 1 if you freeze the convolution
# (`model[0].requires_grad_(False)`)? And how many with a `BatchNorm2d`, which also has 3 buffers?

# %%
model = make_model()
# change the model here
stages = messages_of_rank_1(trace_of_a_step(world, model))
print({stage: len(messages) for stage, messages in stages.items()})

# %% tags=["folded"]
# One way to do it
frozen = make_model()
frozen[0].requires_grad_(False)
for model, expected in ((frozen, (4, 2)), (normalized_model(), (4 + 2 + 3, 4 + 2))):
    stages = messages_of_rank_1(trace_of_a_step(world, model))
    out, back = len(stages["replicate"]), len(stages["reduce_gradients"])
    print(f"{out} messages out with the model, {back} back with gradients")
    assert (out, back) == expected
print("All parameters and buffers go out; only trained parameters have gradients.")

# %% [markdown]
# ## The master is the bottleneck
#
# When does it pay? That depends on the devices and on the network, so we choose both. A device needs $T_1$ = 0.5 s for
# a batch of 64 images: a pause, since this machine hardly has 8 processors to spare. A link carries 80 MB/s:
# `World(n, network=LINK)` holds the messages of real processes back to that pace. The model is larger than before.

# %%
LINK = Link(latency=25e-6, bandwidth=80e6)
BATCH, T1 = 64, 0.5


def wide_model() -> nn.Module:
    sizes = ((64, 700), (700, 700), (700, 10))
    layers = [nn.Linear(*size, bias=False) for size in sizes]
    return nn.Sequential(nn.Flatten(), *layers)


def set_up(comm: Communicator, rows: int, device: str) -> tuple:
    """A model, images, labels, and a clock on which computing takes its time."""
    with torch.device(device):  # on the device "meta" tensors have no contents
        images, labels = torch.zeros(rows, 64), torch.zeros(rows, dtype=torch.int64)
        model = wide_model()
    third = T1 / comm.world_size / 3  # forward; backward takes two of them
    return model, images, labels, StepClock(comm, model, seconds={"3": third})


def master_step(comm: Communicator, algorithm: str, device: str = "cpu") -> StepTimes:
    model, *batch, clock = set_up(comm, BATCH, device)
    with clock.step():
        dp.data_parallel_step(comm, model, *batch, cross_entropy, algorithm)
    return clock.steps[0]


def ring_step(comm: Communicator, device: str = "cpu") -> StepTimes:
    """Without a master: each rank has its images, and all add up their gradients."""
    model, images, labels, clock = set_up(comm, BATCH // comm.world_size, device)
    with clock.step():
        cross_entropy(model(images), labels).backward()
        for parameter in model.parameters():
            all_reduce(comm, parameter.grad, algorithm="ring")
    return clock.steps[0]


WIDE = sum(parameter.nbytes for parameter in wide_model().parameters())
once = WIDE / LINK.bandwidth
print(f"the model: {WIDE / 1e6:.2f} MB, {once * 1e3:.0f} ms through a link")

# %% [markdown]
# The ring is that of lesson 02: no model goes out and no outputs come in. torch calls this DistributedDataParallel,
# **DDP**.

# %%
guess = predict(
    "With a master, 8 devices instead of 4. The training step is then",
    choices=["faster", "about as fast", "slower"],
)

# %%
formulas = {
    "master": lambda n: T1 / n + 2 * (n - 1) * once,
    "ring": lambda n: T1 / n + 2 * (n - 1) / n * once,
}
ways = {"ring": ring_step, "master": partial(master_step, algorithm="flat")}
measured: dict[str, dict[int, float]] = {"ring": {}, "master": {}}
for n in (1, 2, 4, 8):
    with World(n, network=LINK) as paced:
        for name, step in ways.items():
            runs = []
            for _ in range(6):
                steps = paced.run(step)
                runs.append(max(times.seconds for times in steps))
            measured[name][n] = statistics.median(runs[1:])  # the first one warms up
        if n == 4:
            steps = paced.run(ways["master"])
            last_run = paced.trace, steps
    for name, times in measured.items():
        formula = formulas[name](n)
        print(f"{n} ranks, {name:6}: formula {formula:.2f} s, clock {times[n]:.2f} s")

ratio = measured["master"][8] / measured["master"][4]
answer = "slower" if ratio > 1.1 else "faster" if ratio < 0.9 else "about as fast"
print(guess.compare(answer, source="the clock"))

# %% [markdown]
# These are seconds on a real clock, so a busy machine makes them longer. Here is a run on four ranks. Arrows are the
# large messages.


# %%
def picture(trace: Trace, steps: list[StepTimes], title: str) -> object:
    """The large messages, and when each rank computed."""
    large = trace.filter(lambda message: message.nbytes > 1e6)
    computing = [step.of("forward", "backward") for step in steps]
    return timeline(large, title, computing=computing, color_by=stage_of)


picture(*last_run, title="One step with a master, 4 ranks")

# %% [markdown]
# First the model goes out, to one rank after the other; then all compute; then the gradients come in, from one rank
# after the other. With $N$ ranks, and the model once through a link in $M\beta$ seconds:
#
# $$T_\text{master}(N) \approx \frac{T_1}{N} + 2\,(N-1)\,M\beta \qquad
# T_\text{ring}(N) \approx \frac{T_1}{N} + 2\,\frac{N-1}{N}\,M\beta$$
#
# In the first, one term falls with $N$ and the other rises. It is smallest at $N = \sqrt{T_1 / 2M\beta}$, here with 3
# ranks. The best number of devices does not depend on how many you can buy, but on how long computing takes compared
# to sending the model. (Latency is left out. With a small model on a slow network it decides, and both are worse.)

# %% tags=["folded"]
# Checks of the numbers above
assert round((T1 / (2 * once)) ** 0.5) == 3
assert min(range(1, 40), key=formulas["master"]) == 3
for n in (1, 2, 4, 8):  # the model holds in virtual time, where nothing disturbs it
    virtual = SimulatedWorld(n, Cluster.flat(n, LINK))
    for name, step in ways.items():
        virtual.run(step, device="meta")
        assert abs(virtual.elapsed / formulas[name](n) - 1) < 0.03, (name, n)
assert formulas["master"](8) > 1.5 * formulas["master"](4)
slow = Link(latency=20e-3, bandwidth=80e6)
for n, worse in ((3, 1.5), (8, 3)):  # where latency decides, the formula is far too low
    virtual = SimulatedWorld(n, Cluster.flat(n, slow))
    for name, step in ways.items():
        virtual.run(step, device="meta")
        assert virtual.elapsed > worse * formulas[name](n)

# %% [markdown]
# **Try it.** In virtual time the same step takes a moment. Make rank 2 twice as slow as the others: by how much does
# the step grow? And if rank 2 is ten times *faster*?

# %%
speed = {2: 1.0}  # rank 2 takes so many times as long
four = SimulatedWorld(4, Cluster.flat(4, LINK, stragglers=speed))
steps = four.run(ways["master"], device="meta")
picture(four.trace, steps, title=f"{four.elapsed:.2f} s, with {speed}")

# %% tags=["folded"]
# One way to do it
took = {}
for factor in (1.0, 2.0, 0.1):
    cluster = Cluster.flat(4, LINK, stragglers={2: factor})
    four = SimulatedWorld(4, cluster)
    four.run(ways["master"], device="meta")
    took[factor] = four.elapsed
    print(f"rank 2 takes {factor:3} times as long: the step takes {four.elapsed:.2f} s")
assert took[2.0] - took[1.0] > 0.95 * T1 / 4 - 2 * once and took[0.1] > 0.99 * took[1.0]
print("All wait for the slowest rank. A faster one helps nobody.")

# %% [markdown]
# ### Whose curve is it?
#
# Ours, where the master sends the model N−1 times. It is torch's only where there is no NCCL. This is what its
# `DataParallel` calls to add up the gradients:

# %%
from torch.nn.parallel import comm as torch_comm

source = inspect.getsource(torch_comm.reduce_add)
shown = source[source.index("    if nccl.is_available") :]
print(shown[: shown.index("    return")])

# %% tags=["folded"]
# Checks of the source above
assert "nccl.reduce(inputs, output=result, root=root_index)" in shown
assert "reduce_add(" in inspect.getsource(torch_comm.reduce_add_coalesced)

# %% [markdown]
# With NCCL it is a reduce, and the model goes out by NCCL's broadcast
# ([comm.cpp](https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/comm.cpp)). NCCL runs both along a **chain**,
# in blocks: while rank 1 passes block 0 on to rank 2, it receives block 1. No link carries the model more than once,
# and with many blocks all is over soon after $M\beta$. Our step can do it, too: `algorithm="chain"`.

# %%
guess = predict(
    "16 devices. The flat master takes ten times as long as the ring. The chain is",
    choices=["nearly as slow as flat", "in between", "nearly as fast as the ring"],
)

# %%
ways = {
    "master, flat": partial(master_step, algorithm="flat"),
    "master, chain": partial(master_step, algorithm="chain"),
    "ring": ring_step,
}
seconds: dict[str, dict[int, float]] = {name: {} for name in ways}
for n in (1, 2, 3, 4, 8, 16):
    virtual = SimulatedWorld(n, Cluster.flat(n, LINK))
    for name, step in ways.items():
        virtual.run(step, device="meta")
        seconds[name][n] = virtual.elapsed
flat, chain, ring = (times[16] for times in seconds.values())
answer = "nearly as slow as flat" if chain > flat / 1.5 else "in between"
print(guess.compare("nearly as fast as the ring" if chain < 1.5 * ring else answer))
speed_up(seconds, title="How many times faster than one rank? (simulated)")

# %% tags=["folded"]
# Checks of the numbers above
parameters = inspect.signature(torch_comm.broadcast_coalesced).parameters
assert parameters["buffer_size"].default == 10 * 2**20
assert 9.5 < flat / ring < 10.5
at_16 = {name: times[1] / times[16] for name, times in seconds.items()}
assert at_16["master, flat"] < 0.6 and 4.5 < at_16["master, chain"] < 5.2
assert 5.5 < at_16["ring"] < 6.2
assert min(seconds["ring"], key=lambda n: seconds["master, flat"][n]) == 3

# %% [markdown]
# With the flat master, 16 devices are slower than one. With the chain the same DataParallel comes near the ring. So
# with NCCL it is *not* the model that makes the master a bottleneck.
#
# ### What remains
#
# torch recommends DDP instead, even on one machine
# ([docs](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)). The reasons:
#
# - **Images and outputs** must go through the master. For GPT-2 above that is most of the bytes.
# - **Nothing overlaps.** DDP sends the first gradients while it computes the last ones. That is the next lesson.
# - **One Python interpreter drives all GPUs**, in threads that take turns. In DDP each GPU has its own process. (So do
#   our ranks: this cost is not in our times.)
# - **The master needs more memory**: the whole batch, all outputs, the optimizer.
# - **It ends at the machine.** Threads cannot drive the GPUs of another one.
#
# In its favor: it takes one line and no launcher.
#
# ## Measure it: one device against several
#
# Now as fast as your machine goes: with two GPUs or more torch's own `nn.DataParallel`, otherwise our step on ranks
# that share this machine's cores. Change the batch and run it again. When do several pay?

# %%
ROWS = 256  # try other numbers
gpus = torch.cuda.device_count()
batch = train.images[:ROWS], train.labels[:ROWS]


def seconds_of(step: Callable[[], object]) -> float:
    """Of a call: the mean of five, after two that do not count. On one thread."""
    return Timer("step()", globals={"step": step}).timeit(5).mean


def on_ranks(comm: Communicator) -> float:
    model = wide_model()
    step = partial(dp.data_parallel_step, comm, model, *batch, cross_entropy)
    return seconds_of(step)


def on_gpus(count: int) -> float:
    model = nn.DataParallel(wide_model().cuda(), device_ids=list(range(count)))
    images, labels = (tensor.cuda() for tensor in batch)
    return seconds_of(lambda: cross_entropy(model(images), labels).backward())


counts = range(1, gpus + 1) if gpus >= 2 else (1, 2, 4)
worlds = {} if gpus >= 2 else {count: World(count) for count in counts}
runs: dict[int, list[float]] = {count: [] for count in counts}
for _ in range(5):  # in turns, so that a busy moment does not hit one of them only
    for count in counts:
        taken = on_gpus(count) if gpus >= 2 else max(worlds[count].run(on_ranks))
        runs[count].append(taken)
for ranks in worlds.values():
    ranks.close()

# %%
medians = {count: statistics.median(times) for count, times in runs.items()}
for count, times in runs.items():
    what = "GPUs" if gpus >= 2 else "ranks"
    print(f"{count} {what}: median {medians[count] * 1e3:.1f} ms", end=", ")
    print(f"between {min(times) * 1e3:.1f} and {max(times) * 1e3:.1f} ms")
fastest = min(medians, key=lambda count: medians[count])
if fastest == 1:
    print("One is the fastest: sending costs more than it saves. Try more ROWS.")
elif max(runs[fastest]) < min(runs[1]):
    gain = medians[1] / medians[fastest]
    print(f"{fastest} are the fastest, {gain:.1f} times as fast as one.")
else:
    print(f"{fastest} have the smallest median, but the times overlap: not settled.")

# %% [markdown]
# ## In real frameworks
#
# In torch all of this is one line: `nn.DataParallel(model)`, used like a model. The second half of our stages happens
# when you call `backward`: torch has noted how the copies were made, and goes back the same way.
#
# | our stage | in `torch.nn.parallel` | backward |
# |---|---|---|
# | `split_batch` | `scatter` | |
# | `replicate` | `replicate`: broadcast | `reduce_gradients`: reduce-add |
# | forward | `parallel_apply`: a thread per GPU | backward |
# | `gather_outputs` | `gather` | `split_gradient`: scatter |
#
# (torch's scatter cuts 10 images for 4 devices into 3, 3, 3, 1, as `torch.chunk` does; we cut 3, 3, 2, 2.) These
# functions refuse tensors on a CPU. But `torch.distributed` has our messages as collectives. We compare its `reduce`
# with ours.

# %%
import torch.distributed as dist
from distlib.process_group import torch_distributed


def both(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the ranks' gradients of one parameter on rank 0: ours and torch's."""
    model = nn.Linear(10, 10, bias=False)
    model.weight.grad = torch.randint(-99, 100, (10, 10)).float()  # whole: no rounding
    theirs = model.weight.grad.clone()
    dp.reduce_gradients(comm, model)
    with torch_distributed(comm):
        dist.reduce(theirs, dst=0)
    return model.weight.grad, theirs


ours, theirs = world.run(both)[0]
print("Ours and torch's agree:", torch.equal(ours, theirs))

# %% tags=["folded"]
# Checks of the numbers above, and nn.DataParallel on what this machine has
assert torch.equal(ours, theirs)
for cut, expected in ((torch.chunk, [3, 3, 3, 1]), (torch.tensor_split, [3, 3, 2, 2])):
    assert [len(part) for part in cut(torch.zeros(10), 4)] == expected
device = "cuda" if gpus else "cpu"  # with fewer than two GPUs it only calls the model
wrapped = nn.DataParallel(make_model().double().to(device))
cross_entropy(wrapped(few.to(device)), few_labels.to(device)).backward()
last_bias = list(wrapped.parameters())[3].grad.cpu()
assert torch.allclose(last_bias, candidates["add them"], rtol=0, atol=1e-10)
world.close()

# %% [markdown]
# ## In short
#
# | $N$ ranks, a model of $M$ bytes | flat master | chain, as NCCL | ring (DDP) |
# |---|---|---|---|
# | most bytes through one link | $2\,(N-1)\,M$ | $2M$ | $2\frac{N-1}{N}M$ |
# | images and outputs | through the master | through the master | stay |
# | gradients are | added: one loss | added: one loss | averaged: a loss per rank |
# | the optimizer steps | on the master | on the master | on every rank |
#
# ## Now you
#
# In [the exercise](../exercises/04_data_parallel/04_data_parallel.ipynb) you write the stages: split the batch,
# replicate the model, gather the outputs, reduce the gradients, and the step that puts them together.
#
# ## Further reading
#
# - PyTorch, [DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html), and its code,
#   which is short:
#   [data_parallel.py](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/data_parallel.py),
#   [_functions.py](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/_functions.py),
#   [comm.py](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/comm.py).
# - NVIDIA, [tuning.cc](https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc) of NCCL: broadcast and reduce
#   use the ring algorithm only.
# - PyTorch, [Getting started with Distributed Data
#   Parallel](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html). Its first section compares the two.
# - S. Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
#   Training](https://arxiv.org/abs/2006.15704), VLDB 2020. How DDP came to be what it is.
