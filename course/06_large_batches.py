# %% [markdown]
# # Large batches
#
# In October 2024 a user reported a puzzle. The same language model was trained twice: with whole batches, and with each
# batch in small pieces. On paper the two runs are the same, but their losses differed. The bug was in Hugging Face
# transformers and in other training libraries. It was one wrong divisor.
#
# > After this lesson you will be able to
# >
# > - say what a gradient must be divided by, and how far off the usual mistakes are,
# > - train with a batch that does not fit into memory,
# > - choose a learning rate for a larger batch, and say above which rate no batch helps,
# > - say at which batch size more workers stop saving steps.
# >
# > **Time:** about 50 minutes. **You need:** [All-reduce](02_all_reduce.ipynb), and [DDP](05_ddp.ipynb) for the part on
# > real frameworks. No GPU.

# %% tags=["folded"]
# The imports
import statistics
from collections.abc import Callable, Iterator

import torch
from torch import nn
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
from distlib.draw import (
    compare_costs,
    format_seconds,
    heat_map,
    predict,
    step_timeline,
    sweep,
)
from distlib.training import (
    Batch,
    ModelStack,
    Span,
    StepTimes,
    accumulate_gradients,
    digits,
)

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
# batch, this must stay true, wherever a sample happens to be.
#
# The usual method, the **average of averages**, sounds safe: each rank takes the mean of its own losses, and the ranks
# average their gradients. In lesson 02 it was correct, because all ranks had equally many images. Now take the last
# batch of an epoch, when only 50 images are left. Ranks 0, 1 and 2 get 16 images each, and rank 3 gets two. How much
# does one image count?

# %%
LENGTHS = [16, 16, 16, 2]
TOTAL = sum(LENGTHS)
weights = [1 / length / 4 for length in LENGTHS]  # of one image of each rank

# %% tags=["folded"]
# The picture
WEIGHT = "weight of one image"
shares = {f"rank {rank}": {WEIGHT: weight} for rank, weight in enumerate(weights)}
compare_costs(
    {**shares, "if all counted equally": {WEIGHT: 1 / TOTAL}},
    title="What an image counts in the average of averages",
    show="{:.1%}".format,
)

# %% [markdown]
# The two images of rank 3 together count as much as sixteen others. Does it matter? We compare the average of averages
# with five other methods. In each method a rank adds up the losses of its images, divides the sum by something, and
# computes the gradient. Then an all-reduce adds up the gradients, or averages them. One process with all 50 images
# computes the gradient that we want.


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
# Only the last method is correct. The others fail in two ways.
#
# - **The length is wrong.** Without any division the gradient is 50 times too long, and with one division too many it
#   is 4 times too short. For plain SGD, a wrong length has the effect of another rate.
# - **The direction is wrong**, in the first two methods. The average of averages has almost the correct length, so an
#   error of more than half is easy to overlook.
#
# **Divide each loss by the size of the whole batch, then add up the gradients.** The pieces need not be equal. A rank
# without any sample adds zeros, but it must take part in the all-reduce, because the others wait for its message.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the loss gives each class a weight | divide by the sum of the weights of all samples in the whole batch |
# | a layer mixes samples, as batch normalization does | no divisor makes the ranks agree with one process |
#
# Goyal et al. (2017, section 3) list the wrong divisor among the mistakes that leave no trace but a worse model.
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
# ## A batch that does not fit
#
# Why would anybody train with batches in small pieces? Because the whole batch does not fit into memory. The pieces do,
# and the gradient of a sum is the sum of the gradients. So a rank takes a few images, a **microbatch**, goes forward
# and backward, and keeps the gradient. Then it takes the next few images and adds their gradient. Torch's `backward()`
# does just that, because it adds to `.grad`. This is **gradient accumulation**.
#
# With it, four ranks train with a batch of 256 images, although each rank has memory for only 16 images. The 64 images
# of a rank are four microbatches, so the rank goes forward and backward four times. When should the ranks talk? They
# could all-reduce after each microbatch and add up the results, or wait for the last.

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


# %% tags=["folded"]
# The picture: on a model that is larger than ours
def play_accumulation(comm: Communicator, talks: int) -> StepTimes:
    """When a rank computes and communicates, with 4 microbatches of 16 images."""
    spans: list[Span] = []

    def note(kind: str, action: Callable[[], None]) -> None:
        start = comm.time()
        action()
        spans.append(Span(kind, "", start, comm.time()))

    for microbatch in range(4):
        note("forward", lambda: comm.sleep(16 * 50e-6 / 3))
        note("backward", lambda: comm.sleep(16 * 50e-6 * 2 / 3))
        if talks == 4 or microbatch == 3:
            note("communication", lambda: all_reduce(comm, LARGE))
    return StepTimes(0.0, comm.time(), spans)


LARGE = torch.empty(100 * NUMBERS, device="meta")
network = Cluster.flat(4, Link(latency=20e-6, bandwidth=1e9))
once, each = (SimulatedWorld(4, network).run(play_accumulation, n)[0] for n in (1, 4))
step_timeline(
    {"after the last": once, "after each": each},
    title="Four microbatches, and when to talk",
)

# %% [markdown]
# Both methods give the gradient of the whole batch, because the order of the additions does not matter. But waiting
# saves three of four all-reduces. The picture shows what this means for a model a hundred times as large as ours.
#
# **Accumulate microbatches, and communicate once per batch.** The function `accumulate_gradients` does both, and you
# write it in the exercise.
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the model has a batch normalization | this layer sees only one microbatch at a time, so the gradient differs |
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
# ## The puzzle is solved
#
# In a language model the samples are tokens. Because texts have different lengths, microbatches have unequally many
# tokens. The libraries took the mean loss of each microbatch, and then the mean of these means. This is the average of
# averages, with microbatches instead of ranks.
#
# The correct divisor is the number of tokens with a loss in the whole batch. Padding has no loss, and often a prompt
# has none. Because no rank knows this number, the ranks first add up their counts, by an all-reduce of a single number.
# Here are four ranks, with made-up losses:

# %% tags=["folded"]
# Tokens with made-up losses
TOKENS = [1600, 100, 320, 980]  # on each rank, without the padding
# a token of rank 3 costs most
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
# **In a language model, the divisor is the number of tokens with a loss in the whole batch.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | all pieces have equally many tokens with a loss | the average of averages is correct, too |
#
# </details>
#
# ## Four ranks are one process with a larger batch
#
# So far we compared one gradient. Now four ranks train for 20 steps with 16 images each, and one process trains with
# all 64 images. We compute in float64, so that rounding cannot hide any other difference.

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
# **N workers are one process with N times the batch.** Workers are ranks, and only rounding differs. So one process
# with a large batch can tell us what many workers would learn. The next sections train in one process, and simulate
# ranks only to measure time.
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
# Are more workers faster? Each worker brings 16 images to a step, so $N$ workers share a batch of $16N$ images. Because
# all workers compute at the same time, only the all-reduce makes a step longer. Computing takes 50 µs for an image, and
# the network has a latency of 20 µs and a bandwidth of 1 GB/s.

# %%
EACH = 16  # images of a worker in each step
SECONDS_PER_IMAGE = 50e-6
WORKERS = [1, 2, 4, 8, 16, 32, 96]


def one_step(comm: Communicator) -> None:
    comm.sleep(EACH * SECONDS_PER_IMAGE)
    all_reduce(comm, torch.empty(NUMBERS, device="meta"), algorithm="auto")


def seconds_of_a_step(workers: int, latency: float = 20e-6) -> float:
    link = Link(latency, bandwidth=1e9)
    simulated = SimulatedWorld(workers, Cluster.flat(workers, link))
    simulated.run(one_step)
    return simulated.elapsed


# %% tags=["folded"]
# The picture
step_seconds = {workers: seconds_of_a_step(workers) for workers in WORKERS}
throughput = {workers: EACH * workers / step_seconds[workers] for workers in WORKERS}
ideal = {workers: workers * throughput[1] for workers in WORKERS}
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
# **On this cluster, twice as many workers process more images per second.** If images per second were the goal, the
# lesson would end here. But the goal is a model that has learned something.
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
# **Try it.** From which latency on do two workers process fewer images per second than one?

# %%
latency = 100e-6
print(f"1 worker:  {EACH / seconds_of_a_step(1):7,.0f} images per second")
print(f"2 workers: {2 * EACH / seconds_of_a_step(2, latency):7,.0f}")

# %% tags=["folded"]
# One way to do it
# Two workers lose when the all-reduce, with its two rounds, takes as long as computing
for latency in (390e-6, 400e-6):
    print(f"{latency * 1e6:.0f} µs: {2 * EACH / seconds_of_a_step(2, latency):,.0f}")
assert seconds_of_a_step(2, 390e-6) < 2 * seconds_of_a_step(1)
assert seconds_of_a_step(2, 400e-6) > 2 * seconds_of_a_step(1)

# %% [markdown]
# ## The same epochs, a larger batch
#
# An **epoch** is one pass over all images. With 96 workers the batch is the whole training set, so an epoch is a single
# step. We train for 10 epochs, whatever the number of workers, and count how many of the test images are classified
# correctly.
#
# One run says little, because it depends on its first weights and on the order of the images. So we train with five
# seeds, and with eight learning rates. A `ModelStack` trains these 40 models at once, each as if it were alone.

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
# The next cell trains 280 models, which takes about ten seconds. We look first at one rate.

# %%
table = {workers: train(workers, RATES) for workers in WORKERS}

# %%
guess_3 = predict(
    "At a rate of 0.4, one worker gets 96% of the test images right after 10 epochs. "
    "And 96 workers?",
    choices=["about as many", "80 to 90%", "fewer than 60%"],
)

# %% tags=["folded"]
# One rate for all
middle = {w: {r: statistics.median(table[w][r]) for r in RATES} for w in WORKERS}
same_rate = {workers: table[workers][RATE] for workers in WORKERS}
print(guess_3.compare("fewer than 60%"))
sweep(
    {"rate 0.4": same_rate},
    along="workers",
    title="The same rate: correct on test images after 10 epochs",
    percent=True,
)

# %% [markdown]
# **At a rate of 0.4, 96 workers learn far less in ten epochs than one.** Both saw each image ten times. But one worker
# took 960 steps and 96 workers took only ten, which do not lead far. A gradient of all images is more exact than a
# gradient of 16 images, but a step with it does not replace 96.
#
# ## Linear scaling
#
# The remedy is larger steps. How much larger? Goyal et al. (2017, section 2.1) argue like this. One worker takes $k$
# small steps with the rate $\eta$, each with another batch $B_j$ of $n$ images. Let $w_j$ be the weights after $j$
# steps, and $\ell$ the loss of an image:
#
# $$w_k = w_0 - \eta\,\tfrac1n \sum_{j<k} \sum_{x \in B_j} \nabla \ell(x, w_j)$$
#
# $k$ workers take one step with the rate $\hat\eta$, with all these images at once:
#
# $$\hat w_1 = w_0 - \hat\eta\,\tfrac{1}{kn} \sum_{j<k} \sum_{x \in B_j} \nabla \ell(x, w_0)$$
#
# The sums differ only in the place where the gradient is taken: at $w_j$, on the way, or at $w_0$, at the start. If the
# gradients hardly change on the way, both arrive at the same place when $\hat\eta = k\,\eta$. This is the **linear
# rule**: $k$ times the batch goes with $k$ times the rate.

# %%
guess_4 = predict(
    "The linear rule gives a rate of 6.4 for 16 workers, and 12.8 for 32. What happens?",
    choices=["both fine", "16 fine, 32 broken", "both broken"],
)

# %% tags=["folded"]
# One rule for all
by_rule = {workers: table[workers][RATE * workers] for workers in WORKERS[:-1]}
print(guess_4.compare("16 fine, 32 broken"))
sweep(
    {"rate 0.4": same_rate, "linear rule": by_rule},
    along="workers",
    title="The linear rule: correct on test images after 10 epochs",
    percent=True,
)

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
# Up to 16 workers the rule keeps its promise: a sixteenth of the steps reaches the accuracy of one worker. With 32
# workers the rule breaks down. Is a batch of 512 images too large? Two things changed, the batch and the rate. Which of
# them broke the training? We have trained the other combinations, too.

# %%
guess_5 = predict(
    "For which numbers of workers does the rate of 12.8 work?",
    choices=["only for few", "only for many", "for none"],
)

# %% tags=["folded"]
# Two rates for all
print(guess_5.compare("for none"))
sweep(
    {
        f"rate {rate}": {workers: table[workers][rate] for workers in WORKERS}
        for rate in (3.2, 12.8)
    },
    along="workers",
    title="Two rates: correct on test images after 10 epochs",
    percent=True,
)

# %% [markdown]
# **It was the rate.** With a rate of 3.2, a batch of 512 images is fine. A rate of 12.8 breaks the training with every
# batch, even with all images, whose gradient is exact.
#
# Here is the whole map. Each cell is the median of five seeds, because a single broken run would pull down the mean.

# %% tags=["folded"]
# The map
linear = {workers: RATE * workers for workers in WORKERS}
heat_map(
    middle,
    lines={"linear rule from 0.4": linear},
    across="learning rate",
    down="workers",
    title="Correct on test images after 10 epochs",
    subtitle="median of 5 seeds; the darker, the better",
    show="{:.0%}".format,
    shade=lambda share: -((1.02 - share) ** 0.4),
)

# %% [markdown]
# - **Diagonals.** In the lower left, training is too slow. There, up to 32 workers, one cell down and one cell to the
#   right changes little: twice the batch with twice the rate gives nearly the same accuracy. This is the linear rule.
# - **A ceiling.** Between 6.4 and 12.8 there is a rate above which every batch fails. A larger batch makes the gradient
#   more exact, but an exact gradient does not help a step that is too long.
# - **A ridge.** The best cells lie between the ceiling and the lowest rate that reaches 95%. This lowest rate doubles
#   with the batch, until it meets the ceiling: with 96 workers, no rate reaches 95%.
#
# **For SGD, k times the batch goes with k times the rate, up to a ceiling.** So it was unfair to compare all workers at
# one rate. For one worker most rates are equally good. For 96 workers the best rate nearly doubles the accuracy, from
# 47% to 92%.

# %% tags=["folded"]
# Checks of the numbers above
best = {
    workers: max(RATES, key=lambda rate, w=workers: middle[w][rate])
    for workers in WORKERS
}
assert (round(middle[96][RATE], 2), round(middle[96][best[96]], 2)) == (0.47, 0.92)
assert all(middle[workers][12.8] < 0.7 for workers in WORKERS)
assert (
    all(middle[workers][6.4] > 0.9 for workers in WORKERS[1:-1])
    and middle[1][6.4] < 0.5
)
assert middle[32][3.2] > 0.94
lowest = [min(r for r in RATES if middle[w][r] > 0.945) for w in WORKERS[:-1]]
assert lowest == RATES[:6] and max(middle[96].values()) < 0.945
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
# | the batch is all images, as with 96 workers | ten epochs are only ten steps, and a rate of 6.4 needs more |
# | the network differs | the ceiling moves: a second hidden layer halves it, and Tanh has almost no ceiling |
# | the optimizer is Adam | the linear rule is one of two guesses, see lesson 06b |
#
# One test image is 0.4%, so a difference of 1% means little. We repeated the map with other seeds, with 5 and with 20
# epochs, and with a fifth of the labels replaced at random. The ceiling stayed where it is.
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
# ## How many workers are worth their money?
#
# So far the number of epochs was fixed. In practice one trains until the model is good enough, and pays for every
# worker. How many steps does it take until 95% of the test images are correct? For each number of workers we try four
# rates with five seeds, wait for the slowest seed, and keep the rate at which this wait is shortest.

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
    choices=["about 1", "about 20", "about 90"],
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
print(guess_6.compare("about 20"))
sweep(
    {
        "measured": to_goal,
        "if no work were wasted": {workers: needed[1] / workers for workers in WORKERS},
    },
    along="workers, with 16 images each",
    title="Training steps until 95% of the test images are correct",
)

# %% [markdown]
# Four workers need about a third of the steps of one worker, so little work is wasted. From 8 workers on, the steps
# hardly fall any more, so more workers only bring more images to a step. In virtual time, 96 workers gain nothing over
# 16.
#
# Why? The gradient of a batch is the true gradient plus noise, because the batch is a random choice of images. In a
# small batch the noise dominates, so more images make a better step. In a large batch the gradient is nearly exact
# already, so more images hardly change the step. The batch size between the two is the **critical batch size**.
# [Lesson 06b](06b_how_large_a_batch.ipynb) predicts it from the noise.
#
# **From some batch size on, more workers save few steps.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the batch is just above the critical one | a doubling still saves some steps: the elbow of the curve is round |
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
assert 80 < needed[1] < 100 and 15 < needed[96] < 30
assert needed[32] > 0.8 * needed[8]

# %% [markdown]
# ## In real frameworks
#
# Torch's `DistributedDataParallel` (DDP) averages the gradients of the ranks, and knows nothing of your batch. With the
# mean loss on every rank this is the average of averages, which is wrong as soon as the pieces are unequal. So divide
# by the size of the whole batch here, too. **With DDP, also multiply the loss by the number of ranks**, because DDP
# divides by this number.
#
# DDP also talks in each backward pass. For accumulation, run all microbatches but the last inside `no_sync()`, the
# forward pass as well as the backward pass, because DDP decides in the forward pass whether it will talk.


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
# - Divide each loss by the size of the whole batch, then add up the gradients.
# - Accumulate microbatches, and communicate once per batch.
# - N workers are one process with N times the batch.
# - For SGD, k times the batch goes with k times the rate, up to a ceiling.
# - From some batch size on, more workers save few steps.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - In a language model, the samples are tokens. With DDP, also multiply by the number of ranks.
# - $N$ workers process more images per second, but do not learn $N$ times as fast.
# - The ceiling is a ceiling of the *rate*: no batch passes it here.
# - Repeat with several seeds, and look at every run: a mean hides the one that broke.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/06_large_batches/06_large_batches.ipynb) you write the accumulation.
#
# [Lesson 06b](06b_how_large_a_batch.ipynb) is a side road: where the ceiling comes from, what the noise of a gradient
# predicts, warm-up, Adam, and local SGD, which sends fewer messages. In [its
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
#   critical batch size, and how to estimate it.
# - C. J. Shallue et al., [Measuring the Effects of Data Parallelism on Neural Network
#   Training](https://arxiv.org/abs/1811.03600), 2018. Steps to a goal by batch size, for many models.
# - PyTorch,
#   [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).
#   What it averages, and `no_sync`.
