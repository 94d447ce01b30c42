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
# > - compute the noise of a gradient, and say what it predicts about useful batch sizes and what it does not,
# > - send fewer messages with local SGD, and check with a control how much the messages mattered.
# >
# > **Time:** about 130 minutes; a good place for a break is before "Warm-up". **You need:**
# > [All-reduce](02_all_reduce.ipynb), and [DDP](05_ddp.ipynb) for the part on real frameworks. No GPU.

# %% tags=["folded"]
# The imports
import statistics
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from distlib import (
    Cluster,
    Communicator,
    Link,
    ReduceOp,
    SimulatedWorld,
    World,
    all_reduce,
)
from distlib.draw import heat_map, predict, sweep
from distlib.draw.style import format_seconds
from distlib.training.datasets import digits
from distlib.training.large_batch import (
    Batch,
    accumulate_gradients,
    local_sgd_round,
    warmup_learning_rate,
)
from distlib.training.model_stack import ModelStack

# %%
torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

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

# %% tags=["folded"]
# Checks of the numbers above
assert len(labels) == 1536 and len(test_labels) == 261 and NUMBERS == 2410

# %% [markdown]
# ## What is a gradient divided by?
#
# The loss of a batch is the *mean* of the losses of its samples. So every sample counts equally, and a batch of 50 is
# not steeper than a batch of 10. When ranks share the batch, this must stay true: the result must not depend on which
# rank a sample happens to be on.
#
# The question is famous, because so many have got it wrong. In 2024 it came out that Hugging Face transformers and
# other trainers divided by the wrong number when they accumulated the gradients of language models. At the end of this
# part we make the same mistake.
#
# It sounds easy: each rank computes the mean of its own losses, and the ranks average their gradients. Lesson 02 did
# that. But there all ranks had equally many images. Now take the last batch of an epoch. Only 50 images are left.
# Handed out in pieces of 16, they give ranks 0, 1 and 2 a full piece, and rank 3 gets 2 images.

# %%
LENGTHS = [16, 16, 16, 2]
TOTAL = sum(LENGTHS)

weights = [1 / length / 4 for length in LENGTHS]  # of one image of each rank
for rank in (0, 3):
    print(f"in the average an image of rank {rank} counts 1/{1 / weights[rank]:.0f}")

# %% [markdown]
# The two images have as much weight together as sixteen others. Does it matter? Let us run it on the four ranks, with
# five other ways that people write. In each way a rank adds up the losses of its images, divides by something, and
# computes the gradient. An all-reduce then adds up the gradients, or averages them. We compare with the gradient of all
# 50 images in one process.
#
# The losses of single samples are what torch's loss functions return with `reduction="none"`.


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
# Only the last way is correct. The others fall into two kinds.
#
# - **The length is wrong.** A sum without a division is 50 times too long, a division too many makes it 4 times too
#   short. Nothing crashes, and the direction is correct. It is as if somebody had changed the learning rate by that
#   factor. The factor changes with the size of the batch, with the number of ranks, or with both.
# - **The direction is wrong**, in the first two ways. The first has almost the correct length, and yet is off by more
#   than half. Its gradient belongs to another loss, in which some images count eight times as much as others.

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
# So this is the rule: **divide every loss by the number of samples in the whole batch, and add up the gradients.** It
# needs no equal pieces. A rank without any sample adds zeros, and that is correct, too. It must take part all the same,
# because the others wait for its message.
#
# Goyal et al. (2017, section 3) have this in their list of pitfalls, mistakes that leave no trace but a worse model:
# normalize each worker's loss by the size of the whole batch, not by that of its own part.
#
# **Try it.** For which lengths is the average of averages nearly correct? For which is it worst? Change `lengths`: four
# numbers of at least 1 that add up to 50.

# %%
lengths = [20, 18, 10, 2]


def off_by(lengths: list[int]) -> float:
    """How far the average of averages is from the gradient of all 50 images."""
    parts = zip(last_images.split(lengths), last_labels.split(lengths), strict=True)
    averages = [gradient_of(losses(model(x), y).mean(), model) for x, y in parts]
    return float((torch.stack(averages).mean(dim=0) - correct).norm() / correct.norm())


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
# In a language model the samples are tokens, and texts have different lengths. Each rank averages the losses of its
# tokens, and the ranks average that: the first way again, and now the pieces are hardly ever of equal length. The
# divisor must be the number of tokens in the whole batch, without the padding. No rank knows it. So the ranks first add
# it up, by an all-reduce of one number.

# %%
TOKENS = [1600, 100, 320, 980]  # on each rank, without the padding
# losses that we made up: a token of rank 3 costs most
token_losses = [
    torch.rand(count, generator=torch.Generator().manual_seed(rank)) + rank
    for rank, count in enumerate(TOKENS)
]


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
# A gradient of a sum is the sum of the gradients. So a rank need not have all its images in memory at the same time. It
# takes a few, its **microbatch**, goes forward and backward, and keeps the gradient. Then it takes the next few, and
# adds. Torch's `backward()` does just that: it adds to `.grad`. This is **gradient accumulation**. A batch of 256
# images on 4 ranks needs memory for 16 images on each, and 4 times as many passes. (One thing differs from the large
# batch: a batch normalization sees only one microbatch at a time.)
#
# When should the ranks talk? They could all-reduce after each microbatch, and add up the results.

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


def talk_once(comm: Communicator, model: nn.Module, batch: Batch) -> torch.Tensor:
    mine = microbatches_of(comm, batch, 16)
    accumulate_gradients(comm, model, losses, mine, len(batch[1]))
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def talk_each_time(comm: Communicator, model: nn.Module, batch: Batch) -> torch.Tensor:
    total = torch.zeros(NUMBERS)
    for microbatch in microbatches_of(comm, batch, 16):
        accumulate_gradients(comm, model, losses, [microbatch], len(batch[1]))
        total += torch.cat(
            [parameter.grad.flatten() for parameter in model.parameters()]
        )
    return total


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
# Both give the gradient of the whole batch, because the sum of the ranks' sums is the same in any order. One
# all-reduce at the end costs a quarter of the bytes, and a quarter of the latencies. `accumulate_gradients` does that.
# You write it in the exercise.
#
# It also takes the 50 images from above, whose pieces are not of equal length:


# %%
def talk_once_about_pieces(
    comm: Communicator, model: nn.Module, pieces: list[Batch]
) -> torch.Tensor:
    accumulate_gradients(comm, model, losses, [pieces[comm.rank]], TOTAL)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


for gradient in world.run(talk_once_about_pieces, model, pieces):
    assert torch.allclose(gradient, correct, rtol=1e-4, atol=1e-7)

# %% [markdown]
# ## Four ranks are one process with a larger batch
#
# So far it was one gradient. Now a training: 20 training steps on four ranks, 16 images on each, against 20 steps in
# one process with all 64. We compute in float64, where rounding is small enough to see any other difference.

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
# To the last digits they are the same training. This has a practical use. What a hundred workers would learn, we can
# find out in one process, with a batch that is a hundred times as large. The rest of the lesson does that, and only the
# clock and the messages need ranks.
#
# ## More workers, more images per second
#
# Each worker brings 16 images to a step. With $N$ workers the batch has $16N$ images. Computing takes as long as
# before, because everybody works at the same time. On top comes one all-reduce. Say that computing takes 50 µs for an
# image, and that the network has a latency of 20 µs and 1 GB/s.

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


# %%
guess_3 = predict(
    "How many times as many images per second do 96 workers handle as one?"
)

# %%
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
print(guess_3.compare(throughput[96] / throughput[1]))

# %% tags=["folded"]
# Checks of the numbers above
assert step_seconds[1] == EACH * SECONDS_PER_IMAGE and throughput[1] == 20_000
assert all(
    throughput[more] > throughput[less]
    for less, more in zip(WORKERS, WORKERS[1:], strict=False)
)
assert 60 < throughput[96] / throughput[1] < 80

# %%
sweep(
    {"if messages were free": ideal, "with an all-reduce": throughput},
    along="workers",
    title="Images per second, by the number of workers",
    subtitle="in virtual time, 16 images for each worker in a step",
)

# %% [markdown]
# Not perfect, but good: every worker adds to the throughput. If images per second were what we want, the lesson would
# end here. But we want a model that has learned something.
#
# ## The same epochs, a larger batch
#
# An **epoch** is one pass over all images. With 96 workers the batch is the whole training set, so an epoch is one
# single training step. We train for 10 epochs, whatever the number of workers, and look at which share of the test
# images is classified correctly.
#
# One training says little, because it depends on its first weights and on the order of the images. So we train with
# five seeds, and with eight learning rates. To save time, the 40 models are trained at once, in a `ModelStack`: one
# tensor holds the same weights of all of them. Each learns as if it were alone.

# %%
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


def stack_of(
    rates: list[float],
    seeds: range,
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD,
) -> ModelStack:
    """A model for each pair of rate and seed."""
    models = [make_model(seed) for _ in rates for seed in seeds]
    return ModelStack(models, [rate for rate in rates for _ in seeds], optimizer)


def train_step(stack: ModelStack, chosen: torch.Tensor) -> None:
    chosen = chosen.repeat(
        len(stack.rates) // len(chosen), 1
    )  # for every rate the same images
    stack.step(losses, images[chosen], labels[chosen])


# %%
def train(
    workers: int,
    rates: list[float],
    seeds: range = SEEDS,
    epochs: int = EPOCHS,
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD,
) -> dict[float, list[float]]:
    """Train with each rate. Returns rate → the accuracy of each seed."""
    stack = stack_of(rates, seeds, optimizer)
    for chosen in batches(workers, epochs, seeds):
        train_step(stack, chosen)
    return by_rate(stack, rates)


def by_rate(stack: ModelStack, rates: list[float]) -> dict[float, list[float]]:
    shares = torch.tensor(stack.accuracies(test_images, test_labels)).view(
        len(rates), -1
    )
    return dict(zip(rates, shares.tolist(), strict=True))


def percent(shares: list[float]) -> str:
    return f"{statistics.median(shares):4.0%} ({min(shares):.0%} to {max(shares):.0%})"


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
# This trains 280 models, which takes about ten seconds. We look at the results in three steps: first one rate, then one
# rule, then everything.

# %%
table = {workers: train(workers, RATES) for workers in WORKERS}

# %%
guess_4 = predict(
    "With a rate of 0.4 one worker gets 96% of the test images right. "
    "What do 96 workers get with the same rate?",
    unit="%",
)

# %%
print("workers   batch   training steps   correct with rate 0.4")
for workers in WORKERS:
    steps_taken = EPOCHS * 96 // workers
    shares = percent(table[workers][RATE])
    print(f"{workers:7}   {EACH * workers:5}   {steps_taken:14}   {shares}")
middle = {w: {r: statistics.median(table[w][r]) for r in RATES} for w in WORKERS}
print(guess_4.compare(100 * middle[96][RATE]))

# %% [markdown]
# The images are the same, and each was seen 10 times. Yet the more workers, the less was learned. With 96 workers there
# were only 10 training steps, and 10 steps of this size do not lead far. A gradient of 1,536 images is more exact than
# one of 16, but it is not 96 times as good.
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
# The only difference under the sums is where the gradient is taken: at $w_j$, on the way, or at $w_0$, at the start.
# **If the gradients hardly change on the way**, both arrive at the same place when $\hat\eta = k\,\eta$. So: $k$ times
# the batch, $k$ times the rate.
#
# Is it true that they hardly change? We measure it: how far apart are the two ends, as a part of the way? Once from the
# first weights, and once after an epoch.


# %%
def apart(k: int, epochs: int = 0) -> float:
    """How far k small steps and one large one end apart, in lengths of the large one."""
    start, many, one = (stack_of([rate], SEEDS) for rate in (RATE, RATE, k * RATE))
    for part in batches(1, epochs, SEEDS):
        train_step(start, part)
    many.vectors.copy_(start.vectors)
    one.vectors.copy_(start.vectors)
    chosen = next(batches(k, 1, SEEDS))
    for part in chosen.split(EACH, dim=1):
        train_step(many, part)
    train_step(one, chosen)
    way = (one.vectors - start.vectors).norm()
    return float((many.vectors - one.vectors).norm() / way)


distances = {k: apart(k) for k in (2, 4, 8, 16, 32)}
later = {k: apart(k, epochs=1) for k in distances}
print("k small steps and one with k times the batch end apart:")
print(" k   from the first weights   after an epoch")
for k, distance in distances.items():
    print(f"{k:2}   {distance:22.0%}   {later[k]:14.0%}")

# %% [markdown]
# For small $k$ the two ends nearly agree, at first. For large $k$ they do not, because the slope has changed on the
# way. After an epoch it changes faster: there 4 small steps already end a quarter of the way apart. That is where to
# expect trouble. But the argument is about arriving at the *same* place, and another place may be just as good. Here is
# the rule in our results: the rate grows with the workers.

# %%
guess_5 = predict(
    "The linear rule from 0.4 gives 16 workers 6.4 and 32 workers 12.8. What happens?",
    choices=["both fine", "16 fine, 32 broken", "both broken"],
)

# %%
print("workers   same rate              linear rule")
for workers in WORKERS[:-1]:
    rate = RATE * workers
    print(
        f"{workers:7}   {percent(table[workers][RATE]):20}   {rate:4}: "
        f"{percent(table[workers][rate])}"
    )
print(guess_5.compare("16 fine, 32 broken"))

# %% tags=["folded"]
# Checks of the numbers above
assert distances[2] < 0.1 < distances[8] < distances[32]
assert all(later[k] > 1.2 * distances[k] for k in (2, 4, 8)) and later[4] > 0.2
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
# Up to 16 workers the rule does what it promises: a sixteenth of the steps, and the accuracy of one worker. Nothing had
# to be tuned. Even where the two ends are half of the way apart it still holds. With 32 workers it breaks down.
#
# It is tempting to conclude that a batch of 512 images is too large. But two things changed: the batch and the rate.
# Which of them broke it? We have trained the other combinations, too.

# %%
guess_6 = predict(
    "For which numbers of workers does the rate of 12.8 work?",
    choices=["only for few", "only for many", "for all but 32", "for none"],
)

# %%
print("workers   rate 3.2               rate 12.8")
for workers in WORKERS:
    print(
        f"{workers:7}   {percent(table[workers][3.2]):20}   {percent(table[workers][12.8])}"
    )
print(guess_6.compare("for none"))

# %% [markdown]
# **It was the rate.** 512 images with a rate of 3.2 are fine. And 12.8 breaks the training with every batch, also with
# all 1,536 images, whose gradient has no noise at all. Here is the whole map. Each cell is the median of five seeds. A
# median, because a mean over five runs of which one is broken describes none of them.


# %%
def draw_map(title: str, lines: dict[str, dict[int, float]]) -> object:
    words = "median of 5 seeds; the darker, the better"
    axes = dict(across="learning rate", down="workers", title=title, subtitle=words)
    look = dict(show="{:.0%}".format, shade=lambda share: -((1.02 - share) ** 0.4))
    return heat_map(middle, lines=lines, **axes, **look)


linear = {workers: RATE * workers for workers in WORKERS}
draw_map("Correct on test images after 10 epochs", {"linear rule from 0.4": linear})

# %% [markdown]
# Three things stand in this map.
#
# - **Diagonals.** In the lower left, where training is too slow, one step down and one to the right changes nothing:
#   twice the batch with twice the rate gives the same accuracy. This is the linear rule, and it holds within a point or
#   two. (Not into the last row: from 32 to 96 workers the batch is three times as large.)
# - **A ceiling.** Between 6.4 and 12.8 is a rate that no batch can pass. A larger batch makes the gradient exact. It
#   does not make the valley wider. (With 96 workers, 6.4 needs more than 10 steps. We come back to it.)
# - **A ridge.** The best rate of a row moves to the right as the batch grows, until it comes to the ceiling. There it
#   must stop, and from there on more workers mean fewer steps of the same size.
#
# So the comparison with "the same rate" was a straw man. Each number of workers deserves its own best rate. For one
# worker it hardly matters: everything from 0.2 to 3.2 is within a point and a half. For 96 it decides.

# %%
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

# %% [markdown]
# One test image is 0.4 %, so a few tenths between two cells mean nothing. We repeated the map with other seeds, with 5
# and with 20 epochs, and with a fifth of the labels replaced at random. The ceiling stayed where it is. (With wrong
# labels the best rate of a small batch is lower: there is more noise to average.) With 5 epochs the ridge is sharper,
# because nobody has time to recover from a bad rate. Eleven seeds this time:

# %%
MANY = range(11)
short = {
    workers: train(workers, [0.4, 1.6, 6.4], MANY, epochs=5) for workers in (1, 4, 16)
}
print("5 epochs   rate 0.4               rate 1.6               rate 6.4")
for workers, results in short.items():
    print(
        f"{workers:8}   "
        + "   ".join(f"{percent(shares):20}" for shares in results.values())
    )

# %% tags=["folded"]
# Checks of the numbers above
sharp = {
    (w, r): statistics.median(shares)
    for w, found in short.items()
    for r, shares in found.items()
}
assert sharp[1, 1.6] > sharp[1, 0.4] + 0.003 and sharp[1, 1.6] > sharp[1, 6.4] + 0.3
assert sharp[4, 6.4] > 0.95 and sharp[16, 6.4] > sharp[16, 1.6] > sharp[16, 0.4] + 0.01
assert 0.003 < 1 / len(test_labels) < 0.005
assert all(
    abs(middle[1][rate] - middle[1][1.6]) < 0.016 for rate in (0.2, 0.4, 0.8, 3.2)
)

# %% [markdown]
# Of these three rates 1.6 suits 16 images best, and 6.4 suits 256: four times the rate for sixteen times the batch,
# because the ceiling is in the way.
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
# How wide is the valley? In a parabola of curvature $\lambda$, a step with a rate above $2/\lambda$ lands on the other
# side, higher up than it began. Gradient descent then goes away from the minimum. Our loss is no parabola, but we can
# measure its largest curvature at the very first weights, before any training. Power iteration does it: multiply any
# direction by the second derivatives, again and again. The one in which the slope changes fastest remains.


# %%
def largest_curvature(chosen: torch.Tensor, model: nn.Module) -> float:
    """Of the mean loss of these images, at the model's weights."""
    weights = list(model.parameters())
    loss = losses(model(images[chosen]), labels[chosen]).mean()
    parts = torch.autograd.grad(loss, weights, create_graph=True)
    slope = torch.cat([part.flatten() for part in parts])
    direction = torch.ones(NUMBERS)
    for _ in range(30):
        parts = torch.autograd.grad(slope @ direction, weights, retain_graph=True)
        change = torch.cat([part.flatten() for part in parts])
        direction = change / change.norm()
    return float(change.norm())


# %%
edges = {}
print("workers   2 / largest curvature of a batch")
for workers in WORKERS:
    first = next(batches(workers, 1, SEEDS))
    edges[workers] = sorted(
        2 / largest_curvature(first[s], make_model(s)) for s in SEEDS
    )
    low, edge, high = edges[workers][0], edges[workers][2], edges[workers][-1]
    print(f"{workers:7}   {edge:.1f} ({low:.1f} to {high:.1f})")

# %% [markdown]
# Compare with the map. All 1,536 images have the edge near 9, which is where the trainings begin to break. For a batch
# of 16 images the edge is lower, because its curvature is that of a few images, and not of the average: so 6.4 is too
# much for one worker. A larger batch brings its edge up to that of the whole training set, and no higher. That fits the
# ceiling. But the valley is not the same all the way. Here is its edge during a training with 16 workers:


# %%
def edges_on_the_way(rate: float, looks: list[int]) -> list[float]:
    """Train with 16 workers. The edge of all images at these steps, median."""
    stack, model, found = stack_of([rate], SEEDS), make_model(0), []
    for step, chosen in enumerate(batches(16, EPOCHS, SEEDS)):
        if step in looks:
            edges_now = []
            for vector in stack.vectors:
                nn.utils.vector_to_parameters(vector.clone(), model.parameters())
                everything = torch.arange(len(labels))
                edges_now.append(2 / largest_curvature(everything, model))
            found.append(statistics.median(edges_now))
        train_step(stack, chosen)
    return found


on_the_way = {rate: edges_on_the_way(rate, [0, 4, 8, 48]) for rate in (0.4, 3.2, 6.4)}
for rate, found in on_the_way.items():
    print(f"rate {rate}, before step 0, 4, 8, 48:", [round(edge, 1) for edge in found])

# %% [markdown]
# With 3.2 and 6.4 the edge soon falls below the rate, and yet both trainings succeed. In a parabola that cannot be.
# Here steps that are too long lead to where the valley is wider: at step 48 the edge is highest with the highest rate.
# So the edge at the first weights tells the order of magnitude, and not more. With a second hidden layer of 32 it is
# near 10, and 4.5 breaks the training.

# %% tags=["folded"]
# Checks of the numbers above
edge_of = {workers: statistics.median(found) for workers, found in edges.items()}
assert edge_of[1] < 6.4 < edge_of[8] < edge_of[96] < 12.8 and 8 < edge_of[96] < 10
assert all(edge_of[a] < edge_of[b] for a, b in zip(WORKERS, WORKERS[1:], strict=False))
assert all(min(on_the_way[rate]) < 0.8 * rate for rate in (3.2, 6.4))
assert on_the_way[0.4][-1] < on_the_way[3.2][-1] < on_the_way[6.4][-1]
assert min(middle[16][3.2], middle[16][6.4]) > 0.95

# %% [markdown]
# ## How noisy is a gradient?
#
# Where does the ridge bend? That can be computed from the gradients of a single training. The gradient of a batch of
# $B$ images is the true gradient $G$ plus noise. The noise of one image has the covariance $\Sigma$, that of a batch
# $\Sigma / B$, if it is a small part of all images. So the batch at which noise and gradient are equally long is
#
# $$B_\text{simple} = \frac{\operatorname{tr}(\Sigma)}{|G|^2}$$
#
# McCandlish et al. (2018, section 2.2) call this the **gradient noise scale**. With fewer images the noise dominates,
# and averaging over more of them helps. With more images the gradient is exact enough already. Under their assumptions
# the best rate and the number of steps to a goal follow (sections 2.2 and 2.3):
#
# $$\eta(B) = \frac{\eta_\text{max}}{1 + B_\text{noise}/B} \qquad\qquad S(B) = S_\text{min}\,(1 + B_\text{noise}/B)$$
#
# For our small model we need no estimate: we take the gradient of each of the 1,536 images. One of the assumptions is
# that the loss curves equally in all directions. Then $B_\text{noise}$ is equal to $B_\text{simple}$. Ours does not
# curve equally: soon after the start it curves *downwards* along the gradient, and there the formulas say nothing.

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
# The machinery: train, and look at the noise scale after some steps
def noise_on_the_way(
    workers: int, rate: float, looks: list[int]
) -> list[tuple[float, float]]:
    """Train, and look after these steps: median accuracy and median noise scale."""
    stack, rows = stack_of([rate], SEEDS), []
    for step, chosen in enumerate(batches(workers, 60, SEEDS)):
        if step in looks:
            models = [
                {name: p[i].detach() for name, p in stack.parameters.items()}
                for i in SEEDS
            ]
            shares = stack.accuracies(test_images, test_labels)
            rows.append(
                (statistics.median(shares), statistics.median(map(noise_scale, models)))
            )
        if step == looks[-1]:
            return rows
        train_step(stack, chosen)
    raise ValueError(f"the training is shorter than {looks[-1]} steps")


# %%
guess_7 = predict(
    "What happens to the noise scale while a model learns?",
    choices=["it falls", "it stays", "it grows"],
)

# %%
LOOKS = [0, 4, 7, 12, 20, 40, 60, 180]
noises = noise_on_the_way(4, 1.6, LOOKS)
print("step   correct   noise scale, in images")
for step, (share, noise) in zip(LOOKS, noises, strict=True):
    print(f"{step:4}   {share:7.0%}   {noise:11.0f}")
print(guess_7.compare("it grows"))
NOISE = statistics.median(noise for share, noise in noises if share < 0.92)
print(f"median up to 92%: {NOISE:.0f} images")

# %% tags=["folded"]
# A check
# After 4 of these steps the loss curves downwards along the gradient, with every seed
stack, model = stack_of([1.6], SEEDS), make_model(0)
for _, chosen in zip(range(4), batches(4, 1, SEEDS), strict=False):
    train_step(stack, chosen)
for vector in stack.vectors:
    nn.utils.vector_to_parameters(vector.clone(), model.parameters())
    weights = list(model.parameters())
    loss = losses(model(images), labels).mean()
    parts = torch.autograd.grad(loss, weights, create_graph=True)
    slope = torch.cat([part.flatten() for part in parts])
    change = torch.autograd.grad(slope @ slope.detach(), weights)
    along = slope.detach() @ torch.cat([part.flatten() for part in change])
    assert along < 0

# %% [markdown]
# First it falls a little, then it grows: the more images are correct, the less their gradients have in common. On the
# way to 90 % it is about 50 images. Now put that number into the two formulas. They do not give the highest rate. For
# that we take 6.4 from the map, the last one below the ceiling.

# %%
ridge = {workers: 6.4 / (1 + NOISE / (EACH * workers)) for workers in WORKERS}
draw_map("Where the noise scale expects the ridge", {"from the noise scale": ridge})

# %% [markdown]
# The line bends where the linear rule must end: with few workers it runs along the diagonal, with many it stands at the
# ceiling. The map is too flat along the ridge to call this a proof. It does fit.
#
# ## How many workers are worth their money?
#
# So far the epochs were fixed. In practice one trains until the model is good enough. How many training steps does it
# take to reach 95 % on the test images? For each number of workers we try four rates and keep the best one: the rate at
# which the slowest of the five seeds is fastest.

# %% tags=["folded"]
# The machinery: count the steps to each goal, with the best of four rates
GOALS = [0.80, 0.90, 0.93, 0.95]


def steps_to_goals(workers: int) -> dict[float, list[float]]:
    """Goal → steps of each seed, best rate. Looks 12 times an epoch or each step."""
    looks, stack = max(1, 8 // workers), stack_of([0.8, 1.6, 3.2, 6.4], SEEDS)
    reached = torch.full((len(GOALS), len(stack.rates)), torch.inf)
    for step, chosen in enumerate(batches(workers, 400, SEEDS), start=1):
        train_step(stack, chosen)
        if step % looks == 0:
            shares = torch.tensor(stack.accuracies(test_images, test_labels))
            there = shares >= torch.tensor(GOALS)[:, None] - 1e-6
            reached[there & reached.isinf()] = step
        slowest = reached.view(len(GOALS), -1, len(SEEDS)).amax(dim=2)  # [goals, rates]
        if slowest[-1].isfinite().any():
            break
    of_goal = zip(
        GOALS,
        reached.view(len(GOALS), -1, len(SEEDS)),
        slowest.argmin(dim=1),
        strict=True,
    )
    return {goal: seeds[rate].tolist() for goal, seeds, rate in of_goal}


# %%
guess_8 = predict(
    "One worker needs about 90 training steps to 95%. How many do 96 workers need?",
    unit="steps",
)

# %%
to_goal = {workers: steps_to_goals(workers) for workers in WORKERS}
needed = {workers: statistics.median(to_goal[workers][0.95]) for workers in WORKERS}
seconds = {workers: needed[workers] * step_seconds[workers] for workers in WORKERS}
print("workers   steps to 95%   epochs   virtual time")
for workers in WORKERS:
    time = format_seconds(seconds[workers])
    print(
        f"{workers:7}   {needed[workers]:12.0f}   "
        f"{needed[workers] * workers / 96:6.1f}   {time:>12}"
    )
print(guess_8.compare(needed[96]))

# %%
fewest = min(needed.values())
sweep(
    {
        "measured": {workers: to_goal[workers][0.95] for workers in WORKERS},
        "expected": {
            workers: fewest * (1 + NOISE / (EACH * workers)) for workers in WORKERS
        },
    },
    along="workers, with 16 images each",
    title="Training steps until 95% of the test images are correct",
    subtitle=f"expected: from a noise scale of {NOISE:.0f} images",
)

# %% [markdown]
# On the left, 4 workers need about a third of the steps of one. That is not quite a quarter, so they look at a third
# more images, or with other seeds half as many more: little work is wasted. On the right the steps no longer fall: more
# workers only look at more images for the same way, so the epochs rise, and in virtual time 96 workers
# gain nothing over 16. The elbow between the two is called the **critical batch size**.
#
# ### How good is the prediction?
#
# A fit this good should make you suspicious. The noise scale is not *one* number: it is 50 in the middle of the
# training and hundreds at its end. So a higher goal should have a later elbow. Has it? From the steps of one worker
# and the fewest steps, $S(16) = S_\text{min}(1 + B/16)$ gives the elbow $B$.

# %%
elbows = {}
for goal in GOALS:
    medians = [statistics.median(to_goal[workers][goal]) for workers in WORKERS]
    one, least = medians[0], min(medians)
    elbows[goal] = EACH * (one / least - 1)
    print(f"{goal:.0%}: {one:.0f} steps with 16 images, at least {least:.0f}; ", end="")
    print(f"elbow at {elbows[goal]:.0f} images")

full_noise = noise_on_the_way(96, 0.8, [0, 20, 58])
print(
    f"4 workers, rate 1.6, {noises[-2][0]:.0%} correct: noise scale {noises[-2][1]:.0f}"
)
print(
    f"96 workers, rate 0.8, {full_noise[-1][0]:.0%} correct: noise scale {full_noise[-1][1]:.0f}"
)

# %% [markdown]
# What survives: the elbow lies at some tens to a hundred images for every goal, and so does the noise scale on most of
# the way, from the first step on. Here it would have told us, before the first training, whether to think of batches of
# 5, of 50 or of 5,000 images.
#
# What does not: near the end of the training the noise scale is several times larger, and the elbow has not moved with
# it. And two models that are equally good can differ in their noise scale by far: it depends on the way that led there,
# on the rate and the batch. (The paper finds the same, in its appendix C.) So take it as an order of magnitude. A
# cluster need not hold the gradients of single images for it: the paper's appendix A.1 estimates it from the lengths of
# a rank's own gradient and of the average. A rank has its own before each all-reduce, and the average after it. (One
# such estimate is very noisy, so it takes a mean over many steps.)

# %% tags=["folded"]
# Checks of the numbers above
assert (
    30 < NOISE < 80
    and noises[0][1] > noises[2][1] < noises[-1][1]
    and noises[-1][1] > 3 * NOISE
)
assert 1 < ridge[1] < 2.2 and ridge[96] > 6
assert (
    60 < needed[1] < 140 and 3 < needed[1] / needed[8] and needed[96] > 0.8 * needed[16]
)
assert seconds[96] > 0.85 * seconds[16] and seconds[1] > 2 * min(seconds.values())
assert all(20 < elbow < 200 for elbow in elbows.values())
assert elbows[0.95] < 2 * elbows[0.80]
assert (
    full_noise[-1][1] > 2 * noises[-2][1]
    and abs(full_noise[-1][0] - noises[-2][0]) < 0.03
)

# %% [markdown]
# Shallue et al. (2018) measured steps to a goal for many models and data sets, and found the place of the elbow to
# differ widely between them.
#
# ## Warm-up
#
# Early in a training a network changes fast, argue Goyal et al. Their second proposal (section 2.2) is therefore to
# begin with the small rate $\eta$ and to raise it by the same amount in every step, up to $k\,\eta$. (Our slope
# changes fastest not at the first weights, but some steps later, in the narrow part of the valley.)

# %%
rates_by_step = [
    warmup_learning_rate(step, 0.4, 16, 64, warmup_steps=4) for step in range(7)
]
print(
    "a warm-up of 4 steps, for 4 times the batch:",
    [round(rate, 2) for rate in rates_by_step],
)

# %% [markdown]
# The paper warms up for 5 of 90 epochs. Our trainings are short and our rates extreme, so we give it 5 of 10 epochs.
# Can warm-up lift the ceiling? We try rates around it, with 16 workers and eleven seeds again.

# %%
HIGH = [4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0]


def train_warmed_up(
    workers: int, rates: list[float], warmup_epochs: int = EPOCHS // 2
) -> dict[float, list[float]]:
    stack, warmup_steps = stack_of(rates, MANY), warmup_epochs * 96 // workers
    full = stack.rates
    for step, chosen in enumerate(batches(workers, EPOCHS, MANY)):
        part = warmup_learning_rate(
            step, 1 / workers, EACH, EACH * workers, warmup_steps
        )
        stack.rates = part * full  # part: from 1/16 to 1
        train_step(stack, chosen)
    return by_rate(stack, rates)


cold, warm = train(16, HIGH, MANY), train_warmed_up(16, HIGH)
print("rate   from the start          with warm-up")
for rate in HIGH:
    print(f"{rate:4.0f}   {percent(cold[rate]):20}   {percent(warm[rate])}")

# %%
sweep(
    {
        "from the start": {int(rate): shares for rate, shares in cold.items()},
        "with warm-up": {int(rate): shares for rate, shares in warm.items()},
    },
    along="learning rate",
    title="Warm-up with 16 workers: correct on test images after 10 epochs",
    percent=True,
)

# %% [markdown]
# Look at the dots. Near the ceiling a training either works or it breaks, and the seed decides. A mean would show
# neither. With warm-up more of the trainings survive, and the ceiling is somewhat higher. It is not gone: 20 breaks
# all the same. How long it must be depends on the rate: at 10, 2 epochs save most trainings. At 12, 1 epoch saves
# hardly one, and 5 save about half. And the best rate with warm-up is hardly better than the best one without. Here
# warm-up makes a training safe, not good.

# %% tags=["folded"]
# Checks of the numbers above
cold_median, warm_median = (
    {r: statistics.median(s) for r, s in t.items()} for t in (cold, warm)
)
wanted = [0.4, 0.7, 1.0, 1.3, 1.6, 1.6, 1.6]
assert all(
    abs(rate - other) < 1e-9 for rate, other in zip(rates_by_step, wanted, strict=True)
)
assert cold_median[12] < 0.6 and warm_median[12] > cold_median[12] + 0.2
assert cold_median[6] > 0.95 and warm_median[20] < 0.8
brief = train_warmed_up(16, [12.0], warmup_epochs=1)[12.0]
print(f"a warm-up of 1 epoch, rate 12: {percent(brief)}")
assert statistics.median(brief) < warm_median[12] - 0.15
at_10 = train_warmed_up(16, [10.0], warmup_epochs=2)[10.0]
print(f"a warm-up of 2 epochs, rate 10: {percent(at_10)}")
assert statistics.median(at_10) > 0.9 > cold_median[10] + 0.1
assert max(warm_median.values()) < cold_median[6] + 0.015

# %% [markdown]
# Goyal et al. trained a ResNet-50 on the 1.28 million images of ImageNet for 90 epochs. With 256 GPUs and 8,192 images
# in a batch it took one hour. Their Table 1 has the share of *wrong* answers, mean and deviation over five runs:
#
# | batch | rate | warm-up | wrong, % |
# |---:|---:|---|---:|
# | 256 | 0.1 | none | 23.60 ± 0.12 |
# | 8,192 | 3.2 | none | 24.84 ± 0.37 |
# | 8,192 | 3.2 | 5 epochs at 0.1, then 3.2 | 25.88 ± 0.56 |
# | 8,192 | 3.2 | from 0.1 to 3.2 in 5 epochs | 23.74 ± 0.09 |
#
# Beyond 8,192 their errors grow, too, with warm-up and all. What carries over is the shape: the rule needs no tuning
# and holds over a range, then it fails. The numbers do not. Their model, data, optimizer (with momentum) and schedule
# differ from ours in everything, and which of these makes the difference we have not tested.
#
# ## Adam
#
# Adam divides each gradient by a running root of its square. So the length of its step hardly depends on the length of
# the gradient, and the argument for the linear rule does not apply. For Adam a **square-root rule** is proposed: $k$
# times the batch, $\sqrt k$ times the rate (Malladi et al. 2022; they also adapt $\beta_1$, $\beta_2$ and
# $\varepsilon$, which we do not). We start from a best rate for 16 images of each optimizer. 5 epochs, because with few
# the differences are larger.

# %%
guess_9 = predict(
    "Adam, from 16 images to 1,536. Which rule gives the best model?",
    choices=["same rate", "square root", "linear"],
)

# %%
RULES = {"same": 0.0, "square root": 0.5, "linear": 1.0}
after = {}
for optimizer, base in ((torch.optim.SGD, 1.6), (torch.optim.Adam, 0.016)):
    head = f"{'same rate':23}{'square root':23}linear"
    print(f"{optimizer.__name__:4} workers   {head}")
    for k in (4, 16, 96):
        shares = train(
            k, [base * k**power for power in RULES.values()], MANY, 5, optimizer
        )
        after[optimizer.__name__, k] = dict(zip(RULES, shares.values(), strict=True))
        print(
            f"     {k:7}   "
            + "   ".join(f"{percent(found):20}" for found in shares.values())
        )
adam = {name: statistics.median(shares) for name, shares in after["Adam", 96].items()}
print(guess_9.compare(max(adam, key=adam.get).replace("same", "same rate")))

# %% [markdown]
# With 4 times the batch both rules do, for both optimizers: such a batch is about where the elbow is. At 16 times,
# Adam's rules are within a point of each other, and the linear one is even ahead. (So it is from most good rates.) At
# 96 times the square root wins clearly, from this rate.
#
# For SGD neither rule leads that far from 1.6, because both run into the ceiling: the linear one at 16 times the
# batch, the square root at 96 times, where not scaling at all is best of the three. From 0.4 there is more room: the
# linear rule holds at 16 times, and at 96 times the square root wins, as it does for Adam. And the two optimizers
# fail differently. SGD has a cliff: above the ceiling its models guess. Adam has a slope: its steps stay bounded,
# whatever the gradient is, and at 96 times the rate its models still classify most images. So no rule is a law. It is
# a first guess, and the ceiling has to be known.
#
# (**Clipping**, which cuts a gradient to a largest length, also bounds the step. It must look at the gradient of the
# whole batch, *after* the all-reduce: clipped pieces do not add up to the clipped whole.)
#
# **Try it.** For 16 images, 0.016 is one of several good rates of Adam. Does the square root win from others, too, up
# to 1,536 images? Change `base`.

# %%
base = 0.008
at_96 = train(
    96, [base * 96**power for power in RULES.values()], MANY, 5, torch.optim.Adam
)
for name, shares in zip(RULES, at_96.values(), strict=True):
    print(f"{name:11} {percent(shares)}")

# %% tags=["folded"]
# One way to do it
# From cautious rates, 0.002 and 0.004, the linear rule wins, because it has further to go.
# From a high one, 0.064, not scaling wins
winner = {}
for base in (0.002, 0.004, 0.006, 0.008, 0.032, 0.064):
    rates = [base * 96**power for power in RULES.values()]
    shares = train(96, rates, MANY, 5, torch.optim.Adam).values()
    ends = dict(zip(RULES, map(statistics.median, shares), strict=True))
    winner[base] = max(ends, key=ends.get)
    print(f"{base}:", {name: f"{share:.0%}" for name, share in ends.items()})
assert winner[0.002] == winner[0.004] == "linear"
assert all(winner[base] == "square root" for base in (0.006, 0.008, 0.032))
assert winner[0.064] == "same"
at_16 = train(16, [0.004 * 4, 0.004 * 16], MANY, 5, torch.optim.Adam).values()
at_16 = [statistics.median(shares) for shares in at_16]
print("16 times the batch from 0.004: square root {:.0%}, linear {:.0%}".format(*at_16))
assert min(at_16) > 0.92 and abs(at_16[0] - at_16[1]) < 0.03

# %% tags=["folded"]
# Checks of the numbers above
medians = {
    key: {n: statistics.median(s) for n, s in shares.items()}
    for key, shares in after.items()
}
for name in ("SGD", "Adam"):
    assert min(medians[name, 4]["linear"], medians[name, 4]["square root"]) > 0.95
assert (
    adam["square root"] > adam["same"] + 0.05
    and adam["square root"] > adam["linear"] + 0.03
)
assert (
    adam["linear"] > 0.6
    and medians["SGD", 96]["linear"] < 0.4
    and medians["SGD", 16]["linear"] < 0.4
)
assert medians["SGD", 16]["square root"] > medians["SGD", 16]["same"]
assert max(medians["SGD", 96], key=medians["SGD", 96].get) == "same"
from_low = train(96, [0.4 * 96**power for power in RULES.values()], MANY, 5).values()
same, root, linear_end = map(statistics.median, from_low)
print(
    f"SGD from 0.4, 96 workers: same {same:.0%}, root {root:.0%}, linear {linear_end:.0%}"
)
assert root > max(same, linear_end) + 0.2
assert abs(medians["Adam", 16]["linear"] - medians["Adam", 16]["square root"]) < 0.02

# %% [markdown]
# ## Fewer messages instead: local SGD
#
# All this time the ranks talked in every training step. There is another way to use several of them. Each rank takes
# $H$ steps on its own, with its own images and its own copy of the model. The copies drift apart a little. Then the
# ranks average the *parameters*, not the gradients, and go on from there. This is **local SGD**: one all-reduce of the
# model for $H$ steps, so there are $H$ times fewer messages.
#
# With $H = 1$ and plain SGD it is what we had before: to average models that are one step away from the same place is
# to average the steps. With a larger $H$ it is another algorithm, and the question is what it costs. We train four
# ranks for 5 epochs, each on its own quarter of the images: once mixed, and once sorted, so that rank 0 has the small
# digits, and rank 3 the large ones.
#
# Such a comparison needs a **control**: ranks that *never* average. Else we cannot know how much the messages could
# matter at all. A rank that never averages is a world of its own, and `split` makes one.


# %%
def quarters_of(name: str, ranks: int) -> tuple[torch.Tensor, ...]:
    """Which images each rank has."""
    mixed = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return (mixed if name == "mixed" else labels.argsort(stable=True)).chunk(ranks)


for name in ("mixed", "sorted"):
    print(
        f"{name:6}",
        [sorted(set(labels[part].tolist())) for part in quarters_of(name, 4)],
    )


# %%
def train_locally(
    comm: Communicator,
    parts: tuple[torch.Tensor, ...],
    local_steps: int,
    seed: int,
    rate: float = RATE,
) -> float:
    """5 epochs, an average after each `local_steps` steps; 0: never. The accuracy."""
    model, mine = make_model(seed), parts[comm.rank]
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
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


# %%
LOCAL_STEPS = [1, 4, 24, 120, 0]  # 24 are an epoch, 120 the whole training
simulated = SimulatedWorld(4)


def results_of(name: str) -> dict[int, list[float]]:
    """H → the accuracies of three seeds; without averages, of all four ranks."""
    results = {}
    print("    H   averages   correct")
    for steps in LOCAL_STEPS:
        runs = [
            simulated.run(train_locally, quarters_of(name, 4), steps, seed)
            for seed in range(3)
        ]
        kept = 4 if steps == 0 else 1  # after an average all ranks have the same model
        results[steps] = [share for run in runs for share in run[:kept]]
        averages = 120 // steps if steps else 0
        print(f"{steps or 'never':>5}   {averages:8}   {percent(results[steps])}")
    return results


local = {"mixed": results_of("mixed")}

# %% [markdown]
# Now the sorted images. A rank alone learns its own digits only: it gets about 30 %.

# %%
guess_10 = predict(
    "Sorted images, and the ranks average 5 times in all, once an epoch. "
    "How many of the test images are correct?",
    unit="%",
)

# %%
local["sorted"] = results_of("sorted")
print(guess_10.compare(100 * statistics.median(local["sorted"][24])))

# %%
lines = {name: {h: shares for h, shares in local[name].items() if h} for name in local}
for name in local:
    lines[f"{name}, never"] = dict.fromkeys((1, 120), statistics.median(local[name][0]))
sweep(
    lines,
    along="H, local steps between two averages",
    title="Local SGD on four ranks: correct on test images after 5 epochs",
    percent=True,
)

# %% [markdown]
# **Mixed images.** Averaging once at the very end is nearly as good as averaging 120 times. That sounds like a triumph
# for local SGD. The control says how large a triumph: a rank that never talks to anybody is only two or three points
# worse. A quarter of the images is nearly enough for this task, so messages *cannot* matter much here. The experiment
# can show that a large $H$ does no harm at this rate. It cannot show that it does any good.
#
# At higher rates a large $H$ does harm. With 3.2 a single average at the end is no better than none. With 6.4, too much
# for a single worker, even one in each epoch is far too few: the copies break before they meet. And for a single
# average the ranks must *start alike*: that of four models that began differently is far worse than each of them.
#
# **Sorted images.** Here the messages are everything. A rank alone knows three or four digits. One average at the end
# is an average of four models that each know a few digits, and knows less than half of them. But five averages in the
# whole training are enough for most of the way. At this rate, the longer the ranks go without an average, the more it
# costs: the copies drift to different places. (With 0.1, too small for 5 epochs, once an epoch is no worse than once a
# step.) So **local SGD wants ranks whose data are alike.** Shuffle before you cut.
#
# **Try it.** Make a task in which messages matter although the images are mixed: give each rank less. How large is the
# gap between "never" and $H = 6$ with 8, 16, 32 ranks? Then 4 ranks with a rate of 3.2 or 6.4, and other $H$.

# %%
ranks, my_rate = 8, RATE
for steps in (0, 6):
    few = SimulatedWorld(ranks).run(
        train_locally, quarters_of("mixed", ranks), steps, 0, my_rate
    )
    print(f"{ranks} ranks, H = {steps or 'never'}: {percent(few)}")

# %% tags=["folded"]
# One way to do it
# 32 ranks have 48 images each, so only 3 steps in an epoch
gap = {}
for ranks in (16, 32):
    crowd, parts = SimulatedWorld(ranks), quarters_of("mixed", ranks)
    alone, often = (crowd.run(train_locally, parts, steps, 0) for steps in (0, 6))
    gap[ranks] = statistics.median(often) - statistics.median(alone)
    print(f"{ranks:2} ranks, never: {percent(alone)}, H = 6: {percent(often)}")
assert 0.01 < gap[16] < gap[32] and gap[32] > 0.2
high = {}
for rate, steps in ((3.2, 24), (3.2, 120), (3.2, 0), (6.4, 1), (6.4, 24)):
    shares = simulated.run(train_locally, quarters_of("mixed", 4), steps, 0, rate)
    high[rate, steps] = statistics.median(shares)
    print(f" 4 ranks, rate {rate}, H = {steps or 'never'}: {high[rate, steps]:.0%}")
assert high[3.2, 24] > 0.94 and high[3.2, 120] < high[3.2, 24] - 0.01
assert high[3.2, 120] < high[3.2, 0] + 0.02
assert high[6.4, 1] > 0.9 > 0.85 > high[6.4, 24]

# %% tags=["folded"]
# Checks of the numbers above
of = {
    (name, h): statistics.median(shares)
    for name in local
    for h, shares in local[name].items()
}
assert len(quarters_of("mixed", 4)[0]) == 384 == 24 * EACH
assert all(abs(of["mixed", h] - of["mixed", 1]) < 0.03 for h in (4, 24, 120))
assert 0.01 < of["mixed", 1] - of["mixed", 0] < 0.04
assert (
    0.25 < of["sorted", 0] < 0.35 and of["sorted", 0] + 0.03 < of["sorted", 120] < 0.6
)
assert 0.8 < of["sorted", 24] < of["sorted", 4] < of["sorted", 1] + 0.02
assert set(labels[quarters_of("sorted", 4)[0]].tolist()) == {0, 1, 2}


slow = {
    h: [
        simulated.run(train_locally, quarters_of("sorted", 4), h, seed, 0.1)[0]
        for seed in range(3)
    ]
    for h in (1, 24)
}
print("sorted, rate 0.1:", {h: percent(shares) for h, shares in slow.items()})
assert statistics.median(slow[24]) > statistics.median(slow[1])


def from_own_weights(comm: Communicator) -> float:
    return train_locally(comm, quarters_of("mixed", 4), 120, seed=comm.rank)


own = simulated.run(from_own_weights)[0]
print(f"four different starts, an average at the end: {own:.0%}")
assert own < of["mixed", 0] - 0.04
on_real_ranks = world.run(train_locally, quarters_of("mixed", 4), 24, 0)
assert abs(on_real_ranks[0] - local["mixed"][24][0]) < 0.02

# %% [markdown]
# Stich (2018) proves for strongly convex functions how far $H$ may grow. Lin et al. (2018) begin with steps that all
# ranks take together and change to local ones later, and report *better* models than with the same number of workers
# and one large batch.
#
# ## In real frameworks
#
# ### DistributedDataParallel divides by the number of ranks
#
# Torch's `DistributedDataParallel` (DDP) averages the gradients of the ranks. It knows nothing of your batch. So with
# the mean loss on every rank it does what our first way did. With summed losses, its documentation warns, the gradient
# is smaller than that of one process by the number of ranks. To get it right with uneven pieces, divide the sum by the
# size of the whole batch, and multiply by the number of ranks, which DDP will divide by.
#
# And DDP talks in each backward. For accumulation, all microbatches but the last run inside `no_sync()`, the forward
# pass as well as the backward one: in the forward pass DDP decides whether it will talk.

# %%
from torch.nn.parallel import DistributedDataParallel

from distlib import torch_distributed


# %%
def ddp_gradients(
    comm: Communicator, model: nn.Module, pieces: list[Batch]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Torch's with mean losses, torch's with corrected ones, two microbatches; ours."""
    inputs, targets = pieces[comm.rank]
    with torch_distributed(comm, "gloo"):
        ddp = DistributedDataParallel(model)
        losses(ddp(inputs), targets).mean().backward()
        naive = torch.cat(
            [parameter.grad.flatten() for parameter in model.parameters()]
        )

        ddp.zero_grad()
        halves = list(zip(inputs.chunk(2), targets.chunk(2), strict=True))
        with ddp.no_sync():
            (
                losses(ddp(halves[0][0]), halves[0][1]).sum() / TOTAL * comm.world_size
            ).backward()
        (
            losses(ddp(halves[1][0]), halves[1][1]).sum() / TOTAL * comm.world_size
        ).backward()
        corrected = torch.cat(
            [parameter.grad.flatten() for parameter in model.parameters()]
        )
    accumulate_gradients(comm, model, losses, halves, TOTAL)
    ours = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return naive, corrected, ours


for naive, corrected, ours in world.run(ddp_gradients, make_model(0), pieces):
    assert torch.allclose(naive, mean_of_means, rtol=1e-4, atol=1e-6)
    assert torch.allclose(corrected, ours, rtol=1e-4, atol=1e-7) and torch.allclose(
        ours, correct, rtol=1e-4, atol=1e-7
    )
mean_error, error = ((g - correct).norm() / correct.norm() for g in (naive, corrected))
print(f"DDP with mean losses is off by {mean_error:.0%}, ", end="")
print(f"with corrected losses by {error:.0e}")

# %% [markdown]
# ### A scheduler warms up
#
# Torch changes learning rates by schedulers. For a linear warm-up, give the optimizer the full rate $k\,\eta$, and let
# `LinearLR` begin with the part $1/k$ of it.

# %%
optimizer = torch.optim.SGD(make_model(0).parameters(), lr=4 * RATE)
scheduler = torch.optim.lr_scheduler.LinearLR(
    optimizer, start_factor=1 / 4, total_iters=10
)
theirs = []
for _ in range(15):
    theirs += scheduler.get_last_lr()
    optimizer.step()
    scheduler.step()
ours = [
    warmup_learning_rate(step, RATE, base_batch_size=16, batch_size=64, warmup_steps=10)
    for step in range(15)
]
print([round(rate, 2) for rate in theirs])
assert all(abs(a - b) < 1e-12 for a, b in zip(ours, theirs, strict=True))

# %% [markdown]
# ### Local SGD
#
# Torch has an averager that counts steps and averages the parameters in each `period`-th, and an optimizer around it,
# `PostLocalSGDOptimizer`. "Post", because it is meant to begin after a number of common steps, as Lin et al. do:
# `warmup_steps`. Until then it only waits. The common steps are the work of a DDP around the model, with the hook
# `post_localSGD_hook`; without one the ranks drift apart from the first step on. It averages after the first step
# that follows them, and then after each `period`. So for averages after steps 5 and 10, as in our rounds with
# $H = 5$, `warmup_steps` is 4.

# %%
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer


def both_local(
    comm: Communicator, local_steps: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Two rounds of local SGD, by our function and by torch's: both models' numbers."""
    mine = quarters_of("mixed", 4)[comm.rank][: 2 * local_steps * EACH].split(EACH)
    batches = [(images[chosen], labels[chosen]) for chosen in mine]
    models = make_model(0), make_model(0)
    optimizers = [torch.optim.SGD(model.parameters(), lr=RATE) for model in models]
    for start in (0, local_steps):
        local_sgd_round(
            comm, models[0], losses, batches[start : start + local_steps], optimizers[0]
        )
    with torch_distributed(comm, "gloo"):
        averager = PeriodicModelAverager(
            period=local_steps, warmup_steps=local_steps - 1
        )
        optimizer = PostLocalSGDOptimizer(optimizers[1], averager)
        for inputs, targets in batches:
            optimizer.zero_grad()
            losses(models[1](inputs), targets).mean().backward()
            optimizer.step()
    return tuple(
        [parameter.detach() for parameter in model.parameters()] for model in models
    )


for ours, theirs in world.run(both_local, 5):
    assert all(
        torch.allclose(a, b, rtol=1e-5, atol=1e-6)
        for a, b in zip(ours, theirs, strict=True)
    )
print("Ours and torch's agree.")

# %%
world.close()

# %% [markdown]
# One difference remains. Torch averages parameters only. The running mean and variance of a batch normalization are
# not parameters but buffers, and stay different on every rank. Ours averages them, too.
#
# What else is there?
#
# - **LARS** (You et al. 2017) and **LAMB** (You et al. 2019) are optimizers for batches of tens of thousands. They give
#   each layer a rate of its own. LARS takes it from the length of the layer's weights and of its gradient, LAMB from
#   the length of the weights and of Adam's update.
# - **TensorFlow** divides in the loss, as we do: `tf.nn.compute_average_loss` has an argument `global_batch_size`.
#   Lesson 13 uses it.
# - **DiLoCo** (Douillard et al. 2023) is local SGD for language models, with hundreds of steps between two averages,
#   over slow links between data centers. Inside, a rank takes steps of AdamW. Outside, the averaged difference is not
#   just added, but is used like a gradient, by an optimizer with Nesterov momentum.
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
# - Accumulate microbatches, and talk once.
# - $N$ workers are one process with $N$ times the batch. They give more images per second, not as many times more
#   learning.
# - $k$ times the batch, $k$ times the rate: up to a ceiling of the *rate*, which no batch can pass here. The curvature
#   at the first weights tells its order of magnitude for this network. A warm-up over half of the training lifts it a
#   little. (With Tanh in place of ReLU we found hardly any ceiling. With a second hidden layer it was half as high.)
# - With Adam, from good rates, both rules do up to 16 times the batch. At 96 times it depends on the first rate: the
#   square root of $k$ wins from 0.006 to 0.032, the linear rule from lower ones, and not scaling from 0.064.
# - The noise scale tells the order of magnitude up to which more workers save steps. Above it they waste images.
# - Local SGD: $H$ times fewer messages, if the ranks' data are alike, they start alike, and the rate is one that a
#   single worker bears. With sorted images, or close to that rate, it needs an average now and then. Always run the
#   control that never talks.
# - Repeat with several seeds, and look at every run: a mean hides the one that broke.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/06_large_batches/06_large_batches.ipynb) you write three functions: the accumulation,
# the rate with its warm-up, and a round of local SGD.
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
# - S. Malladi et al., [On the SDEs and Scaling Rules for Adaptive Gradient
#   Algorithms](https://arxiv.org/abs/2205.10287), 2022. The square-root rule for Adam.
# - S. U. Stich, [Local SGD Converges Fast and Communicates Little](https://arxiv.org/abs/1805.09767), 2018.
# - T. Lin et al., [Don't Use Large Mini-Batches, Use Local SGD](https://arxiv.org/abs/1808.07217), 2018. Common steps
#   first, local steps later.
# - Y. You, I. Gitman, B. Ginsburg, [Large Batch Training of Convolutional
#   Networks](https://arxiv.org/abs/1708.03888), 2017. LARS.
# - Y. You et al., [Large Batch Optimization for Deep Learning: Training BERT in 76
#   minutes](https://arxiv.org/abs/1904.00962), 2019. LAMB.
# - A. Douillard et al., [DiLoCo: Distributed Low-Communication Training of Language
#   Models](https://arxiv.org/abs/2311.08105), 2023.
# - PyTorch,
#   [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).
#   What it averages, and `no_sync`.
