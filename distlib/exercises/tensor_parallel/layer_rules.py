"""Rules about layers that are cut over ranks: each reads, holds and keeps its share, and the values are one process's.

For cases of `tensor_parallel_cases`; `Whole` is what one process computes. Mistakes are values that usual ones give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from distlib.checks.errors import Signs
from distlib.checks.formatting import count, listed
from distlib.checks.remark import Remark
from distlib.checks.rules.flat_all_reduce import EVERYBODY
from distlib.checks.rules.values import Mistakes, explain_factor, holds, is_close, is_equal, untouched
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.exercises.tensor_parallel.cases import Attention, Column, Plan, Whole

say = Sentences(__file__)
SIGNS: Signs = (
    ("not Stored", say("read")),
    ("'Stored'", say("read")),
    ("got Stored", say("read")),
    ("(Stored", say("read")),
    ("the output is a", say("no_output")),
    ("named_parameters", say("module")),
    ("Module.__init__() call", say("module")),
    ("has no 'all_reduce'", say("function")),
    ("comm as the first argument", say("function")),
    ("Default process group", say("function")),
    ("DistStoreError", say("function")),
    ("number of gradients", say("returns")),
    ("invalid gradient", say("returns")),
    ("number of input gradients", say("returns")),
    ("inplace operation", say("copy")),
    ("leaf Variable", say("copy")),
    ("in-place operation", say("copy")),
    ("'NoneType'", say("none")),
    ("through the graph a second time", say("second_time")),
    ("tuple index out of range", say("dimensions")),
    ("shapes cannot be multiplied", say("do_not_fit")),
    ("waits to", say("waits")),
)
Table = Callable[[Whole, str, int, int], Mistakes]  # "output", "input" or a stored tensor's name; rank; batch


@dataclass(frozen=True)
class ExpectedTraffic:
    """What is to be sent.

    Attributes:
        what: as a sentence: "One all-reduce of the output in each forward pass".
        nbytes, number: of all tensors that are reduced, together, and how many there are.
        more: the bytes of what a usual mistake reduces, or gathers, besides; and the words for it.
    """

    what: str
    nbytes: int
    number: int
    more: Sequence[tuple[int, str]]


def judged(
    seen: Seen, mistakes: Table, costs: Callable[[Whole], ExpectedTraffic], *, output: str, gradient: str
) -> Iterator[Remark | None]:
    """All rules of this file.

    Args:
        mistakes: the values that usual mistakes give.
        costs: what is to be sent.
        output, gradient: causes of wrong values where none of the mistakes fits.
    """
    yield from refuses(seen)
    if divides(seen.facts):
        whole = Whole(seen.case)
        yield from reads_its_share(seen, whole)
        yield from holds_its_share(seen, whole) if "held" in seen[0] else ()
        yield from leaves_its_shape(seen)
        yield from computes_as_one(seen, whole, mistakes, output, gradient)
        yield from leaves_its_input(seen)
        yield from reduces(seen, costs(whole))
        yield from keeps_little(seen, whole)


def signs(seen: Seen) -> Signs:
    """Words of errors and their causes, for a case."""
    undivided = say("undivided")
    return SIGNS if divides(seen.facts) else (("rror", undivided), ("waits to", undivided))


def divides(plan: Plan) -> bool:
    """Whether the ranks can have equal shares."""
    return plan.cut[0] % plan.ranks == 0


def refuses(seen: Seen) -> Iterator[Remark | None]:
    """Only a plan that does not divide is refused, and that on every rank."""
    size, what = seen.facts.cut
    for rank in seen.ranks:
        refused, numbers = seen[rank].get("refused"), {"ranks": seen.size, "size": size, "what": what, "rank": rank}
        if divides(seen.facts):
            if refused is not None:
                yield say.remark("refused", f"ValueError: {refused}", **numbers)
        elif refused is None:
            yield say.remark("not_refused", **numbers)
        else:
            for name, read in seen[rank]["read"].items():
                if read.any():
                    yield say.remark("reads_first", rank=rank, name=name)


# ── what a rank reads and holds ──────────────────────────────────────────────────────────────────────────────────────


def reads_its_share(seen: Seen, whole: Whole) -> Iterator[Remark | None]:
    """Each rank reads its share of every stored tensor, all of it and nothing else."""
    for rank in seen.ranks:
        for name, tensor in whole.stored.items():
            read, own = seen[rank]["read"][name], torch.zeros(tensor.shape, dtype=torch.bool)
            own[whole.shares[rank].stored[name]] = True
            if not torch.equal(read, own):
                wrong = "reads_all" if read.all() else "reads_another" if read.any() else "reads_nothing"
                compared = (f"expected {described(own)}", f"found    {described(read)}")
                yield say.remark(wrong, *compared, rank=rank, name=name)


def described(mask: torch.Tensor) -> str:
    """Elements in words: "rows 0 to 3", "columns 4 to 7", "entries 0 and 2", "nothing"."""
    if not mask.any() or mask.all():
        return "everything" if mask.all() else "nothing"
    if mask.dim() == 1:
        return f"entries {_runs(mask)}"
    rows, columns = mask.any(dim=1), mask.any(dim=0)
    parts = [f"rows {_runs(rows)}"] * (not rows.all()) + [f"columns {_runs(columns)}"] * (not columns.all())
    return ", of these ".join(parts) or "parts of all rows"


def _runs(mask: torch.Tensor) -> str:
    numbers = mask.nonzero().flatten().tolist()
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return " and ".join(f"{a} to {b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True))


def holds_its_share(seen: Seen, whole: Whole) -> Iterator[Remark | None]:
    """The parameters of a layer are the shares as they were read, and there is nothing besides."""
    for rank in seen.ranks:
        held = seen[rank]["held"]
        for name in whole.stored:
            yield _holds_parameter(seen, whole, rank, name)
        for name in held.keys() - whole.stored.keys():
            yield say.remark("holds_more", rank=rank, name=name, shape=list(held[name].shape))


def _holds_parameter(seen: Seen, whole: Whole, rank: int, name: str) -> Remark | None:
    held, index = seen[rank]["held"], whole.shares[rank].stored[name]
    share = whole.stored[name].detach()[index]
    hidden = [known for known, each in held.items() if known not in whole.stored and is_equal(each.data, share)]
    mistakes = {say("transposed"): share.t()}
    otherwise = say("other_name", hidden=hidden[0], name=name) if hidden else say("as_it_was_read", name=name)
    return holds(f"on rank {rank} the parameter {name}", held.get(name), share, mistakes, otherwise=otherwise)


# ── what it computes ─────────────────────────────────────────────────────────────────────────────────────────────────


def computes_as_one(seen: Seen, whole: Whole, mistakes: Table, output: str, gradient: str) -> Iterator[Remark | None]:
    """Outputs and gradients are those of one process. Arguments as of `judged`."""
    judge = _OneProcess(seen, whole, mistakes, output, gradient)
    pairs = [(rank, batch) for batch in range(len(whole.batches)) for rank in seen.ranks]
    names = [(rank, name) for rank in seen.ranks for name in whole.stored] if pairs else []
    for rank, batch in pairs:
        right = whole.outputs[batch][whole.shares[rank].outputs]
        yield judge.same("output", rank, batch, seen[rank]["outputs"][batch], right)
    for rank, batch in () if seen.facts.forward_only else pairs:
        right = gradient_of(whole.batches[batch])[whole.shares[rank].inputs]
        yield judge.same("input", rank, batch, seen[rank]["input_gradients"][batch], right)
    for rank, name in () if seen.facts.forward_only else names:
        found, share = seen[rank]["gradients"][name], whole.shares[rank].stored[name]
        if found is not None and isinstance(seen.facts, Attention):  # the play collects it in a tensor like the whole
            found = found[share]
        yield judge.same(name, rank, 0, found, gradient_of(whole.stored[name])[share])


@dataclass(frozen=True)
class _OneProcess:
    """Judges single values of a rank. Attributes as the arguments of `judged`."""

    seen: Seen
    whole: Whole
    mistakes: Table
    output: str
    gradient: str

    def same(self, what: str, rank: int, batch: int, found: torch.Tensor | None, right: torch.Tensor) -> Remark | None:
        """A value must be that of one process. `what`: as of a `Table`."""
        kind = {"output": "output", "input": "gradient of the input"}.get(what, f"gradient of its share of {what}")
        if len(self.whole.batches) > 1 and what not in self.whole.stored:
            kind += f" of batch {batch + 1}"
        if found is None:
            otherwise = say("no_bias_gradient" if what == "bias" else "no_gradient")
        else:
            otherwise = explain_factor(found, right) + (self.output if what == "output" else self.gradient)

        def mistakes() -> Mistakes:
            return {**self._mistakes(what, rank, batch), say("zeros"): torch.zeros_like(right)}

        return holds(f"on rank {rank} the {kind}", found, right, mistakes, same=is_close, otherwise=otherwise)

    def _mistakes(self, what: str, rank: int, batch: int) -> Mistakes:
        return {
            **self.mistakes(self.whole, what, rank, batch),
            **_reduced(self.whole, what),
            **_of_other_batches(self.whole, what, rank, batch),
            **_of_the_other_layer(self.seen, what, rank, batch),
        }


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """The gradient of a tensor that has one."""
    assert tensor.grad is not None
    return tensor.grad


def _value(whole: Whole, what: str, rank: int, batch: int) -> torch.Tensor:
    """What a rank should find: its part of an output, of the gradient of an input or of a stored tensor."""
    share = whole.shares[rank]
    if what == "output":
        return whole.outputs[batch][share.outputs]
    if what == "input":
        return gradient_of(whole.batches[batch])[share.inputs]
    return gradient_of(whole.stored[what])[share.stored[what]]


def _reduced(whole: Whole, name: str) -> Mistakes:
    shares = [_value(whole, name, rank, 0) for rank in whole.ranks] if name in whole.stored else []
    if len(shares) < 2 or torch.equal(shares[0], shares[-1]):
        return {}
    total = torch.stack(shares).sum(0)
    return {say("reduced"): [total, total / len(shares)]}


def _of_other_batches(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    batches = range(len(whole.batches))
    if what not in whole.stored:
        return {say("other_batch"): [_value(whole, what, rank, k) for k in batches if k != batch]}
    found = [whole.gradient_of_one_input(what, k) for k in batches if len(batches) > 1]
    share = whole.shares[rank].stored[what]
    return {say("one_input"): [each[share] for each in found if each is not None]}


def _of_the_other_layer(seen: Seen, what: str, rank: int, batch: int) -> Mistakes:
    if not seen.facts.next_to:
        return {}
    names = list(seen.facts.shapes)
    wholes = [_with_tensors_of_the_other(seen, some) for some in (names, *([name] for name in names))]
    return {say("other_layer"): [_value(whole, what, rank, batch) for whole in wholes]}


def _with_tensors_of_the_other(seen: Seen, names: Sequence[str]) -> Whole:
    """What comes of the other layer's tensors of these names, and of this one's else."""

    def exchanged(given: Mapping[str, Any]) -> dict[str, Any]:
        return {**given, **{name: given["other"][name] for name in names}}

    return Whole(replace(seen.case, inputs=[exchanged(given) for given in seen.case.inputs]))


# ── what it leaves, sends and keeps ──────────────────────────────────────────────────────────────────────────────────


def leaves_its_shape(seen: Seen) -> Iterator[Remark | None]:
    """The inputs have the shapes that they had: else nothing about their gradients can be said."""
    for rank in seen.ranks:
        for found, before in zip(seen[rank]["batches"], seen.case.inputs[rank]["batches"], strict=True):
            if found.shape != before.shape:
                yield say.remark("reshaped", rank=rank, found=list(found.shape), before=list(before.shape))


NOT_YOURS = say("not_yours")


def leaves_its_input(seen: Seen, cause: str = NOT_YOURS) -> Iterator[Remark | None]:
    """The inputs, and the gradients of the outputs, are as they were."""
    for rank in seen.ranks:
        for name, what in (("batches", "input"), ("arriving", "gradient of the output")):
            for found, before in zip(seen[rank][name], seen.case.inputs[rank][name], strict=True):
                yield untouched(f"on rank {rank} the {what}", found, before, cause)


def reduces(seen: Seen, costs: ExpectedTraffic) -> Iterator[Remark | None]:
    """The messages are those of these all-reduces, and no others."""
    ring = 2 * (seen.size - 1)
    sent, due = seen.trace.bytes_sent, ring * costs.nbytes
    if sum(sent) != due:
        each, found = f"bytes sent by each rank: {listed(sent)}", count(sum(sent), "byte")
        yield say.remark("bytes", each, found=found, what=costs.what, due=due, cause=_why_more(seen, costs))
    for rank, number in enumerate(seen.trace.messages_sent):
        most = ring * costs.number
        if number > most:
            yield say.remark("messages", rank=rank, found=count(number, "message"), what=costs.what, most=most)


def _why_more(seen: Seen, costs: ExpectedTraffic) -> str:
    """Why other bytes were sent than these all-reduces send."""
    ring, sent = 2 * (seen.size - 1), sum(seen.trace.bytes_sent)
    due = ring * costs.nbytes
    if 2 * sent == seen.size * due:
        return EVERYBODY
    causes = [cause for size, cause in costs.more if sent - due in (ring * size, ring * size // 2)]  # reduced, gathered
    return " Or: ".join(causes[:2]) or say("nothing_else")


def keeps_little(seen: Seen, whole: Whole) -> Iterator[Remark | None]:
    """No tensor that is kept for the backward pass is a whole weight, or as large as the largest one.

    On up to three ranks queries and keys, say, may together have the shape of the whole weight of attention's output.
    """
    weights = [stored for stored in whole.stored.values() if stored.dim() > 1]
    for rank in seen.ranks if seen.size > 1 else ():
        kept = seen[rank]["kept"] if seen.size > 3 or isinstance(seen.facts, Column) else []
        found = [f"of shape {shape}" for shape in kept if sorted(shape) in [sorted(weight.shape) for weight in weights]]
        if (largest := seen[rank]["largest"]) >= max(weight.numel() for weight in weights):
            found.append(f"of {largest:,} elements")
        if found:
            yield say.remark("large", rank=rank, tensor=found[0])
