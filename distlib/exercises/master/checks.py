"""Exercise 04: the stages of DataParallel. What rank 0 hands out and collects, and that nothing else is sent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.models import Gradients
from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.gradients import after_backward
from distlib.checks.remark import Remark
from distlib.checks.rules.messages import Way, sends
from distlib.checks.rules.returns import nobody_returned
from distlib.checks.rules.values import holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count, dtype_name, listed
from distlib.exercises.master.helpers import gather_outputs, reduce_gradients, replicate, split_batch
from distlib.exercises.master.plays import (
    BACKWARD,
    FORWARD,
    LOSS,
    Classifier,
    collect,
    copy_model,
    loss_of,
    one_step,
    split,
)  # fmt: skip
from distlib.partition import chunk_lengths

# fmt: off
ERRORS = (
    ("wants to", "rank 0 talks to the ranks 1 to comm.world_size - 1, and not to itself. With one rank it talks to "
     "nobody, and a return inside its loop is never reached."),
    ("rank 0 has already returned", "rank 0 has returned before every rank got its message. Does its loop go on to rank "
     "comm.world_size - 1, without a return inside it?"),
    ("No rank on this cycle has sent", "both ends wait to receive: where one rank calls recv, the other one calls send."),
    ("Every rank on this cycle sends", "both ends send: where one rank calls send, the other one calls recv."),
)
LENGTHS = "Both need the same number of elements"
NOBODY_ELSE = "everything comes from rank 0 or goes to it: the other ranks have nothing to tell each other."
NO_RETURN = "the function returns None here. Is there a return for this rank?"


@task("comm", "batch", errors=(*ERRORS, (LENGTHS, "rank 0 sends rank r part r of torch.tensor_split(batch, comm.world_size), "
      "and rank r receives into a tensor like this part.")))
def check_split_batch(
    draw: Draw, *, world_sizes: Sequence[int], batch_sizes: Sequence[int], row: Sequence[int] = (2,),
    dtype: torch.dtype = torch.float32,
) -> Iterator[Case]:
    """`function(comm, batch)` returns this rank's rows of rank 0's batch."""
    for rows, ranks in ((b, n) for b in batch_sizes for n in world_sizes if b >= n):
        shape = (rows, *row)
        title = f"on {count(ranks, 'rank')}, a batch of {list(shape)} {dtype_name(dtype)}"
        yield Case(title, split, [{"batch": draw.whole(shape, dtype)} for _ in range(ranks)])


@check_split_batch.judge
def _(seen: Seen) -> Remarks:
    batches, size = seen.given("batch"), seen.size
    batch, parts, each = batches[0], batches[0].tensor_split(size), len(batches[0]) // size
    yield nobody_returned([told["part"] for told in seen.results], "its part from each", "Each rank returns its own rows, rank 0, too.")
    for rank in seen.ranks:
        yield holds(f"on rank {rank} the part", seen[rank]["part"], parts[rank], {
            "this is the whole batch. Return only the rows of this rank.": batch,
            "these are rows of this rank's own tensor. Only rank 0's batch counts: receive the part from there, and return "
            "what you received into.":
                batches[rank].tensor_split(size)[rank],
            "this is this rank's own tensor, whole. Receive the part from rank 0.": batches[rank],
            "every N-th row was taken. Here the parts are cut in order, as torch.tensor_split does.": batch[rank::size],
            "torch.chunk cuts other lengths: 3, 3, 3, 1 where torch.tensor_split cuts 3, 3, 2, 2. Here the lengths of "
            "the parts differ by one at most.": dict(enumerate(batch.chunk(size))).get(rank),
            "B // N rows for each rank leave some over. When B does not divide, the first parts are one row longer: "
            "torch.tensor_split does that.": batch[rank * each :][:each],
            "this is the part of another rank.": list(parts),
            "columns were cut. The rows are the first dimension.": batch.tensor_split(size, dim=-1)[rank],
        }, otherwise=NO_RETURN if seen[rank]["part"] is None else "is what it returns the very tensor that recv has written "
           "into, and not a copy from before?" if rank else "")
    yield untouched("the batch on rank 0", seen[0]["batch"], batch, "return the part, and leave the batch as it is.")
    whole = {batch.nbytes: "the whole batch goes to every rank. Send each rank its own rows."}
    ways = {(0, rank): Way(parts[rank].nbytes, "its rows", mistakes=whole) for rank in seen.ranks[1:]}
    yield from sends(seen, ways, NOBODY_ELSE)


@task("comm", "model", errors=(*ERRORS, (LENGTHS, "every rank must go through the same tensors in the same order as rank 0: "
      "parameters first on all of them, or buffers first."), ("got Module", "a message is one tensor. Send each parameter and each "
      "buffer of the model."), ("'NoneType'", "something here is None. A parameter's .grad is, "
      "before backward; but the parameters themselves are what is copied.")))
def check_replicate(
    draw: Draw, *, world_sizes: Sequence[int], buffers: bool = False, passing: bool = False, frozen: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Case]:
    """`function(comm, model)`: afterwards every parameter and buffer is that of rank 0.

    `passing`: one more buffer, which is not persistent.
    """
    shapes = {"0.weight": (3, 2), "0.bias": (3,), "1.weight": (2, 3)}
    notes = f"{', with buffers' * buffers}{', one not persistent' * passing}{', one parameter frozen' * frozen}"
    for ranks in world_sizes:
        yield Case(f"on {count(ranks, 'rank')}{notes}", copy_model, [
            {
                "parameters": {name: draw.whole(shape, dtype) for name, shape in shapes.items()},
                "buffers": {
                    **({"1.mean": draw.whole((4,), dtype), "1.steps": draw.whole((), torch.int64)} if buffers else {}),
                    **({"1.passing": draw.whole((2,), dtype)} if passing else {}),
                },
                "frozen": ["0.bias"] if frozen else [],
            }
            for _ in range(ranks)
        ])


@check_replicate.judge
def _(seen: Seen) -> Remarks:
    models = [{**inputs["parameters"], **inputs["buffers"]} for inputs in seen.case.inputs]
    first = seen.case.inputs[0]
    trained = sorted(set(first["parameters"]) - set(first["frozen"]))
    for rank in seen.ranks:
        for name, right in models[0].items():
            still = ("this is still the rank's own buffer. A model has model.buffers() besides model.parameters(), and all "
                     "of them count, whatever their dtype." + " state_dict() has only the persistent ones." * (name == "1.passing")
                     if name in first["buffers"] else
                     "this is still the rank's own tensor. Receive into the parameter itself, in place, and do not "
                     "forget any: a frozen parameter counts, too.")
            found = seen[rank]["tensors"].get(name)
            yield holds(f"on rank {rank}, {name}", found, right, {
                "rank 0 has the model that counts. It sends, and receives nothing.": found if rank == 0 else None,
                still: models[rank][name],
                "these are sums over the ranks. The others get a copy of what rank 0 has.":
                    torch.stack([model[name] for model in models]).sum(0),
            }, is_wrong=" is not that of rank 0.", otherwise="does rank 0 send every tensor as "
                "it is, and are they received in the order in which they are sent?")
            yield holds(f"on rank {rank}, {name}", seen[rank]["memory"].get(name), right,
                        is_wrong=" has the right values, but in other memory.", otherwise="parameter.data = … points it "
                        "there. Write into the memory that it has: receive into parameter.data, or parameter.data.copy_(…).")
        if sorted(seen[rank]["trained"]) != trained:
            now = ", ".join(seen[rank]["trained"]) or "nothing"
            yield Remark(f"on rank {rank}, what should require a gradient is {', '.join(trained)}. Now it is {now}.",
                         cause="copy the values, and leave requires_grad as it is.")
    whole = Way(sum(tensor.nbytes for tensor in models[0].values()), "every parameter and buffer", len(models[0]))
    yield from sends(seen, {(0, rank): whole for rank in seen.ranks[1:]}, NOBODY_ELSE)


@task("comm", "output", "batch_size", errors=(*ERRORS, (LENGTHS, "the result has batch_size rows, and part r of torch.tensor_split "
      "as many as rank r sends: the parts need not be equally long."), ("must match the size of tensor", "the result has batch_size rows "
      "in all, each of shape output.shape[1:]. torch.tensor_split cuts them into the parts of the ranks.")))
def check_gather_outputs(
    draw: Draw, *, world_sizes: Sequence[int], batch_sizes: Sequence[int], row: Sequence[int] = (2,),
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
    yield holds("rank 0", found, right, lambda: {
        "this is only the output of rank 0 itself.": parts[0],
        "the output of rank 0 itself is missing at the beginning. Nobody sends it: rank 0 has it already.":
            torch.cat([*parts[1:], parts[0][:0]]),
    }, is_wrong=" does not have all outputs.", otherwise=_cause_of_rows(found, right, parts[0]))
    if seen[0]["has_history"]:
        yield Remark("the values are right, but what rank 0 returns still has the history of its own output.", cause=
                     "backward would run through rank 0's model twice. Put output.detach() into the result.")
    for rank in seen.ranks:
        if rank and seen[rank]["outputs"] is not None:
            yield Remark(f"rank {rank} returns something, and should return None.", cause="only rank 0 has all outputs.")
        yield untouched(f"the output of rank {rank}", seen[rank]["output"], parts[rank], "put them together in a new tensor.")
        if parts[rank].is_floating_point() and not seen[rank]["keeps_history"]:
            yield Remark(f"the output of rank {rank} has lost its history.", cause="output.detach_() takes it from output "
                         "itself, and backward can't begin there any more. output.detach() leaves output as it is.")
    yield from sends(seen, {(rank, 0): Way(parts[rank].nbytes, "its output") for rank in seen.ranks[1:]},
                     "outputs go to rank 0, and only there. The loss is computed on rank 0.")


def _cause_of_rows(found: Any, right: torch.Tensor, own: torch.Tensor) -> str:
    if found is None:
        return NO_RETURN
    if not isinstance(found, torch.Tensor) or found.shape != right.shape:
        return ""
    if sorted(map(str, found.tolist())) == sorted(map(str, right.tolist())):
        return ("all rows are there, in the wrong order. Part r of the result is the output of rank r: is each put behind the "
                "one before, and does recv name its source, or take what comes first?")
    if not torch.equal(found[: len(own)], own):
        return ("its first rows are not rank 0's own output. Nobody sends that. Write it into the result itself, not into a "
                "copy of a part, and let no other part overwrite it: rank r's is part r.")
    return "rank 0's own rows are right. Is each other part received into the result itself, and with its own length?"


@task("comm", "model", errors=(*ERRORS, ("NoneType", "a parameter that needs no gradient has none: its .grad is None, on "
                                         "every rank. Leave it out.")))
def check_reduce_gradients(draw: Draw, *, world_sizes: Sequence[int], models: Sequence[Gradients]) -> Iterator[Case]:
    """`function(comm, model)`: afterwards the gradients of rank 0 are the sums over all ranks."""
    for model, ranks in ((model, n) for model in models for n in world_sizes):
        weights = [draw.whole(shape, model.dtype) for shape in model.shapes]
        title = f"on {count(ranks, 'rank')}, {count(len(weights), 'parameter')}{', one frozen' * bool(model.frozen)}"
        yield Case(title, after_backward, [
            {
                "weights": weights, "frozen": list(model.frozen),
                "gradients": [draw.whole(shape, model.dtype) / 4 if number in model.trained else None
                              for number, shape in enumerate(model.shapes)],
            }
            for _ in range(ranks)
        ], model)


@check_reduce_gradients.judge
def _(seen: Seen) -> Remarks:
    model: Gradients = seen.facts
    least = min(seen.trace.bytes_sent[1:], default=0)
    added = ("Is what comes in added into parameter.grad?" if least >= model.nbytes else f"A rank has sent {least} of its "
             f"{model.nbytes} bytes. Every gradient is sent: does the loop end too early, such as at a frozen parameter?")
    for number in range(len(model.shapes)):
        given = [gradients[number] for gradients in seen.given("gradients")]
        is_trained = number in model.trained
        total = torch.stack(given).sum(0) if is_trained else None
        yield holds(f"on rank 0, the gradient of parameter {number}", seen[0]["gradients"][number], total, {
            "this is the average. The loss is that of the whole batch, so the division is in the gradients already: only "
            "add.": total / seen.size,
            f"this is still rank 0's own gradient. {added}": given[0],
            "rank 0's own gradient is missing in the sum. recv overwrites: receive into another tensor, and add that.": total - given[0],
            "rank 0's own gradient is counted twice.": total + given[0],
            "this is the gradient of the last rank. Add what comes in, do not copy it.": given[-1],
            "only the gradient of the last rank was added. Add each one before the next overwrites it.": given[0] + given[-1],
            "what comes in was added twice.": 2 * total - given[0],
            "what comes in was subtracted.": 2 * given[0] - total,
            "parameters were added to the gradient. Send parameter.grad.":
                given[0] + (seen.size - 1) * seen.case.inputs[0]["weights"][number],
        } if total is not None else None, is_wrong=" is not the sum over the ranks.",
            otherwise="" if is_trained else "this parameter is frozen: it has no gradient on any rank, and gets none.")
    for rank in seen.ranks:
        for found, before in zip(seen[rank]["weights"], seen.case.inputs[rank]["weights"], strict=True):
            yield untouched(f"on rank {rank}, a parameter itself", found, before,
                            "add up the gradients, parameter.grad, and leave the parameters to the optimizer.")
    every = Way(model.nbytes, "all its gradients", len(model.trained))
    yield from sends(seen, {(rank, 0): every for rank in seen.ranks[1:]}, "gradients go straight to rank 0, and nothing comes back: "
                     "only rank 0 has the optimizer, and the next step sends the new model out.")


# ── the whole step ───────────────────────────────────────────────────────────────────────────────────────────────────
# The model multiplies by factors that differ from rank to rank (`plays.master.Classifier`). So rank 0 can't compute
# the whole batch alone, and an output that comes from the wrong rank shows. A rank could hand its factors over instead of
# computing. But then it has not shown, at its gates, what only the computation of its own part gives.

PARTS = (split_batch, replicate, gather_outputs, reduce_gradients)
STEP_ERRORS = (
    ("grad can be implicitly created only for scalar", "a rank's output is not a single number: call "
     "output.backward(part), with the part of the gradient that belongs to this output."),
    ("Mismatch in shape: grad_output", "a rank goes backward from its own rows of outputs.grad. split_batch gives them."),
    ("does not require grad", "backward was called on something that has no history. On rank 0 the gathered outputs have no "
     "history: make them a starting point before the loss, outputs.requires_grad_(). A rank's own output has one, unless it "
     "was computed under torch.no_grad() or detached."),
    ("'NoneType' object", "something here is None. Outputs exist on rank 0 only; elsewhere gather_outputs returns None. Only "
     "rank 0 computes the loss. After loss.backward() the gradient is in outputs.grad, not in loss.grad."),
    ("must match the size of tensor", "gather_outputs puts len(images) rows together, and from each rank come those of its "
     "part: output = model(part)."),
    ("to match target batch_size", "the loss is that of all outputs, which gather_outputs puts together, with all labels."),
    ("not implemented for 'Long'", "loss_function takes the outputs first, then the labels."),
    ("modified by an inplace operation", "what forward has used was changed before backward. Replicate before forward, and "
     "write into neither images nor parameters."),
    ("backward through the graph a second time", "call output.backward once in a step."),
    ("receives into", "on every rank the same parts are called in the same order, and split_batch with a tensor of all "
     "len(images) rows, not of this rank's: on the others, too, where only its shape counts."),
    ("deadlock", "every rank takes part in every message: it calls each of the four parts as often as rank 0, and goes "
     "backward. reduce_gradients sends nothing for a parameter without a gradient."),
)
PIXELS, HIDDEN, CLASSES = 4, 3, 2
SHAPES = {"first.weight": (HIDDEN, PIXELS), "first.bias": (HIDDEN,), "last.weight": (CLASSES, HIDDEN),
          "last.bias": (CLASSES,), "offset": (HIDDEN,)}
LOSSES = {"mean": "", "sum": ", the loss a sum", "joint": ", a loss in which images look at each other"}


@dataclass(frozen=True)
class Step:
    """A step to be checked.

    Attributes:
        batch_size: images in the batch.
        loss: "mean" over the images, "sum", or "joint", in which the images look at each other.
        frozen: names of parameters that need no gradient.
        earlier: whether the parameters have a gradient from before.
    """

    batch_size: int
    loss: str = "mean"
    frozen: tuple[str, ...] = ()
    earlier: bool = False


@task("comm", "model", "images", "labels", "loss_function", untouched=["images", "labels"], helpers=PARTS, errors=STEP_ERRORS)
def check_data_parallel_step(draw: Draw, *, world_sizes: Sequence[int], steps: Sequence[Step]) -> Iterator[Case]:
    """`function(comm, model, images, labels, loss_function)`: gradients and loss on rank 0, and every message."""
    seed = draw.getrandbits(60)
    for step, ranks in ((step, n) for step in steps for n in world_sizes if step.batch_size >= n):
        numbers = torch.Generator().manual_seed(random.Random(f"{seed} {ranks} {step}").getrandbits(60))

        def normal(*shape: int, numbers: torch.Generator = numbers) -> torch.Tensor:
            return torch.randn(shape, dtype=torch.float64, generator=numbers)

        notes = LOSSES[step.loss] + ", a frozen layer" * bool(step.frozen) + ", a gradient left from before" * step.earlier
        yield Case(f"on {count(ranks, 'rank')}, {count(step.batch_size, 'image')}{notes}", one_step, [
            {
                "state": {name: normal(*shape) for name, shape in SHAPES.items()},
                "images": normal(step.batch_size, PIXELS),
                "labels": torch.randint(CLASSES, (step.batch_size,), generator=numbers),
                "loss": step.loss, "frozen": list(step.frozen), "earlier": step.earlier,
            }
            for _ in range(ranks)
        ], step, seed=seed)


def _close(found: Any, right: Any) -> bool:
    return is_close(found, right, any_dtype=True)


@check_data_parallel_step.judge
def _(seen: Seen) -> Remarks:
    step: Step = seen.facts
    loss, parts = _work(seen)
    for name, right in _total(parts).items():
        found = seen[0]["gradients"][name]
        yield holds(f"on rank 0, the gradient of {name}", found, right, partial(_mistakes, seen, name, parts),
                    is_wrong=" is not that of the whole batch.", same=_close,
                    otherwise="this parameter is frozen, and gets no gradient." if right is None else
                    "there is no gradient at all. Backward begins with output.backward(…), on every rank, and zero_grad() "
                    "comes before it." if found is None else
                    "does output.backward(…) begin with this rank's rows of outputs.grad, on every rank?")
    for rank in seen.ranks[1:]:
        if seen.passed(rank, LOSS):
            yield Remark(f"rank {rank} calls loss_function.", cause="only rank 0 has the labels, and computes the loss.")
        if seen[rank]["returned"] is not None:
            yield Remark(f"rank {rank} returns something, and should return None.", cause="only rank 0 knows the loss.")
    calls = [outputs.shape[0] for outputs in seen.shown(0, LOSS)]
    if calls != [step.batch_size]:
        rows = f", with {listed(calls)} rows" if calls else ""
        yield Remark(f"rank 0 calls loss_function {count(len(calls), 'time')}{rows}.",
                     cause="call it once, with all outputs and all labels.")
    returned = seen[0]["returned"]
    yield holds("the gradients are right, but what rank 0 returns", returned, loss, is_wrong=" is not the loss.", same=_close,
                otherwise="the function ends with the loss of the whole batch on rank 0, and None elsewhere.")
    for name, before in seen.case.inputs[0]["state"].items():
        yield untouched(f"on rank 0, {name} itself", seen[0]["state"][name], before,
                        "leave the step to the caller: rank 0 calls its optimizer after this function.")
    yield from _computed_by_each_rank(seen)
    yield from sends(seen, _ways(seen), NOBODY_ELSE)


def _computed_by_each_rank(seen: Seen) -> Remarks:
    """Whether every rank has shown at its gates what forward and backward of its own part give."""
    right: list[list[tuple[int, Any]]] = [[] for _ in seen.ranks]
    _work(seen, shown=right)
    ways = {FORWARD: "computed outputs of its own images", BACKWARD: "gone backward from its own outputs"}
    for rank in seen.ranks:
        for k, values in right[rank]:
            if not any(_close(found, values) for found in seen.shown(rank, k)):
                yield Remark(f"the gradients are right, but rank {rank} has not {ways[k]}.", cause="the work is shared: "
                             "every rank calls its model once, with its own part, and output.backward once.")


def _ways(seen: Seen) -> dict[tuple[int, int], Way]:
    """What goes out to each rank, and what comes back."""
    step, inputs = seen.facts, seen.case.inputs[0]
    model = sum(tensor.nbytes for tensor in inputs["state"].values())
    gradients = sum(t.nbytes for name, t in inputs["state"].items() if name not in (*step.frozen, "offset"))
    labels = "labels are sent, too. Only rank 0 computes the loss, so nobody else needs them."
    ways = {}
    for rank, part in list(enumerate(inputs["images"].tensor_split(seen.size)))[1:]:
        outputs = len(part) * CLASSES * 8
        out = part.nbytes + model + outputs
        ways[0, rank] = Way(out, "its images, the model, and the gradient of its outputs", 7, {
            out + len(part) * 8: labels,
            out + step.batch_size * 8: labels,
            out + inputs["images"].nbytes - part.nbytes: "the whole batch is sent. Each rank needs its own images only.",
            out + model: "the model is sent twice in a step. Replicate it once, before forward.",
            out + (step.batch_size - len(part)) * CLASSES * 8: "the whole gradient of the outputs is sent. Each rank "
            "needs the rows of its own outputs.",
            out + gradients: "gradients are sent back. Only rank 0 has the optimizer.",
        })
        ways[rank, 0] = Way(outputs + gradients, "its outputs and its gradients", 5)
    return ways


def _mistakes(seen: Seen, name: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    right, size = _total(parts)[name], seen.size
    if right is None:
        return {}
    own_loss = _total(_work(seen, own_loss=True)[1])[name]
    return {
        "it was divided by the number of ranks. The loss is that of the whole batch: only add.": right / size,
        "gradients from before are still inside. On every rank a step begins with model.zero_grad().":
            [right + ranks for ranks in (1, size - 1, size) if ranks],
        "this is rank 0's own part. Are the gradients of the others added up at the end, and has each gone backward from "
        "its rows of outputs.grad?": parts[0][name],
        "each rank has computed with weights of its own. Is the model replicated before forward?":
            _total(_work(seen, own_weights=True)[1])[name],
        "each rank has taken images of its own. Only those of rank 0 count.":
            _total(_work(seen, own_images=True)[1])[name],
        "each rank has computed a loss of its own. There is one loss, of all outputs together, on rank 0.": own_loss,
        "these are averages of the gradients of every rank's own loss. There is one loss, of all outputs together, on "
        "rank 0.": own_loss / size,
    }


def _work(
    seen: Seen, *, own_weights: bool = False, own_images: bool = False, own_loss: bool = False,
    shown: Sequence[list[tuple[int, Any]]] = (),
) -> tuple[torch.Tensor, list[dict[str, torch.Tensor | None]]]:
    """The loss of the batch, and the gradients that each rank adds to the sum; or with a mistake.

    Args:
        own_weights, own_images: with the weights, the images that a rank has itself instead of those of rank 0.
        own_loss: each rank computes the loss of its own part.
        shown: by rank; what it passes its gates with is added here.
    """
    inputs = seen.case.inputs
    models = [Classifier(inputs[rank if own_weights else 0]["state"], _gate(seen, rank, shown), inputs[0]["frozen"])
              for rank in seen.ranks]
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
    return {name: None if own is None else torch.stack([part[name] for part in parts]).sum(dim=0)
            for name, own in parts[0].items()}
# fmt: on
