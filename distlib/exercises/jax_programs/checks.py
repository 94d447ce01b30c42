"""Exercise 14: a ring, a data-parallel step and shardings in JAX, judged by values and by the compiled programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, holds, is_close, is_equal, known
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count, dtype_name
from distlib.exercises.jax_programs.plays import LOSSES, on_devices, placing, training
from distlib.frameworks.jax_collectives import Collective, asks_python, bytes_sent, collectives, handed_over, sizes_of
from distlib.frameworks.optional import check_there
from distlib.frameworks.shares import shard_shape

# ── ring_all_reduce ──────────────────────────────────────────────────────────────────────────────────────────────────
# fmt: off

WORK_OF = {
    "all-reduce": "lax.psum (or pmean, pmax) does the work. Write the ring: lax.ppermute in each of its steps.",
    "all-gather": "lax.all_gather takes every piece to every device. In a ring a device holds one chunk of a neighbor at a time: lax.ppermute.",
    "reduce-scatter": "lax.psum_scatter does the work of the first half. Write its N - 1 steps with lax.ppermute.",
    "all-to-all": "lax.all_to_all takes chunks straight to their owners. In a ring a device sends to its neighbor only: lax.ppermute.",
}
PYTHON = "devices talk to each other in the compiled program only: no pure_callback and no io_callback. (jax.debug.print is welcome.)"
REFUSE = "raise ValueError before anything is cut, with a text that names both numbers. The shape is known when JAX traces the function: piece.size % devices."
ADDED = "in the second half a complete chunk takes the place of what was there: set, and not add."
AXIS = "the devices of one axis add up: lax.axis_size(axis_name) is their number, lax.axis_index(axis_name) the place of this one among them. jax.device_count() counts others, too."
SECONDS = 15.0  # a case takes one or two: it compiles programs, which a busy machine does slowly


@dataclass(frozen=True)
class Ring:
    """A mesh: its axes and their sizes; the axis along which is summed; shape and dtype of every device's piece."""

    mesh: Sequence[tuple[str, int]]
    axis: str
    shape: Sequence[int]
    dtype: torch.dtype = torch.float32

    @property
    def devices(self) -> int:
        """Along the axis."""
        return dict(self.mesh)[self.axis]

    @property
    def places(self) -> torch.Tensor:
        """The devices' numbers, [rings, devices of a ring]: those that add up stand in a row."""
        sizes, dimension = [size for _, size in self.mesh], [name for name, _ in self.mesh].index(self.axis)
        return torch.arange(torch.Size(sizes).numel()).reshape(sizes).movedim(dimension, -1).reshape(-1, self.devices)

    def summed(self, pieces: torch.Tensor) -> torch.Tensor:
        """What every device must have, from what all have."""
        right = torch.empty_like(pieces)
        for row in self.places:
            right[row] = pieces[row].sum(dim=0, dtype=pieces.dtype)
        return right


def _ring_errors(seen: Seen) -> Sequence[tuple[str, str]]:
    return [*((sign, "the axis has the name that is passed: axis_name.") for sign in ("unbound axis name", "Found an unbound axis")),
            ("cannot reshape", REFUSE if torch.Size(seen.facts.shape).numel() % seen.facts.devices else f"does the number of chunks fit? {AXIS}"),
            ("got NoneType", "the last line must return the sum."),
            ("must be unique", f"in a step every device sends one chunk and gets one: each stands once at the left of a pair, and once at its right. And {AXIS}"),
            ("Tracer", "JAX runs this code once, for all devices, and `me = lax.axis_index(…)` is not a number then. What is the same on every device (range(devices), the pairs) is plain Python; what depends on `me` goes through lax and jnp: chunks[me], chunks.at[me].add(…)."),
            ("item assignment", "arrays are not changed in JAX: chunks = chunks.at[place].add(incoming) makes a new one."),
            ("out of bounds", AXIS), ("carry", "in a fori_loop or scan the carry keeps shape and dtype from step to step.")]


@task("piece", "axis_name", seconds=SECONDS, errors=_ring_errors)
def check_ring_all_reduce(draw: Draw, *, rings: Sequence[Ring], uneven: Sequence[Ring] = ()) -> Iterator[Case]:
    """`function(piece, axis_name)`: the sum of all pieces of a mesh axis, by 2(N-1) steps to a neighbor.

    `uneven`: where the devices do not divide the elements, which must be a ValueError.
    """
    check_there("jax")
    for ring in (*rings, *uneven):
        title = f"on {' × '.join(str(size) for _, size in ring.mesh[:-1])}{' × ' * (len(ring.mesh) > 1)}{count(ring.mesh[-1][1], 'device')}" + f", along {ring.axis!r}" * (len(ring.mesh) > 1)
        most = 9 if ring.dtype.is_floating_point else 2**27  # which float32 can't add exactly
        pieces = torch.stack([draw.whole(ring.shape, ring.dtype, most) for _ in range(ring.places.numel())])
        yield Case(f"{title}, pieces of shape {list(ring.shape)}, {dtype_name(ring.dtype)}", on_devices, [
            {"mesh": list(ring.mesh), "axis": ring.axis, "pieces": pieces, "may_refuse": ring in uneven}], ring)


@check_ring_all_reduce.judge
def _(seen: Seen) -> Remarks:
    ring, devices, size = seen.facts, seen.facts.devices, torch.Size(seen.facts.shape).numel()
    if size % devices:
        yield _refusal(seen[0], size, devices)
        return
    pieces, results = seen.given("pieces")[0], seen[0]["results"]
    try:
        found = collectives(seen[0]["program"])
    except ValueError:
        yield Remark("its program sends something in a loop of which nobody knows how often it runs.", cause="a ring has N - 1 steps in each half, and N is known: for, lax.fori_loop or lax.scan, and not lax.while_loop.")
        return
    if asks_python(seen[0]["program"]):
        yield Remark("its program takes values from Python while it runs.", cause=PYTHON)
    right = ring.summed(pieces)
    for place in range(len(pieces)):
        if not is_equal(results[place], right[place]):
            yield Remark(f"device {place} has a wrong sum.", compared(right[place], results[place]), _cause(ring, pieces, results, found, place))
    yield from _steps(ring, found, size * ring.dtype.itemsize)


def _refusal(played: dict[str, object], size: int, devices: int) -> Remark | None:
    """What is wrong where the devices do not divide the elements."""
    words = str(played.get("refused", ""))
    if all(str(number) in words for number in (size, devices)) and "reshape" not in words:
        return None
    seen = f"its ValueError says {words[:120]!r}" if words else "it returns something"
    return Remark(f"{devices} devices do not divide {size} elements, and {seen}.", cause=REFUSE)


def _cause(ring: Ring, pieces: torch.Tensor, results: torch.Tensor, found: Sequence[Collective], place: int) -> str:
    """What usually leaves these numbers on a device."""
    row, result = next(row for row in ring.places if place in row), results[place]
    right, N = pieces[row].sum(dim=0, dtype=pieces.dtype), len(row)
    if result.shape != right.shape:
        return "the sum is there, but not in the shape of the piece: reshape(piece.shape) at the end." if result.numel() == right.numel() else f"the sum has the shape of a piece, {list(right.shape)}."
    if result.dtype != right.dtype:
        return f"the sum has the dtype of the pieces, {dtype_name(right.dtype)}. Nothing needs to be cast."
    for each in found:
        if each.pairs and len(each.pairs) < len(pieces):
            return f"{count(len(each.pairs), 'pair')} for {len(pieces)} devices: whoever gets nothing has zeros. Close the ring: the last device sends to the first."
    whole = {
        "this is the device's own piece.": pieces[place],
        "this is the average. The exercise asks for the sum.": (right / N).to(right.dtype),
        f"every piece of the mesh is in it. {AXIS}": pieces.sum(dim=0, dtype=pieces.dtype),
    }
    if is_close(result.double(), right.double(), relative=1e-5):
        return "it is rounded. Whole numbers are added in their own dtype: a float has too few digits."
    return known(result, whole) or (AXIS if len(ring.mesh) > 1 else "") or _cause_in_chunks(
        result.reshape(N, -1), right.reshape(N, -1), pieces[row].reshape(N, N, -1), row.tolist().index(place))


def _cause_in_chunks(result: torch.Tensor, right: torch.Tensor, pieces: torch.Tensor, me: int) -> str:
    """What usually leaves these chunks on a device. All are [chunks, length], and there is a piece of every device."""
    N = len(pieces)
    ok = sum(map(torch.equal, result, right))
    if ok == 1:
        return "one chunk is right, and it should be all: that is the first half. In N - 1 more steps complete chunks go around, and take the place of what was there. (Or is an index outside of 0 … N - 1? JAX does not complain. Take it % N.)" if not any(map(torch.equal, result, right + pieces[me])) else ADDED
    if all(any(torch.equal(chunk, each[k]) for each in pieces) for k, chunk in enumerate(result)):
        return "every chunk is that of a single device. In the first half a chunk that comes in is added, and only in the second it takes the place."
    return f"{ok} of {N} chunks are right. In the first half a device sends on the chunk that came in the step before, so that it grows; in the second half it sends on a complete one."


def _steps(ring: Ring, found: Sequence[Collective], nbytes: int) -> Remarks:
    """What the program may communicate: 2(N - 1) permutes between neighbors, each of a chunk."""
    steps, each_step = 2 * (ring.devices - 1), nbytes // ring.devices
    for each in found:
        if each.kind != "collective-permute":
            yield Remark(f"the sums are right, but the compiled program has an {each.kind}.".replace("an re", "a re"), (f"{each.kind} of {', '.join(each.shapes)}",), WORK_OF[each.kind])
    for each in found:
        strange = [pair for pair in each.pairs if not _are_neighbors(ring, *pair)]
        if strange:
            yield Remark(f"the sums are right, but device {strange[0][0]} sends to device {strange[0][1]}, which is no neighbor of it in the ring.", cause="every chunk goes around, from neighbor to neighbor, and grows on its way. Straight to its owner it is no ring.")
    rounds = sum(each.times for each in found)
    wholes = [each for each in found if each.nbytes != each_step]
    if wholes:
        yield Remark(f"the sums are right, but a step sends {count(wholes[0].nbytes, 'byte')}, {wholes[0].shapes[0]}; a chunk has {each_step:,}.", cause="cut the piece into as many chunks as there are devices, and send one of them in each step." if wholes[0].nbytes >= nbytes else "send one chunk in each step: a device's piece, divided by the number of devices.")
    if rounds != steps:
        alone = any(len(each.pairs) < ring.places.numel() for each in found)
        yield Remark(f"the sums are right, but its program has {count(rounds, 'step')}; {steps} were expected.", cause="in a step all devices send: one ppermute gets all pairs." if alone else "N - 1 steps complete the sums, and N - 1 take them to everybody: after N steps a chunk is where it began." if rounds > steps else "each half has N - 1 steps, with one chunk in each.")


def _are_neighbors(ring: Ring, source: int, destination: int) -> bool:
    for row in ring.places.tolist():
        if source in row:
            apart = (row.index(destination) - row.index(source)) % len(row) if destination in row else 0
            return apart in (1, len(row) - 1)
    return False


# ── spmd_step ────────────────────────────────────────────────────────────────────────────────────────────────────────

STEPS, FEATURES, HIDDEN, OUTPUTS = 3, 5, 8, 3
SPARE = 64  # bytes that a device may send besides the gradients: the loss, and numbers like it
close = partial(is_close, relative=1e-3, absolute=1e-4)  # rounding is free, in float32
NAMED = "the mesh has the name of its axis: mesh.axis_names[0]. It is not always the one of the example."
ANY_TREE = "parameters may be any tree, also with lists: jax.tree.map(lambda p, g: p - rate * g, params, gradient)."
ONE_JIT = "the whole step, with the sum over the devices and the update, is one function under jax.jit: outside of it every operation is compiled, and run, by itself."
SUMMED = "under shard_map the gradient of what all devices share (P()) is already the sum over them; pmean of it is one of N equal numbers. Take the mean of the loss first, or of P() parameters with check_vma=False."


@dataclass(frozen=True)
class Descent:
    """Devices of the mesh, from number `first` on; samples of the whole batch; name of a loss, of the axis; the rate."""

    devices: int
    samples: int
    first: int = 0
    axis: str = "data"
    model: str = "two layers"
    rate: float = 0.5


def _drawn_params(draw: Draw, model: str) -> Any:
    def layer(inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (draw.normal((inputs, outputs)) / 2).float(), draw.normal((outputs,)).float()

    (W1, b1), (W2, b2) = layer(FEATURES, HIDDEN), layer(HIDDEN, OUTPUTS)
    if model == "two layers":
        return {"W1": W1, "b1": b1, "W2": W2, "b2": b2}
    return {"layers": [{"W": W1, "b": b1}, {"W": W2, "b": b2}], "scale": torch.tensor(1.5)}


@task("loss_of", "mesh", "rate", seconds=SECONDS, errors=[
    ("got NoneType", "does step end with `return new_params, loss`, and spmd_step with `return step`?"),
    ("'NoneType' object is not callable", "the last line of spmd_step must return the step."),
    *((sign, NAMED) for sign in ("unbound axis name", "is not found in mesh", "must refer to an axis")),
    ("arrays of JAX", "return what the program gives. float(…) and numpy take it from the devices, and wait for it."),
    ("KeyError", "params is a tree of any form, and a name of one model stands in your code. jax.tree.map goes through any tree, and loss_of knows its names."),
    ("not divisible", "the batch is cut along its first axis, P(axis). Parameters are whole, P()."),
    ("incompatible devices", "all arrays of a program lie on the devices of the mesh that is passed. Is another mesh, or jax.devices(), written into your code?"),
    *((sign, ANY_TREE) for sign in ("list indices must be", "can't multiply sequence", "unsupported operand type")),
    ("not done after", f"a step takes milliseconds, once it is compiled; {ONE_JIT}"),
])
def check_spmd_step(draw: Draw, *, plans: Sequence[Descent]) -> Iterator[Case]:
    """`function(loss_of, mesh, rate)`: a data-parallel step. Three of them: numbers, placement, programs.

    The last one begins with the first parameters again, so that it shows whether the step remembers any.
    """
    check_there("jax")
    for plan in plans:
        batches = [(draw.normal((plan.samples, FEATURES)).float(), draw.normal((plan.samples, OUTPUTS)).float()) for _ in range(STEPS)]
        title = f"on {count(plan.devices, 'device')}{f' from number {plan.first} on' * (plan.first > 0)}, {plan.samples} samples, axis {plan.axis!r}, {plan.model}"
        yield Case(title, training, [{"devices": plan.devices, "first": plan.first, "axis": plan.axis, "model": plan.model, "rate": plan.rate,
                                      "params": _drawn_params(draw, plan.model), "batches": batches}], plan)


def _leaves(tree: Any) -> list[torch.Tensor]:
    """The tensors of a tree in JAX's order: dicts by their keys."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    values = [tree[key] for key in sorted(tree)] if isinstance(tree, dict) else tree
    return [leaf for value in values for leaf in _leaves(value)]


def _names(tree: Any, name: str = "params") -> list[str]:
    """Of the tensors of a tree, as a student writes them: params["layers"][0]["W"]."""
    if isinstance(tree, torch.Tensor):
        return [name]
    pairs = [(f'["{key}"]', tree[key]) for key in sorted(tree)] if isinstance(tree, dict) else [(f"[{k}]", each) for k, each in enumerate(tree)]
    return [each for place, value in pairs for each in _names(value, name + place)]


def _gradient(model: str, tree: Any, batch: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The loss of these samples, and its gradient, on one device."""
    leaves = [leaf.requires_grad_() for leaf in _leaves(tree)]
    loss = LOSSES[model](torch, tree, *batch)
    return loss.detach(), list(torch.autograd.grad(loss, leaves))


def _copied(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.detach().double()
    return {key: _copied(each) for key, each in tree.items()} if isinstance(tree, dict) else [_copied(each) for each in tree]


@check_spmd_step.judge
def _(seen: Seen) -> Remarks:
    plan, given, calls = seen.facts, seen.case.inputs[0], seen[0]["calls"]
    names, tree = _names(given["params"]), _copied(given["params"])
    if not calls[0]["tree"]:
        yield Remark("the new parameters are not a tree like the old ones.", cause="step returns (new params, loss), the parameters in the form in which they came: jax.tree.map(lambda p, g: p - rate * g, params, gradient).")
        return
    for number, (call, batch) in enumerate(zip(calls, given["batches"], strict=True), start=1):
        tree = _copied(given["params"]) if number == STEPS else tree
        before = [leaf.detach().clone() for leaf in _leaves(tree)]
        batch = [tensor.double() for tensor in batch]
        loss, gradient = _gradient(plan.model, tree, batch)
        shares = [_gradient(plan.model, tree, share) for share in zip(*(tensor.chunk(plan.devices) for tensor in batch), strict=True)]
        with torch.no_grad():
            for leaf, each in zip(_leaves(tree), gradient, strict=True):
                leaf -= plan.rate * each
        yield from _placed(call, names, [leaf.shape for leaf in before], number)
        for k, (name, leaf) in enumerate(zip(names, _leaves(tree), strict=True)):
            for device, found in enumerate(call["params"][k]):
                own = shares[device][1][k]
                yield holds(f"after step {number}, {name} on device {device}", found, leaf.detach().float(), _wrong_updates(plan, before[k], gradient[k], own, shares[0][1][k] if all_equal(call["params"][k]) else None), same=close,
                            otherwise=_why_wrong(before[k] - found.double(), plan.rate * gradient[k], number))
        if not call["kept"]:
            yield Remark(f"step {number} has changed the tree of parameters that it was given.", cause="the caller may still look at the old ones: return a new tree, and no params.update(…).")
        for device, found in enumerate(call["loss"]):
            yield holds(f"in step {number}, the loss on device {device}", found, loss.float(), {
                "this is the loss of the device's own samples. The loss of the batch is the mean over the devices.": [share[0].float() for share in shares],
                "this is the sum over the devices. Divide by their number: lax.pmean.": (loss * plan.devices).float(),
                "this is the loss after the step. Return that before it.": LOSSES[plan.model](torch, tree, *batch).detach().float()}, same=close,
                otherwise="it is the mean over all samples of the batch, before the step: loss_of of all of them.")
    yield from _compilations(calls)
    for number, call in enumerate(calls, start=1):
        yield from _communication(plan, call["programs"], sum(leaf.nbytes for leaf in _leaves(given["params"])), number)


def all_equal(held: Sequence[torch.Tensor]) -> bool:
    """Whether all devices hold the same."""
    return all(torch.equal(each, held[0]) for each in held)


def _wrong_updates(plan: Descent, before: torch.Tensor, gradient: torch.Tensor, own: torch.Tensor, first: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """What usual mistakes make of a parameter. `own`: the gradient of the device's samples; `first`: of device 0, if all have the same."""
    N = plan.devices
    wrong = {
        "this is the parameter as it was. step returns new ones: params - rate * gradient.": 0 * gradient,
        f"the gradient is {N} times too large. Is it summed twice? {SUMMED}": N * gradient,
        f"the gradient is {N * N} times too large: it is summed, and not averaged, twice. {SUMMED}": N * N * gradient,
        f"the gradient is {N} times too small. Is it divided by N twice, or by a number that is no property of the mesh?": gradient / N,
        ("each device has moved by the gradient of its own samples only, and they have drifted apart. Average the gradients: lax.pmean." if first is None else
         "every device has moved by the gradient of device 0's samples. It should be the average over the devices: lax.pmean."): own if first is None else first,
        "it has moved uphill: subtract rate * gradient.": -gradient,
        "rate is missing: params - rate * gradient.": gradient / plan.rate,
    }
    return {words: (before - plan.rate * each).float() for words, each in wrong.items()}


def _why_wrong(moved: torch.Tensor, right: torch.Tensor, number: int) -> str:
    """The cause where a parameter has not moved as it should: perhaps the direction is right."""
    factor = float((moved * right).sum() / (right * right).sum())
    if close(moved, factor * right):
        return f"it has moved by {factor:.3g} * rate * gradient. Is a number written into your code that comes from the mesh, or is passed as rate?"
    if number == STEPS:
        return "this call got the parameters of the first one again. What step returns depends on its arguments alone: it remembers nothing."
    return "it is not params - rate * gradient, with the gradient of the mean loss over the whole batch."


def _placed(call: dict[str, Any], names: Sequence[str], shapes: Sequence[torch.Size], number: int) -> Remarks:
    """The new parameters and the loss lie whole on every device."""
    for name, shape, held in zip([*names, "loss"], [*shapes, torch.Size()], [*call["params"], call["loss"]], strict=True):
        missing = [device for device, shard in enumerate(held) if shard is None]
        if missing:
            yield Remark(f"after step {number}, {name} is on {count(len(held) - len(missing), 'device')} of the mesh, and should be on all {len(held)}.", cause="a plain jax.jit computes where its arrays lie. Say where: in_shardings, shard_map or jax.device_put, with the mesh that is passed, all of it. Is another mesh written into your code?")
        for device, shard in enumerate(held):
            if shard is not None and shard.shape != shape:
                part = f"a part of shape {list(shard.shape)}" if shard.numel() < shape.numel() else f"an array of shape {list(shard.shape)}"
                yield Remark(f"after step {number}, device {device} holds {part} of {name}; its shape is {list(shape)}.", cause="the loss is one number: the mean over all samples." if name == "loss" else "in data parallelism every device has all parameters, before and after the step: P() in out_specs, or out_shardings=NamedSharding(mesh, P()).")


def _compilations(calls: Sequence[dict[str, Any]]) -> Remarks:
    numbers = [call["compiled"] for call in calls]
    if any(numbers[2:]):
        yield Remark(f"it compiles again in every call: {', '.join(f'{n} in call {k}' for k, n in enumerate(numbers, start=1))}.", cause="JAX knows a program by its function. Make it once, outside of step: spmd_step calls jax.jit(…), and step only what that returned. And rate is a plain number.")


def _communication(plan: Descent, programs: Sequence[str], nbytes: int, number: int) -> Remarks:
    """What the programs that a call has compiled are handed, and what they send."""
    if number == 1 and not programs:
        yield Remark("no compiled program is left after the first call.", cause="keep what jax.jit returns, and call it in every step.")
    if len(programs) > 1:
        yield Remark(f"a step runs {len(programs)} programs; it should be one.", cause=ONE_JIT)
        return
    wholes = {plan.samples * size for size in (FEATURES, OUTPUTS)}
    for program in programs:
        if asks_python(program):
            yield Remark("its program takes values from Python while it runs.", cause=PYTHON)
        if wholes & set(handed_over(program)):
            yield Remark(f"the numbers are right, but every device is handed all {plan.samples} samples, and computes with them.", cause="cut the batch along its first axis, P(axis), where it comes in: in_shardings, in_specs, or jax.device_put before the call.")
    found = [each for program in programs for each in collectives(program)]
    shown = tuple(f"{each.kind} of {', '.join(each.shapes)}" for each in found)
    expected, sent = 2 * (plan.devices - 1) / plan.devices * nbytes, bytes_sent(found)
    if any(wholes & set(sizes_of(each.shapes)) for each in found):
        yield Remark("the numbers are right, but the devices send each other the batch.", shown, "samples stay where they are: nothing in the step needs those of another device. Only gradients are added up.")
    if sent > expected + SPARE:
        yield Remark(f"the numbers are right, but a device sends {sent:,.0f} bytes in a step; one all-reduce of the gradients is {expected:,.0f}.", shown, "add up the gradients once. Is there a psum or pmean of something that is a sum already, or a gather?")
    if number == 1 and sent < expected:
        yield Remark(f"a device sends {sent:,.0f} bytes in a step; an all-reduce of the gradients is {expected:,.0f}.", shown, "the sum over the devices has to be in the compiled program.")


# ── shardings ────────────────────────────────────────────────────────────────────────────────────────────────────────

WAYS = ("data parallel", "tensor parallel", "fully sharded")
NUMBER = " (The number in its name says which layer it is, also 10. Its place in shapes says nothing.)"
PAIRS = "in a pair the first layer is cut by columns, P(None, axis), and the second by rows, P(axis, None): then what a device computes in the first is what its rows of the second need." + NUMBER
REFUSE_WAY = "raise ValueError where no way fits, with a text that names the way that was asked for and those that there are."
BIASES = "the bias of the first layer of a pair is cut like its columns, P(axis). That of the second is added to the sum, on every device: P()." + NUMBER


@dataclass(frozen=True)
class Cut:
    """A way; the widths of a network, inputs and outputs included; devices and axis of the mesh; samples of the batch."""

    way: str
    widths: Sequence[int]
    devices: int = 4
    axis: str = "ranks"
    samples: int = 48

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the parameters."""
        layers = list(enumerate(itertools.pairwise(self.widths), start=1))
        return {name: shape for k, (rows, columns) in layers for name, shape in ((f"W{k}", (rows, columns)), (f"b{k}", (columns,)))}

    def held(self, name: str) -> int:
        """How many numbers of a parameter a device should hold."""
        shape = self.shapes[name]
        whole, layer = torch.Size(shape).numel(), int(name[1:])
        is_cut = {"data parallel": False, "tensor parallel": name[0] == "W" or layer % 2 == 1,
                  "fully sharded": any(length % self.devices == 0 for length in shape)}[self.way]
        return whole // self.devices if is_cut else whole

    @property
    def sends(self) -> float:
        """Bytes that a device may send in a step: rings do the work."""
        share, whole = (self.devices - 1) / self.devices, 4 * sum(torch.Size(shape).numel() for shape in self.shapes.values())
        if self.way == "tensor parallel":
            return 2 * share * 4 * self.samples * (sum(self.widths[2::2]) + sum(self.widths[2:-1:2]))
        cut = 4 * sum(torch.Size(shape).numel() for name, shape in self.shapes.items() if self.held(name) < torch.Size(shape).numel())
        return 2 * share * whole + share * cut


def _sharding_errors(seen: Seen) -> Sequence[tuple[str, str]]:
    return [*([] if seen.facts.way in WAYS else [("raised", REFUSE_WAY)]),
            *((sign, NAMED) for sign in ("Resource axis", "not found in mesh")),
            ("duplicate entries", "cut one dimension: there is one axis, and a device has one place along it."),
            ("two things", "the specs of the parameters in a dict, by their names, and that of the batch."),
            ("KeyError", "a model has any even number of layers: go through shapes, and look at each name and shape.")]


@task("mesh", "shapes", "way", seconds=SECONDS, errors=_sharding_errors)
def check_shardings(draw: Draw, *, cuts: Sequence[Cut], unknown: Sequence[str] = ()) -> Iterator[Case]:
    """`function(mesh, shapes, way)`: specs of parameters and batch. Judged by what devices hold, and what a step sends.

    `unknown`: ways that there are not.
    """
    check_there("jax")
    for cut in (*cuts, *(Cut(way, [4, 8, 4]) for way in unknown)):
        yield Case(f"for {cut.way!r} on {count(cut.devices, 'device')}, axis {cut.axis!r}, widths {list(cut.widths)}", placing, [
            {"devices": cut.devices, "axis": cut.axis, "widths": list(cut.widths), "samples": cut.samples, "way": cut.way}], cut)


@check_shardings.judge
def _(seen: Seen) -> Remarks:
    cut, played = seen.facts, seen[0]
    if "refused" in played or cut.way not in WAYS:
        yield _unknown_way(cut, played.get("refused"))
        return
    params = played["params"]
    strange = next((name for name in (*cut.shapes, *params) if name not in params or name not in cut.shapes), None)
    if strange:
        yield Remark(f"the specs of the parameters have the names {', '.join(map(str, params))}.", (f"expected {', '.join(cut.shapes)}",), "one for each name in shapes.")
        return
    for name, entries in {**params, "the batch": played["batch"]}.items():
        if entries is None:
            yield Remark(f"{name} has no PartitionSpec.", cause="P() leaves an array whole, P(axis) cuts its first dimension, P(None, axis) its second.")
    yield from _holdings(cut, params, played["batch"])
    if not played["kept"]:
        yield Remark("it has changed shapes.", cause="shapes belongs to the caller, who goes on using it.")
    if "error" in played:
        yield Remark("a step with these specs can't be compiled.", (played["error"][:300],))
        return
    yield from _traffic(cut, collectives(played["program"]))


def _unknown_way(cut: Cut, words: str | None) -> Remark | None:
    if cut.way in WAYS:
        return Remark("it raised ValueError for a way that there is.", (str(words)[:200],), "compare the text exactly, as in the table.")
    if words is not None and all(way in words for way in (cut.way, *WAYS)):
        return None
    seen = "it returns something" if words is None else f"its ValueError says {words[:120]!r}"
    return Remark(f"there is no way {cut.way!r}, and {seen}.", cause=REFUSE_WAY)


def _holdings(cut: Cut, params: dict[str, Any], batch: Sequence[Any]) -> Remarks:
    """What a device holds of each parameter and of the batch."""
    mesh, rows = {cut.axis: cut.devices}, 1 if cut.way == "tensor parallel" else cut.devices
    for name, entries in params.items():
        try:
            held, shape = torch.Size(shard_shape(cut.shapes[name], mesh, entries)).numel(), cut.shapes[name]
        except ValueError as error:
            yield Remark(f"{name} can't be cut like that: {error}.", (f"P({', '.join(map(repr, entries))}) for {name}, shape {list(cut.shapes[name])}",), _why_not(cut, name, entries))
            return
        if held != cut.held(name):
            yield Remark(f"a device holds {held:,} numbers of {name}, shape {list(shape)}; expected were {cut.held(name):,}.", (f"P({', '.join(map(repr, entries))}) for {name}",), _why_so_many(cut, name, held))
    try:
        held = shard_shape((cut.samples, cut.devices), mesh, batch)[0]
    except ValueError as error:
        yield Remark(f"the batch can't be cut like that: {error}.", cause="its samples lie along the first dimension: P(axis), or P().")
        return
    if held != cut.samples // rows:
        yield Remark(f"a device gets {held} of {cut.samples} samples; expected were {cut.samples // rows}.", cause="in tensor parallelism every device needs the whole batch: P()." if rows == 1 else "the batch is cut along its first dimension: P(axis). Else every device computes the same.")


def _why_not(cut: Cut, name: str, entries: Sequence[Any]) -> str:
    if any(entry is not None and entry != cut.axis for entry in entries):
        return NAMED
    if len(entries) > len(cut.shapes[name]):
        return "a bias has one dimension, a weight two."
    return PAIRS if cut.way == "tensor parallel" else "cut a dimension that the number of devices divides; leave the parameter whole if there is none."


def _why_so_many(cut: Cut, name: str, held: int) -> str:
    if cut.way == "data parallel":
        return "in data parallelism every device has all parameters: P()."
    if cut.way == "fully sharded":
        return "any dimension may be cut that the number of devices divides, the second, too. Biases count as well."
    return BIASES if name[0] == "b" else PAIRS


def _traffic(cut: Cut, found: Sequence[Collective]) -> Remarks:
    """What a step with these specs sends."""
    sent = bytes_sent(found)
    if sent > cut.sends + SPARE:
        shown = tuple(f"{each.kind} of {', '.join(each.shapes)}" for each in found)
        yield Remark(f"every device holds what it should, but sends {sent:,.0f} bytes in a step; expected were {cut.sends:,.0f}.", shown, PAIRS if cut.way == "tensor parallel" else "the compiler moves more than parameters and gradients. Is the batch cut along its samples?")
