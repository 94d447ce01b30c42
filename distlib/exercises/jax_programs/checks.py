"""Exercise 14: a ring, a data-parallel step and shardings in JAX, judged by values and by the compiled programs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name
from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, holds, is_close, is_equal, known
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.jax_programs.plays import LOSSES, on_devices, placing, training
from distlib.frameworks.even_shares import shard_shape
from distlib.frameworks.jax_collectives import Collective, asks_python, bytes_sent, collectives, handed_over, sizes_of
from distlib.frameworks.optional import check_there

say = Sentences(__file__)
SECONDS = 15.0  # a case takes one or two: it compiles programs, which a busy machine does slowly


def _as_lines(found: Sequence[Collective]) -> list[str]:
    return [f"{each.kind} of {', '.join(each.shapes)}" for each in found]


# ── ring_all_reduce ──────────────────────────────────────────────────────────────────────────────────────────────────

DOES_THE_WORK = {
    "all-reduce": "has_all_reduce",
    "all-gather": "has_all_gather",
    "reduce-scatter": "has_reduce_scatter",
    "all-to-all": "has_all_to_all",
}


@dataclass(frozen=True)
class Ring:
    """A mesh: its axes and their sizes; the axis along which is summed; shape and dtype of every device's piece."""

    mesh: Sequence[tuple[str, int]]
    axis: str
    shape: Sequence[int]
    dtype: torch.dtype = torch.float32

    @property
    def title(self) -> str:
        """How students read it."""
        sizes = [f"{size}" for _, size in self.mesh[:-1]] + [count(self.mesh[-1][1], "device")]
        along = f", along {self.axis!r}" * (len(self.mesh) > 1)
        return f"on {' × '.join(sizes)}{along}, pieces of shape {list(self.shape)}, {dtype_name(self.dtype)}"

    @property
    def size(self) -> int:
        """Elements of a piece."""
        return math.prod(self.shape)

    @property
    def devices(self) -> int:
        """How many devices lie along the axis."""
        return dict(self.mesh)[self.axis]

    @property
    def rings(self) -> torch.Tensor:
        """The devices' numbers, [rings, devices of a ring]: those that add up stand in a row."""
        sizes, dimension = [size for _, size in self.mesh], [name for name, _ in self.mesh].index(self.axis)
        return torch.arange(math.prod(sizes)).reshape(sizes).movedim(dimension, -1).reshape(-1, self.devices)

    def summed(self, pieces: torch.Tensor) -> torch.Tensor:
        """What every device must have, from what all have."""
        right = torch.empty_like(pieces)
        for row in self.rings:
            right[row] = pieces[row].sum(dim=0, dtype=pieces.dtype)
        return right


def _ring_errors(seen: Seen) -> Sequence[tuple[str, str]]:
    is_uneven, axis = seen.facts.size % seen.facts.devices, say("axis")
    return [
        ("unbound axis name", say("axis_passed")),
        ("Found an unbound axis", say("axis_passed")),
        ("cannot reshape", say("refuse") if is_uneven else say("number_of_chunks", axis=axis)),
        ("got NoneType", say("returned_nothing")),
        ("must be unique", say("not_unique", axis=axis)),
        ("Tracer", say("tracer")),
        ("item assignment", say("item_assignment")),
        ("out of bounds", axis),
        ("carry", say("carry")),
    ]


@task("piece", "axis_name", seconds=SECONDS, errors=_ring_errors)
def check_jax_ring(draw: Draw, *, rings: Sequence[Ring], uneven: Sequence[Ring] = ()) -> Iterator[Case]:
    """`function(piece, axis_name)`: the sum of all pieces of a mesh axis, by 2(N-1) steps to a neighbor.

    `uneven`: where the devices do not divide the elements, which must be a ValueError.
    """
    check_there("jax")
    for ring in (*rings, *uneven):
        most = 9 if ring.dtype.is_floating_point else 2**27  # which float32 can't add exactly
        inputs = {
            "mesh": list(ring.mesh),
            "axis": ring.axis,
            "pieces": torch.stack([draw.whole(ring.shape, ring.dtype, most) for _ in range(ring.rings.numel())]),
            "may_refuse": ring in uneven,
        }
        yield Case(ring.title, on_devices, [inputs], ring)


@check_jax_ring.judge
def _(seen: Seen) -> Remarks:
    ring = seen.facts
    if ring.size % ring.devices:
        yield _refusal(ring, seen[0])
        return
    pieces, results = seen.given("pieces")[0], seen[0]["results"]
    try:
        found = collectives(seen[0]["program"])
    except ValueError:
        yield say.remark("endless_loop")
        return
    if asks_python(seen[0]["program"]):
        yield say.remark("asks_python")
    right = ring.summed(pieces)
    for device in range(len(pieces)):
        if not is_equal(results[device], right[device]):
            cause = _cause(ring, pieces, results[device], found, device)
            yield say.remark("wrong_sum", *compared(right[device], results[device]), device=device, cause=cause)
    yield from _steps(ring, found)


def _refusal(ring: Ring, played: dict[str, object]) -> Remark | None:
    """What is wrong where the devices do not divide the elements."""
    words, numbers = str(played.get("refused", "")), {"devices": ring.devices, "size": ring.size}
    if all(str(number) in words for number in numbers.values()) and "reshape" not in words:
        return None
    if not words:
        return say.remark("uneven_returned", **numbers, refuse=say("refuse"))
    return say.remark("uneven_refused", **numbers, words=words[:120], refuse=say("refuse"))


def _cause(ring: Ring, pieces: torch.Tensor, result: torch.Tensor, found: Sequence[Collective], device: int) -> str:
    """What usually leaves these numbers on a device."""
    row = next(row for row in ring.rings if device in row)
    right, N = pieces[row].sum(dim=0, dtype=pieces.dtype), len(row)
    if form := _explain_form(result, right):
        return form
    for each in found:
        if each.pairs and len(each.pairs) < len(pieces):
            return say("open_ring", pairs=count(len(each.pairs), "pair"), devices=len(pieces))
    whole = {
        say("own_piece"): pieces[device],
        say("average"): (right / N).to(right.dtype),
        say("whole_mesh", axis=say("axis")): pieces.sum(dim=0, dtype=pieces.dtype),
    }
    if is_close(result.double(), right.double(), relative=1e-5):
        return say("rounded")
    if cause := known(result, whole):
        return cause
    if len(ring.mesh) > 1:
        return say("axis")
    chunks = pieces[row].reshape(N, N, -1)
    return _cause_in_chunks(result.reshape(N, -1), right.reshape(N, -1), chunks, row.tolist().index(device))


def _explain_form(result: torch.Tensor, right: torch.Tensor) -> str:
    """What is wrong with shape or dtype; empty if nothing is."""
    if result.shape != right.shape:
        return say("not_reshaped") if result.numel() == right.numel() else say("sum_shape", shape=list(right.shape))
    return say("sum_dtype", dtype=dtype_name(right.dtype)) if result.dtype != right.dtype else ""


def _cause_in_chunks(result: torch.Tensor, right: torch.Tensor, pieces: torch.Tensor, me: int) -> str:
    """What usually leaves these chunks on a device. All are [chunks, length], and there is a piece of every device."""
    ok = sum(map(torch.equal, result, right))
    if ok == 1:
        return say("added" if any(map(torch.equal, result, right + pieces[me])) else "first_half")
    if all(any(torch.equal(chunk, each[k]) for each in pieces) for k, chunk in enumerate(result)):
        return say("never_added")
    return say("some_chunks", right=ok, chunks=len(pieces))


def _steps(ring: Ring, found: Sequence[Collective]) -> Remarks:
    """What the program may communicate: 2(N - 1) permutes between neighbors, each of a chunk."""
    for each in found:
        if each.kind != "collective-permute":
            yield say.remark(DOES_THE_WORK[each.kind], *_as_lines([each]))
    for each in found:
        for source, destination in each.pairs:
            if not _are_neighbors(ring, source, destination):
                yield say.remark("no_neighbor", source=source, destination=destination)
    yield _chunks(ring, found)
    yield _number_of_steps(ring, found)


def _chunks(ring: Ring, found: Sequence[Collective]) -> Remark | None:
    """What is wrong if a step sends something else than a chunk."""
    nbytes = ring.size * ring.dtype.itemsize
    chunk = nbytes // ring.devices
    for each in found:
        if each.nbytes != chunk:
            wrong = "whole_piece" if each.nbytes >= nbytes else "not_a_chunk"
            return say.remark(wrong, sent=count(each.nbytes, "byte"), shape=each.shapes[0], chunk=chunk)
    return None


def _number_of_steps(ring: Ring, found: Sequence[Collective]) -> Remark | None:
    rounds, steps = sum(each.times for each in found), 2 * (ring.devices - 1)
    if rounds <= steps:  # fewer are not enough: each device must send that many chunks
        return None
    is_pair_by_pair = any(len(each.pairs) < ring.rings.numel() for each in found)
    wrong = "pair_by_pair" if is_pair_by_pair else "too_many_steps"
    return say.remark(wrong, found=count(rounds, "step"), steps=steps)


def _are_neighbors(ring: Ring, source: int, destination: int) -> bool:
    for row in ring.rings.tolist():
        if source in row:
            apart = (row.index(destination) - row.index(source)) % len(row) if destination in row else 0
            return apart in (1, len(row) - 1)
    return False


# ── spmd_step ────────────────────────────────────────────────────────────────────────────────────────────────────────

SPARE = 64  # bytes that a device may send besides the gradients: the loss, and numbers like it
close = partial(is_close, relative=1e-3, absolute=1e-4)  # rounding is free, in float32


@dataclass(frozen=True)
class Descent:
    """Devices of the mesh, from number `first` on; samples of the whole batch; names of axis and loss; the rate.

    `widths` of the layers, inputs and outputs included; of a line instead `sample`, the shape of a sample's inputs and
    targets; `steps`: calls of the step.
    """

    devices: int
    samples: int
    first: int = 0
    axis: str = "data"
    model: str = "two layers"
    rate: float = 0.4  # no rate at all is then 2.5 times as far: no number of devices, and no square of one
    widths: Sequence[int] = (5, 8, 3)
    sample: Sequence[int] = ()
    steps: int = 3

    @property
    def title(self) -> str:
        """How students read it."""
        start = f" from number {self.first} on" * (self.first > 0)
        samples = f"{self.samples} samples" + f" of shape {list(self.sample)}" * (self.model == "line")
        return f"on {count(self.devices, 'device')}{start}, {samples}, axis {self.axis!r}, {self.model}"

    @property
    def batch(self) -> list[tuple[int, ...]]:
        """The shapes of inputs and targets."""
        of_a_sample = [self.sample] * 2 if self.model == "line" else [self.widths[:1], self.widths[-1:]]
        return [(self.samples, *each) for each in of_a_sample]


def _drawn_params(draw: Draw, plan: Descent) -> Any:
    if plan.model == "line":
        return {"slope": draw.normal(()).float(), "start": draw.normal(()).float()}
    layers = [
        {"W": (draw.normal(shape) / 2).float(), "b": draw.normal(shape[1:]).float()}
        for shape in itertools.pairwise(plan.widths)
    ]
    if plan.model == "two layers":
        return {f"{name}{number}": layer[name] for number, layer in enumerate(layers, start=1) for name in layer}
    return {"layers": layers, "scale": torch.tensor(1.5)}


def _drawn_batch(draw: Draw, plan: Descent) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = plan.batch
    return draw.normal(inputs).float(), draw.normal(targets).float()


@task(
    "loss_of",
    "mesh",
    "rate",
    seconds=SECONDS,
    errors=[
        ("got NoneType", say("no_return")),
        ("'NoneType' object is not callable", say("no_step")),
        *(
            (sign, say("axis_of_mesh"))
            for sign in ("unbound axis name", "is not found in mesh", "must refer to an axis")
        ),
        ("arrays of JAX", say("no_arrays")),
        ("KeyError", say("model_names")),
        ("evenly divi", say("not_divisible")),
        ("values of rank at least", say("any_samples")),
        ("values to unpack", say("any_samples")),
        ("incompatible devices", say("other_devices")),
        ("list indices must be", say("any_tree")),
        ("can't multiply sequence", say("any_tree")),
        ("unsupported operand type", say("any_tree")),
        ("not done after", say("slow")),
    ],
)
def check_spmd_step(draw: Draw, *, plans: Sequence[Descent]) -> Iterator[Case]:
    """`function(loss_of, mesh, rate)`: a data-parallel step. Some of them: numbers, placement, programs.

    The last one begins with the first parameters again, so that it shows whether the step remembers any.
    """
    check_there("jax")
    for plan in plans:
        batches = [_drawn_batch(draw, plan) for _ in range(plan.steps)]
        inputs = {
            "devices": plan.devices,
            "first": plan.first,
            "axis": plan.axis,
            "model": plan.model,
            "rate": plan.rate,
            "params": _drawn_params(draw, plan),
            "batches": batches,
        }
        yield Case(plan.title, training, [inputs], plan)


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
    if isinstance(tree, dict):
        pairs = [(f'["{key}"]', tree[key]) for key in sorted(tree)]
    else:
        pairs = [(f"[{k}]", each) for k, each in enumerate(tree)]
    return [each for suffix, value in pairs for each in _names(value, name + suffix)]


def _copied(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.detach().double()
    if isinstance(tree, dict):
        return {key: _copied(each) for key, each in tree.items()}
    return [_copied(each) for each in tree]


@dataclass(frozen=True)
class OneDeviceStep:
    """A step on one device, in float64.

    Attributes:
        before, after: the parameters, in the order of `_leaves`.
        loss, gradient: of the whole batch.
        shares: loss and gradient of each device's samples.
        loss_after: of the whole batch, with the new parameters.
    """

    before: list[torch.Tensor]
    after: list[torch.Tensor]
    loss: torch.Tensor
    gradient: list[torch.Tensor]
    shares: list[tuple[torch.Tensor, list[torch.Tensor]]]
    loss_after: torch.Tensor

    @classmethod
    def step(cls, plan: Descent, tree: Any, batch: Sequence[torch.Tensor]) -> OneDeviceStep:
        """The step of these parameters, which it changes."""
        batch = [tensor.double() for tensor in batch]
        before = [leaf.detach().clone() for leaf in _leaves(tree)]
        loss, gradient = _gradient(plan.model, tree, batch)
        chunks = zip(*(tensor.chunk(plan.devices) for tensor in batch), strict=True)
        shares = [_gradient(plan.model, tree, share) for share in chunks]
        with torch.no_grad():
            for leaf, each in zip(_leaves(tree), gradient, strict=True):
                leaf -= plan.rate * each
        after = [leaf.detach().clone() for leaf in _leaves(tree)]
        return cls(before, after, loss, gradient, shares, LOSSES[plan.model](torch, tree, *batch).detach())


def _gradient(model: str, tree: Any, batch: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The loss of these samples, and its gradient, on one device."""
    leaves = [leaf.requires_grad_() for leaf in _leaves(tree)]
    loss = LOSSES[model](torch, tree, *batch)
    return loss.detach(), list(torch.autograd.grad(loss, leaves))


@check_spmd_step.judge
def _(seen: Seen) -> Remarks:
    plan, given, calls = seen.facts, seen.case.inputs[0], seen[0]["calls"]
    names, tree = _names(given["params"]), _copied(given["params"])
    if not calls[0]["tree"]:
        yield say.remark("other_tree")
        return
    for number, (call, batch) in enumerate(zip(calls, given["batches"], strict=True), start=1):
        tree = _copied(given["params"]) if number == plan.steps else tree
        one = OneDeviceStep.step(plan, tree, batch)
        yield from _whole_on_every_device(call, names, [leaf.shape for leaf in one.before], number)
        yield from _params(plan, call["params"], names, one, number)
        if not call["kept"]:
            yield say.remark("tree_changed", number=number)
        yield from _losses(plan, call["loss"], one, number)
    yield from _compilations(calls)
    for number, call in enumerate(calls, start=1):
        yield from _communication(plan, call["programs"], sum(leaf.nbytes for leaf in _leaves(given["params"])), number)


def _whole_on_every_device(
    call: dict[str, Any], names: Sequence[str], shapes: Sequence[torch.Size], number: int
) -> Remarks:
    """The new parameters and the loss lie whole on every device."""
    for name, shape, held in zip(
        [*names, "loss"], [*shapes, torch.Size()], [*call["params"], call["loss"]], strict=True
    ):
        there = sum(shard is not None for shard in held)
        if there < len(held):
            where = {"devices": count(there, "device"), "all": len(held)}
            yield say.remark("not_everywhere", number=number, array=name, **where)
        for device, shard in enumerate(held):
            if shard is not None and shard.shape != shape:
                wrong = "holds_a_part" if shard.numel() < shape.numel() else "holds_another"
                shown = {"array": name, "found": list(shard.shape), "shape": list(shape)}
                cause = say("one_loss" if name == "loss" else "whole_parameters")
                yield say.remark(wrong, number=number, device=device, **shown, cause=cause)


def _params(
    plan: Descent, params: Sequence[Sequence[torch.Tensor]], names: Sequence[str], one: OneDeviceStep, number: int
) -> Remarks:
    """Every device's numbers of each parameter."""
    for k, (name, held) in enumerate(zip(names, params, strict=True)):
        before, right, gradient = one.before[k], one.after[k].float(), one.gradient[k]
        of_first = one.shares[0][1][k] if all_equal(held) else None
        for device, found in enumerate(held):
            mistakes = _wrong_updates(plan, before, gradient, one.shares[device][1][k], of_first)
            otherwise = _why_wrong(before - found.double(), plan.rate * gradient, is_last=number == plan.steps)
            what = f"after step {number}, {name} on device {device}"
            yield holds(what, found, right, mistakes, same=close, otherwise=otherwise)


def all_equal(held: Sequence[torch.Tensor]) -> bool:
    """Whether all devices hold the same."""
    return all(torch.equal(each, held[0]) for each in held)


def _wrong_updates(
    plan: Descent, before: torch.Tensor, gradient: torch.Tensor, own: torch.Tensor, first: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """What usual mistakes make of a parameter.

    Args:
        own: the gradient of the device's samples.
        first: of device 0's, if all devices have the same.
    """
    N, summed = plan.devices, say("summed")
    wrong = {
        say("unchanged"): 0 * gradient,
        say("summed_twice", factor=N, summed=summed): N * gradient,
        say("not_averaged", factor=N * N, summed=summed): N * N * gradient,
        say("divided_twice", factor=N): gradient / N,
        say("own_samples" if first is None else "first_device"): own if first is None else first,
        say("uphill"): -gradient,
        say("no_rate"): gradient / plan.rate,
    }
    return {words: (before - plan.rate * each).float() for words, each in wrong.items()}


def _why_wrong(moved: torch.Tensor, right: torch.Tensor, is_last: bool) -> str:
    """The cause where a parameter has not moved as it should: perhaps the direction is right."""
    factor = float((moved * right).sum() / (right * right).sum())
    if close(moved, factor * right):
        return say("factor", factor=factor)
    return say("remembers" if is_last else "update")


def _losses(plan: Descent, losses: Sequence[torch.Tensor], one: OneDeviceStep, number: int) -> Remarks:
    """The loss on every device."""
    mistakes = {
        say("loss_of_share"): [loss.float() for loss, _ in one.shares],
        say("loss_summed"): (one.loss * plan.devices).float(),
        say("loss_after"): one.loss_after.float(),
    }
    for device, found in enumerate(losses):
        what = f"in step {number}, the loss on device {device}"
        yield holds(what, found, one.loss.float(), mistakes, same=close, otherwise=say("loss"))


def _compilations(calls: Sequence[dict[str, Any]]) -> Remarks:
    numbers = [call["compiled"] for call in calls]
    if any(numbers[2:]):
        compilations = ", ".join(f"{number} in call {call}" for call, number in enumerate(numbers, start=1))
        yield say.remark("compiles_again", compilations=compilations)


def _communication(plan: Descent, programs: Sequence[str], nbytes: int, number: int) -> Remarks:
    """What the programs that a call has compiled are handed, and what they send."""
    if len(programs) > 1:
        yield say.remark("many_programs", programs=len(programs))
        return
    wholes = {math.prod(shape) for shape in plan.batch}
    for program in programs:
        if asks_python(program):
            yield say.remark("asks_python")
        if wholes & set(handed_over(program)):
            yield say.remark("whole_batch", samples=plan.samples)
    found = [each for program in programs for each in collectives(program)]
    expected, sent = 2 * (plan.devices - 1) / plan.devices * nbytes, bytes_sent(found)
    if any(wholes & set(sizes_of(each.shapes)) for each in found):
        yield say.remark("batch_sent", *_as_lines(found))
    if sent > expected + SPARE:
        yield say.remark("sends_more", *_as_lines(found), sent=sent, expected=expected)
    if number == 1 and sent < expected:
        yield say.remark("sends_less", *_as_lines(found), sent=sent, expected=expected)


# ── shardings ────────────────────────────────────────────────────────────────────────────────────────────────────────

WAYS = ("data parallel", "tensor parallel", "fully sharded")


@dataclass(frozen=True)
class Cut:
    """A way; a network's widths, inputs and outputs included; devices and axis of the mesh; samples of the batch."""

    way: str
    widths: Sequence[int]
    devices: int = 4
    axis: str = "ranks"
    samples: int = 48

    @property
    def title(self) -> str:
        """How students read it."""
        return f"for {self.way!r} on {count(self.devices, 'device')}, axis {self.axis!r}, widths {list(self.widths)}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters."""
        shapes: dict[str, tuple[int, ...]] = {}
        for k, (rows, columns) in enumerate(itertools.pairwise(self.widths), start=1):
            shapes |= {f"W{k}": (rows, columns), f"b{k}": (columns,)}
        return shapes

    def held(self, name: str) -> int:
        """How many numbers of a parameter a device should hold."""
        shape = self.shapes[name]
        is_cut = {
            "data parallel": False,
            "tensor parallel": name[0] == "W" or int(name[1:]) % 2 == 1,
            "fully sharded": any(length % self.devices == 0 for length in shape),
        }
        return math.prod(shape) // self.devices if is_cut[self.way] else math.prod(shape)

    @property
    def sends(self) -> float:
        """Bytes that a device may send in a step: rings do the work."""
        share = (self.devices - 1) / self.devices
        if self.way == "tensor parallel":
            return 2 * share * 4 * self.samples * (sum(self.widths[2::2]) + sum(self.widths[2:-1:2]))
        sizes = {name: math.prod(shape) for name, shape in self.shapes.items()}
        cut = sum(size for name, size in sizes.items() if self.held(name) < size)
        return 2 * share * 4 * sum(sizes.values()) + share * 4 * cut


def _sharding_errors(seen: Seen) -> Sequence[tuple[str, str]]:
    way = seen.facts.way
    refuses = (way, say("way_refused")) if way in WAYS else ("raised", say("refuse_way"))
    return [
        refuses,
        ("values to unpack", say("two_dimensions")),
        ("Resource axis", say("axis_of_mesh")),
        ("not found in mesh", say("axis_of_mesh")),
        ("duplicate entries", say("two_cuts")),
        ("two things", say("two_things")),
        ("KeyError", say("any_layers")),
    ]


@task("mesh", "shapes", "way", seconds=SECONDS, errors=_sharding_errors)
def check_shardings(draw: Draw, *, cuts: Sequence[Cut], unknown: Sequence[str] = ()) -> Iterator[Case]:
    """`function(mesh, shapes, way)`: specs of parameters and batch. Judged by what devices hold, and what a step sends.

    `unknown`: ways that there are not.
    """
    check_there("jax")
    for cut in (*cuts, *(Cut(way, [4, 8, 4]) for way in unknown)):
        inputs = {
            "devices": cut.devices,
            "axis": cut.axis,
            "widths": list(cut.widths),
            "samples": cut.samples,
            "way": cut.way,
            "may_refuse": cut.way not in WAYS,
        }
        yield Case(cut.title, placing, [inputs], cut)


@check_shardings.judge
def _(seen: Seen) -> Remarks:
    cut, played = seen.facts, seen[0]
    if cut.way not in WAYS:
        yield _unknown_way(cut, played.get("refused"))
        return
    params = played["params"]
    if params.keys() != cut.shapes.keys():
        expected = f"expected {', '.join(cut.shapes)}"
        yield say.remark("other_names", expected, names=", ".join(map(str, params)))
        return
    for name, entries in {**params, "the batch": played["batch"]}.items():
        if entries is None:
            yield say.remark("no_spec", array=name)
    yield from _holdings(cut, params)
    yield _batch(cut, played["batch"])
    if not played["kept"]:
        yield say.remark("shapes_changed")
    yield _traffic(cut, collectives(played["program"]))


def _unknown_way(cut: Cut, words: str | None) -> Remark | None:
    if words is None:
        return say.remark("unknown_way_returned", way=cut.way, refuse=say("refuse_way"))
    if all(way in words for way in (cut.way, *WAYS)):
        return None
    return say.remark("unknown_way_refused", way=cut.way, words=words[:120], refuse=say("refuse_way"))


def _holdings(cut: Cut, params: dict[str, Any]) -> Remarks:
    """What a device holds of each parameter."""
    for name, entries in params.items():
        shape, spec = list(cut.shapes[name]), f"P({', '.join(map(repr, entries))}) for {name}"
        try:
            held = math.prod(shard_shape(cut.shapes[name], {cut.axis: cut.devices}, entries))
        except ValueError as error:
            cause = _why_not(cut, name, entries)
            yield say.remark("not_cut", f"{spec}, shape {shape}", array=name, error=error, cause=cause)
            return
        if held != cut.held(name):
            numbers = {"found": held, "expected": cut.held(name)}
            yield say.remark("held", spec, array=name, shape=shape, **numbers, cause=_why_so_many(cut, name))


def _batch(cut: Cut, entries: Sequence[Any]) -> Remark | None:
    """What is wrong with what a device gets of the batch."""
    whole = (cut.samples, cut.widths[0])
    try:
        held = shard_shape(whole, {cut.axis: cut.devices}, entries)
    except ValueError as error:
        cause = "axis_of_mesh" if _has_other_axis(cut, entries) else "samples_first"
        return say.remark("batch_not_cut", error=error, cause=say(cause))
    if cut.way == "tensor parallel":
        return None if held == whole else say.remark("batch_cut", found=list(held), whole=list(whole))
    expected = cut.samples // cut.devices
    if held[0] == expected:
        return None
    return say.remark("batch_whole", found=held[0], samples=cut.samples, expected=expected)


def _has_other_axis(cut: Cut, entries: Sequence[Any]) -> bool:
    return any(entry is not None and entry != cut.axis for entry in entries)


def _why_not(cut: Cut, name: str, entries: Sequence[Any]) -> str:
    if _has_other_axis(cut, entries):
        return say("axis_of_mesh")
    if len(entries) > len(cut.shapes[name]):
        return say("too_many_entries")
    return say("pairs" if cut.way == "tensor parallel" else "divided_dimension")


def _why_so_many(cut: Cut, name: str) -> str:
    if cut.way == "data parallel":
        return say("all_whole")
    if cut.way == "fully sharded":
        return say("any_dimension")
    return say("biases" if name[0] == "b" else "pairs")


def _traffic(cut: Cut, found: Sequence[Collective]) -> Remark | None:
    """What is wrong with what a step with these specs sends."""
    sent = bytes_sent(found)
    if sent <= cut.sends + SPARE:
        return None
    cause = say("pairs") if cut.way == "tensor parallel" else ""
    return say.remark("sends_too_much", *_as_lines(found), sent=sent, expected=cut.sends, cause=cause)
