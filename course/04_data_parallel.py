# %% [markdown]
# # Data parallel
#
# After this lesson you will be able to
#
# - train one model on several ranks through a master, as torch's `nn.DataParallel` does it, stage by stage,
# - say why its gradients are added and not averaged, and why it equals training in one process,
# - count what it sends, and say what is right about the "3M" that is told about it,
# - say with how many ranks it is fastest, and why it stops paying, while a ring goes on.
#
# **Time:** about 45 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU.

# %%
import statistics
import time
from collections import Counter
from collections.abc import Callable

import torch
from torch import nn

from distlib import Cluster, Communicator, Link, RankError, ReduceOp, SimulatedWorld, World, all_reduce
from distlib.data_parallel import (
    data_parallel_step,
    gather_outputs,
    loss_of_outputs,
    reduce_gradients,
    replicate,
    split_batch,
    split_gradient,
)
from distlib.datasets import digits
from distlib.draw import bytes_per_rank, play_timeline, predict, speed_up, timeline
from distlib.trace import Message, Trace

world = World(4)

# %% [markdown]
# ## One process
#
# We begin with something that works: one process, one model, images of handwritten digits. 1,536 of them to train on
# and 261 to test with, 8 by 8 pixels each.

# %%
train, test = digits()
assert len(train.images) == 1_536 and len(test.images) == 261
assert train.images.shape[1:] == (1, 8, 8)


def make_model() -> nn.Module:
    torch.manual_seed(0)  # the same weights in every process that calls this
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))


model = make_model()
for name, parameter in model.named_parameters():
    print(f"{name:9} {str(tuple(parameter.shape)):>13} {parameter.numel():6,} numbers")
M = sum(parameter.nbytes for parameter in model.parameters())
print(f"M, the bytes of the model: {M:,}")
assert M == 4 * (8 * 9 + 8 + 288 * 10 + 10) == 11_880

# %% [markdown]
# A step is what it always is: the outputs, the loss, the gradients, and a small change of the weights. We train for
# four epochs, with 64 images a step.

# %%
BATCH, EPOCHS, LEARNING_RATE = 64, 4, 0.5
cross_entropy = nn.functional.cross_entropy
steps = [(train.images[i : i + BATCH], train.labels[i : i + BATCH]) for i in range(0, len(train.images), BATCH)]


def accuracy(model: nn.Module) -> float:
    """The share of the test images that the model names right."""
    with torch.no_grad():
        return float((model(test.images).argmax(dim=1) == test.labels).float().mean())


def train_alone() -> tuple[nn.Module, list[float], float]:
    """Train in this process. Returns the model, the loss of each step, and the median seconds of a step."""
    model, losses, seconds = make_model(), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for images, labels in steps:
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - start)
    return model, losses, statistics.median(seconds)


alone, losses_alone, seconds_alone = train_alone()
print(f"{len(losses_alone)} steps, loss from {losses_alone[0]:.2f} to {losses_alone[-1]:.2f}")
print(f"right on test images: {accuracy(make_model()):.0%} before, {accuracy(alone):.0%} after")
print(f"On this machine, today: {seconds_alone * 1e3:.2f} ms a step")
assert len(losses_alone) == 96 and losses_alone[-1] < losses_alone[0] / 4
assert accuracy(make_model()) < 0.2 and accuracy(alone) > 0.9

# %% [markdown]
# ## The idea
#
# Where can several ranks help? The loss of the batch is a mean over its images, and an image does not care which others
# are in the batch with it. So cut the batch: each rank computes the outputs of some of the images, with a copy of the
# same model.
#
# `nn.DataParallel` is the simplest way to do that. Rank 0 is the **master**. It has the batch, the model and the
# optimizer. In every step it hands out work and collects the results:
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
# At the end only the master has a new model. The copies are worth nothing any more: in the next step everybody gets a
# new one.
#
# In torch this is one process, and each "rank" is a GPU of the same machine. Here the ranks are processes, so every
# copy is a message that we can see.
#
# ## Stage by stage
#
# Each stage is a function of `distlib.data_parallel`, and we run one after the other on four ranks. In the exercise you
# write them. Here we look at what goes in and what comes out.
#
# **Split the batch.** Everybody calls `split_batch(comm, images)`. Only the images of rank 0 count. The others bring a
# tensor of the same shape: that is how they know what will come. To make it clear, they bring tensors full of −1.

# %%
images, labels = steps[0]


def my_part(comm: Communicator, images: torch.Tensor) -> torch.Tensor:
    batch = images if comm.rank == 0 else torch.full_like(images, -1.0)
    return split_batch(comm, batch)


parts = world.run(my_part, images)
for rank, part in enumerate(parts):
    print(f"rank {rank}: {len(part)} images, values from {part.min():.0f} to {part.max():.0f}")
    assert part.shape == (16, 1, 8, 8) and part.min() == 0
assert torch.equal(torch.cat(parts), images)

# %% [markdown]
# **Replicate the model.** `replicate(comm, model)` overwrites the model of every other rank with that of rank 0. Here
# rank 3 begins with weights of 3, and so on. What counts is what is there afterwards.


# %%
def my_copy(comm: Communicator) -> tuple[float, list[torch.Tensor]]:
    model = make_model()
    if comm.rank != 0:
        nn.init.constant_(model[0].weight, comm.rank)
    before = model[0].weight[0, 0, 0, 0].item()
    replicate(comm, model)
    return before, list(model.state_dict().values())


copies = world.run(my_copy)
for rank, (before, state) in enumerate(copies):
    print(f"rank {rank}: its first weight was {before:6.3f}, and is {state[0].flatten()[0]:6.3f}")
    assert all(torch.equal(mine, masters) for mine, masters in zip(state, copies[0][1], strict=True))

# %% [markdown]
# **Forward, and gather the outputs.** Each rank computes the outputs of its own images. Then the master collects them,
# in the order of the ranks, so that output number 20 belongs to image number 20 again.


# %%
def all_outputs(comm: Communicator, parts: list[torch.Tensor]) -> torch.Tensor | None:
    output = make_model()(parts[comm.rank])
    return gather_outputs(comm, output, batch_size=64)


outputs, *nothing = world.run(all_outputs, parts)
print(f"rank 0 has outputs of shape {tuple(outputs.shape)}, the others have {nothing}")
assert outputs.shape == (64, 10) and nothing == [None] * 3
assert torch.allclose(outputs, make_model()(images), rtol=1e-4, atol=1e-5)

# %% [markdown]
# **The loss.** The master alone has the labels. It computes one loss for the whole batch, and the gradient of that loss
# by the outputs. No rank is needed for this; we do it here in the notebook.

# %%
loss, gradient = loss_of_outputs(outputs, labels, cross_entropy)
print(f"loss {loss.item():.4f}, in one process {losses_alone[0]:.4f}")
print(f"gradient of the outputs: shape {tuple(gradient.shape)}")
assert abs(loss.item() - losses_alone[0]) < 1e-4
assert gradient.shape == outputs.shape

# %% [markdown]
# **Split that gradient.** Backward needs to know how the loss changes with *my* outputs. So each rank gets the rows of
# the gradient that belong to its images. It is the way of the outputs, back.
#
# **Backward, and reduce the gradients.** Now each rank goes backward through its own copy, from its rows. What it gets
# are gradients of the model. The master adds them up.


# %%
def gradients_of(
    comm: Communicator, parts: list[torch.Tensor], gradient: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of the last bias: what this rank found, and what it has after the reduction."""
    model = make_model()
    output = model(parts[comm.rank])
    output.backward(split_gradient(comm, gradient if comm.rank == 0 else None, output))
    mine = model[3].bias.grad.clone()
    reduce_gradients(comm, model)
    return mine, model[3].bias.grad


results = world.run(gradients_of, parts, gradient)
model = make_model()
cross_entropy(model(images), labels).backward()
for rank, (mine, _) in enumerate(results):
    print(f"rank {rank} found          {[round(value, 3) for value in mine[:4].tolist()]} …")
print(f"their sum on rank 0   {[round(value, 3) for value in results[0][1][:4].tolist()]} …")
print(f"in one process        {[round(value, 3) for value in model[3].bias.grad[:4].tolist()]} …")
assert torch.allclose(sum(mine for mine, _ in results), results[0][1], rtol=1e-5, atol=1e-7)
assert torch.allclose(results[0][1], model[3].bias.grad, rtol=1e-4, atol=1e-6)

# %% [markdown]
# ### Added, not averaged
#
# In lesson 02 four ranks *averaged* their gradients. Here they are added. Why the difference?
#
# There each rank had a loss of its own, the mean over *its* images. Here there is only one loss, the mean over *all* 64
# images, and the master computed it. The division by 64 is inside already: it went out to the ranks with the gradient
# of the outputs. Dividing by the number of ranks once more would make the gradient four times too small.
#
# This has an advantage. The last batch of an epoch is often smaller, and its parts are not equally large. An average of
# averages would then be wrong. A sum is still right. Try a batch of 11 images on 4 ranks.

# %%
guess = predict("11 images on 4 ranks. How many does rank 3 get?", unit="images")


# %%
def one_step(comm: Communicator, images: torch.Tensor, labels: torch.Tensor) -> tuple[int, list[torch.Tensor]]:
    model = make_model().double()
    data_parallel_step(comm, model, images, labels, cross_entropy)
    return len(split_batch(comm, images)), [parameter.grad for parameter in model.parameters()]


few, few_labels = train.images[:11].double(), train.labels[:11]
(_, gradients), *others = world.run(one_step, few, few_labels)
sizes = [len(part) for part in torch.tensor_split(few, 4)]
print(f"the parts have {sizes} images")
print(guess.compare(others[-1][0]))
assert sizes == [3, 3, 3, 2] and others[-1][0] == 2

model = make_model().double()
cross_entropy(model(few), few_labels).backward()
off = max(float((g - p.grad).abs().max()) for g, p in zip(gradients, model.parameters(), strict=True))
print(f"largest difference to one process, in float64: {off:.1e}")
assert off < 1e-12

# %% [markdown]
# With fewer images than ranks, somebody would have nothing to do. torch then leaves out those devices. We call it an
# error, because it is seldom meant.

# %%
try:
    world.run(one_step, few[:3], few_labels[:3])
except RankError as error:
    print(error)
    assert "at least 4 images for 4 ranks, got 3" in str(error)

# %% [markdown]
# ## The whole training
#
# `data_parallel_step` puts the stages together. It leaves the gradients in the master's model. Then the master's
# optimizer steps, as in one process.


# %%
def train_with_a_master(comm: Communicator) -> tuple[list[float], nn.Module, float]:
    model, losses, seconds = make_model(), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for images, labels in steps:
            start = time.perf_counter()
            loss = data_parallel_step(comm, model, images, labels, cross_entropy)
            if loss is not None:  # only the master knows the loss, and only the master steps
                losses.append(loss.item())
                optimizer.step()
            seconds.append(time.perf_counter() - start)
    return losses, model, statistics.median(seconds)


results = world.run(train_with_a_master)
losses, parallel, seconds_parallel = results[0]
difference = max(abs(one - other) for one, other in zip(losses, losses_alone, strict=True))
print(f"right on test images: {accuracy(parallel):.1%}, in one process {accuracy(alone):.1%}")
print(f"largest difference between the losses of the {len(losses)} steps: {difference:.1e}")
assert difference < 1e-3
assert accuracy(parallel) > 0.9

# %% [markdown]
# It is the same training. The losses differ by rounding only. (One kind of layer would break that: batch normalization,
# which computes means over the images that it sees. Here it would see a part of the batch. So it does in torch.)
#
# Is it faster?

# %%
ratio = seconds_parallel / seconds_alone
print("On this machine, today:")
print(f"one process {seconds_alone * 1e3:.2f} ms a step, four ranks with a master {seconds_parallel * 1e3:.2f} ms")
print(f"Four ranks take {ratio:.1f} times as long." if ratio > 1 else f"Four ranks are {1 / ratio:.1f} times as fast.")

# %% [markdown]
# For a model as small as this one, that is no surprise. A step is over in a moment, and there are dozens of messages
# in it. So let us look at the messages.
#
# ## Who sends what, and when
#
# One step of the same training, traced. Step through it with → and point at an arrow to read what it carries. There are
# four rounds: images and parameters go out, outputs come in, their gradient goes out, gradients come in.


# %%
def trace_of_a_step(world: World | SimulatedWorld, images: torch.Tensor, labels: torch.Tensor) -> Trace:
    def step(comm: Communicator) -> None:
        data_parallel_step(comm, make_model(), images, labels, cross_entropy)

    world.run(step)
    return world.trace


trace = trace_of_a_step(world, images, labels)
assert trace.rounds == 4
assert all(message.src == 0 or message.dst == 0 for message in trace)
play_timeline(trace, by="round", title="One step of DataParallel on 4 ranks")

# %% [markdown]
# Every message begins or ends at rank 0. The others never talk to each other.
#
# The trace knows which stage has sent a message. So we can add up.

# %%
guess = predict("How many bytes of messages does this step need, all together? The model has 11,880.", unit="bytes")


# %%
def stage_of(message: Message) -> str:
    """The function that sent a message: "replicate", "gather_outputs", …"""
    return message.site.call.partition("(")[0]


def bytes_by_stage(trace: Trace) -> Counter[str]:
    counts: Counter[str] = Counter()
    for message in trace:
        counts[stage_of(message)] += message.nbytes
    return counts


counts = bytes_by_stage(trace)
for stage, nbytes in counts.items():
    print(f"{stage:17} {nbytes:7,} bytes, {nbytes / 3:9,.0f} for each of the 3 other ranks, {nbytes / 3 / M:.2f} M")
print(guess.compare(sum(counts.values())))

IMAGE, OUTPUT = 64 * 4, 10 * 4  # bytes of an image of 64 pixels, and of its outputs, in float32
assert counts == {
    "split_batch": 48 * IMAGE,  # 48 of the 64 images: 16 stay on the master
    "replicate": 3 * M,
    "gather_outputs": 48 * OUTPUT,
    "split_gradient": 48 * OUTPUT,
    "reduce_gradients": 3 * M,
}

# %% [markdown]
# ### What is the "3M"?
#
# You will meet rules such as "DataParallel communicates 3M in a step", or 2M, with M for the bytes of the model. They
# seldom say what is counted. We can.
#
# For each rank beside the master, the step moves
#
# - **M** out: the parameters (and buffers, if the model has any),
# - **M** back: the gradients of the parameters,
# - the outputs back and their gradient out. That is twice the outputs of a rank's part of the batch. They have nothing
#   to do with M. They grow with the batch,
# - and the images out.
#
# So it is 2M, and the third term is *not* an M: it is as large as the outputs. Whether you may forget it depends on the
# model. Take two: our classifier, and a language model of the size of GPT-2, which has an output for each of 50,257
# words at each of 1,024 positions of a text. The number of its parameters follows from its shape.

# %%
WORDS, POSITIONS, WIDTH, LAYERS = 50_257, 1_024, 768, 12
gpt2_parameters = WORDS * WIDTH + POSITIONS * WIDTH + LAYERS * (12 * WIDTH**2 + 13 * WIDTH) + 2 * WIDTH
assert gpt2_parameters == 124_439_808

print("third term: outputs of a rank's part, back and forth, in M")
third_term = {
    "our classifier, 16 images a rank": 2 * 16 * OUTPUT / M,
    "GPT-2, 1 text a rank": 2 * 1 * POSITIONS * WORDS / gpt2_parameters,
    "GPT-2, 8 texts a rank": 2 * 8 * POSITIONS * WORDS / gpt2_parameters,
}
for name, share in third_term.items():
    print(f"    {name:33} {share:5.2f} M")
assert third_term["our classifier, 16 images a rank"] < 0.11
assert 0.8 < third_term["GPT-2, 1 text a rank"] < 0.9 and third_term["GPT-2, 8 texts a rank"] > 6

# %% [markdown]
# For the classifier the third term is a tenth of M, and "2M" is the better rule. For the language model with a single
# text it is nearly M, and "3M" is right by chance. With eight texts it is more than six M, and most of the traffic is
# outputs. (That is why people who train language models with DataParallel let the *model* compute its loss: then each
# rank sends one number instead of its outputs.)
#
# Here is a toy language model for which the third M is exact: 64 words, vectors of 16 numbers, and 16 words of text for
# each rank.


# %%
def toy_step(comm: Communicator) -> int:
    model = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 64, bias=False))
    text, following = torch.randint(64, (16 * comm.world_size,)), torch.randint(64, (16 * comm.world_size,))
    data_parallel_step(comm, model, text, following, cross_entropy)
    return sum(parameter.nbytes for parameter in model.parameters())


toy_bytes = world.run(toy_step)[0]
counts = bytes_by_stage(world.trace)
for stage, nbytes in counts.items():
    print(f"{stage:17} {nbytes / 3 / toy_bytes:.3f} M for each of the 3 other ranks")
without_text = sum(counts.values()) - counts["split_batch"]
assert without_text / 3 == 3 * toy_bytes

# %% [markdown]
# M out, M back, half an M of outputs back and half an M of their gradient out. That makes 3M, beside the text itself.
#
# Another way to a third M is to count further than one step: the parameters go out, the gradients come back, and the
# new parameters go out. But these are the parameters of the next step. Count them in both, and a training of 100 steps
# has 300 M instead of 200.
#
# ### Beside the ring
#
# The other way to train in parallel is that of lesson 02, and torch calls it DistributedDataParallel, **DDP**. There is
# no master. Each rank has its own part of the data, its own copy of the model, its own optimizer. They sum up their
# gradients in a ring, and everybody takes the same step. No model goes out, and no outputs come in.
#
# | for $N$ ranks | a rank in the ring | other ranks | master |
# |---|---|---|---|
# | sends | $2\frac{N-1}{N}M$ | $M$ + outputs | $(N-1)\,M$ + images + gradient of the outputs |
# | receives | $2\frac{N-1}{N}M$ | $M$ + images + gradient of the outputs | $(N-1)\,M$ + outputs |
#
# Leave out images and outputs, and add up what all ranks send: $(N-1)M$ from the master and $M$ from each of the $N-1$
# others, that is $2(N-1)M$. In the ring it is $N \cdot 2\frac{N-1}{N}M$. **The same.** It is the story of lesson 02
# again: not too much is sent, but too much of it by one rank.

# %%
guess = predict("8 ranks. How many times its model does the master send in a step?", unit="M")


# %%
def ring_step(comm: Communicator) -> None:
    """One step of DDP, in its plainest form: a part of the batch, the loss of it, one all-reduce a parameter."""
    model = make_model()
    my_images, my_labels = (part.tensor_split(comm.world_size)[comm.rank] for part in (images, labels))
    cross_entropy(model(my_images), my_labels).backward()
    for parameter in model.parameters():
        all_reduce(comm, parameter.grad, op=ReduceOp.AVG)


def model_traffic(trace: Trace) -> Trace:
    """Only parameters and their gradients."""
    return trace.filter(lambda message: stage_of(message) in ("replicate", "reduce_gradients", "all_reduce"))


print("ranks   master sends   others send   ring, each sends   all together")
pairs = {}
for n in range(2, 9):
    ranks = SimulatedWorld(n)
    through_master = model_traffic(trace_of_a_step(ranks, images, labels))
    ranks.run(ring_step)
    ring = model_traffic(ranks.trace)
    pairs[n] = (through_master, ring)
    print(f"{n:5} {through_master.bytes_sent[0] / M:12.2f} M {through_master.bytes_sent[1] / M:11.2f} M "
          f"{max(ring.bytes_sent) / M:16.2f} M {sum(ring.bytes_sent) / M:12.2f} M")  # fmt: skip
    assert through_master.bytes_sent == [(n - 1) * M] + [M] * (n - 1)
    assert through_master.bytes_received == through_master.bytes_sent
    assert sum(through_master.bytes_sent) == sum(ring.bytes_sent) == 2 * (n - 1) * M
    assert abs(max(ring.bytes_sent) / (2 * (n - 1) / n * M) - 1) < 0.02  # chunks of unequal length

print(guess.compare(pairs[8][0].bytes_sent[0] / M))

# %%
bytes_per_rank(
    compare={"through a master": pairs[8][0], "ring": pairs[8][1]},
    title="Parameters and gradients in one step, 8 ranks",
)

# %% [markdown]
# ### Could the master do better?
#
# The broadcast need not come from the master alone. Along a tree (lesson 03) other ranks pass the model on. torch takes
# the broadcast of NCCL where it can ([comm.cpp](https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/comm.cpp)),
# in which GPUs pass on what they get, too. Our step takes `algorithm="tree"`.


# %%
def step_with(comm: Communicator, algorithm: str) -> None:
    data_parallel_step(comm, make_model(), images, labels, cross_entropy, algorithm)


eight = SimulatedWorld(8)
for algorithm in ("flat", "tree"):
    eight.run(step_with, algorithm)
    sent = model_traffic(eight.trace).bytes_sent
    print(f"{algorithm}: the master sends {sent[0] / M:.0f} M, and all together send {sum(sent) / M:.0f} M")
    assert (sent[0], sum(sent)) == ({"flat": 7, "tree": 3}[algorithm] * M, 14 * M)

# %% [markdown]
# That helps. But still the whole model leaves one rank, in every step, and the others wait for it; then the gradients
# all come back to that rank. The images and outputs have no other way than through the master anyhow.
#
# ## What it costs in time
#
# How many times faster are N ranks? This laptop cannot tell: all ranks share its cores. So we ask a simulated cluster.
# Computing is simulated too: with `comm.sleep` a rank lets time pass on its virtual clock.
#
# Take a model of 25 million numbers, which makes M = 100 MB. A batch has 256 images, and one device needs 400 ms for
# it, forward and backward. The links have 10 GB/s and 20 µs. They are numbers to think with. As in lesson 03, the
# tensors have shapes but no contents.

# %%
LINK = Link(latency=20e-6, bandwidth=10e9)
LARGE_BATCH, SECONDS_AN_IMAGE = 256, 0.4 / 256


def large_model() -> nn.Module:
    """25 million numbers, as shapes without contents."""
    sizes = [3 * 32 * 32, 7000, 500, 10]
    linear = [nn.Linear(*pair, device="meta") for pair in zip(sizes[:-1], sizes[1:], strict=True)]
    return nn.Sequential(nn.Flatten(), *linear)


def timed_model(comm: Communicator) -> nn.Module:
    """The same with a clock: before it computes, it lets the time pass that forward and backward take."""
    model = large_model()
    model.register_forward_pre_hook(lambda model, inputs: comm.sleep(len(inputs[0]) * SECONDS_AN_IMAGE))
    return model


def without_contents(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(rows, 3, 32, 32, device="meta"), torch.empty(rows, dtype=torch.int64, device="meta")


def timed_master(comm: Communicator) -> None:
    data_parallel_step(comm, timed_model(comm), *without_contents(LARGE_BATCH), cross_entropy)


def timed_ring(comm: Communicator) -> None:
    model = timed_model(comm)
    images, labels = without_contents(len(range(comm.rank, LARGE_BATCH, comm.world_size)))
    cross_entropy(model(images), labels).backward()
    for parameter in model.parameters():
        all_reduce(comm, parameter.grad, op=ReduceOp.AVG)


def simulate(step: Callable[[Communicator], None], n: int) -> SimulatedWorld:
    """Run a step on n simulated ranks."""
    ranks = SimulatedWorld(n, Cluster.flat(n, LINK))
    ranks.run(step)
    return ranks


large_bytes = sum(parameter.nbytes for parameter in large_model().parameters())
print(f"M = {large_bytes / 1e6:.1f} MB, {large_bytes / LINK.bandwidth * 1e3:.1f} ms through a link")
assert round(large_bytes / 4e6) == 25 and round(large_bytes / 1e6) == 100

# %% [markdown]
# First one step on four ranks, as a picture.

# %%
four = simulate(timed_master, 4)
model_out = [message for message in four.trace if stage_of(message) == "replicate"]
gradients_back = [message for message in four.trace if stage_of(message) == "reduce_gradients"]
assert round(1e3 * max(message.end for message in model_out)) == 31
assert round(1e3 * min(message.taken for message in gradients_back)) == 131
assert round(1e3 * four.elapsed) == 161
timeline(four.trace, title="DataParallel, 4 ranks: the model goes out, everybody computes, the gradients come back")

# %% [markdown]
# For 31 ms the parameters go out, to one rank after the other. Then everybody computes for 100 ms, a quarter of 400 ms.
# After that, outputs and their gradient are exchanged in a moment. From 131 ms on the gradients come back, again one
# after the other, and at 161 ms the step is over. Hatched bars are ranks that wait for the master to take what they
# have. For more than 60 ms of sending and receiving nobody computes.
#
# With $N$ ranks, sending and receiving take about $2(N-1)\,M\beta$, and computing takes a part of 400 ms:
#
# $$T_\text{master}(N) \approx \frac{T_1}{N} + 2\,(N-1)\,M\beta \qquad
# T_\text{ring}(N) \approx \frac{T_1}{N} + 2\,\frac{N-1}{N}\,M\beta$$
#
# In the first, one term falls with $N$ and the other one rises. So there is a best number of ranks.

# %%
guess = predict("16 ranks. How many times faster than one rank is DataParallel?", unit="times")

# %%
seconds = {
    "DataParallel": {n: simulate(timed_master, n).elapsed for n in (1, 2, 3, 4, 5, 6, 8, 12, 16)},
    "ring": {n: simulate(timed_ring, n).elapsed for n in (1, 2, 3, 4, 5, 6, 8, 12, 16)},
}
print("ranks   DataParallel, ms   ring, ms   speed-up: DataParallel   ring")
for n in (1, 2, 4, 8, 16):
    (master_1, master_n), (ring_1, ring_n) = ((times[1], times[n]) for times in seconds.values())
    print(f"{n:5} {master_n * 1e3:15.1f} {ring_n * 1e3:12.1f} {master_1 / master_n:20.2f} {ring_1 / ring_n:13.2f}")
    estimate = 0.4 / n + 2 * (n - 1) * large_bytes / LINK.bandwidth
    assert abs(master_n / estimate - 1) < 0.02

speed_ups = {name: {n: times[1] / times[n] for n in times} for name, times in seconds.items()}
print(guess.compare(speed_ups["DataParallel"][16]))

# %%
best = max(speed_ups["DataParallel"], key=lambda n: speed_ups["DataParallel"][n])
print(f"DataParallel is fastest with {best} ranks: {speed_ups['DataParallel'][best]:.1f} times as fast as one")
assert best == 4 and 2.4 < speed_ups["DataParallel"][best] < 2.6
assert speed_ups["DataParallel"][16] < 1.3 and speed_ups["ring"][16] > 8
assert max(speed_ups["ring"], key=lambda n: speed_ups["ring"][n]) == 16
speed_up(seconds, title="One step with 256 images: how many times faster than one rank?")

# %% [markdown]
# With four ranks DataParallel is at its best, two and a half times as fast as one. With 16 ranks it is hardly faster
# than one rank alone, and the other 15 might as well go home. The ring goes on: more than eight times as fast.
#
# When does it stop paying altogether? We let it run until it is slower than a single rank.

# %%
n = 16
while simulate(timed_master, n).elapsed < seconds["DataParallel"][1]:
    n += 1
print(f"from {n} ranks on, DataParallel is slower than one rank")
best_by_formula = (0.4 / (2 * large_bytes / LINK.bandwidth)) ** 0.5
print(f"and the formula is smallest at N = √(T₁ / 2Mβ) = {best_by_formula:.1f}")
assert 18 <= n <= 22
assert abs(best_by_formula - best) < 0.6

# %% [markdown]
# So the best number of ranks does not depend on how many you can buy. It depends on how long computing takes beside
# sending the model once. A model that computes four times as long for its size stands twice as many ranks.
#
# ## Measure it: one device against several
#
# Now on real devices. If this machine has two GPUs or more, the cell below times torch's own `nn.DataParallel` on one
# of them and on several. Otherwise it times our step on one, two and four ranks, which share the cores of this machine.
# The conclusion is computed from the times. Change the size of the batch and of the model, and run it again. When do
# several win, and by how much? Is it what you expect from the formula?

# %%
WIDE, ROWS = 512, 512  # try other numbers
gpus = torch.cuda.device_count()


def wide_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, 10))


wide_images, wide_labels = train.images[:ROWS].flatten(1), train.labels[:ROWS]


def median_seconds(step: Callable[[], object], times: int = 8) -> float:
    """The median time of a call, after two that do not count."""
    seconds = []
    for _ in range(times + 2):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[2:])


def time_on_ranks(comm: Communicator) -> float:
    model = wide_model()
    return median_seconds(lambda: data_parallel_step(comm, model, wide_images, wide_labels, cross_entropy))


def time_on_gpus(count: int) -> float:
    model = nn.DataParallel(wide_model().cuda(), device_ids=list(range(count)))
    on_gpu, labels_on_gpu = wide_images.cuda(), wide_labels.cuda()

    def step() -> None:
        model.zero_grad()
        cross_entropy(model(on_gpu), labels_on_gpu).backward()
        torch.cuda.synchronize()

    return median_seconds(step)


if gpus >= 2:
    measured = {count: time_on_gpus(count) for count in range(1, gpus + 1)}
else:
    measured = {}
    for count in (1, 2, 4):
        with World(count) as ranks:
            measured[count] = max(ranks.run(time_on_ranks))

what = "GPUs" if gpus >= 2 else "ranks, on the cores of this machine"
print(f"On this machine, today. {what}:")
for count, taken in measured.items():
    print(f"{count:5} {taken * 1e3:9.2f} ms a step, {measured[1] / taken:.2f} times as fast as 1")
fastest = min(measured, key=lambda count: measured[count])
worth_it = f"{fastest} are the fastest" if fastest > 1 else "1 is the fastest, several do not pay"
print(f"Conclusion, for {ROWS} images and layers {WIDE} wide: {worth_it}.")
assert max(measured[1] / taken for taken in measured.values()) == measured[1] / measured[fastest]

# %% [markdown]
# ## In real frameworks
#
# In torch all of this is one line: `nn.DataParallel(model)`. It is used like a model. Forward does the first half of
# our stages and returns all outputs on the first GPU. The second half happens by itself when you call `backward`: torch
# has written down how the copies were made, and goes back the same way.
#
# | our stage | in `torch.nn.parallel` | what goes back through it |
# |---|---|---|
# | `split_batch` | `scatter` | |
# | `replicate` | `replicate`, a broadcast | `reduce_gradients`: a reduce-add |
# | forward | `parallel_apply`, a thread for each GPU | backward |
# | `gather_outputs` | `gather` | `split_gradient`: a scatter |
#
# These functions copy from GPU to GPU, and refuse tensors on a CPU. Without GPUs, `nn.DataParallel` only calls the
# model that it wraps. So this comparison is a real one only where there are two GPUs or more.

# %%
device = "cuda" if gpus else "cpu"
theirs = nn.DataParallel(make_model().double().to(device))
cross_entropy(theirs(few.to(device)), few_labels.to(device)).backward()
largest = max(
    float((parameter.grad.cpu() - ours).abs().max())
    for parameter, ours in zip(theirs.parameters(), gradients, strict=True)
)
used = f"nn.DataParallel used {gpus} GPUs" if gpus >= 2 else "No two GPUs here, so nn.DataParallel used no copies"
print(f"{used}. Largest difference to our gradients: {largest:.1e}")
assert largest < 1e-10

# %% [markdown]
# One thing differs, and it can be seen without a GPU. torch cuts the batch as `torch.chunk` does, where all parts but
# the last are equally long. We cut it as `torch.tensor_split` does.

# %%
for size in (10, 5):
    theirs_, ours_ = ([len(part) for part in cut(torch.zeros(size), 4)] for cut in (torch.chunk, torch.tensor_split))
    print(f"{size:2} images on 4 ranks: torch {theirs_}, ours {ours_}")
assert [len(part) for part in torch.chunk(torch.zeros(10), 4)] == [3, 3, 3, 1]
assert [len(part) for part in torch.chunk(torch.zeros(5), 4)] == [2, 2, 1]

# %% [markdown]
# With five images torch leaves the fourth device out.
#
# `torch.distributed` has the messages of our stages as collectives: `scatter`, `broadcast`, `gather` and `reduce`. We
# compare the last one with ours, on the same four ranks: the gradients of a model, added up on rank 0.

# %%
import torch.distributed as dist

from distlib.process_group import torch_distributed


def ours_and_theirs(comm: Communicator) -> list[tuple[torch.Tensor, torch.Tensor]]:
    model = make_model()
    for parameter in model.parameters():
        parameter.grad = torch.randint(-99, 100, parameter.shape).float()  # whole numbers: no rounding
    theirs = [parameter.grad.clone() for parameter in model.parameters()]
    reduce_gradients(comm, model)
    with torch_distributed(comm):
        for gradient in theirs:
            dist.reduce(gradient, dst=0)
    return [(parameter.grad, other) for parameter, other in zip(model.parameters(), theirs, strict=True)]


assert all(torch.equal(ours, other) for ours, other in world.run(ours_and_theirs)[0])
print("Ours and torch's agree.")

# %% [markdown]
# ### Why torch says: use DDP, also on one machine
#
# The documentation of `nn.DataParallel` warns: take DistributedDataParallel instead, even with a single machine
# ([docs](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)). You have seen one half of
# the reasons, in bytes. The other half is not in messages:
#
# - **Everything goes through the master**: the model out in every step, the outputs in, the gradients in.
# - **The master needs more memory** than the others: the whole batch, all outputs, the optimizer.
# - **One Python interpreter drives all GPUs.** The threads take turns, because only one of them runs Python code at a
#   time ([tutorial](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html),
#   [notes](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-nn-ddp-instead)). In DDP each GPU has a process of
#   its own. (Our ranks are processes, so this cost is not in our times.)
# - **Nothing overlaps.** All stages wait for each other. DDP sends the first gradients while the last are still being
#   computed (Li et al., 2020). That is the next lesson.
# - **It ends at the machine.** Threads cannot drive the GPUs of another one.
#
# What speaks for it is that it needs one line and no launcher.

# %%
world.close()

# %% [markdown]
# ## In short
#
# | with $N$ ranks, and a model of $M$ bytes | DataParallel | ring (DDP) |
# |---|---|---|
# | busiest rank sends | $(N-1)\,M$ and more | $2\frac{N-1}{N}M$ |
# | all together send | $2(N-1)M$, images, outputs twice | $2(N-1)M$ |
# | time of a step | $\frac{T_1}{N} + 2(N-1)M\beta$ | $\frac{T_1}{N} + 2\frac{N-1}{N}M\beta$ |
# | gradients are | added: one loss for the whole batch | averaged: each rank has its own loss |
# | the optimizer steps | on the master | on every rank |
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
#   [_functions.py](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/_functions.py).
# - PyTorch, [Getting started with Distributed Data
#   Parallel](https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html). Its first section compares the two.
# - S. Li et al., [PyTorch Distributed: Experiences on Accelerating Data Parallel
#   Training](https://arxiv.org/abs/2006.15704), VLDB 2020. How DDP came to be what it is.
# - A. Krizhevsky, [One weird trick for parallelizing convolutional neural
#   networks](https://arxiv.org/abs/1404.5997), 2014. Which layers to cut by images, and which not.
