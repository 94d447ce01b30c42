"""Programs of JAX around a student's function: on the devices of one process, and as what the compiler makes of them.

The text of a compiled program travels to the check, which counts what is communicated. The process must not have used
JAX before, or with as many devices, as a set-up cell makes them.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

IMPORTED_LATE = ("jax", "jax.numpy", "jax.sharding")  # a second or two
MANY_CALLS = True  # of the framework itself, while it makes a graph: see checks.library_calls
DEVICES = 8
_METADATA = re.compile(r", metadata=\{[^}]*\}")

Play = dict[str, Any]


def on_devices(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Play:
    """Call `function(piece, axis_name)` on every device of a mesh, in one compiled program.

    Args:
        inputs: "mesh": pairs of an axis' name and its size; "axis"; "pieces" [devices, *shape]: one for each device, in
            the order of the mesh; "may_refuse": whether a ValueError is an answer.

    Returns:
        "results" [devices, *shape], and the "program"; or its words, "refused".
    """
    jax, P = _jax(), _jax().sharding.PartitionSpec
    mesh, pieces = _mesh(inputs["mesh"]), inputs["pieces"].numpy()

    def on_device(row: Any) -> Any:
        result = function(row[0], inputs["axis"])
        if not isinstance(result, jax.Array):
            raise TypeError(f"expected an array to be returned, got {type(result).__name__}")
        return result[None]

    everywhere = P(mesh.axis_names)
    mapped = jax.shard_map(on_device, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
    try:
        compiled = jax.jit(mapped).lower(pieces).compile()
    except ValueError as error:
        if inputs["may_refuse"]:
            return {"refused": str(error)}
        raise
    return {"results": _as_torch(compiled(pieces)), "program": _shortened(compiled.as_text())}


def two_layers(lib: Any, params: Any, inputs: Any, targets: Any) -> Any:
    """A loss, in the words of jax.numpy as in those of torch: `lib` is one of them."""
    hidden = lib.tanh(inputs @ params["W1"] + params["b1"])
    return lib.mean((hidden @ params["W2"] + params["b2"] - targets) ** 2)


def list_of_layers(lib: Any, params: Any, inputs: Any, targets: Any) -> Any:
    """Another loss, whose parameters are a list of dicts, and a scalar."""
    for layer in params["layers"]:
        inputs = lib.tanh(inputs @ layer["W"] + layer["b"])
    return lib.mean(lib.log(1 + (params["scale"] * inputs - targets) ** 2))


def line(lib: Any, params: Any, inputs: Any, targets: Any) -> Any:
    """A loss of samples of any shape, with two numbers as parameters."""
    return lib.mean((params["slope"] * inputs + params["start"] - targets) ** 2)


LOSSES = {"two layers": two_layers, "list of layers": list_of_layers, "line": line}


def training(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Play:
    """Make a step with `function(loss_of, mesh, rate)`, and call it with one batch after the other.

    Each call gets the parameters that the one before returned; the last one gets the first parameters again.

    Args:
        inputs: "devices": how many; "first": the number of the first one; "axis"; "model": of LOSSES; "rate"; "params":
            a tree; "batches": pairs of inputs and targets.

    Returns:
        "calls": for each call its "loss", as of every device; how often something was "compiled"; the "programs" that
        are new; and the new parameters, "params": for each array of the tree what every device holds, by its place in
        the mesh. "tree": whether they are a tree like before; "kept": whether the tree that the call got still holds
        what it held.
    """
    jax, P = _jax(), _jax().sharding.PartitionSpec
    mesh = _mesh([(inputs["axis"], inputs["devices"])], inputs["first"])
    start = jax.tree.map(lambda tensor: tensor.numpy(), inputs["params"])
    whole = jax.sharding.NamedSharding(mesh, P())
    params = jax.device_put(start, whole)
    step = function(lambda *given: LOSSES[inputs["model"]](jax.numpy, *given), mesh, inputs["rate"])
    calls, known = [], _live_programs()
    for number, batch in enumerate(inputs["batches"], start=1):
        params = jax.device_put(start, whole) if number == len(inputs["batches"]) else params
        before, given = _compiled(), jax.tree.leaves(params)
        returned = step(params, *(tensor.numpy() for tensor in batch))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeError(f"a step returns two things, new parameters and the loss; got {type(returned).__name__}")
        kept = [id(leaf) for leaf in given] == [id(leaf) for leaf in jax.tree.leaves(params)]
        params, loss = returned
        programs = [program for program in _live_programs() if not any(program is each for each in known)]
        known += programs
        tree = jax.tree.structure(params) == jax.tree.structure(start)
        for leaf in [loss, *jax.tree.leaves(params)] * tree:
            if not isinstance(leaf, jax.Array):
                raise TypeError(f"loss and parameters are arrays of JAX's; got {type(leaf).__name__}")
        calls.append(
            {
                "loss": _by_device(loss, mesh),
                "compiled": _compiled() - before,
                "tree": tree,
                "kept": kept,
                "programs": [_shortened(program.hlo_modules()[0].to_string()) for program in programs],
                "params": [_by_device(leaf, mesh) for leaf in jax.tree.leaves(params)],
            }
        )
        if not tree or any(part is None for held in calls[-1]["params"] for part in held):
            break  # JAX crashes if a program for other devices is called again with parameters like the first ones
    return {"calls": calls}


def _by_device(array: Any, mesh: Any) -> list[Any]:
    """What each device of the mesh holds of an array; None for a device that has nothing of it."""
    shards = {shard.device: shard.data for shard in getattr(array, "addressable_shards", ())}
    return [_as_torch(shards[device]) if device in shards else None for device in mesh.devices.flat]


def _live_programs() -> list[Any]:
    """All compiled programs that somebody may still run."""
    return list(_jax().devices()[0].client.live_executables())


@cache
def _counter() -> list[str]:
    """Grows with every compilation from now on."""
    done: list[str] = []
    _jax().monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: done.append(event) if "backend_compile" in event else None
    )
    return done


def _compiled() -> int:
    """How many programs have been compiled so far."""
    return len(_counter())


def placing(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Play:
    """Ask `function(mesh, shapes, way)` where the arrays of a training step lie, and compile it like that.

    Args:
        inputs: "devices", "axis"; "widths": of a network's layers; "samples"; "way"; "may_refuse": whether a ValueError
            is an answer.

    Returns:
        "params": the spec of each parameter, by name, as a list with None, the name of a mesh axis, or several, for
        each dimension; "batch"; "kept": whether shapes is as it was; the "program", if the specs fit. Or the words of a
        ValueError, "refused".
    """
    jax = _jax()
    widths, mesh = inputs["widths"], _mesh([(inputs["axis"], inputs["devices"])])
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (rows, columns) in enumerate(itertools.pairwise(widths), start=1):
        shapes |= {f"W{layer}": (rows, columns), f"b{layer}": (columns,)}
    given = dict(sorted(shapes.items()))
    try:
        returned = function(mesh, given, inputs["way"])
    except ValueError as error:
        if inputs["may_refuse"]:
            return {"refused": str(error)}
        raise
    if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[0], dict):
        raise TypeError("two things are returned, a dict of specs and the spec of the batch")
    specs, of_batch = returned
    played: Play = {"params": {name: _entries(spec) for name, spec in specs.items()}, "batch": _entries(of_batch)}
    played["kept"] = given == shapes
    if {name: None for name in shapes} != dict.fromkeys(specs) or None in (*played["params"].values(), played["batch"]):
        return played

    def take(shape: tuple[int, ...], spec: Any) -> Any:
        entries = [tuple(entry) if isinstance(entry, list) else entry for entry in spec]
        where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*entries))
        return jax.ShapeDtypeStruct(shape, "float32", sharding=where)

    try:
        params = {name: take(shape, played["params"][name]) for name, shape in shapes.items()}
        batch = [take((inputs["samples"], width), played["batch"]) for width in (widths[0], widths[-1])]
        stay = (
            {name: array.sharding for name, array in params.items()},
            jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()),
        )
        compiled = jax.jit(_descend, out_shardings=stay).lower(params, *batch).compile()
    except ValueError:  # the check looks at the specs, and says what is wrong
        return played
    return {**played, "program": _shortened(compiled.as_text())}


def _entries(spec: Any) -> list[Any] | None:
    """A PartitionSpec as a list; None if it is something else, or has entries that leave the choice to the compiler."""
    if not isinstance(spec, _jax().sharding.PartitionSpec):
        return None
    entries = [list(entry) if isinstance(entry, tuple) else entry for entry in spec]
    return entries if all(entry is None or isinstance(entry, str | list) for entry in entries) else None


def _descend(params: dict[str, Any], inputs: Any, targets: Any) -> Any:
    """A training step of a network, as for one device."""
    jax = _jax()

    def loss_of(params: dict[str, Any]) -> Any:
        x, layers = inputs, len(params) // 2
        for layer in range(1, layers + 1):
            x = x @ params[f"W{layer}"] + params[f"b{layer}"]
            x = jax.nn.relu(x) if layer < layers else x
        return ((x - targets) ** 2).mean()

    loss, gradient = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient), loss


def get_ready() -> None:
    """Settings that JAX takes before it computes for the first time."""
    import jax

    with contextlib.suppress(RuntimeError):  # the student's cells have used it
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", DEVICES)


@cache
def _jax() -> ModuleType:
    """JAX, with its devices."""
    import jax

    get_ready()
    jax.config.update("jax_disable_most_optimizations", True)  # of machine code: the programs are tiny
    if len(jax.devices()) < DEVICES:
        raise RuntimeError(f"JAX has {len(jax.devices())} devices here, and {DEVICES} are needed: keep the set-up cell")
    return jax


def _mesh(axes: Sequence[tuple[str, int]], first: int = 0) -> Any:
    """A mesh with these axes, of the devices from number `first` on."""
    names, sizes = zip(*axes, strict=True)
    devices = torch.Size(sizes).numel()
    return _jax().sharding.Mesh(_numpy().array(_jax().devices()[first : first + devices]).reshape(sizes), names)


def _numpy() -> ModuleType:
    import numpy

    return numpy


def _as_torch(array: Any) -> torch.Tensor:
    """A copy, whole, wherever the array lies."""
    return torch.from_numpy(_numpy().array(array))


def _shortened(program: str) -> str:
    """The text of a program without the lines of the source that its operations come from."""
    return "\n".join(line for line in _METADATA.sub("", program).splitlines() if not re.match(r"\d+ |$", line))
