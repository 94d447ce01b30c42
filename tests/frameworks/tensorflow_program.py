"""Graphs of known content, counted, as JSON. Run in a process of its own: see test_tensorflow."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)

from tensorflow.python.eager import context  # noqa: E402  for what TensorFlow itself says that it runs

from distlib.frameworks.tensorflow_graphs import (  # noqa: E402
    all_reduces,
    copies,
    reductions,
    variable_devices,
)

DEVICES = [f"CPU:{index}" for index in range(4)]
FOUR = tf.distribute.MirroredStrategy(DEVICES, tf.distribute.ReductionToOneDevice())
found: dict[str, Any] = {}


def sends(function: Any, *arguments: Any) -> list[list[str]]:
    """From where to where tensors are sent in the graphs that TensorFlow makes of a function in its first call."""
    context.context().enable_run_metadata()
    function(*arguments)
    metadata = context.context().export_run_metadata()
    context.context().disable_run_metadata()
    nodes = [node for graph in metadata.partition_graphs for node in graph.node if node.op == "_Send"]
    numbers = [node for node in nodes if "/ctrl/" not in node.input[0]]
    return sorted([node.attr[end].s.decode()[-5:] for end in ("send_device", "recv_device")] for node in numbers)


def count(name: str, function: Any, *arguments: Any) -> None:
    """Count a function, and compare with what TensorFlow runs."""
    try:
        really = sends(function, *arguments)
    except tf.errors.InvalidArgumentError:  # NCCL needs GPUs
        really = None
    every = copies(function, *arguments)
    found[name] = {
        "reductions": [vars(each) for each in reductions(function, *arguments)],
        "all-reduces": len(all_reduces(function, *arguments)),
        "copies": sorted([each.source, each.destination] for each in every),
        "sends": really,
        "bytes": [each.nbytes for each in every],
    }


def each_device(function: Callable[[int], Any]) -> Any:
    return FOUR.experimental_distribute_values_from_function(lambda replica: function(replica.replica_id_in_sync_group))


# the step of a strategy, in every way in which it adds gradients


def step_of(strategy: Any, nested: bool) -> Any:
    with strategy.scope():
        weights = tf.Variable(tf.ones((64, 10)), name="weights")
        bias = tf.Variable(tf.zeros(10), name="bias")

    def on_replica(images: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.relu(images @ weights + bias) ** 2)
        gradients = tape.gradient(loss, [weights, bias])
        replica = tf.distribute.get_replica_context()
        if isinstance(strategy, tf.distribute.MirroredStrategy):
            for variable, gradient in zip([weights, bias], replica.all_reduce("SUM", gradients), strict=True):
                variable.assign_sub(0.1 * gradient)
        else:
            replica.merge_call(reduce_and_update, args=([weights, bias], gradients))
        return loss

    def reduce_and_update(strategy: Any, variables: Any, gradients: Any) -> None:
        for variable, gradient in zip(variables, gradients, strict=True):
            total = strategy.extended.reduce_to("SUM", gradient, variable)
            strategy.extended.update(variable, lambda variable, g: variable.assign_sub(0.1 * g), args=(total,))

    call = tf.function(on_replica) if nested else on_replica
    return weights, tf.function(lambda images: strategy.reduce("SUM", strategy.run(call, args=(images,)), axis=None))


distribute = tf.distribute
WAYS = {
    "one device": lambda: distribute.MirroredStrategy(DEVICES, distribute.ReductionToOneDevice()),
    "hierarchical": lambda: distribute.MirroredStrategy(DEVICES, distribute.HierarchicalCopyAllReduce()),
    "collective": lambda: distribute.MirroredStrategy(DEVICES),
    "nccl": lambda: distribute.MirroredStrategy(DEVICES, distribute.NcclAllReduce()),
    "central": lambda: distribute.experimental.CentralStorageStrategy(DEVICES, "CPU:0"),
}
batch = each_device(lambda _: tf.ones((8, 64)))
for way, make in WAYS.items():
    for nested in (False, True):
        weights, step = step_of(make(), nested)
        count(f"{way}, nested" if nested else way, step, batch)
        found[f"{way}: weights"] = variable_devices(weights)


# small graphs


def add_up(parts: Any) -> Any:
    """Add up in a chain, on the devices' own initiative, and use the result on the first two."""
    values = FOUR.experimental_local_results(parts)
    total = values[0] + values[1] + values[2] + values[3]
    results = []
    for device in DEVICES[:2]:
        with tf.device(device):
            results.append(tf.square(total))
    return results


@tf.function
def chain(parts: Any) -> Any:
    return add_up(FOUR.run(tf.sqrt, args=(parts,)))


@tf.function
def unused(parts: Any) -> Any:
    FOUR.reduce("SUM", FOUR.run(tf.sqrt, args=(parts,)), axis=None)
    return tf.constant(1.0)


@tf.function
def mean(parts: Any) -> Any:
    def on_replica(part: tf.Tensor) -> tf.Tensor:
        return tf.square(tf.distribute.get_replica_context().all_reduce("MEAN", tf.sqrt(part)))

    return FOUR.run(on_replica, args=(parts,))


@tf.function
def stacked(parts: Any) -> Any:
    return tf.reduce_sum(tf.stack(FOUR.experimental_local_results(FOUR.run(tf.sqrt, args=(parts,)))), axis=0)


@tf.function
def none(parts: Any) -> Any:
    return FOUR.run(lambda part: part + tf.sqrt(part), args=(parts,))


@tf.function(input_signature=[tf.TensorSpec([None, 3])])
def unknown(array: tf.Tensor) -> tf.Tensor:
    with tf.device("CPU:1"):
        return tf.sqrt(array)


@tf.function
def loop(array: tf.Tensor) -> tf.Tensor:
    for _ in tf.range(3):
        with tf.device("CPU:1"):
            array = tf.sqrt(array)
        with tf.device("CPU:2"):
            array = tf.square(array)
    return array


@tf.function
def calm_loop(array: tf.Tensor) -> tf.Tensor:
    for _ in tf.range(3):
        array = tf.sqrt(array)
    return array


parts = each_device(lambda index: tf.fill((5,), float(index)))
for function in (chain, unused, mean, stacked, none):
    count(function.python_function.__name__, function, parts)
count("unknown", unknown, tf.ones((2, 3)))
count("calm loop", calm_loop, tf.ones(3))
for name, call in {
    "loop": lambda: copies(loop, tf.ones(3)),
    "no graph": lambda: copies(len),
    "no variable": lambda: variable_devices(3),
}.items():
    try:
        call()
    except (ValueError, TypeError) as error:
        found[name] = f"{type(error).__name__}: {error}"
with FOUR.scope():
    of_keras = tf.keras.Variable(tf.ones(3))
found["keras"] = variable_devices(of_keras)
found["plain"] = variable_devices(tf.Variable(1.0))
found["concrete"] = [each.nbytes for each in copies(unknown.get_concrete_function())]
print(json.dumps(found))
