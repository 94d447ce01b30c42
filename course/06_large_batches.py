# %% [markdown]
# # Large batches
#
# After this lesson you will be able to
#
# - say what a gradient must be divided by when ranks share a batch, and how far off the usual mistakes are,
# - train with a batch that does not fit into memory,
# - say what happens to accuracy when more workers make the batch larger, and which part of it a larger learning rate
#   and a warm-up bring back,
# - find out from which number of workers on another one hardly helps,
# - save messages with local SGD, and name the condition.
#
# **Time:** about 60 minutes. **You need:** [All-reduce](02_all_reduce.ipynb). No GPU.

# %%
import statistics
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import Cluster, Communicator, Link, ReduceOp, SimulatedWorld, World, all_reduce
from distlib.datasets import digits
from distlib.draw import predict, sweep
from distlib.draw.style import format_seconds
from distlib.large_batch import Batch, accumulate_gradients, local_sgd_round, warmup_learning_rate

torch.set_num_threads(1)  # in this kernel: matrices as small as ours are not worth a second thread

world = World(4)
train, test = digits()
average_image = train.images.mean(dim=0)
images, labels = train.images - average_image, train.labels  # 1,536 images of 8 by 8 pixels
test_images, test_labels = test.images - average_image, test.labels
assert len(labels) == 1536


def make_model(seed: int) -> nn.Module:
    """A small classifier. The seed decides its first weights."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


NUMBERS = sum(parameter.numel() for parameter in make_model(0).parameters())
assert NUMBERS == 2410

# %% [markdown]
# ## What is a gradient divided by?
#
# The loss of a batch is the *mean* of the losses of its samples. So every sample counts equally, and a batch of 50 is
# not steeper than a batch of 10. When ranks share the batch, this must stay true: the result must not depend on which
# rank a sample happens to be on.
#
# That sounds easy: each rank computes the mean of its own losses, and the ranks average their gradients. Lesson 02 did
# that. But there all ranks had equally many images. Now take the last batch of an epoch. Only 50 images are left.
# Handed out in pieces of 16, they give ranks 0, 1 and 2 a full piece, and rank 3 gets 2 images.

# %%
LENGTHS = [16, 16, 16, 2]
TOTAL = sum(LENGTHS)

# %%
guess = predict("Ranks average their means. How many times as much as an image of rank 0 does one of rank 3 count?")

# %%
weights = [1 / length / 4 for length in LENGTHS]  # of one image of each rank
print("weight of an image of rank 0: 1 /", round(1 / weights[0]), "   of rank 3: 1 /", round(1 / weights[3]))
print(guess.compare(weights[3] / weights[0]))
assert weights[3] / weights[0] == 8
assert sum(weight * length for weight, length in zip(weights, LENGTHS, strict=True)) == 1

# %% [markdown]
# Two images have as much weight as sixteen. Is that much? Let us run it, and other ways that people write, on the four
# ranks. In each the rank adds up the losses of its images, divides by something, and computes the gradient. An
# all-reduce then adds up the gradients, or averages them. We compare with the gradient of all 50 images in one process.
#
# The losses of single samples are what torch's loss functions return with `reduction="none"`.


# %%
def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One loss for each sample."""
    return cross_entropy(outputs, targets, reduction="none")


def gradient_of(loss: torch.Tensor, model: nn.Module) -> torch.Tensor:
    """All numbers of a gradient in one vector."""
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


Way = tuple[Callable[[int], int], ReduceOp]  # what a rank with so many images divides by, and what the all-reduce does
WAYS: dict[str, Way] = {
    "sum / own images, averaged": (lambda own: own, ReduceOp.AVG),
    "sum / own images, added": (lambda own: own, ReduceOp.SUM),
    "sum, added": (lambda own: 1, ReduceOp.SUM),
    "sum, averaged": (lambda own: 1, ReduceOp.AVG),
    "sum / all images, averaged": (lambda own: TOTAL, ReduceOp.AVG),
    "sum / all images, added": (lambda own: TOTAL, ReduceOp.SUM),
}


def combined_gradient(comm: Communicator, model: nn.Module, pieces: list[Batch], way: Way) -> torch.Tensor:
    divisor, op = way
    my_images, my_labels = pieces[comm.rank]
    mine = gradient_of(losses(model(my_images), my_labels).sum() / divisor(len(my_labels)), model)
    all_reduce(comm, mine, op)
    return mine


last_batch = images[-TOTAL:], labels[-TOTAL:]
pieces = list(zip(last_batch[0].split(LENGTHS), last_batch[1].split(LENGTHS), strict=True))
model = make_model(0)
right = gradient_of(losses(model(last_batch[0]), last_batch[1]).mean(), model)

found = {name: world.run(combined_gradient, model, pieces, way)[0] for name, way in WAYS.items()}
print("                               times as long   off by")
for name, gradient in found.items():
    print(f"{name:30} {gradient.norm() / right.norm():13.2f}   {(gradient - right).norm() / right.norm():6.0%}")

# %% [markdown]
# Only the last way is right. The others fall into two kinds.
#
# - **The length is wrong.** A sum without a division is 50 times too long, a division too many makes it 4 times too
#   short. Nothing crashes, and the direction is right. It is as if somebody had changed the learning rate by that
#   factor. With another number of ranks it would be another factor.
# - **The direction is wrong.** The first way looks almost right, and is the most common. Its gradient belongs to
#   another loss, in which some images count eight times as much as others.

# %%
length = {name: float(gradient.norm() / right.norm()) for name, gradient in found.items()}
assert abs(length["sum, added"] / 50 - 1) < 1e-4 and abs(length["sum, averaged"] / 12.5 - 1) < 1e-4
assert abs(length["sum / all images, averaged"] * 4 - 1) < 1e-4
assert torch.allclose(found["sum / all images, added"], right, rtol=1e-4, atol=1e-7)

mean_of_means = found["sum / own images, averaged"]
assert (mean_of_means - right).norm() > 0.2 * right.norm()
assert torch.allclose(found["sum / own images, added"], 4 * mean_of_means, rtol=1e-4, atol=1e-6)

# %% [markdown]
# So this is the rule: **divide every loss by the number of samples in the whole batch, and add up the gradients.** It
# needs no equal pieces. A rank without any sample adds zeros, and that is right, too. It must take part all the same,
# because the others wait for its message.
#
# Goyal et al. (2017, section 3) have this in their list of pitfalls, mistakes that leave no trace but a worse model:
# normalize each worker's loss by the size of the whole batch, not by that of its own part.
#
# ## A batch that does not fit
#
# A gradient of a sum is the sum of the gradients. So a rank need not have all its images in memory at the same time. It
# takes a few, its **microbatch**, goes forward and backward, and keeps the gradient. Then it takes the next few, and
# adds. Torch's `backward()` does just that: it adds to `.grad`. This is **gradient accumulation**. A batch of 256
# images on 4 ranks needs memory for 16 images on each, and 4 times as many passes.
#
# When should the ranks talk? They could all-reduce after each microbatch, and add up the results. But the sum of the
# ranks' sums is the same in any order.

# %%
guess = predict(
    "4 ranks, 4 microbatches each, 2,410 parameters of 4 bytes, a ring. What must each rank send at least?", unit="B"
)


# %%
def microbatches_of(comm: Communicator, batch: Batch, size: int) -> list[Batch]:
    """This rank's part of a batch, in pieces of at most `size` samples."""
    mine = [part.tensor_split(comm.world_size)[comm.rank].split(size) for part in batch]
    return list(zip(*mine, strict=True))


def talk_once(comm: Communicator, model: nn.Module, batch: Batch) -> torch.Tensor:
    accumulate_gradients(comm, model, losses, microbatches_of(comm, batch, 16), len(batch[1]))
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def talk_each_time(comm: Communicator, model: nn.Module, batch: Batch) -> torch.Tensor:
    total = torch.zeros(NUMBERS)
    for microbatch in microbatches_of(comm, batch, 16):
        accumulate_gradients(comm, model, losses, [microbatch], len(batch[1]))
        total += torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return total


batch = images[:256], labels[:256]
whole = gradient_of(losses(model(batch[0]), batch[1]).mean(), model)
for way, times in [(talk_once, 1), (talk_each_time, 4)]:
    for gradient in world.run(way, model, batch):
        assert torch.allclose(gradient, whole, rtol=1e-4, atol=1e-7)
    print(
        f"{way.__name__:15} {world.trace.messages_sent[0]:3} messages, {world.trace.bytes_sent[0]:6,} bytes by rank 0"
    )
    assert world.trace.messages_sent == [6 * times] * 4
    if times == 1:
        assert sum(world.trace.bytes_sent) == 2 * 3 * NUMBERS * 4
        print(guess.compare(2 * 3 / 4 * NUMBERS * 4))

# %% [markdown]
# Both give the gradient of the whole batch. One all-reduce at the end costs a quarter of the bytes, and a quarter of
# the latencies. `accumulate_gradients` does the former. You write it in the exercise.
#
# It also takes the 50 images from above, whose pieces are not of equal length:


# %%
def talk_once_about_pieces(comm: Communicator, model: nn.Module, pieces: list[Batch]) -> torch.Tensor:
    accumulate_gradients(comm, model, losses, [pieces[comm.rank]], TOTAL)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


for gradient in world.run(talk_once_about_pieces, model, pieces):
    assert torch.allclose(gradient, right, rtol=1e-4, atol=1e-7)

# %% [markdown]
# ## Four ranks are one process with a larger batch
#
# So far it was one gradient. Now a training: 20 steps on four ranks, 16 images on each, against 20 steps in one process
# with all 64. We compute in float64, where rounding is small enough to see any other difference.

# %%
RATE = 0.4  # the learning rate that suits a batch of 16


def train_on_ranks(comm: Communicator, order: torch.Tensor) -> list[torch.Tensor]:
    model = make_model(0).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for chosen in order:
        batch = images[chosen].double(), labels[chosen]
        accumulate_gradients(comm, model, losses, microbatches_of(comm, batch, 16), len(chosen))
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


order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[: 20 * 64].reshape(20, 64)
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
# image, and that the network has a latency of 20 µs and 1 GB/s. They are numbers to think with.

# %%
EACH = 16  # images of a worker in each step
SECONDS_PER_IMAGE = 50e-6
WORKERS = [1, 2, 4, 8, 16, 32, 48, 96]


def one_step(comm: Communicator) -> None:
    comm.sleep(EACH * SECONDS_PER_IMAGE)
    all_reduce(comm, torch.empty(NUMBERS, device="meta"), algorithm="auto")


def seconds_of_a_step(workers: int) -> float:
    simulated = SimulatedWorld(workers, Cluster.flat(workers, Link(latency=20e-6, bandwidth=1e9)))
    simulated.run(one_step)
    return simulated.elapsed


# %%
guess = predict("96 workers: how many times as many images per second as one worker?")

# %%
step_seconds = {workers: seconds_of_a_step(workers) for workers in WORKERS}
throughput = {workers: EACH * workers / step_seconds[workers] for workers in WORKERS}
ideal = {workers: workers * throughput[1] for workers in WORKERS}

print("workers   one step   images per second   efficiency")
for workers in WORKERS:
    efficiency = throughput[workers] / ideal[workers]
    print(f"{workers:7}   {step_seconds[workers] * 1e3:5.2f} ms   {throughput[workers]:17,.0f}   {efficiency:10.0%}")
print(guess.compare(throughput[96] / throughput[1]))

assert step_seconds[1] == EACH * SECONDS_PER_IMAGE and throughput[1] == 20_000
assert all(throughput[more] > throughput[less] for less, more in zip(WORKERS, WORKERS[1:], strict=False))
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
# single step. We train for 20 epochs, whatever the number of workers, and look at how many of the test images are
# classified right.
#
# One training says little, because it depends on its first weights and on the order of the images. So we train with
# five seeds. To save time, all five are trained at once: the weights of five models are stacked in one tensor, and
# their losses are added. No loss depends on another model's weights, so each model gets its own gradient.

# %%
SEEDS = range(5)
EPOCHS = 20


def stacked_models() -> list[torch.Tensor]:
    """The parameters of a model for each seed; those that belong together in one tensor: [seeds, …]."""
    models = [make_model(seed) for seed in SEEDS]
    together = zip(*(model.parameters() for model in models), strict=True)
    return [torch.stack(same).detach().requires_grad_() for same in together]


def outputs_of(parameters: list[torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """What the models answer. images: [seeds, images, 1, 8, 8], for each model its own. Returns [seeds, images, 10]."""
    weight, bias, last_weight, last_bias = parameters
    hidden = torch.relu(images.flatten(2) @ weight.mT + bias[:, None])
    return hidden @ last_weight.mT + last_bias[:, None]


def take_step(parameters: list[torch.Tensor], chosen: torch.Tensor, rate: float) -> None:
    """One step of every model, in place. chosen: [seeds, images of the batch], the numbers of the images."""
    answers = outputs_of(parameters, images[chosen])
    loss = losses(answers.flatten(0, 1), labels[chosen].flatten()).sum() / chosen.shape[1]
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= rate * gradient


def batches(workers: int, epochs: int) -> Iterator[torch.Tensor]:
    """Which images each step uses, [seeds, 16 · workers]: for each seed and epoch in another order."""
    generators = [torch.Generator().manual_seed(seed) for seed in SEEDS]
    for _ in range(epochs):
        orders = torch.stack([torch.randperm(len(labels), generator=generator) for generator in generators])
        yield from orders.split(EACH * workers, dim=1)


def accuracies(parameters: list[torch.Tensor]) -> list[float]:
    """The share of test images that each model gets right."""
    with torch.no_grad():
        answers = outputs_of(parameters, test_images.expand(len(SEEDS), -1, -1, -1, -1)).argmax(dim=2)
    return (answers == test_labels).float().mean(dim=1).tolist()


def train_with(workers: int, rate: Callable[[int], float]) -> list[float]:
    """Train for 20 epochs with `rate(step)`. Returns the accuracy of each seed."""
    parameters = stacked_models()
    for step, chosen in enumerate(batches(workers, EPOCHS)):
        take_step(parameters, chosen, rate(step))
    return accuracies(parameters)


# %% [markdown]
# A check before we trust it: after 20 steps, the model of seed 3 in the stack is the model that seed 3 gives alone.

# %%
parameters = stacked_models()
model = make_model(3)
optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
for _, chosen in zip(range(20), batches(4, 1), strict=False):
    take_step(parameters, chosen, RATE)
    optimizer.zero_grad()
    losses(model(images[chosen[3]]), labels[chosen[3]]).mean().backward()
    optimizer.step()
for stacked, single in zip(parameters, model.parameters(), strict=True):
    assert torch.allclose(stacked[3], single, rtol=1e-4, atol=1e-5)

# %%
guess = predict("One worker gets 97% right. 96 workers, 20 epochs, the same learning rate: how many?", unit="%")


# %%
def percent(shares: list[float]) -> str:
    return f"{statistics.mean(shares):4.0%} ({min(shares):.0%} to {max(shares):.0%})"


fixed = {workers: train_with(workers, lambda step: RATE) for workers in WORKERS}
print("workers   batch   steps   right on test images")
for workers, shares in fixed.items():
    print(f"{workers:7}   {EACH * workers:5}   {EPOCHS * 96 // workers:5}   {percent(shares)}")
print(guess.compare(100 * statistics.mean(fixed[96])))

mean = {workers: statistics.mean(shares) for workers, shares in fixed.items()}
assert round(mean[1], 2) == 0.97
assert mean[1] > mean[8] > mean[16] > mean[32] > mean[48] > mean[96]
assert max(fixed[96]) < min(fixed[1]) - 0.1

# %% [markdown]
# The images are the same, and each was seen 20 times. Yet the more workers, the less was learned. With 96 workers there
# were only 20 steps, and 20 steps of this size do not lead far. A gradient of 1,536 images is more exact than one of
# 16, but it is not 96 times as good.
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
# Is it true that they hardly change? We measure it: how far apart are the two ends, as a part of the way?


# %%
def parted(small_steps: int) -> float:
    """How far k small steps and one large step end apart, relative to the length of the large one."""
    many, one = stacked_models(), stacked_models()
    start = torch.cat([parameter.flatten() for parameter in one]).detach()
    chosen = next(batches(small_steps, 1))
    for part in chosen.split(EACH, dim=1):
        take_step(many, part, RATE)
    take_step(one, chosen, small_steps * RATE)
    ends = [torch.cat([parameter.flatten() for parameter in models]).detach() for models in (many, one)]
    return float((ends[0] - ends[1]).norm() / (ends[1] - start).norm())


apart = {k: parted(k) for k in (2, 4, 8, 16, 32)}
for k, distance in apart.items():
    print(f"{k:2} small steps and one of {k:2} times the size end apart by {distance:4.0%} of the way")
assert apart[2] < 0.1 < apart[8] < apart[32]
assert apart[2] < apart[4] < apart[8] < apart[16] < apart[32]

# %% [markdown]
# For small $k$ the two ends nearly agree. For large $k$ they do not, because the slope has changed on the way, and the
# one large step cannot know. That is where to expect trouble. Here is the training with the scaled rate.

# %%
guess = predict("16 workers with 16 times the rate: how many right? (With the same rate it was 94%.)", unit="%")

# %%
scaled = {workers: train_with(workers, lambda step, k=workers: k * RATE) for workers in WORKERS}
print("workers   rate   same rate             rate scaled by the workers")
for workers, shares in scaled.items():
    print(f"{workers:7}   {workers * RATE:4.1f}   {percent(fixed[workers]):19}   {percent(shares)}")
print(guess.compare(100 * statistics.mean(scaled[16])))

mean_scaled = {workers: statistics.mean(shares) for workers, shares in scaled.items()}
assert round(mean[16], 2) == 0.94
assert all(abs(mean_scaled[workers] - mean[1]) < 0.02 for workers in (2, 4, 8, 16))
assert mean_scaled[16] > mean[16] + 0.01
assert mean_scaled[32] < mean[32] - 0.15 and mean_scaled[96] < 0.4

# %% [markdown]
# Up to 16 workers the rule does what it promises. A batch of 256 images, a sixteenth of the steps, and the accuracy of
# one worker. Nothing had to be tuned. But with 32 workers it breaks down, and with 96 the models guess: one digit in
# ten is right by chance. **A batch can be too large**, and then a larger rate makes it worse.
#
# ## Warm-up
#
# At the start the weights are random and the slope changes fastest. So the assumption is worst in the first steps. The
# second proposal of the paper (section 2.2) is therefore to begin with the small rate $\eta$ and to raise it by the
# same amount in every step, up to $k\,\eta$.

# %%
warmup_rates = [warmup_learning_rate(step, 0.4, base_batch_size=16, batch_size=64, warmup_steps=4) for step in range(7)]
print("a warm-up of 4 steps, for 4 times the batch:", [round(rate, 2) for rate in warmup_rates])
assert all(
    abs(rate - wanted) < 1e-9 for rate, wanted in zip(warmup_rates, [0.4, 0.7, 1.0, 1.3, 1.6, 1.6, 1.6], strict=True)
)

# %% [markdown]
# Step 0 has the rate for one worker, step 4 the full one. The paper warms up for 5 of 90 epochs. Our trainings are
# short and our rates extreme, so we give it 10 of the 20 epochs.


# %%
def train_warmed_up(workers: int) -> list[float]:
    warmup_steps = 10 * 96 // workers  # 10 epochs
    return train_with(workers, lambda step: warmup_learning_rate(step, RATE, EACH, EACH * workers, warmup_steps))


warmed = {workers: train_warmed_up(workers) for workers in WORKERS}
print("workers   scaled                with warm-up          same rate")
for workers, shares in warmed.items():
    print(f"{workers:7}   {percent(scaled[workers]):19}   {percent(shares):19}   {percent(fixed[workers])}")

mean_warmed = {workers: statistics.mean(shares) for workers, shares in warmed.items()}
assert all(abs(mean_warmed[workers] - mean[1]) < 0.02 for workers in (2, 4, 8, 16))
assert mean_warmed[32] > mean_scaled[32] + 0.15
assert mean_warmed[32] < mean[1] - 0.01
assert mean_warmed[96] < 0.4

# %%
ways = {"same rate": fixed, "scaled": scaled, "with warm-up": warmed}
sweep(
    {name: {n: [1 - share for share in shares] for n, shares in found.items()} for name, found in ways.items()},
    along="workers, with 16 images each",
    title="Wrong on test images after 20 epochs",
    show="{:.0%}".format,
)

# %% [markdown]
# The picture shows the share of *wrong* answers, so that small differences can be seen, too. Up to 16 workers the
# scaled rates are better than the unscaled one. With 32 workers, warm-up brings back most of what was lost. It does not
# bring back all of it, and the models are about as good as those whose rate was never scaled. With 48 and with 96
# workers it does not help. The full rate is too large for this model at any time, not only at the start.
#
# ## What Goyal et al. found, and what of it we found
#
# They trained a ResNet-50 on the 1.28 million images of ImageNet for 90 epochs, with 256 images and a rate of 0.1 as
# the base. With 256 GPUs and 8,192 images in a batch it took one hour. Their Table 1 gives the share of *wrong* answers
# on the validation images, with the standard deviation over five runs:
#
# | batch | rate | warm-up | wrong, % |
# |---:|---:|---|---:|
# | 256 | 0.1 | none | 23.60 ± 0.12 |
# | 8,192 | 3.2 | none | 24.84 ± 0.37 |
# | 8,192 | 3.2 | 5 epochs at 0.1, then 3.2 | 25.88 ± 0.56 |
# | 8,192 | 3.2 | from 0.1 to 3.2 in 5 epochs | 23.74 ± 0.09 |
#
# Beyond 8,192 their errors grow, too, with warm-up and all. To compare: which part of the loss in accuracy does the
# gradual warm-up bring back, there and here?

# %%
theirs = (24.84 - 23.74) / (24.84 - 23.60)
ours = (mean_warmed[32] - mean_scaled[32]) / (mean[1] - mean_scaled[32])
print(f"brought back: theirs, at 32 times the base batch, {theirs:.0%}; ours, at 32 times, {ours:.0%}")
assert 8192 / 256 == 3.2 / 0.1 == 32
assert round(theirs, 2) == 0.89 and 0.4 < ours < 1

# %% [markdown]
# **What carries over:** the rule needs no tuning and holds over a range; beyond a certain batch it fails; a gradual
# warm-up moves that point, but does not remove it.
#
# **What does not:** the numbers. Where the range ends depends on the data, the model, the optimizer and how long one
# trains. Their largest good batch is 0.6 % of the training images, ours 17 %. They lose a few points where our models
# lose everything: they use momentum, batch normalization and rates that fall over time, and we use none of these. So
# take the rule as a first guess, and the end of its range as something to find out.

# %%
assert round(8192 / 1.28e6, 3) == 0.006 and round(16 * EACH / len(labels), 2) == 0.17
assert "BatchNorm" not in repr(model)

# %% [markdown]
# ## How many workers are worth their money?
#
# So far the epochs were fixed. In practice one trains until the model is good enough. How many steps does it take to
# reach 95 % on the test images? We scale the rate up to 16 workers, and hold it from there on, because more would break
# the training.

# %%
GOAL = 0.95


def steps_to_goal(workers: int) -> list[float]:
    """For each seed, after how many steps the goal is first reached. Looks 12 times an epoch, or after each step."""
    rate, looks = RATE * min(workers, 16), max(1, 8 // workers)
    parameters, reached = stacked_models(), [0.0] * len(SEEDS)
    for step, chosen in enumerate(batches(workers, epochs=400), start=1):
        take_step(parameters, chosen, rate)
        if step % looks == 0:
            now = accuracies(parameters)
            reached = [step if not was and is_now >= GOAL else was for was, is_now in zip(reached, now, strict=True)]
            if all(reached):
                return reached
    raise RuntimeError(f"{workers} workers do not reach {GOAL:.0%}")


# %%
guess = predict("One worker needs about 160 steps to 95%. How many steps do 96 workers need?", unit="steps")

# %%
steps = {workers: steps_to_goal(workers) for workers in WORKERS}
epochs = {workers: [count * workers / 96 for count in counts] for workers, counts in steps.items()}
times = {workers: [count * step_seconds[workers] for count in counts] for workers, counts in steps.items()}
mean_steps, mean_epochs, mean_time = (
    {workers: statistics.mean(values) for workers, values in table.items()} for table in (steps, epochs, times)
)
print("workers   steps   epochs   time, virtual")
for workers in WORKERS:
    time = format_seconds(mean_time[workers])
    print(f"{workers:7}   {mean_steps[workers]:5.0f}   {mean_epochs[workers]:6.1f}   {time:>13}")
print(guess.compare(mean_steps[96]))

assert mean_steps[1] > mean_steps[2] > mean_steps[4] > mean_steps[8] > mean_steps[16]
assert 120 < mean_steps[1] < 200 and 3 < mean_steps[1] / mean_steps[4] < 5
assert mean_steps[96] > 0.7 * mean_steps[16] and mean_epochs[96] > 8 * mean_epochs[1]
assert mean_time[96] > min(mean_time.values()) and mean_time[1] > 4 * min(mean_time.values())

# %%
sweep(
    {"steps": steps, "epochs": epochs},
    along="workers, with 16 images each",
    title=f"Steps and epochs until {GOAL:.0%} of the test images are right",
)

# %% [markdown]
# The picture has two parts. On the left, each doubling of the workers halves the steps, and the epochs stay what they
# are. No work is wasted, and training gets faster by the number of workers. On the right the steps no longer fall. More
# workers only look at more images for the same way, so the epochs rise. In between, the gain gets smaller and smaller.
# In virtual time the 96 workers are slower than 32 of them: their steps are hardly fewer, and each takes longer.
#
# McCandlish et al. (2018) call the place in between the **critical batch size**: below it the noise in a gradient of
# few samples is what holds a step back, and averaging over more samples helps; above it the gradient is exact enough
# already. They estimate it from the noise itself, the variance of the samples' gradients over the squared length of
# their mean, and find that it grows while a model gets better. Shallue et al. (2018) measured the same three parts for
# many models and data sets, and found the place to differ widely between them.
#
# ## Fewer messages instead: local SGD
#
# All this time the ranks talked in every step. There is another way to use several of them. Each rank takes $H$ steps
# on its own, with its own images and its own copy of the model. The copies drift apart a little. Then the ranks average
# the *parameters*, not the gradients, and go on from there. This is **local SGD**. One round of it is one all-reduce of
# the model, so there are $H$ times fewer messages.
#
# With $H = 1$ and plain SGD it is what we had before: to average models that are one step away from the same place is
# to average the steps. With a larger $H$ it is another algorithm, and the question is what it costs. We train four
# ranks for 5 epochs, each on its own quarter of the images: once mixed, and once sorted, so that rank 0 has the small
# digits, and rank 3 the large ones. Four simulated ranks do it: their tensors are real, and only their time is not.

# %%
QUARTERS = {
    "mixed": torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).chunk(4),
    "sorted": labels.argsort(stable=True).chunk(4),
}
for name, quarters in QUARTERS.items():
    print(f"{name:6}", [sorted(set(labels[quarter].tolist())) for quarter in quarters])

LOCAL_STEPS = [1, 4, 24, 120]  # 24 are an epoch: 384 images of a rank, 16 in a step
assert len(QUARTERS["mixed"][0]) == 384 == 24 * EACH
assert set(labels[QUARTERS["sorted"][0]].tolist()) == {0, 1, 2}


# %%
def train_locally(comm: Communicator, quarters: tuple[torch.Tensor, ...], local_steps: int, seed: int) -> float:
    """Train for 5 epochs, averaging after each `local_steps` steps. Returns the accuracy on the test images."""
    model, mine = make_model(seed), quarters[comm.rank]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(10 * seed + comm.rank)
    order = torch.cat([mine[torch.randperm(len(mine), generator=generator)] for _ in range(5)])
    batches = [(images[chosen], labels[chosen]) for chosen in order.split(EACH)]
    for start in range(0, len(batches), local_steps):
        local_sgd_round(comm, model, losses, batches[start : start + local_steps], optimizer)
    return float((model(test_images).argmax(dim=1) == test_labels).float().mean())


# %%
guess = predict("An all-reduce on 4 ranks is 6 messages for each. How many does a rank send in an epoch with H = 4?")

# %%
simulated = SimulatedWorld(4)
local = {name: {} for name in QUARTERS}
messages = {}
for name, quarters in QUARTERS.items():
    for local_steps in LOCAL_STEPS:
        runs = [simulated.run(train_locally, quarters, local_steps, seed) for seed in range(3)]
        assert all(len(set(by_rank)) == 1 for by_rank in runs)  # the ranks end with the same model
        local[name][local_steps] = [by_rank[0] for by_rank in runs]
        messages[local_steps] = simulated.trace.messages_sent[0] / 5

print("  H   messages of a rank in an epoch   mixed                 sorted")
for local_steps in LOCAL_STEPS:
    mixed, by_label = (percent(local[name][local_steps]) for name in QUARTERS)
    print(f"{local_steps:3}   {messages[local_steps]:30}   {mixed:19}   {by_label}")
    assert messages[local_steps] == 6 * 24 / local_steps
print(guess.compare(messages[4]))

mean_local = {(name, h): statistics.mean(local[name][h]) for name in QUARTERS for h in LOCAL_STEPS}
assert all(abs(mean_local["mixed", h] - mean_local["mixed", 1]) < 0.03 for h in LOCAL_STEPS)
assert mean_local["sorted", 1] > mean_local["sorted", 24] + 0.03
assert mean_local["sorted", 24] > mean_local["sorted", 120] + 0.03

on_real_ranks = world.run(train_locally, QUARTERS["mixed"], 24, 0)
assert abs(on_real_ranks[0] - local["mixed"][24][0]) < 0.02

# %%
sweep(
    local,
    along="H, local steps between two averages",
    title="Local SGD on four ranks: right on test images after 5 epochs",
    percent=True,
)

# %% [markdown]
# With mixed images, 120 times fewer messages cost next to nothing: all ranks learn the same thing, from different
# examples. With sorted images, each rank forgets in its local steps what it does not see, and the average of four
# models that each know a few digits knows less than a model that has seen them all. That is the condition: **local SGD
# wants ranks whose data are alike.** Shuffle before you cut.
#
# This is one easy task. Stich (2018) proves for strongly convex functions how far $H$ may grow. Lin et al. (2018) begin
# with steps that all ranks take together and change to local ones later, and then get *better* models than with the
# same number of workers and one large batch.
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
# And DDP talks in each backward. For accumulation, all microbatches but the last run inside `no_sync()`.

# %%
from torch.nn.parallel import DistributedDataParallel

from distlib.process_group import torch_distributed


def ddp_gradients(
    comm: Communicator, model: nn.Module, pieces: list[Batch]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Torch's gradient with mean losses, torch's with corrected losses and two microbatches, and ours."""
    inputs, targets = pieces[comm.rank]
    with torch_distributed(comm):
        ddp = DistributedDataParallel(model)
        losses(ddp(inputs), targets).mean().backward()
        naive = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

        ddp.zero_grad()
        halves = list(zip(inputs.chunk(2), targets.chunk(2), strict=True))
        with ddp.no_sync():
            (losses(ddp(halves[0][0]), halves[0][1]).sum() / TOTAL * comm.world_size).backward()
        (losses(ddp(halves[1][0]), halves[1][1]).sum() / TOTAL * comm.world_size).backward()
        corrected = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    accumulate_gradients(comm, model, losses, halves, TOTAL)
    ours = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return naive, corrected, ours


for naive, corrected, ours in world.run(ddp_gradients, make_model(0), pieces):
    assert torch.allclose(naive, mean_of_means, rtol=1e-4, atol=1e-6)
    assert torch.allclose(corrected, ours, rtol=1e-4, atol=1e-7) and torch.allclose(ours, right, rtol=1e-4, atol=1e-7)
print(f"DDP with mean losses is off by {(naive - right).norm() / right.norm():.0%}, "
      f"with corrected losses by {(corrected - right).norm() / right.norm():.0e}")  # fmt: skip

# %% [markdown]
# ### A scheduler warms up
#
# Torch changes learning rates by schedulers. For a linear warm-up, give the optimizer the full rate $k\,\eta$, and let
# `LinearLR` begin with the part $1/k$ of it.

# %%
optimizer = torch.optim.SGD(make_model(0).parameters(), lr=4 * RATE)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / 4, total_iters=10)
theirs = []
for _ in range(15):
    theirs += scheduler.get_last_lr()
    optimizer.step()
    scheduler.step()
ours = [warmup_learning_rate(step, RATE, base_batch_size=16, batch_size=64, warmup_steps=10) for step in range(15)]
print([round(rate, 2) for rate in theirs])
assert all(abs(a - b) < 1e-12 for a, b in zip(ours, theirs, strict=True))

# %% [markdown]
# ### Local SGD
#
# Torch has an averager that counts steps and averages the parameters in each `period`-th, and an optimizer around it,
# `PostLocalSGDOptimizer`. "Post", because it is meant to begin after a number of common steps, as Lin et al. do:
# `warmup_steps`. It averages after the first step that follows them, and then after each `period`. So for averages
# after steps 5 and 10, as in our rounds with $H = 5$, `warmup_steps` is 4.

# %%
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer


def both_local(comm: Communicator, local_steps: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Two rounds of local SGD, by our function and by torch's optimizer. Returns the parameters of both."""
    mine = QUARTERS["mixed"][comm.rank][: 2 * local_steps * EACH].split(EACH)
    batches = [(images[chosen], labels[chosen]) for chosen in mine]
    models = make_model(0), make_model(0)
    optimizers = [torch.optim.SGD(model.parameters(), lr=RATE) for model in models]
    for start in (0, local_steps):
        local_sgd_round(comm, models[0], losses, batches[start : start + local_steps], optimizers[0])
    with torch_distributed(comm):
        averager = PeriodicModelAverager(period=local_steps, warmup_steps=local_steps - 1)
        optimizer = PostLocalSGDOptimizer(optimizers[1], averager)
        for inputs, targets in batches:
            optimizer.zero_grad()
            losses(models[1](inputs), targets).mean().backward()
            optimizer.step()
    return tuple([parameter.detach() for parameter in model.parameters()] for model in models)


for ours, theirs in world.run(both_local, 5):
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(ours, theirs, strict=True))
print("Ours and torch's agree.")

# %%
world.close()

# %% [markdown]
# One difference remains. Torch averages parameters only. The running mean and variance of a batch normalization are
# not parameters but buffers, and stay different on every rank. Ours averages them, too.
#
# What else is there?
#
# - **LARS** (You et al. 2017) and its successor **LAMB** are optimizers for batches of tens of thousands. They give
#   each layer a rate of its own, from the length of its weights and of its gradient.
# - **TensorFlow** divides in the loss, as we do: `tf.nn.compute_average_loss` has an argument `global_batch_size`.
#   Lesson 13 uses it.
# - **DiLoCo** (Douillard et al. 2023) is local SGD for language models, with hundreds of steps between two averages,
#   over slow links between data centers.
#
# ## In short
#
# - Divide each loss by the size of the whole batch, and add up the gradients. An average of averages is another
#   gradient as soon as the pieces differ.
# - Accumulate microbatches, and talk once.
# - $N$ workers are one process with $N$ times the batch. They give more images per second, not as many times more
#   learning.
# - $k$ times the batch, $k$ times the rate, with a warm-up. It holds over a range, then fails.
# - Below the critical batch size more workers save steps, above it they waste images.
# - Local SGD: $H$ times fewer messages, if the ranks' data are alike.
#
# ## Now you
#
# In [the exercise](../exercises/06_large_batches/06_large_batches.ipynb) you write all three: the accumulation, the
# rate with its warm-up, and a round of local SGD.
#
# ## Further reading
#
# - P. Goyal et al., [Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour](https://arxiv.org/abs/1706.02677), 2017. Linear scaling, warm-up, and in section 3 the mistakes that nobody
#   notices.
# - S. McCandlish et al., [An Empirical Model of Large-Batch Training](https://arxiv.org/abs/1812.06162), 2018. The
#   critical batch size, and how to estimate it.
# - C. J. Shallue et al., [Measuring the Effects of Data Parallelism on Neural Network
#   Training](https://arxiv.org/abs/1811.03600), 2018. Steps to a goal by batch size, for many models.
# - S. U. Stich, [Local SGD Converges Fast and Communicates Little](https://arxiv.org/abs/1805.09767), 2018.
# - T. Lin et al., [Don't Use Large Mini-Batches, Use Local SGD](https://arxiv.org/abs/1808.07217), 2018. Common steps
#   first, local steps later.
# - Y. You, I. Gitman, B. Ginsburg, [Large Batch Training of Convolutional
#   Networks](https://arxiv.org/abs/1708.03888), 2017. LARS.
# - A. Douillard et al., [DiLoCo: Distributed Low-Communication Training of Language
#   Models](https://arxiv.org/abs/2311.08105), 2023.
# - PyTorch, [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).
#   What it averages, and `no_sync`.
