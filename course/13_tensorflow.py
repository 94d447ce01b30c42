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

from distlib.frameworks import prepare_processes, require
from distlib.frameworks.tensorflow_ring_log import LOGGED

# In the background: another process imports both for the demonstrations
prepare_processes("tensorflow", "tf_keras", env=LOGGED)
tf = require("tensorflow")
tf.get_logger().setLevel("CRITICAL")
processor = tf.config.list_physical_devices("CPU")[0]
four_parts = [tf.config.LogicalDeviceConfiguration()] * 4
tf.config.set_logical_device_configuration(processor, four_parts)

# %%
import json
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from IPython.display import Markdown

from distlib import Communicator, World, all_reduce
from distlib.draw import bytes_per_rank, curves, predict
from distlib.frameworks import (
    Process,
    addresses,
    parse_tf_config,
    replica_batch,
    run_processes,
)
from distlib.frameworks.tensorflow_graphs import (
    all_reduces,
    copies,
    reductions,
    variable_devices,
)
from distlib.frameworks.tensorflow_ring_log import (
    ADDS,
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
# happen before TensorFlow initializes its devices. The cell above, which lists them, made it do so. Now it is an error:

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
# `MirroredStrategy` is for several devices of one machine. What is made inside `strategy.scope()` belongs to it. Look
# at where the first layer's weights are:

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
# batch. For the loss see the next chapter. The optimizer takes the gradients, and the sum over the replicas is hidden
# in there.


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
    strategy: Any, to_one: Losses = share_of_mean, make_optimizer: Any = sgd
) -> tuple[Any, Any]:
    """A model with the first weights, and its step."""
    with strategy.scope():
        model = make_model()
        optimizer = make_optimizer()
        optimizer.build(model.trainable_variables)
    return model, make_step(strategy, model, optimizer, to_one)


def dataset_of(count: int, steps: int = STEPS) -> Any:
    """Batches of the first `count` images, from the beginning again where they end."""
    dataset = tf.data.Dataset.from_tensor_slices((images[:count], labels[:count]))
    return dataset.batch(BATCH).repeat().take(steps)


def batches(strategy: Any, count: int = 1440, steps: int = STEPS) -> Iterable[Any]:
    """The batches of a training, each with a part for each replica, on its device."""
    return strategy.experimental_distribute_dataset(dataset_of(count, steps))


# This notebook needs the same ones again and again. Each takes a second to make
trainer_of = cache(make_trainer)
batches_of = cache(lambda *which: list(batches(*which)))

model, step = trainer_of(mirrored, share_of_mean, sgd)
batch = batches_of(mirrored, 1440, STEPS)[0]
for part in batch[0].values:
    print(type(batch[0]).__name__, part.shape, "on", part.device[-5:])
assert [part.shape[0] for part in batch[0].values] == [replica_batch(BATCH, 4)] * 4

# %% [markdown]
# A `tf.function` is compiled to a **graph**. In it stands each operation, with the device that it runs on. So we can
# read what is communicated, as we shall read JAX's programs in lesson 14. `reductions` finds the additions over
# devices, `copies` the tensors that are made on one device and used on another.

# %%
guess_1 = predict(
    "The model has 4 arrays of parameters. How many all-reduces are in the graph of a step?",
)

# %%
for each in reductions(step, *batch):
    to = ", ".join(each.receivers)
    print(f"{each.kind}: {each.nbytes:,} bytes of {each.members} replicas, for {to}")
print(guess_1.compare(len(all_reduces(step, *batch))))

# %% tags=["folded"]
# Checks of the numbers above
in_graph, of_losses = reductions(step, *batch)
assert in_graph.kind == "CollectiveReduceV2" and in_graph.nbytes == SIZE
assert all_reduces(step, *batch) == [in_graph]
assert of_losses.kind == "AddN" and of_losses.nbytes == 4
assert of_losses.receivers == ("CPU:0",)

# %% [markdown]
# One. TensorFlow has put the four gradients into one buffer, as you did with buckets in lesson 05. The second line is
# `strategy.reduce` at the end: the losses, added on the first device for us to see. Only that one gets the sum, so it
# is a reduce and no all-reduce.
#
# ### Which all-reduce is it?
#
# The graph says "collective", not how. But TensorFlow's ring can write a log. Here is the same step in a process of its
# own, with that log; and before it, as a control, a step that adds on one device and should have no ring.
# (`run_processes` starts a new process. It sends the function there, and ends it whatever happens. It begins as a
# copy of another, which has imported TensorFlow in the background, since the first cell of this lesson.)


# %%
def two_steps() -> None:
    """In a process of its own: a step with additions on one device, then one as above."""
    processor = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(processor, parts)
    for operations in (tf.distribute.ReductionToOneDevice(), None):
        strategy = tf.distribute.MirroredStrategy(DEVICES, operations)
        _, step = make_trainer(strategy)
        print("a step begins", flush=True)
        step(*next(iter(batches(strategy, BATCH, 1))))


def hide(name: str, line: str) -> None:
    """Show nothing: the lines are in the outcome."""


# %%
guess_2 = predict(
    "Four replicas. If it is a ring, how many messages does each send in the step?",
    unit="messages",
)

# %%
lines = run_processes(
    {"four replicas": Process(two_steps, env=LOGGED)}, seconds=170, on_output=hide
)["four replicas"].lines
begins = [number for number, line in enumerate(lines) if line == "a step begins"]
control, sent = ring_messages(lines[: begins[1]]), ring_messages(lines[begins[1] :])
print(f"{len(control)} messages of a ring with ReductionToOneDevice")
of_0 = [each for each in sent if each.src == 0]
for each in sorted(of_0, key=lambda each: (each.phase, (each.phase - each.chunk) % 4)):
    does = "is added" if each.phase == ADDS else "is copied"
    print(
        f"0 sends chunk {each.chunk} to {each.dst}, {each.nbytes} bytes, where it {does}"
    )
print(guess_2.compare(len(of_0)))

# %% [markdown]
# Chunk 0 to the next, then the chunk that came in, and so on around: three chunks are added, three are copied. (They
# are sorted here. In the log they stand as they became ready.) And the control has no message: the log is about the
# ring. So it is the ring of lesson 02, chunk by chunk. Let us put it next to ours, on four real processes, with a
# tensor of the same length.


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
assert control == [] and len(begins) == 2
assert theirs.messages_sent == ours.messages_sent == [6] * 4
assert {(each.src, each.dst) for each in sent} == {(r, (r + 1) % 4) for r in range(4)}
assert sum(theirs.bytes_sent) == sum(ours.bytes_sent) == 6 * SIZE
for rank in range(4):
    mine = [(each.phase, each.chunk) for each in sent if each.src == rank]
    expected = [(ADDS, (rank - step) % 4) for step in range(3)]
    assert sorted(each for each in mine if each[0] == ADDS) == sorted(expected)
    assert abs(theirs.bytes_sent[rank] - ours.bytes_sent[rank]) < 64
assert all(
    nbytes % 64 == 0 for nbytes in {each.nbytes for each in sent if each.chunk < 3}
)

# %% [markdown]
# Six messages each, and the same number of bytes in total. (On a single rank they differ by about 40: TensorFlow's
# chunks end at multiples of 64 bytes, and the last one is shorter.) So you can say it: **on processors,
# MirroredStrategy's all-reduce is the ring you wrote.**
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


# %%
guess_3 = predict(
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
    traces[way] = as_trace(moved(other_step, *batch), 4)
    additions[way] = reductions(other_step, *batch)
for way, trace in traces.items():
    print(
        f"{way:26} sent by each: {trace.bytes_sent}, in all {sum(trace.bytes_sent):,}"
    )
print(guess_3.compare(traces["ReductionToOneDevice"].bytes_sent[0]))
bytes_per_rank(compare=traces, title="One step, three of TensorFlow's all-reduces")

# %% tags=["folded"]
# Checks of the numbers above
to_one = traces["ReductionToOneDevice"]
assert to_one.bytes_sent == [3 * SIZE, SIZE, SIZE, SIZE] and 3 * SIZE == 28_920
assert round(28_920 / 2**10, 2) == 28.24 and round(14_500 / 2**10, 1) == 14.2
assert to_one.bytes_sent == traffic.naive_all_reduce(4, SIZE // 4, 4).nbytes
assert all(sum(trace.bytes_sent) == 6 * SIZE for trace in traces.values())
assert len([e for e in additions["ReductionToOneDevice"] if e.is_all_reduce]) == 4
tree = [each for each in additions["HierarchicalCopyAllReduce"] if each.nbytes > 16]
assert [len(each.devices) for each in tree] == [2, 2, 4] and tree[-1].is_all_reduce
assert max(traces["HierarchicalCopyAllReduce"].bytes_sent) == 2 * SIZE
assert all(14_400 < nbytes < 14_600 for nbytes in theirs.bytes_sent)

# %% [markdown]
# `ReductionToOneDevice` is the first all-reduce of lesson 02, through a master. Device 0 sends three times the
# parameters and receives as much. In all, the three move the same number of bytes. But the device that sends most
# decides: here 28,920 bytes (28.24 KiB), against about 14,500 (14.2 KiB) in the ring. (`HierarchicalCopyAllReduce` adds
# in each half, 0 and 1, 2 and 3, and then both halves: a tree of lesson 03. It was made for NVIDIA's DGX-1, whose eight
# GPUs are two groups of four.)
#
# With GPUs the default is the same `CollectiveReduceV2`, carried out by NVIDIA's NCCL, which decides how. (The
# docstring still names the older `NcclAllReduce`.)
#
# **Try it.** A model with one hidden layer more: how many all-reduces, of how many bytes?

# %%
widths = [32, 10]
with mirrored.scope():
    dense = [tf.keras.layers.Dense(width) for width in widths]
    try_model = tf.keras.Sequential(dense)
    try_model.build((None, 64))
    try_optimizer = sgd()
    try_optimizer.build(try_model.trainable_variables)
try_step = make_step(mirrored, try_model, try_optimizer)
print([each.nbytes for each in all_reduces(try_step, *batch)])

# %% tags=["folded"]
# One way to do it: widths = [32, 32, 10] adds 32 × 32 weights and 32 biases
with mirrored.scope():
    dense = [tf.keras.layers.Dense(width) for width in (32, 32, 10)]
    try_model = tf.keras.Sequential(dense)
    try_model.build((None, 64))
    try_optimizer = sgd()
    try_optimizer.build(try_model.trainable_variables)
try_step = make_step(mirrored, try_model, try_optimizer)
print([each.nbytes for each in all_reduces(try_step, *batch)])
assert [e.nbytes for e in all_reduces(try_step, *batch)] == [SIZE + 4 * (32 * 32 + 32)]

# %% [markdown]
# ### What else is mirrored
#
# An optimizer such as Adam keeps two numbers for each parameter. Where are they?

# %%
guess_4 = predict(
    "Four replicas with Adam. How many bytes do its two numbers for each parameter take on all devices together?",
    unit="bytes",
)

# %%
with mirrored.scope():
    adam = tf.keras.optimizers.Adam(0.01)


def this_adam() -> Any:
    return adam


_, adam_step = trainer_of(mirrored, share_of_mean, this_adam)
state = [variable for variable in adam.variables if tuple(variable.shape)]
held = sum(
    4 * int(np.prod(variable.shape)) * len(variable_devices(variable))
    for variable in state
)
print(len(state), "arrays, each on", set(map(variable_devices, state)))
print(f"{held:,} bytes")
print(guess_4.compare(held))
assert held == 4 * 2 * SIZE and len(state) == 8
assert [e.nbytes for e in all_reduces(adam_step, *batch)] == [SIZE]

# %% [markdown]
# Each replica has the whole state, and only gradients are sent: each replica computes the same update. That
# repetition is what ZeRO (lesson 11) avoids. `tf.distribute` has no strategy for it.
#
# ### Twenty steps, and `fit`
#
# Does it compute what one device does? Twenty steps of each. Keras's `fit` does the same with less to write: give it a
# model that was made and compiled in the scope.


# %%
def train(
    strategy: Any,
    to_one: Losses = share_of_mean,
    count: int = 1440,
    steps: int = STEPS,
    make_optimizer: Any = sgd,
) -> Weights:
    """The weights after some steps from the first weights, with the first `count` images."""
    model, step = trainer_of(strategy, to_one, make_optimizer)
    model.set_weights(first)
    for batch in batches_of(strategy, count, steps):
        step(*batch)
    return model.get_weights()


def fit(strategy: Any, dataset: Any) -> Any:
    """A model after an epoch of Keras's `fit`."""
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        model = make_model()
        model.compile(tf.keras.optimizers.SGD(RATE), cross_entropy)
    model.fit(dataset, shuffle=False, verbose=0)
    return model


def furthest(one: Weights, other: Weights) -> float:
    """The largest difference of any weight."""
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


one_device = tf.distribute.OneDeviceStrategy("CPU:0")
alone = train(one_device)
after_20 = {
    "Mirrored": train(mirrored),
    "Mirrored, fit": fit(mirrored, dataset_of(1440)).get_weights(),
}
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
    strategy: Any, to_one: Losses, count: int = BATCH, make_optimizer: Any = sgd
) -> Weights:
    """What the first step subtracts, divided by the learning rate. The batch is the first `count` images."""
    after_1 = train(strategy, to_one, count, 1, make_optimizer)
    return [(a - b) / RATE for a, b in zip(first, after_1, strict=True)]


def flat(gradient: Weights) -> np.ndarray:
    return np.concatenate([array.flatten() for array in gradient])


def times_too_large(gradient: Weights, true: Weights) -> float:
    return float(flat(gradient) @ flat(true) / (flat(true) @ flat(true)))


true = gradient_of(one_device, tf.reduce_mean)

# %%
guess_5 = predict(
    "Every replica takes the mean of its own 60 losses. What is the gradient, compared with one device?",
    choices=["a quarter", "the same", "4 times as large", "240 times as large"],
)


# %%
class MeanInKeras(tf.keras.losses.Loss):
    """A loss of Keras: the mean of losses that are computed already."""

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return y_pred


def keras_mean(losses: tf.Tensor) -> tf.Tensor:
    return MeanInKeras()(losses, losses)


LOSSES = {
    "sum / 240": share_of_mean,
    "mean": tf.reduce_mean,
    "sum": tf.reduce_sum,
    "Keras's mean": keras_mean,
}
gradients, factors = {}, {}
for name, to_one in LOSSES.items():
    gradients[name] = gradient_of(mirrored, to_one)
    factors[name] = times_too_large(gradients[name], true)
    print(f"{name:12} {factors[name]:6.2f} times the gradient of one device")
print(guess_5.compare("4 times as large" if round(factors["mean"], 3) == 4 else "?"))

# %% tags=["folded"]
# Checks of the numbers above
for name, factor in zip(LOSSES, (1, 4, 240, 1), strict=True):
    assert abs(factors[name] / factor - 1) < 1e-4
assert furthest(gradients["sum / 240"], true) < 1e-6
by_adam = [  # how the weights move in the first step of Adam
    gradient_of(mirrored, share_of_mean, make_optimizer=this_adam),
    gradient_of(
        mirrored, tf.reduce_mean, make_optimizer=partial(tf.keras.optimizers.Adam, 0.01)
    ),
]
by_adam_off = np.linalg.norm(flat(by_adam[0]) - flat(by_adam[1]))
assert by_adam_off < 0.1 * np.linalg.norm(flat(by_adam[0]))

# %% [markdown]
# Four times: as many as there are replicas. **There is no error, and it may even train**: with plain SGD as if the
# learning rate were four times what you wrote. On eight replicas it is eight times. With Adam you may see nothing at
# all: it divides the factor out, nearly. (The mean of Keras, in the last row, is right. We come to it.)
#
# Here is the loss of all images with SGD, and next to it a training on one device with four times the rate.


# %%
def loss_over_steps(
    strategy: Any, to_one: Losses, make_optimizer: Any = sgd
) -> list[tuple[float, float]]:
    """The mean loss of 1,440 images, before each step."""
    model, step = trainer_of(strategy, to_one, make_optimizer)
    model.set_weights(first)
    points = []
    for number, batch in enumerate(batches_of(strategy, 1440, STEPS)):
        outputs = model(images[:1440])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:1440], outputs)
        points.append((number, float(tf.reduce_mean(losses))))
        step(*batch)
    return points


fast = partial(tf.keras.optimizers.SGD, 4 * RATE)
losses_of = {
    "sum / 240": loss_over_steps(mirrored, share_of_mean),
    "mean": loss_over_steps(mirrored, tf.reduce_mean),
    "one device, rate 1.6": loss_over_steps(one_device, tf.reduce_mean, fast),
}
by_step = {
    name: np.array([loss for _, loss in line]) for name, line in losses_of.items()
}
apart = np.abs(by_step["mean"] - by_step["one device, rate 1.6"]).max()
print(f"the mean and one device at rate 1.6 differ by up to {apart:.0e}")
curves(
    losses_of,
    along="steps",
    values="loss",
    title="Four replicas whose losses are added up",
    subtitle="learning rate 0.4, and 1.6 on one device",
)

# %% tags=["folded"]
# Checks of the picture
assert apart < 1e-3
assert np.abs(by_step["mean"] / by_step["sum / 240"] - 1).max() > 0.2

# %% [markdown]
# In Keras the word for this is `reduction`: "sum_over_batch_size", the default, is the mean; "sum" and "none" are the
# others that you meet most. The loss objects of Keras 3 know about replicas: with a mean they divide by their number,
# in `fit` and in your own step. That was the last row. `tf.reduce_mean` does not. So divide once: with a Keras loss not
# again.
#
# **Try it.** Divide the mean of `tf.reduce_mean` by the number of replicas. Is the gradient right?


# %%
def mine(losses: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(losses)


print(f"{times_too_large(gradient_of(mirrored, mine), true):.3f}")


# %% tags=["folded"]
# One way to do it
def mean_of_means(losses: tf.Tensor) -> tf.Tensor:
    replica = tf.distribute.get_replica_context()
    return tf.reduce_mean(losses) / replica.num_replicas_in_sync


divided = gradient_of(mirrored, mean_of_means)
print(f"{times_too_large(divided, true):.3f}")
assert furthest(divided, true) < 1e-6

# %% [markdown]
# ### The last batch
#
# It is right as long as all replicas have the same number of images. The last batch of an epoch often breaks that. Our
# `replica_batch` refuses a batch of 10 images for four replicas. TensorFlow cuts it.

# %%
try:
    replica_batch(10, 4)
except ValueError as error:
    print(error)
parts = batches_of(mirrored, 10, 1)[0][0].values
print([part.shape[0] for part in parts])
assert [part.shape[0] for part in parts] == [3, 3, 3, 1]

# %%
guess_6 = predict(
    "The mean of the four means of 3, 3, 3 and 1 images. "
    "How many times as much as any other does the single image count?",
)


# %%
def share_of_all(losses: tf.Tensor) -> tf.Tensor:
    """What this replica adds to the mean loss of a global batch of any size."""
    replica = tf.distribute.get_replica_context()
    count = replica.all_reduce("SUM", tf.shape(losses)[0])
    return tf.nn.compute_average_loss(losses, global_batch_size=count)


weights_of = {
    "mean of means": [1 / 4 / n for n in (3, 3, 3, 1) for _ in range(n)],
    "sum / 10": [1 / 10] * 10,
    "sum / 240": [1 / 240] * 10,
}
print(guess_6.compare(weights_of["mean of means"][-1] / weights_of["mean of means"][0]))
true_of_ten = gradient_of(one_device, tf.reduce_mean, 10)
found = {
    "mean of means": gradient_of(mirrored, mean_of_means, 10),
    "sum / 10": gradient_of(mirrored, share_of_all, 10),
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
# The single image counts three times as much as any other, so the mean of means is the gradient of another batch.
# Divide by 240 as always, and the last step is small, as if the rest of the batch had no error. Which of the two
# divisors is right? If each image should count the same over the epoch, 240: then a step is a sum over images. If each
# *step* should be a mean, 10: the sum divided by the true number. That is what one device does, and what the exercise
# asks for. `share_of_all` does it for a batch of any size: it adds up how many images the replicas have. That is one
# all-reduce more, of one number. (It is needed. Without `global_batch_size`, `compute_average_loss` takes the replica's
# own number times the number of replicas, which is the mean of means again.)
#
# A batch may even have fewer images than there are replicas, or be cut so that one gets none. Nine images:

# %%
parts = batches_of(mirrored, 9, 1)[0][0].values
print([part.shape[0] for part in parts])
true_of_nine = gradient_of(one_device, tf.reduce_mean, 9)
of_nine = {
    "mean of means": gradient_of(mirrored, mean_of_means, 9),
    "sum / 9": gradient_of(mirrored, share_of_all, 9),
}
for name, gradient in of_nine.items():
    print(f"{name:14} {times_too_large(gradient, true_of_nine):5.2f} times")

# %% tags=["folded"]
# Checks of the numbers above
assert [part.shape[0] for part in parts] == [3, 3, 3, 0]
assert abs(times_too_large(of_nine["mean of means"], true_of_nine) - 0.75) < 1e-4
assert furthest(of_nine["sum / 9"], true_of_nine) < 1e-6

# %% [markdown]
# The last replica has none, and the mean of means divides by four all the same: a quarter is missing. The sum over the
# true number needs no special case.
#
# And `fit`?

# %%
guess_7 = predict(
    "fit on a batch of 240 and then one of 10, with four replicas. Its second step is the one of",
    choices=["one device", "the mean of means", "the sum / 240"],
)


# %%
of_fit = fit(mirrored, dataset_of(250, 2)).get_weights()
compared = {
    "one device": train(one_device, tf.reduce_mean, 250, 2),
    "the mean of means": train(mirrored, mean_of_means, 250, 2),
    "the sum / 240": train(one_device, share_of_mean, 250, 2),
}
for name, others in compared.items():
    print(f"fit differs from {name} by {furthest(of_fit, others):.0e}")
nearest = min(compared, key=lambda name: furthest(of_fit, compared[name]))
print(guess_7.compare(nearest))

# %% tags=["folded"]
# Checks of the numbers above
apart = {name: furthest(of_fit, others) for name, others in compared.items()}
assert apart["the mean of means"] < 1e-6
assert min(apart["one device"], apart["the sum / 240"]) > 1e-3
of_any_size = train(mirrored, share_of_all, 250, 2)
assert furthest(of_any_size, compared["one device"]) < 1e-6

# %% [markdown]
# The way out with `fit` is `batch(240, drop_remainder=True)`, or a last batch that divides by the number of replicas.
# In a step of your own, it is `share_of_all`: with it, the training on 240 and 10 images is that of one device.
#
# ### Where gradients are clipped
#
# To clip a gradient means to shorten it if it is longer than a limit. On one device that is the gradient of the batch.
# With replicas it depends on *when*: before the sum or after it.

# %%
guess_8 = predict(
    "The gradient has length 1, each of the 4 shares about 0.25. Keras is to clip at 0.5. "
    "How long is the gradient that it uses?",
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
print(guess_8.compare(lengths["4 replicas"]))

# %% tags=["folded"]
# Checks of the numbers above; with a very low limit each share is clipped, so Keras does clip
assert abs(lengths["one device"] - 0.5) < 1e-4 and lengths["4 replicas"] > 0.99
low = partial(tf.keras.optimizers.SGD, RATE, global_clipnorm=length / 100)
each_clipped = gradient_of(mirrored, share_of_mean, make_optimizer=low)
assert 2 < 100 * np.linalg.norm(flat(each_clipped)) / length <= 4.001

# %% [markdown]
# Keras 3 clips each replica's share, *before* the all-reduce. Each share is short enough, so nothing is clipped at all.
# With four replicas the same limit is up to four times as high. (Keras 2, the package `tf-keras`, clips after it. And
# torch's `clip_grad_norm_` is called after the backward pass. Under DDP the gradients are averaged then, so it clips
# the mean.)
#
# To clip the whole gradient, sum up first. But the optimizer sums again whatever you give it, and you can't tell it not
# to. So give it a share of what it is to use:


# %%
class ClipTheSum(tf.keras.optimizers.SGD):
    """Clips the sum over the replicas at half the length of the first gradient."""

    def apply_gradients(self, pairs: Iterable[tuple[tf.Tensor, Any]]) -> Any:
        gradients, variables = zip(*pairs, strict=True)
        replica = tf.distribute.get_replica_context()
        total = replica.all_reduce("SUM", list(gradients))
        total, _ = tf.clip_by_global_norm(total, length / 2)
        shares = [each / replica.num_replicas_in_sync for each in total]
        return super().apply_gradients(zip(shares, variables, strict=True))


sum_clipped = gradient_of(
    mirrored, share_of_mean, make_optimizer=partial(ClipTheSum, RATE)
)
print(f"{np.linalg.norm(flat(sum_clipped)) / length:.2f}")

# %% tags=["folded"]
# Checks of the number above
assert furthest(sum_clipped, clipped["one device"]) < 1e-6

# %% [markdown]
# Half, as on one device. It costs a second all-reduce of all gradients.

# %% [markdown]
# ## Several machines
#
# `MultiWorkerMirroredStrategy` is the same over several processes: each has a copy, and they all-reduce over the
# network. The program is the same on every machine. Who is who stands in the environment variable `TF_CONFIG`, in
# JSON: the **cluster** is the same for all, the **task** says which of them this process is.

# %%
Cluster = Mapping[str, Sequence[str]]


def task(cluster: Cluster, role: str, index: int) -> dict[str, str]:
    """The environment of one process of a cluster, with TensorFlow's log switched on."""
    told = {"cluster": cluster, "task": {"type": role, "index": index}}
    return {"TF_CONFIG": json.dumps(told)} | LOGGED


two_workers, three_workers = {"worker": addresses(2)}, {"worker": addresses(3)}
print(task(three_workers, "worker", 1)["TF_CONFIG"])
print(parse_tf_config(task(three_workers, "worker", 1)["TF_CONFIG"]).address)

# %% [markdown]
# Three workers train for 20 steps with the `make_trainer` from above; each has 80 of the 240 images. They write the
# ring's log, and `show` hides it.


# %%
def leave_together(place: Path, workers: int) -> None:
    """Wait until all are done: who leaves first closes connections that others may still read from."""
    (place / f"done {os.getpid()}").touch()
    while len(list(place.glob("done *"))) < workers:
        time.sleep(0.05)


def work(place: Path) -> tuple[Weights, list[tuple[int, int]]]:
    """A worker: the weights after 20 steps, and what the graph all-reduces."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    print(f"we are {strategy.num_replicas_in_sync}")
    model, step = make_trainer(strategy)
    for batch in batches(strategy):
        loss = step(*batch)
    print(f"loss {float(loss):.4f}")
    found = [(each.members, each.nbytes) for each in all_reduces(step, *batch)]
    leave_together(place, 3)
    return model.get_weights(), found


def show(name: str, line: str) -> None:
    """What our functions print and how processes end, without TensorFlow's log."""
    line, of_its_log, _ = line.partition(" The last that it printed")
    if line.startswith(
        ("we ", "loss", "epoch", "batch", "I ", "(", "worker", "after ")
    ):
        print(f"{name:8} │ {line[:260]}{')' * bool(of_its_log)}")


# %%
guess_9 = predict(
    "Three workers and a ring: how many messages does a worker send for the gradients of one step?",
    unit="messages",
)

# %%
place = tempfile.TemporaryDirectory()
workers = {
    f"worker {n}": Process(work, Path(place.name), env=task(three_workers, "worker", n))
    for n in range(3)
}
trained = run_processes(workers, seconds=170, on_output=show)
lines = [line for outcome in trained.values() for line in outcome.lines]
of_gradients = [each for each in ring_messages(lines) if each.nbytes > 16]
per_worker = [sum(each.src == rank for each in of_gradients) for rank in range(3)]
after_20["MultiWorkerMirrored"], in_graph = trained["worker 0"].value
print(f"all-reduces in the graph: {in_graph}")
print(f"messages of gradients in {STEPS} steps: {per_worker}")
print(guess_9.compare(per_worker[0] / STEPS))

# %% tags=["folded"]
# Checks of the numbers above
assert per_worker == [4 * STEPS] * 3
by_our_ring = traffic.ring_all_reduce(3, SIZE // 4, 4).nbytes
for rank in range(3):
    nbytes = sum(each.nbytes for each in of_gradients if each.src == rank) / STEPS
    assert abs(nbytes / by_our_ring[rank] - 1) < 0.03
assert in_graph == [(3, SIZE), (3, 4)]
for outcome in trained.values():
    assert furthest(outcome.value[0], alone) < 1e-5
    assert outcome.peak_bytes < 1e9

# %% [markdown]
# Four messages, $2(N-1)$ for $N=3$. It is the same ring, now over the network. (Its second all-reduce is the loss: here
# every worker wants to know it.)
#
# ### Mistakes in TF_CONFIG
#
# `parse_tf_config` reads a TF_CONFIG as TensorFlow does, and refuses mistakes at once. These are the ones in the
# *text*:

# %%
good = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
two_chiefs = {"chief": ["a:1", "b:1"], "worker": ["c:1"]}
mistakes = {
    "not JSON": str(good),
    "no task": json.dumps({"cluster": good["cluster"]}),
    "index out of range": json.dumps(good | {"task": {"type": "worker", "index": 2}}),
    "twice": json.dumps(good | {"cluster": {"worker": ["a:1", "a:1"]}}),
    "two chiefs": json.dumps(good | {"cluster": two_chiefs}),
    "a role mistaken": json.dumps(good | {"task": {"type": "server", "index": 0}}),
}
refusals = {}
for name, text in mistakes.items():
    try:
        parse_tf_config(text)
    except ValueError as error:
        refusals[name] = str(error)
        print(f"{name}: {error}")
assert set(refusals) == set(mistakes)

# %% [markdown]
# **Try it.** Write a text with a mistake that `parse_tf_config` does not find. (There are some: think of what it can't
# know.)

# %%
mine_text = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {}})
try:
    print(parse_tf_config(mine_text))
except ValueError as error:
    print(error)

# %% tags=["folded"]
# One way to do it: an address that does not exist, or the index of another machine
nowhere = {"cluster": {"worker": ["no-such-host:1"]}, "task": {"type": "worker"}}
nowhere["task"]["index"] = 0
print(parse_tf_config(nowhere))
assert parse_tf_config(nowhere).address == "no-such-host:1"

# %% [markdown]
# Without any TF_CONFIG there is no error at all:

# %%
os.environ.pop("TF_CONFIG", None)
forgotten = tf.distribute.MultiWorkerMirroredStrategy()
print("replicas:", forgotten.num_replicas_in_sync)
assert forgotten.num_replicas_in_sync == 1

# %% [markdown]
# A cluster of one. On a hundred machines that would be a hundred separate trainings, and each looks fine. **Print
# `num_replicas_in_sync`.**
#
# Other mistakes are in the *world*. A worker is missing; an address is wrong; two processes on one machine both think
# that they are worker 0. No text shows that. What does TensorFlow do? In the first
# cell we have switched its log off for this notebook. In our processes it is on, with `LOGGED`, and here we show what
# it says of others.

# %%
guess_10 = predict(
    "Worker 0 of 2 starts, worker 1 never does. What does TensorFlow say within 5 seconds?",
    choices=["an error", "only in its log: who is missing", "nothing at all"],
)


# %%
def look_for_the_others() -> int:
    """Make the strategy; end this process if that takes more than 5 seconds."""
    signal.alarm(5)
    threading.Timer(4, print, ["I am a thread, and it is my turn"]).start()
    replicas = tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync
    signal.alarm(0)
    return replicas


def show_who(name: str, line: str) -> None:
    """As `show`, and what TensorFlow's log says of those it waits for."""
    if "Waiting for" in line or line.startswith("/job:"):
        line = f"({line.split('] ')[-1]})"
    show(name, line)


at = addresses(5)
WRONG = {
    "missing": task({"worker": [at[0], at[1]]}, "worker", 0),
    "elsewhere": task({"worker": ["no-such-host:2222", at[2]]}, "worker", 1),
    "one 0": task({"worker": [at[3], at[4]]}, "worker", 0),
    "other 0": task({"worker": [at[3], at[4]]}, "worker", 0),
}
wrong = run_processes(
    {name: Process(look_for_the_others, env=env) for name, env in WRONG.items()},
    seconds=170,
    check=False,
    on_output=show_who,
)
told = "/job:worker/replica:0/task:1" in wrong["missing"].lines
print(guess_10.compare("only in its log: who is missing" if told else "nothing at all"))

# %% tags=["folded"]
# Checks of the numbers above
by_alarm = [name for name in WRONG if wrong[name].exit_status == -signal.SIGALRM]
assert by_alarm[:2] == ["missing", "elsewhere"] and len(by_alarm) == 3
assert told and not any("task:" in line for line in wrong["elsewhere"].lines)
for name in by_alarm:
    assert not any("I am a thread" in line for line in wrong[name].lines)
kinds = {wrong[name].error.kind for name in ("one 0", "other 0")}
assert kinds == {"", "UnknownError"}, "one of the two can't have the address"

# %% [markdown]
# Only the second worker 0 gets an error, because the address is taken. (On two machines it would not be.) The others
# wait without an error. Worker 0 says who is missing, but only in its log, at the level INFO, which many programs
# switch off (we did, in the first cell). Worker 1 with a wrong address of worker 0 logs no name at all. So: **leave
# that log on while a cluster starts**, check the text before, print who you are, and set a limit of your own.
#
# Signal 14 is the alarm clock that `look_for_the_others` sets. It belongs to the operating system, which stops the
# process without asking Python. (A thread of Python's that watches the clock never gets its turn, because TensorFlow
# waits with Python's lock held.) We have not waited for TensorFlow to give up.

# %% [markdown]
# ### A worker is killed
#
# Two workers train with `fit` over six epochs of four batches. (It is the `fit` of Keras 2, package `tf-keras`. That
# of Keras 3 fails under this strategy, as we shall see.) The callback `BackupAndRestore` saves the training:
# by default after each epoch; with `save_freq=100` it would be every 100 batches. In epoch 3 (they count from 0), after
# two of its four batches, we kill worker 1. Then we start both again, with the same program.

# %%
guess_11 = predict(
    "Worker 1 is killed and both are started again. How many batches does worker 0 do a second time?",
)


# %%
def fit_and_back_up(folder: str) -> tuple[Weights, str]:
    """A worker: the weights after six epochs, and what Keras 3 says."""
    import tf_keras  # Keras 2

    class Say(tf_keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            self.epoch = epoch

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            print(f"epoch {self.epoch}, batch {batch}")
            time.sleep(0.05)

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        layers = tf_keras.layers
        dense = [layers.Dense(32, activation="relu"), layers.Dense(10)]
        model = tf_keras.Sequential([layers.InputLayer(64), *dense])
        model.set_weights(first)
        model.compile(tf_keras.optimizers.SGD(RATE), cross_entropy)
    callbacks = [tf_keras.callbacks.BackupAndRestore(folder), Say()]
    model.fit(dataset_of(960, 4), epochs=6, verbose=0, callbacks=callbacks)
    said = ""
    try:
        fit(strategy, dataset_of(960, 4))
    except ValueError as error:
        said = str(error)
    leave_together(Path(folder), 2)
    return model.get_weights(), said


def show_batches(name: str, line: str) -> None:
    if name == "worker 0" or not line.startswith("epoch"):
        show(name, line)


folder = tempfile.TemporaryDirectory()
attempts = []
for kill in ({"worker 1": "epoch 3, batch 1"}, None):
    attempt = run_processes(
        {
            f"worker {index}": Process(
                fit_and_back_up, folder.name, env=task(two_workers, "worker", index)
            )
            for index in range(2)
        },
        seconds=170,
        kill=kill,
        check=False,
        on_output=show_batches,
    )
    attempts.append(attempt)
    print("─" * 40)
batches_done = [
    [line for line in attempt["worker 0"].lines if line.startswith("epoch")]
    for attempt in attempts
]
again = set(batches_done[0]) & set(batches_done[1])
survivor, victim = attempts[0]["worker 0"], attempts[0]["worker 1"]
print(f"worker 0 ended {survivor.seconds - victim.seconds:.1f} s after worker 1")
print("twice:", sorted(again))
print(guess_11.compare(len(again)))

# %% tags=["folded"]
# Checks of the numbers above, and of the sentences below
died = attempts[0]["worker 0"].error
assert died is not None and died.kind in ("UnavailableError", ""), "or it is aborted"
assert batches_done[1][0] == "epoch 3, batch 0" and len(batches_done[1]) == 12
assert "epoch 3, batch 0" in again and all(line.startswith("epoch 3") for line in again)
resumed, of_keras_3 = attempts[1]["worker 0"].value
uninterrupted = train(one_device, count=960, steps=24)
assert furthest(resumed, uninterrupted) < 1e-5
assert "PerReplica" in of_keras_3

# %% [markdown]
# The survivor waits in its next all-reduce until worker 1's missing heartbeats are noticed, and ends with an error; the
# cell has printed after how many seconds. (Worker 0, to whom all others report, we have not killed.) It can't go on
# alone: a ring with a gap is no ring. That is torch's DDP as well, and our `PeerLost`. So everybody starts again, from
# the last backup. The batches that epoch 3 already had are done **again**, from the weights at its beginning. The
# result is that of an uninterrupted training on one device, to rounding.
#
# (Keras 3's `fit`, tried afterwards in the same processes: it can't read a `PerReplica` here. Your own step, as
# above, works.)
#
# ## One device has the variables
#
# `CentralStorageStrategy` has each variable once, on one device. The replicas compute on theirs. Name the
# devices: else it takes all GPUs, or one CPU if there are none.

# %%
central = tf.distribute.experimental.CentralStorageStrategy(DEVICES, "CPU:0")
central_model, central_step = trainer_of(central, share_of_mean, sgd)
print("weights on", variable_devices(central_model.weights[0]))

# %%
guess_12 = predict(
    f"Four replicas, the parameters ({SIZE:,} bytes) on CPU:0. How many bytes cross between devices in a step?",
    unit="bytes",
)


# %%
own = batches_of(central, 1440, STEPS)[0]
central_trace = as_trace(moved(central_step, *own), 4)
print("sent by each device:", central_trace.bytes_sent)
print("received:           ", central_trace.bytes_received)
for each in reductions(central_step, *own):
    print(f"{each.kind}: {each.nbytes:,} bytes, for {', '.join(each.receivers)}")
print(guess_12.compare(sum(central_trace.bytes_sent)))
after_20["CentralStorage"] = train(central)
print(f"after 20 steps: {furthest(after_20['CentralStorage'], alone):.0e} off")

# %% tags=["folded"]
# Checks of the numbers above
assert furthest(after_20["CentralStorage"], alone) < 1e-5
assert all_reduces(central_step, *own) == []
assert central_trace.bytes_sent == [3 * SIZE, SIZE, SIZE, SIZE]

# %% [markdown]
# As many bytes as with `ReductionToOneDevice`, but they are other bytes: in one step the parameters go out and the
# gradients come in. The additions are reduces; no replica gets the sum, because it has no variable to add it to. This
# is `DataParallel` of lesson 04, with its master, and its bottleneck.
#
# ## Parameter servers
#
# `ParameterServerStrategy` is lesson 07. Its processes have roles:
#
# - **ps**: servers, which have the variables.
# - **worker**: servers as well. They wait for somebody to send them a function and call it.
# - **chief**: the coordinator. The only one that runs your program. It hands out steps.
#
# The coordinator *schedules* steps, and some worker takes each of them, when it is free. A step reads the variables
# from the servers and changes them there, without waiting for any other worker: it is asynchronous. If the
# coordinator waits after every step (`join`), it is synchronous, and the same as one device.


# %%
def serve(role: str, index: int, alive: Path) -> None:
    """A worker or a parameter server: does what the coordinator sends, while that is alive."""
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    server = tf.distribute.Server(cluster, job_name=role, task_index=index)
    waiting = threading.Thread(target=server.join, daemon=True)
    waiting.start()
    while not alive.exists() or time.time() - alive.stat().st_mtime < 5:
        time.sleep(0.1)
    still = "still waits" if waiting.is_alive() else "has returned"
    print(f"I have seen no sign of life for 5 s. The server's join {still}", flush=True)
    os._exit(0)


def make_coordinator() -> tuple[Any, Any]:
    """The strategy, and who hands out its steps."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)


def counting_step(strategy: Any) -> tuple[Any, Any]:
    """A variable on a server, and a step that adds 1 to it and then computes for a while."""
    with strategy.scope():
        updates = tf.Variable(0, dtype=tf.int64)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        updates.assign_add(1)
        matrix = tf.random.normal((300, 300))
        for _ in range(10):
            matrix = tf.linalg.matmul(matrix, matrix) / 300
        return tf.reduce_sum(matrix)

    return updates, step


def follow(coordinator: Any, updates: tf.Variable, until: int) -> None:
    """Wait for this many updates, or all of them, and say so."""
    while int(updates) < until and not coordinator.done():
        time.sleep(0.01)
    print(f"I have seen {until} updates", flush=True)


def show_life(alive: Path) -> None:
    """Touch a file every 0.2 s, as long as this process lives."""

    def touch() -> None:
        while True:
            alive.touch()
            time.sleep(0.2)

    threading.Thread(target=touch, daemon=True).start()


def coordinate(alive: Path, folder: Path) -> None:
    """20 steps one by one; then 300 steps, with a worker killed; then 300 more, with the server killed."""
    tf.get_logger().setLevel("CRITICAL")
    show_life(alive)
    strategy, coordinator = make_coordinator()
    model, step = make_trainer(strategy)
    print("worker or server? The weights are on", *variable_devices(model.weights[0]))
    for number in range(STEPS):
        coordinator.schedule(step, args=batch_of(number))
        coordinator.join()
    np.savez(folder / "after_20.npz", *model.get_weights())

    updates, count = counting_step(strategy)
    for _ in range(300):
        coordinator.schedule(count)
    print(f"after I have handed out 300 steps: {int(updates)} updates", flush=True)
    follow(coordinator, updates, 100)
    coordinator.join()
    total = int(updates)
    print(f"after 300 steps there are {total} updates")

    for _ in range(300):
        coordinator.schedule(count)
    follow(coordinator, updates, total + 10)
    print("I go on, and the server is killed", flush=True)
    began = time.perf_counter()
    try:
        coordinator.join()
        print(f"after all, {int(updates)} updates")
    except tf.errors.UnavailableError:
        print(f"after {time.perf_counter() - began:.1f} s an UnavailableError")
        raise


def parts_of(cluster: Cluster, alive: Path) -> dict[str, Process]:
    """The processes that serve."""
    return {
        f"{role} {index}": Process(
            serve, role, index, alive, env=task(cluster, role, index)
        )
        for role in ("worker", "ps")
        for index in range(len(cluster[role]))
    }


at = addresses(4)
cluster = {"chief": at[:1], "worker": at[1:3], "ps": at[3:]}
place = tempfile.TemporaryDirectory()
alive, here = Path(place.name) / "alive", Path(place.name)

# %%
guess_13 = predict(
    "300 steps, each adds 1 to a counter on the server. Worker 1 is killed on the way. How many updates are there?",
    choices=["fewer than 300", "300 or more"],
)

# %%
chief = Process(coordinate, alive, here, env=task(cluster, "chief", 0))
served = run_processes(
    {"chief": chief, **parts_of(cluster, alive)},
    seconds=170,
    until=["chief"],
    kill={
        "worker 1": ("chief", "I have seen 100"),
        "ps 0": ("chief", "I go on"),
    },
    on_output=show,
)
with np.load(here / "after_20.npz") as saved:
    after_20["ParameterServer"] = [saved[name] for name in saved.files]
print(f"after 20 steps: {furthest(after_20['ParameterServer'], alone):.0e} off")
in_lines = served["chief"].lines
(counted_line,) = [line for line in in_lines if line.startswith("after 300")]
updates_done = int(counted_line.split()[-2])
(handed_out,) = [line for line in in_lines if line.startswith("after I have")]
updates_before = int(handed_out.split()[-2])
(on_server,) = [
    line.split(" on ")[1] for line in in_lines if " weights are on " in line
]
print(guess_13.compare("300 or more" if updates_done >= 300 else "fewer than 300"))

# %% tags=["folded"]
# Checks of the numbers above
assert furthest(after_20["ParameterServer"], alone) < 1e-5
assert 300 <= updates_done <= 302 and updates_before < 300
assert on_server == "ps 0 CPU:0"
assert served["chief"].error.kind == "UnavailableError"
assert not any("after all" in line for line in served["chief"].lines)

# %% [markdown]
# The training goes on without worker 1. Its step is done again by the other one. But its update may have been applied
# before it died, and then it counts twice: **at least once**, not exactly once. (In lesson 07 we made the server ignore
# the second one.) 301 means that one update came twice, 300 that the kill came between two updates. Both are
# correct.
#
# The death of the server ends the training: it had the variables. What if *all* workers die? And the coordinator?

# %%
guess_14 = predict(
    "The only worker is killed, and the coordinator waits for its steps. What does it get?",
    choices=["an error after some seconds", "no error: it waits"],
)


# %%
def coordinate_alone(alive: Path) -> None:
    """Steps for a worker that is going to die. Here TensorFlow may log errors."""
    show_life(alive)
    strategy, coordinator = make_coordinator()
    updates, count = counting_step(strategy)
    for _ in range(3000):
        coordinator.schedule(count)
    follow(coordinator, updates, 50)
    waiting = threading.Thread(target=coordinator.join, daemon=True)
    waiting.start()
    waiting.join(5)
    print("I have waited for 5 s" if waiting.is_alive() else "I got an answer")


def show_failure(name: str, line: str) -> None:
    """As `show`, and what the coordinator logs of a worker that failed."""
    show(name, f"({line[:110]} …)" if " failed with " in line else line)


place = tempfile.TemporaryDirectory()
alive = Path(place.name) / "alive"
small = {"chief": at[:1], "worker": at[1:2], "ps": at[2:3]}
chief = Process(coordinate_alone, alive, env=task(small, "chief", 0))
orphaned = run_processes(
    {"chief": chief, **parts_of(small, alive)},
    seconds=170,
    until=["ps 0"],
    kill={"worker 0": ("chief", "I have seen 50"), "chief": "I have waited"},
    on_output=show_failure,
)
waited = "I have waited for 5 s" in orphaned["chief"].lines
print(
    guess_14.compare("no error: it waits" if waited else "an error after some seconds")
)

# %% tags=["folded"]
# Checks of the cell above
assert waited and orphaned["chief"].exit_status == -signal.SIGKILL
assert orphaned["ps 0"].exit_status == 0
assert any("join still waits" in line for line in orphaned["ps 0"].lines)
assert any(" failed with " in line for line in orphaned["chief"].lines)

# %% [markdown]
# Without workers the coordinator logs that the worker failed, and waits for it to come back: `join` raises nothing. We
# looked for 5 s. Without the coordinator the server waits for work: it was still there 5 s after the coordinator's
# death. Only our file, the sign of life, told it.
#
# ## TPUs
#
# A TPU is a machine of its own. `TPUClusterResolver` finds it, and `TPUStrategy` mirrors variables on its cores. The
# training step is the same. This is how such a program begins, and what happens on a machine without one:


# %%
def tpu_or_default(name: str = "") -> Any:
    """The strategy of a TPU, or the one that does nothing."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name)
    except ValueError as error:
        print(f"no TPU: {error}")
        return tf.distribute.get_strategy()
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


os.environ.pop("TPU_NAME", None)
instead = tpu_or_default()
print(type(instead).__name__, "with", instead.num_replicas_in_sync, "replica")
train(instead)
print("and the training goes on")
assert instead.num_replicas_in_sync == 1

# %% [markdown]
# It fell back to one replica, and the training went on. That is what the fallback is for, and it is dangerous: on a
# rented machine you would pay for a TPU and use the processor. Print the strategy. (And don't connect to an address at
# which there is nothing: `experimental_connect_to_cluster` then waits.)
#
# ## Who gets which samples
#
# In `MirroredStrategy` there is one input pipeline, and each batch is cut. With several workers each has a pipeline of
# its own, made by the same program from the same files. TensorFlow changes it so that workers read different parts
# (*auto-shard*). The policy is an option of the dataset:
#
# | policy | each worker reads |
# |---|---|
# | `FILE` | some of the files, whole |
# | `DATA` | all files, and keeps its part of each batch |
# | `OFF` | everything |
# | `HINT` | its part where your dataset says `shard(SHARD_HINT, SHARD_HINT)` |
# | `AUTO`, the default | as `FILE` if the dataset reads files, else as `DATA` |
#
# (What we say of `HINT` is from the documentation; we try the others.) Three files with four numbers each, and two
# workers. A global batch is 4 numbers.

# %%
guess_15 = predict(
    "Policy FILE: how many of the 12 numbers does worker 1 get in an epoch?",
)


# %%
Steps = list[list[int]]  # the numbers of each step


def read(folder: Path) -> dict[str, Steps]:
    """A worker: the numbers that it gets under each policy."""
    tf.get_logger().setLevel("CRITICAL")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    by_hand = strategy.distribute_datasets_from_function(partial(own_part, folder))
    got = {"InputContext": numbers_in(strategy, by_hand)}
    policies = tf.data.experimental.AutoShardPolicy
    for name in ("FILE", "DATA", "OFF", "AUTO"):
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = policies[name]
        numbers = text_of(folder, 3).batch(4).with_options(options)
        cut = strategy.experimental_distribute_dataset(numbers)
        got[name] = numbers_in(strategy, cut)
        print(f"I have read with {name}", flush=True)
    leave_together(folder, 2)
    return got


def text_of(folder: Path, files: int) -> Any:
    """The lines of the first files."""
    paths = [str(folder / f"{number}.txt") for number in range(files)]
    return tf.data.TextLineDataset(paths)


def numbers_in(strategy: Any, dataset: Any) -> Steps:
    """What this worker gets in each step. It has one replica."""
    parts = (strategy.experimental_local_results(batch)[0] for batch in dataset)
    return [[int(line) for line in part.numpy()] for part in parts]


def own_part(folder: Path, context: tf.distribute.InputContext) -> Any:
    """An input pipeline that is cut by hand."""
    cut = context.num_input_pipelines, context.input_pipeline_id
    mine = text_of(folder, 3).shard(*cut)
    return mine.batch(context.get_per_replica_batch_size(4))


files = tempfile.TemporaryDirectory()
for number in range(3):
    text = "".join(f"{4 * number + line}\n" for line in range(4))
    (Path(files.name) / f"{number}.txt").write_text(text)
readers = {
    f"worker {index}": Process(
        read, Path(files.name), env=task(two_workers, "worker", index)
    )
    for index in range(2)
}
got = [o.value for o in run_processes(readers, seconds=170, on_output=show).values()]
for policy in got[0]:
    for worker in range(2):
        print(f"{policy:14} worker {worker}: {got[worker][policy]}")
print(guess_15.compare(sum(map(len, got[1]["FILE"]))))

# %% tags=["folded"]
# Checks of the numbers above
everything = set(range(12))
seen = [{name: sum(steps, []) for name, steps in of.items()} for of in got]
for policy in ("FILE", "DATA", "AUTO", "InputContext"):
    assert sorted(seen[0][policy] + seen[1][policy]) == list(range(12)), policy
assert set(seen[0]["OFF"]) == set(seen[1]["OFF"]) == everything
assert seen[0]["AUTO"] == seen[0]["FILE"] == [0, 1, 2, 3, 8, 9, 10, 11]
assert len(got[0]["FILE"]) == len(got[1]["FILE"]) and got[1]["FILE"][-1] == []

# %% [markdown]
# With `OFF` both workers read everything, so each number is used twice in an epoch. `FILE` gives worker 0 two files
# and worker 1 one file: when that is used up, worker 1 gets batches of 0 numbers. It is not free: it still has to join
# each all-reduce. **Check it as we did: collect what each worker gets.**
#
# In the first row nothing is automatic. `distribute_datasets_from_function` calls your function once per worker, with
# an `InputContext` that knows how many pipelines there are, and which one this is. (Then nothing is cut for you
# either: the function makes batches for one replica.) You write such a function in the exercise.
#
# ### One file for two workers
#
# `AUTO` chose `FILE`. There were three files. Now there is one, and all numbers are in it.

# %%
guess_16 = predict(
    "AUTO, one file, two workers. What do the workers get?",
    choices=[
        "half of it each, as with DATA",
        "worker 0 gets all of it, worker 1 nothing",
        "worker 0 gets an error, and worker 1 waits",
    ],
)


# %%
def read_one_file(folder: Path) -> None:
    """A worker that reads with AUTO. One that waits for more than 5 s is ended."""
    tf.get_logger().setLevel("CRITICAL")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    cut = strategy.experimental_distribute_dataset(text_of(folder, 1).batch(4))
    signal.alarm(5)
    try:
        print("I have", numbers_in(strategy, cut))
    except tf.errors.InvalidArgumentError as error:
        signal.alarm(0)
        reason = error.message[error.message.index("Could not") :]
        print("I got an error:", reason.split(" If ")[0])
        time.sleep(1000)  # so that we see what becomes of the other


(Path(files.name) / "0.txt").write_text("\n".join(map(str, range(12))))
readers = {
    f"worker {index}": Process(
        read_one_file, Path(files.name), env=task(two_workers, "worker", index)
    )
    for index in range(2)
}
one_file = run_processes(
    readers, seconds=170, until=["worker 1"], check=False, on_output=show
)
refused = any("I got an error" in line for line in one_file["worker 0"].lines)
waited = one_file["worker 1"].exit_status == -signal.SIGALRM
print(
    guess_16.compare(
        "worker 0 gets an error, and worker 1 waits" if refused and waited else "?"
    )
)

# %% tags=["folded"]
# Checks of the cell above
assert refused and waited
assert "the dataset only has 1 file(s)" in "".join(one_file["worker 0"].lines)
assert not any(line.startswith("I ") for line in one_file["worker 1"].lines)

# %% [markdown]
# `AUTO` does not fall back to `DATA`: it tries `FILE`, which needs at least as many files as workers. Worker 0 gets an
# error that says so, at its first batch. Worker 1 gets none. Before each batch the workers ask one another who still
# has data, and worker 0 does not answer. Only the alarm, after 5 s, ends that. So **with fewer files than workers
# choose `DATA`**, and look at the output of *all* workers: the one that hangs is not the one that has the reason.
#
# ## Checkpoints
#
# A mirrored variable has four copies. What is saved?

# %%
guess_17 = predict(
    f"The model has {SIZE:,} bytes, mirrored on four devices. About how many bytes has a checkpoint of it?",
    unit="bytes",
)

# %%
place = tempfile.TemporaryDirectory()
model, step = trainer_of(mirrored, share_of_mean, sgd)
train(mirrored)
path = tf.train.Checkpoint(model=model).write(f"{place.name}/mirrored")
in_file = sum(file.stat().st_size for file in Path(place.name).iterdir())
print(f"{in_file:,} bytes in {len(list(Path(place.name).iterdir()))} files")
other_model = make_model()
tf.train.Checkpoint(model=other_model).read(path).assert_consumed()
print(
    f"read on one device: {furthest(other_model.get_weights(), model.get_weights()):.0e} off"
)
print(guess_17.compare(in_file))

# %% tags=["folded"]
# Checks of the numbers above
assert furthest(other_model.get_weights(), model.get_weights()) == 0
assert SIZE < in_file < 2 * SIZE
names = [name for name, _ in tf.train.list_variables(path) if "VALUE" in name]
assert len(names) == len(first)
both = tf.train.Checkpoint(model=model, optimizer=adam).write(f"{place.name}/both")
assert Path(f"{both}.data-00000-of-00001").stat().st_size > 3 * SIZE

# %% [markdown]
# One copy, and a checkpoint does not know the strategy it comes from: here four replicas wrote it and one device reads
# it. It contains what you name. Ours has no optimizer, so Adam would begin with an empty state: write
# `Checkpoint(model=model, optimizer=optimizer)`. With Adam's two numbers for each parameter that is three times as
# much. It also has no position in the epoch, unless you save that, too. `BackupAndRestore` has one as fine as its
# `save_freq`.
#
# (With several workers *every* worker must call it, all but worker 0 into a folder that is thrown away. So says
# TensorFlow's tutorial on several workers, see below; we have not run it.)
#
# ## In real frameworks
#
# This lesson is one. Here is torch's DDP on four ranks, with the same weights and batches, and all that we have trained
# so far next to it.

# %%
from torch.nn.parallel import DistributedDataParallel

from distlib.worlds.real.process_group import torch_distributed

torch_batches = [batch_of(number) for number in range(STEPS)]


def train_in_torch(comm: Communicator) -> Weights:
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )
    for parameter, array in zip(model.parameters(), first, strict=True):
        parameter.data.copy_(torch.tensor(array.T))
    part = slice(comm.rank, None, comm.world_size)
    with torch_distributed(comm):
        ddp = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=RATE)
        for some, shown in torch_batches:
            outputs = ddp(torch.tensor(some[part]))
            wanted = torch.tensor(shown[part])
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(outputs, wanted).backward()
            optimizer.step()
    return [parameter.detach().numpy().T for parameter in model.parameters()]


with World(4) as world:
    in_ddp = world.run(train_in_torch)[0]
print(f"{'after 20 steps':22} from one device   from torch's DDP")
for name, found_weights in after_20.items():
    off, off_torch = furthest(found_weights, alone), furthest(found_weights, in_ddp)
    print(f"{name:22} {off:15.0e} {off_torch:18.0e}")
    assert off < 1e-5 and off_torch < 1e-4

# %% [markdown]
# All the same training, to rounding. (The parameter servers only because we joined after each step. Asynchronously the
# values differ from run to run, as in lesson 07.) So here values don't tell the strategies apart. What they send, and
# how they die, does. We have not killed a process of the two strategies that have only one. Each of them trains in a
# process of its own, which we kill after its batch 5:


# %%
def train_aloud(make_strategy: Callable[[], Any]) -> None:
    """Train, and say after each batch how many replicas there are."""
    processor = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(processor, parts)
    strategy = make_strategy()
    _, step = make_trainer(strategy)
    for number, batch in enumerate(batches(strategy, 1440, 1000)):
        step(*batch)
        print(f"batch {number}: {strategy.num_replicas_in_sync} replicas", flush=True)
        time.sleep(0.1)


makes = {
    "Mirrored": partial(tf.distribute.MirroredStrategy, DEVICES),
    "Central": partial(
        tf.distribute.experimental.CentralStorageStrategy, DEVICES, "CPU:0"
    ),
}
of_one_process = run_processes(
    {name: Process(train_aloud, make, env=LOGGED) for name, make in makes.items()},
    seconds=170,
    kill=dict.fromkeys(makes, "batch 5"),
    on_output=show,
)
replicas_gone = {
    name: int(told[-1].split()[-2])
    for name, outcome in of_one_process.items()
    if (told := [line for line in outcome.lines if line.startswith("batch")])
}
assert set(replicas_gone.values()) == {4}
assert all(o.exit_status == -signal.SIGKILL for o in of_one_process.values())

# %% [markdown]
# All replicas are gone with their process. What the table says of the strategies comes from the runs above:


# %%
def waits_for(step: Any, *arguments: Any) -> str:
    """How many replicas' gradients a step adds up before anyone goes on."""
    members = {e.members for e in reductions(step, *arguments) if e.nbytes > 16}
    return f"each step, for all {max(members)} replicas"


mirrored_ring = f"{theirs.messages_sent[0]} messages each"
facts = {
    "Mirrored": (
        f"all {len(variable_devices(weights))} devices",
        f"all, a ring: {mirrored_ring}",
        waits_for(step, *batch),
        f"its process: all {replicas_gone['Mirrored']} replicas",
        "05",
    ),
    "MultiWorkerMirrored": (
        f"all {len(trained)} workers",
        f"all, a ring: {per_worker[0] // STEPS} messages each",
        f"each step, for all {in_graph[0][0]} workers",
        f"a worker: {attempts[0]['worker 0'].error.kind or 'aborted'}",
        "05",
    ),
    "CentralStorage": (
        ", ".join(variable_devices(central_model.weights[0])),
        f"CPU:0, gets {central_trace.bytes_received[0]:,} bytes",
        waits_for(central_step, *own),
        f"its process: all {replicas_gone['Central']} replicas",
        "04",
    ),
    "ParameterServer": (
        on_server,
        "nobody: a server adds",
        f"at join: {updates_before} of 300 steps done when all were handed out",
        f"a worker: {updates_done} updates for 300; a server: {served['chief'].error.kind}",
        "07",
    ),
    "TPU (from the documentation)": (
        "every core",
        "all",
        "each step, for all cores",
        "not tried here",
        "05",
    ),
}
header = "| strategy | has the variables | adds up | waits | dies | lesson |"
rows = [f"| {name} | {' | '.join(told)} |" for name, told in facts.items()]
Markdown("\n".join([header, "|---" * 6 + "|", *rows]))

# %% tags=["folded"]
# Checks of the table
assert facts["Mirrored"][2] == facts["CentralStorage"][2]
assert facts["Mirrored"][2] == "each step, for all 4 replicas"
assert facts["MultiWorkerMirrored"][2] == "each step, for all 3 workers"

# %% [markdown]
# Not in the table: what you have to write yourself. `tf.distribute` has no sharded optimizer (lesson 11), no gossip
# (lesson 08), and no bound on staleness between "synchronous" and "asynchronous".
#
# ## In short
#
# - MirroredStrategy is DDP: a copy on each device, one all-reduce of all gradients in a step (on processors a ring).
#   MultiWorkerMirrored is the same over a network.
# - The optimizer sums. Divide each loss by the size of the *global* batch; for the last batch by its true size.
#   The loss objects of Keras 3 have divided already.
# - Keras 3 clips each replica's share before the sum, Keras 2 after it.
# - TF_CONFIG: no cluster trains alone; a wrong one waits, without an error: only the log of worker 0 says for whom.
#   Check the text, leave the log on, print the number of replicas, set a time limit.
# - A killed worker ends a mirrored training; go on from a backup, and some batches are done again. A parameter server
#   goes on, and some steps count twice.
# - Collect what each worker reads before you trust auto-shard, and give it at least as many files as workers.
#
# ## Now you
#
# In [the exercise](../exercises/13_tensorflow/13_tensorflow.ipynb) you write TF_CONFIG with its checks, the loss of the
# global batch, the training step, and the sharding of the input.
#
# ## Further reading
#
# - TensorFlow, [Distributed training](https://www.tensorflow.org/guide/distributed_training). All strategies on one
#   page.
# - TensorFlow, [Custom training](https://www.tensorflow.org/tutorials/distribute/custom_training). The training step,
#   and the loss.
# - TensorFlow, [Multi-worker training with
#   Keras](https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras). TF_CONFIG and BackupAndRestore.
# - TensorFlow, [Parameter server training](https://www.tensorflow.org/tutorials/distribute/parameter_server_training).
#   Also with servers in other processes, and evaluation.
# - TensorFlow, [Distributed input](https://www.tensorflow.org/tutorials/distribute/input). Auto-shard, rebatching and
#   `InputContext`.
# - M. Abadi and others, [TensorFlow: A system for large-scale machine learning](https://arxiv.org/abs/1605.08695), OSDI
#   2016: graphs that are cut over devices, with a send and a receive at each cut.
