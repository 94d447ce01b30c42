"""Exercise 10: layers and a loss that are cut. What usual mistakes give and send; `layer_rules` judges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count, listed
from distlib.checks.helpers import all_reduce
from distlib.checks.rules.flat_all_reduce import EVERYBODY
from distlib.checks.rules.values import Mistakes, explain_factor, holds, is_close, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.tensor_parallel import layer_rules
from distlib.exercises.tensor_parallel.attention_ways import WAYS
from distlib.exercises.tensor_parallel.cases import Attention, Column, Row, Whole, cut_case
from distlib.exercises.tensor_parallel.vocabulary_cases import Loss, WholeLoss, loss_case

say = Sentences(__file__)


# ── ColumnParallelLinear ─────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "weight", "bias", helpers=[all_reduce], errors=layer_rules.signs)
def check_column_parallel_linear(draw: Draw, *, layers: Sequence[Column]) -> Iterator[Case]:
    """The class `function(comm, weight, bias)`: rows of the weight, own output features, one all-reduce backward."""
    for layer in layers:
        yield cut_case(draw, layer)


@check_column_parallel_linear.judge
def _(seen: Seen) -> Remarks:
    output, gradient = say("column_output"), say("graph")
    yield from layer_rules.judged(seen, _column_mistakes, _column_costs, output=output, gradient=gradient)


def _column_mistakes(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    if what != "output":
        return _input_mistakes(whole, rank, batch) if what == "input" else {}
    parts = [whole.part(other, batch)[0] for other in whole.ranks]
    without_bias = None
    if "bias" in whole.stored:
        without_bias = parts[rank] - whole.stored["bias"].detach()[whole.shares[rank].stored["bias"]]
    return {
        say("input_added_up"): whole.part(rank, batch, times=whole.plan.ranks)[0],
        say("column_whole"): whole.outputs[batch],
        say("column_bias_missing"): without_bias,
        say("column_added_up"): sum(parts),
    }


def _input_mistakes(whole: Whole, rank: int, batch: int) -> Mistakes:
    own, right = whole.part(rank, batch)[1], layer_rules.gradient_of(whole.batches[batch])
    return {
        say("input_own"): own,
        say("input_average"): right / whole.plan.ranks,
        say("input_twice"): right * whole.plan.ranks,
    }


def _column_costs(whole: Whole) -> layer_rules.ExpectedTraffic:
    passes = 0 if whole.plan.forward_only else len(whole.batches)
    more = [
        (whole.output_bytes, say("column_gathers_output")),
        (whole.input_bytes, say("column_sends_input")),
        (whole.stored["weight"].nbytes, say("gathered", name="the weight")),
    ]
    return layer_rules.ExpectedTraffic(say("column_costs"), whole.input_bytes if passes else 0, passes, more)


# ── RowParallelLinear ────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "weight", "bias", helpers=[all_reduce], errors=layer_rules.signs)
def check_row_parallel_linear(draw: Draw, *, layers: Sequence[Row]) -> Iterator[Case]:
    """The class `function(comm, weight, bias)`: columns of the weight, own input features, one all-reduce forward."""
    for layer in layers:
        yield cut_case(draw, layer)


@check_row_parallel_linear.judge
def _(seen: Seen) -> Remarks:
    output, gradient = say("row_output"), say("row_graph")
    yield from layer_rules.judged(seen, _row_mistakes, _row_costs, output=output, gradient=gradient)


def _row_mistakes(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    size, share = whole.plan.ranks, whole.shares[rank]
    if what == "output":
        return _row_output_mistakes(whole, rank, batch)
    if what == "input":
        own = layer_rules.gradient_of(whole.batches[batch])[share.inputs]
    else:
        own = layer_rules.gradient_of(whole.stored[what])[share.stored[what]]
    return {
        say("row_gradient_added_up"): own * size,
        say("divided"): own / size,
    }


def _row_output_mistakes(whole: Whole, rank: int, batch: int) -> Mistakes:
    size, own, right = whole.plan.ranks, whole.part(rank, batch)[0], whole.outputs[batch]
    bias = whole.stored["bias"].detach() if "bias" in whole.stored else 0
    total = right - bias
    return {
        say("row_own"): [own, own + bias],
        say("row_bias_before"): right + (size - 1) * bias,
        say("output_average"): [total / size, total / size + bias, right / size],
        say("row_bias_missing"): total,
    }


def _row_costs(whole: Whole) -> layer_rules.ExpectedTraffic:
    more = [
        (whole.output_bytes, say("row_output_twice")),
        (whole.input_bytes, say("row_gathers_input")),
        (whole.stored["weight"].nbytes, say("gathered", name="the weight")),
        (8 * whole.plan.out_features, say("row_sends_bias")),
    ]
    return layer_rules.ExpectedTraffic(say("row_costs"), whole.output_bytes, len(whole.batches), more)


# ── parallel_attention ───────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "x", "qkv_weight", "output_weight", "heads", helpers=[all_reduce], errors=layer_rules.signs)
def check_parallel_attention(draw: Draw, *, attentions: Sequence[Attention]) -> Iterator[Case]:
    """`function(comm, x, qkv_weight, output_weight, heads)`: own heads, one all-reduce forward and one backward."""
    for attention in attentions:
        yield cut_case(draw, attention)


@check_parallel_attention.judge
def _(seen: Seen) -> Remarks:
    output, gradient = say("attention_output"), say("graph")
    yield from layer_rules.judged(seen, _attention_mistakes, _attention_costs, output=output, gradient=gradient)


def _attention_mistakes(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    if what != "output":
        return _input_mistakes(whole, rank, batch) if what == "input" else {}
    ways = {words: sum(whole.part(other, batch, how=how)[0] for other in whole.ranks) for how, words in WAYS.items()}
    return {
        say("input_added_up"): whole.part(rank, batch, times=whole.plan.ranks)[0],
        say("attention_own"): whole.part(rank, batch)[0],
        say("output_average"): whole.outputs[batch] / whole.plan.ranks,
        **ways,
    }


def _attention_costs(whole: Whole) -> layer_rules.ExpectedTraffic:
    both, nbytes = 1 if whole.plan.forward_only else 2, whole.input_bytes
    other = whole.batches[0].nbytes if whole.plan.next_to else 0  # that of the other layer
    number = both * len(whole.batches) + whole.plan.next_to
    more = [
        (2 * nbytes, say("attention_three")),
        (nbytes, say("attention_twice")),
        *((stored.nbytes, say("gathered", name=name)) for name, stored in whole.stored.items()),
    ]
    return layer_rules.ExpectedTraffic(say("attention_costs"), both * nbytes + other, number, more)


# ── vocabulary_parallel_loss ─────────────────────────────────────────────────────────────────────────────────────────

LOSS_SIGNS: Signs = (
    ("return_types.max", say("two_tensors")),
    ("got a max of 2 tensors", say("two_tensors")),
    ("out of bounds", say("out_of_bounds")),
    ("the output is a", say("no_loss")),
    *layer_rules.SIGNS,
)


@task("comm", "logits", "targets", "first", helpers=[all_reduce], errors=LOSS_SIGNS)
def check_vocabulary_parallel_loss(draw: Draw, *, losses: Sequence[Loss]) -> Iterator[Case]:
    """`function(comm, logits, targets, first)`: three numbers per position forward, nothing backward.

    No rank gets logits of others.
    """
    for loss in losses:
        yield loss_case(draw, loss)


@check_vocabulary_parallel_loss.judge
def _(seen: Seen) -> Remarks:
    whole = WholeLoss(seen.case)
    yield from layer_rules.leaves_its_shape(seen)
    yield from _loses_as_one(seen, whole)
    yield from _leaves_loss_inputs(seen)
    yield from _sends_little(seen, whole)
    yield from _keeps_no_logits(seen, whole)


def _loses_as_one(seen: Seen, whole: WholeLoss) -> Remarks:
    """Losses and gradients of the logits are those of one process."""
    of_batch = [f" of batch {k + 1}" if len(whole.losses) > 1 else "" for k in range(len(whole.losses))]
    for batch, right in enumerate(whole.losses):
        for rank in seen.ranks:
            found, what = seen[rank]["outputs"][batch], f"on rank {rank} the loss{of_batch[batch]}"
            mistakes = partial(_loss_mistakes, whole, rank, batch)
            yield holds(what, found, right, mistakes, same=is_close, otherwise=_of_a_loss(found, right))
    for batch, right in enumerate(whole.gradients):
        for rank, own in enumerate(whole.parts(right)):
            found = seen[rank]["input_gradients"][batch]
            what = f"on rank {rank} the gradient of the logits{of_batch[batch]}"
            mistakes = partial(_logits_mistakes, whole, rank, batch)
            otherwise = say("no_loss_gradient") if found is None else explain_factor(found, own) + say("graph")
            yield holds(what, found, own, mistakes, same=is_close, otherwise=otherwise)


def _of_a_loss(found: object, right: torch.Tensor) -> str:
    if not isinstance(found, torch.Tensor) or found.shape != right.shape:
        return ""
    if not found.isfinite():
        return say("overflow")
    return say("loss_rounded" if (found - right).abs() < 1e-4 * right.abs() else "loss")


class _Positions:
    """What mistakes with the loss of a batch are made of, position by position.

    Attributes:
        parts: by rank, its logits, [positions, share].
        is_own: by rank, which targets are its own.
        indices: by rank, which of its columns the targets would be.
        at_target: the logits of the targets.
        log_sum, largest: of all logits, the logarithm of the sum of their exponentials, and the largest.
        log_sums, largests: the same of each rank's logits, [ranks, positions].
    """

    def __init__(self, whole: WholeLoss, batch: int) -> None:
        logits, self.targets, self.columns = whole.logits[batch], whole.targets[batch], whole.columns
        self.parts, self._rows = whole.parts(logits), range(len(self.targets))
        self.is_own = [(self.targets >= own.start) & (self.targets < own.stop) for own in self.columns]
        self.indices = [self.targets - own.start for own in self.columns]
        self.at_target = logits[self._rows, self.targets]
        self.log_sum, self.largest = logits.logsumexp(1), logits.amax(1)
        self.log_sums = torch.stack([part.logsumexp(1) for part in self.parts])
        self.largests = torch.stack([part.amax(1) for part in self.parts])

    def picked(self, indices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """By rank, the logits in these columns; each index is one that it has."""
        return [part[self._rows, index] for part, index in zip(self.parts, indices, strict=True)]

    def clamped(self, indices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """As `picked`, and where it has no such column, its first or its last one."""
        return self.picked([index.clamp(0, part.shape[1] - 1) for part, index in zip(self.parts, indices, strict=True)])

    def wrapped(self) -> list[torch.Tensor]:
        """By rank, the logits of the targets, with columns counted round and round."""
        return self.picked([index % part.shape[1] for part, index in zip(self.parts, self.indices, strict=True)])

    def loss(
        self, counted: Sequence[torch.Tensor], values: Sequence[torch.Tensor], most: torch.Tensor | float
    ) -> torch.Tensor:
        """The loss if each rank counts `values` as logits of targets where `counted` says so.

        `most` was subtracted from all logits.
        """
        at_target = sum((value - most) * own for value, own in zip(values, counted, strict=True))
        return (self.log_sum - most - at_target).mean()


def _loss_mistakes(whole: WholeLoss, rank: int, batch: int) -> Mistakes:
    at = _Positions(whole, batch)
    return {
        **_wrong_sums(at, rank, whole.losses[batch]),
        **_missing_targets(at),
        **_targets_of_others(at),
        say("other_batch"): [other for k, other in enumerate(whole.losses) if k != batch],
    }


def _wrong_sums(at: _Positions, rank: int, right: torch.Tensor) -> Mistakes:
    """Sums over tokens, ranks and positions that are not those of the loss."""
    size, own = len(at.parts), at.log_sums[rank]
    own_shifted = (at.log_sums - at.largests).exp().sum(0).log()  # each rank has subtracted its own largest logit
    largest_of_target = sum(most * own for most, own in zip(at.largests, at.is_own, strict=True))
    added_back = [*at.largests, at.largest, largest_of_target]
    return {
        say("own_tokens"): [(own - at.at_target).mean(), (own - at.at_target * at.is_own[rank]).mean()],
        say("own_largest"): [(own_shifted + most - at.at_target).mean() for most in added_back],
        say("sum_over_positions"): right * len(at.targets),
        say("loss_added_up"): right * size,
        say("loss_average"): [right - math.log(size), right / size],
        say("largest_left"): [right - at.largest.mean(), right + at.largest.mean()],
    }


def _missing_targets(at: _Positions) -> Mistakes:
    """Logits of targets are missing, or others go with them."""
    mosts = (0, at.largest)
    of_one_rank = [(at.log_sum - most - (at.at_target - most) * own).mean() for own in at.is_own for most in mosts]
    with_own_sum = sum((own_sum - at.at_target) * own for own_sum, own in zip(at.log_sums, at.is_own, strict=True))
    assert isinstance(with_own_sum, torch.Tensor)
    return {
        say("targets_missing"): [at.log_sum.mean(), (at.log_sum - at.largest).mean(), *of_one_rank],
        say("logarithms"): (at.log_sums.sum(0) - at.at_target).mean(),
        say("rank_of_target"): with_own_sum.mean(),
    }


def _targets_of_others(at: _Positions) -> Mistakes:
    """A rank counts targets that are not its own."""
    mosts, size = (0, at.largest), len(at.parts)
    clamped, wrapped = at.clamped(at.indices), at.wrapped()
    zeroth = at.picked([index * own for index, own in zip(at.indices, at.is_own, strict=True)])
    no_start = [at.targets < own.stop for own in at.columns]
    no_end = [at.targets >= own.start for own in at.columns]
    one_more = [(at.targets >= own.start) & (at.targets <= own.stop) for own in at.columns]
    equal = [at.targets - rank * part.shape[1] for rank, part in enumerate(at.parts)]  # as if all shares were equal
    in_equal = [(index >= 0) & (index < part.shape[1]) for part, index in zip(at.parts, equal, strict=True)]
    bounds = [at.loss(bound, logits, m) for bound in (no_start, no_end) for logits in (clamped, wrapped) for m in mosts]
    return {
        say("one_bound"): bounds,
        say("one_more"): [at.loss(one_more, logits, most) for logits in (clamped, wrapped) for most in mosts],
        say("equal_shares"): [at.loss(in_equal, at.clamped(equal), most) for most in mosts],
        say("every_target"): [
            (at.log_sum + (size - 1) * most - sum(logits)).mean()
            for logits in (clamped, wrapped, zeroth)
            for most in mosts
        ],
    }


def _logits_mistakes(whole: WholeLoss, rank: int, batch: int) -> Mistakes:
    columns, size, positions = whole.columns[rank], len(whole.plan.shares), len(whole.targets[batch])
    right, arriving = whole.gradients[batch][:, columns], whole.arriving[batch]
    softmax, at_target = whole.softmax(batch)[:, columns], whole.at_target(batch)[:, columns]
    own_softmax, each = whole.logits[batch][:, columns].softmax(1), arriving / positions
    alike = [part for part in whole.parts(whole.gradients[batch]) if part.shape == right.shape]
    return {
        say("gradient_added_up"): right * size,
        say("divided"): right / size,
        say("positions"): [right * positions, right / positions],
        say("arriving_left_out"): right / arriving,
        say("softmax_alone"): each * softmax,
        say("softmax_of_own"): [each * (own_softmax - at_target), each * own_softmax],
        say("sign"): -right,
        say("only_targets"): -each * at_target,
        say("other_tokens"): [sum(alike)] if size > 1 else [],
        say("through_the_largest"): _through_the_largest(whole, rank, batch),
        say("zeros"): torch.zeros_like(right),
        say("other_batch"): [
            factor * other[:, columns]
            for k, other in enumerate(whole.gradients)
            if k != batch
            for factor in (1, arriving / whole.arriving[k])
        ],
    }


def _through_the_largest(whole: WholeLoss, rank: int, batch: int) -> list[torch.Tensor]:
    """The gradients where the largest logit has one, too: on each rank that of its own tokens, or only where it is."""
    logits, columns, positions = whole.logits[batch], whole.columns[rank], len(whole.targets[batch])
    own, right = logits[:, columns], whole.gradients[batch][:, columns]
    at_largest = torch.nn.functional.one_hot(own.argmax(1), own.shape[1]).double()
    is_largest = (own.amax(1) == logits.amax(1)).double().unsqueeze(1)
    added_back = whole.arriving[batch] / positions * (1 - whole.softmax(batch)[:, columns].sum(1, keepdim=True))
    mores = (-right.sum(1, keepdim=True), added_back)
    return [right + at_largest * weight * more for more in mores for weight in (1, is_largest)]


def _leaves_loss_inputs(seen: Seen) -> Remarks:
    yield from layer_rules.leaves_its_input(seen, say("logits_changed"))
    for rank in seen.ranks:
        for found, before in zip(seen[rank]["targets"], seen.case.inputs[rank]["targets"], strict=True):
            yield untouched(f"on rank {rank} the tensor of the targets", found, before, say("targets_changed"))


def _sends_little(seen: Seen, whole: WholeLoss) -> Remarks:
    """At most three all-reduces of one number per position each, or as many bytes in fewer of them."""
    ring, sent = 2 * (seen.size - 1), seen.trace.bytes_sent
    most_bytes, most = ring * 8 * whole.most_numbers, 3 * ring * len(whole.losses)
    if sum(sent) > most_bytes:
        each, found = f"bytes sent by each rank: {listed(sent)}", count(sum(sent), "byte")
        yield say.remark("bytes", each, found=found, most=most_bytes, cause=_why_more(seen, whole, most_bytes))
    for rank, number in enumerate(seen.trace.messages_sent):
        if number > most:
            yield say.remark("messages", rank=rank, found=count(number, "message"), most=most)


def _why_more(seen: Seen, whole: WholeLoss, most_bytes: int) -> str:
    sent = sum(seen.trace.bytes_sent)
    if 2 * sent == seen.size * most_bytes:
        return EVERYBODY
    gathered = (seen.size - 1) * sum(logits.nbytes for logits in whole.logits)
    return say("all_logits" if sent >= gathered else "once_each")


def _keeps_no_logits(seen: Seen, whole: WholeLoss) -> Remarks:
    """On three ranks or more, no matrix has a column for every token.

    Neither one that is kept for the backward pass, nor one that is made on the way.
    """
    wide = [sorted(logits.shape) for logits in whole.logits]
    for rank in seen.ranks if seen.size > 2 else ():
        for name, where in (("keeps_wide", "kept"), ("makes_wide", "made")):
            shape = next((shape for shape in seen[rank][where] if sorted(shape) in wide), None)
            if shape:
                yield say.remark(name, rank=rank, shape=shape)
