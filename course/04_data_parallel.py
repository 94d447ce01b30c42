# %% [markdown]
# # Data parallel
#
# A model trains on one GPU, and your machine has four. One line of PyTorch promises to use them all:
# `nn.DataParallel(model)`. You add the line, and every step takes longer than before. Where does the time go?
#
# > After this lesson you will be able to
# >
# > - train one model on several ranks through a master, as torch's `nn.DataParallel` does it, and say why its gradients
# >   are added and not averaged,
# > - count the calls, the messages and the bytes of a training step, and judge rules such as "3×M calls",
# > - say when more ranks make it *slower*, and which part of that torch avoids on GPUs.
# >
# > **Time:** about 55 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import inspect
import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.benchmark import Timer

import distlib.training.data_parallel as dp
from distlib import Cluster, Communicator, Link, SimulatedWorld, World, all_reduce
from distlib.draw import play_timeline, predict, speed_up, timeline
from distlib.trace import Message, Trace
from distlib.training.datasets import digits
from distlib.training.ddp.step_times import StepClock, StepTimes

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
S = sum(parameter.nbytes for parameter in make_model().parameters())
print(f"{len(train.images):,} images. The model: {P} tensors, {S:,} bytes")

# %% [markdown]
# ## Added or averaged?
#
# In lesson 02 four ranks *averaged* their gradients. Each had a loss of its own: the mean over its own images. Here the
# master computes one loss for the whole batch, and each rank goes backward from its own rows of that loss's gradient.
# The batch below has 11 images, so the four parts are not even equally large.

# %%
guess_1 = predict(
    "What must the master do with the gradients of the ranks?",
    choices=["average them", "add them", "average them, weighted by images"],
)


# %%
def my_gradient(comm: Communicator, images: Tensor, labels: Tensor) -> tuple:
    """How many images this rank has, and its gradient of the last bias."""
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
print(guess_1.compare(min(off, key=lambda name: off[name])))

# %% tags=["folded"]
# Checks of the numbers above
assert [n for n, _ in found] == [3, 3, 3, 2]
assert off["add them"] < 1e-15
assert min(off["average them"], off["average them, weighted by images"]) > 0.01

# %% [markdown]
# They are added. The division by 11 is inside already: it went out to the ranks with the gradient of the outputs. That
# is why parts of different sizes do no harm.
#
# `data_parallel_step` puts all stages together and leaves the sum in the master's model. Is a whole training
# run the same?


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
# **Try it.** A layer that mixes the images of a batch breaks this. Put `nn.BatchNorm2d(8)` between the convolution and
# the ReLU. By how much do the losses differ now, and why?


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
# training step, forward and backward. A *call* is what one stage sends between the master and one other device.

# %%
guess_2 = predict(
    "The rule says 12 calls for forward on 4 devices. "
    "How many messages does our training step send, with backward?",
    unit="messages",
)


# %%
def trace_of_a_step(world: World | SimulatedWorld, model: nn.Module) -> Trace:
    images, labels = train.images[:64], train.labels[:64]
    world.run(dp.data_parallel_step, model, images, labels, cross_entropy)
    return world.trace


trace = trace_of_a_step(world, make_model())
print(guess_2.compare(len(trace)))
play_timeline(trace, by="round", title="One training step of DataParallel on 4 ranks")

# %% [markdown]
# Step through it with →. An arrow may stand for several messages. Here are all messages of rank 1, by stage.


# %%
def stage_of(message: Message) -> str:
    """The function that sent it: "replicate", "gather_outputs", …"""
    return message.site.collective


def messages_of_rank_1(trace: Trace) -> dict[str, list[Message]]:
    """What rank 1 sends or receives, by stage."""
    stages: dict[str, list[Message]] = {}
    for message in trace:
        if 1 in (message.src, message.dst):
            stages.setdefault(stage_of(message), []).append(message)
    return stages


stages = messages_of_rank_1(trace)
print("stage            messages   bytes")
for stage, messages in stages.items():
    print(f"{stage:16} {len(messages):8} {sum(m.nbytes for m in messages):7,}")

# %% tags=["folded"]
# Checks of the numbers above
FORWARD = ["split_batch", "replicate", "gather_outputs"]
assert list(stages) == [*FORWARD, "split_gradient", "reduce_gradients"]
assert [len(messages) for messages in stages.values()] == [1, P, 1, 1, P]
assert len(trace) == 33 and trace.rounds == 4  # each of the 3 other ranks has 11
assert all(0 in (message.src, message.dst) for message in trace)
for n in (2, 3, 5, 8):  # and with other numbers of ranks, too
    sent = trace_of_a_step(SimulatedWorld(n), make_model())
    assert len(sent) == (n - 1) * (2 * P + 3)

# %% [markdown]
# The rule counts forward: batch, model, output. Backward adds 2 (the page describes them, but does not count them): the
# gradient of the outputs goes out, the gradients of the model come back. So it is **5 calls for each other device**.
# Three remarks:
#
# - The master is one of the $M$ devices and sends itself nothing. That makes 3·(M−1) and 2·(M−1).
# - A call is not a message. Our model travels tensor by tensor: with P tensors, 1 + P + 1 + 1 + P messages, here 11 for
#   each other rank. torch first packs small tensors together, up to 10 MiB; a larger one goes alone.
# - Neither says how many bytes. That depends on what you train. GPT-2, for example, cuts a text into *tokens*, pieces
#   of words. It knows 50,257 of them, and predicts at each position how likely each of them is.

# %%
guess_3 = predict(
    "GPT-2, 8 texts of 1,024 tokens per rank: which are most of a step's bytes?",
    choices=["texts", "the model and its gradients", "outputs and their gradients"],
)

# %%
TOKENS, POSITIONS, TEXTS = 50_257, 1_024, 8
gpt2 = {  # per rank, in float32
    "texts": 8 * TEXTS * POSITIONS,  # an int64 for each token
    "the model and its gradients": 2 * 4 * 124_439_808,
    "outputs and their gradients": 2 * 4 * TEXTS * POSITIONS * TOKENS,
}
for name, nbytes in gpt2.items():
    print(f"{name:28} {nbytes / 1e6:8,.1f} MB {nbytes / sum(gpt2.values()):6.1%}")
print(guess_3.compare(max(gpt2, key=lambda name: gpt2[name])))

# %% tags=["folded"]
# Checks of the numbers above
per_stage = [sum(m.nbytes for m in messages) for messages in stages.values()]
assert per_stage == [16 * 256, S, 16 * 40, 16 * 40, S]  # 16 images, 10 outputs each
one_text = gpt2["outputs and their gradients"] / TEXTS
assert 2 * one_text < gpt2["the model and its gradients"] < 3 * one_text
width, layers = 768, 12
blocks = layers * (12 * width**2 + 13 * width)
assert TOKENS * width + POSITIONS * width + blocks + 2 * width == 124_439_808

# %% [markdown]
# Only with one or two texts per rank would it be the model. A way out is to let the *model* compute its loss and return
# nothing else: then each rank sends back one number. (Let it be the *sum* over its images: the master adds the sums and
# divides by the number of all images. A mean of means is right only for equal parts.)
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
# ## When do more devices pay?
#
# That depends on the devices and on the network, so we choose both. A device needs $T_1$ = 0.5 s for a batch of 64
# images. That is a pause, which `StepClock` adds, since this machine hardly has 8 processors to spare. A link carries
# 80 MB/s: `World(n, network=LINK)` holds the messages of real processes back to that pace. The model is larger than
# before. "flat" is our step with the master. "ring" has no master: each rank has images of its own, and all add up
# their gradients as in lesson 02. torch calls that DistributedDataParallel, **DDP**.

# %%
LINK = Link(latency=25e-6, bandwidth=80e6)
BATCH, T1 = 64, 0.5


def wide_model() -> nn.Module:
    sizes = ((64, 700), (700, 700), (700, 10))
    layers = (nn.Linear(*size, bias=False) for size in sizes)
    return nn.Sequential(nn.Flatten(), *layers)


WIDE = sum(parameter.nbytes for parameter in wide_model().parameters())
once = WIDE / LINK.bandwidth
print(f"the model: {WIDE / 1e6:.2f} MB, {once * 1e3:.0f} ms through a link")


# %%
def one_step(comm: Communicator, way: str, device: str = "cpu") -> StepTimes:
    """A training step in which computing takes T1 / N. Returns when it did what."""
    torch.set_num_threads(1)  # one per rank, on every machine
    rows = BATCH // comm.world_size if way == "ring" else BATCH
    with torch.device(device):  # on the device "meta" tensors have no contents
        images, labels = torch.zeros(rows, 64), torch.zeros(rows, dtype=torch.int64)
        model = wide_model()
    third = T1 / comm.world_size / 3  # forward; backward takes two of them
    clock = StepClock(comm, model, seconds={"3": third})
    with clock.step():
        if way == "ring":
            cross_entropy(model(images), labels).backward()
            for parameter in model.parameters():
                all_reduce(comm, parameter.grad, algorithm="ring")
        else:
            dp.data_parallel_step(comm, model, images, labels, cross_entropy, way)
    return clock.steps[0]


# %%
guess_4 = predict(
    "With a master, 8 devices instead of 4. The training step is then",
    choices=["faster", "about as fast", "slower"],
)

# %%
formulas = {
    "flat": lambda n: T1 / n + 2 * (n - 1) * once,
    "ring": lambda n: T1 / n + 2 * (n - 1) / n * once,
}
measured = {}
for n in (2, 4, 8):
    with World(n, network=LINK) as paced:
        for way, formula in formulas.items():
            runs = [paced.run(one_step, way) for _ in range(4)]
            times = [max(rank.seconds for rank in steps) for steps in runs]
            measured[way, n] = statistics.median(times[1:])  # the first one warms up
            print(f"{n} ranks, {way}: formula {formula(n):.2f} s", end=", ")
            print(f"clock {measured[way, n]:.2f} s")
            if (way, n) == ("flat", 4):
                last_run = paced.trace, runs[-1]

ratio = measured["flat", 8] / measured["flat", 4]
answer = "slower" if ratio > 1.1 else "faster" if ratio < 0.9 else "about as fast"
print(guess_4.compare(answer, source="the clock"))

# %% [markdown]
# These are seconds on a real clock, so a busy machine makes them longer. It can delay the ring most: with 8 ranks its
# messages take 42 rounds, those of the master 4, and in every round of the ring each rank has to get a processor. Here
# is a run of "flat" on four ranks. Arrows are the large messages.


# %%
def picture(trace: Trace, steps: list[StepTimes], title: str) -> object:
    """The large messages, and when each rank computed."""
    large = trace.filter(lambda message: message.nbytes > 1e6)
    computing = [step.of("forward", "backward") for step in steps]
    return timeline(large, title, computing=computing, color_by=stage_of)


picture(*last_run, title="One training step with a master, 4 ranks")

# %% [markdown]
# First the model goes out, to one rank after the other; then all compute; then the gradients come in, from one rank
# after the other. With $N$ ranks, and a model of $S$ bytes, which takes $S\beta$ seconds through a link:
#
# $$T_\text{flat}(N) \approx \frac{T_1}{N} + 2\,(N-1)\,S\beta \qquad
# T_\text{ring}(N) \approx \frac{T_1}{N} + 2\,\frac{N-1}{N}\,S\beta$$
#
# In the first formula one term falls with $N$ and the other rises. It is smallest at $N = \sqrt{T_1 / 2S\beta}$, here
# with 3 ranks. The best number of devices does not depend on how many you can buy, but on how long computing takes
# compared to sending the model. Two limits of that:
#
# - The batch stays at 64 images. If each device gets 64 of its own instead, every further device still adds images
#   per second here, but all together never process more than $T_1 / 2S\beta$ = 9.2 times as many as one.
# - Latency, images and outputs are left out. With a small model and a high latency, latency decides.

# %% tags=["folded"]
# Checks of the numbers above
assert round((T1 / (2 * once)) ** 0.5) == min(range(1, 40), key=formulas["flat"]) == 3
more_images = [n * T1 / (T1 + 2 * (n - 1) * once) for n in range(1, 9999)]
assert more_images == sorted(more_images) and 9.1 < more_images[-1] < 9.25
slow = Link(latency=20e-3, bandwidth=80e6)
for n in (2, 3, 4, 8):
    for way, formula in formulas.items():
        virtual = SimulatedWorld(n, Cluster.flat(n, LINK))  # where nothing disturbs it
        virtual.run(one_step, way, device="meta")
        assert abs(virtual.elapsed / formula(n) - 1) < 0.03, (way, n)
        late = SimulatedWorld(n, Cluster.flat(n, slow))
        late.run(one_step, way, device="meta")
        assert late.elapsed > (3 if n == 8 else 1.2) * formula(n), (way, n)
        assert virtual.trace.rounds == (4 if way == "flat" else 3 * 2 * (n - 1))

# %% [markdown]
# **Try it.** In virtual time the same step takes a moment. Make rank 2 twice as slow as the others: by how much does
# the step grow? And if rank 2 is ten times *faster*?

# %%
speed = {2: 1.0}  # rank 2 takes this many times as long
four = SimulatedWorld(4, Cluster.flat(4, LINK, stragglers=speed))
steps = four.run(one_step, "flat", device="meta")
picture(four.trace, steps, title=f"{four.elapsed:.2f} s, with {speed}")

# %% tags=["folded"]
# One way to do it
took = {}
for factor in (1.0, 2.0, 0.1):
    cluster = Cluster.flat(4, LINK, stragglers={2: factor})
    four = SimulatedWorld(4, cluster)
    four.run(one_step, "flat", device="meta")
    took[factor] = four.elapsed
    print(f"rank 2 takes {factor:3} times as long: the step takes {four.elapsed:.2f} s")
print("All wait for the slowest rank. A faster one helps nobody.")
assert abs(took[2.0] - took[1.0] - T1 / 4) < 0.01 and took[0.1] > 0.99 * took[1.0]

# %% [markdown]
# ### Whose curve is it?
#
# "flat", where the master sends the model N−1 times, is our curve. It is torch's only where there is no NCCL. This is
# what its `DataParallel` calls to add up the gradients:

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
# and with many blocks all is over soon after $S\beta$. Our step can do it, too: `algorithm="chain"`.

# %%
guess_5 = predict(
    "16 devices. The flat master takes ten times as long as the ring. The chain is",
    choices=["nearly as slow as flat", "in between", "nearly as fast as the ring"],
)

# %%
seconds: dict[str, dict[int, float]] = {"flat": {}, "chain": {}, "ring": {}}
for n in (1, 2, 3, 4, 8, 16):
    virtual = SimulatedWorld(n, Cluster.flat(n, LINK))
    for way, times in seconds.items():
        virtual.run(one_step, way, device="meta")
        times[n] = virtual.elapsed
flat, chain, ring = (times[16] for times in seconds.values())
answer = "nearly as slow as flat" if chain > flat / 1.5 else "in between"
print(guess_5.compare("nearly as fast as the ring" if chain < 1.5 * ring else answer))
speed_up(seconds, title="How many times faster than one rank? (simulated)")

# %% tags=["folded"]
# Checks of the numbers above
parameters = inspect.signature(torch_comm.broadcast_coalesced).parameters
assert parameters["buffer_size"].default == 10 * 2**20
assert 9.5 < flat / ring < 10.5
at_16 = {name: times[1] / times[16] for name, times in seconds.items()}
assert at_16["flat"] < 0.6 and 4.5 < at_16["chain"] < 5.2
assert 5.5 < at_16["ring"] < 6.2
assert min(seconds["ring"], key=lambda n: seconds["flat"][n]) == 3

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
# - **One Python interpreter drives all GPUs**, in threads that take turns. In DDP each GPU has its own process. (Our
#   ranks have, too: this cost is not in our times.)
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
ROWS = 256  # up to 1,536
gpus = torch.cuda.device_count()
batch = train.images[:ROWS], train.labels[:ROWS]


def seconds_of(step: Callable[[], object]) -> float:
    """The mean of five calls, after two that do not count. On one thread."""
    return Timer("step()", globals={"step": step}).timeit(5).mean


def on_ranks(comm: Communicator) -> float:
    model = wide_model()
    step = partial(dp.data_parallel_step, comm, model, *batch, cross_entropy)
    return seconds_of(step)


def on_gpus(count: int) -> float:
    model = nn.DataParallel(wide_model().cuda(), device_ids=list(range(count)))
    images, labels = (tensor.cuda() for tensor in batch)

    def step() -> None:
        cross_entropy(model(images), labels).backward()
        torch.cuda.synchronize()  # until here the work is only in the GPU's queue

    return seconds_of(step)


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
for count, times in runs.items():
    print(f"{count} {'GPU' if gpus >= 2 else 'rank'}{'s' * (count > 1)}:", end=" ")
    print(f"median {statistics.median(times) * 1e3:.1f} ms,", end=" ")
    print(f"between {min(times) * 1e3:.1f} and {max(times) * 1e3:.1f} ms")
fastest, second = sorted(runs, key=lambda count: statistics.median(runs[count]))[:2]
if max(runs[fastest]) > min(runs[second]):
    print(f"{fastest} or {second}: their times overlap, so this does not settle it.")
elif fastest == 1:
    print("One is the fastest: here splitting costs more than it saves.")
else:
    gain = statistics.median(runs[1]) / statistics.median(runs[fastest])
    print(f"{fastest} are the fastest, {gain:.1f} times as fast as one.")

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
# functions need GPUs. But `torch.distributed` has our messages as collectives. We compare its `reduce` with ours.

# %%
import torch.distributed as dist

from distlib import torch_distributed


def both(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the ranks' gradients of one parameter on rank 0: ours and torch's."""
    model = nn.Linear(10, 10, bias=False)
    torch.manual_seed(comm.rank)
    model.weight.grad = torch.randint(-99, 100, (10, 10)).float()  # whole: no rounding
    theirs = model.weight.grad.clone()
    dp.reduce_gradients(comm, model)
    with torch_distributed(comm, "gloo"):
        dist.reduce(theirs, dst=0)
    return model.weight.grad, theirs


ours, theirs = world.run(both)[0]
print("Ours and torch's agree:", torch.equal(ours, theirs))

# %% tags=["folded"]
# Checks of the numbers above, and nn
# DataParallel on what this machine has
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
# - With equal parts, the average of the ranks' gradients is the gradient of the whole batch.
# - With unequal parts, an average of means counts the images of small parts too much.
# - A flat master sends N − 1 models and receives N − 1 gradients in every step.
# - In the end, more ranks make a flat master slower: sending grows while computing shrinks.
# - DDP sends gradients in each step, and the model only at the start.
#
# | $N$ ranks, a model of $S$ bytes | flat master | chain, as NCCL | ring (DDP) |
# |---|---|---|---|
# | sending the model takes about | $2\,(N-1)\,S\beta$ | $2S\beta$ | $2\frac{N-1}{N}S\beta$ |
# | images and outputs | through the master | through the master | stay |
# | gradients are | added: one loss | added: one loss | averaged: a loss per rank |
# | the optimizer steps | on the master | on the master | on every rank |
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - All three give the gradient of one process, if the parts are equal, the loss is the plain mean over the images, and
#   each layer treats each image by itself and draws no random numbers (no batch norm, no dropout). With unequal parts,
#   or with weights in the loss, only the sum of one loss does; an average of the ranks' means counts the images of
#   small parts too much (lesson 06).
# - Through a flat master more ranks are slower as soon as sending takes longer than what they save in computing.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/04_data_parallel/04_data_parallel.ipynb) you reduce the gradients, and write the
# step that puts the stages together. [Exercise 04b](../exercises/04b_through_a_master/04b_through_a_master.ipynb) is a
# side road: there you split the batch, replicate the model and gather the outputs.
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
