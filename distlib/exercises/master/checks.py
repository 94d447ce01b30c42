"""Exercises 04 and 04b: the stages of DataParallel. What rank 0 hands out and collects, and that nothing else is
sent.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name, listed
from distlib.checks.models import Gradients
from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.gradients import after_backward
from distlib.checks.rules.returns import nobody_returned
from distlib.checks.rules.sent_messages import Way, sends
from distlib.checks.rules.values import holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.master.helpers import gather_outputs, reduce_gradients, replicate, split_batch
from distlib.exercises.master.plays import (
    BACKWARD,
    FORWARD,
    LOSS,
    GatedClassifier,
    collect,
    copy_model,
    loss_of,
    one_step,
    split,
)
from distlib.partition import chunk_lengths

say = Sentences(__file__)
ERRORS = (
    ("wants to", say("talks_to_itself")),
    ("rank 0 has already returned", say("returned_early")),
    ("No rank on this cycle has sent", say("both_receive")),
    ("Every rank on this cycle sends", say("both_send")),
)
LENGTHS = "Both need the same number of elements"


# ── split_batch ──────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "batch", errors=[*ERRORS, (LENGTHS, say("lengths_of_parts"))])
def check_split_batch(
    draw: Draw,
    *,
    world_sizes: Sequence[int],
    batch_sizes: Sequence[int],
    row: Sequence[int] = (2,),
    dtype: torch.dtype = torch.float32,
) -> Iterator[Case]:
    """`function(comm, batch)` returns this rank's rows of rank 0's batch."""
    for rows, ranks in ((b, n) for b in batch_sizes for n in world_sizes if b >= n):
        shape = (rows, *row)
        title = f"on {count(ranks, 'rank')}, a batch of {list(shape)} {dtype_name(dtype)}"
        yield Case(title, split, [{"batch": draw.whole(shape, dtype)} for _ in range(ranks)])


@check_split_batch.judge
def _(seen: Seen) -> Remarks:
    batches = seen.given("batch")
    batch, parts = batches[0], batches[0].tensor_split(seen.size)
    found = [told["part"] for told in seen.results]
    yield nobody_returned(found, "its part from each", say("each_returns_its_rows"))
    for rank in seen.ranks:
        cause = say("copy_from_before") if rank else ""
        yield holds(
            say("wrong_part", rank=rank),
            found[rank],
            parts[rank],
            _wrong_rows(batches, rank),
            is_wrong="",
            otherwise=say("no_return") if found[rank] is None else cause,
        )
    yield untouched("the batch on rank 0", seen[0]["batch"], batch, say("batch_stays"))
    whole = {batch.nbytes: say("whole_batch_sent")}
    ways = {(0, rank): Way(parts[rank].nbytes, "its rows", mistakes=whole) for rank in seen.ranks[1:]}
    yield from sends(seen, ways, say("nobody_else"))


def _wrong_rows(batches: Sequence[torch.Tensor], rank: int) -> Mapping[str, Any]:
    """What usual mistakes return on a rank."""
    batch, size, each = batches[0], len(batches), len(batches[0]) // len(batches)
    return {
        say("whole_batch"): batch,
        say("rows_of_own_batch"): batches[rank].tensor_split(size)[rank],
        say("own_batch"): batches[rank],
        say("every_nth_row"): batch[rank::size],
        say("torch_chunk"): dict(enumerate(batch.chunk(size))).get(rank),
        say("rows_left_over"): batch[rank * each :][:each],
        say("part_of_another"): list(batch.tensor_split(size)),
        say("columns_cut"): batch.tensor_split(size, dim=-1)[rank],
    }


# ── replicate ────────────────────────────────────────────────────────────────────────────────────────────────────────

COPY_ERRORS = (
    (LENGTHS, say("order_of_tensors")),
    ("got Module", say("model_sent")),
    ("'NoneType'", say("gradients_sent")),
)
PARAMETERS = {"0.weight": (3, 2), "0.bias": (3,), "1.weight": (2, 3)}  # their shapes
FROZEN, PASSING = "0.bias", "1.passing"


@task("comm", "model", errors=[*ERRORS, *COPY_ERRORS])
def check_replicate(
    draw: Draw,
    *,
    world_sizes: Sequence[int],
    buffers: bool = False,
    passing: bool = False,
    frozen: bool = False,
    dtype: torch.dtype = torch.float32,
    shapes: Mapping[str, Sequence[int]] = PARAMETERS,
    mean: Sequence[int] = (4,),
    others: Mapping[str, torch.dtype] | None = None,
) -> Iterator[Case]:
    """`function(comm, model)`: afterwards every parameter and buffer is that of rank 0.

    Args:
        passing: one more buffer, float16, which is not persistent.
        shapes: of the parameters, by name.
        mean: the shape of one of the buffers.
        others: the dtypes of parameters that have another one, by name.
    """
    dtypes = dict.fromkeys(shapes, dtype) | dict(others or {})

    def model() -> dict[str, Any]:
        parameters = {name: draw.whole(shape, dtypes[name]) for name, shape in shapes.items()}
        kept = {"1.mean": draw.whole(mean, dtype), "1.steps": draw.whole((), torch.int64)} if buffers else {}
        more = {PASSING: draw.whole((2,), torch.float16)} if passing else {}
        return {"parameters": parameters, "buffers": {**kept, **more}, "frozen": [FROZEN] if frozen else []}

    notes = f"{', with buffers' * buffers}{', one not persistent' * passing}{', one parameter frozen' * frozen}"
    notes += ", parameters of several dtypes" * bool(others)
    for ranks in world_sizes:
        yield Case(f"on {count(ranks, 'rank')}{notes}", copy_model, [model() for _ in range(ranks)])


@check_replicate.judge
def _(seen: Seen) -> Remarks:
    first = seen.case.inputs[0]
    right = {**first["parameters"], **first["buffers"]}
    trained = sorted(set(first["parameters"]) - set(first["frozen"]))
    for rank in seen.ranks:
        for name in right:
            yield from _copied(seen, rank, name)
        if sorted(seen[rank]["trained"]) != trained:
            now = ", ".join(seen[rank]["trained"]) or "nothing"
            yield say.remark("trained", rank=rank, right=", ".join(trained), now=now)
    whole = Way(sum(tensor.nbytes for tensor in right.values()), "every parameter and buffer", len(right))
    yield from sends(seen, {(0, rank): whole for rank in seen.ranks[1:]}, say("nobody_else"))


def _copied(seen: Seen, rank: int, name: str) -> Remarks:
    """A parameter or buffer of a rank must be that of rank 0, in the memory that it had."""
    given = [{**inputs["parameters"], **inputs["buffers"]}[name] for inputs in seen.case.inputs]
    found = seen[rank]["tensors"].get(name)
    mistakes = {
        say("rank_0_sends"): found if rank == 0 else None,
        _still_own(name, is_buffer=name in seen.case.inputs[0]["buffers"]): given[rank],
        say("model_summed"): torch.stack(given).sum(0),
    }
    wrong, moved = say("not_of_rank_0", rank=rank, tensor=name), say("other_memory", rank=rank, tensor=name)
    yield holds(wrong, found, given[0], mistakes, is_wrong="", otherwise=say("as_it_is_in_order"))
    memory = seen[rank]["memory"].get(name)
    yield holds(moved, memory, given[0], is_wrong="", otherwise=say("parameter_data"))


def _still_own(name: str, is_buffer: bool) -> str:
    """The cause where a rank still has its own tensor."""
    if not is_buffer:
        return say("own_parameter")
    return say("own_passing_buffer") if name == PASSING else say("own_buffer")


# ── gather_outputs ───────────────────────────────────────────────────────────────────────────────────────────────────

GATHER_ERRORS = ((LENGTHS, say("lengths_of_outputs")), ("must match the size of tensor", say("shape_of_result")))


@task("comm", "output", "batch_size", errors=[*ERRORS, *GATHER_ERRORS])
def check_gather_outputs(
    draw: Draw,
    *,
    world_sizes: Sequence[int],
    batch_sizes: Sequence[int],
    row: Sequence[int] = (2,),
    dtype: torch.dtype = torch.float32,
) -> Iterator[Case]:
    """`function(comm, output, batch_size)`: rank 0 gets all outputs in the order of the ranks, the others None."""
    for rows, ranks in ((b, n) for b in batch_sizes for n in world_sizes if b >= n):
        lengths = chunk_lengths(rows, ranks)
        inputs = [{"output": draw.whole((length, *row), dtype), "batch_size": rows} for length in lengths]
        yield Case(f"on {count(ranks, 'rank')}, {rows} outputs of {list(row)} {dtype_name(dtype)}", collect, inputs)


@check_gather_outputs.judge
def _(seen: Seen) -> Remarks:
    parts = seen.given("output")
    right, found = torch.cat(parts), seen[0]["outputs"]
    mistakes = {
        say("only_own_output"): parts[0],
        say("own_output_missing"): torch.cat([*parts[1:], parts[0][:0]]),
    }
    otherwise = _cause_of_rows(found, right, parts[0])
    yield holds(say("not_all_outputs"), found, right, mistakes, is_wrong="", otherwise=otherwise)
    if seen[0]["has_history"]:
        yield say.remark("has_history")
    for rank in seen.ranks:
        if rank and seen[rank]["outputs"] is not None:
            yield say.remark("returns_outputs", rank=rank)
        yield untouched(f"the output of rank {rank}", seen[rank]["output"], parts[rank], say("output_stays"))
        if parts[rank].is_floating_point() and not seen[rank]["keeps_history"]:
            yield say.remark("lost_history", rank=rank)
    ways = {(rank, 0): Way(parts[rank].nbytes, "its output") for rank in seen.ranks[1:]}
    yield from sends(seen, ways, say("only_to_rank_0"))


def _cause_of_rows(found: Any, right: torch.Tensor, own: torch.Tensor) -> str:
    """The cause where rank 0 has other outputs. `own`: its own."""
    if found is None:
        return say("no_return")
    if not isinstance(found, torch.Tensor) or found.shape != right.shape:
        return ""
    if sorted(map(str, found.tolist())) == sorted(map(str, right.tolist())):
        return say("wrong_order")
    return say("own_rows_right") if torch.equal(found[: len(own)], own) else say("own_rows_wrong")


# ── reduce_gradients ─────────────────────────────────────────────────────────────────────────────────────────────────


SUM_ERRORS = (
    ("NoneType", say("no_gradient")),
    ("assign a gradient with dtype", say("one_dtype")),
    ("grad has data of a different type", say("one_dtype")),  # so in older versions of torch
)


@task("comm", "model", errors=[*ERRORS, *SUM_ERRORS])
def check_reduce_gradients(draw: Draw, *, world_sizes: Sequence[int], models: Sequence[Gradients]) -> Iterator[Case]:
    """`function(comm, model)`: afterwards the gradients of rank 0 are the sums over all ranks."""

    def gradients(model: Gradients) -> list[torch.Tensor | None]:
        numbered = enumerate(model.shapes)
        return [draw.whole(shape, model.dtype_of(k)) / 4 if k in model.trained else None for k, shape in numbered]

    for model, ranks in ((model, n) for model in models for n in world_sizes):
        weights = [draw.whole(shape, model.dtype_of(k)) for k, shape in enumerate(model.shapes)]
        notes = f"{', one frozen' * bool(model.frozen)}{', of several dtypes' * bool(model.others)}"
        title = f"on {count(ranks, 'rank')}, {count(len(weights), 'parameter')}{notes}"
        alike = {"weights": weights, "frozen": list(model.frozen)}
        yield Case(title, after_backward, [{**alike, "gradients": gradients(model)} for _ in range(ranks)], model)


@check_reduce_gradients.judge
def _(seen: Seen) -> Remarks:
    model: Gradients = seen.facts
    for number in range(len(model.shapes)):
        found, is_trained = seen[0]["gradients"][number], number in model.trained
        yield holds(
            say("not_the_sum", number=number),
            found,
            _sum_of(seen, number) if is_trained else None,
            _wrong_gradients(seen, number) if is_trained else None,
            is_wrong="",
            otherwise="" if is_trained else say("frozen_on_all"),
        )
    for rank in seen.ranks:
        for found, before in zip(seen[rank]["weights"], seen.case.inputs[rank]["weights"], strict=True):
            yield untouched(f"on rank {rank}, a parameter itself", found, before, say("parameters_stay"))
    every = Way(model.nbytes, "all its gradients", len(model.trained))
    yield from sends(seen, {(rank, 0): every for rank in seen.ranks[1:]}, say("nothing_back"))


def _sum_of(seen: Seen, number: int) -> torch.Tensor:
    """The sum of a parameter's gradients over the ranks."""
    return torch.stack([gradients[number] for gradients in seen.given("gradients")]).sum(0)


def _wrong_gradients(seen: Seen, number: int) -> Mapping[str, torch.Tensor]:
    """What usual mistakes make of a gradient on rank 0."""
    given, total = [gradients[number] for gradients in seen.given("gradients")], _sum_of(seen, number)
    nbytes, sent = seen.facts.nbytes, min(seen.trace.bytes_sent[1:], default=0)
    is_all_sent = sent >= nbytes
    weight = seen.case.inputs[0]["weights"][number]
    return {
        say("average"): total / seen.size,
        say("own_gradient") if is_all_sent else say("own_gradient_few_sent", sent=sent, nbytes=nbytes): given[0],
        say("own_gradient_missing"): total - given[0],
        say("own_gradient_twice"): total + given[0],
        say("last_rank_added"): given[0] + given[-1],
        say("added_twice"): 2 * total - given[0],
        say("subtracted"): 2 * given[0] - total,
        say("parameters_added"): given[0] + (seen.size - 1) * weight,
    }


# ── the whole step ───────────────────────────────────────────────────────────────────────────────────────────────────
# The model multiplies by factors that differ from rank to rank (`plays.GatedClassifier`). So rank 0 can't compute the
# whole batch alone, and an output that comes from the wrong rank shows. A rank could hand its factors over instead of
# computing. But then it has not shown, at its gates, what only the computation of its own part gives.

PARTS = (split_batch, replicate, gather_outputs, reduce_gradients)
STEP_ERRORS = (
    ("grad can be implicitly created only for scalar", say("not_a_scalar")),
    ("Mismatch in shape: grad_output", say("rows_of_gradient")),
    ("does not require grad", say("no_history")),
    ("'NoneType' object", say("something_is_none")),
    ("must match the size of tensor", say("rows_of_outputs")),
    ("to match target batch_size", say("all_labels")),
    ("not implemented for 'Long'", say("outputs_first")),
    ("modified by an inplace operation", say("written_in_between")),
    ("backward through the graph a second time", say("backward_twice")),
    ("receives into", say("other_parts")),
    ("deadlock", say("not_every_rank")),
)
BUFFERS = ("offset", "mean")
LOSSES = {"mean": "", "sum": ", the loss a sum", "joint": ", a loss in which images look at each other"}


@dataclass(frozen=True)
class Step:
    """A step to be checked.

    Attributes:
        batch_size: images in the batch.
        loss: "mean" over the images, "sum", or "joint", in which the images look at each other.
        frozen: names of parameters that need no gradient.
        earlier: whether the parameters have a gradient from before.
        image: the shape of an image.
        hidden: how many hidden units the model has.
        output: the shape of what the model makes of an image.
        dtype: of the images and of the model.
        images: the dtype of the images, if it is another one.
        first: the dtype of the model up to its gate, if it is another one; the outputs' is that of the rest.
        without, more: parameters and buffers of a GatedClassifier that this one lacks, and that it has besides.
    """

    batch_size: int
    loss: str = "mean"
    frozen: tuple[str, ...] = ()
    earlier: bool = False
    image: tuple[int, ...] = (4,)
    hidden: int = 3
    output: tuple[int, ...] = (2,)
    dtype: torch.dtype = torch.float64
    without: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    images: torch.dtype | None = None
    first: torch.dtype | None = None

    @property
    def numbers(self) -> int:
        """How many numbers the model makes of an image."""
        return math.prod(self.output)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the model's parameters and its buffers, by name."""
        usual = {
            "first.weight": (self.hidden, math.prod(self.image)),
            "first.bias": (self.hidden,),
            "last.weight": (self.numbers, self.hidden),
            "last.bias": (self.numbers,),
            "offset": (self.hidden,),
        }
        more = {"mask": self.image, "scale": (), "mean": self.image}
        kept = {name: shape for name, shape in usual.items() if name not in self.without}
        return kept | {name: more[name] for name in self.more}

    def dtype_of(self, name: str) -> torch.dtype:
        """That of a parameter or buffer."""
        return self.dtype if name.startswith("last.") or name == "scale" else self.first or self.dtype

    @property
    def is_single(self) -> bool:
        """Whether some of it is computed in single precision."""
        return torch.float32 in (self.dtype, self.first)

    @property
    def trained(self) -> list[str]:
        """The parameters that need a gradient."""
        return [name for name in self.shapes if name not in (*self.frozen, *BUFFERS)]


@task(
    "comm",
    "model",
    "images",
    "labels",
    "loss_function",
    untouched=["images", "labels"],
    helpers=PARTS,
    errors=STEP_ERRORS,
)
def check_data_parallel_step(draw: Draw, *, world_sizes: Sequence[int], steps: Sequence[Step]) -> Iterator[Case]:
    """`function(comm, model, images, labels, loss_function)`: gradients and loss on rank 0, and every message."""
    seed = draw.getrandbits(60)
    for step, ranks in ((step, n) for step in steps for n in world_sizes if step.batch_size >= n):
        numbers = torch.Generator().manual_seed(random.Random(f"{seed} {ranks} {step}").getrandbits(60))
        frozen, earlier = ", a frozen layer" * bool(step.frozen), ", a gradient left from before" * step.earlier
        outputs = f", outputs of shape {list(step.output)}" * (len(step.output) != 1)
        outputs += f", {dtype_name(step.images)} images" if step.images else ""
        outputs += ", a model of two dtypes" * bool(step.first)
        title = f"on {count(ranks, 'rank')}, {count(step.batch_size, 'image')}{outputs}{LOSSES[step.loss]}"
        yield Case(
            f"{title}{frozen}{earlier}", one_step, [_inputs_of(step, numbers) for _ in range(ranks)], step, seed=seed
        )


def _inputs_of(step: Step, numbers: torch.Generator) -> dict[str, Any]:
    """What one rank is given, drawn from `numbers`."""
    normal = partial(torch.randn, generator=numbers)
    images, dtype = (step.batch_size, *step.image), step.images or step.dtype
    drawn = partial(normal, dtype=dtype) if dtype.is_floating_point else partial(torch.randint, 5, generator=numbers)
    return {
        "state": {name: normal(shape, dtype=step.dtype_of(name)) for name, shape in step.shapes.items()},
        "images": drawn(images).to(dtype),
        "labels": torch.randint(max(2, step.numbers), (step.batch_size,), generator=numbers),
        "loss": step.loss,
        "frozen": list(step.frozen),
        "shape": list(step.output),
        "earlier": step.earlier,
    }


@check_data_parallel_step.judge
def _(seen: Seen) -> Remarks:
    yield from _gradients(seen)
    yield from _only_on_rank_0(seen)
    yield from _loss(seen)
    for name, before in seen.case.inputs[0]["state"].items():
        yield untouched(f"on rank 0, {name} itself", seen[0]["state"][name], before, say("no_step"))
    yield from _computed_by_each_rank(seen)
    yield from sends(seen, _ways(seen), say("nobody_else"))


def _gradients(seen: Seen) -> Remarks:
    """Rank 0 has the gradients of the whole batch."""
    parts = _work(seen)[1]
    for name, right in _total(parts).items():
        found, mistakes = seen[0]["gradients"][name], partial(_mistakes, seen, name, parts)
        wrong, otherwise = say("not_of_whole_batch", parameter=name), _cause_of_gradient(right, found)
        yield holds(wrong, found, right, mistakes, is_wrong="", same=_close(seen), otherwise=otherwise)


def _cause_of_gradient(right: Any, found: Any) -> str:
    """The cause where no usual mistake gives this gradient."""
    if right is None:
        return say("frozen_gets_none")
    return say("no_gradient_at_all") if found is None else say("begins_with_its_rows")


def _only_on_rank_0(seen: Seen) -> Remarks:
    """The others neither compute the loss nor return anything."""
    for rank in seen.ranks[1:]:
        if seen.passed(rank, LOSS):
            yield say.remark("calls_loss", rank=rank)
        if seen[rank]["returned"] is not None:
            yield say.remark("returns_loss", rank=rank)


def _loss(seen: Seen) -> Remarks:
    """Rank 0 computes the loss once, of all outputs, and returns it."""
    calls = [outputs.shape[0] for outputs in seen.shown(0, LOSS)]
    if not calls:
        yield say.remark("loss_never")
    elif calls != [seen.facts.batch_size]:
        yield say.remark("loss_not_once", times=count(len(calls), "time"), rows=listed(calls))
    right, found = _work(seen)[0], seen[0]["returned"]
    yield holds(say("not_the_loss"), found, right, is_wrong="", same=_close(seen), otherwise=say("ends_with_loss"))


def _close(seen: Seen) -> Callable[[Any, Any], bool]:
    """Single precision rounds more; what a mistake gives differs in the first digits."""
    if seen.facts.is_single:
        return partial(is_close, relative=1e-4, absolute=1e-5, any_dtype=True)
    return partial(is_close, any_dtype=True)


def _computed_by_each_rank(seen: Seen) -> Remarks:
    """Whether every rank has shown at its gates what forward and backward of its own part give."""
    right: list[list[tuple[int, Any]]] = [[] for _ in seen.ranks]
    _work(seen, shown=right)
    missing, is_same = {FORWARD: "no_forward", BACKWARD: "no_backward"}, _close(seen)
    for rank in seen.ranks:
        for k, values in right[rank]:
            if not any(is_same(found, values) for found in seen.shown(rank, k)):
                yield say.remark(missing[k], rank=rank)


def _ways(seen: Seen) -> dict[tuple[int, int], Way]:
    """What goes out to each rank, and what comes back."""
    inputs = seen.case.inputs[0]
    back, trained = _nbytes_of_gradients(seen), len(seen.facts.trained)
    ways = {}
    for rank, part in list(enumerate(inputs["images"].tensor_split(seen.size)))[1:]:
        ways[0, rank] = _way_out(seen, part)
        ways[rank, 0] = Way(len(part) * _nbytes_of_output(seen) + back, "its outputs and its gradients", trained + 1)
    return ways


def _way_out(seen: Seen, part: torch.Tensor) -> Way:
    """What goes out to a rank. `part`: its images."""
    inputs, rows, images = seen.case.inputs[0], len(part), seen.case.inputs[0]["images"]
    model = sum(tensor.nbytes for tensor in inputs["state"].values())
    output = _nbytes_of_output(seen)
    out = part.nbytes + model + rows * output
    mistakes = {
        out + rows * 8: say("labels_sent"),
        out + len(images) * 8: say("labels_sent"),
        out + images.nbytes - part.nbytes: say("all_images_sent"),
        out + model: say("model_sent_twice"),
        out + (len(images) - rows) * output: say("whole_gradient_sent"),
        out + _nbytes_of_gradients(seen): say("gradients_sent_back"),
    }
    return Way(out, "its images, the model, and the gradient of its outputs", len(inputs["state"]) + 2, mistakes)


def _nbytes_of_output(seen: Seen) -> int:
    """The bytes of the outputs of one image."""
    size: int = seen.facts.numbers * seen.facts.dtype.itemsize
    return size


def _nbytes_of_gradients(seen: Seen) -> int:
    state = seen.case.inputs[0]["state"]
    return sum(state[name].nbytes for name in seen.facts.trained)


def _mistakes(seen: Seen, name: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What usual mistakes make of the gradient of a parameter."""
    right, size = _total(parts)[name], seen.size
    if right is None:
        return {}
    own_loss = _total(_work(seen, own_loss=True)[1])[name]
    return {
        say("divided_by_ranks"): right / size,
        say("left_from_before"): [right + ranks for ranks in (1, size - 1, size) if ranks],
        say("rank_0_alone"): parts[0][name],
        say("own_weights"): _total(_work(seen, own_weights=True)[1])[name],
        say("own_images"): _total(_work(seen, own_images=True)[1])[name],
        say("own_loss"): own_loss,
        say("average_of_own_losses"): own_loss / size,
    }


def _work(
    seen: Seen,
    *,
    own_weights: bool = False,
    own_images: bool = False,
    own_loss: bool = False,
    shown: Sequence[list[tuple[int, Any]]] = (),
) -> tuple[torch.Tensor, list[dict[str, torch.Tensor | None]]]:
    """The loss of the batch, and the gradients that each rank adds to the sum; or with a mistake.

    Args:
        own_weights, own_images: with the weights, the images that a rank has itself instead of those of rank 0.
        own_loss: each rank computes the loss of its own part.
        shown: by rank; what it passes its gates with is added here.
    """
    inputs = seen.case.inputs
    frozen, gates = inputs[0]["frozen"], [_gate(seen, rank, shown) for rank in seen.ranks]
    states = [inputs[rank if own_weights else 0]["state"] for rank in seen.ranks]
    models = [GatedClassifier(*pair, frozen, seen.facts.output) for pair in zip(states, gates, strict=True)]
    images = [inputs[rank if own_images else 0]["images"].tensor_split(seen.size)[rank] for rank in seen.ranks]
    outputs = [model(rows) for model, rows in zip(models, images, strict=True)]
    labels, kind = inputs[0]["labels"], seen.facts.loss
    losses = [loss_of(kind, *pair) for pair in zip(outputs, labels.tensor_split(seen.size), strict=True)]
    loss = loss_of(kind, torch.cat(outputs), labels)
    (torch.stack(losses).sum() if own_loss else loss).backward()
    return loss.detach(), [{name: p.grad for name, p in model.named_parameters()} for model in models]


def _gate(seen: Seen, rank: int, shown: Sequence[list[tuple[int, Any]]]) -> PassGate:
    def gate(k: int, values: torch.Tensor | None = None) -> float:
        if shown and values is not None:
            shown[rank].append((k, values.detach().clone()))
        return seen.case.part.factor(rank, k)

    return gate


def _total(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum over the ranks, by name; None where there is no gradient."""

    def total(name: str) -> torch.Tensor:
        return torch.stack([part[name] for part in parts]).sum(dim=0)

    return {name: None if own is None else total(name) for name, own in parts[0].items()}
