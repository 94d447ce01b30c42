"""What a TensorFlow function communicates, read from its graph.

    gradient@CPU:0 ─────────┐                       ┌──► AssignSub@CPU:0      4 reads it where it is
    gradient@CPU:1 ── copy ─┤                       ├─ copy ──► AssignSub@CPU:1
    gradient@CPU:2 ── copy ─┼──► AddN@CPU:0 ────────┼─ copy ──► AssignSub@CPU:2
    gradient@CPU:3 ── copy ─┘    a reduction        └─ copy ──► AssignSub@CPU:3

A graph says on which device each operation runs. Wherever a tensor is made on one device and used on another,
TensorFlow copies it, once per receiving device. An addition of tensors from several devices is a reduction; if its
result gets to all of them, an all-reduce. CollectiveReduceV2 and NcclAllReduce are all-reduces by themselves: there is
one operation on each device, and they find each other by a key.

Counted is what is needed for the results and for what the function changes, before TensorFlow's own optimizer looks at
the graph. The tests compare it with the sends in the graphs that TensorFlow runs.

Source: https://www.tensorflow.org/guide/intro_to_graphs
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tensorflow as tf

COLLECTIVES = ("CollectiveReduceV2", "NcclAllReduce")
_SUMS = ("AddN", "AddV2", "Add", "Sum", "Mean")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_PASSING = (  # operations that hand on the numbers that they get
    *("Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "Split", "SplitV", "ConcatV2", "Pack", "Cast"),
)
_SCALING = ("Mul", "RealDiv")  # by a constant: they do, too
_GIVEN = ("Const", "Placeholder", "ReadVariableOp")
_WITH_INPUT = ("Identity", "Shape", "ShapeN", "Size", "Rank")  # without a device, they run where their input is


@dataclass(frozen=True)
class Reduction:
    """An addition over devices.

    Attributes:
        kind: TensorFlow's name of the operation, such as "AddN" or "CollectiveReduceV2".
        devices: whose numbers are added, such as ("CPU:0", "CPU:1").
        receivers: the devices that use the result.
        nbytes: of the result; None if the graph does not say how large it is.
        members: how many take part, those in other processes included.
    """

    kind: str
    devices: tuple[str, ...]
    receivers: tuple[str, ...]
    nbytes: int | None
    members: int

    @property
    def is_all_reduce(self) -> bool:
        """Whether every device that gives something gets the result."""
        return set(self.devices) <= set(self.receivers)


@dataclass(frozen=True)
class CopyToDevice:
    """A tensor that is made on one device and used on another.

    Attributes:
        tensor: its name in the graph.
        source, destination: devices, such as "CPU:0".
        nbytes: None if the graph does not say how large it is.
    """

    tensor: str
    source: str
    destination: str
    nbytes: int | None


def reductions(function: Any, *arguments: Any) -> list[Reduction]:
    """All additions over several devices that a call needs, in the order of the graph.

    Args:
        function: a `tf.function`, a concrete function, or its graph.
        arguments: of the call. They are not changed, and nothing is run. They say on which devices the inputs are;
            and for a `tf.function` how large. Without them, inputs are on the first device.

    Raises:
        TypeError: there is no graph in `function`.
        ValueError: a loop or a branch contains communication: the graph does not say how often it runs.
    """
    nodes = _needed(function, arguments)
    readers = _readers(nodes)
    return [*_collectives(nodes), *(_addition(node, readers) for node in nodes if node.adds_over_devices)]


def all_reduces(function: Any, *arguments: Any) -> list[Reduction]:
    """Those of `reductions` whose result gets to all devices that have contributed."""
    return [each for each in reductions(function, *arguments) if each.is_all_reduce]


def copies(function: Any, *arguments: Any) -> list[CopyToDevice]:
    """The tensors that a call copies between devices; arguments and errors as for `reductions`.

    What collective operations send is not among them: see `Reduction`.
    """
    found: dict[tuple[str, int, str], CopyToDevice] = {}
    for node in _needed(function, arguments):
        for source, index in node.inputs:
            if source.device != node.device and not source.is_handle:
                key = (source.name, index, node.device)
                name = f"{source.name}:{index}"
                found.setdefault(key, CopyToDevice(name, source.device, node.device, source.sizes[index]))
    return list(found.values())


def variable_devices(variable: Any) -> tuple[str, ...]:
    """On which devices a variable lives: ("CPU:0", "CPU:1") for one that is mirrored on two.

    Args:
        variable: TensorFlow's (also a mirrored or sharded one) or Keras's.

    Raises:
        TypeError: something else.
    """
    inside = getattr(variable, "value", None)
    of_tensorflow = variable if inside is None or callable(inside) else inside  # Keras's has one inside
    parts = getattr(of_tensorflow, "values", None) or getattr(of_tensorflow, "variables", None) or [of_tensorflow]
    if callable(parts) or not all(hasattr(part, "device") for part in parts):
        raise TypeError(f"expected a variable, got {type(variable).__name__}")
    return tuple(short_device(part.device) for part in parts)


def short_device(device: str) -> str:
    """A device as it is called here: "CPU:1" in this process, "ps 0 CPU:0" in another; "CPU:0" if it is not given."""
    spec = tf.DeviceSpec.from_string(device or "")
    here = f"{spec.device_type or 'CPU'}:{spec.device_index or 0}"
    return here if spec.job in (None, "localhost") else f"{spec.job} {spec.task or 0} {here}"


# ── the graph, with the functions that it calls put into their places ────────────────────────────────────────────────


@dataclass(eq=False)
class _Node:
    """An operation. sizes: of its outputs in bytes. inputs: (node, which of its outputs)."""

    name: str
    kind: str
    device: str
    sizes: list[int | None]
    inputs: list[tuple[_Node, int]]
    controls: list[_Node]
    operation: Any = None
    is_handle: bool = False
    is_result: bool = False
    number: int = field(default_factory=itertools.count().__next__)

    @cached_property
    def hands_on(self) -> bool:
        """Whether its numbers are those that it gets, up to a factor."""
        scaled = self.kind in _SCALING and any(source.kind == "Const" for source, _ in self.inputs)
        return bool(self.inputs) and (self.kind in _PASSING or scaled)

    @cached_property
    def adds_over_devices(self) -> bool:
        """Whether it is a reduction. The sum of a result and a variable is none, wherever the variable is."""
        with_given = self.kind in ("AddV2", "Add") and any(source.kind in _GIVEN for source, _ in self.inputs)
        return self.kind in _SUMS and not with_given and len(self.origins) > 1

    @cached_property
    def origins(self) -> frozenset[str]:
        """The devices on which the numbers that it gets were computed."""
        numbers = [source for source, _ in self.inputs if source.kind != "Const"]
        looked_through = [source.hands_on or source.adds_over_devices for source in numbers]
        each = zip(numbers, looked_through, strict=True)
        return frozenset().union(*(source.origins if through else {source.device} for source, through in each))


_Output = tuple[_Node, int]


def _needed(function: Any, arguments: Sequence[Any]) -> list[_Node]:
    """The nodes that the results and the side effects of a call need, in the order in which they were made."""
    graph = _graph_of(function, arguments)
    results, effects = _flatten(graph, _inputs(graph, arguments), "CPU:0", "")
    for node, _ in results:
        node.is_result = True
    needed: set[_Node] = set()
    waiting = [*(node for node, _ in results), *effects]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += [*(source for source, _ in node.inputs), *node.controls]
    return sorted(needed, key=lambda node: node.number)


def _graph_of(function: Any, arguments: Sequence[Any]) -> Any:
    if hasattr(function, "get_concrete_function"):
        function = function.get_concrete_function(*arguments)
    graph = getattr(function, "graph", function)
    if not hasattr(graph, "captures") or not hasattr(graph, "structured_outputs"):
        raise TypeError(f"expected a tf.function, a concrete function or its graph, got {type(function).__name__}")
    return graph


def _inputs(graph: Any, arguments: Sequence[Any]) -> list[_Node]:
    """A node for each input of the graph: first the arguments, then the variables and others that it captures."""
    tensors = [each for each in tf.nest.flatten(arguments, expand_composites=True) if tf.is_tensor(each)]
    captured = {id(inner): outer for outer, inner in graph.captures}
    own = [placeholder for placeholder in graph.inputs if id(placeholder) not in captured]
    outside = {**captured, **{id(inner): outer for inner, outer in zip(own, tensors, strict=False)}}
    return [_input(placeholder, outside.get(id(placeholder))) for placeholder in graph.inputs]


def _input(placeholder: Any, outside: Any) -> _Node:
    device = short_device(getattr(outside, "device", ""))
    shape = getattr(outside, "shape", placeholder.shape)
    size = _size(placeholder.dtype, shape if shape.is_fully_defined() else placeholder.shape)
    is_handle = placeholder.dtype in (tf.resource, tf.variant)
    return _Node(placeholder.op.name, "Placeholder", device, [size], [], [], placeholder.op, is_handle)


def _size(dtype: Any, shape: Any) -> int | None:
    if not shape.is_fully_defined() or dtype in (tf.resource, tf.variant, tf.string):
        return None
    return int(dtype.size) * math.prod(shape.as_list())


def _flatten(graph: Any, inputs: Sequence[_Output | _Node], default: str, prefix: str) -> tuple[list, list[_Node]]:
    """Nodes for a graph. Returns its results, and the nodes that its side effects need."""
    outputs: dict[str, _Output] = {}
    nodes: dict[str, _Node] = {}
    for placeholder, given in zip(graph.inputs, inputs, strict=True):
        outputs[placeholder.name] = (given, 0) if isinstance(given, _Node) else given
        nodes[placeholder.op.name] = outputs[placeholder.name][0]
    for operation in graph.get_operations():  # each stands after its inputs
        if operation.name not in nodes:
            sources = [outputs[tensor.name] for tensor in operation.inputs]
            device = _device_of(operation, sources, nodes, default)
            make = _call if operation.type in _CALLS else _node
            nodes[operation.name], results = make(operation, sources, device, prefix)
            outputs |= {tensor.name: result for tensor, result in zip(operation.outputs, results, strict=True)}
    for operation in graph.get_operations():
        nodes[operation.name].controls += [nodes[before.name] for before in operation.control_inputs]
    return [outputs[tensor.name] for tensor in graph.outputs], [nodes[op.name] for op in graph.control_outputs]


def _node(operation: Any, sources: list[_Output], device: str, prefix: str) -> tuple[_Node, list[_Output]]:
    _check_bodies(operation)
    sizes = [_size(tensor.dtype, tensor.shape) for tensor in operation.outputs]
    is_handle = any(tensor.dtype in (tf.resource, tf.variant) for tensor in operation.outputs)
    node = _Node(prefix + operation.name, operation.type, device, sizes, sources, [], operation, is_handle)
    return node, [(node, index) for index in range(len(sizes))]


def _call(operation: Any, sources: list[_Output], device: str, prefix: str) -> tuple[_Node, list[_Output]]:
    """What a call of another function needs: that function's nodes, and a node that stands for its end."""
    body = _body(operation.graph, operation.get_attr("f").name)
    results, effects = _flatten(body, sources, device, f"{prefix}{operation.name}/")
    end = _Node(prefix + operation.name, "NoOp", device, [], [], effects)
    waits = bool(effects or operation.control_inputs)
    return end, [_after(result, end) for result in results] if waits else results


def _after(result: _Output, end: _Node) -> _Output:
    """A function's result, which is there when its side effects are done."""
    node, index = result
    size = node.sizes[index]
    return _Node(f"{node.name}/result", "Identity", node.device, [size], [result], [end], is_handle=node.is_handle), 0


def _body(graph: Any, name: str) -> Any:
    while graph is not None:
        if graph._is_function(name):
            return graph._get_function(name).graph
        graph = getattr(graph, "outer_graph", None)
    raise ValueError(f"the graph calls a function {name}, and does not contain it")


def _check_bodies(operation: Any) -> None:
    """A loop's body may compute, but not communicate: the graph does not say how often it runs."""
    for attribute in operation.node_def.attr.values():
        for name in [attribute.func.name, *(each.name for each in attribute.list.func)]:
            if name and _communicates(_body(operation.graph, name)):
                raise ValueError(
                    f"cannot count: {operation.type} {operation.name} contains communication, and the graph does not "
                    "say how often that runs. Count one step, and call it in a loop of Python's."
                )


def _communicates(graph: Any) -> bool:
    operations = graph.get_operations()
    if any(operation.type in COLLECTIVES for operation in operations):
        return True
    calls = [_body(graph, operation.get_attr("f").name) for operation in operations if operation.type in _CALLS]
    return len({operation.device for operation in operations} - {""}) > 1 or any(map(_communicates, calls))


def _device_of(operation: Any, sources: list[_Output], nodes: dict[str, _Node], default: str) -> str:
    """The device that an operation runs on, by the rules of TensorFlow's placer."""
    handles = [source for source, _ in sources if source.is_handle]
    if handles:  # a variable is read and written where it is
        return handles[0].device
    if operation.device:
        return short_device(operation.device)
    for group in operation.colocation_groups():
        other = group.decode().removeprefix("loc:@")
        if other in nodes:
            return nodes[other].device
    if operation.type in _WITH_INPUT and sources:
        return sources[0][0].device
    if not sources and len(operation.outputs) == 1:
        readers = operation.outputs[0].consumers()
        if len(readers) == 1 and readers[0].device:
            return short_device(readers[0].device)
    return default


# ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _readers(nodes: Iterable[_Node]) -> dict[_Node, list[_Node]]:
    found = defaultdict(list)
    for node in nodes:
        for source, _ in node.inputs:
            found[source].append(node)
    return found


def _receivers(node: _Node, readers: dict[_Node, list[_Node]]) -> set[str]:
    """The devices on which something is done with what a node gives, or which return it."""
    found = {node.device} if node.is_result else set()
    for reader in readers[node]:
        found |= _receivers(reader, readers) if reader.hands_on else {reader.device}
    return found


def _addition(node: _Node, readers: dict[_Node, list[_Node]]) -> Reduction:
    receivers = tuple(sorted(_receivers(node, readers)))
    return Reduction(node.kind, tuple(sorted(node.origins)), receivers, node.sizes[0], len(node.origins))


def _collectives(nodes: Iterable[_Node]) -> Iterator[Reduction]:
    """The first collective operation of each device makes an all-reduce with the first of each other one, and so on.

    That is how TensorFlow hands out their keys when the function is called.
    """
    rounds: dict[Any, list[_Node]] = defaultdict(list)
    counts: dict[Any, int] = defaultdict(int)
    for node in nodes:
        if node.kind in COLLECTIVES:
            group, _ = _group(node)
            rounds[group, counts[group, node.device]].append(node)
            counts[group, node.device] += 1
    for members in rounds.values():
        devices = tuple(sorted(node.device for node in members))
        size = _group(members[0])[1] or len(members)
        yield Reduction(members[0].kind, devices, devices, members[0].sizes[0], size)


def _group(node: _Node) -> tuple[Any, int | None]:
    """The key of the group that a collective operation belongs to, and how many are in it."""
    if node.kind == "NcclAllReduce":
        return node.operation.get_attr("shared_name"), int(node.operation.get_attr("num_devices"))
    return _constant(node.inputs[2]), _constant(node.inputs[1])


def _constant(output: _Output) -> int | None:
    """The value of a constant; None for something else."""
    node, _ = output
    while node.hands_on:
        node, _ = node.inputs[0]
    return tf.make_ndarray(node.operation.get_attr("value")).item() if node.kind == "Const" else None
