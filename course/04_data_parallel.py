# %% [markdown]
# # Data parallel
#
# A model trains on one GPU, and your machine has four. One line of PyTorch promises to use them all:
# `nn.DataParallel(model)`. You add the line, and a step can even take longer than before. Where does the time go?
#
# > After this lesson you will be able to
# >
# > - train one model on several ranks through a master, as `nn.DataParallel` does,
# > - say why the master adds the gradients of the ranks, and does not average them,
# > - count the calls and the messages of a step,
# > - say when more ranks make a step slower, and why PyTorch recommends another module, DDP.
# >
# > **Time:** about 40 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU.

# %% tags=["folded"]
# The imports and the model
import inspect
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from distlib import (
    Cluster,
    Communicator,
    Link,
    Message,
    SimulatedWorld,
    Trace,
    World,
    all_reduce,
    torch_distributed,
)
from distlib.draw import predict, speed_up, timeline
from distlib.training import StepClock, StepTimes, data_parallel as dp, digits

world = World(4)
train, _ = digits()


def make_model() -> nn.Module:
    torch.manual_seed(0)  # the same weights in every process that calls this
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10)]
    return nn.Sequential(*layers)


# %% [markdown]
# ## Five calls per rank
#
# Here the loss of a batch is a mean over its images, and the output for one image does not depend on the other images.
# So cut the batch: each rank computes the outputs of some images, with a copy of the same model.
#
# `nn.DataParallel` does this with a **master**. Rank 0 alone has the batch, the optimizer, and the up-to-date
# model. In each step there are five calls between the master and every other rank:
#
# | call | what travels | what happens next |
# |---|---|---|
# | `split_batch` | to the rank: its part of the batch | |
# | `replicate` | to the rank: a copy of the model | every rank runs its copy forward |
# | `gather_outputs` | to the master: the outputs | the master computes the loss and its gradient |
# | `split_gradient` | to the rank: its part of this gradient | every rank runs its copy backward |
# | `reduce_gradients` | to the master: the model's gradients | the master combines them, and takes a step |
#
# After the step only the master has the new weights, so the next step sends the model out again.
#
# `nn.DataParallel` drives all GPUs of one machine from a single process. Here the ranks share no tensors, so that every
# copy is a message that we can see. The first model has only one tensor, a matrix, and we play its step in virtual
# time:


# %% tags=["folded"]
# One step of a model with one tensor
def small_step(comm: Communicator) -> StepTimes:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    clock = StepClock(comm, model, seconds={"1": 3e-3})
    images, labels = train.images[:64], train.labels[:64]
    with clock.step():
        dp.data_parallel_step(comm, model, images, labels, cross_entropy)
    return clock.steps[0]


def call_of(message: Message) -> str:
    """The function that sent it: "replicate", "gather_outputs", …"""
    return message.site.collective


def picture(trace: Trace, steps: list[StepTimes], title: str) -> object:
    """The messages by call, and when each rank computed."""
    computing = [step.of("forward", "backward") for step in steps]
    return timeline(trace, title, computing=computing, color_by=call_of)


# %%
simulated = SimulatedWorld(4, Cluster.flat(4, Link(1e-3, 1e9)), contexts="threads")
steps = simulated.run(small_step)
picture(simulated.trace, steps, title="One step with a master")

# %% tags=["folded"]
# Checks of the picture above
assert len(simulated.trace) == 5 * 3
assert all(0 in (message.src, message.dst) for message in simulated.trace)

# %% [markdown]
# Three ranks with five calls each make 15 arrows. All begin or end at rank 0, which sends or receives one
# message after the other. The first two calls share round 1, because the master sends both without waiting for an
# answer.
#
# The next model, for handwritten digits of 8 by 8 pixels, has four tensors: a convolution and a linear layer have a
# weight and a bias each. Here a model travels tensor by tensor, and so do its gradients.

# %%
guess_1 = predict(
    "4 ranks, a model of 4 tensors. How many messages does a training step send?",
    unit="messages",
)


# %%
def trace_of_a_step(world: World | SimulatedWorld, model: nn.Module) -> Trace:
    images, labels = train.images[:64], train.labels[:64]
    world.run(dp.data_parallel_step, model, images, labels, cross_entropy)
    return world.trace


def messages_of_rank_1(trace: Trace) -> dict[str, list[int]]:
    """The bytes of each message that rank 1 sends or receives, by call."""
    found: dict[str, list[int]] = {}
    for message in trace:
        if 1 in (message.src, message.dst):
            found.setdefault(call_of(message), []).append(message.nbytes)
    return found


trace = trace_of_a_step(world, make_model())
print(guess_1.compare(len(trace)))
by_call = messages_of_rank_1(trace)
print("call               messages of rank 1    bytes")
for call, sizes in by_call.items():
    print(f"{call:16} {len(sizes):20} {sum(sizes):8,}")

# %% tags=["folded"]
# Checks of the numbers above
P = len(list(make_model().parameters()))
S = sum(parameter.nbytes for parameter in make_model().parameters())
assert [len(sizes) for sizes in by_call.values()] == [1, P, 1, 1, P] == [1, 4, 1, 1, 4]
assert (
    list(by_call.values())[1] == list(by_call.values())[4]
    and sum(by_call["replicate"]) == S
)
assert len(trace) == 33 and trace.rounds == 4  # each of the 3 other ranks has 11
for n in (2, 3, 5, 8):  # and with other numbers of ranks, too
    sent = trace_of_a_step(SimulatedWorld(n), make_model())
    assert len(sent) == (n - 1) * (2 * P + 3)

# %% [markdown]
# Each of the three other ranks takes part in 1 + 4 + 1 + 1 + 4 messages, which makes 33 in all.
#
# **With a master like `DataParallel`'s, a training step takes five calls for every other rank.**
#
# <details><summary>A rule that you may meet: 3×M calls</summary>
#
# [DTU's course on machine learning
# operations](https://skaftenicki.github.io/dtu_mlops/s9_scalable_applications/distributed_training/) says that with M
# devices, forward takes 3×M "communication calls to send batch, model and output between the devices".
#
# | the rule | here |
# |---|---|
# | counts the forward pass | the backward pass adds two calls, which DTU's page describes but does not count |
# | counts M devices | the master is one of them, and sends nothing to itself |
# | counts calls | here a call sends a message for each tensor. torch packs small tensors together, up to 10 MiB |
#
# </details>
#
# **Try it.** How many tensors go out to rank 1, and how many gradients come back, if you freeze the convolution,
# `model[0].requires_grad_(False)`? And in a fresh model, if you insert an `nn.BatchNorm2d(8)` after the convolution?
# This layer has 2 parameters, and 3 buffers: tensors that are not trained.

# %%
model = make_model()
# change the model here; insert a layer with model.insert(1, …)
print(
    {
        call: len(each)
        for call, each in messages_of_rank_1(trace_of_a_step(world, model)).items()
    }
)

# %% tags=["folded"]
# One way to do it
# All parameters and buffers go out; only trained parameters have gradients
frozen, normalized = make_model(), make_model().insert(1, nn.BatchNorm2d(8))
frozen[0].requires_grad_(False)
for model, expected in ((frozen, (4, 2)), (normalized, (4 + 2 + 3, 4 + 2))):
    by_call = messages_of_rank_1(trace_of_a_step(world, model))
    out, back = len(by_call["replicate"]), len(by_call["reduce_gradients"])
    print(f"{out} messages out with the model, {back} back with gradients")
    assert (out, back) == expected

# %% [markdown]
# ## Add or average?
#
# In lesson 02 four ranks *averaged* their gradients, because each rank had a loss of its own, the mean over its own
# images. Here the master computes one loss, the mean over the whole batch. The gradient of this loss with respect to
# the outputs has one row for each image, and each rank starts its backward pass from its own rows. In the next run the
# batch has 11 images, so the four parts cannot all have the same size.

# %%
guess_2 = predict(
    "What must the master do with the gradients of the ranks?",
    choices=["average them", "add them", "average them, weighted by images"],
)


# %%
def my_gradient(
    comm: Communicator, images: Tensor, labels: Tensor
) -> tuple[int, Tensor]:
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
    print(f"{name:33} differs from one process by {off[name]:.0e}")
print(guess_2.compare(min(off, key=off.get)))

# %% tags=["folded"]
# Checks of the numbers above
assert [n for n, _ in found] == [3, 3, 3, 2]
assert off["add them"] < 1e-15
assert min(off["average them"], off["average them, weighted by images"]) > 0.01

# %% [markdown]
# The loss already divides by 11, and the gradient of the outputs carries this division to the ranks. So parts of
# different sizes do no harm.
#
# **The master has one loss for the whole batch, so it adds the gradients.**
#
# A whole epoch, with `data_parallel_step` and the master's optimizer, gives the losses of one process, up to rounding:


# %% tags=["folded"]
# An epoch on four ranks, and in one process
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


# %%
difference = largest_difference(make_model)
print(f"largest difference of a loss: {difference:.0e}")
assert difference < 1e-4

# %% [markdown]
# **Try it.** A layer that mixes the images of a batch breaks this. Put `nn.BatchNorm2d(8)` after the convolution. By
# how much do the losses differ now, and why?


# %%
def my_model() -> nn.Module:
    return make_model()  # make_model().insert(1, …)


print(f"largest difference of a loss: {largest_difference(my_model):.0e}")


# %% tags=["folded"]
# One way to do it
def with_batch_norm() -> nn.Module:
    return make_model().insert(1, nn.BatchNorm2d(8))


difference = largest_difference(with_batch_norm)
print(f"largest difference of a loss: {difference:.0e}")
print("Each rank normalizes with the mean of its own 16 images. So does torch.")
assert difference > 1e-2

# %% [markdown]
# ## What it costs
#
# Now take a larger model, of 2.2 MB, on links of 80 MB/s. One copy of the model takes 27 ms. A single rank computes for
# 500 ms in each step, and $N$ ranks compute for $500/N$ ms, because the batch stays the same. The picture below also
# shows a ring, which has no master.

# %%
guess_3 = predict(
    "With a master, 8 ranks instead of 4. The training step is then",
    choices=["faster", "about as fast", "slower"],
)

# %% tags=["folded"]
# A training step through a master, and in a ring
LINK, T1 = Link(latency=25e-6, bandwidth=80e6), 0.5


def wide_model() -> nn.Module:
    sizes = ((64, 700), (700, 700), (700, 10))
    layers = (nn.Linear(*size, bias=False) for size in sizes)
    return nn.Sequential(nn.Flatten(), *layers)


WIDE = sum(parameter.nbytes for parameter in wide_model().parameters())
ONCE = WIDE / LINK.bandwidth  # seconds that the model takes through a link


def one_step(comm: Communicator, way: str, device: str = "meta") -> StepTimes:
    """A training step in which computing takes T1 / N. Returns when it did what."""
    torch.set_num_threads(1)  # one per rank, on every machine
    rows = 64 // comm.world_size if way == "ring" else 64
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
seconds: dict[str, dict[int, float]] = {"a master": {}, "a ring": {}}
for n in (1, 2, 3, 4, 8, 16):
    virtual = SimulatedWorld(n, Cluster.flat(n, LINK))
    for times, way in zip(seconds.values(), ("flat", "ring"), strict=True):
        virtual.run(one_step, way)
        times[n] = virtual.elapsed
print({n: f"{taken:.2f} s" for n, taken in seconds["a master"].items()})
print(guess_3.compare("slower"))
speed_up(seconds, title="How many times faster than one device? (simulated)")

# %% tags=["folded"]
# Checks of the numbers above and below
formulas = {
    "a master": lambda n: T1 / n + 2 * (n - 1) * ONCE,
    "a ring": lambda n: T1 / n + 2 * (n - 1) / n * ONCE,
}
assert round(WIDE / 1e6, 1) == 2.2 and round(1e3 * ONCE) == 27
for name, formula in formulas.items():
    assert all(abs(taken / formula(n) - 1) < 0.03 for n, taken in seconds[name].items())
master, ring = seconds.values()
assert min(master, key=master.get) == 3 == min(range(1, 40), key=formulas["a master"])
assert master[8] > 1.4 * master[4] and master[16] > master[1]
assert ring[16] < ring[8] < ring[4] and 5.5 < ring[1] / ring[16] < 6.2
assert abs((T1 / (2 * ONCE)) ** 0.5 - 3) < 0.1

# %% tags=["folded"]
# Both steps once more, on four real processes and a real clock
with World(4, network=LINK) as paced:
    for name, way in (("a master", "flat"), ("a ring", "ring")):
        runs = [paced.run(one_step, way, "cpu") for _ in range(4)]
        clocked = statistics.median(max(s.seconds for s in steps) for steps in runs[1:])
        print(f"{name}, 4 real processes: {clocked:.2f} s", end=", ")
        print(f"simulated {seconds[name][4]:.2f} s")

# %% [markdown]
# A busy machine makes the real processes slower.
#
# In the picture, a master is fastest with 3 ranks, and 16 ranks are slower than one. A model of $S$ bytes goes out to
# $N-1$ ranks, one after the other, and then $N-1$ gradients come in. A single rank takes $T_1$ seconds, and each byte
# $\beta$ seconds. If latency, batch and outputs cost little,
#
# $$T_\text{master}(N) \approx \frac{T_1}{N} + 2\,(N-1)\,S\beta$$
#
# The first term falls with $N$, and the second rises. Their sum is smallest near
# $N = \sqrt{\frac{T_1}{2S\beta}}$.
#
# **If a master sends its model to one rank after the other, more ranks can be slower.**
#
# In the ring each rank has images of its own, and all ranks add up their gradients as in lesson 02, so that no rank
# sends more than $2S$ bytes. PyTorch's DistributedDataParallel, or **DDP**, works without a master, too.
#
# **Try it.** Links become four times as fast. How many ranks are best with a master now? Guess from the square root,
# then compute it.

# %%
BANDWIDTH = 80e6  # change it
steps = {n: T1 / n + 2 * (n - 1) * WIDE / BANDWIDTH for n in range(1, 40)}
print("best:", min(steps, key=steps.get))

# %% tags=["folded"]
# One way to do it
# The square root of four: twice as many
steps = {n: T1 / n + 2 * (n - 1) * WIDE / 320e6 for n in range(1, 40)}
print("best:", min(steps, key=steps.get))
assert min(steps, key=steps.get) == 6

# %% [markdown]
# ## Why PyTorch recommends DDP
#
# On NVIDIA's GPUs under Linux, torch's own `DataParallel` sends the model more cleverly. It uses the library NCCL, in
# which a model travels along a chain of GPUs, block by block: while GPU 1 passes a block on to GPU 2, it receives the
# next block. So no link carries the model more than once, and gradients come back in the same way. From 3 ranks on, the
# chain's curve is nearer to the ring's than to the master's:

# %%
seconds["a chain"] = {}
for n in (1, 2, 3, 4, 8, 16):
    virtual = SimulatedWorld(n, Cluster.flat(n, LINK))
    virtual.run(one_step, "chain")
    seconds["a chain"][n] = virtual.elapsed
speed_up(seconds, title="The same, with a chain (simulated)")

# %% tags=["folded"]
# Checks of what is said above, and of torch's own source
from torch.nn.parallel import comm as torch_comm

chain = seconds["a chain"]
assert 4.5 < chain[1] / chain[16] < 5.2
assert all(chain[n] - ring[n] < master[n] - chain[n] for n in (3, 4, 8, 16))
source = inspect.getsource(torch_comm.reduce_add)
assert "if nccl.is_available" in source
assert "nccl.reduce(inputs, output=result, root=root_index)" in source
assert "reduce_add(" in inspect.getsource(torch_comm.reduce_add_coalesced)
parameters = inspect.signature(torch_comm.broadcast_coalesced).parameters
assert parameters["buffer_size"].default == 10 * 2**20

# %% [markdown]
# So with NCCL the model is not what makes torch's master a bottleneck. But more than the model passes through the
# master. Take the smallest GPT-2, with 124 million parameters. It cuts texts into **tokens**, pieces of words, and
# knows 50,257 of them. At each position of a text, its output has one number for every token that it knows. Now each
# rank has 8 texts of 1,024 tokens, so more ranks mean a larger batch.

# %%
guess_4 = predict(
    "What makes most of the bytes between the master and one other rank?",
    choices=["texts", "the model and its gradients", "outputs and their gradients"],
)

# %%
TOKENS, POSITIONS, TEXTS, PARAMETERS = 50_257, 1024, 8, 124_439_808
gpt2 = {  # bytes per rank and step, in float32
    "texts": 8 * TEXTS * POSITIONS,  # an int64 for each token
    "the model and its gradients": 2 * 4 * PARAMETERS,
    "outputs and their gradients": 2 * 4 * TEXTS * POSITIONS * TOKENS,
}
for name, nbytes in gpt2.items():
    print(f"{name:28} {nbytes / 1e6:8,.1f} MB {nbytes / sum(gpt2.values()):6.1%}")
print(guess_4.compare(max(gpt2, key=gpt2.get)))

# %% tags=["folded"]
# Checks of the numbers above
one_text = gpt2["outputs and their gradients"] / TEXTS
assert 2 * one_text < gpt2["the model and its gradients"] < 3 * one_text
width, layers = 768, 12
blocks = layers * (12 * width**2 + 13 * width)
assert TOKENS * width + POSITIONS * width + blocks + 2 * width == PARAMETERS

# %% [markdown]
# **With `DataParallel`, all outputs pass through one GPU, and they can be larger than the model.**
#
# With DDP the outputs stay where they are, because each rank has a loss of its own. PyTorch [recommends
# DDP](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html), even on one machine:
#
# | | `DataParallel` | DDP |
# |---|---|---|
# | images | come from the master, or from the CPU's memory | stay on their rank |
# | outputs | travel through the master | stay on their rank |
# | gradients | travel after the backward pass | travel during the backward pass ([lesson 05](05_ddp.ipynb)) |
# | Python | one process for all GPUs | one process for each GPU |
# | memory | the master also keeps all outputs and the optimizer | every rank needs equally much |
# | GPUs | of one machine | of one machine or many |
#
# **DDP leaves images and outputs on their ranks, and no rank collects them.**
#
# So the time can go into sending the model to one rank after the other, or into outputs that all pass
# through one GPU.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the model returns only its loss | the master of `DataParallel` gets one number per rank |
# | a run of DDP begins | rank 0 sends its model to all ranks, once |
# | the model has buffers, as with batch norm | by default, DDP copies the buffers of rank 0 before a forward pass |
# | `output_device` is another GPU | the outputs of `DataParallel` are there, not on the master |
#
# In [lesson 05b](05b_ddp_in_practice.ipynb) you measure `DataParallel` on your own GPUs, or our step on this machine.
#
# </details>
#
# ## In real frameworks
#
# In torch all of this is one line: `model = nn.DataParallel(model)`. Its forward pass does the first three calls, and
# its backward pass the last two:
#
# | our call | in `torch.nn.parallel` | backward |
# |---|---|---|
# | `split_batch` | `scatter` | |
# | `replicate` | `replicate`: broadcast | `reduce_gradients`: reduce |
# | forward | `parallel_apply`: a thread per GPU | backward |
# | `gather_outputs` | `gather` | `split_gradient`: scatter |
#
# These functions need GPUs. But `torch.distributed` has collectives like ours, on CPUs too. Its `reduce`
# adds up gradients as ours does:


# %%
def both(comm: Communicator) -> tuple[Tensor, Tensor]:
    """The sum of the ranks' gradients on rank 0: ours and torch's."""
    model = nn.Linear(10, 10, bias=False)
    torch.manual_seed(comm.rank)
    model.weight.grad = torch.randint(-99, 100, (10, 10)).float()  # whole: no rounding
    theirs = model.weight.grad.clone()
    dp.reduce_gradients(comm, model)
    with torch_distributed(comm, "gloo") as dist:
        dist.reduce(theirs, dst=0)
    return model.weight.grad, theirs


ours, theirs = world.run(both)[0]
print("Ours and torch's agree:", torch.equal(ours, theirs))

# %% tags=["folded"]
# Checks of the run above, and of the module on what this machine has
assert torch.equal(ours, theirs)
device = (
    "cuda" if torch.cuda.is_available() else "cpu"
)  # without GPUs it only calls the model
wrapped = nn.DataParallel(make_model().double().to(device))
cross_entropy(wrapped(few.to(device)), few_labels.to(device)).backward()
last_bias = list(wrapped.parameters())[3].grad.cpu()
assert torch.allclose(last_bias, candidates["add them"], rtol=0, atol=1e-10)
world.close()

# %% [markdown]
# ## In short
#
# - With a master like `DataParallel`'s, a training step takes five calls for every other rank.
# - The master has one loss for the whole batch, so it adds the gradients.
# - If a master sends its model to one rank after the other, more ranks can be slower.
# - With `DataParallel`, all outputs pass through one GPU, and they can be larger than the model.
# - DDP leaves images and outputs on their ranks, and no rank collects them.
#
# ## Now you
#
# In [the exercise](../exercises/04_data_parallel/04_data_parallel.ipynb) you reduce the gradients, and write the step
# that puts the calls together. [Exercise 04b](../exercises/04b_through_a_master/04b_through_a_master.ipynb) is a side
# road: there you split the batch, replicate the model and gather the outputs. Then go on with [DDP](05_ddp.ipynb).
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
