"""Pieces of TensorFlow programs around a student's function: replicas of a MirroredStrategy, and input pipelines.

Everything is in one process: four logical CPU devices, of which a strategy takes as many as it has replicas.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

IMPORTED_LATE = ("tensorflow", "distlib.frameworks.tensorflow_graphs")  # nine seconds of the processor
MANY_CALLS = True  # of the framework itself, while it makes a graph: see checks.library_calls
DEVICES = 4
_SPARE_BATCHES = 3  # that a pipeline may give too many, before it is taken for endless


def global_losses(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(losses, weights, global_batch_size)` on every replica, inside a tf.function.

    The losses are those of a linear model, (features @ parameters - labels) ** 2.

    Args:
        inputs: "parameters" [features]; "shares": for each replica its "features" [samples, features], "labels" and
            "weights" [samples]; "global_batch_size".

    Returns:
        "losses": what each replica's call gave; "gradients": of these with respect to the replica's own parameters.
    """
    tf = _tensorflow()
    strategy = _strategy(len(inputs["shares"]))
    with strategy.scope():
        parameters = tf.Variable(inputs["parameters"].numpy())

    @tf.function
    def on_all(features: Any, labels: Any, weights: Any) -> Any:
        return strategy.run(on_replica, args=(features, labels, weights))

    def on_replica(features: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            losses = (tf.linalg.matvec(features, parameters) - labels) ** 2
            loss = function(losses, weights, inputs["global_batch_size"])
        is_number = tf.is_tensor(loss) and loss.dtype.is_floating
        return loss, tape.gradient(loss, parameters) if is_number else None

    found = on_all(*(_per_replica(strategy, inputs["shares"], name) for name in ("features", "labels", "weights")))
    return dict(zip(("losses", "gradients"), (_by_replica(strategy, each) for each in found), strict=True))


def training(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(strategy, variables, loss_function, learning_rate)`, and what it returns for each batch.

    The loss of a sample is that of a linear model, the sum of (features @ matrix + biases - labels) ** 2.

    Args:
        inputs: "variables": the matrix, and biases; "batches": for each step a list by replica of "features", "labels"
            and "weights"; "sizes": the size of each global batch; "learning_rate".

    Returns:
        "losses": what each step returned; "variables": after each step, for each variable the copies, by replica;
        "calls": for each step, the calls of loss_function: the number of the device (-1 if it is not one of the
        strategy's) and how many samples (-1: left open); "is_function": whether it is a tf.function; "copied": what its
        graph copies between devices: from, to, bytes (-1: not known).
    """
    tf = _tensorflow()
    strategy = _strategy(len(inputs["batches"][0]))
    calls: list[tuple[int, int]] = []
    with strategy.scope():
        variables = [tf.Variable(each.numpy()) for each in inputs["variables"]]

    def loss_function(features: Any, labels: Any) -> Any:
        matrix, *biases = variables
        losses = tf.reduce_sum((features @ matrix + sum(biases) - labels) ** 2, axis=1)
        calls.append((_device_number(losses.device), -1 if features.shape[0] is None else features.shape[0]))
        return losses

    step = function(strategy, variables, loss_function, inputs["learning_rate"])
    seen: dict[str, Any] = {"losses": [], "variables": [], "calls": []}
    is_function = hasattr(step, "get_concrete_function")
    for shares, size in zip(inputs["batches"] * is_function, inputs["sizes"], strict=False):
        batch = [_per_replica(strategy, shares, name) for name in ("features", "labels", "weights")]
        seen["losses"].append(_as_torch(step(*batch, tf.constant(float(size)))))
        seen["variables"].append([_by_replica(strategy, each) for each in variables])
        seen["calls"].append(list(calls))
        calls.clear()
    copied = _copied(step, *batch, tf.constant(float(size))) if is_function else []
    return {**seen, "is_function": is_function, "copied": copied}


def _copied(step: Any, *arguments: Any) -> list[tuple[str, str, int]]:
    from distlib.frameworks.tensorflow_graphs import copies  # which imports TensorFlow

    return [
        (each.source, each.destination, -1 if each.nbytes is None else each.nbytes) for each in copies(step, *arguments)
    ]


def shards(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> list[Any]:
    """Call `function(dataset, num_workers, index, global_batch_size)`, and go through what it returns.

    Args:
        inputs: "samples" [samples, …]; "num_workers"; "indices": of the workers to call it for; "global_batch_size";
            "is_counted": whether the data set knows its length.

    Returns:
        For each index the batches that the pipeline gave, each a list of tensors, with "endless" in the place of the
        rest; or {"refused": the text of the ValueError that the call raised}.
    """
    tf = _tensorflow()
    dataset = tf.data.Dataset.from_tensor_slices(inputs["samples"].numpy())
    if not inputs["is_counted"]:
        dataset = dataset.filter(lambda sample: True)
    most = len(inputs["samples"]) + _SPARE_BATCHES
    return [_shard(function, dataset, inputs, index, most) for index in inputs["indices"]]


def _shard(function: Callable[..., Any], dataset: Any, inputs: dict[str, Any], index: int, most: int) -> Any:
    try:
        pipeline = function(dataset, inputs["num_workers"], index, inputs["global_batch_size"])
    except ValueError as error:
        return {"refused": str(error)}
    batches = [_parts(batch) for batch in itertools.islice(pipeline, most + 1)]
    return [*batches[:most], *["endless"] * (len(batches) > most)]


# ── the devices ──────────────────────────────────────────────────────────────────────────────────────────────────────


def get_ready() -> None:
    """Ask for the devices, which are made when TensorFlow computes something for the first time."""
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    (processor,) = tf.config.list_physical_devices("CPU")
    with contextlib.suppress(RuntimeError):  # it has computed: then the devices are there, or never will be
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * DEVICES)


def _tensorflow() -> Any:
    """TensorFlow with its devices."""
    import tensorflow as tf

    get_ready()
    if len(tf.config.list_logical_devices("CPU")) < DEVICES:
        raise RuntimeError(f"TensorFlow computed something before it had {DEVICES} devices: run the set-up cell first")
    return tf


@cache
def _strategy(replicas: int) -> Any:
    """A strategy of that many replicas. Sums are made on its first device: strategies of two sizes can't share a
    collective group in one process.
    """
    import tensorflow as tf

    devices = [f"CPU:{number}" for number in range(replicas)]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


def _per_replica(strategy: Any, shares: Sequence[dict[str, torch.Tensor]], name: str) -> Any:
    """One of the tensors of each replica's share, on its device."""
    import tensorflow as tf

    def value(context: Any) -> Any:
        replica = context.replica_id_in_sync_group
        with tf.device(strategy.extended.worker_devices[replica]):
            return tf.constant(shares[replica][name].numpy())

    return strategy.experimental_distribute_values_from_function(value)


def _by_replica(strategy: Any, value: Any) -> list[Any]:
    return [_as_torch(each) for each in strategy.experimental_local_results(value)]


def _device_number(device: str) -> int:
    """1 for "/job:localhost/replica:0/task:0/device:CPU:1"; -1 if the device is left open."""
    return int(device.rpartition(":")[2]) if ":CPU:" in device else -1


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────────────


def _parts(batch: Any) -> list[Any]:
    return [_as_torch(part) for part in (batch if isinstance(batch, tuple | list) else [batch])]


def _as_torch(value: Any) -> Any:
    """A tensor of TensorFlow's, or an array, as one of torch's; anything else as it is."""
    array = value.numpy() if hasattr(value, "numpy") and not isinstance(value, torch.Tensor) else value
    return torch.tensor(array) if hasattr(array, "dtype") and array.dtype.kind in "fiub" else value
