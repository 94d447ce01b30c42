# %% [markdown]
# # TensorFlow
#
# After this lesson you will be able to
#
# - say which of our lessons each strategy of `tf.distribute` is, and prove it by counting what it sends,
# - write a training step whose loss is right for any number of replicas, also for the last batch of an epoch,
# - describe a cluster with `TF_CONFIG`, and recognize a mistake in it by what TensorFlow does then,
# - say what becomes of each strategy when a process is killed, and what a checkpoint brings back,
# - check which samples each worker gets.
#
# **Time:** about 100 minutes. **You need:** [All-reduce](02_all_reduce.ipynb), [DDP](05_ddp.ipynb) and
# [Parameter servers](07_parameter_server.ipynb). No GPU.

# %%
import os

os.environ |= {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}  # no log lines

from distlib.frameworks import require

tf = require("tensorflow")
tf.get_logger().setLevel("CRITICAL")
processor = tf.config.list_physical_devices("CPU")[0]
four_parts = [tf.config.LogicalDeviceConfiguration()] * 4
tf.config.set_logical_device_configuration(processor, four_parts)

# %%
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from distlib import Communicator, World, all_reduce
from distlib.draw import bytes_per_rank, curves, predict
from distlib.frameworks import (
    Outcome,
    Process,
    addresses,
    parse_tf_config,
    replica_batch,
    run_processes,
)
from distlib.frameworks.tensorflow_graphs import (
    all_reduces,
    bytes_between_devices,
    copies,
    reductions,
    variable_devices,
)
from distlib.frameworks.tensorflow_ring_log import (
    ADDS,
    LOGGED,
    as_trace,
    ring_messages,
)
from distlib.network import traffic
from distlib.training.datasets import digits

DEVICES = [f"CPU:{number}" for number in range(4)]
print([device.name for device in tf.config.list_logical_devices("CPU")])
assert len(tf.config.list_logical_devices("CPU")) == 4

# %% [markdown]
# ## One process, four devices
#
# A **strategy** of `tf.distribute` is an object that knows where variables live and who computes on what. You hand it
# the function for one **replica**, and it runs that on all of them. A replica is what we call a rank.
#
# On a machine with four GPUs there are four devices. Here the processor is cut into four *logical* devices. That must
# happen before TensorFlow computes anything. Later is an error:

# %%
try:
    tf.config.set_logical_device_configuration(processor, four_parts[:2])
except RuntimeError as error:
    print(error)
    assert "cannot be modified after being initialized" in str(error)

# %% [markdown]
# The model is the classifier of the earlier lessons: images of 64 pixels, a hidden layer of 32, ten digits. It always
# begins with the same weights, which come from torch. A batch has 240 images.

# %%
train_set, _ = digits()
images = train_set.images.flatten(1).numpy()
labels = train_set.labels.numpy()
torch.manual_seed(0)
in_torch = torch.nn.Sequential(
    torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
)
first = [  # torch keeps [outputs, inputs], Keras [inputs, outputs]
    array.detach().numpy().T.copy() for array in in_torch.parameters()
]
BATCH, RATE, STEPS = 240, 0.4, 20
SIZE = sum(array.nbytes for array in first)
Weights = list[np.ndarray]


def make_model() -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Dense(32, activation="relu"), layers.Dense(10)])
    model.build((None, 64))
    model.set_weights(first)
    return model


def batch_of(number: int) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of step `number`."""
    start = number * BATCH % 1440
    return images[start : start + BATCH], labels[start : start + BATCH]


print(f"{len(first)} arrays, {SIZE // 4:,} parameters, {SIZE:,} bytes")
assert SIZE == 4 * 2410 and len(first) == 4

# %% [markdown]
# `MirroredStrategy` is for several devices of one machine. What is made inside `strategy.scope()` belongs to it. Look at
# where the first layer's weights are:

# %%
mirrored = tf.distribute.MirroredStrategy(DEVICES)
with mirrored.scope():
    model = make_model()
weights = model.trainable_variables[0]
print(type(weights.value).__name__, "on", variable_devices(weights))
copies_of_weights = mirrored.experimental_local_results(weights.value)
print([float(copy[0, 0]) for copy in copies_of_weights])
assert variable_devices(weights) == tuple(DEVICES)
assert len({float(copy[0, 0]) for copy in copies_of_weights}) == 1

# %% [markdown]
# A variable is **mirrored**: one copy for each replica, on its device, all equal. That is the model of lesson 05.
#
# Here is a training step. `strategy.run` calls `on_replica` once for each replica, with that replica's part of the
# batch. For the loss see the next chapter. The optimizer takes the gradients, and the sum over the replicas is hidden in
# there.


# %%
Losses = Callable[[tf.Tensor], tf.Tensor]


def share_of_mean(losses: tf.Tensor) -> tf.Tensor:
    """What this replica adds to the mean loss of the global batch."""
    return tf.nn.compute_average_loss(losses, global_batch_size=BATCH)


def make_step(
    strategy: Any, model: Any, optimizer: Any, to_one: Losses = share_of_mean
) -> Any:
    """A training step. to_one: from the losses of a replica's images to one number."""

    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            outputs = model(images)
            loss = to_one(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(
            zip(gradients, model.trainable_variables, strict=True)
        )
        return loss

    @tf.function(autograph=False)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        losses = strategy.run(on_replica, args=(images, labels))
        return strategy.reduce("SUM", losses, axis=None)

    return step


def sgd() -> Any:
    return tf.keras.optimizers.SGD(RATE)


def make_trainer(
    strategy: Any, to_one: Losses = share_of_mean, make_optimizer: Any = None
) -> tuple[Any, Any]:
    """A model with the first weights, and its step."""
    with strategy.scope():
        model = make_model()
        optimizer = (make_optimizer or sgd)()
        optimizer.build(model.trainable_variables)
    return model, make_step(strategy, model, optimizer, to_one)


def batches(strategy: Any, steps: int = STEPS) -> Iterable[Any]:
    """The batches of so many steps, each with a part for each replica, on its device."""
    dataset = tf.data.Dataset.from_tensor_slices((images[:1440], labels[:1440]))
    dataset = dataset.batch(BATCH).repeat().take(steps)
    return strategy.experimental_distribute_dataset(dataset)


model, step = make_trainer(mirrored)
batch = next(iter(batches(mirrored)))
for part in batch[0].values:
    print(type(batch[0]).__name__, part.shape, "on", part.device[-5:])
assert [part.shape[0] for part in batch[0].values] == [replica_batch(BATCH, 4)] * 4

# %% [markdown]
# A `tf.function` is compiled to a **graph**. In it stands each operation, with the device that it runs on. So we can
# read what is communicated, as we read JAX's programs in lesson 14. `reductions` finds the additions over devices,
# `copies` the tensors that are made on one device and used on another.

# %%
guess = predict(
    "The model has 4 arrays of parameters. How many all-reduces are in the graph of a step?",
)

# %%
for each in reductions(step, *batch):
    to = ", ".join(each.receivers)
    print(f"{each.kind}: {each.nbytes:,} bytes of {each.members} replicas, for {to}")
print(guess.compare(len(all_reduces(step, *batch))))

# %% tags=["folded"]
# Checks of the numbers above
in_graph, of_losses = reductions(step, *batch)
assert in_graph.kind == "CollectiveReduceV2" and in_graph.nbytes == SIZE
assert all_reduces(step, *batch) == [in_graph]
assert of_losses.kind == "AddN" and of_losses.nbytes == 4
assert of_losses.receivers == ("CPU:0",)

# %% [markdown]
# One. TensorFlow has put the four gradients into one buffer, as you did with buckets in lesson 05. The second line is
# `strategy.reduce` at the end: the losses, added on the first device for us to see. Only that one gets the sum, so it is
# a reduce and no all-reduce.
#
# ### Which all-reduce is it?
#
# The graph says "collective", not how. But TensorFlow's ring can write a log. Here is the same step in a process of its
# own, with that log. (`run_processes` starts a fresh process. It sends the function there, and ends it whatever
# happens.)


# %%
def one_step() -> float:
    """In a fresh process: a training step."""
    processor = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(processor, parts)
    strategy = tf.distribute.MirroredStrategy(DEVICES)
    _, step = make_trainer(strategy)
    return float(step(*next(iter(batches(strategy)))))


def hide(name: str, line: str) -> None:
    """Show nothing: the lines are in the outcome."""


guess = predict(
    "Four replicas. If it is a ring, how many messages does each send in the step?",
    unit="messages",
)

# %%
log = run_processes(
    {"four replicas": Process(one_step, env=LOGGED)}, seconds=100, on_output=hide
)["four replicas"]
sent = ring_messages(log.lines)
for each in [each for each in sent if each.src == 0]:
    does = "is added" if each.phase == ADDS else "is copied"
    print(
        f"0 sends chunk {each.chunk} to {each.dst}, {each.nbytes} bytes, where it {does}"
    )
print(guess.compare(sum(each.src == 0 for each in sent)))

# %% [markdown]
# Chunk 0 to the next, then the chunk that came in, and so on around: three chunks are added, three are copied. It is
# the ring of lesson 02, chunk by chunk. Let us put it next to ours, on four real processes, with a tensor of the same
# length.


# %%
def our_ring(comm: Communicator) -> None:
    all_reduce(comm, torch.ones(SIZE // 4), algorithm="ring")


with World(4) as world:
    world.run(our_ring)
    ours = world.trace
theirs = as_trace([(each.src, each.dst, each.nbytes) for each in sent], 4)
print("TensorFlow:", theirs.messages_sent, "messages,", theirs.bytes_sent, "bytes")
print("ours:      ", ours.messages_sent, "messages,", ours.bytes_sent, "bytes")

# %% tags=["folded"]
# Checks of the numbers above
assert theirs.messages_sent == ours.messages_sent == [6] * 4
assert {(each.src, each.dst) for each in sent} == {(r, (r + 1) % 4) for r in range(4)}
assert sum(theirs.bytes_sent) == sum(ours.bytes_sent) == 6 * SIZE
for rank in range(4):
    mine = [(each.phase, each.chunk) for each in sent if each.src == rank]
    expected = [(ADDS, (rank - step) % 4) for step in range(3)]
    assert sorted(each for each in mine if each[0] == ADDS) == sorted(expected)
    assert abs(theirs.bytes_sent[rank] / ours.bytes_sent[rank] - 1) < 0.03
assert all(
    nbytes % 64 == 0 for nbytes in {each.nbytes for each in sent if each.chunk < 3}
)

# %% [markdown]
# Six messages each, and the same number of bytes in total. (On a single rank they differ by a few bytes: TensorFlow's
# chunks end at multiples of 64 bytes, and the last one is shorter.) So you can say it: **MirroredStrategy is the
# all-reduce you wrote.**
#
# You can have another one. `ReductionToOneDevice` adds everything on the first device and copies the sum back. In the
# graph, that is additions and copies. So we count copies.

# %%
ways = {
    "ReductionToOneDevice": tf.distribute.ReductionToOneDevice(),
    "HierarchicalCopyAllReduce": tf.distribute.HierarchicalCopyAllReduce(),
}
rank_of = {device: rank for rank, device in enumerate(DEVICES)}


def moved(step: Any, *arguments: Any) -> list[tuple[int, int, int]]:
    """What a step copies from which device to which: without single numbers, such as the loss."""
    every = [each for each in copies(step, *arguments) if each.nbytes > 16]
    return [(rank_of[e.source], rank_of[e.destination], e.nbytes) for e in every]


guess = predict(
    "Four replicas, ReductionToOneDevice. How many bytes does CPU:0 send in a step? "
    f"The parameters have {SIZE:,} bytes.",
    unit="bytes",
)

# %%
traces = {"a ring": theirs}
additions = {}
for way, operations in ways.items():
    strategy = tf.distribute.MirroredStrategy(DEVICES, operations)
    _, other_step = make_trainer(strategy)
    own = next(iter(batches(strategy)))
    traces[way] = as_trace(moved(other_step, *own), 4)
    additions[way] = reductions(other_step, *own)
for way, trace in traces.items():
    print(
        f"{way:26} sent by each: {trace.bytes_sent}, in all {sum(trace.bytes_sent):,}"
    )
print(guess.compare(traces["ReductionToOneDevice"].bytes_sent[0]))
bytes_per_rank(compare=traces, title="One step, three all-reduces of TensorFlow's")

# %% tags=["folded"]
# Checks of the numbers above
to_one = traces["ReductionToOneDevice"]
assert to_one.bytes_sent == [3 * SIZE, SIZE, SIZE, SIZE]
assert to_one.bytes_sent == traffic.naive_all_reduce(4, SIZE // 4, 4).nbytes
assert all(sum(trace.bytes_sent) == 6 * SIZE for trace in traces.values())
assert len([e for e in additions["ReductionToOneDevice"] if e.is_all_reduce]) == 4
tree = [each for each in additions["HierarchicalCopyAllReduce"] if each.nbytes > 16]
assert [len(each.devices) for each in tree] == [2, 2, 4] and tree[-1].is_all_reduce
assert max(traces["HierarchicalCopyAllReduce"].bytes_sent) == 2 * SIZE

# %% [markdown]
# `ReductionToOneDevice` is the first all-reduce of lesson 02, through a master. Device 0 sends three times the
# parameters and receives as much. In all, the three move the same number of bytes. But the busiest link decides, and in
# a ring no link is busier than another. (`HierarchicalCopyAllReduce` adds 0 and 1, 2 and 3, and then both: a tree of
# lesson 03. It was made for machines whose GPUs are linked in pairs.)
#
# With GPUs the default is `NcclAllReduce`: NVIDIA's library then decides how, and the graph has one operation for each
# device again.
#
# ### What else is mirrored
#
# An optimizer such as Adam keeps two numbers for each parameter. Where are they?

# %%
guess = predict(
    "Four replicas with Adam. How many bytes do its two numbers for each parameter take on all devices together?",
    unit="bytes",
)

# %%
with mirrored.scope():
    adam = tf.keras.optimizers.Adam(0.01)
_, adam_step = make_trainer(mirrored, make_optimizer=lambda: adam)
state = [variable for variable in adam.variables if tuple(variable.shape)]
held = sum(
    4 * int(np.prod(variable.shape)) * len(variable_devices(variable))
    for variable in state
)
print(len(state), "arrays, each on", set(map(variable_devices, state)))
print(f"{held:,} bytes")
print(guess.compare(held))
assert held == 4 * 2 * SIZE and len(state) == 8
assert [e.nbytes for e in all_reduces(adam_step, *batch)] == [SIZE]

# %% [markdown]
# Each replica has the whole state, and only gradients are sent: each replica computes the same update. That is what
# lesson 11 (ZeRO) saves. `tf.distribute` has no strategy for it.
#
# ### Twenty steps, and `fit`
#
# Does it compute what one device does? Twenty steps of each. Keras's `fit` does the same with less to write: give it a
# model that was made and compiled in the scope.


# %%
def train(strategy: Any) -> Weights:
    """The weights after 20 steps."""
    model, step = make_trainer(strategy)
    for batch in batches(strategy):
        step(*batch)
    return model.get_weights()


def train_with_fit(strategy: Any) -> Weights:
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        model = make_model()
        model.compile(tf.keras.optimizers.SGD(RATE), cross_entropy)
    dataset = tf.data.Dataset.from_tensor_slices((images[:1440], labels[:1440]))
    model.fit(dataset.batch(BATCH).repeat().take(STEPS), shuffle=False, verbose=0)
    return model.get_weights()


def furthest(one: Weights, other: Weights) -> float:
    """The largest difference of any weight."""
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


alone = train(tf.distribute.OneDeviceStrategy("CPU:0"))
after_20 = {"Mirrored": train(mirrored), "Mirrored, fit": train_with_fit(mirrored)}
print(f"moved by up to {furthest(alone, first):.2f}")
for name, found in after_20.items():
    print(f"{name}: {furthest(found, alone):.0e} from one device")
    assert furthest(found, alone) < 1e-5
assert furthest(alone, first) > 0.1

# %% [markdown]
# Equal up to rounding. So far it was easy, because `share_of_mean` was right.


# %% [markdown]
# ## The loss
#
# This is where most mistakes with `tf.distribute` are made. Every replica computes a loss of *its* images, and the
# optimizer adds the gradients up: **SUM**, not mean. So the losses of the replicas must add up to the loss of the whole
# batch, and each must be divided by the size of the **global batch**:
#
# $$\frac{1}{240}\sum_{i=1}^{240} \ell_i \;=\; \sum_{\text{replicas}} \frac{1}{240} \sum_{i\text{ of mine}} \ell_i$$
#
# A loss function usually gives the mean of what it gets. What comes out if a replica takes that? We look at the
# gradient in the first step: how the weights have moved, divided by the learning rate.


# %%
def gradient_of(
    strategy: Any, to_one: Losses, count: int = BATCH, **more: Any
) -> Weights:
    """What the first step subtracts, divided by the learning rate. The batch is the first `count` images."""
    model, step = make_trainer(strategy, to_one, **more)
    dataset = tf.data.Dataset.from_tensor_slices((images[:count], labels[:count]))
    for batch in strategy.experimental_distribute_dataset(dataset.batch(count)):
        step(*batch)
    return [(a - b) / RATE for a, b in zip(first, model.get_weights(), strict=True)]


def flat(gradient: Weights) -> np.ndarray:
    return np.concatenate([array.flatten() for array in gradient])


def times_too_large(gradient: Weights, true: Weights) -> float:
    return float(flat(gradient) @ flat(true) / (flat(true) @ flat(true)))


one_device = tf.distribute.OneDeviceStrategy("CPU:0")
true = gradient_of(one_device, tf.reduce_mean)

guess = predict(
    "Every replica takes the mean of its own 60 losses. What is the gradient, compared with one device?",
    choices=["a quarter", "the same", "4 times as large", "240 times as large"],
)

# %%
LOSSES = {
    "sum / 240": share_of_mean,
    "mean": tf.reduce_mean,
    "sum": tf.reduce_sum,
}
factors = {}
for name, to_one in LOSSES.items():
    factors[name] = times_too_large(gradient_of(mirrored, to_one), true)
    print(f"{name:10} {factors[name]:6.2f} times the gradient of one device")
print(guess.compare("4 times as large" if round(factors["mean"], 3) == 4 else "?"))

# %% tags=["folded"]
# Checks of the numbers above
for name, factor in {"sum / 240": 1, "mean": 4, "sum": 240}.items():
    assert abs(factors[name] / factor - 1) < 1e-4
assert furthest(gradient_of(mirrored, share_of_mean), true) < 1e-6

# %% [markdown]
# Four times: as many as there are replicas. **There is no error, and it may even train**, with a learning rate that is
# four times what you wrote. On eight replicas it is eight times. Here is the loss of all images, and next to it a
# training on one device with four times the rate.


# %%
def loss_over_steps(
    strategy: Any, to_one: Losses, rate: float = RATE
) -> list[tuple[float, float]]:
    """The mean loss of 1,440 images, after each step."""
    optimizer = lambda: tf.keras.optimizers.SGD(rate)  # noqa: E731
    model, step = make_trainer(strategy, to_one, optimizer)
    points = []
    for number, batch in enumerate(batches(strategy)):
        outputs = model(images[:1440])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:1440], outputs)
        points.append((number, float(tf.reduce_mean(losses))))
        step(*batch)
    return points


lines = {
    "sum / 240": loss_over_steps(mirrored, share_of_mean),
    "mean": loss_over_steps(mirrored, tf.reduce_mean),
    "one device, rate 1.6": loss_over_steps(one_device, tf.reduce_mean, 4 * RATE),
}
curves(
    lines,
    along="steps",
    values="loss",
    title="Four replicas whose losses are added up",
    subtitle="rate 0.4",
)

# %% tags=["folded"]
# Checks of the picture
by_step = {name: np.array([loss for _, loss in line]) for name, line in lines.items()}
too_fast = np.abs(by_step["mean"] / by_step["one device, rate 1.6"] - 1)
assert too_fast.max() < 0.05, too_fast.max()
assert np.abs(by_step["mean"] / by_step["sum / 240"] - 1).max() > 0.2

# %% [markdown]
# In Keras the word for this is `reduction`: "sum_over_batch_size", the default, is the mean; "sum" and "none" are the
# others. `fit` knows about it, and divides the mean by the number of replicas. In your own step nobody does.
#
# **Try it.** Divide the mean by the number of replicas, as `fit` does. Is the gradient right?


# %%
def mine(losses: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(losses)


print(f"{times_too_large(gradient_of(mirrored, mine), true):.3f}")


# %% tags=["folded"]
# One way to do it
def mean_of_means(losses: tf.Tensor) -> tf.Tensor:
    replica = tf.distribute.get_replica_context()
    return tf.reduce_mean(losses) / replica.num_replicas_in_sync


print(f"{times_too_large(gradient_of(mirrored, mean_of_means), true):.3f}")
assert furthest(gradient_of(mirrored, mean_of_means), true) < 1e-6

# %% [markdown]
# ### The last batch
#
# It is right as long as all replicas have the same number of images. The last batch of an epoch often breaks that. Here
# is one of 10 images, cut by TensorFlow for four replicas.

# %%
ten = tf.data.Dataset.from_tensor_slices((images[:10], labels[:10])).batch(10)
parts = next(iter(mirrored.experimental_distribute_dataset(ten)))[0].values
print([part.shape[0] for part in parts])
assert [part.shape[0] for part in parts] == [3, 3, 3, 1]

# %%
guess = predict(
    "The mean of the four means of 3, 3, 3 and 1 images. How many times as much as the others does the single image count?",
)


# %%
def share_of_ten(losses: tf.Tensor) -> tf.Tensor:
    return tf.nn.compute_average_loss(losses, global_batch_size=10)


weights_of = {
    "mean of means": [1 / 4 / n for n in (3, 3, 3, 1) for _ in range(n)],
    "sum / 10": [1 / 10] * 10,
    "sum / 240": [1 / 240] * 10,
}
print(guess.compare(weights_of["mean of means"][-1] / weights_of["mean of means"][0]))
true_of_ten = gradient_of(one_device, tf.reduce_mean, 10)
found = {
    "mean of means": gradient_of(mirrored, mean_of_means, 10),
    "sum / 10": gradient_of(mirrored, share_of_ten, 10),
    "sum / 240": gradient_of(mirrored, share_of_mean, 10),
}
for name, gradient in found.items():
    wrong = np.linalg.norm(flat(gradient) - flat(true_of_ten))
    print(
        f"{name:14} {times_too_large(gradient, true_of_ten):5.2f} times, "
        f"{wrong / np.linalg.norm(flat(true_of_ten)):6.1%} off"
    )

# %% tags=["folded"]
# Checks of the numbers above
assert abs(sum(weights_of["mean of means"]) - 1) < 1e-9
assert furthest(found["sum / 10"], true_of_ten) < 1e-6
assert abs(times_too_large(found["sum / 240"], true_of_ten) - 10 / 240) < 1e-4
off = flat(found["mean of means"]) - flat(true_of_ten)
assert np.linalg.norm(off) > 0.1 * np.linalg.norm(flat(true_of_ten))

# %% [markdown]
# The single image counts three times as much as any other, so the mean of means is the gradient of another batch. Divide
# by 240 as always, and the last step is small, as if the rest of the batch had no error. Which of the two divisors is
# right? If each image shall count the same over the epoch, 240: then a step is a sum over images. If each *step* shall
# be a mean, 10: the sum divided by the true number. That is what one device does, and what the exercise asks for.
#
# And `fit`? It has the mean of each replica, and divides by the number of replicas.

# %%
guess = predict(
    "fit on the batch of 10 with four replicas. Its step is the one of",
    choices=["one device", "the mean of means", "the sum / 240"],
)


# %%
def gradient_of_fit(strategy: Any, count: int) -> Weights:
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        model = make_model()
        model.compile(tf.keras.optimizers.SGD(RATE), cross_entropy)
    dataset = tf.data.Dataset.from_tensor_slices((images[:count], labels[:count]))
    model.fit(dataset.batch(count), shuffle=False, verbose=0)
    return [(a - b) / RATE for a, b in zip(first, model.get_weights(), strict=True)]


of_fit = gradient_of_fit(mirrored, 10)
compared = {"one device": true_of_ten, "the mean of means": found["mean of means"]}
for name, gradient in compared.items():
    print(f"fit differs from {name} by {furthest(of_fit, gradient):.0e}")
nearest = min(compared, key=lambda name: furthest(of_fit, compared[name]))
print(guess.compare(nearest))

# %% tags=["folded"]
# Checks of the numbers above
assert (
    furthest(of_fit, found["mean of means"])
    < 1e-6
    < 1e-3
    < furthest(of_fit, true_of_ten)
)

# %% [markdown]
# The way out with `fit` is `batch(240, drop_remainder=True)`, or a number of images that divides.
#
# ### Where gradients are clipped
#
# To clip a gradient means to shorten it if it is longer than a limit. On one device that is the gradient of the batch.
# With replicas it depends on *when*: before the sum or after it.

# %%
guess = predict(
    "The gradient has length 1.0, each of the 4 shares about 0.25. Keras is to clip at 0.5. How long is what it subtracts?",
)

# %%
length = float(np.linalg.norm(flat(true)))


def clipping() -> Any:
    """An optimizer that clips at half the length of the first gradient."""
    return tf.keras.optimizers.SGD(RATE, global_clipnorm=length / 2)


clipped = {
    name: gradient_of(strategy, share_of_mean, make_optimizer=clipping)
    for name, strategy in (("one device", one_device), ("4 replicas", mirrored))
}
lengths = {name: np.linalg.norm(flat(g)) / length for name, g in clipped.items()}
for name, found_length in lengths.items():
    print(f"{name}: {found_length:.2f}")
print(guess.compare(lengths["4 replicas"]))
assert abs(lengths["one device"] - 0.5) < 1e-4 and lengths["4 replicas"] > 0.99

# %% [markdown]
# Keras clips each replica's share, *before* the all-reduce. Each share is short enough, so nothing is clipped at all. With
# four replicas the same limit is four times as high. If you clip, sum up first, in your own step. (Torch's
# `clip_grad_norm_` is called after the backward pass. Under DDP the gradients are averaged then, so it clips the mean.)
