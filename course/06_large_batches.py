# %% [markdown]
# # Large batches
#
# Sixteen GPUs pass through the data sixteen times as fast as one. After the same number of epochs, their model is
# worse. Are large batches bad for learning? This lesson follows the question step by step, until a single number is
# left that nobody had changed.
#
# > After this lesson you will be able to
# >
# > - say what a gradient must be divided by when ranks share a batch, and how far off the usual mistakes are,
# > - train with a batch that does not fit into memory,
# > - read a map of learning rates and batch sizes: where the linear rule holds, and which rate no batch can pass,
# > - say from which batch size on more workers save few steps,
# > - send fewer messages with local SGD, and check with a control how much the messages mattered.
# >
# > **Time:** about 55 minutes. **You need:** [All-reduce](02_all_reduce.ipynb), and [DDP](05_ddp.ipynb) for the part on
# > real frameworks. No GPU.

# %% tags=["folded"]
# The imports
import statistics
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from distlib import (
    Cluster,
    Communicator,
    Link,
    ReduceOp,
    SimulatedWorld,
    World,
    all_reduce,
    torch_distributed,
)
from distlib.draw import heat_map, predict, sweep
from distlib.draw.style import format_seconds
from distlib.training.datasets import digits
from distlib.training.large_batch import (
    Batch,
    accumulate_gradients,
    local_sgd_round,
)
from distlib.training.model_stack import ModelStack

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% tags=["folded"]
# Four ranks, the images, and a small classifier
world = World(4)
train_set, test_set = digits()
average_image = train_set.images.mean(dim=0)
images, labels = train_set.images - average_image, train_set.labels
test_images, test_labels = test_set.images - average_image, test_set.labels


def make_model(seed: int) -> nn.Module:
    """A small classifier. The seed decides its first weights."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


NUMBERS = sum(parameter.numel() for parameter in make_model(0).parameters())
print(f"{len(labels):,} images to train on, {len(test_labels)} to test with")
print(f"{NUMBERS:,} parameters")
assert len(labels) == 1536 and len(test_labels) == 261 and NUMBERS == 2410

# %% [markdown]
# ## What is a gradient divided by?
#
# The loss of a batch is the *mean* of the losses of its samples, so every sample counts equally. When ranks share the
# batch, this must stay true: the result must not depend on which rank a sample happens to be on.
#
# The question is famous, because so many have got it wrong. In 2024 it came out that Hugging Face transformers and
# other trainers divided by the wrong number when they accumulated the gradients of language models. Below, under
# "Tokens", we make the same mistake.
#
# The usual method sounds safe: each rank computes the mean of its own losses, and the ranks average their gradients. In
# lesson 02 it was correct, because all ranks had equally many images. Now take the last batch of an epoch, when only 50
# images are left. Pieces of 16 images go to ranks 0, 1 and 2, and rank 3 gets only two images.

# %%
LENGTHS = [16, 16, 16, 2]
TOTAL = sum(LENGTHS)

weights = [1 / length / 4 for length in LENGTHS]  # of one image of each rank
for rank in (0, 3):
    print(f"in the average an image of rank {rank} counts 1/{1 / weights[rank]:.0f}")

# %% [markdown]
# These two images together weigh as much as sixteen others. Does it matter? We run this method on four ranks, together
# with five other methods that people write. In each method a rank adds up the losses of its images, divides the sum by
# something, and computes the gradient. Then an all-reduce adds up the gradients, or averages them. We compare the
# result with the gradient of all 50 images in one process.
#
# Torch's loss functions return the losses of single samples with `reduction="none"`.


# %%
def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One loss for each sample."""
    return cross_entropy(outputs, targets, reduction="none")


def gradient_of(loss: torch.Tensor, model: nn.Module) -> torch.Tensor:
    """All numbers of a gradient in one vector."""
    parts = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([part.flatten() for part in parts])


# What a rank with this many images divides by, and what the all-reduce does.
WAYS: dict[str, tuple[Callable[[int], int], ReduceOp]] = {
    "sum / own images, averaged": (lambda own: own, ReduceOp.AVG),
    "sum / own images, added": (lambda own: own, ReduceOp.SUM),
    "sum, added": (lambda own: 1, ReduceOp.SUM),
    "sum, averaged": (lambda own: 1, ReduceOp.AVG),
    "sum / all images, averaged": (lambda own: TOTAL, ReduceOp.AVG),
    "sum / all images, added": (lambda own: TOTAL, ReduceOp.SUM),
}

# %%
guess_1 = predict("Which way gives the gradient of all 50 images?", choices=[*WAYS])


# %%
def combined_gradient(
    comm: Communicator,
    model: nn.Module,
    pieces: list[Batch],
    way: tuple[Callable[[int], int], ReduceOp],
) -> torch.Tensor:
    divisor, op = way
    my_images, my_labels = pieces[comm.rank]
    loss = losses(model(my_images), my_labels).sum() / divisor(len(my_labels))
    mine = gradient_of(loss, model)
    all_reduce(comm, mine, op)
    return mine


# %% tags=["folded"]
# Run each of them, and compare with one process
last_images, last_labels = images[-TOTAL:], labels[-TOTAL:]
pieces = list(zip(last_images.split(LENGTHS), last_labels.split(LENGTHS), strict=True))
model = make_model(0)
correct = gradient_of(losses(model(last_images), last_labels).mean(), model)

found = {}
print("                             times as long   off by")
for name, way in WAYS.items():
    found[name] = gradient = world.run(combined_gradient, model, pieces, way)[0]
    length, off = (
        gradient.norm() / correct.norm(),
        (gradient - correct).norm() / correct.norm(),
    )
    print(f"{name:28} {length:13.2f}   {off:6.0%}")
print(guess_1.compare(min(found, key=lambda name: (found[name] - correct).norm())))

# %% [markdown]
# Only the last method is correct. The others fail in two ways.
#
# - **The length is wrong.** A sum without a division is 50 times too long, and a division too many makes it 4 times too
#   short. Because the direction is correct, nothing crashes: it is as if somebody had changed the learning rate by that
#   factor. The factor changes with the size of the batch, with the number of ranks, or with both.
# - **The direction is wrong**, in the first two methods. The first gradient has almost the correct length, and yet it
#   is off by more than half. It belongs to another loss, in which some images count eight times as much as others.

# %% tags=["folded"]
# Checks of the numbers above
assert weights[3] / weights[0] == 8
times = {
    name: float(gradient.norm() / correct.norm()) for name, gradient in found.items()
}
assert abs(times["sum, added"] / 50 - 1) < 1e-4
assert abs(times["sum, averaged"] / 12.5 - 1) < 1e-4
assert abs(times["sum / all images, averaged"] * 4 - 1) < 1e-4
assert torch.allclose(found["sum / all images, added"], correct, rtol=1e-4, atol=1e-7)
mean_of_means = found["sum / own images, averaged"]
assert abs(times["sum / own images, averaged"] - 1) < 0.1
assert (mean_of_means - correct).norm() > 0.5 * correct.norm()

# %% [markdown]
# So this is the rule: **divide every loss by the number of samples in the whole batch, and add up the gradients.** The
# pieces need not be equal. A rank without any sample adds zeros, but it must still take part in the all-reduce, because
# the others wait for its message.
#
# Goyal et al. (2017, section 3) have this rule in their list of pitfalls, which are mistakes that leave no trace but a
# worse model.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the loss gives each class a weight | divide by the sum of the weights of all samples in the whole batch |
# | a layer mixes samples, as batch normalization does | no divisor makes the ranks agree with one process |
#
# </details>
#
# **Try it.** For which lengths is the average of averages nearly correct? For which is it worst? Change `lengths`: four
# numbers of at least 1 that add up to 50.


# %% tags=["folded"]
# How far an average of averages is off
def off_by(lengths: list[int]) -> float:
    """How far the average of averages is from the gradient of all 50 images."""
    parts = zip(last_images.split(lengths), last_labels.split(lengths), strict=True)
    averages = [gradient_of(losses(model(x), y).mean(), model) for x, y in parts]
    return float((torch.stack(averages).mean(dim=0) - correct).norm() / correct.norm())


# %%
lengths = [20, 18, 10, 2]
print(f"{lengths}: off by {off_by(lengths):.0%}")

# %% tags=["folded"]
# One way to do it
# Pieces as equal as possible are nearly correct. Bad are ranks with a single image. Which of
# these is worst depends on the images: here it is [2, 1, 46, 1], of all 18,424 possible ones
for lengths in ([13, 13, 12, 12], [47, 1, 1, 1], [2, 1, 46, 1]):
    print(f"{lengths}: off by {off_by(lengths):.0%}")
assert off_by([13, 13, 12, 12]) < 0.05 and off_by([47, 1, 1, 1]) > 1.5
assert off_by([2, 1, 46, 1]) > off_by([47, 1, 1, 1]) + 0.2

# %% [markdown]
# ### Tokens
#
# In a language model the samples are tokens, and texts have different lengths. If each rank averages the losses of its
# tokens, and the ranks average the results, we are back at the first method, now with pieces that are almost never
# equal. The divisor must be the number of tokens in the whole batch, without the padding. Because no rank knows this
# number, the ranks first add it up by an all-reduce of a single number.

# %% tags=["folded"]
# Tokens with made-up losses
TOKENS = [1600, 100, 320, 980]  # on each rank, without the padding
# losses that we made up: a token of rank 3 costs most
token_losses = [
    torch.rand(count, generator=torch.Generator().manual_seed(rank)) + rank
    for rank, count in enumerate(TOKENS)
]
print("tokens on each rank:", TOKENS)


# %%
def two_means(
    comm: Communicator, token_losses: list[torch.Tensor]
) -> tuple[float, float]:
    """The loss as the mean of the ranks' means, and as the mean over all tokens."""
    mine = token_losses[comm.rank]
    mean_of_means, tokens = mine.mean(), torch.tensor(float(len(mine)))
    all_reduce(comm, mean_of_means, ReduceOp.AVG)
    all_reduce(comm, tokens)
    loss = mine.sum() / tokens
    all_reduce(comm, loss)
    return float(mean_of_means), float(loss)


naive, by_token = world.run(two_means, token_losses)[0]
print(f"mean of means {naive:.2f}, mean over all tokens {by_token:.2f}")
print(f"a token of rank 1 counts as much as {TOKENS[0] / TOKENS[1]:.0f} of rank 0")

# %% tags=["folded"]
# Checks of the numbers above
assert abs(by_token - float(torch.cat(token_losses).mean())) < 1e-4
assert naive > by_token + 0.2 and TOKENS[0] == 16 * TOKENS[1]

# %% [markdown]
# ## A batch that does not fit
#
# A rank need not have all its images in memory at the same time, because the gradient of a sum is the sum of the
# gradients. The rank takes a few images, its **microbatch**, goes forward and backward, and keeps the gradient. Then it
# takes the next few images and adds their gradient. Torch's `backward()` does just that, because it adds to `.grad`.
# This is **gradient accumulation**. A batch of 256 images on 4 ranks then needs memory for only 16 images on each rank.
# The price is four times as many passes.
#
# When should the ranks talk? They could all-reduce after each microbatch and add up the results, or wait.

# %%
guess_2 = predict(
    "4 ranks with 4 microbatches each. How often must the ranks all-reduce for one training step?",
    choices=["once", "4 times", "16 times"],
)


# %%
def microbatches_of(comm: Communicator, batch: Batch, size: int) -> list[Batch]:
    """This rank's part of a batch, in pieces of at most `size` samples."""
    mine = [part.tensor_split(comm.world_size)[comm.rank].split(size) for part in batch]
    return list(zip(*mine, strict=True))


def numbers_of(model: nn.Module) -> torch.Tensor:
    """All gradients of a model in one vector."""
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def talk_once(comm: Communicator, model: nn.Module, batch: Batch) -> torch.Tensor:
    mine = microbatches_of(comm, batch, 16)
    accumulate_gradients(comm, model, losses, mine, len(batch[1]))
    return numbers_of(model)


def talk_each_time(comm: Communicator, model: nn.Module, batch: Batch) -> torch.Tensor:
    total = torch.zeros(NUMBERS)
    for microbatch in microbatches_of(comm, batch, 16):
        accumulate_gradients(comm, model, losses, [microbatch], len(batch[1]))
        total += numbers_of(model)
    return total


# %% tags=["folded"]
# Run both, and count what rank 0 sends
batch = images[:256], labels[:256]
whole = gradient_of(losses(model(batch[0]), batch[1]).mean(), model)
for way, times in [(talk_once, 1), (talk_each_time, 4)]:
    for gradient in world.run(way, model, batch):
        assert torch.allclose(gradient, whole, rtol=1e-4, atol=1e-7)
    messages, sent = world.trace.messages_sent[0], world.trace.bytes_sent[0]
    print(f"{way.__name__:15} {messages:3} messages, {sent:6,} bytes by rank 0")
    assert world.trace.messages_sent == [6 * times] * 4
print(guess_2.compare("once"))

# %% [markdown]
# Both give the gradient of the whole batch, because the order of the additions does not matter. But a single all-reduce
# at the end costs a quarter of the bytes and a quarter of the latencies. So **accumulate microbatches, and communicate
# once per batch.** The function `accumulate_gradients` does both, and you write it in the exercise. It also takes the
# 50 images from above, whose pieces are not of equal length.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the model has a batch normalization | it sees only one microbatch at a time, so the gradient differs |
# | the numbers have few digits | the order of the additions changes the last digits |
#
# </details>


# %% tags=["folded"]
# A check of the pieces of unequal length
def talk_once_about_pieces(
    comm: Communicator, model: nn.Module, pieces: list[Batch]
) -> torch.Tensor:
    accumulate_gradients(comm, model, losses, [pieces[comm.rank]], TOTAL)
    return numbers_of(model)


for gradient in world.run(talk_once_about_pieces, model, pieces):
    assert torch.allclose(gradient, correct, rtol=1e-4, atol=1e-7)

# %% [markdown]
# ## Four ranks are one process with a larger batch
#
# So far it was one gradient. Now we train for 20 steps on four ranks, 16 images on each, and compare with 20 steps in
# one process that has all 64 images. We compute in float64, so that rounding cannot hide any other difference.

# %%
RATE = 0.4  # works with 16 images; whether it is the best, we shall see


def train_on_ranks(comm: Communicator, order: torch.Tensor) -> list[torch.Tensor]:
    model = make_model(0).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for chosen in order:
        batch = images[chosen].double(), labels[chosen]
        mine = microbatches_of(comm, batch, 16)
        accumulate_gradients(comm, model, losses, mine, len(chosen))
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


# %% tags=["folded"]
# The same in one process, and the difference
def train_alone(order: torch.Tensor) -> list[torch.Tensor]:
    model = make_model(0).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for chosen in order:
        optimizer.zero_grad()
        losses(model(images[chosen].double()), labels[chosen]).mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
order = order[: 20 * 64].reshape(20, 64)
one_process = train_alone(order)
difference = max(
    float((ours - wanted).abs().max())
    for parameters in world.run(train_on_ranks, order)
    for ours, wanted in zip(parameters, one_process, strict=True)
)
print(f"largest difference of a parameter after 20 steps: {difference:.1e}")
assert difference < 1e-12

# %% [markdown]
# The models agree to the last digits: **N workers are one process with N times the batch.** This has a practical use,
# because one process with a batch that is a hundred times as large can tell us what a hundred workers would learn. The
# rest of the lesson uses this trick, so only the clock and the messages need ranks.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | a layer mixes samples, as batch normalization does | each rank computes with the mean of its own samples |
# | the model draws random numbers, as dropout does | the ranks draw other numbers than one process |
#
# </details>
#
# ## More workers, more images per second
#
# Each worker brings 16 images to a step, so $N$ workers share a batch of $16N$ images. Computing takes as long as
# before, because all workers compute at the same time, but an all-reduce is added. Say that computing takes 50 µs for
# an image, and that the network has a latency of 20 µs and 1 GB/s.

# %%
EACH = 16  # images of a worker in each step
SECONDS_PER_IMAGE = 50e-6
WORKERS = [1, 2, 4, 8, 16, 32, 96]


def one_step(comm: Communicator) -> None:
    comm.sleep(EACH * SECONDS_PER_IMAGE)
    all_reduce(comm, torch.empty(NUMBERS, device="meta"), algorithm="auto")


def seconds_of_a_step(workers: int) -> float:
    link = Link(latency=20e-6, bandwidth=1e9)
    simulated = SimulatedWorld(workers, Cluster.flat(workers, link))
    simulated.run(one_step)
    return simulated.elapsed


# %% tags=["folded"]
# The table and its picture
step_seconds = {workers: seconds_of_a_step(workers) for workers in WORKERS}
throughput = {workers: EACH * workers / step_seconds[workers] for workers in WORKERS}
ideal = {workers: workers * throughput[1] for workers in WORKERS}

print("workers   one step   images per second   efficiency")
for workers in WORKERS:
    efficiency = throughput[workers] / ideal[workers]
    ms = step_seconds[workers] * 1e3
    print(
        f"{workers:7}   {ms:5.2f} ms   {throughput[workers]:17,.0f}   {efficiency:10.0%}"
    )
sweep(
    {"if messages were free": ideal, "with an all-reduce": throughput},
    along="workers",
    title="Images per second, by the number of workers",
    subtitle="in virtual time, 16 images for each worker in a step",
)

# %% tags=["folded"]
# Checks of the numbers above
assert step_seconds[1] == EACH * SECONDS_PER_IMAGE and throughput[1] == 20_000
assert all(
    throughput[more] > throughput[less]
    for less, more in zip(WORKERS, WORKERS[1:], strict=False)
)
assert 60 < throughput[96] / throughput[1] < 80

# %% [markdown]
# **On this cluster, every doubling of the workers raises the number of images per second.** If images per second were
# the goal, the lesson would end here. But the goal is a model that has learned something.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | an all-reduce takes longer than computing | two workers process fewer images per second than one |
# | a new worker is much slower than the others | all workers wait for it in every step |
#
# </details>
#
# ## The same epochs, a larger batch
#
# An **epoch** is one pass over all images. With 96 workers the batch is the whole training set, so an epoch is a single
# step. We train for 10 epochs, whatever the number of workers, and count which share of the test images is classified
# correctly.
#
# One run says little, because it depends on its first weights and on the order of the images. So we train with five
# seeds and with eight learning rates. To save time, the 40 models are trained at once in a `ModelStack`, where one
# tensor holds the same weights of all of them. Each model learns as if it were alone.

# %% tags=["folded"]
# The machinery: the images of each step, and a stack of models
SEEDS = range(5)
EPOCHS = 10
RATES = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8]


def batches(workers: int, epochs: int, seeds: range) -> Iterator[torch.Tensor]:
    """The images of each step, [seeds, 16 · workers]; each epoch in another order."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for _ in range(epochs):
        orders = [
            torch.randperm(len(labels), generator=generator) for generator in generators
        ]
        yield from torch.stack(orders).split(EACH * workers, dim=1)


def stack_of(rates: list[float], seeds: range) -> ModelStack:
    """A model for each pair of rate and seed."""
    models = [make_model(seed) for _ in rates for seed in seeds]
    return ModelStack(models, [rate for rate in rates for _ in seeds])


def train_step(stack: ModelStack, chosen: torch.Tensor) -> None:
    chosen = chosen.repeat(
        len(stack.rates) // len(chosen), 1
    )  # for every rate the same images
    stack.step(losses, images[chosen], labels[chosen])


def by_rate(stack: ModelStack, rates: list[float]) -> dict[float, list[float]]:
    shares = torch.tensor(stack.accuracies(test_images, test_labels)).view(
        len(rates), -1
    )
    return dict(zip(rates, shares.tolist(), strict=True))


def percent(shares: list[float]) -> str:
    return f"{statistics.median(shares):4.0%} ({min(shares):.0%} to {max(shares):.0%})"


# %%
def train(
    workers: int, rates: list[float], epochs: int = EPOCHS
) -> dict[float, list[float]]:
    """Train with each rate. Returns rate → the accuracy of each seed."""
    stack = stack_of(rates, SEEDS)
    for chosen in batches(workers, epochs, SEEDS):
        train_step(stack, chosen)
    return by_rate(stack, rates)


# %% tags=["folded"]
# A check
# After 20 training steps, the model of seed 3 in the stack is the one that seed 3 gives alone
stack, alone = stack_of([RATE], SEEDS), make_model(3)
optimizer = torch.optim.SGD(alone.parameters(), lr=RATE)
for _, chosen in zip(range(20), batches(4, 1, SEEDS), strict=False):
    train_step(stack, chosen)
    optimizer.zero_grad()
    losses(alone(images[chosen[3]]), labels[chosen[3]]).mean().backward()
    optimizer.step()
for name, parameter in alone.named_parameters():
    assert torch.allclose(stack.parameters[name][3], parameter, rtol=1e-4, atol=1e-5)

# %% [markdown]
# The next cell trains 280 models, which takes about ten seconds. We look at the results in three steps: first one rate,
# then one rule, then everything.

# %%
table = {workers: train(workers, RATES) for workers in WORKERS}

# %%
guess_3 = predict(
    "With a rate of 0.4 one worker gets 96% of the test images right. "
    "What do 96 workers get with the same rate?",
    unit="%",
)

# %% tags=["folded"]
# One rate for all
print("workers   batch   training steps   correct with rate 0.4")
for workers in WORKERS:
    steps_taken = EPOCHS * 96 // workers
    shares = percent(table[workers][RATE])
    print(f"{workers:7}   {EACH * workers:5}   {steps_taken:14}   {shares}")
middle = {w: {r: statistics.median(table[w][r]) for r in RATES} for w in WORKERS}
print(guess_3.compare(100 * middle[96][RATE]))

# %% [markdown]
# **At the same rate of 0.4, 96 workers learn far less in the same epochs than one worker.** The images are the same,
# and each image was seen ten times. But 96 workers took only ten steps, and ten steps of this size do not lead far. A
# gradient of all images is more exact than a gradient of 16 images, but it is not 96 times as good.
#
# ## Linear scaling
#
# The remedy is to take larger steps. How much larger? Goyal et al. (2017, section 2.1) argue like this. One worker
# takes $k$ small steps with the rate $\eta$, each with another batch $B_j$ of $n$ images:
#
# $$w_k = w_0 - \eta\,\tfrac1n \sum_{j<k} \sum_{x \in B_j} \nabla \ell(x, w_j)$$
#
# $k$ workers take one step with the rate $\hat\eta$, with all these images at once:
#
# $$\hat w_1 = w_0 - \hat\eta\,\tfrac{1}{kn} \sum_{j<k} \sum_{x \in B_j} \nabla \ell(x, w_0)$$
#
# The sums differ only in the place where the gradient is taken: at $w_j$, on the way, or at $w_0$, at the start. If the
# gradients hardly change on the way, both arrive at the same place when $\hat\eta = k\,\eta$. So $k$ times the batch
# takes $k$ times the rate. [Lesson 06b](06b_how_large_a_batch.ipynb) measures how far apart the two places are.
#
# Here is the rule in our results: the rate grows with the workers.

# %%
guess_4 = predict(
    "The linear rule from 0.4 gives 16 workers 6.4 and 32 workers 12.8. What happens?",
    choices=["both fine", "16 fine, 32 broken", "both broken"],
)

# %% tags=["folded"]
# One rule for all
print("workers   same rate              linear rule")
for workers in WORKERS[:-1]:
    rate = RATE * workers
    print(
        f"{workers:7}   {percent(table[workers][RATE]):20}   {rate:4}: "
        f"{percent(table[workers][rate])}"
    )
print(guess_4.compare("16 fine, 32 broken"))

# %% tags=["folded"]
# Checks of the numbers above
assert round(middle[1][RATE], 2) == 0.96 and 0.4 < middle[96][RATE] < 0.6
assert (
    middle[1][RATE]
    > middle[8][RATE]
    > middle[16][RATE]
    > middle[32][RATE]
    > middle[96][RATE]
)
assert all(abs(middle[w][RATE * w] - middle[1][RATE]) < 0.02 for w in (2, 4, 8, 16))
assert middle[32][12.8] < 0.7

# %% [markdown]
# Up to 16 workers the rule keeps its promise: a sixteenth of the steps reach the accuracy of one worker, and nothing
# had to be tuned. With 32 workers the rule breaks down.
#
# It is tempting to conclude that a batch of 512 images is too large. But two things changed, the batch and the rate.
# Which of them broke the training? We have trained the other combinations, too.

# %%
guess_5 = predict(
    "For which numbers of workers does the rate of 12.8 work?",
    choices=["only for few", "only for many", "for all but 32", "for none"],
)

# %% tags=["folded"]
# Two rates for all
print("workers   rate 3.2               rate 12.8")
for workers in WORKERS:
    print(
        f"{workers:7}   {percent(table[workers][3.2]):20}   {percent(table[workers][12.8])}"
    )
print(guess_5.compare("for none"))

# %% [markdown]
# **It was the rate.** 512 images with a rate of 3.2 are fine. A rate of 12.8 breaks the training with every batch, even
# with all images, whose gradient has no noise at all. Here is the whole map. Each cell is the median of five seeds,
# because a mean over five runs of which one is broken describes none of them.


# %% tags=["folded"]
# The map
def draw_map(title: str, lines: dict[str, dict[int, float]]) -> object:
    words = "median of 5 seeds; the darker, the better"
    axes = dict(across="learning rate", down="workers", title=title, subtitle=words)
    look = dict(show="{:.0%}".format, shade=lambda share: -((1.02 - share) ** 0.4))
    return heat_map(middle, lines=lines, **axes, **look)


linear = {workers: RATE * workers for workers in WORKERS}
draw_map("Correct on test images after 10 epochs", {"linear rule from 0.4": linear})

# %% [markdown]
# You can see three things in this map.
#
# - **Diagonals.** In the lower left, where training is too slow, one step down and one to the right changes nothing:
#   twice the batch with twice the rate gives the same accuracy. This is the linear rule.
# - **A ceiling.** Between 6.4 and 12.8 there is a rate that no batch can pass. A larger batch makes the gradient exact,
#   but it does not make the valley of the loss wider.
# - **A ridge.** The best rate of a row moves to the right as the batch grows, until it comes to the ceiling. From there
#   on, more workers take fewer steps of the same size.
#
# **For SGD, k times the batch takes k times the rate, up to a ceiling of the rate.** So the comparison at the same rate
# was unfair, because each number of workers deserves its own best rate. For one worker the choice hardly matters. For
# 96 workers it decides.

# %% tags=["folded"]
# The best rate of each row
best = {
    workers: max(RATES, key=lambda rate, w=workers: middle[w][rate])
    for workers in WORKERS
}
print("workers   with 0.4   best rate   with it")
for workers, rate in best.items():
    row = middle[workers]
    print(f"{workers:7}   {row[RATE]:8.1%}   {rate:9}   {row[rate]:7.1%}")

# %% tags=["folded"]
# Checks of the numbers above
assert all(middle[workers][12.8] < 0.7 for workers in WORKERS)
assert (
    all(middle[workers][6.4] > 0.9 for workers in WORKERS[1:-1])
    and middle[1][6.4] < 0.5
)
assert middle[32][3.2] > 0.94
slow = [
    (w, r) for w in (1, 2, 4, 8, 16) for r in RATES if r * 2 <= 3.2 and r <= 0.05 * w
]
slow += [(w, 0.1) for w in (1, 2, 4, 8, 16)]
assert all(abs(middle[w][r] - middle[2 * w][2 * r]) < 0.02 for w, r in slow)
assert all(1.6 <= best[workers] <= 6.4 for workers in WORKERS[1:])
assert middle[96][best[96]] > middle[96][RATE] + 0.2
assert 0.003 < 1 / len(test_labels) < 0.005
assert all(
    abs(middle[1][rate] - middle[1][1.6]) < 0.016 for rate in (0.2, 0.4, 0.8, 3.2)
)

# %% [markdown]
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the batch is nearly all images, as with 96 workers | hardly any steps are left: 6.4 then needs more than ten |
# | the network differs | the ceiling moves: a second hidden layer halves it, and with Tanh we found almost none |
# | the optimizer is Adam | the linear rule is one of two guesses, see lesson 06b |
#
# One test image is 0.4 %, so a few tenths between two cells mean nothing. We repeated the map with other seeds, with 5
# and with 20 epochs, and with a fifth of the labels replaced at random. The ceiling stayed where it is. With wrong
# labels the best rate of a small batch is lower, because there is more noise to average.
#
# </details>
#
# **Try it.** Where exactly is the ceiling? Change the rates and the workers. Does it depend on how long you train?

# %%
for rate, shares in train(workers=16, rates=[6.4, 10.0], epochs=10).items():
    print(f"{rate:5}: {percent(shares)}")

# %% tags=["folded"]
# One way to do it
# Five rates between 6.4 and 12.8; then all 1,536 images, for longer
between = train(32, [7.0, 8.0, 9.0, 10.0, 11.0])
for rate, shares in between.items():
    print(f"32 workers, rate {rate:4}: {percent(shares)}")
assert statistics.median(between[7.0]) > 0.8 > statistics.median(between[11.0])
for epochs in (10, 20, 100):
    longer = train(96, [6.4, 12.8], epochs=epochs)
    print(f"96 workers, {epochs:3} steps:", *map(percent, longer.values()))
assert statistics.median(longer[6.4]) > 0.95 and statistics.median(longer[12.8]) < 0.6

# %% [markdown]
# ## How noisy is a gradient?
#
# So far the number of epochs was fixed. In practice one trains until the model is good enough. Can we know beforehand
# how large a batch saves steps?
#
# The gradient of a batch of $B$ images is the true gradient $G$ plus noise. If the noise of one image has the
# covariance $\Sigma$, the noise of a batch has $\Sigma / B$, as long as the batch is a small part of all images. So
# noise and gradient are equally long at the batch
#
# $$B_\text{simple} = \frac{\operatorname{tr}(\Sigma)}{|G|^2},$$
#
# which McCandlish et al. (2018, section 2.2) call the **gradient noise scale**. With fewer images the noise dominates,
# so averaging over more images helps. With more images the gradient is exact enough already. Under assumptions that
# make $B_\text{noise}$ equal to $B_\text{simple}$, they predict the number of steps to a goal:
#
# $$S(B) = S_\text{min}\,(1 + B_\text{noise}/B)$$
#
# Our model is so small that we can compute the gradient of each training image. We train with 4 workers at a rate of
# 1.6, and take the median over the time until 92 % of the test images are correct.

# %%
shape = make_model(0)


def loss_of_one(
    parameters: dict[str, torch.Tensor], image: torch.Tensor, label: torch.Tensor
) -> torch.Tensor:
    return cross_entropy(
        functional_call(shape, parameters, (image[None],)), label[None]
    )


def noise_scale(parameters: dict[str, torch.Tensor]) -> float:
    """tr(Σ) / |G|² over all training images."""
    each = vmap(grad(loss_of_one), in_dims=(None, 0, 0))(parameters, images, labels)
    gradients = torch.cat(
        [part.flatten(1) for part in each.values()], dim=1
    )  # [1536, 2410]
    mean = gradients.mean(dim=0)
    return float(
        (gradients - mean).square().sum() / (len(labels) - 1) / mean.square().sum()
    )


# %% tags=["folded"]
# Train, look at the noise scale on the way, and take the median
stack, on_the_way = stack_of([1.6], SEEDS), []
for step, chosen in enumerate(batches(4, 3, SEEDS)):
    if step in (0, 4, 7, 12, 20, 40, 60):
        if statistics.median(stack.accuracies(test_images, test_labels)) < 0.92:
            models = [
                {name: p[i].detach() for name, p in stack.parameters.items()}
                for i in SEEDS
            ]
            on_the_way.append(statistics.median(map(noise_scale, models)))
    train_step(stack, chosen)
NOISE = statistics.median(on_the_way)
print(f"noise scale, median up to 92% correct: {NOISE:.0f} images")
assert 30 < NOISE < 80

# %% [markdown]
# **The noise scale is tens of images here, which is the batch of a few workers.** If it predicts well, the number of
# steps falls quickly up to a few workers, and slowly from there on.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the model is nearly trained | the noise scale is several times larger |
# | a model is equally good, but came another way | its noise scale can differ by far |
# | a cluster has no gradients of single images | it estimates: see appendix A.1 of the paper, and lesson 06b |
#
# </details>
#
# ## How many workers are worth their money?
#
# How many steps does it take to reach 95 % on the test images? For each number of workers we try four rates and keep
# the rate at which the slowest of the five seeds is fastest.

# %% tags=["folded"]
# The machinery: count the steps to the goal, with the best of four rates
GOAL = 0.95


def steps_to_goal(workers: int) -> list[float]:
    """The steps of each seed, best rate. Looks 12 times an epoch or each step."""
    looks, stack = max(1, 8 // workers), stack_of([0.8, 1.6, 3.2, 6.4], SEEDS)
    reached = torch.full((len(stack.rates),), torch.inf)
    for step, chosen in enumerate(batches(workers, 400, SEEDS), start=1):
        train_step(stack, chosen)
        if step % looks == 0:
            shares = torch.tensor(stack.accuracies(test_images, test_labels))
            reached[(shares >= GOAL - 1e-6) & reached.isinf()] = step
        slowest = reached.view(-1, len(SEEDS)).amax(dim=1)  # [rates]
        if slowest.isfinite().any():
            break
    return reached.view(-1, len(SEEDS))[slowest.argmin()].tolist()


# %%
guess_6 = predict(
    "One worker needs about 90 training steps to 95%. How many do 96 workers need?",
    unit="steps",
)

# %% tags=["folded"]
# The table and its picture
to_goal = {workers: steps_to_goal(workers) for workers in WORKERS}
needed = {workers: statistics.median(to_goal[workers]) for workers in WORKERS}
seconds = {workers: needed[workers] * step_seconds[workers] for workers in WORKERS}
print("workers   steps to 95%   epochs   virtual time")
for workers in WORKERS:
    time = format_seconds(seconds[workers])
    print(
        f"{workers:7}   {needed[workers]:12.0f}   "
        f"{needed[workers] * workers / 96:6.1f}   {time:>12}"
    )
print(guess_6.compare(needed[96]))

fewest = min(needed.values())
sweep(
    {
        "measured": to_goal,
        "expected": {
            workers: fewest * (1 + NOISE / (EACH * workers)) for workers in WORKERS
        },
    },
    along="workers, with 16 images each",
    title="Training steps until 95% of the test images are correct",
    subtitle=f"expected: from a noise scale of {NOISE:.0f} images",
)

# %% [markdown]
# On the left, 4 workers need about a third of the steps of one worker, so little work is wasted. On the right the steps
# no longer fall, so the epochs rise, and in virtual time 96 workers gain nothing over 16. The elbow between the two is
# called the **critical batch size**. **Above the noise scale, more workers process more images and save few steps.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the batch is just above the noise scale | a doubling still saves some steps: the elbow is round |
# | you need the place of the elbow, and not its order of magnitude | measure it: see lesson 06b |
# | the model or the data differ | the elbow is elsewhere: Shallue et al. (2018) found its place to differ widely |
#
# </details>

# %% tags=["folded"]
# Checks of the numbers above
assert (
    60 < needed[1] < 140 and 3 < needed[1] / needed[8] and needed[96] > 0.8 * needed[16]
)
assert 0.25 < needed[4] / needed[1] < 0.45
assert seconds[96] > 0.85 * seconds[16] and seconds[1] > 2 * min(seconds.values())

# %% [markdown]
# ## Fewer messages instead: local SGD
#
# Until now the ranks talked in every training step. There is another way to use several ranks. Each rank takes $H$
# steps on its own, with its own images and its own copy of the model, so the copies drift apart a little. Then the
# ranks average the *parameters*, not the gradients, and go on from there. This is **local SGD**. It sends $H$ times
# fewer messages, because it all-reduces the model once in $H$ steps.
#
# With $H = 1$ and plain SGD, local SGD is what we had before: to average models that are one step away from the same
# place is to average the steps. With a larger $H$ it is another algorithm. What does it cost? We train four ranks for 5
# epochs, each on its own quarter of the mixed images.
#
# Such a comparison needs a **control**: ranks that *never* average. Without it, we cannot know how much the messages
# could matter at all. A rank that never averages is a world of its own, and `split` makes one.


# %%
def train_locally(
    comm: Communicator,
    parts: tuple[torch.Tensor, ...],
    local_steps: int,
    seed: int,
) -> float:
    """5 epochs, an average after each `local_steps` steps; 0: never. The accuracy."""
    model, mine = make_model(seed), parts[comm.rank]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(10 * seed + comm.rank)
    order = torch.cat(
        [mine[torch.randperm(len(mine), generator=generator)] for _ in range(5)]
    )
    batches = [(images[chosen], labels[chosen]) for chosen in order.split(EACH)]
    partners = comm if local_steps else comm.split(comm.rank)  # alone, or with all
    together = local_steps or len(batches)
    for start in range(0, len(batches), together):
        local_sgd_round(
            partners, model, losses, batches[start : start + together], optimizer
        )
    return float((model(test_images).argmax(dim=1) == test_labels).float().mean())


# %% tags=["folded"]
# Run it on mixed images, with three seeds
LOCAL_STEPS = [1, 4, 24, 120, 0]  # 24 are an epoch, 120 the whole training
simulated = SimulatedWorld(4)


def parts_for(ranks: int) -> tuple[torch.Tensor, ...]:
    """Which images each rank has."""
    mixed = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return mixed.chunk(ranks)


local = {}
print("    H   averages   correct")
for steps in LOCAL_STEPS:
    runs = [
        simulated.run(train_locally, parts_for(4), steps, seed) for seed in range(3)
    ]
    kept = 4 if steps == 0 else 1  # after an average all ranks have the same model
    local[steps] = [share for run in runs for share in run[:kept]]
    averages = 120 // steps if steps else 0
    print(f"{steps or 'never':>5}   {averages:8}   {percent(local[steps])}")

# %% [markdown]
# A single average at the very end is nearly as good as 120 averages. This looks like a triumph for local SGD, but a
# rank that never talks is only two or three points worse. A quarter of the images is nearly enough for this task, so
# the messages *cannot* matter much. The experiment shows that a large $H$ does no harm at this rate, and the control
# shows that it cannot prove more. **Local SGD is only as good as its lead over ranks that never talk.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the ranks' data are sorted | averages are everything, and the copies drift apart: see lesson 06b |
# | the rate is near the ceiling | a large $H$ does harm |
#
# </details>
#
# **Try it.** Make a task in which messages matter although the images are mixed: give each rank less. How large is the
# gap between "never" and $H = 6$ with 8, 16, 32 ranks?

# %%
ranks = 8
for steps in (0, 6):
    few = SimulatedWorld(ranks).run(train_locally, parts_for(ranks), steps, 0)
    print(f"{ranks} ranks, H = {steps or 'never'}: {percent(few)}")

# %% tags=["folded"]
# One way to do it
# 32 ranks have 48 images each, so only 3 steps in an epoch
gap = {}
for ranks in (16, 32):
    crowd, parts = SimulatedWorld(ranks), parts_for(ranks)
    alone, often = (crowd.run(train_locally, parts, steps, 0) for steps in (0, 6))
    gap[ranks] = statistics.median(often) - statistics.median(alone)
    print(f"{ranks:2} ranks, never: {percent(alone)}, H = 6: {percent(often)}")
assert 0.01 < gap[16] < gap[32] and gap[32] > 0.2

# %% tags=["folded"]
# Checks of the numbers above
of = {h: statistics.median(shares) for h, shares in local.items()}
assert len(parts_for(4)[0]) == 384 == 24 * EACH
assert all(abs(of[h] - of[1]) < 0.03 for h in (4, 24, 120))
assert 0.01 < of[1] - of[0] < 0.04
on_real_ranks = world.run(train_locally, parts_for(4), 24, 0)
assert abs(on_real_ranks[0] - local[24][0]) < 0.02

# %% [markdown]
# ## In real frameworks
#
# Torch's `DistributedDataParallel` (DDP) averages the gradients of the ranks, because it knows nothing of your batch.
# With the mean loss on every rank it does what our first method did. With summed losses, its documentation warns, the
# gradient is smaller than the gradient of one process by the number of ranks. **With DDP, divide the sum by the size of
# the whole batch and multiply it by the number of ranks**, because DDP divides by the number of ranks.
#
# DDP also talks in each backward pass. For accumulation, run all microbatches but the last inside `no_sync()`, the
# forward pass as well as the backward pass, because in the forward pass DDP decides whether it will talk.


# %%
def ddp_gradients(
    comm: Communicator, model: nn.Module, pieces: list[Batch]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Torch's with mean losses, torch's with corrected ones, two microbatches; ours."""
    inputs, targets = pieces[comm.rank]
    first, last = zip(inputs.chunk(2), targets.chunk(2), strict=True)
    with torch_distributed(comm, "gloo"):
        ddp = DistributedDataParallel(model)
        losses(ddp(inputs), targets).mean().backward()
        naive = numbers_of(model)

        ddp.zero_grad()
        scale = comm.world_size / TOTAL
        with ddp.no_sync():
            (losses(ddp(first[0]), first[1]).sum() * scale).backward()
        (losses(ddp(last[0]), last[1]).sum() * scale).backward()
        corrected = numbers_of(model)
    accumulate_gradients(comm, model, losses, [first, last], TOTAL)
    return naive, corrected, numbers_of(model)


# %% tags=["folded"]
# Compare with our functions
for naive, corrected, ours in world.run(ddp_gradients, make_model(0), pieces):
    assert torch.allclose(naive, mean_of_means, rtol=1e-4, atol=1e-6)
    assert torch.allclose(corrected, ours, rtol=1e-4, atol=1e-7) and torch.allclose(
        ours, correct, rtol=1e-4, atol=1e-7
    )
mean_error, error = ((g - correct).norm() / correct.norm() for g in (naive, corrected))
print(f"DDP with mean losses is off by {mean_error:.0%}, ", end="")
print(f"with corrected losses by {error:.0e}")
world.close()

# %% [markdown]
# **TensorFlow** divides in the loss, as we do: `tf.nn.compute_average_loss` has an argument `global_batch_size`. Lesson
# 13 uses it.
#
# ## In short
#
# - Divide each sum of losses by the size of the whole batch. With DDP, multiply by N, because DDP divides by N.
# - Accumulate microbatches, and communicate once per batch.
# - N workers are one process with N times the batch.
# - For SGD, k times the batch takes k times the rate, up to a ceiling of the rate.
# - Above the noise scale, more workers process more images and save few steps.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - Divide each loss by the size of the whole batch (in tokens, if samples are tokens), and add up the gradients.
# - $N$ workers give more images per second, but not as many times more learning.
# - The ceiling is a ceiling of the *rate*: no batch can pass it here.
# - The noise scale tells the order of magnitude up to which more workers save steps. Above it they waste images.
# - Local SGD sends $H$ times fewer messages. Always run the control that never talks.
# - Repeat with several seeds, and look at every run: a mean hides the one that broke.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/06_large_batches/06_large_batches.ipynb) you write the accumulation.
#
# [Lesson 06b](06b_how_large_a_batch.ipynb) is a side road: where the ceiling comes from, how far to trust the noise
# scale, warm-up, Adam, and when local SGD does harm. In [its
# exercise](../exercises/06b_how_large_a_batch/06b_how_large_a_batch.ipynb) you write the rate with its warm-up, and a
# round of local SGD.
#
# ## Further reading
#
# - P. Goyal et al., [Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour](https://arxiv.org/abs/1706.02677), 2017. Linear scaling, warm-up, and in section 3 the mistakes that nobody
#   notices.
# - Hugging Face, [Fixing Gradient Accumulation](https://huggingface.co/blog/gradient_accumulation), 2024. The divisor
#   of language models.
# - S. McCandlish et al., [An Empirical Model of Large-Batch Training](https://arxiv.org/abs/1812.06162), 2018. The
#   noise scale, what it predicts, and how to estimate it.
# - C. J. Shallue et al., [Measuring the Effects of Data Parallelism on Neural Network
#   Training](https://arxiv.org/abs/1811.03600), 2018. Steps to a goal by batch size, for many models.
# - S. U. Stich, [Local SGD Converges Fast and Communicates Little](https://arxiv.org/abs/1805.09767), 2018.
# - PyTorch,
#   [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).
#   What it averages, and `no_sync`.
