"""Exercise 10: layers and a loss that are cut. What usual mistakes give and send; the rules that judge are in `rules.shares`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.helpers import all_reduce
from distlib.checks.remark import Remark
from distlib.checks.rules.flat import EVERYBODY
from distlib.checks.rules.values import Mistakes, explain_factor, holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count, listed
from distlib.exercises.tensor_parallel import shares
from distlib.exercises.tensor_parallel.attention_ways import WAYS
from distlib.exercises.tensor_parallel.cases import Attention, Column, Row, Whole, cut_case
from distlib.exercises.tensor_parallel.vocabulary_cases import Loss, WholeLoss, loss_case

# fmt: off
GRAPH = "Does each operator hand its gradient on as it should, and keep what its own batch needs? Is something cut off, by detach() or .data?"
SUMMED_INPUT = "the input was added up over the ranks. All ranks have the same input: it enters as it is. Do two operators stand in each other's place?"
SHARE_ONLY = "is gathered. A rank computes with its share."

# ── ColumnParallelLinear ─────────────────────────────────────────────────────────────────────────────────────────────

@task("comm", "weight", "bias", helpers=[all_reduce], errors=shares.signs)
def check_column_parallel_linear(draw: Draw, *, layers: Sequence[Column]) -> Iterator[Case]:
    """The class `function(comm, weight, bias)`: rows of the weight, output features of this rank, one all-reduce backward."""
    yield from (cut_case(draw, layer) for layer in layers)


@check_column_parallel_linear.judge
def _(seen: Seen) -> Remarks:
    yield from shares.judged(seen, _column_mistakes, _column_costs, output="It is linear(x, weight, bias) with this rank's rows.", gradient=GRAPH)


def _column_mistakes(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    if what == "output":
        bias, parts = whole.stored.get("bias"), [whole.part(other, batch)[0] for other in whole.ranks]
        return {
            SUMMED_INPUT: whole.part(rank, batch, times=whole.plan.ranks)[0],
            "this is the whole output. A rank returns its own features alone; what comes next works on these.": whole.outputs[batch],
            "these are another rank's features.": parts[:rank] + parts[rank + 1:],
            "the bias is missing. Every rank adds its share of it.": None if bias is None else parts[rank] - bias.detach()[whole.shares[rank].stored["bias"]],
            "the ranks' outputs were added up. They are different features, and stay where they are.": sum(parts),
        }
    return _input_mistakes(whole, rank, batch) if what == "input" else {}


def _input_mistakes(whole: Whole, rank: int, batch: int) -> Mistakes:
    own, right = [whole.part(other, batch)[1] for other in whole.ranks], shares.gradient_of(whole.batches[batch])
    return {
        "this is what this rank alone finds. All ranks use the input: its gradient is the sum over the ranks. One all-reduce, in the backward pass.": own[rank],
        "this is the average over the ranks. It is the sum: what each rank finds counts in full.": right / len(own),
        "it was added up over the ranks twice, and so counts once more per rank. Once is enough: then all ranks have the sum.": right * len(own),
    }


def _column_costs(whole: Whole) -> shares.Costs:
    passes, weight = (0 if whole.plan.forward_only else len(whole.batches)), whole.stored["weight"].nbytes
    return shares.Costs("One all-reduce of the input's gradient in each backward pass, and nothing in the forward pass,", passes and whole.input_bytes, passes, [
        (whole.output_bytes, "the output is gathered, or its gradient. A rank's features stay where they are."),
        (whole.input_bytes, "the input is sent, or its gradient reduced twice. All ranks have the same input already."),
        (weight, f"the weight {SHARE_ONLY}"),
    ])


# ── RowParallelLinear ────────────────────────────────────────────────────────────────────────────────────────────────

@task("comm", "weight", "bias", helpers=[all_reduce], errors=shares.signs)
def check_row_parallel_linear(draw: Draw, *, layers: Sequence[Row]) -> Iterator[Case]:
    """The class `function(comm, weight, bias)`: columns of the weight, input features of this rank, one all-reduce forward."""
    yield from (cut_case(draw, layer) for layer in layers)


@check_row_parallel_linear.judge
def _(seen: Seen) -> Remarks:
    yield from shares.judged(seen, _row_mistakes, _row_costs, output="It is the sum over the ranks of linear(x, weight), plus the bias.", gradient=f"{GRAPH} Is the bias added after the sum, on every rank?")


def _row_mistakes(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    size, share = whole.plan.ranks, whole.shares[rank]
    if what == "output":
        bias = whole.stored["bias"].detach() if "bias" in whole.stored else 0
        own, right, total = whole.part(rank, batch)[0], whole.outputs[batch], whole.outputs[batch] - bias
        return {
            "this is what comes of this rank's input features. The output is the sum over the ranks: one all-reduce, in the forward pass.": [own, own + bias],
            "the bias was added on every rank before the sum, and so counts once per rank. Add it after the sum.": right + (size - 1) * bias,
            "this is the average over the ranks. The parts are added up: each counts in full.": [total / size, total / size + bias, right / size],
            "the bias is missing. Add it after the sum, on every rank.": total,
        }
    own = shares.gradient_of(whole.batches[batch])[share.inputs] if what == "input" else shares.gradient_of(whole.stored[what])[share.stored[what]]
    return {
        "it was added up over the ranks, and so counts once per rank. All ranks have the same gradient of the output already: backward sends nothing.": own * size,
        "it was divided by the number of ranks. A sum hands its gradient on to each of its parts, as it is.": own / size,
    }


def _row_costs(whole: Whole) -> shares.Costs:
    return shares.Costs("One all-reduce of the output in each forward pass, and nothing in the backward pass,", whole.output_bytes, len(whole.batches), [
        (whole.output_bytes, "the output is reduced twice, or its gradient is. All ranks have the same gradient already."),
        (whole.input_bytes, "the inputs are gathered, or their gradients. A rank needs its own features alone."),
        (whole.stored["weight"].nbytes, f"the weight {SHARE_ONLY}"),
        (8 * whole.plan.out_features, "the bias is sent, or its gradient. It is the same on all ranks."),
    ])


# ── parallel_attention ───────────────────────────────────────────────────────────────────────────────────────────────

@task("comm", "x", "qkv_weight", "output_weight", "heads", helpers=[all_reduce], errors=shares.signs)
def check_parallel_attention(draw: Draw, *, attentions: Sequence[Attention]) -> Iterator[Case]:
    """`function(comm, x, qkv_weight, output_weight, heads)`: this rank's heads, one all-reduce forward and one backward."""
    yield from (cut_case(draw, attention) for attention in attentions)


@check_parallel_attention.judge
def _(seen: Seen) -> Remarks:
    yield from shares.judged(seen, _attention_mistakes, _attention_costs, output="It is softmax(q·kᵀ / √d)·v for each head, then the output's weight.", gradient=GRAPH)


def _attention_mistakes(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    if what != "output":
        return _input_mistakes(whole, rank, batch) if what == "input" else {}
    return {
        SUMMED_INPUT: whole.part(rank, batch, times=whole.plan.ranks)[0],
        "this is what this rank's heads give. The output is the sum over the ranks: one all-reduce, in the forward pass.": whole.part(rank, batch)[0],
        "this is the average over the ranks. The parts are added up: each counts in full.": whole.outputs[batch] / whole.plan.ranks,
        **{words: sum(whole.part(other, batch, how=how)[0] for other in whole.ranks) for how, words in WAYS.items()},
    }


def _attention_costs(whole: Whole) -> shares.Costs:
    both, nbytes = (1 if whole.plan.forward_only else 2), whole.input_bytes
    other = whole.batches[0].nbytes if whole.plan.next_to else 0  # that of the other layer
    return shares.Costs("One all-reduce of the output in each forward pass, and one of the input's gradient in each backward pass,", both * nbytes + other, both * len(whole.batches) + whole.plan.next_to, [
        (2 * nbytes, "queries, keys and values have an all-reduce each in the backward pass. Let the input pass one operator, and then go into all three."),
        (nbytes, "the output or a gradient is reduced twice, or the heads are gathered. What a head gives is needed on its own rank alone."),
        *((stored.nbytes, f"{name} {SHARE_ONLY}") for name, stored in whole.stored.items()),
    ])


# ── vocabulary_parallel_loss ─────────────────────────────────────────────────────────────────────────────────────────

OVERFLOW = "an exponential has overflowed, or all of them are 0. Subtract the largest logit of the position before exp(): the largest of all ranks."
KEPT = "it belongs to another batch. Is something kept from one call to the next?"
LOSS_SIGNS: Signs = (
    *((sign, "logits.max(dim=1) gives two tensors, the largest logits and their columns: take .values, or use logits.amax(dim=1).") for sign in ("return_types.max", "got a max of 2 tensors")),
    ("out of bounds", "a target may be another rank's token, and has no column here. Which targets are first, first + 1, …, up to this rank's last token?"),
    ("the output is a", "return the loss, a tensor of shape []. all_reduce itself returns nothing, and .item() makes a number of it, which has no gradient."),
    *shares.SIGNS,
)


@task("comm", "logits", "targets", "first", helpers=[all_reduce], errors=LOSS_SIGNS)
def check_vocabulary_parallel_loss(draw: Draw, *, losses: Sequence[Loss]) -> Iterator[Case]:
    """`function(comm, logits, targets, first)`: three numbers per position forward, nothing backward, and no logits of others."""
    yield from (loss_case(draw, loss) for loss in losses)


@check_vocabulary_parallel_loss.judge
def _(seen: Seen) -> Remarks:
    whole = WholeLoss(seen.case)
    yield from shares.leaves_its_shape(seen)
    for batch, right in enumerate(whole.losses):
        of_batch = f" of batch {batch + 1}" * (len(whole.losses) > 1)
        for rank in seen.ranks:
            found = seen[rank]["outputs"][batch]
            yield holds(f"on rank {rank} the loss{of_batch}", found, right, partial(_loss_mistakes, whole, rank, batch), same=is_close, otherwise=_of_a_loss(found, right))
    for batch, right in enumerate(whole.gradients):
        of_batch = f" of batch {batch + 1}" * (len(whole.losses) > 1)
        for rank, own in enumerate(whole.parts(right)):
            found = seen[rank]["input_gradients"][batch]
            yield holds(f"on rank {rank} the gradient of the logits{of_batch}", found, own, partial(_logits_mistakes, whole, rank, batch), same=is_close, otherwise=NO_LOSS_GRADIENT if found is None else (explain_factor(found, own) + GRAPH))
    yield from _leaves_loss_inputs(seen)
    yield from _sends_little(seen, whole)
    yield from _keeps_no_logits(seen, whole)


NO_LOSS_GRADIENT = "no gradient gets there. The sums over the ranks and the logits of the targets need one: is there a detach(), a .data or a .item() on the way? all_reduce is not seen by torch: with_backward says what goes back."


def _of_a_loss(found: object, right: torch.Tensor) -> str:
    if not isinstance(found, torch.Tensor) or found.shape != right.shape:
        return ""
    if not found.isfinite():
        return OVERFLOW
    nearly = "this is almost right. Is it rounded on its way, or of a smaller dtype such as float32? "
    return nearly * bool((found - right).abs() < 1e-4 * right.abs()) + "It is the mean over the positions of log(sum of the exponentials of all logits) − the logit of the target."


def _loss_mistakes(whole: WholeLoss, rank: int, batch: int) -> Mistakes:
    logits, targets, size = whole.logits[batch], whole.targets[batch], len(whole.plan.shares)
    right, rows, parts = whole.losses[batch], range(len(targets)), whole.parts(logits)
    at_target, largest = logits[rows, targets], torch.stack([part.amax(1) for part in parts])
    own_sums = torch.stack([(part - most[:, None]).exp().sum(1) for part, most in zip(parts, largest, strict=True)])
    sums_here = [parts[r].logsumexp(1) for r in range(size)]
    is_own = [(targets >= columns.start) & (targets < columns.stop) for columns in whole.columns]
    shifted = [(targets - columns.start) for columns in whole.columns]
    picked = [part[rows, index.clamp(0, part.shape[1] - 1)] for part, index in zip(parts, shifted, strict=True)]
    one_more, not_after, not_before = [[is_in(targets, columns) for columns in whole.columns] for is_in in (
        lambda t, c: (t >= c.start) & (t <= c.stop), lambda t, c: t < c.stop, lambda t, c: t >= c.start)]
    around = [part[rows, index % part.shape[1]] for part, index in zip(parts, shifted, strict=True)]
    equal = [targets - rank * part.shape[1] for rank, part in enumerate(parts)]  # as if all shares were equal
    in_equal = [(index >= 0) & (index < part.shape[1]) for part, index in zip(parts, equal, strict=True)]
    picked_equal = [part[rows, index.clamp(0, part.shape[1] - 1)] for part, index in zip(parts, equal, strict=True)]
    clamped = sum(picked)
    wrapped = sum(around)
    zeroth = sum(part[rows, index * own] for part, index, own in zip(parts, shifted, is_own, strict=True))
    shift, lse = largest.amax(0), logits.logsumexp(1)

    def without(counted: Sequence[torch.Tensor], values: Sequence[torch.Tensor], most: torch.Tensor | float) -> torch.Tensor:
        """The loss if each rank takes `values` away where `counted` says so."""
        return (lse - most - sum((value - most) * own for value, own in zip(values, counted, strict=True))).mean()

    return {
        "this is what this rank's tokens give alone. The sum of the exponentials goes over all ranks.": [(sums_here[rank] - at_target).mean(), (sums_here[rank] - at_target * is_own[rank]).mean()],
        "each rank has subtracted its own largest logit. Then the sums don't fit together: subtract the largest of all ranks (op=ReduceOp.MAX).": [(own_sums.sum(0).log() + most - at_target).mean() for most in (*largest, shift)] + [(own_sums.sum(0).log() - (at_target - _largest_of_target(largest, is_own))).mean()],
        "this is the sum over the positions. The loss is their mean.": right * len(targets),
        "the loss was added up over the ranks: every rank has it already.": right * size,
        "this is the average over the ranks. The sums of the exponentials are added up: each counts in full.": [right - math.log(size), right / size],
        "the largest logit was subtracted from the others, and not from the target's. Both, or add it at the end.": [right - shift.mean(), right + shift.mean()],
        "logits of targets are missing. A target's logit is on the rank that has its token alone: the others add 0, and all ranks need the sum.": [lse.mean(), (lse - shift).mean()] + [(lse - most - (at_target - most) * own).mean() for own in is_own for most in (0, shift)],
        "the ranks' logarithms were added up. Add up the exponentials, and take the logarithm of their sum.": (torch.stack(sums_here).sum(0) - at_target).mean(),
        "the sum of the exponentials goes over the tokens of all ranks, and not only of the rank that has the target.": sum(((lse_here - at_target) * own).sum() for lse_here, own in zip(sums_here, is_own, strict=True)) / len(targets),
        "targets are counted on more than one rank. A target is this rank's where first <= target < first + share: both bounds are needed.": [without(bound, logit, most) for bound in (not_after, not_before) for logit in (picked, around) for most in (0, shift)],
        "the first token of the next rank is counted here, too. A target is this rank's where first <= target < first + share: the end is not its own.": [without(one_more, logit, most) for logit in (picked, around) for most in (0, shift)],
        "this rank's first token is `first`, as it is handed over. rank * share is another number where shares differ.": [without(in_equal, picked_equal, most) for most in (0, shift)],
        "each rank has added a logit for each target, also for those that other ranks have. Those count 0.": [(lse + (size - 1) * most - each).mean() for each in (clamped, wrapped, zeroth) for most in (0, shift)],
        KEPT: [other for k, other in enumerate(whole.losses) if k != batch],
    }


def _largest_of_target(largest: torch.Tensor, is_own: Sequence[torch.Tensor]) -> torch.Tensor:
    """For each position the largest logit of the rank that has its target. `largest`: [ranks, positions]."""
    return sum((most * own for most, own in zip(largest, is_own, strict=True)), torch.zeros_like(largest[0]))


def _logits_mistakes(whole: WholeLoss, rank: int, batch: int) -> Mistakes:
    right, arriving, columns = whole.gradients[batch], whole.arriving[batch], whole.columns[rank]
    size, positions = len(whole.plan.shares), len(whole.targets[batch])
    softmax, at_target = whole.softmax(batch), whole.at_target(batch)
    own_softmax = whole.logits[batch][:, columns].softmax(1)
    total = sum((part for part in whole.parts(right) if part.shape == right[:, columns].shape), torch.zeros(()))
    return {
        "it was added up over the ranks, and so counts once per rank. All ranks have the same loss: its gradient is whole already, and backward sends nothing.": right[:, columns] * size,
        "it was divided by the number of ranks. A sum hands its gradient on to each of its parts, as it is.": right[:, columns] / size,
        "the loss is the mean over the positions, and so is its gradient: divide by their number, once.": [right[:, columns] * positions, right[:, columns] / positions],
        "the gradient of the loss is left out. backward is given one: it multiplies all others.": right[:, columns] / arriving,
        "this is the softmax without the 1 that is subtracted at the target.": arriving * softmax[:, columns] / positions,
        "this is the softmax of this rank's tokens alone. It goes over all tokens: divide by the sum over all ranks.": [arriving * (own_softmax - at_target[:, columns]) / positions, arriving * own_softmax / positions],
        "the sign is the other way round: softmax, minus 1 at the target.": -right[:, columns],
        "only the logits of the targets have a gradient. The sum of the exponentials depends on all logits: is it cut off?": -arriving * at_target[:, columns] / positions,
        "the ranks' gradients were added up. They belong to different tokens: each stays where it is.": [total] if size > 1 else [],
        "the gradient also goes through the largest logit. That is a constant: it shifts all logits, and drops out of the loss. Take it of logits.detach().": _through_the_largest(whole, rank, batch),
        "these are zeros: nothing got there.": torch.zeros_like(right[:, columns]),
        KEPT: [factor * other[:, columns] for k, other in enumerate(whole.gradients) if k != batch for factor in (1, arriving / whole.arriving[k])],
    }


def _through_the_largest(whole: WholeLoss, rank: int, batch: int) -> list[torch.Tensor]:
    """The gradients where the largest logit has one, too: on each rank that of its own tokens, or on the rank that has it."""
    logits, columns, positions = whole.logits[batch], whole.columns[rank], len(whole.targets[batch])
    own, right = logits[:, columns], whole.gradients[batch][:, columns]
    at_largest = torch.nn.functional.one_hot(own.argmax(1), own.shape[1]).double()
    is_largest = (own.amax(1) == logits.amax(1)).double().unsqueeze(1)
    added_back = whole.arriving[batch] / positions * (1 - whole.softmax(batch)[:, columns].sum(1, keepdim=True))
    return [right + at_largest * weight * more for more in (-right.sum(1, keepdim=True), added_back) for weight in (1, is_largest)]


def _leaves_loss_inputs(seen: Seen) -> Iterator[Remark | None]:
    yield from shares.leaves_its_input(seen, "it belongs to the caller. logits - top is a new tensor, logits -= top is not; and all_reduce writes into its tensor: reduce a copy, tensor.clone().")
    for rank in seen.ranks:
        for found, before in zip(seen[rank]["targets"], seen.case.inputs[rank]["targets"], strict=True):
            yield untouched(f"on rank {rank} the tensor of the targets", found, before, "it belongs to the caller. Write into a copy: targets - first is a new tensor, targets -= first is not.")


def _sends_little(seen: Seen, whole: WholeLoss) -> Iterator[Remark | None]:
    """At most three all-reduces of one number per position each, or as many bytes in fewer of them."""
    ring, sent, passes = 2 * (seen.size - 1), seen.trace.bytes_sent, len(whole.losses)
    most, gathered = ring * 8 * whole.most_numbers, (seen.size - 1) * sum(each.nbytes for each in whole.logits)
    what = "All-reduces of three numbers per position"
    if sum(sent) > most:
        cause = "that is enough for the logits of all ranks. Three numbers are enough: the largest, the sum of the exponentials, and the logit of the target." if sum(sent) >= gathered else "the largest logit, the sum of the exponentials, the logit of the target: each of them once. Backward sends nothing."
        yield Remark(f"the values are right, but {count(sum(sent), 'byte')} were sent. {what} send {most:,} in all.", (f"bytes sent by each rank: {listed(sent)}",), EVERYBODY if 2 * sum(sent) == seen.size * most else cause)
    for rank, found in enumerate(seen.trace.messages_sent):
        if found > 3 * ring * passes:
            yield Remark(f"the values are right, but rank {rank} sent {count(found, 'message')}. {what} take at most {3 * ring * passes}.", cause="every message pays for its latency. One call of all_reduce takes a tensor of any shape: all positions at once.")


def _keeps_no_logits(seen: Seen, whole: WholeLoss) -> Iterator[Remark | None]:
    """On three ranks or more, no matrix that is kept for the backward pass, or made on the way, has a column for every token."""
    wide = [sorted(logits.shape) for logits in whole.logits]
    for rank in seen.ranks if seen.size > 2 else ():
        for verb, shapes in (("keeps for its backward pass", seen[rank]["kept"]), ("makes", seen[rank]["made"])):
            found = next((shape for shape in shapes if sorted(shape) in wide), None)
            if found:
                yield Remark(f"the values are right, but rank {rank} {verb} a tensor of shape {found}: it has a column for every token.", cause="compute with this rank's columns, as they are. Filled up with zeros, they are as large as all logits; a one-hot row for the whole vocabulary is, too.")
