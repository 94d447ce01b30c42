# %% [markdown]
# # TensorFlow
#
# **This lesson is optional.** It is a side road, which no lesson of the main road needs.
#
# After this lesson you will be able to
#
# - say which of our lessons each strategy of `tf.distribute` is, and prove it by counting what it sends,
# - write a training step whose loss is right for any number of replicas, also for the last batch of an epoch,
# - describe a cluster with `TF_CONFIG`, and find the mistakes in its text,
# - say who computes what under a parameter server, and why it is asynchronous,
# - check which samples each worker gets.
#
# **Time:** about 120 minutes. **You need:** [All-reduce](02_all_reduce.ipynb), [DDP](05_ddp.ipynb) and
# [Parameter servers](07b_parameter_server.ipynb). No GPU. What each strategy does when a process dies is in
# [lesson 13b](13b_tensorflow_failures.ipynb), which is optional.

# %%
import os

os.environ |= {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}  # no log lines

from distlib.frameworks import LOGGED, fetch, prepare_processes, require

fetch("tensorflow")  # some minutes, the first time

# In the background: another process imports both for the demonstrations
prepare_processes("tensorflow", "tf_keras", env=LOGGED)
tf = require("tensorflow")
tf.get_logger().setLevel("CRITICAL")
processor = tf.config.list_physical_devices("CPU")[0]
four_parts = [tf.config.LogicalDeviceConfiguration()] * 4
tf.config.set_logical_device_configuration(processor, four_parts)

# %%
import json
import tempfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from IPython.display import Markdown

from distlib import Communicator, World, all_reduce, traffic
from distlib.draw import bytes_per_rank, curves, predict
from distlib.frameworks import (
    ADDS,
    Classifier,
    Process,
    Weights,
    addresses,
    all_reduces,
    as_trace,
    copies,
    flat,
    furthest,
    parse_tf_config,
    reductions,
    replica_batch,
    ring_messages,
    run_processes,
    tensorflow_cluster as tf_cluster,
    times_too_large,
    variable_devices,
)

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
# begins with the same weights, which come from torch. A batch has 240 images. `Classifier` has all of that: `model()`
# makes a model of Keras, `batch(number)` gives the images and labels of a step, and `dataset(count, steps)` a
# `tf.data.Dataset` of batches.

# %%
data = Classifier.of_digits()
BATCH, RATE, STEPS = data.batch_size, 0.4, 20
SIZE = data.nbytes
print(f"{len(data.first)} arrays, {SIZE // 4:,} parameters, {SIZE:,} bytes")
assert BATCH == 240 and SIZE == 4 * 2410 and len(data.first) == 4

# %% [markdown]
# `MirroredStrategy` is for several devices of one machine. What is made inside `strategy.scope()` belongs to it. Look
# at where the first layer's weights are:

# %%
mirrored = tf.distribute.MirroredStrategy(DEVICES)
with mirrored.scope():
    model = data.model()
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


# %% [markdown]
# `to_one` makes one number of the losses of a replica's images. We shall try several. Three helpers, because we need
# them again and again: `make_trainer` makes a model and its step in the strategy's scope, `batches` cuts the batches of
# a training into a part for each replica, and the last two keep what they have made.


# %%
def make_trainer(
    strategy: Any, to_one: Losses = share_of_mean, make_optimizer: Any = sgd
) -> tuple[Any, Any]:
    """A model with the first weights, and its step."""
    with strategy.scope():
        model = data.model()
        optimizer = make_optimizer()
        optimizer.build(model.trainable_variables)
    return model, make_step(strategy, model, optimizer, to_one)


def batches(strategy: Any, count: int = 1440, steps: int = STEPS) -> Iterable[Any]:
    """Batches of the first `count` images, each with a part for each replica."""
    return strategy.experimental_distribute_dataset(data.dataset(count, steps))


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

with mirrored.scope():
    table, dense = tf.Variable(tf.ones((100, 8))), tf.Variable(tf.ones((8, 2)))


@tf.function(autograph=False)
def with_embedding(numbers: tf.Tensor) -> None:
    def on_replica(numbers: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, numbers) @ dense)
        gradients = tape.gradient(loss, [table, dense])
        replica = tf.distribute.get_replica_context()
        sums = replica.all_reduce("SUM", gradients)
        table.assign_sub(tf.convert_to_tensor(sums[0]))
        dense.assign_sub(sums[1])

    mirrored.run(on_replica, args=(numbers,))


three_each = mirrored.experimental_distribute_values_from_function(
    lambda context: tf.constant([1, 2, 3])
)
graph = with_embedding.get_concrete_function(three_each).graph
kinds = {each.type for each in graph.get_operations() if "Collective" in each.type}
assert kinds == {"CollectiveReduceV2", "CollectiveGatherV2"}

# %% [markdown]
# One. TensorFlow has put the four gradients into one buffer, as you did with buckets in lesson 05. The second line is
# `strategy.reduce` at the end: the losses, added on the first device for us to see. Only that one gets the sum, so it
# is a reduce and no all-reduce. (An embedding has sparse gradients: only the rows that the batch has used. These are
# gathered, besides.)
#
# ### Which all-reduce is it?
#
# The graph says "collective", not how. But TensorFlow's ring can write a log. Here is the same step in a process of its
# own, with that log; and before it, as a control, a step that adds on one device and should have no ring.
# (`run_processes` starts a new process. It sends the function there, and ends it whatever happens. It begins as a
# copy of another, which has imported TensorFlow in the background, since the first cell of this lesson.)


# %% tags=["folded"]
# Such a process: a step with additions on one device, then one as above
def two_steps() -> None:
    """Makes four devices, and a trainer for each way to add."""
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

# %% tags=["folded"]
# TensorFlow's other two, and what a step copies from which device to which
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
def network(widths: list[int]) -> list[int]:
    """The bytes of each all-reduce in a step of a network with these layers."""
    with mirrored.scope():
        layers = [tf.keras.layers.Dense(width) for width in widths]
        model = tf.keras.Sequential(layers)
        model.build((None, 64))
        optimizer = sgd()
        optimizer.build(model.trainable_variables)
    step = make_step(mirrored, model, optimizer)
    return [each.nbytes for each in all_reduces(step, *batch)]


print(network([32, 10]))

# %% tags=["folded"]
# One way to do it
# 32 × 32 weights and 32 biases more
print(network([32, 32, 10]))
assert network([32, 32, 10]) == [SIZE + 4 * (32 * 32 + 32)]

# %% [markdown]
# ### What else is mirrored
#
# An optimizer such as Adam keeps two numbers for each parameter. Where are they?

# %%
guess_4 = predict(
    "Four replicas with Adam. How many bytes do its two numbers for each parameter "
    "take on all devices together?",
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
# repetition is what ZeRO (lesson 11) avoids. `tf.distribute` has no strategy that cuts it over the replicas.
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
    model.set_weights(list(data.first))
    for batch in batches_of(strategy, count, steps):
        step(*batch)
    return model.get_weights()


def fit(strategy: Any, dataset: Any) -> Any:
    """A model after an epoch of Keras's `fit`."""
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        model = data.model()
        model.compile(tf.keras.optimizers.SGD(RATE), cross_entropy)
    model.fit(dataset, shuffle=False, verbose=0)
    return model


one_device = tf.distribute.OneDeviceStrategy("CPU:0")
alone = train(one_device)
after_20 = {
    "Mirrored": train(mirrored),
    "Mirrored, fit": fit(mirrored, data.dataset(1440, STEPS)).get_weights(),
}
print(f"moved by up to {furthest(alone, data.first):.2f}")
for name, found in after_20.items():
    print(f"{name}: {furthest(found, alone):.0e} from one device")
    assert furthest(found, alone) < 1e-5
assert furthest(alone, data.first) > 0.1

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
    """What the first step subtracts, divided by the learning rate. The batch is the
    first `count` images."""
    after_1 = train(strategy, to_one, count, 1, make_optimizer)
    return [(a - b) / RATE for a, b in zip(data.first, after_1, strict=True)]


true = gradient_of(one_device, tf.reduce_mean)

# %%
guess_5 = predict(
    "Every replica takes the mean of its own 60 losses. What is the gradient, "
    "compared with one device?",
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


# %% tags=["folded"]
# Three trainings, and their losses
def loss_over_steps(
    strategy: Any, to_one: Losses, make_optimizer: Any = sgd
) -> list[tuple[float, float]]:
    """The mean loss of 1,440 images, before each step."""
    model, step = trainer_of(strategy, to_one, make_optimizer)
    model.set_weights(list(data.first))
    points = []
    for number, batch in enumerate(batches_of(strategy, 1440, STEPS)):
        outputs = model(data.images[:1440])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            data.labels[:1440], outputs
        )
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
# A penalty on the weights (regularization) is the same number on every replica, so it would count once per replica:
# `tf.nn.scale_regularization_loss` divides it by their number. That is for a step of your own: `fit` divides it itself.
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
def mean_of_means(losses: tf.Tensor) -> tf.Tensor:
    """What this replica adds to the mean of the replicas' means."""
    replica = tf.distribute.get_replica_context()
    return tf.reduce_mean(losses) / replica.num_replicas_in_sync


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
of_fit = fit(mirrored, data.dataset(250, 2)).get_weights()
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
    "The gradient has length 1, each of the 4 shares about a third. Keras is to clip at 0.5. "
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

# %% [markdown]
# Keras 3 clips each replica's share, *before* the all-reduce. How long are the shares? Here they are computed one by
# one; then once more with the images sorted by their digits. `used` clips each share and adds them up, as Keras does.


# %%
at_first = data.model()


def share_of(images: Any, labels: Any) -> np.ndarray:
    """The gradient of what these images add to the mean loss."""
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, at_first(images)
        )
        loss = share_of_mean(losses)
    gradients = tape.gradient(loss, at_first.trainable_variables)
    return flat([gradient.numpy() for gradient in gradients])


def used(shares: Iterable[np.ndarray], limit: float) -> float:
    """The length of the sum of shares, each of which is clipped."""
    clipped = [share * min(1, limit / np.linalg.norm(share)) for share in shares]
    return float(np.linalg.norm(sum(clipped)))


images, labels = data.batch(0)
as_they_come, by_digit = np.arange(BATCH), np.argsort(labels, kind="stable")
shares_of = {}
for name, order in (("as they come", as_they_come), ("sorted", by_digit)):
    shares = [share_of(images[some], labels[some]) for some in np.split(order, 4)]
    shares_of[name] = [share / length for share in shares]
    print(f"{name:12}: shares of length", end=" ")
    print(*(f"{np.linalg.norm(share):.2f}" for share in shares_of[name]), end="; ")
    print(f"clipped at 0.5 and added: {used(shares_of[name], 0.5):.2f}")

# %% tags=["folded"]
# Checks of the numbers above
# With a very low limit each share is clipped, so Keras does clip
assert abs(lengths["one device"] - 0.5) < 1e-4 and lengths["4 replicas"] > 0.99
low = partial(tf.keras.optimizers.SGD, RATE, global_clipnorm=length / 100)
each_clipped = gradient_of(mirrored, share_of_mean, make_optimizer=low)
by_keras = float(np.linalg.norm(flat(each_clipped))) / length
assert 0.02 < by_keras <= 0.04001
assert abs(used(shares_of["as they come"], 0.01) - by_keras) < 1e-3
lengths_of = {
    name: [float(np.linalg.norm(share)) for share in shares]
    for name, shares in shares_of.items()
}
assert all(0.25 < each < 0.4 for each in lengths_of["as they come"])
assert min(lengths_of["sorted"]) > 0.7 and max(lengths_of["sorted"]) > 1
assert all(abs(np.linalg.norm(sum(each)) - 1) < 1e-4 for each in shares_of.values())
assert used(shares_of["as they come"], 0.5) > 0.999
assert 0.45 < used(shares_of["sorted"], 0.5) < 0.65

# %% [markdown]
# In the first row, each share is shorter than the limit, so nothing is clipped. Four equal shares could add up to four
# times the limit. Shares that differ, as with sorted images, partly cancel: here 0.53 is left, and not 1. (With other
# images and more replicas more may be left than the limit.) One of them is even longer than the whole gradient. So it
# is clipped at a limit of 1, where one device clips nothing.
#
# (Keras 2, the package `tf-keras`, clips after the sum. And torch's `clip_grad_norm_` is called after the backward
# pass. Under DDP the gradients are averaged then, so it clips the mean.)
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
#
# ## Several machines
#
# `MultiWorkerMirroredStrategy` is the same over several processes: each has a copy, and they all-reduce over the
# network. The program is the same on every machine. Who is who stands in the environment variable `TF_CONFIG`, in
# JSON: the **cluster** is the same for all, the **task** says which of them this process is. `task_environment` writes
# it for a process, and also switches TensorFlow's log on there.

# %%
two_workers, three_workers = {"worker": addresses(2)}, {"worker": addresses(3)}
told = tf_cluster.task_environment(three_workers, "worker", 1)["TF_CONFIG"]
print(told)
print(parse_tf_config(told).address)

# %% [markdown]
# Three workers train for 20 steps with the `make_trainer` from above; each has 80 of the 240 images. They write the
# ring's log, and `show` hides it. At the end they leave together: who leaves first closes connections that others may
# still read from.


# %%
def work(place: Path) -> tuple[Weights, list[tuple[int, int]]]:
    """A worker: the weights after 20 steps, and what the graph all-reduces."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    print(f"we are {strategy.num_replicas_in_sync}")
    model, step = make_trainer(strategy)
    for batch in batches(strategy):
        loss = step(*batch)
    print(f"loss {float(loss):.4f}")
    found = [(each.members, each.nbytes) for each in all_reduces(step, *batch)]
    tf_cluster.leave_together(place, 3)
    return model.get_weights(), found


def show(name: str, line: str) -> None:
    """What our functions print and how processes end, without TensorFlow's log."""
    if line.startswith(("we ", "loss", "I ", "(", "worker")):
        print(f"{name:8} │ {line[:260]}")


# %%
guess_9 = predict(
    "Three workers and a ring: how many messages does a worker send for the gradients of one step?",
    unit="messages",
)

# %%
place = tempfile.TemporaryDirectory()
workers = {
    f"worker {n}": Process(
        work,
        Path(place.name),
        env=tf_cluster.task_environment(three_workers, "worker", n),
    )
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
    "a URL": json.dumps(good | {"cluster": {"worker": ["http://a:1", "b:1"]}}),
    "no such port": json.dumps(good | {"cluster": {"worker": ["a:1", "b:70000"]}}),
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
# One way to do it
# An address that does not exist, or the index of another machine
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
# `num_replicas_in_sync`.** Other mistakes are in the *world*: a worker is missing, or an address is another machine's.
# No text shows that, and TensorFlow waits. [Lesson 13b](13b_tensorflow_failures.ipynb) makes these mistakes.
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
guess_10 = predict(
    "Policy FILE: how many of the 12 numbers does worker 1 get in an epoch?",
)


# %%
Steps = list[list[int]]  # the numbers of each step


def numbers_in(strategy: Any, dataset: Any) -> Steps:
    """What this worker gets in each step. It has one replica."""
    parts = (strategy.experimental_local_results(batch)[0] for batch in dataset)
    return [[int(line) for line in part.numpy()] for part in parts]


def read(folder: Path) -> dict[str, Steps]:
    """A worker: the numbers that it gets under each policy."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    lines = tf.data.TextLineDataset([str(folder / f"{k}.txt") for k in range(3)])

    def own_part(context: tf.distribute.InputContext) -> Any:
        """An input pipeline that is cut by hand."""
        mine = lines.shard(context.num_input_pipelines, context.input_pipeline_id)
        return mine.batch(context.get_per_replica_batch_size(4))

    by_hand = strategy.distribute_datasets_from_function(own_part)
    got = {"InputContext": numbers_in(strategy, by_hand)}
    policies = tf.data.experimental.AutoShardPolicy
    for name in ("FILE", "DATA", "OFF", "AUTO"):
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = policies[name]
        numbers = lines.batch(4).with_options(options)
        cut = strategy.experimental_distribute_dataset(numbers)
        got[name] = numbers_in(strategy, cut)
        print(f"I have read with {name}", flush=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policies.DATA
    for seed in (None, 7):
        numbers = lines.shuffle(12, seed=seed).batch(4).with_options(options)
        cut = strategy.experimental_distribute_dataset(numbers)
        got[f"DATA, seed {seed}"] = numbers_in(strategy, cut)
    tf_cluster.leave_together(folder, 2)
    return got


# %%
files = tempfile.TemporaryDirectory()
for number in range(3):
    text = "".join(f"{4 * number + line}\n" for line in range(4))
    (Path(files.name) / f"{number}.txt").write_text(text)
readers = {
    f"worker {index}": Process(
        read,
        Path(files.name),
        env=tf_cluster.task_environment(two_workers, "worker", index),
    )
    for index in range(2)
}
got = [o.value for o in run_processes(readers, seconds=170, on_output=show).values()]
for policy in got[0]:
    for worker in range(2):
        print(f"{policy:15} worker {worker}: {got[worker][policy]}")
print(guess_10.compare(sum(map(len, got[1]["FILE"]))))

# %% tags=["folded"]
# Checks of the numbers above
everything = set(range(12))
seen = [{name: sum(steps, []) for name, steps in of.items()} for of in got]
for policy in ("FILE", "DATA", "AUTO", "InputContext", "DATA, seed 7"):
    assert sorted(seen[0][policy] + seen[1][policy]) == list(range(12)), policy
assert set(seen[0]["OFF"]) == set(seen[1]["OFF"]) == everything
assert seen[0]["AUTO"] == seen[0]["FILE"] == [0, 1, 2, 3, 8, 9, 10, 11]
assert len(got[0]["FILE"]) == len(got[1]["FILE"]) and got[1]["FILE"][-1] == []
assert [len(of["DATA, seed None"]) for of in seen] == [6, 6]

# %% [markdown]
# With `OFF` both workers read everything, so each number is used twice in an epoch. `FILE` gives worker 0 two files
# and worker 1 one file: when that is used up, worker 1 gets batches of 0 numbers. It is not free: it still has to join
# each all-reduce. **Check it as we did: collect what each worker gets.**
#
# `DATA` counts elements: a worker keeps those whose turn it is. So all workers must see them in the same order. A
# `shuffle` without a seed has another order on each, and then some numbers come twice and others never:

# %%
for name in ("DATA, seed None", "DATA, seed 7"):
    both = [number for of in got for number in sum(of[name], [])]
    twice = [number for number in range(12) if both.count(number) == 2]
    never = [number for number in range(12) if number not in both]
    print(f"{name}: {len(both)} numbers in all; twice: {twice}; never: {never}")
    assert len(twice) == len(never) and len(both) == 12

# %% [markdown]
# There are as many as in an epoch, so their number does not show it. With `DATA` (or `AUTO`, where it takes `DATA`)
# **give `shuffle` a seed**, the same one on all workers.
#
# In the first row nothing is automatic. `distribute_datasets_from_function` calls your function once per worker, with
# an `InputContext` that knows how many pipelines there are, and which one this is. (Then nothing is cut for you
# either: the function makes batches for one replica.) You write such a function in the exercise.
#
# With *fewer* files than workers, `FILE` and `AUTO` end in an error on one worker, and the other waits: see
# [lesson 13b](13b_tensorflow_failures.ipynb).
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
guess_11 = predict(
    f"Four replicas, the parameters ({SIZE:,} bytes) on CPU:0. "
    "How many bytes cross between devices in a step?",
    unit="bytes",
)


# %%
own = batches_of(central, 1440, STEPS)[0]
central_trace = as_trace(moved(central_step, *own), 4)
print("sent by each device:", central_trace.bytes_sent)
print("received:           ", central_trace.bytes_received)
for each in reductions(central_step, *own):
    print(f"{each.kind}: {each.nbytes:,} bytes, for {', '.join(each.receivers)}")
print(guess_11.compare(sum(central_trace.bytes_sent)))
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
# `ParameterServerStrategy` is lesson 07b. Its processes have roles:
#
# - **ps**: servers, which have the variables.
# - **worker**: servers as well. They wait for somebody to send them a function and call it.
# - **chief**: the coordinator. The only one that runs your program. It hands out steps.
#
# The coordinator *schedules* steps, and some worker takes each of them, when it is free. A step reads the variables
# from the servers and changes them there, without waiting for any other worker. So it is **asynchronous**, and
# TensorFlow 2 has no other kind. (TensorFlow 1 had: `SyncReplicasOptimizer`, still in `tf.compat.v1.train`.)
#
# The coordinator can wait after every step (`join`). Does that make it synchronous, as in lesson 07b? There all workers
# take a part of the batch, and one update is made of all. Let us look at who computes what. Our step returns three
# things: a *ticket*, a number that each worker has drawn for itself, so that we can tell them apart; how many images it
# was given; and how many updates of others have come between its reading and its writing.


# %%
def coordinate(alive: Path) -> dict[str, Any]:
    """Train for 20 steps with a join after each; then hand out 100 steps, and join."""
    strategy, coordinator = tf_cluster.make_coordinator(alive)
    tickets = tf_cluster.worker_tickets(coordinator)
    model, step = make_trainer(strategy)
    print(
        "I: worker or server? The weights are on", *variable_devices(model.weights[0])
    )
    with strategy.scope():
        updates = tf.Variable(0, dtype=tf.int64)

    @tf.function(autograph=False)
    def watched(images: tf.Tensor, labels: tf.Tensor, tickets: Any) -> tuple:
        before = updates.read_value()
        with tf.control_dependencies([before]):  # then, and not earlier:
            loss = step(images, labels)
        with tf.control_dependencies([loss]):
            others = updates.assign_add(1).read_value() - before - 1
        return next(tickets), tf.shape(images)[0], others

    def hand_out(steps: int, wait: bool) -> list[tuple[int, int, int]]:
        results, before = [], int(updates)
        for number in range(steps):
            given = (*data.batch(number), tickets)
            results.append(coordinator.schedule(watched, args=given))
            if wait:
                coordinator.join()
        print(f"I have handed out {steps} steps; {int(updates) - before} are done")
        coordinator.join()
        return [tuple(map(int, result.fetch())) for result in results]

    joined = hand_out(STEPS, wait=True)
    after_20 = model.get_weights()
    return {"join": joined, "no join": hand_out(100, wait=False), "after 20": after_20}


at = addresses(4)
cluster = {"chief": at[:1], "worker": at[1:3], "ps": at[3:]}
place = tempfile.TemporaryDirectory()
alive = Path(place.name) / "alive"

# %%
guess_12 = predict(
    "Two workers, a batch of 240 images, join after every step. What does a worker do in a step?",
    choices=[
        "each computes for 120 images",
        "each computes for all 240, and the mean is taken",
        "one computes for all 240, the other waits",
    ],
)

# %%
chief = Process(coordinate, alive, env=tf_cluster.task_environment(cluster, "chief", 0))
served = run_processes(
    {"chief": chief, **tf_cluster.serving(cluster, alive)},
    seconds=170,
    until=["chief"],
    on_output=show,
)
by_way = served["chief"].value
for way in ("join", "no join"):
    tickets, sizes, others = zip(*by_way[way], strict=True)
    shares = sorted(tickets.count(ticket) for ticket in set(tickets))
    print(
        f"{way:7}: {len(tickets)} steps of {set(sizes)} images; by worker: {shares};",
        end=" ",
    )
    print(f"{sum(map(bool, others))} steps with updates of others in between")
after_20["ParameterServer"] = by_way["after 20"]
print(f"after 20 steps with join: {furthest(by_way['after 20'], alone):.0e} off")
one_has_all = {(size, others) for _, size, others in by_way["join"]} == {(BATCH, 0)}
print(
    guess_12.compare(
        "one computes for all 240, the other waits" if one_has_all else "?"
    )
)

# %% tags=["folded"]
# Checks of the numbers above, and of a sentence
assert hasattr(tf.compat.v1.train, "SyncReplicasOptimizer")
assert furthest(after_20["ParameterServer"], alone) < 1e-5
assert one_has_all and len(by_way["join"]) == STEPS
assert {size for _, size, _ in by_way["no join"]} == {BATCH}
assert len({ticket for ticket, _, _ in by_way["no join"]}) == 2
assert max(others for _, _, others in by_way["no join"]) > 0
places = [line for line in served["chief"].lines if "weights are on" in line]
on_server = places[0].split(" on ")[1]
assert on_server == "ps 0 CPU:0"

# %% [markdown]
# With `join` each step is one worker's, with the whole batch. The other has nothing to do until the next step is handed
# out. That is **serial**, not synchronous: the same numbers as one device, and no faster, however many workers there
# are. It is good for looking at something, and for nothing else.
#
# Without it both work at the same time, each on a whole batch of its own. Then updates of the other come between
# reading and writing: the staleness of lesson 07b. So 100 steps are not those of one device, and not the same ones in
# the next run. (How often it happens depends on the machine: the cell has counted.) Who wants synchronous steps of
# several workers takes `MultiWorkerMirroredStrategy`. What becomes of a step whose worker dies is in
# [lesson 13b](13b_tensorflow_failures.ipynb).
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
# ## In real frameworks
#
# This lesson is one. Here is torch's DDP on four ranks, with the same weights and batches, and all that we have trained
# so far next to it.

# %%
from torch.nn.parallel import DistributedDataParallel

from distlib import torch_distributed

torch_batches = [data.batch(number) for number in range(STEPS)]


def train_in_torch(comm: Communicator) -> Weights:
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )
    for parameter, array in zip(model.parameters(), data.first, strict=True):
        parameter.data.copy_(torch.tensor(array.T))
    part = slice(comm.rank, None, comm.world_size)
    with torch_distributed(comm, "gloo"):
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
# All the same training, to rounding. (The parameter servers only because we joined after each step.) So here values
# don't tell the strategies apart. What they send does, and who works. This table comes from the runs above:


# %% tags=["folded"]
# The table, from the runs above
def waits_for(step: Any, *arguments: Any) -> str:
    """How many replicas' gradients a step adds up before anyone goes on."""
    members = {e.members for e in reductions(step, *arguments) if e.nbytes > 16}
    return f"for all {max(members)} replicas"


step = trainer_of(mirrored, share_of_mean, sgd)[1]
facts = {
    "Mirrored": (
        f"all {len(variable_devices(weights))} devices",
        f"all, a ring: {theirs.messages_sent[0]} messages each",
        waits_for(step, *batch),
        "05",
    ),
    "MultiWorkerMirrored": (
        f"all {len(trained)} workers",
        f"all, a ring: {per_worker[0] // STEPS} messages each",
        f"for all {in_graph[0][0]} workers",
        "05",
    ),
    "CentralStorage": (
        ", ".join(variable_devices(central_model.weights[0])),
        f"CPU:0, gets {central_trace.bytes_received[0]:,} bytes",
        waits_for(central_step, *own),
        "04",
    ),
    "ParameterServer": (
        on_server,
        "nobody: a server adds",
        f"for nobody; with join, 1 of {len(shares)} workers works",
        "07b",
    ),
    "TPU (from the documentation)": ("every core", "all", "for all cores", "05"),
}
assert facts["Mirrored"][2] == facts["CentralStorage"][2] == "for all 4 replicas"
assert facts["MultiWorkerMirrored"][2] == "for all 3 workers"
header = "| strategy | has the variables | adds up | a step waits | lesson |"
rows = [f"| {name} | {' | '.join(told)} |" for name, told in facts.items()]
Markdown("\n".join([header, "|---" * 5 + "|", *rows]))

# %% [markdown]
# Not in the table: what you have to write yourself. `tf.distribute` has no strategy that cuts an optimizer's state over
# the replicas (lesson 11), no gossip (lesson 08), and no bound on staleness between "synchronous" and
# "asynchronous".
#
# ## In short
#
# - MirroredStrategy sums gradients: in your own loop, divide each loss by the global batch.
# - Keras 3 clips each replica's part before the sum, so the same limit means something else.
# - Without a cluster in TF_CONFIG a process trains alone and says nothing. Print the number of replicas.
# - ParameterServerStrategy is asynchronous. A `join` after each step lets one worker work at a time.
# - Collect what each worker reads before you trust auto-shard.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - MirroredStrategy is DDP, except that it sums the gradients where DDP averages, and has one bucket: a copy on each
#   device, one all-reduce of all dense gradients in a compiled step (on processors a ring; on GPUs NCCL decides).
#   MultiWorkerMirrored is the same over a network.
# - The optimizer sums. Divide each loss by the size of the *global* batch; for the last batch by its true size, if
#   each step is to be a mean. The loss objects of Keras 3 have divided already, by replicas: right as long as all have
#   the same number of samples.
# - Keras 3 clips each replica's share before the sum, Keras 2 the sum. So in Keras 3 a limit means something else with
#   replicas: how much else depends on how much the shares differ.
# - TF_CONFIG: without a cluster a process trains alone, without an error. Check the text, and print the number of
#   replicas.
# - ParameterServerStrategy is asynchronous. With `join` after each step it is serial: one worker works at a time.
# - Collect what each worker reads before you trust auto-shard. If it shares out files, give it at least as many as
#   workers. If it shares out elements (`DATA`), give `shuffle` a seed: all workers must have the same order.
#
# </details>
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
