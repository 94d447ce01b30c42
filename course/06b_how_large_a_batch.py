# %% [markdown]
# # How large a batch
#
# **This lesson is optional.** It goes on where [Large batches](06_large_batches.ipynb) ends. There, a map of rates and
# batches had a ceiling, and from some batch size on, more workers saved few steps. Here we ask where the ceiling comes
# from, whether the noise of a gradient foretells that batch size, and what warm-up, Adam and local SGD change.
#
# After this lesson you will be able to
#
# - say why the linear rule works, and measure how far its argument carries,
# - measure the curvature of a loss, and say what it tells about the largest rate,
# - compute the noise of a gradient, and say what it predicts about useful batch sizes and what it does not,
# - warm up a learning rate, and say what warm-up buys here and what it does not,
# - choose a first guess for the rate of Adam with a larger batch,
# - send fewer messages with local SGD, check with a control how much they mattered, and say when it does harm.
#
# **Time:** about 70 minutes. **You need:** [Large batches](06_large_batches.ipynb). No GPU.

# %% tags=["folded"]
# The imports
import statistics
from collections.abc import Iterator

import torch
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from distlib import Communicator, SimulatedWorld, World, torch_distributed
from distlib.draw import heat_map, predict, sweep
from distlib.training import ModelStack, digits, local_sgd_round, warmup_learning_rate

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread

# %% tags=["folded"]
# The images, the small classifier, and how it is trained: as in the main lesson
world = World(4)
train_set, test_set = digits()
average_image = train_set.images.mean(dim=0)
images, labels = train_set.images - average_image, train_set.labels
test_images, test_labels = test_set.images - average_image, test_set.labels


def make_model(seed: int) -> nn.Module:
    """A small classifier. The seed decides its first weights."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One loss for each sample."""
    return cross_entropy(outputs, targets, reduction="none")


NUMBERS = sum(parameter.numel() for parameter in make_model(0).parameters())
EACH = 16  # images of a worker in each step
WORKERS = [1, 2, 4, 8, 16, 32, 96]
RATE = 0.4  # works with 16 images
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


assert NUMBERS == 2410

# %% tags=["folded"]
# The map of the main lesson
table = {workers: train(workers, RATES) for workers in WORKERS}
middle = {w: {r: statistics.median(table[w][r]) for r in RATES} for w in WORKERS}


def draw_map(title: str, lines: dict[str, dict[int, float]]) -> object:
    words = "median of 5 seeds; the darker, the better"
    axes = dict(across="learning rate", down="workers", title=title, subtitle=words)
    look = dict(show="{:.0%}".format, shade=lambda share: -((1.02 - share) ** 0.4))
    return heat_map(middle, lines=lines, **axes, **look)


linear = {workers: RATE * workers for workers in WORKERS}
draw_map("Correct on test images after 10 epochs", {"linear rule from 0.4": linear})

# %% [markdown]
# ## How far apart do the two ends land?
#
# The argument for the linear rule says that $k$ small steps and one large step arrive at the same place if the
# gradients hardly change on the way. Do they hardly change? We measure how far apart the two ends are, as a part of the
# way: once from the first weights, and once after an epoch.


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
# For small $k$ the two ends nearly agree, at the beginning of the training. For large $k$ they do not, because the
# slope has changed on the way. After an epoch the slope changes faster: 4 small steps and one large step already end a
# quarter of the way apart.
#
# But the argument asks for the *same* place, and another place may be just as good. **The linear rule holds longer than
# its argument.** With 16 times the batch, the two ends are about half of the way apart. Yet 16 workers with a rate of
# 6.4 reach the accuracy of one worker.

# %% tags=["folded"]
# Checks of the numbers above
assert distances[2] < 0.1 < distances[8] < distances[32]
assert all(later[k] > 1.2 * distances[k] for k in (2, 4, 8)) and later[4] > 0.2
assert abs(middle[16][6.4] - middle[1][RATE]) < 0.02
assert 0.4 < distances[16] < later[16] < 0.7

# %% [markdown]
# ## A shorter training has a sharper ridge
#
# The main lesson's map is for 10 epochs. With 5 epochs its ridge is sharper, because nobody has time to recover from a
# bad rate. Eleven seeds this time:

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

# %% [markdown]
# Of these three rates 1.6 suits 16 images best, and 6.4 suits 256 images: four times the rate for sixteen times the
# batch, because the ceiling is in the way.
#
# ## How wide is the valley?
#
# In a parabola of curvature $\lambda$, a step with a rate above $2/\lambda$ lands on the other side, higher up than it
# began, so gradient descent goes away from the minimum. Our loss is no parabola, but we can measure its largest
# curvature at the very first weights, before any training. Power iteration does it: multiply any direction by the
# second derivatives, again and again, until the direction in which the slope changes fastest remains.


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
# With 3.2 and 6.4 the edge soon falls below the rate, and yet both trainings succeed, which a parabola does not allow.
# Here steps that are too long lead to where the valley is wider: at step 48 the edge is highest with the highest rate.
# **The edge at the first weights tells the order of magnitude of the ceiling, and not more.** With a second hidden
# layer of 32 the edge is near 10, and 4.5 breaks the training.

# %% tags=["folded"]
# Checks of the numbers above
edge_of = {workers: statistics.median(found) for workers, found in edges.items()}
assert edge_of[1] < 6.4 < edge_of[8] < edge_of[96] < 12.8 and 8 < edge_of[96] < 10
assert all(edge_of[a] < edge_of[b] for a, b in zip(WORKERS, WORKERS[1:], strict=False))
assert all(min(on_the_way[rate]) < 0.8 * rate for rate in (3.2, 6.4))
assert on_the_way[0.4][-1] < on_the_way[3.2][-1] < on_the_way[6.4][-1]
assert min(middle[16][3.2], middle[16][6.4]) > 0.95

# %% [markdown]
# ## What does the noise scale predict?
#
# Can we know beforehand how large a batch saves steps? The gradient of a batch of $B$ images is the true gradient $G$
# plus noise. If the noise of one image has the covariance $\Sigma$, the noise of a batch has $\Sigma / B$, as long as
# the batch is a small part of all images. So noise and gradient are equally long at the batch
#
# $$B_\text{simple} = \frac{\operatorname{tr}(\Sigma)}{|G|^2},$$
#
# which McCandlish et al. (2018, section 2.2) call the **gradient noise scale**. With fewer images the noise dominates,
# so averaging over more images helps. With more images the gradient is exact enough already. Under their assumptions
# the best rate and the number of steps to a goal follow:
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
guess_1 = predict(
    "What happens to the noise scale while a model learns?",
    choices=["it falls", "it stays", "it grows"],
)

# %%
LOOKS = [0, 4, 7, 12, 20, 40, 60, 180]
noises = noise_on_the_way(4, 1.6, LOOKS)
print("step   correct   noise scale, in images")
for step, (share, noise) in zip(LOOKS, noises, strict=True):
    print(f"{step:4}   {share:7.0%}   {noise:11.0f}")
print(guess_1.compare("it grows"))
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
# First the noise scale falls a little, then it grows: the more images are correct, the less their gradients have in
# common. On the way to 90 % it is about 50 images. Now put that number into the two formulas. They do not give the
# highest rate, so we take 6.4 from the map, the last rate below the ceiling.

# %%
ridge = {workers: 6.4 / (1 + NOISE / (EACH * workers)) for workers in WORKERS}
draw_map("Where the noise scale expects the ridge", {"from the noise scale": ridge})

# %% [markdown]
# The line bends where the linear rule must end: with few workers it runs along the diagonal, with many it stays at the
# ceiling. The map is too flat along the ridge to call this a proof, but it fits.
#
# ### How good is the prediction?
#
# The main lesson counted the steps until 95 % of the test images were correct. Does the formula for $S(B)$ expect them?

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


# %% tags=["folded"]
# Measured and expected
to_goal = {workers: steps_to_goals(workers) for workers in WORKERS}
measured = {workers: to_goal[workers][0.95] for workers in WORKERS}
fewest = min(map(statistics.median, measured.values()))
expected = {workers: fewest * (1 + NOISE / (EACH * workers)) for workers in WORKERS}
sweep(
    {"measured": measured, "expected": expected},
    along="workers, with 16 images each",
    title="Training steps until 95% of the test images are correct",
    subtitle=f"expected: from a noise scale of {NOISE:.0f} images",
)

# %% [markdown]
# A fit this good should make you suspicious. The noise scale is not *one* number: it is 50 in the middle of the
# training and hundreds at its end. So a higher goal should have a later elbow. Has it? From the steps of one worker and
# the fewest steps, $S(16) = S_\text{min}(1 + B/16)$ gives the elbow $B$.

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
# What survives: **the elbow is at some tens to a hundred images for every goal, and so is the noise scale on most of
# the way**, from the first step on. Here it would have told us, before the first training, whether to think of batches
# of 5, of 50 or of 5,000 images.
#
# What does not: near the end of the training the noise scale is several times larger, and the elbow has not moved with
# it. And two models that are equally good can differ in their noise scale by far: it depends on the way that led there,
# on the rate and the batch. The paper finds the same, in its appendix C. So take it as an order of magnitude.
#
# A cluster need not hold the gradients of single images for it: the paper's appendix A.1 estimates it from the lengths
# of a rank's own gradient and of the average. A rank has its own before each all-reduce, and the average after it. One
# such estimate is very noisy, so it takes a mean over many steps.

# %% tags=["folded"]
# Checks of the numbers above
assert (
    30 < NOISE < 80
    and noises[0][1] > noises[2][1] < noises[-1][1]
    and noises[-1][1] > 3 * NOISE
)
assert 1 < ridge[1] < 2.2 and ridge[96] > 6
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
# begin with the small rate $\eta$ and to raise it by the same amount in every step, up to $k\,\eta$. Our slope
# changes fastest not at the first weights, but some steps later, in the narrow part of the valley. You write the
# function below in [the exercise](../exercises/06b_how_large_a_batch/06b_how_large_a_batch.ipynb).

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
# all the same. And the best rate with warm-up is hardly better than the best rate without. **Here warm-up makes a
# training safe, not good.**
#
# **Try it.** How long must the warm-up be? Change the rate and the number of epochs.

# %%
rate, warmup_epochs = 12.0, 3
tried = train_warmed_up(16, [rate], warmup_epochs)[rate]
print(f"a warm-up of {warmup_epochs} epochs, rate {rate}: {percent(tried)}")

# %% tags=["folded"]
# One way to do it
# At 10, 2 epochs save most trainings. At 12, 1 epoch saves hardly one, and 5 save about half
brief = train_warmed_up(16, [12.0], warmup_epochs=1)[12.0]
print(f"a warm-up of 1 epoch, rate 12: {percent(brief)}")
assert statistics.median(brief) < statistics.median(warm[12.0]) - 0.15
at_10 = train_warmed_up(16, [10.0], warmup_epochs=2)[10.0]
print(f"a warm-up of 2 epochs, rate 10: {percent(at_10)}")
assert statistics.median(at_10) > 0.9 > statistics.median(cold[10.0]) + 0.1

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
assert max(warm_median.values()) < cold_median[6] + 0.015

# %% [markdown]
# ### What the paper found
#
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
guess_2 = predict(
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
print(guess_2.compare(max(adam, key=adam.get).replace("same", "same rate")))

# %% [markdown]
# With 4 times the batch both rules do, for both optimizers: such a batch is about where the elbow is. At 16 times,
# Adam's rules are within a point of each other, and the linear one is even ahead. (So it is from most good rates.) At
# 96 times the square root wins clearly, from this rate.
#
# From a rate of 1.6, both of SGD's rules run into the ceiling: the linear rule at 16 times the batch, the square root
# at 96 times. There, not scaling at all is the best of the three. From 0.4 there is more room. The linear rule then
# holds at 16 times the batch, and the square root wins at 96 times, as it does for Adam.
#
# The two optimizers also fail differently. SGD has a cliff: above the ceiling, its models guess. Adam has a slope:
# because its steps stay bounded whatever the gradient is, its models still classify most images at 96 times the rate.
#
# **No rule is a law.** A rule is a first guess, and you have to know the ceiling.
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
# ## Fewer messages: local SGD
#
# So far the ranks talked in every training step. In **local SGD**, each rank takes $H$ steps on its own, with its own
# images and its own copy of the model, so that the copies drift apart a little. Then the ranks average the
# *parameters*, not the gradients, and go on from there. One all-reduce in $H$ steps sends $H$ times fewer messages.
#
# With $H = 1$ and plain SGD, this is what we had before: to average models that are one step away from the same place
# is to average the steps. With a larger $H$ it is another algorithm. What does it cost? We train four ranks for 5
# epochs, each on its own quarter of the mixed images.
#
# Such a comparison needs a **control**: ranks that *never* average. Without it, we cannot know how much the messages
# could matter at all. A rank that never averages is a world of its own, and `split` makes one.


# %%
def quarters_of(name: str, ranks: int) -> tuple[torch.Tensor, ...]:
    """Which images each rank has."""
    mixed = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return (mixed if name == "mixed" else labels.argsort(stable=True)).chunk(ranks)


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
# A single average at the very end is nearly as good as 120 averages. This looks like a triumph for local SGD, but a
# rank that never talks is only two or three points worse. A quarter of the images is nearly enough for this task, so
# the messages *cannot* matter much. **Local SGD is only as good as its lead over ranks that never talk.**
#
# **Try it.** Make a task in which messages matter although the images are mixed: give each rank less. How large is the
# gap between "never" and $H = 6$ with 8, 16, 32 ranks?

# %%
ranks = 8
for steps in (0, 6):
    few = SimulatedWorld(ranks).run(
        train_locally, quarters_of("mixed", ranks), steps, 0
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

# %% [markdown]
# ## When local SGD does harm
#
# Now we sort the images, so that rank 0 has the small digits, and rank 3 the large ones. A rank alone then learns its
# own digits only: it gets about 30 %.

# %%
for name in ("mixed", "sorted"):
    print(
        f"{name:6}",
        [sorted(set(labels[part].tolist())) for part in quarters_of(name, 4)],
    )

# %%
guess_3 = predict(
    "Sorted images, and the ranks average 5 times in all, once an epoch. "
    "How many of the test images are correct?",
    unit="%",
)

# %%
local["sorted"] = results_of("sorted")
print(guess_3.compare(100 * statistics.median(local["sorted"][24])))

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
# **Mixed images.** At higher rates a large $H$ does harm. With 3.2 a single average at the end is no better than none.
# With 6.4, too much for a single worker, even one in each epoch is far too few: the copies break before they meet. And
# for a single average the ranks must *start alike*: the average of four models that began differently is far worse than
# each of them.
#
# **Sorted images.** Here the messages are everything. A rank alone knows three or four digits. One average at the end
# is an average of four models that each know a few digits, and it knows less than half of them. But five averages in
# the whole training are enough for most of the way. At this rate, the longer the ranks go without an average, the more
# it costs, because the copies drift to different places. With 0.1, too small for 5 epochs, once an epoch is no worse
# than once a step. So **local SGD wants ranks whose data are alike.** Shuffle before you cut.
#
# **Try it.** Take mixed images and a rate of 3.2 or 6.4. Which $H$ does harm?

# %%
my_rate, steps = 3.2, 4
shares = simulated.run(train_locally, quarters_of("mixed", 4), steps, 0, my_rate)
print(f"rate {my_rate}, H = {steps}: {percent(shares)}")

# %% tags=["folded"]
# One way to do it
# Few averages do harm, and the more so the higher the rate
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
# - **DiLoCo** (Douillard et al. 2023) is local SGD for language models, with hundreds of steps between two averages,
#   over slow links between data centers. Inside, a rank takes steps of AdamW. Outside, the averaged difference is not
#   just added, but is used like a gradient, by an optimizer with Nesterov momentum.
#
# ## In short
#
# - The curvature at the first weights tells the order of magnitude of the largest rate.
# - The noise scale is an order of magnitude: it grows in training, and the elbow does not follow.
# - Warm-up makes a training near the ceiling safe, but it did not make ours better.
# - For Adam and for SGD, the linear rule and the square-root rule are first guesses, not laws.
# - Local SGD wants ranks whose data are alike, and which start alike.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
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
# In [the exercise](../exercises/06b_how_large_a_batch/06b_how_large_a_batch.ipynb) you write the rate with its warm-up,
# and a round of local SGD.
#
# ## Further reading
#
# - P. Goyal et al., [Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour](https://arxiv.org/abs/1706.02677), 2017. Linear scaling and warm-up.
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
