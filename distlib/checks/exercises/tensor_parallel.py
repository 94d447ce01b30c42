"""Exercise 10: layers that are cut. What usual mistakes give and send; the rules that judge are in `rules.shares`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distlib.checks.attention_ways import WAYS
from distlib.checks.case import Case
from distlib.checks.rules import shares
from distlib.checks.rules.values import Mistakes
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.tensor_parallel_cases import Attention, Column, Row, Whole, cut_case

# fmt: off
GRAPH = "Does each operator hand its gradient on as it should, and keep what its own batch needs? Is something cut off, by detach() or .data?"
SUMMED_INPUT = "the input was added up over the ranks. All ranks have the same input: it enters as it is. Do two operators stand in each other's place?"
SHARE_ONLY = "is gathered. A rank computes with its share."

# ── ColumnParallelLinear ─────────────────────────────────────────────────────────────────────────────────────────────

@task("comm", "weight", "bias", helpers=("all_reduce",), errors=shares.signs)
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

@task("comm", "weight", "bias", helpers=("all_reduce",), errors=shares.signs)
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

@task("comm", "x", "qkv_weight", "output_weight", "heads", helpers=("all_reduce",), errors=shares.signs)
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
    return shares.Costs("One all-reduce of the output in each forward pass, and one of the input's gradient in each backward pass,", both * nbytes, both * len(whole.batches), [
        (2 * nbytes, "queries, keys and values have an all-reduce each in the backward pass. Let the input pass one operator, and then go into all three."),
        (nbytes, "the output or a gradient is reduced twice, or the heads are gathered. What a head gives is needed on its own rank alone."),
        *((stored.nbytes, f"{name} {SHARE_ONLY}") for name, stored in whole.stored.items()),
    ])
